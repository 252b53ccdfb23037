# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Open MPI: mpirun on the first host starts a daemon on every other host. The daemons start the ranks on their hosts."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Mapping, Sequence

from .._job.naming import SERVICE, WORKER
from .base import Culprit, Host, Launcher, Process, Program
from .gpu_shares import gpu_environment, slots
from .hostfile import hostfile_path, remote_shell
from .ports import port

LEAD = "mpirun"

# mpirun reports which rank has failed, but not its host. Status 143 means that mpirun stopped the rank because another rank failed. Signals
# also reach the shell, which must not exit while its rank saves its state after SIGTERM.
RANK = """trap : TERM
"$@"
status=$?
case $status in
  0 | 143) ;;
  *) echo "rank $OMPI_COMM_WORLD_RANK on $DEEPLEARNING_HOST ended with exit status $status" >&2 ;;
esac
exit $status"""
CULPRIT = re.compile(r"rank (\d{1,7}) on [\w.-]{1,253} ended with exit status (\d{1,3})\b")
TAG = "[1,{}]<"

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "mpirun": {"type": "str", "default": "mpirun"},
    "arguments": {"type": "list", "elements": "str", "default": []},
}


def plan(program: Program, hosts: Sequence[Host]) -> list[Process]:
    """Return the mpirun process and, for every other host, a process whose unit runs the daemon and its ranks. Raises LaunchError."""
    counts = [len(slots(program, host)) for host in hosts]
    command = [
        program.options["mpirun"],
        *("-np", str(sum(counts)), "--hostfile", hostfile_path(program.job, LEAD)),
        *("--map-by", "slot", "--bind-to", "none", "--tag-output"),
        *program.options["arguments"],
        *("sh", "-c", RANK, "rank"),
        *program.argv,
    ]
    shared = {
        **_parameters(remote_shell(program.job, LEAD), _network(hosts)),
        # torch.distributed needs these variables. Scripts take the rank and the world size from Open MPI's variables.
        "MASTER_ADDR": hosts[0].name,
        "MASTER_PORT": str(port(program.run)),
    }
    return [
        Process(
            host=host.name,
            rank=index,
            argv=[] if index else command,
            environment={**shared, **_host_environment(host, count)},
            name=f"orted{index}" if index else LEAD,
            part=SERVICE if index else WORKER,
            ranks=() if index else range(sum(counts)),
            tagged=not index,
        )
        for index, (host, count) in enumerate(zip(hosts, counts))
    ]


def _parameters(agent: str, network: str) -> dict[str, str]:
    """Return MCA parameters as environment variables that the job's environment can override.

    Open MPI 5 uses other names for the parameters of the daemons, and ignores variables with the old names.
    """
    daemons = {
        ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"): agent,
        # Only the first host can run commands on the other hosts.
        ("OMPI_MCA_plm_rsh_no_tree_spawn", "PRTE_MCA_plm_ssh_no_tree_spawn"): "1",
        ("OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_oob_tcp_if_include"): network,
        # Use the job's shared memory, which is deleted after the job. Files that a killed daemon leaves in /tmp would not be deleted.
        ("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"): "/dev/shm",
    }
    return {
        **{name: value for names, value in daemons.items() for name in names},
        "OMPI_MCA_btl_tcp_if_include": network,
        # Copy through shared memory, because kernels and containers often forbid reading another process's memory.
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    }


def _network(hosts: Sequence[Host]) -> str:
    """Return the network for Open MPI: the interface, or the smallest network that contains all addresses if the interface names differ
    between hosts.

    Without this setting, Open MPI would also try bridges with the same address on every host (docker0), and wait forever.
    """
    interfaces = {host.interface for host in hosts}
    if len(interfaces) == 1:
        return interfaces.pop()
    network = ipaddress.IPv4Network(hosts[0].address)
    while not all(ipaddress.IPv4Address(host.address) in network for host in hosts):
        network = network.supernet()
    return str(network)


def _host_environment(host: Host, count: int) -> dict[str, str]:
    """Return the host-specific variables for the `count` ranks of a host. mpirun forwards only its own variables."""
    return {
        "DEEPLEARNING_HOST": host.name,
        # As with torchrun, several ranks share the cores, and a single rank uses all cores.
        **({"OMP_NUM_THREADS": "1"} if count > 1 else {}),
        "GLOO_SOCKET_IFNAME": host.interface,
        "NCCL_SOCKET_IFNAME": "=" + host.interface,
        **gpu_environment(host.gpus),
    }


def culprit(lines: Sequence[str]) -> Culprit | None:
    """Return the rank that, according to the log, failed first."""
    for index, line in enumerate(lines):
        found = CULPRIT.search(line)
        if found:
            return Culprit(found[1], int(found[2]), index)
    return None


LAUNCHER = Launcher(plan, OPTIONS, tag=TAG, culprit=culprit)
