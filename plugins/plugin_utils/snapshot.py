# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Inspects files on a host with one shell command, so that modules run only on hosts that need changes.

A module takes about five times as long as the shell command. In most playbook runs, most hosts need no changes. The module's own functions
compare the files with their desired state. One command can make the inspections of several modules.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase

from ..module_utils._common.managed_files import Account, FileState, HostFiles

# The shell script that prints the accounts, two lines for each path (attributes and content), and the status and output of the command.
SCRIPT = r"""
user=$1 command=$2
shift 2
getent passwd root "$user" || exit
home=$(getent passwd "$user" | cut -d: -f6)
for path do
  case $path in *=) content= path=${path%=} ;; *) content=yes ;; esac
  case $path in "~/"*) path=$home/${path#"~/"} ;; esac
  stat -Lc "%a %u %g" -- "$path" 2>/dev/null || echo -
  [ -z "$content" ] || [ ! -f "$path" ] || base64 -w0 -- "$path" || exit
  echo
done
output=
if [ -z "$command" ]; then status=0
elif ! command -v "${command%% *}" >/dev/null; then status=127
else output=$($command 2>/dev/null); status=$?
fi
echo $status
printf %s "$output" | base64 -w0
echo
"""
NOT_FOUND = 127
SUPER_USER = "root"
# The line between the outputs of several scripts, which print no such line.
SEPARATOR = "---"


class Snapshot(HostFiles):
    """The state of a host when it was inspected: the requested accounts and paths, and the status and output of a command."""

    def __init__(self, accounts: Mapping[str, Account], found: Mapping[str, FileState | None], status: int, output: str) -> None:
        self._accounts, self._found = accounts, found
        self.status, self.output = status, output

    def find(self, path: str) -> FileState | None:
        return self._found[path]

    def exists(self, path: str) -> bool:
        return self._found[path] is not None

    def account(self, user: str) -> Account:
        return self._accounts[user]


class Request(NamedTuple):
    """What to inspect. `~/` stands for the home directory of `user`. If a path ends in `=`, its contents are not read."""

    user: str
    paths: Sequence[str]
    command: str = ""


# A function that gets the parameters of a module. It yields what to inspect, gets the snapshot, and returns the result of the module, or
# None if the module must run.
Check = Callable[[dict[str, Any]], Generator[Request, Snapshot, "dict[str, Any] | None"]]


class Inspection(NamedTuple):
    """The arguments of a module, its argument spec with its rules, and its check."""

    arguments: Mapping[str, Any]
    specification: Mapping[str, Any]
    check: Check


def take(action: ActionBase, user: str, paths: Sequence[str], command: str = "") -> Snapshot | None:
    """Return the state of the paths on the host of the action's task, or None if the command fails."""
    found = take_all(action, [Request(user, paths, command)])
    return found[0] if found else None


def take_all(action: ActionBase, requests: Sequence[Request]) -> list[Snapshot] | None:
    """Return what the requests ask for on the host of the action's task, or None if one of them fails."""
    scripts = [shlex.join(["sh", "-c", SCRIPT, "sh", request.user, request.command, *request.paths]) for request in requests]
    answer = action._low_level_execute_command(f" && echo {SEPARATOR} && ".join(scripts))
    if answer["rc"]:
        return None
    outputs = re.split(rf"^{SEPARATOR}\r?\n", answer["stdout"], flags=re.MULTILINE)
    try:
        return [parse(output, request.user, request.paths) for output, request in zip(outputs, requests, strict=True)]
    except (ArithmeticError, LookupError, ValueError):
        return None


def parse(printed: str, user: str, paths: Sequence[str]) -> Snapshot:
    """Return the snapshot that the script printed. Raises LookupError or ValueError if the text is not a snapshot."""
    lines = printed.splitlines()
    accounts = {}
    for _unused in (SUPER_USER, user):
        name, _password, uid, gid, _comment, home, _shell = lines.pop(0).split(":")
        accounts[name] = Account(int(uid), int(gid), home)
    home = accounts[user].home
    found: dict[str, FileState | None] = {}
    for given in paths:
        attributes, content, path = lines.pop(0).split(), lines.pop(0), given.removesuffix("=")
        path = os.path.join(home, path[2:]) if path.startswith("~/") else path
        found[path] = None
        if attributes != ["-"]:
            mode, uid, gid = attributes
            found[path] = FileState(_text(content), int(mode, 8), int(uid), int(gid))
    status = int(lines.pop(0))
    return Snapshot(accounts, found, status, _text(lines[0]))


def _text(line: str) -> str:
    return base64.b64decode(line, validate=True).decode("utf-8", "surrogateescape")


def inspect(action: ActionBase, *inspections: Inspection) -> list[dict[str, Any]] | None:
    """Return the results of modules that need not run on the host of the action's task, or None if one of them must run.

    The module itself reports invalid parameters.
    """
    try:
        checks = [inspection.check(_parameters(inspection)) for inspection in inspections]
        snapshots = take_all(action, [next(check) for check in checks])
        results = [_result(check, host) for check, host in zip(checks, snapshots or ())]
    except (StopIteration, ValueError):
        return None
    return results if snapshots and all(results) else None


def _parameters(inspection: Inspection) -> dict[str, Any]:
    """Return the parameters of a module. Raises ValueError if they are invalid."""
    validation = ArgumentSpecValidator(**inspection.specification).validate(dict(inspection.arguments))
    if validation.error_messages:
        raise ValueError(validation.error_messages)
    parameters: dict[str, Any] = validation.validated_parameters
    return parameters


def _result(check: Generator[Request, Snapshot, dict[str, Any] | None], host: Snapshot) -> Any:
    try:
        check.send(host)
    except StopIteration as end:
        return end.value
    raise ValueError("a check makes only one request")
