# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Inspects files on a host with one shell command, so that modules run only on hosts that need changes.

A module takes about five times as long as the shell command. In most playbook runs, most hosts need no changes. The module's own functions
compare the files with their desired state.
"""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase

from ..module_utils._hosts.managed_files import Account, FileState, HostFiles

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


def take(action: ActionBase, user: str, paths: Sequence[str], command: str = "") -> Snapshot | None:
    """Return the state of the paths on the host of the action's task, or None if the command fails.

    `~/` stands for the home directory of `user`. If a path ends in `=`, its contents are not read.
    """
    answer = action._low_level_execute_command(shlex.join(["sh", "-c", SCRIPT, "sh", user, command, *paths]))
    if answer["rc"]:
        return None
    try:
        return parse(answer["stdout"], user, paths)
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


def inspect(
    arguments: Mapping[str, Any], specification: Mapping[str, Any], find: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> dict[str, Any] | None:
    """Return the result of `find` for a module's parameters, or None if the parameters are invalid.

    The module itself reports invalid parameters.
    """
    validation = ArgumentSpecValidator(**specification).validate(dict(arguments))
    if validation.error_messages:
        return None
    try:
        return find(validation.validated_parameters)
    except ValueError:
        return None
