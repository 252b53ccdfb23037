# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks the set-up steps of nodes on the controller, and adds data that only the controller has, such as local scripts."""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ansible.errors import AnsibleActionFail

from ..module_utils._secret_forms import SHORTEST
from ..module_utils._text import clean_line
from .git_repositories import GitError, address_and_credentials
from .inventory_nodes import known_nodes
from .source_paths import find, link_problem, searched_places
from .text_files import program_problem
from .yaml_text import as_written

OPTION = "node_setup_steps"
KINDS = ("packages", "script", "command", "repository")
COMMON = ("name", "environment", "secrets", "timeout", "only")
# The keys that a step can have, by its kind. Packages are always installed by root.
KEYS = {
    "packages": (),
    "script": ("arguments", "sha256", "user"),
    "command": ("user",),
    "repository": ("path", "version", "user"),
}
ALL_KEYS = (*KINDS, *COMMON, *sorted({key for keys in KEYS.values() for key in keys}))
ONLY = ("all", "master", "workers")
TIMEOUT, USER = 1800, "root"
# Maximum size of a script in bytes. The script is part of the module's arguments.
SCRIPT_LIMIT = 1 << 20
NAME_LIMIT = 100

# A package name for apt or dnf (optionally with an architecture or a version), a dnf group, or the path of a package file on the node.
# apt removes packages whose names end in a hyphen.
PACKAGE = re.compile(r"[A-Za-z0-9@/][A-Za-z0-9+._:~=@/-]*(?<!-)")
USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SHA256 = re.compile(r"[0-9a-f]{64}")


class _WrongError(Exception):
    """A value in a step is not valid. The message begins with the key."""


