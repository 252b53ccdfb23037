# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a job's code is on the controller: a script, a directory or a git repository."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import subprocess
import tarfile
import tempfile
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from ansible.errors import AnsibleActionFail

# What belongs to a working directory and not to the code: history, caches, environments (which only work where they were made).
LEFT_OUT = (".git", "__pycache__", ".venv", "venv", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache")


class Code(NamedTuple):
    """The entries C(names) of the directory C(root). C(origin) is what git knows: C(commit), C(changed), C(repository), C(version)."""

    root: str
    names: list[str]
    origin: dict[str, Any]


class GitError(Exception):
    """git failed; the text is what it said."""


@contextlib.contextmanager
def job_code(arguments: Mapping[str, Any], bases: Sequence[str]) -> Iterator[Code]:
    """Yield the code that the arguments of training_job name. Raises AnsibleActionFail when there is none."""
    repository, exclude = arguments.get("repository"), patterns(arguments)
    if not repository:
        root, names = code_to_send(arguments, bases, exclude)
        yield Code(root, names, origin(root, names))
        return
    if arguments.get("source"):
        raise AnsibleActionFail("source and repository are both given: leave empty the one that does not have the code")
    shown = without_credentials(repository)
    with tempfile.TemporaryDirectory(prefix="deeplearning-") as root:
        version = arguments.get("version") or ""
        try:
            commit = check_out(find(repository, bases) or repository, version, root)
        except (GitError, OSError) as error:
            told = str(error).replace(repository, shown)
            raise AnsibleActionFail(f"repository {shown!r} cannot be used on the controller: {told}") from None
        check_script(arguments.get("script"), root, f"repository {shown!r}")
        yield Code(root, kept(root, exclude), {"commit": commit, "changed": False, "repository": shown, "version": version})


def patterns(arguments: Mapping[str, Any]) -> Sequence[str]:
    """Return the patterns of what is left out."""
    exclude = arguments.get("exclude")
    return LEFT_OUT if exclude is None else [exclude] if isinstance(exclude, str) else exclude


def code_to_send(arguments: Mapping[str, Any], bases: Sequence[str], exclude: Sequence[str]) -> tuple[str, list[str]]:
    """Return the directory and the names in it that are the job's code. Raises AnsibleActionFail when the script is missing."""
    source, script = arguments.get("source"), arguments.get("script") or ""
    if source:
        root = find(source, bases)
        if root is None or not os.path.isdir(root):
            raise AnsibleActionFail(f"source {source!r} is not a directory on the controller")
        check_script(script, root, f"source {source!r}")
        return root, kept(root, exclude)
    if not script:  # a command that is on the hosts
        return os.curdir, []
    path = find(script, bases)
    if path is None or not os.path.isfile(path):
        raise AnsibleActionFail(f"script {script!r} is not a file on the controller (looked in {', '.join(bases)})")
    return os.path.dirname(path), [os.path.basename(path)]


def check_script(script: str | None, root: str, place: str) -> None:
    """Raises AnsibleActionFail when there is a script and it is not in the directory."""
    if script and (os.path.isabs(script) or not os.path.isfile(os.path.join(root, script))):
        raise AnsibleActionFail(f"script {script!r} is not a file in {place}: give its path in there, or leave {place.split()[0]} empty")


def find(path: str, bases: Sequence[str]) -> str | None:
    """Return the first of the paths that exists when a relative one is taken from each of the bases."""
    expanded = os.path.expanduser(path)
    candidates = [os.path.join(base, expanded) for base in bases]
    return next((os.path.abspath(candidate) for candidate in candidates if os.path.exists(candidate)), None)


def kept(root: str, exclude: Iterable[str]) -> list[str]:
    """Return the names in a directory that are not left out."""
    return sorted(name for name in os.listdir(root) if not is_left_out(name, exclude))


def is_left_out(path: str, exclude: Iterable[str]) -> bool:
    """Return whether a pattern matches the name of a file or directory, or, if there is a slash in it, its path in the code."""
    name = os.path.basename(path)
    return any(fnmatch.fnmatchcase(path if "/" in pattern else name, pattern) for pattern in exclude)


def write_archive(path: str, code: Code, exclude: Sequence[str]) -> None:
    """Write a tar file of the code, with nobody's user ids and without what is left out."""

    def entry(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return None if is_left_out(info.name, exclude) else info

    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name in code.names:
            archive.add(os.path.join(code.root, name), arcname=name, filter=entry)


def check_out(repository: str, version: str, directory: str) -> str:
    """Put a version of a repository into an empty directory and return its commit. Raises GitError.

    The version is a branch, a tag, a commit, or anything else that the repository gives out; the default branch when it is empty.
    """
    if version.startswith("-"):
        raise GitError(f"version {version!r} is not a branch, tag or commit")
    git(directory, "clone", "--quiet", "--no-checkout", "--filter=blob:none", "--", repository, ".")
    commit = find_commit(directory, version)
    git(directory, "checkout", "--quiet", "--detach", commit)
    if os.path.exists(os.path.join(directory, ".gitmodules")):
        git(directory, "submodule", "--quiet", "update", "--init", "--recursive")
    return commit


def find_commit(directory: str, version: str) -> str:
    """Return the commit that a version means in a clone. Raises GitError."""
    for name in (f"refs/remotes/origin/{version}", f"refs/tags/{version}", version) if version else ("HEAD",):
        with contextlib.suppress(GitError):
            return git(directory, "rev-parse", "--quiet", "--verify", name + "^{commit}")
    try:  # a commit that no branch has, or a ref that is not fetched by itself, such as that of a merge request
        git(directory, "fetch", "--quiet", "origin", version or "HEAD")
        return git(directory, "rev-parse", "--verify", "FETCH_HEAD^{commit}")
    except GitError as error:
        raise GitError(f"version {version!r} is not a branch, tag or commit there ({error})") from None


def origin(root: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the commit of a git work tree and whether the named entries differ from it; nothing where there is none."""
    try:
        if not names:
            return {}
        commit = git(root, "rev-parse", "--verify", "HEAD^{commit}")
        return {"commit": commit, "changed": bool(git(root, "--literal-pathspecs", "status", "--porcelain", "--", *names))}
    except (GitError, OSError):
        return {}


def without_credentials(repository: str) -> str:
    """Return the address of a repository without user and password."""
    return re.sub(r"(?<=://)[^/@]+@", "", repository)


def git(directory: str, *arguments: str) -> str:
    """Return the output of git in a directory. Raises GitError, and OSError where there is no git."""
    result = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},  # nobody would see the question
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise GitError(result.stderr.strip() or f"git {arguments[0]} failed")
    return result.stdout.strip()
