# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds and packs a job's code on the controller: a script, a directory or a git repository."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import itertools
import os
import re
import shlex
import stat
import subprocess
import tarfile
import tempfile
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from ansible.errors import AnsibleActionFail

from ..module_utils._job.definition.options import LEFT_OUT
from ..module_utils._job.patterns import matches
from ..module_utils._text import clean_line
from .text_files import program_problem, python_problem

# Patterns for git's error output: the labels of lines, lines that contain no cause, and the error about a version that does not exist.
LABEL = re.compile(r"^(?:fatal|error|remote): ", re.IGNORECASE)
ADVICE = re.compile(r"(?:fatal: Could not read from remote|Please make sure you have|and the repository exists|warning: )", re.IGNORECASE)
NO_REF = re.compile("couldn't find remote ref|not our ref")

# The full ID of a commit, with SHA-1 or SHA-256.
COMMIT_ID = re.compile(r"(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})")

# The protocols that git may use to access a repository. Submodules are untrusted and must not refer to files on the controller.
TRANSPORTS, SUBMODULE_TRANSPORTS = "file:git:http:https:ssh", "git:http:https:ssh"

# Settings for working trees of other users: git fetches nothing, and runs no programs that the working tree's configuration specifies.
READING = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
READING_OPTIONS = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
INHERITED = ("HOME", "LANG", "LC_ALL", "PATH", "SUDO_UID", "TMPDIR")

# The paths of a repository and of its Git LFS server. Servers redirect a repository's URL without .git to the URL with .git.
_PATHS = "|".join(f'"path=$DEEPLEARNING_GIT_PATH{end}"' for end in ("", ".git", "/info/lfs", ".git/info/lfs"))

# git runs this command to get the password from the environment, and writes the server and the path for which it needs the password to the
# command's standard input. Other users can see command lines, but not environment variables.
CREDENTIAL_HELPER = (
    f"!while IFS= read -r line; do case $line in {_PATHS}) "
    """printf 'username=%s\\npassword=%s\\n' "$DEEPLEARNING_GIT_USER" "$DEEPLEARNING_GIT_PASSWORD";; esac; done #"""
)

# git runs no hooks: with a relative core.hooksPath in the user's configuration, files of a repository would be hooks.
NO_HOOKS = ("-c", "core.hooksPath=" + os.devnull)

WEB = ("http", "https")

ESCAPES = "In a password, write / as %2F, ? as %3F, # as %23 and @ as %40."

SUBMODULE, LINK, EXECUTABLE = "160000", "120000", "100755"
SUBMODULE_DEPTH = 5

# The maximum number of files among which a similar name is searched for.
FILES_LIMIT = 10000
# The minimum similarity of two names, from 0 to 1. The names of all Python files are somewhat similar, because they share a suffix.
SIMILAR = 0.7


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


class GitError(Exception):
    """git failed, or the URL or version is not valid. The exception's text is shown to the user."""


class VersionError(GitError):
    """The repository has no such branch, tag or commit."""


class AmbiguousVersionError(GitError):
    """The repository has a branch and a tag with this name."""


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
    """Return the patterns of files to exclude."""
    exclude = arguments.get("exclude")
    return LEFT_OUT if exclude is None else [exclude] if isinstance(exclude, str) else exclude


def code_to_send(arguments: Mapping[str, Any], bases: Sequence[str], exclude: Sequence[str]) -> tuple[str, list[str]]:
    """Return the directory of the job's code and the names of its entries. Raises AnsibleActionFail if the source or script is missing."""
    source, script = arguments.get("source"), arguments.get("script") or ""
    if source:
        root = find(source, bases)
        if root is None or not os.path.isdir(root):
            raise AnsibleActionFail(f"source: {source!r} is not a directory on the controller{_searched(source, bases, os.path.isdir)}")
        check_script(script, root, f"{root} (training_job_source)")
        check_programs(arguments, root)
        return root, kept(root, exclude)
    if not script:  # without a source or a script, the job runs a command that exists on the hosts
        return os.curdir, []
    path = find(script, bases)
    if path is None or not os.path.isfile(path):
        raise AnsibleActionFail(f"script: {script!r} is not a file on the controller{_searched(script, bases, os.path.isfile)}")
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


