# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds settings of others for SSH that the cluster's settings would override, or that would make the cluster's certificates useless."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Callable, List, NamedTuple, Tuple

from .certificates import CERTIFICATE_TYPE, bare_key, parse_certificate
from .files import DAEMON_DROP_IN, HOST_KEY

DAEMON, CLIENT = "/etc/ssh/sshd_config", "/etc/ssh/ssh_config"
NONE = "none"
# Settings that have one value for a user. The cluster's drop-in file sets the first two for the login user, so the value of others would no
# longer apply. The others decide which principals a certificate of the login user needs.
SINGLE = {
    "trustedusercakeys": "The cluster needs its own authority for {user}",
    "revokedkeys": "The cluster needs its own list for {user}",
    "authorizedprincipalsfile": "The certificates of the cluster have the principal {user}",
    "authorizedprincipalscommand": "The certificates of the cluster have the principal {user}",
}
# Lists that must contain a value, by the names that `sshd -T` and `ssh -G` print.
SIGNATURE = "ssh-ed25519"
DAEMON_LISTS = {
    "hostkeyalgorithms": CERTIFICATE_TYPE,
    "pubkeyacceptedalgorithms": CERTIFICATE_TYPE,
    "pubkeyacceptedkeytypes": CERTIFICATE_TYPE,
    "casignaturealgorithms": SIGNATURE,
    "hostkey": HOST_KEY,
}
CLIENT_LISTS = {name: value for name, value in DAEMON_LISTS.items() if name != "hostkey"}
# How deep files can include other files. Source: sshd's SERVCONF_MAX_DEPTH.
DEPTH = 16

# A function, such as AnsibleModule.run_command, that runs a command and returns its exit status, output and errors.
Run = Callable[[List[str]], Tuple[int, str, str]]


class Setting(NamedTuple):
    """A line of a configuration file. `match` is the condition under which it applies, or an empty string."""

    place: str
    match: str
    name: str
    value: str


def settings(path: str, skipped: str = DAEMON_DROP_IN, match: str = "", depth: int = 0) -> list[Setting]:
    """Return the settings in a configuration file of sshd or ssh and in the files that it includes, except those of the file `skipped`."""
    found: list[Setting] = []
    lines: list[str] = []
    if path != skipped and depth < DEPTH:
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        words = re.fullmatch(r"\s*(\w+)(?:\s*=\s*|\s+)(.*?)\s*", line)
        if not words:
            continue
        name, value = words[1].lower(), words[2]
        if name in ("match", "host"):
            match = "" if value.lower() == "all" else value
        elif name == "include":
            for pattern in _split(value):
                for each in sorted(glob.glob(os.path.join("/etc/ssh", pattern))):
                    found += settings(each, skipped, match, depth + 1)
        else:
            found.append(Setting(f"{path}:{number}", match, name, " ".join(_split(value))))
    return found


def _split(value: str) -> list[str]:
    try:
        return shlex.split(value, comments=True)
    except ValueError:
        return value.split()


def concerns(setting: Setting, user: str) -> bool:
    """Return whether a setting can apply to the user. Conditions other than the name of the user are taken as met."""
    words = setting.match.split()
    for keyword, patterns in zip(words[::2], words[1::2]):
        if keyword.lower() == "user":
            listed = patterns.split(",")
            denied = any(fnmatch.fnmatchcase(user, each[1:]) for each in listed if each.startswith("!"))
            return not denied and any(fnmatch.fnmatchcase(user, each) for each in listed)
    return True


def connection_test(user: str) -> list[str]:
    """Return the arguments with which sshd prints the settings for a connection of a user from this host."""
    return ["-T", "-C", f"user={user},host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22"]


def find(run: Run, sshd: str, ssh: str | None, user: str, host_key: str | None) -> list[str]:
    """Return a sentence for each setting of others that contradicts the settings of the cluster.

    `sshd` and `ssh` are the paths of these programs. A host may have no `ssh`. `host_key` is this host's public key.
    """
    daemon = settings(DAEMON)
    return [
        *_overridden(daemon, user),
        *_certificates(daemon, host_key),
        *_lacking(run([sshd, *connection_test(user)]), DAEMON_LISTS, daemon, DAEMON),
        *(_lacking(run([ssh, "-G", "deeplearning-worker1"]), CLIENT_LISTS, settings(CLIENT), CLIENT) if ssh else ()),
    ]


def _overridden(daemon: Iterable[Setting], user: str) -> list[str]:
    advice = f"Limit the setting to other users: Match User !{user},*"
    return [
        f"{each.place}: {each.name} {each.value} applies to {user}. {SINGLE[each.name].format(user=user)}. {advice}"
        for each in daemon
        if each.name in SINGLE and each.value.lower() != NONE and concerns(each, user)
    ]


def _certificates(daemon: Iterable[Setting], host_key: str | None) -> list[str]:
    """Return a sentence for each other certificate of the same host key. sshd offers only one certificate for each key."""
    return [
        f"{each.place}: {each.name} {each.value} is a certificate of another authority for {HOST_KEY}, and sshd offers only one"
        " certificate for each key. Use another host key for it, or remove the line."
        for each in daemon
        if each.name == "hostcertificate" and host_key and _certified_key(each.value) == bare_key(host_key)
    ]


def _certified_key(path: str) -> str:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8", errors="replace") as file:
        return parse_certificate(file.read()).public_key
    return ""


def _lacking(answer: tuple[int, str, str], needed: dict[str, str], found: Sequence[Setting], path: str) -> list[str]:
    """Return a sentence for each effective list without the value that the cluster needs. A program that fails has no effective lists."""
    status, output, _error = answer
    lists: dict[str, list[str]] = {}
    for name, _space, value in (line.partition(" ") for line in output.splitlines() if not status):
        lists.setdefault(name.lower(), []).extend(value.split(","))
    return [
        f"{next((each.place for each in found if each.name == name), path)}: {name} does not contain {value}. Add it to the list."
        for name, value in needed.items()
        if name in lists and value not in lists[name]
    ]
