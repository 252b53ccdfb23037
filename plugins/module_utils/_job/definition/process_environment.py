# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The environment of a job's process: the variables of the host's login shell and of the job, and what both need together."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import Mapping, NamedTuple, Sequence

from ..documents import ProcessSpec

PROFILE = "/etc/profile"

# Variables that name a proxy server. Programs read them in lower case, in upper case, or in both.
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")

# What no process reaches through a proxy server, besides the job's hosts: the host itself and EC2's instance metadata service.
NEAR = ("localhost", "127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254")

# The variables that determine the encoding of texts, and the value of LANG if none of them is set.
LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")
ENCODING = "C.UTF-8"

# The directory for `pip install --user` in a sandboxed job. In the home directory, packages would change all later jobs on the host.
USER_BASE = "/tmp/python-user"  # the job's own directory

# Runs the scripts with which conda's packages set variables when a user activates an environment. The shell has no arguments, because the
# scripts would see them.
ACTIVATE = """\
if [ -d {prefix}/conda-meta ]; then
  export CONDA_PREFIX={prefix}
  for script in {prefix}/etc/conda/activate.d/*.sh; do [ ! -r "$script" ] || . "$script"; done
fi
"""
# The output of the scripts precedes the first NUL.
SHOW = "printf '\\0'; exec env -0"


class Login(NamedTuple):
    """The variables of a login shell. If the shell has failed, `problem` is the reason, and the variables are those of this process."""

    variables: dict[str, str]
    problem: str = ""


def process_environment(spec: ProcessSpec) -> Login:
    """Return the environment of the process.

    The directory of the process's Python interpreter comes first in PATH, as in an active virtual environment.
    """
    login = login_environment(spec["own_profile"], activation(spec["programs"]))
    path = spec["programs"] + os.pathsep + login.variables.get("PATH", os.defpath)
    base = {} if spec["own_profile"] else {"PYTHONUSERBASE": USER_BASE}
    merged = with_locale({**base, **login.variables, "PATH": path, **spec["environment"]})
    return Login(without_proxy(merged, spec["peers"]), login.problem)


def activation(programs: str) -> str:
    """Return the lines of a shell script that activate the conda environment, if any, whose programs are in this directory."""
    return ACTIVATE.format(prefix=shlex.quote(os.path.dirname(programs)))


def login_environment(own_profile: bool, more: str = "") -> Login:
    """Return the environment of the user's login shell (/etc/profile and similar files), as if a user had started the script in a shell.

    With `own_profile`, the shell also reads the user's own profile. Sandboxed jobs do not read a user's profile, because an earlier job
    may have written it. Afterwards, the shell runs the lines in `more`.
    """
    command = ["/bin/bash", "--login", "-c", more + SHOW]
    if not own_profile:
        read = f"[ ! -r {PROFILE} ] || . {PROFILE}\n"
        command = ["/bin/bash", "--login", "--noprofile", "-c", read + more + SHOW]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, check=False
        )
    except subprocess.TimeoutExpired:
        return Login(dict(os.environ), "it has not ended after 30 s")
    except OSError as error:
        return Login(dict(os.environ), str(error))
    _noise, *items = os.fsdecode(result.stdout).split("\0")
    if result.returncode or not items:
        return Login(dict(os.environ), f"it ended with exit status {result.returncode} before its end")
    variables = dict(item.split("=", 1) for item in items if "=" in item)
    return Login({name: value for name, value in variables.items() if name not in ("_", "SHLVL", "PWD", "OLDPWD")})


def with_locale(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, with UTF-8 as the encoding of texts if they name none. In the locale C, many programs know only ASCII."""
    named = any(environment.get(name) for name in LOCALE)
    return dict(environment) if named else {**environment, "LANG": ENCODING}


def without_proxy(environment: Mapping[str, str], peers: Sequence[str]) -> dict[str, str]:
    """Return the variables so that no process uses a proxy server to reach `peers`, its own host or the instance metadata service."""
    found = dict(environment)
    if not any(value for name, value in environment.items() if name.lower() in PROXIES):
        return found
    given = re.split(r"[,\s]+", ",".join(environment.get(name, "") for name in ("no_proxy", "NO_PROXY")))
    # An asterisk applies only if it is alone.
    value = "*" if "*" in given else ",".join(dict.fromkeys(filter(None, (*given, *NEAR, *peers))))
    return {**found, "no_proxy": value, "NO_PROXY": value}
