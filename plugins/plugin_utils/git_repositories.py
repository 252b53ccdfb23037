# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Clones git repositories with the credentials of their URLs, and compares working trees with their commits."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import subprocess
from typing import Any, Iterable, Mapping, Sequence
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from ..module_utils._text import clean_line

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


class GitError(Exception):
    """git failed, or the URL or version is not valid. The exception's text is shown to the user."""


class VersionError(GitError):
    """The repository has no such branch, tag or commit."""


class AmbiguousVersionError(GitError):
    """The repository has a branch and a tag with this name."""


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
