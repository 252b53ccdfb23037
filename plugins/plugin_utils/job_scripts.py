# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the commands of a job's processes as shell scripts, one per host, that users can read, edit and run by hand."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..module_utils._job import directories, naming
from ..module_utils._job.definition.host_processes import plan
from ..module_utils._job.definition.process_environment import ENCODING, LOCALE, NEAR, PROXIES, activation
from ..module_utils._job.documents import ProcessSpec
from ..module_utils._launchers.hostfile import hostfile_path, remote_shell

HOSTFILE = "DEEPLEARNING_HOSTFILE"
# The variables that a shell can export.
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The host names that are valid file names. Hosts report their own names.
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,240}")


def specs_of_job(params: Mapping[str, Any]) -> list[ProcessSpec]:
    """Return the specs of the processes on all hosts of a job, without secrets. Raises LaunchError, RefusalError or ValueError."""
    if not params["hosts"]:
        raise ValueError("hosts: the list is empty. Specify the job's hosts.")
    for host in params["hosts"]:
        if not HOST.fullmatch(host["name"]):
            raise ValueError(f"hosts: {host['name']!r:.100} is not a valid host name. Use letters, digits, dots, hyphens and underscores.")
    public = {name: value for name, value in params["environment"].items() if name not in params["secrets"]}
    without_secrets = {**params, "environment": public, "secrets": {}, "key": "not used in scripts"}
    return plan(without_secrets, directories.Paths(os.path.join(params["directory"], params["name"])))


def processes(specs: Iterable[ProcessSpec]) -> list[dict[str, Any]]:
    """Return the host, rank, name, command line and log of each process."""
    return [
        {
            "host": spec["host"],
            "rank": spec["rank"],
            "name": spec["name"],
            "argv": spec["argv"],
            "log": directories.Paths(spec["directory"]).log(spec["name"]),
        }
        for spec in specs
    ]


def lines(specs: Iterable[ProcessSpec]) -> list[str]:
    return [f"{spec['name']} on {spec['host']}: {_description(spec)}" for spec in specs]


def _description(spec: ProcessSpec) -> str:
    if spec["part"] == naming.STANDBY:
        return "waits to take the place of a process on a lost host"
    return shlex.join(spec["argv"]) or f"runs the commands that {spec['lead']} sends"


def scripts(specs: Iterable[ProcessSpec], params: Mapping[str, Any]) -> dict[str, str]:
    """Return the script of each host that runs processes, keyed by host name. Processes on standby are left out."""
    by_host: dict[str, list[ProcessSpec]] = {}
    for spec in specs:
        if spec["part"] == naming.STANDBY:
            continue
        by_host.setdefault(spec["host"], []).append(spec)
    return {host: script(own, params) for host, own in by_host.items()}


def script(specs: Sequence[ProcessSpec], params: Mapping[str, Any]) -> str:
    """Return the script that starts the processes of one host in the background.

    The processes have the same environment and logs as in a job. The script takes the values of secrets from its own environment. The
    script uses SSH instead of the remote shell that a job's supervisors provide.
    """
    first = specs[0]
    environments = [environment(spec) for spec in specs]
    shared = common(environments)
    commands = [command(spec, own, shared) for spec, own in zip(specs, environments)]
    return "\n".join(
        [
            "#!/bin/bash",
            f"# Starts the processes of job {first['job']} on {first['host']} in the background, in the same way as launcher "
            f"{params['launcher']}.",
            f"# Run this script as user {params['user']}. The processes are not part of a job, so the stop playbook does not stop them.",
            "source /etc/profile",
            activation(first["programs"]).rstrip(),
            f"logs={shlex.quote(directories.Paths(first['directory']).logs)}",
            f"cd {shlex.quote(first['cwd'])} || exit",
            f'export PATH={shlex.quote(first["programs"])}:"$PATH"',
            *(f"export {name}={shlex.quote(value)}" for name, value in sorted(shared.items())),
            *(
                f'export {name}="${{{name}:?Set this secret before you run the script.}}"'
                for name in filter(VARIABLE.fullmatch, params["secrets"])
            ),
            *without_proxy(first["peers"]),
            f'[ -n "{"".join("$" + name for name in LOCALE)}" ] || export LANG={ENCODING}',
            f"export {HOSTFILE}=$(mktemp)",
            f"cat >${HOSTFILE} <<'END'\n{first['hostfile']}END",
            *(line for lines_of_process in commands for line in ("", *lines_of_process)),
            "",
        ]
    )


def without_proxy(peers: Sequence[str]) -> list[str]:
    """Return the lines of a script that keep the processes from reaching the job's hosts through a proxy server, as in a job."""
    proxies = "".join(f"${name}${name.upper()}" for name in PROXIES)
    return [
        f'if [ -n "{proxies}" ] && [ "$no_proxy" != \'*\' ] && [ "$NO_PROXY" != \'*\' ]; then',
        f'  export no_proxy="${{no_proxy:+$no_proxy,}}${{NO_PROXY:+$NO_PROXY,}}"{shlex.quote(",".join((*NEAR, *peers)))}',
        '  export NO_PROXY="$no_proxy"',
        "fi",
    ]


def environment(spec: ProcessSpec) -> dict[str, str]:
    """Return the environment of a process that is started without a supervisor. The script itself creates the host file."""
    agent = remote_shell(spec["job"], spec["lead"])
    return {name: "ssh" if value == agent else value for name, value in spec["environment"].items() if name != HOSTFILE}


def common(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the variables that have the same value in all environments and that a shell can export."""
    first, *rest = environments
    return {name: value for name, value in first.items() if VARIABLE.fullmatch(name) and all(other.get(name) == value for other in rest)}


def command(spec: ProcessSpec, environment: Mapping[str, str], shared: Mapping[str, str]) -> list[str]:
    if not spec["argv"]:
        return [f"# {spec['name']}: {spec['lead']} starts its processes on this host over SSH."]
    hostfile = hostfile_path(spec["job"], spec["lead"])
    own = [shlex.quote(f"{name}={value}") for name, value in sorted(environment.items()) if name not in shared]
    words = [f'"${HOSTFILE}"' if word == hostfile else shlex.quote(word) for word in spec["argv"]]
    return [
        f"# {spec['name']}",
        " ".join([*(["env", *own] if own else []), *words, f'>"$logs"/{spec["name"]}.log', "2>&1", "</dev/null", "&"]),
    ]


def write(folder: Path, scripts: Mapping[str, str], *, check_mode: bool) -> list[str]:
    """Write each host's script to `<folder>/<host>.sh`, and return the paths of the scripts whose content changed. Raises OSError."""
    changed = []
    for host, content in scripts.items():
        path = folder / f"{host}.sh"
        if path.is_file() and path.read_bytes() == content.encode():
            continue
        changed.append(str(path))
        if not check_mode:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode())
            path.chmod(0o755)
    return changed
