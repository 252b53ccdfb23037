# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the commands that messages suggest. These commands select the same inventory and the same cluster as the current playbook run."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ansible import constants, context
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.splitter import parse_kv

from .job_formatting import next_name
from .variable_names import known_variables

# The variables that select a cluster if the inventory is not one of this collection.
CLUSTER = ("deeplearning_cluster", "deeplearning_region")
# The names of variables and dictionary keys whose values are not repeated in messages.
SECRET = re.compile(r"secret|passw|token|credential|(access|api|private)_?key|deeplearning_notify\b", re.IGNORECASE)
# The placeholder for a secret value in a command. No option of the collection accepts this placeholder in place of a secret.
NOT_SHOWN = "AS_BEFORE"


def playbook_command(playbook: str, variables: Mapping[str, Any] | None = None) -> str:
    """Return the command that runs a playbook of this collection, such as `logs`, with the options from `run_options`.

    If `variables` is not None, the command sets these variables, and also repeats all other variables that `-e` sets for the current
    playbook run. A placeholder replaces values that may be secret, and the values of variables that do not belong to the collection.
    """
    if variables is None:
        return f"ansible-playbook {run_options()}deeplearning.cluster.{playbook}"
    given = [*_variables(context.CLIARGS.get("extra_vars") or (), without=variables), *map(_assignment, variables.items())]
    return f"ansible-playbook {_join(_inventories())}deeplearning.cluster.{playbook} {_join(given)}".rstrip()


def continuing_command(job: str) -> str:
    """Return the command that repeats the current run of the playbook `train` and continues a job under a new name."""
    return playbook_command("train", {"training_job_name": next_name(job), "training_job_resume": job})


def run_options() -> str:
    """Return the options of the current playbook run that select the inventory and the cluster, each followed by a space.

    The returned options are `-i`, the variable files (`-e @file`), and the variables that specify the cluster and the region. An inventory
    from the configuration is omitted, because it is the default of all commands. Other variables are omitted too, because they may be
    secret.
    """
    return _join([*_inventories(), *_variables(context.CLIARGS.get("extra_vars") or (), names=CLUSTER)])


def _join(options: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{name} {shlex.quote(value)} " for name, value in options)


def _inventories() -> Iterator[tuple[str, str]]:
    sources = context.CLIARGS.get("inventory") or ()
    if list(sources) != list(constants.DEFAULT_HOST_LIST):
        yield from (("-i", source if "," in source else short_path(source)) for source in sources)


def _variables(given: tuple[str, ...], *, names: Collection[str] | None = None, without: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the variable files and the variables that `-e` sets: only those in `names`, if specified, and none of those in `without`."""
    for text in given:
        if text.startswith("@"):
            yield "-e", f"@{short_path(text[1:])}"
            continue
        values = yaml_load(str(text)) if text[:1] == "{" else parse_kv(text)  # Ansible itself accepts only these two formats
        for name in values if names is None else names:
            if name in values and name not in without:
                yield _assignment((name, values[name]))


def _assignment(variable: tuple[str, Any]) -> tuple[str, str]:
    """Return the option that sets a variable. Without JSON, Ansible would convert each value to a string."""
    name, value = variable
    # The user's own variables can contain anything.
    is_own = name not in (*CLUSTER, *known_variables())
    value = NOT_SHOWN if is_own else _without_secrets(name, value)
    if isinstance(value, str) and re.fullmatch(r"[\w./:@,+-]+", value):
        return "-e", f"{name}={value}"
    return "-e", json.dumps({name: value}, default=str)


def _without_secrets(name: str, value: Any) -> Any:
    """Return a value in which the placeholder replaces everything that may be secret.

    Only the name of a key can show that its value is secret.
    """
    if SECRET.search(name):
        return NOT_SHOWN
    if isinstance(value, Mapping):
        return {key: _without_secrets(str(key), each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_secrets("", each) for each in value]
    return value


def short_path(path: str) -> str:
    """Return the relative or the absolute path, whichever is shorter."""
    return min(os.path.relpath(path), os.path.abspath(path), key=len)
