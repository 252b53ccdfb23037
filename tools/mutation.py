"""Shows how many faults the unit tests detect in the pure code. mutmut creates one fault at a time, and runs the function's tests.

`python tools/mutation.py` tests all files, and `python tools/mutation.py records _job.planning` tests the files with these names.
pyproject.toml lists the pure files and the tests. tests/equivalent_mutants.yml lists the mutants that do not change behavior, with reasons.

mutmut finds a module by its import path. The collection is imported as `ansible_collections.deeplearning.cluster`,
so mutmut runs in a folder with a link of that name.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / ".cache" / "mutation"
PLUGINS = Path("ansible_collections/deeplearning/cluster/plugins")
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.yml"
# Minimum percentage of faults that the tests must detect in each file.
FLOOR = 90
# The statuses that mutmut gives to detected faults. Faults in functions without tests have other statuses.
NOTICED = {"killed", "timeout", "segfault"}


class Mutant(NamedTuple):
    """A fault: the file below plugins/, the removed lines, the inserted lines, and the status that mutmut reports."""

    file: str
    before: str
    after: str
    status: str


def make_tree() -> None:
    """Create links to the files that mutmut copies, under their import paths."""
    shutil.rmtree(TREE, ignore_errors=True)
    links = {PLUGINS.parent: ROOT, **{Path(name): ROOT / name for name in ("docs", "pyproject.toml", "tests")}}
    for name, target in links.items():
        (TREE / name).parent.mkdir(parents=True, exist_ok=True)
        (TREE / name).symlink_to(target)


def run_mutmut(names: Sequence[str]) -> None:
    """Create and test the mutants of the files with these names, or of all files. Show the output of mutmut if mutmut fails."""
    patterns = [f"*.{name}.*" for name in names]
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(os.cpu_count()), *patterns]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout.replace("\r", "\n")[-5000:])


def mutants() -> Iterator[Mutant]:
    """Yield the mutants that mutmut has tested."""
    os.chdir(TREE)
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code
    from mutmut.utils.file_utils import walk_mutatable_files

    for path in sorted(walk_mutatable_files()):
        data = SourceFileMutationData(path=path)
        data.load()
        for name, code in data.exit_code_by_key.items():
            status = status_by_exit_code[code]
            if status != "not checked":
                lines = [] if status in NOTICED else get_diff_for_mutant(name, path=path).splitlines()[2:]
                before, after = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
                yield Mutant(str(path.relative_to(PLUGINS)), before, after, status)


def report(tried: Sequence[Mutant], equivalent: Sequence[Mutant]) -> list[str]:
    """Return one line for each file with the percentage of detected mutants, and two lines for each undetected mutant."""
    lines = []
    for file in dict.fromkeys(mutant.file for mutant in tried):
        own = [mutant for mutant in tried if mutant.file == file]
        missed = [mutant for mutant in own if mutant.status not in NOTICED and mutant._replace(status="") not in equivalent]
        count = sum(mutant.status in NOTICED for mutant in own)
        lines.append(f"{percent(own, missed):4} %  {count:4} of {count + len(missed):4}  {file}")
        lines += [f"          {mutant.status}: {mutant.before}\n          instead:  {mutant.after}" for mutant in missed]
    return lines


def percent(own: Sequence[Mutant], missed: Sequence[Mutant]) -> int:
    """Return the percentage of a file's detectable mutants that the tests detect."""
    noticed = sum(mutant.status in NOTICED for mutant in own)
    return 100 * noticed // ((noticed + len(missed)) or 1)


def read_equivalent() -> list[Mutant]:
    """Return the mutants that do not change observable behavior."""
    return [Mutant(entry["file"], entry["before"], entry["after"], "") for entry in yaml.safe_load(EQUIVALENT.read_text())]


def outdated(tried: Sequence[Mutant], equivalent: Sequence[Mutant]) -> list[Mutant]:
    """Return the equivalent mutants that the tests detect or that no longer exist."""
    files = {mutant.file for mutant in tried}
    survived = {mutant._replace(status="") for mutant in tried if mutant.status not in NOTICED}
    return [mutant for mutant in equivalent if mutant.file in files and mutant not in survived]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="FILE", help="name of a file without .py, such as `records` (default: all files)")
    names = parser.parse_args().names
    make_tree()
    run_mutmut(names)
    tried, equivalent = list(mutants()), read_equivalent()
    lines = report(tried, equivalent)
    print("\n".join(lines))
    stale = outdated(tried, equivalent)
    for mutant in stale:
        print(f"{EQUIVALENT.name} lists a mutant that the tests detect or that no longer exists: {mutant.file}: {mutant.after}")
    low = [line for line in lines if line.endswith(".py") and int(line.split()[0]) < FLOOR]
    if low or stale:
        raise SystemExit(f"Unit tests must detect at least {FLOOR} % of the faults in each file.")


if __name__ == "__main__":
    main()
