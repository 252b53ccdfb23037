# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Messages of the roles that set up hosts and stage data sets. The filter `message` calls these functions by name."""

from __future__ import annotations

from typing import Sequence


def injected_facts() -> str:
    """Return that facts from nodes could override variables on the controller."""
    return (
        "inject_facts_as_vars: this setting is enabled, so facts returned by a node could override any variable. Set "
        "ANSIBLE_INJECT_FACT_VARS=false in the environment, or add these lines to ansible.cfg:\n[defaults]\ninject_facts_as_vars = false"
    )


def missing_authority(cluster: str, reason: str) -> str:
    """Return that a cluster has no SSH certificate authority. `reason` is the message of the module, if there is one."""
    return f"Cannot get the certificate authority of cluster {cluster}: {reason or 'no reason given.'}"


def missing_master(queue: str, master: str) -> str:
    """Return that a queue cannot be configured without the master, which is empty if the inventory has none."""
    return (
        f"{queue}: the master ({master or 'no host has deeplearning_number 1'}) takes no part in this run, but it distributes the "
        "configuration. Include the master in --limit, and check that it is reachable."
    )


def missing_key(reason: str) -> str:
    """Return why the master has no MUNGE key. `reason` is the message of the module, if there is one."""
    return reason or "munge_key: the host returned no key. Check the host."


def missing_programs(queue: str, host: str, packages: Sequence[str]) -> str:
    """Return that installed packages of a queue lack programs."""
    return (
        f"{queue}: {host} still lacks the programs of {', '.join(packages)}, although the packages are installed. Reinstall these packages."
    )


def leaving_nodes(queue: str, nodes: Sequence[str]) -> str:
    """Return which nodes have left the cluster and still run jobs of a queue."""
    return (
        f"These nodes left the cluster, but jobs are still running on them: {', '.join(nodes)}. {queue} does not start new jobs on these "
        "nodes. Run the role again when the running jobs have ended."
    )


def missing_tensorboard(python: str, host: str) -> str:
    """Return that a host cannot run TensorBoard."""
    return (
        f"tensorboard_python: {python} does not exist on {host} or has no TensorBoard. Install the package tensorboard there, or set "
        "tensorboard_python to another path."
    )


def missing_secret_path(file: str, host: str) -> str:
    """Return that the file with TensorBoard's secret path is damaged."""
    return f"{file}: the file on {host} contains no secret path. Delete the file."


def silent_tensorboard(port: int, host: str, log: str) -> str:
    """Return that TensorBoard does not respond, with the end of its log."""
    return (
        f"TensorBoard does not respond on port {port} of {host}.\nIf another program uses this port, set tensorboard_port to another port. "
        f"The last lines of TensorBoard's log:\n{log}"
    )


def closed_tunnel(port: int, host: str, error: str) -> str:
    """Return that a tunnel to a host cannot be opened. `error` is what ssh reports."""
    return (
        f"tensorboard_local_port: cannot open a tunnel from port {port} of this machine to {host}. If another program uses the port, set "
        f"tensorboard_local_port to another port. ssh reports: {error}"
    )


def address_of_tensorboard(logs: str, port: int, path: str) -> str:
    """Return where TensorBoard shows its log directory."""
    return f"TensorBoard shows {logs} at http://127.0.0.1:{port}{path}/ through a tunnel."


def staged_dataset(name: str, path: str) -> str:
    """Return where a data set is."""
    return f"{name} is at {path}."
