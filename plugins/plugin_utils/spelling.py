# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds variables that are all but named like one of the collection's: Ansible takes them without a word, and they have no effect."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Iterable

from ansible.utils.display import Display

COLLECTION = Path(__file__).parents[2]
#: Where variables are named that count for something.
SOURCES = ("roles/*/*/*.yml", "playbooks/*.yml", "plugins/inventory/*.py")
#: Compared is what follows the prefix; 0.75 still takes two letters that changed places in a name of four.
CUTOFF = 0.75


def warn_of_misspellings(names: Iterable[str]) -> None:
    """Show a warning for each variable that looks like one of the collection's and is none."""
    for name, meant in misspellings(names).items():
        Display().warning(f"there is no variable {name}: is {meant} meant?")


def misspellings(names: Iterable[str]) -> dict[str, str]:
    """Return the names that look like a variable of the collection and are none, each with the one that it is closest to.

    What begins with a prefix of the collection and is close to nothing is somebody's own.
    """
    known, found = known_variables(), {}
    unknown = sorted(set(names) - known)
    for prefix in prefixes():
        rests = sorted(name.removeprefix(prefix) for name in known if name.startswith(prefix))
        for name in unknown:
            if name.startswith(prefix):
                for rest in difflib.get_close_matches(name.removeprefix(prefix), rests, n=1, cutoff=CUTOFF):
                    found[name] = prefix + rest
    return found


def known_variables() -> set[str]:
    """Return every variable with a prefix of the collection that its own files name."""
    # After a dot it is a plugin's name; after another letter, part of an internal one.
    pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(prefixes())})\w*[a-z0-9]")
    return {name for source in SOURCES for file in COLLECTION.glob(source) for name in pattern.findall(file.read_text(encoding="utf-8"))}


def prefixes() -> list[str]:
    """Return what the collection's variables begin with: the names of its roles, and a common one."""
    return ["deeplearning_", *sorted(f"{path.name}_" for path in COLLECTION.glob("roles/*") if path.is_dir())]
