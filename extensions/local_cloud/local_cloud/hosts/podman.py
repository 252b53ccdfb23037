"""Runs podman with its own configuration. The machine's configuration is neither read nor changed."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

from ..private_files import open_private

LABEL = "deeplearning.local-cloud"
# Seconds. Slow commands, such as builds, have their own time limit.
TIMEOUT = 300.0


def as_root(*command: str) -> list[str]:
    """Return the command in a form that runs as root. Users other than root need passwordless sudo."""
    return list(command) if os.geteuid() == 0 else ["sudo", "-n", *command]


def remove_as_root(path: Path) -> None:
    """Remove a folder that contains files of containers. A missing folder is ignored."""
    if path.exists():
        subprocess.run(as_root("rm", "-rf", "--one-file-system", str(path)), check=True, timeout=TIMEOUT)


class PodmanError(RuntimeError):
    """A podman command failed. The message is the last line of the command's error output."""


class Podman:
    """The podman command, run as root with `configuration` in place of the machine's containers.conf."""

    def __init__(self, configuration: Path) -> None:
        self.configuration = configuration
        self._command = as_root("env", f"CONTAINERS_CONF={configuration}", "podman")

    def __call__(self, *arguments: str, timeout: float = TIMEOUT) -> str:
        """Run `podman ARGUMENTS` and return its standard output. Raises `PodmanError`."""
        try:
            done = subprocess.run([*self._command, *arguments], capture_output=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise PodmanError(f"Timed out after {timeout:.0f} s waiting for podman {arguments[0]}.") from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"]
            raise PodmanError(f"podman {arguments[0]}: {said[-1].removeprefix('Error: ')}")
        return done.stdout.decode(errors="replace")

    def succeeds(self, *arguments: str) -> bool:
        """Return whether `podman ARGUMENTS` exits with 0."""
        try:
            self(*arguments)
        except PodmanError:
            return False
        return True

    def configure(self, image: str, *options: str) -> bool:
        """Write a configuration with an OCI runtime that can run `image`: the machine's default, or the first other runtime that works.

        Return whether the image also runs with these options of `podman run`. Raises `PodmanError`.
        """
        reasons = []
        for runtime in ("", "runc", "crun"):
            self.write_configuration(runtime)
            if options and self.succeeds("run", "--rm", "--network=none", *options, image, "true"):
                return True
            try:
                self("run", "--rm", "--network=none", image, "true")
                return not options
            except PodmanError as error:
                reasons.append(f"{runtime or 'default runtime'}: {error}")
        raise PodmanError("Containers do not run on this machine: " + "; ".join(reasons))

    def write_configuration(self, runtime: str = "") -> None:
        """Write the configuration: limits that the machine allows, and a log driver that `podman logs` can read."""
        limits = [
            f"{name}={_hard_limit(kind, most)}:{_hard_limit(kind, most)}"
            for name, kind, most in (("nofile", resource.RLIMIT_NOFILE, 1 << 20), ("nproc", resource.RLIMIT_NPROC, 1 << 15))
        ]
        lines = [
            "[containers]",
            f"default_ulimits = [{', '.join(f'{chr(34)}{limit}{chr(34)}' for limit in limits)}]",
            'log_driver = "k8s-file"',
            "pids_limit = 0",
            "[engine]",
            'events_logger = "file"',
            *([f'runtime = "{runtime}"'] if runtime else []),
        ]
        self.configuration.parent.mkdir(parents=True, exist_ok=True)
        with open_private(self.configuration) as file:
            file.write("\n".join(lines) + "\n")


def _hard_limit(kind: int, most: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)