def similar(path: str, paths: Iterable[str]) -> list[str]:
    """Return at most three paths that are similar to `path`. Paths with the same last part come first."""
    known = list(paths)
    same = [each for each in known if os.path.basename(each) == os.path.basename(path)]
    return list(dict.fromkeys([*same, *difflib.get_close_matches(path, known, cutoff=SIMILAR)]))[:3]


def _names(folder: str) -> list[str]:
    """Return the names of a folder's entries, or an empty list if the folder cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def searched_places(bases: Sequence[str]) -> str:
    """Return the directories in which a relative path was searched for, without those of the installed collection, which has no files of
    users.
    """
    places = dict.fromkeys(os.path.abspath(base) for base in bases)
    own = os.path.join("ansible_collections", "deeplearning", "cluster", "")
    return ", ".join([place for place in places if own not in place] or places)


def _searched(path: str, bases: Sequence[str], is_right: Callable[[str], bool]) -> str:
    """Return the end of a message about a path that was not found: where it was searched for, and what to do."""
    expanded = os.path.expanduser(path)
    places = list(dict.fromkeys(os.path.abspath(base) for base in bases))
    where = "" if os.path.isabs(expanded) else f" (searched in {searched_places(bases)})"
    folders = dict.fromkeys(os.path.dirname(os.path.join(place, expanded)) for place in places)
    beside = {name: os.path.join(folder, name) for folder in folders for name in _names(folder)}
    right = [name for name, each in beside.items() if is_right(each)]
    close = [beside[name] for name in difflib.get_close_matches(os.path.basename(expanded), right, cutoff=SIMILAR)]
    kind = "directory" if is_right is os.path.isdir else "file"
    advice = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"Specify the path of an existing {kind}."
    return f"{where}. {advice}"


def find(path: str, bases: Sequence[str]) -> str | None:
    """Return the absolute path of an existing file or directory, or None. A relative path is searched for in each base directory."""
    expanded = os.path.expanduser(path)
    candidates = [os.path.join(base, expanded) for base in bases]
    return next((os.path.abspath(candidate) for candidate in candidates if os.path.exists(candidate)), None)


def link_problem(path: str, bases: Sequence[str]) -> str:
    """Return why a file must not be read, as a part of a message, or an empty string: a link leads out of the directory of its source.

    The first directory below a base directory may contain the code of others, whose links could lead to files of the user.
    """
    path = os.path.abspath(path)
    base = next((each for each in map(os.path.abspath, bases) if os.path.commonpath([each, path]) == each), os.path.dirname(path))
    first = os.path.join(base, os.path.relpath(path, base).split(os.sep, maxsplit=1)[0])
    root, target = os.path.realpath(first if os.path.isdir(first) else base), os.path.realpath(path)
    if os.path.commonpath([root, target]) == root:
        return ""
    return f"is a link to {target!r}, outside of {root!r}. Specify the path of the file itself."


def kept(root: str, exclude: Iterable[str]) -> list[str]:
    """Return the names of the directory's entries that no pattern excludes."""
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


def check_out(repository: str, version: str, directory: str) -> str:
    """Check out a version of a repository into an empty directory and return its commit. Raises GitError.

    The version is a branch, a tag, a commit, or any other ref that can be fetched. An empty version means the default branch.
    """
    if version.startswith("-"):
        raise VersionError(version)
    address, environment = address_and_credentials(repository, int(os.environ.get("GIT_CONFIG_COUNT") or 0))
    git(directory, "clone", "--quiet", "--no-checkout", "--filter=blob:none", "--", address, ".", environment=environment)
    commit = find_commit(directory, version, environment)
    git(directory, "checkout", "--quiet", "--detach", commit, environment=environment)
    if os.path.exists(os.path.join(directory, ".gitmodules")):
        inside = {**environment, "GIT_ALLOW_PROTOCOL": SUBMODULE_TRANSPORTS}
        git(directory, "submodule", "--quiet", "update", "--init", "--recursive", environment=inside)
    return commit


def find_commit(directory: str, version: str, environment: Mapping[str, str]) -> str:
    """Return the commit of a version in a clone. Raises GitError.

    40 or 64 hexadecimal digits are always the ID of a commit, because whoever may push can create a branch or tag with any name.
    """
    commit = _cloned_commit(directory, version, environment) or _fetched_commit(directory, version, environment)
    if COMMIT_ID.fullmatch(version) and commit != version.lower():
        raise VersionError(version)
    return commit


