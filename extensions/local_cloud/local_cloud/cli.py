"""The command `local-cloud`."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

from .home import default_home
from .hosts.podman import PodmanError
from .image.builder import environment_names
from .manager import FOREIGN_VARIABLES, CloudError, CloudManager, own_environment
from .status import table

BASHRC = Path(__file__).with_name("bashrc")
WITHOUT_USER_NAMESPACE = (
    "local-cloud: Hosts run without a user namespace, so root on a host is root on this machine. On hosts, run only what you "
    "would run as root on this machine. To use user namespaces on a machine that allows them, destroy the local cloud and start it again."
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
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
    started = cloud.start(options.name, options.port, options.hosts, options.environments, new_account=True)
    if options.relaunch:
        cloud.relaunch(options.environments)
    print(f"local-cloud: {'running' if started else 'already running'} at {cloud.endpoint}")
    if cloud.setup.hosts and not cloud.setup.user_namespace:
        print(WITHOUT_USER_NAMESPACE)
    return 0


def stop(cloud: CloudManager, _options: argparse.Namespace) -> int:
    print("local-cloud: stopped; hosts and data are kept" if cloud.stop() else "local-cloud: not running")
    return 0


def destroy(cloud: CloudManager, _options: argparse.Namespace) -> int:
    cloud.destroy()
    print(f"local-cloud: destroyed the local cloud in {cloud.home.folder}")
    return 0


def status(cloud: CloudManager, _options: argparse.Namespace) -> int:
    """Show the status. Like systemctl, return 3 if the local cloud is not running."""
    if not cloud.is_running:
        print("local-cloud: not running")
        return 3
    print(f"local-cloud: running at {cloud.endpoint}, process {cloud.home.server_pid()}, files in {cloud.home.folder}")
    print(table(cloud.environment))
    return 0


def env(cloud: CloudManager, _options: argparse.Namespace) -> int:
    if not cloud.setup.port:
        raise CloudError("The local cloud has no address before its first start. Run `local-cloud start`.")
    print(f"unset {' '.join(FOREIGN_VARIABLES)}")
    for name, value in cloud.environment.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def shell(cloud: CloudManager, _options: argparse.Namespace) -> int:
    """Replace this process with the user's shell, in which AWS tools use the local cloud. In bash, the prompt shows that the shell uses the
    local cloud.
    """
    if not cloud.is_running:
        raise CloudError("The local cloud is not running. Run `local-cloud start`.")
    environment = own_environment() | cloud.environment
    program = os.environ.get("SHELL") or "bash"
    if Path(program).name != "bash":
        print(f"local-cloud: This shell uses the local cloud in {cloud.home.folder}. Leave the shell with exit.", flush=True)
        os.execvpe(program, [program], environment)
    os.execvpe(program, [program, "--rcfile", str(BASHRC), "-i"], environment)


def image(cloud: CloudManager, _options: argparse.Namespace) -> int:
    setup = cloud.prepare_image(cloud.setup)
    cloud.home.write_setup(setup)
    print(f"image {setup.image}")
    for name, folder in setup.environments.items():
        print(f"environment {name} {folder}")
    return 0


def network(cloud: CloudManager, _options: argparse.Namespace) -> int:
    print(cloud.further_network())
    return 0


def operator(cloud: CloudManager, options: argparse.Namespace) -> int:
    """Create an IAM user with the policies in the given files, and print its access key as shell exports."""
    if not cloud.is_running:
        raise CloudError("The local cloud is not running. Run `local-cloud start`.")
    keys = cloud.operator(options.name, [path.read_text() for path in options.policies])
    for name, value in keys.environment.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


COMMANDS = {each.__name__: each for each in (start, stop, status, destroy, env, shell, network, operator, image)}
HELP = {
    "start": "start the API, and build the image and environments if they are missing",
    "stop": "stop the API, and keep hosts and data",
    "status": "show instances, groups and file systems",
    "destroy": "stop the API, and delete hosts and all data",
    "env": "print shell exports that point AWS tools to the local cloud",
    "shell": "open a shell in which AWS tools use the local cloud",
    "network": "print an address range that is unused on this machine, for the VPC of another cluster",
    "operator": "create an IAM user with the policies in the given files, and print its access key as shell exports",
    "image": "build the node image and the framework environments",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="local-cloud", description="An AWS API on this machine whose instances are containers.")
    parser.add_argument("--home", type=Path, default=default_home(), help="folder of the local cloud (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, text in HELP.items():
        command = commands.add_parser(name, help=text, description=text)
        # This option is also accepted after the command.
        command.add_argument("--home", type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        if name == "start":
            command.add_argument("--name", help="prefix of the names of containers and networks")
            command.add_argument("--port", type=_port, default=0, help="port of the API (default: the previous port, or a free port)")
            environments = {"action": "append", "default": [], "choices": environment_names(), "metavar": "NAME"}
            command.add_argument("--environment", dest="environments", help="also provide /opt/NAME on hosts (repeatable)", **environments)
            command.add_argument(
                "--relaunch",
                action="store_true",
                help="replace Auto Scaling group instances whose hosts lack one of the environments",
            )
            command.add_argument(
                "--hosts", action=argparse.BooleanOptionalAction, help="run instances as containers, or as entries in the API only"
            )
        if name == "operator":
            command.add_argument("name", help="name of the user")
            command.add_argument("policies", nargs="+", type=Path, metavar="FILE", help="an IAM policy")
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number.")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