def read_steps(given: Any, bases: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the steps for the `node_setup` module, and error messages. Relative paths are searched for in each base directory.

    Each step has a `number`, beginning with 1, a `name`, its `kind`, and the `digest` of its content.
    """
    if not isinstance(given, (list, tuple)):
        return [], [f"{OPTION}: the value is not a list. Use a list of steps."]
    steps: list[dict[str, Any]] = []
    errors: list[str] = []
    for number, value in enumerate(given, 1):
        step, wrong = _read_step(number, value, bases)
        errors += [f"{OPTION}: step {number}: {message}" for message in wrong]
        same = next((each for each in steps if each["digest"] == step.get("digest")), None)
        if same:
            errors.append(
                f"{OPTION}: step {number}: is identical to step {same['number']}, but each step runs only once. Remove one of the two."
            )
        elif not wrong:
            steps.append(step)
    return steps, errors


def steps_of_node(steps: Iterable[Mapping[str, Any]], variables: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the steps that the host of a task runs.

    Raises AnsibleActionFail if the result depends on the host's number and that number is unknown.
    """
    found, host = [], variables["inventory_hostname"]
    for step in steps:
        if step["only"] != "all":
            number = known_nodes(variables, [host]).get(host, {}).get("number")
            if number is None:
                raise AnsibleActionFail(
                    f"{OPTION}: step {step['number']}: only is '{step['only']}', but the inventory does not say whether {host} is the "
                    "master. Set the variable deeplearning_number of each host. The master is number 1."
                )
            if (int(number) == 1) != (step["only"] == "master"):
                continue
        found.append(step)
    return found


def described(step: Mapping[str, Any]) -> str:
    return f"step {step['number']} ({step['name']})"


def _read_step(number: int, value: Any, bases: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return a step and error messages. The step is incomplete if there are error messages."""
    if not isinstance(value, Mapping):
        return {}, [f"the value is not a dictionary. Use a dictionary with one of {_listed(KINDS)}."]
    kind, errors = _kind_of_step(value)
    if kind is None:
        return {}, errors
    step: dict[str, Any] = {"number": number, "kind": kind}
    readers: dict[str, Callable[[], Mapping[str, Any]]] = {
        "name": lambda: {"name": _name(value, kind)},
        "environment": lambda: {"environment": _variables(value, "environment")},
        "secrets": lambda: {"secrets": _secrets(value)},
        "timeout": lambda: {"timeout": _seconds(value)},
        "only": lambda: {"only": _choice(value)},
        "user": lambda: {"user": _user(value)},
        kind: lambda: READERS[kind](value, bases),
    }
    for read in readers.values():
        try:
            step.update(read())
        except (_WrongError, ValueError) as error:
            errors.append(str(error))
    if errors:
        return {}, errors
    twice = sorted(set(step["environment"]) & set(step["secrets"]))
    if twice:
        return {}, [f"secrets: {twice[0]!r} is also in environment. Remove one of the two."]
    return _completed(step), []


def _kind_of_step(value: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """Return the kind of a step, or None if it is not known, and error messages about the step's keys."""
    errors = [f"unknown key '{clean_line(str(key))}'.{_suggestion(str(key))}" for key in value if key not in ALL_KEYS]
    kinds = [kind for kind in KINDS if value.get(kind) is not None]
    if len(kinds) != 1:
        has = f"has both {kinds[0]} and {kinds[1]}" if kinds else f"has none of {_listed(KINDS)}"
        return None, [*errors, f"{has}. Specify one of them."]
    others = [key for key in ALL_KEYS if key in value and key not in (kinds[0], *COMMON, *KEYS[kinds[0]]) and key not in KINDS]
    return kinds[0], errors + [f"{key}: cannot be combined with {kinds[0]}. Remove it." for key in others]


def _completed(step: dict[str, Any]) -> dict[str, Any]:
    """Return the step with its digest, and with the variables that make git use the credentials in a URL."""
    credentials = step.pop("credentials", {})
    content = {key: value for key, value in step.items() if key not in ("number", "name", "timeout", "only")}
    content["secrets"] = sorted(step["secrets"])
    if step.get("sha256"):
        del content["script"]  # a presigned URL is different each time it is created
    step["digest"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    # In a URL without a password, the user is a token.
    secret = "DEEPLEARNING_GIT_PASSWORD" if credentials.get("DEEPLEARNING_GIT_PASSWORD") else "DEEPLEARNING_GIT_USER"
    for name, value in credentials.items():
        step["secrets" if name == secret else "environment"][name] = value
    return step


def _suggestion(key: str) -> str:
    close = difflib.get_close_matches(key, ALL_KEYS, n=1)
    return f" Did you mean '{close[0]}'?" if close else f" Use one of {_listed(ALL_KEYS)}."


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _text(value: Any, key: str, meant: str = "text") -> str:
    """Return text without NUL characters. Raises _WrongError for anything else. Messages do not contain the value, which may be a
    secret.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or as_written(value) not in (None, str(value)):
        raise _WrongError(f"{key}: the value is not {meant}. Write it in quotes.")
    text = str(value)
    if "\0" in text:
        raise _WrongError(f"{key}: the value contains a NUL character. Remove it.")
    return text


def _required(value: Any, key: str) -> str:
    text = _text(value, key)
    if not text.strip():
        raise _WrongError(f"{key}: the value is empty. Specify a value.")
    return text


def _texts(value: Any, key: str) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise _WrongError(f"{key}: the value is not a list. Use a list.")
    return [_text(each, key, "a list of strings") for each in value]


def _name(value: Mapping[str, Any], kind: str) -> str:
    """Return the name of a step. The default is the kind and, for a script, the name of its file."""
    if value.get("name") is None:
        content = value[kind]
        return f"{kind} {os.path.basename(urlsplit(content).path)}"[:NAME_LIMIT] if kind == "script" and isinstance(content, str) else kind
    name = _required(value["name"], "name")
    if len(name) > NAME_LIMIT or name != clean_line(name):
        raise _WrongError(f"name: the value is not a single line of at most {NAME_LIMIT} characters. Shorten it.")
    return name


def _variables(value: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the environment variables of a step. Raises _WrongError if a name or a value is not valid."""
    given = value.get(key) if value.get(key) is not None else {}
    if not isinstance(given, Mapping):
        raise _WrongError(f"{key}: the value is not a dictionary. Use a dictionary of variables.")
    for name in given:
        if not isinstance(name, str) or not VARIABLE.fullmatch(name):
            raise _WrongError(f"{key}: {clean_line(str(name))!r} is not a valid variable name. Use letters, digits and '_'.")
    return {str(name): _text(each, f"{key}: {name}") for name, each in given.items()}


def _secrets(value: Mapping[str, Any]) -> dict[str, str]:
    """Return the secret environment variables of a step. Raises _WrongError if a value is too short to be masked."""
    secrets = _variables(value, "secrets")
    for name, secret in secrets.items():
        if secret and len(secret.strip()) < SHORTEST:
            raise _WrongError(f"secrets: {name}: the value is too short to be masked. Use {SHORTEST} characters or more.")
    return secrets


def _seconds(value: Mapping[str, Any]) -> int:
    text = str(value["timeout"]) if value.get("timeout") is not None else str(TIMEOUT)
    if not (text.isascii() and text.isdigit() and int(text)):
        raise _WrongError(f"timeout: {clean_line(text)!r} is not a number of seconds. Use a whole number above 0.")
    return int(text)


def _choice(value: Mapping[str, Any]) -> str:
    only = value.get("only") if value.get("only") is not None else ONLY[0]
    if only not in ONLY:
        raise _WrongError(f"only: {clean_line(str(only))!r} is not a valid value. Use one of {_listed(ONLY)}.")
    return str(only)


def _user(value: Mapping[str, Any]) -> str:
    user = _text(value["user"], "user") if value.get("user") is not None else USER
    if not USER_NAME.fullmatch(user):
        raise _WrongError(f"user: {clean_line(user)!r} is not a valid user name. Use the name of a user that exists on the nodes.")
    return user


def _read_packages(value: Mapping[str, Any], _bases: Sequence[str]) -> dict[str, Any]:
    packages = _texts(value["packages"], "packages")
    if not packages:
        raise _WrongError("packages: the list is empty. Add a package, or remove the step.")
    for package in packages:
        if not PACKAGE.fullmatch(package):
            raise _WrongError(
                f"packages: {clean_line(package)!r} is not a valid package name. Use names of packages that apt-get or dnf can install."
            )
    return {"packages": packages}


def _read_script(value: Mapping[str, Any], bases: Sequence[str]) -> dict[str, Any]:
    script = _required(value["script"], "script")
    arguments = _texts(value["arguments"] if value.get("arguments") is not None else [], "arguments")
    sha256 = _text(value["sha256"], "sha256").lower() if value.get("sha256") is not None else ""
    if sha256 and not SHA256.fullmatch(sha256):
        raise _WrongError("sha256: the value is not a SHA-256 digest. Use the 64 hexadecimal digits that sha256sum prints.")
    common = {"arguments": arguments, "sha256": sha256}
    if "://" in script:
        return {**common, "script": _checked_url(script), "content": None}
    if sha256:
        raise _WrongError("sha256: applies only to a script from a URL. Remove this key. For a local file, the content is always compared.")
    # The digest covers the content of the file, but not its name.
    return {**common, "script": None, "content": base64.b64encode(_read_file(script, bases)).decode()}


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    shown = clean_line(url.partition("?")[0])
    if parts.scheme not in ("https", "s3"):
        raise _WrongError(f"script: {shown!r} cannot be downloaded. Use an https:// URL, s3://bucket/key, or a file on the controller.")
    if not parts.netloc or not parts.path.strip("/") or url != clean_line(url):
        raise _WrongError(f"script: {shown!r} does not name a file. Use an https:// URL, s3://bucket/key, or a file on the controller.")
    if parts.username or parts.password:
        raise _WrongError("script: the URL contains a user name or a password, which is not supported. Use a presigned URL.")
    return url


def _read_file(script: str, bases: Sequence[str]) -> bytes:
    path = find(script, bases)
    if path is None or not os.path.isfile(path):
        raise _WrongError(
            f"script: {clean_line(script)!r} is not a file on the controller (searched in {searched_places(bases)}). Specify the path of "
            "an existing file."
        )
    problem = link_problem(path, bases)
    if problem:
        raise _WrongError(f"script: {script!r} {problem}")
    try:
        with open(path, "rb") as file:
            content = file.read(SCRIPT_LIMIT + 1)
    except OSError as error:
        raise _WrongError(f"script: {script!r} cannot be read: {error.strerror}. Check its permissions.") from error
    if not content:
        raise _WrongError(f"script: {script!r} is empty. Write the commands into the file, or remove the step.")
    if len(content) > SCRIPT_LIMIT:
        raise _WrongError(f"script: {script!r} is larger than {SCRIPT_LIMIT >> 20} MiB. Let a small script download the rest.")
    problem = program_problem(content, is_shell=True)
    if problem:
        raise _WrongError(f"script: {script!r} {problem}")
    return content


def _read_command(value: Mapping[str, Any], _bases: Sequence[str]) -> dict[str, Any]:
    command = value["command"]
    if not isinstance(command, (list, tuple)):
        return {"command": _required(command, "command")}
    argv = _texts(command, "command")
    if not argv or not argv[0].strip():
        raise _WrongError("command: the list does not begin with a program. Add the program and its arguments.")
    return {"command": argv}


def _read_repository(value: Mapping[str, Any], _bases: Sequence[str]) -> dict[str, Any]:
    repository = _required(value["repository"], "repository")
    version = _text(value["version"], "version") if value.get("version") is not None else ""
    if version.startswith("-"):
        raise _WrongError(
            f"version: {clean_line(version)!r} is not a branch, tag or commit. Specify the name of a branch or tag, or a commit ID."
        )
    if value.get("path") is None:
        raise _WrongError("path: missing. Specify the directory on the nodes into which the repository is cloned.")
    path = _text(value["path"], "path")
    if not path.startswith("/") or os.path.normpath(path) != path.rstrip("/") or path != clean_line(path):
        raise _WrongError(f"path: {clean_line(path)!r} is not an absolute path below /. Specify the directory on the nodes for the clone.")
    try:
        if repository.startswith("-") or repository != clean_line(repository):
            raise GitError("the value is not a URL.")
        address, credentials = address_and_credentials(repository)
    except (GitError, ValueError) as error:
        raise _WrongError(f"repository: {error}") from None
    return {"repository": address, "version": version, "path": path.rstrip("/"), "credentials": credentials}


READERS: Mapping[str, Callable[[Mapping[str, Any], Sequence[str]], dict[str, Any]]] = {
    "packages": _read_packages,
    "script": _read_script,
    "command": _read_command,
    "repository": _read_repository,
}
