# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds and packs a job's code on the controller: a script, a directory or a git repository."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import tarfile
import tempfile
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from ansible.errors import AnsibleActionFail

from ..module_utils._job.definition.options import LEFT_OUT
from ..module_utils._job.patterns import matches
from ..module_utils._text import clean_line
from .git_repositories import AmbiguousVersionError, GitError, VersionError, check_out, origin, without_credentials
from .source_paths import find, searched, similar
from .text_files import program_problem, python_problem

# The maximum number of files among which a similar name is searched for.
FILES_LIMIT = 10000

# The maximum size in bytes of a job's code, and the maximum number of its files and directories.
SIZE_LIMIT, ENTRIES_LIMIT = 20 << 30, 1_000_000


# Larger scripts are not checked. In bytes.
SCRIPT_LIMIT = 1 << 20


class SelectedCode(NamedTuple):
    """The code directory `root`, and the `names` of the entries to send.

    `origin` contains `commit`, `changed`, `repository` and `version` from git.
    """

    root: str
    names: list[str]
    origin: dict[str, Any]


@contextlib.contextmanager
def job_code(arguments: Mapping[str, Any], bases: Sequence[str]) -> Iterator[SelectedCode]:
    """Yield the code that the arguments of training_job specify. Raises AnsibleActionFail if the code is not available."""
    repository, exclude = arguments.get("repository"), patterns(arguments)
    if not repository:
        root, names = code_to_send(arguments, bases, exclude)
        yield SelectedCode(root, names, origin(root, names))
        return
    if arguments.get("source"):
        raise AnsibleActionFail("source and repository: both are set. Set only one of them.")
    shown = without_credentials(repository)
    with tempfile.TemporaryDirectory(prefix="deeplearning-") as root:
        version = arguments.get("version") or ""
        try:
            commit = check_out(find(repository, bases) or repository, version, root)
        except VersionError:
            raise AnsibleActionFail(
                f"version: {version!r} is not a branch, tag or commit of repository {shown!r}. Correct the version, or push it."
            ) from None
        except AmbiguousVersionError:
            raise AnsibleActionFail(
                f"version: {version!r} is a branch and a tag of repository {shown!r}. Specify refs/heads/{version} or refs/tags/{version}."
            ) from None
        except (GitError, OSError) as error:
            told = clean_line(str(error)).replace(repository, shown).rstrip(".")
            test = f"To test it, run: git ls-remote {shlex.quote(shown)}"
            raise AnsibleActionFail(
                f"repository: {shown!r} cannot be used on the controller: {told}. "
                f"Correct the repository, or make it readable for git on the controller. {test}"
            ) from None
        check_script(arguments.get("script"), root, f"repository {shown!r} (training_job_repository)")
        check_programs(arguments, root)
        yield SelectedCode(root, kept(root, exclude), {"commit": commit, "changed": False, "repository": shown, "version": version})


def patterns(arguments: Mapping[str, Any]) -> Sequence[str]:
    exclude = arguments.get("exclude")
    return LEFT_OUT if exclude is None else [exclude] if isinstance(exclude, str) else exclude


def code_to_send(arguments: Mapping[str, Any], bases: Sequence[str], exclude: Sequence[str]) -> tuple[str, list[str]]:
    """Return the directory of the job's code and the names of its entries. Raises AnsibleActionFail if the source or script is missing."""
    source, script = arguments.get("source"), arguments.get("script") or ""
    if source:
        root = find(source, bases)
        if root is None or not os.path.isdir(root):
            raise AnsibleActionFail(f"source: {source!r} is not a directory on the controller{searched(source, bases, os.path.isdir)}")
        check_script(script, root, f"{root} (training_job_source)")
        check_programs(arguments, root)
        return root, kept(root, exclude)
    if not script:  # without a source or a script, the job runs a command that exists on the hosts
        return os.curdir, []
    path = find(script, bases)
    if path is None or not os.path.isfile(path):
        raise AnsibleActionFail(f"script: {script!r} is not a file on the controller{searched(script, bases, os.path.isfile)}")
    _check_text("script", path, script, python_problem)
    return os.path.dirname(path), [os.path.basename(path)]


def check_programs(arguments: Mapping[str, Any], root: str) -> None:
    """Raise AnsibleActionFail if hosts cannot run the script, or the command's program in the code directory `root`."""
    script, command = arguments.get("script") or "", arguments.get("command")
    if script and not command:
        _check_text("script", os.path.join(root, script), script, python_problem)
    first = str(command[0]) if isinstance(command, (list, tuple)) and command else ""
    path = os.path.join(root, first)
    if not first or os.path.isabs(first) or not os.path.isfile(path):
        return  # a program of the hosts
    _check_text("command", path, first, program_problem)
    if "/" in first and not os.stat(path).st_mode & 0o100:
        raise AnsibleActionFail(f"command: {first!r} is not executable. Make it executable: chmod +x {shlex.quote(path)}")


def _check_text(option: str, path: str, shown: str, problem: Callable[[bytes], str]) -> None:
    with open(path, "rb") as file:
        content = file.read(SCRIPT_LIMIT + 1)
    found = problem(content) if len(content) <= SCRIPT_LIMIT else ""
    if found:
        raise AnsibleActionFail(f"{option}: {shown!r} {found}")


def check_script(script: str | None, root: str, place: str) -> None:
    """Raise AnsibleActionFail if a script is specified but is not in the directory. `place` describes the directory in the message."""
    if not script or (not os.path.isabs(script) and os.path.isfile(os.path.join(root, script))):
        return
    files = list(itertools.islice(_files(root), FILES_LIMIT))
    problem, wanted = f"is not a file in {place}", script
    if os.path.isabs(script):
        problem, wanted = f"is an absolute path, but must be relative to {place}", os.path.relpath(script, root)
    close = [wanted] if wanted in files else similar(wanted, files)
    if close:
        advice = f"Did you mean {' or '.join(map(repr, close))}?"
    elif files:
        advice = f"Specify the relative path of one of its files, for example {min(files, key=_likely_script)!r}."
    else:
        advice = "It contains no files. Add the script to it."
    raise AnsibleActionFail(f"script: {script!r} {problem}. {advice}")


def _likely_script(path: str) -> tuple[bool, int, str]:
    return not path.endswith(".py"), path.count(os.sep), path


def _files(root: str) -> Iterator[str]:
    """Yield the relative paths of the files in a directory. Directories that contain no code are skipped."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not matches(os.path.relpath(os.path.join(folder, name), root), LEFT_OUT))
        yield from (os.path.relpath(os.path.join(folder, name), root) for name in sorted(names))


def kept(root: str, exclude: Iterable[str]) -> list[str]:
    return sorted(name for name in os.listdir(root) if not matches(name, exclude))


def write_archive(path: str, code: SelectedCode, exclude: Sequence[str]) -> None:
    """Write a tar file of the code. The file contains neither user IDs nor excluded files.

    Raises AnsibleActionFail if the code exceeds the limits.
    """
    size = count = 0

    def entry(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal size, count
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        if matches(info.name, exclude):
            return None
        size, count = size + info.size, count + 1
        if size > SIZE_LIMIT or count > ENTRIES_LIMIT:
            raise AnsibleActionFail(
                f"source: {code.root} has more than {SIZE_LIMIT >> 30} GiB, or more than {ENTRIES_LIMIT} files. Exclude files with "
                "training_job_exclude, and copy data with the role dataset."
            )
        return info

    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name in code.names:
            archive.add(os.path.join(code.root, name), arcname=name, filter=entry)
