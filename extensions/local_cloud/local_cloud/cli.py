"""The command `local-cloud`."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from .home import default_home
from .hosts.podman import PodmanError
from .image.builder import environment_names
from .manager import FOREIGN_VARIABLES, CloudError, CloudManager
from .status import table

WITHOUT_USER_NAMESPACE = (
    "local-cloud: hosts run without a user namespace: root of a host is root of this machine. Run nothing there that you would not run "
    "here as root. A cloud with hosts from before keeps them so: destroy it and start again where this machine allows user namespaces."
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    cloud = CloudManager(options.home, progress=lambda step: print(f"local-cloud: {step}", flush=True))
    try:
        return COMMANDS[options.command](cloud, options)
    except (CloudError, PodmanError) as error:
        print(f"local-cloud: {error}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"local-cloud: {error.cmd[0]} failed with exit status {error.returncode}", file=sys.stderr)
    return 1


def start(cloud: CloudManager, options: argparse.Namespace) -> int:
    started = cloud.start(options.name, options.port, options.hosts, options.environments)
    print(f"local-cloud: {'running' if started else 'runs already'} at {cloud.endpoint}")
    if cloud.setup.hosts and not cloud.setup.user_namespace:
        print(WITHOUT_USER_NAMESPACE)
    return 0


def stop(cloud: CloudManager, _options: argparse.Namespace) -> int:
    print("local-cloud: stopped, hosts and data stay" if cloud.stop() else "local-cloud: not running")
    return 0


def destroy(cloud: CloudManager, _options: argparse.Namespace) -> int:
    cloud.destroy()
    print(f"local-cloud: nothing is left of the cloud in {cloud.home.folder}")
    return 0


def status(cloud: CloudManager, _options: argparse.Namespace) -> int:
    """Exit status 3, as systemctl's, when it does not run."""
    if not cloud.is_running:
        print("local-cloud: not running")
        return 3
    print(f"local-cloud: running at {cloud.endpoint}, process {cloud.home.server_pid()}, files in {cloud.home.folder}")
    print(table(cloud.environment))
    return 0


def env(cloud: CloudManager, _options: argparse.Namespace) -> int:
    if not cloud.setup.port:
        raise CloudError("never started, so it has no address yet")
    print(f"unset {' '.join(FOREIGN_VARIABLES)}")
    for name, value in cloud.environment.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def image(cloud: CloudManager, _options: argparse.Namespace) -> int:
    setup = cloud.prepare_image(cloud.setup)
    cloud.home.write_setup(setup)
    print(f"image {setup.image}")
    for name, folder in setup.environments.items():
        print(f"environment {name} {folder}")
    return 0


def operator(cloud: CloudManager, options: argparse.Namespace) -> int:
    """Print shell exports as `env` does, with the access key of a user who has the policies in files."""
    if not cloud.is_running:
        raise CloudError("not running")
    keys = cloud.operator(options.name, [path.read_text() for path in options.policies])
    for name, value in keys.environment.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


COMMANDS = {each.__name__: each for each in (start, stop, status, destroy, env, operator, image)}
HELP = {
    "start": "start the API, build what is missing",
    "stop": "stop the API, keep hosts and data",
    "status": "show instances, groups and file systems",
    "destroy": "end everything and delete all data",
    "env": "print shell exports that make AWS tools use it",
    "operator": "make an IAM user with the policies in files, and print shell exports of its access key",
    "image": "build the node image and the environments of frameworks",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="local-cloud", description="An AWS API on this machine whose instances are containers.")
    parser.add_argument("--home", type=Path, default=default_home(), help="folder of the cloud (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, text in HELP.items():
        command = commands.add_parser(name, help=text, description=text)
        # Accepted behind the command too.
        command.add_argument("--home", type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        if name == "start":
            command.add_argument("--name", help="what containers and networks are called after")
            command.add_argument("--port", type=_port, default=0, help="of the API (default: as last time, at first a free one)")
            environments = {"action": "append", "default": [], "choices": environment_names(), "metavar": "NAME"}
            command.add_argument("--environment", dest="environments", help="hosts have /opt/NAME too; again for more", **environments)
            command.add_argument("--hosts", action=argparse.BooleanOptionalAction, help="instances are containers, or entries alone")
        if name == "operator":
            command.add_argument("name", help="of the user")
            command.add_argument("policies", nargs="+", type=Path, metavar="FILE", help="an IAM policy")
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