def _cloned_commit(directory: str, version: str, environment: Mapping[str, str]) -> str:
    """Return the commit of a version, or an empty string if the clone does not contain it. Raises AmbiguousVersionError."""

    def commit_of(name: str) -> str:
        with contextlib.suppress(GitError):
            return git(directory, "rev-parse", "--quiet", "--verify", name + "^{commit}", environment=environment)
        return ""

    if not version or COMMIT_ID.fullmatch(version):
        return commit_of(version or "HEAD")
    if version.startswith("refs/"):
        return ""  # the clone has other names for the refs of the repository
    branch, tag = commit_of(f"refs/remotes/origin/{version}"), commit_of(f"refs/tags/{version}")
    if branch and tag and branch != tag:
        raise AmbiguousVersionError(version)
    return branch or tag or commit_of(version)


def _fetched_commit(directory: str, version: str, environment: Mapping[str, str]) -> str:
    """Fetch a commit that is on no branch, or a ref that a clone does not fetch, such as that of a merge request. Raises GitError."""
    try:
        git(directory, "fetch", "--quiet", "origin", version or "HEAD", environment=environment)
        return git(directory, "rev-parse", "--verify", "FETCH_HEAD^{commit}", environment=environment)
    except GitError as error:
        if NO_REF.search(str(error)):
            raise VersionError(version) from None
        raise


def origin(root: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the commit of a git working tree and whether the named entries differ from it. Outside a working tree, return an empty dict.

    The source may come from another user, so its git configuration must not run programs. git itself also rejects a working tree that
    the current user does not own.
    """
    try:
        if not names:
            return {}
        return {"commit": head(root), "changed": has_changed(root, names)}
    except (GitError, OSError, ValueError):
        return {}


def head(root: str) -> str:
    """Return the commit that is checked out. Raises GitError or OSError."""
    return read_git(root, "rev-parse", "--verify", "HEAD^{commit}").strip()


def has_changed(root: str, names: Sequence[str], depth: int = SUBMODULE_DEPTH) -> bool:
    """Return whether any file differs from the commit or is not part of it. Raises GitError, OSError or ValueError.

    `git status` is not used because it would run the Git filters in the working tree's configuration. Files are compared without filters.
    Files that a filter changes before the commit, such as those of Git LFS, therefore count as changed.
    """
    paths = ("--", *names)
    if read_git(root, "ls-files", "--others", "--exclude-standard", "-z", *paths):
        return True
    for entry in filter(None, read_git(root, "ls-tree", "-r", "-z", "HEAD", *paths).split("\0")):
        about, path = entry.split("\t", 1)
        mode, _kind, digest = about.split()
        place = os.path.join(root, path)
        if mode == SUBMODULE:
            if os.path.isdir(place) and os.listdir(place) and (not depth or _submodule_has_changed(place, digest, depth)):
                return True
        elif not is_blob(place, mode, digest):
            return True
    return False


def _submodule_has_changed(place: str, commit: str, depth: int) -> bool:
    return head(place) != commit or has_changed(place, ["."], depth - 1)


def is_blob(path: str, mode: str, digest: str) -> bool:
    """Return whether a file has the type, mode and digest that git has stored."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return mode == LINK and _digest([os.fsencode(os.readlink(path))], status.st_size, digest) == digest
        if not stat.S_ISREG(status.st_mode) or mode == LINK or bool(status.st_mode & 0o100) != (mode == EXECUTABLE):
            return False
        with open(path, "rb") as file:
            return _digest(iter(lambda: file.read(1 << 20), b""), status.st_size, digest) == digest
    except FileNotFoundError:
        return False


def _digest(blocks: Iterable[bytes], size: int, like: str) -> str:
    total = hashlib.new("sha1" if len(like) == 40 else "sha256", b"blob %d\0" % size)
    for block in blocks:
        total.update(block)
    return total.hexdigest()


def without_credentials(repository: str) -> str:
    """Return the URL of a repository for messages, without user, password and query, because these may contain secrets."""
    if "://" not in repository:
        return repository
    scheme, rest = repository.split("://", 1)
    shown = re.split("[?#]", rest, maxsplit=1)[0]
    if shown != rest and "@" in rest[len(shown) :]:
        return f"{scheme}://..."  # a query with an @, or a password with a question mark
    # Also search after the first slash, because a password may contain a slash.
    return f"{scheme}://{shown if scheme.lower() == 'file' else shown.rpartition('@')[2]}"


def address_and_credentials(repository: str, settings: int = 0) -> tuple[str, dict[str, str]]:
    """Return the repository's URL without its password, and environment variables that contain the password. Raises GitError.

    `settings` is the number of settings (`GIT_CONFIG_COUNT`) in the environment to which the variables are added.
    """
    if "://" not in repository:
        return repository, {}
    parts = urlsplit(repository)
    userinfo, at, host = parts.netloc.rpartition("@")
    _check_address(parts, userinfo, host)
    if parts.scheme not in WEB or not at:
        return repository, {}
    address = urlunsplit(parts._replace(netloc=host))
    return address, credentials_environment(address, userinfo, settings)


def _check_address(parts: SplitResult, userinfo: str, host: str) -> None:
    """Raise GitError if git would misread a URL, or if all users of the controller could see a secret in it."""
    if parts.scheme in WEB:
        if parts.query or parts.fragment:
            raise GitError(
                "the URL has a query, which git's command line would show. Use a token as the password: https://USER:TOKEN@HOST/PATH"
            )
        if not re.fullmatch(r"(\[.*\]|[^:]*)(:\d*)?", host):
            raise GitError(f"the text after the host is not a port number. {ESCAPES}")
    if parts.scheme != "file" and "@" in parts.path:
        raise GitError(f"the URL has an @ after the host. Write it as %40. {ESCAPES}")
    if parts.scheme not in WEB and ":" in userinfo:
        raise GitError(f"{parts.scheme} does not use the password in the URL, but git's command line would show it. Remove the password.")


def credentials_environment(address: str, userinfo: str, settings: int) -> dict[str, str]:
    """Return the environment variables that make git authenticate to a repository as the user in `userinfo`. Raises GitError.

    git uses no credentials for other repositories on the server, because the repository's author chooses the submodules.
    """
    user, _colon, password = (unquote(part) for part in userinfo.partition(":"))
    if clean_line(user + password) != user + password:
        raise GitError("the user name or the password contains control characters. Remove them.")
    parts = urlsplit(address)
    server = urlunsplit(parts._replace(path=""))
    values = [
        (f"{server}.helper", ""),  # disables the user's own helpers
        (f"{server}.useHttpPath", "true"),
        (f"{server}.helper", CREDENTIAL_HELPER),
    ]
    environment = {
        "DEEPLEARNING_GIT_USER": user,
        "DEEPLEARNING_GIT_PASSWORD": password,
        "DEEPLEARNING_GIT_PATH": unquote(parts.path, errors="surrogateescape").strip("/").removesuffix(".git"),
        "GIT_CONFIG_COUNT": str(settings + len(values)),
    }
    for index, (name, value) in enumerate(values, settings):
        environment.update({f"GIT_CONFIG_KEY_{index}": f"credential.{name}", f"GIT_CONFIG_VALUE_{index}": value})
    return environment


def read_git(directory: str, *arguments: str) -> str:
    """Return the output of git in a working tree that may belong to another user. Raises GitError or OSError."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return _run(directory, [*NO_HOOKS, *READING_OPTIONS, "--literal-pathspecs", *arguments], {**inherited, **READING})


def git(directory: str, *arguments: str, environment: Mapping[str, str]) -> str:
    """Return the output of git in a clone that this process has made. Raises GitError, and OSError if git is not installed."""
    # git must not prompt, because nobody would see the prompt.
    shared = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": TRANSPORTS}
    return _run(directory, [*NO_HOOKS, *arguments], {**shared, **environment}).strip()


def _run(directory: str, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    result = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
    )
    if result.returncode:
        raise GitError(cause(result.stderr) or "git failed")
    return result.stdout


def cause(errors: str) -> str:
    """Return the cause in git's error output, as one line, without git's general advice."""
    lines = (line.strip() for line in errors.splitlines())
    return "; ".join(LABEL.sub("", line) for line in lines if line and not ADVICE.match(line))
