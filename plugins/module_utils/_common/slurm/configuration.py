# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the contents of Slurm's configuration files, and the nodes that existing files describe."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, Iterable, Mapping, NamedTuple

from ..managed_files import HostFile
from ..worker_metadata.metadata import MASTER_NAME

# slurm.conf describes 95 % of a node's memory, because Slurm drains a node that has less memory than described. A kernel update or a
# replacement of the node can change its memory by a few megabytes.
MEMORY_SHARE = 0.95
# Parameters that `parameters` may override. slurm.conf(5) describes them.
DEFAULTS = {
    # With this value, a node that registers with a valid configuration returns to service, even after a reboot.
    "ReturnToService": "2",
    # Scripts without --mem run, because memory is not a consumable resource.
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    # EFA pins memory, and the locked-memory limit of a login shell would be too low.
    "PropagateResourceLimitsExcept": "MEMLOCK",
    # This time is longer than the sum of a training job's stop_timeout (30 s by default) and 10 s for systemd, so that cancelled jobs end
    # in time.
    "KillWait": "60",
    # Slurm rejects a job that can never start, instead of keeping it in the queue forever.
    "EnforcePartLimits": "ALL",
    # `scontrol reboot` needs a program, and Slurm sets a node to down that takes longer. Large instances boot for several minutes.
    "RebootProgram": "/sbin/reboot",
    "ResumeTimeout": "1800",
}
WITH_CGROUPS = {"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/cgroup,task/affinity"}
WITHOUT_CGROUPS = {"ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none"}
# Parameters for which the module has options, or on which the configuration relies. The names are in lower case, because Slurm ignores
# case.
OWN = frozenset(
    (
        "authtype clustername include grestypes nodename partitionname slurmctldhost slurmctldparameters slurmctldport slurmduser "
        "slurmdspooldir slurmuser statesavelocation"
    )
    .lower()
    .split()
)
DIRECTORY = "/etc/slurm"
# The files for which the module has other options.
OWN_FILES = frozenset(("slurm.conf",))
# The mode of files that begin with `#!`. All nodes have these files, and nodes get the other files from slurmctld.
SCRIPT_MODE = 0o755
_LUA = r"(?:.*,)?(?:\w+/)?lua(?:,.*)?"
# Parameters that need a file beside slurm.conf: their name in lower case, their value, and the file. Without the file, a daemon ends, or no
# job starts.
NEEDED_FILES = (
    ("topologyplugin", r"topology/(?:tree|block)", "topology.conf"),
    ("jobcontainertype", r"job_container/tmpfs", "job_container.conf"),
    ("jobsubmitplugins", _LUA, "job_submit.lua"),
    ("clifilterplugins", _LUA, "cli_filter.lua"),
    ("burstbuffertype", r"burst_buffer/lua", "burst_buffer.lua"),
    ("jobcomptype", r"jobcomp/lua", "jobcomp.lua"),
    ("acctgatherprofiletype", r"acct_gather_profile/(?:hdf5|influxdb)", "acct_gather.conf"),
    ("nodefeaturesplugins", r"(?:.*,)?(?:node_features/)?helpers(?:,.*)?", "helpers.conf"),
)
# Parameters that need another parameter: their name in lower case, their value, the other parameter, and the values of it that suffice.
NEEDED_PARAMETERS = (
    ("jobcontainertype", r"job_container/tmpfs", "PrologFlags=Contain", r"(?:.*,)?contain(?:,.*)?"),
    ("accountingstoragetype", r"accounting_storage/slurmdbd", "AccountingStorageHost", r".+"),
)
# These limits exceed the hardware of every instance type. Slurm stores the number of CPUs in 16 bits.
MOST_CPUS, MOST_MEMORY, MOST_GPUS, MOST_DISK = 65_534, 1 << 30, 1024, 1 << 31
SPOOL = "/var/lib/slurm/slurmd"
PORT = 6817

HEADER = "# The role deeplearning.cluster.slurm writes this file and overwrites changes.\n"
PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9]*")
# A comment character or a line break in a value would hide other parameters or add parameters.
VALUE = re.compile(r"[^#\x00-\x1f\x7f]+")
NAME, NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*"), "letters, digits, dots and hyphens"
GROUP = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
ADDRESS = re.compile(r"[0-9A-Fa-f:.]+")
PATH = re.compile(r"/[A-Za-z0-9._/+-]+")
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
FEATURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
GPU_TYPE = re.compile(r"[a-z][a-z0-9]{0,31}")
# The lines of slurm.conf that name the other files, with a digest of each.
FILE_LINE = re.compile(rf"# file ({FILE_NAME.pattern}) [0-9a-f]{{12}}")


class Hardware(NamedTuple):
    """A node's hardware: number of CPUs (hardware threads), memory in MiB, and number of GPUs, each with a device file /dev/nvidia<n>.

    Without a regular topology, `sockets`, `cores` (per socket) and `threads` (per core) are 0. `gpu_type` is the model of the GPUs, such as
    h100, or empty if it is unknown. `disk` is the size of /tmp in MiB, or 0 if it is unknown.
    """

    cpus: int
    sockets: int
    cores: int
    threads: int
    memory: int
    gpus: int
    gpu_type: str = ""
    disk: int = 0


class SlurmNode(NamedTuple):
    """A node: its host name, its private address, its hardware, and the features that jobs can request with `--constraint`."""

    name: str
    address: str
    hardware: Hardware
    features: tuple[str, ...] = ()


class SlurmSettings(NamedTuple):
    """The contents of slurm.conf, apart from the nodes. `controller` is the name of the host that runs slurmctld.

    `files` contains the contents of other files in the same directory, keyed by name.
    """

    cluster: str
    controller: str
    state_directory: str
    partition: str
    groups: tuple[str, ...]
    cgroups: bool
    parameters: Mapping[str, str]
    files: Mapping[str, str] = {}


def check_settings(settings: SlurmSettings) -> None:
    """Raise ValueError if one of the values is not allowed in slurm.conf."""
    _match("state_directory", settings.state_directory, PATH, "an absolute path of letters, digits and ._/+-")
    _match("partition", settings.partition, NAME, NAMES)
    for group in settings.groups:
        _match("groups", group, GROUP, "valid group names")
    for name, value in settings.parameters.items():
        _match("parameters", name, PARAMETER, "parameter names from slurm.conf(5)")
        if name.lower() in OWN:
            raise ValueError(f"parameters: {name} cannot be set, because the collection sets it. Remove this parameter.")
        _match(f"parameters: {name}", value, VALUE, "one line without #")
    given_files(settings.files)
    _check_needs(settings)


def _check_needs(settings: SlurmSettings) -> None:
    """Raise ValueError if a parameter needs a file or another parameter that is missing."""
    values = {name.lower(): value for name, value in settings.parameters.items()}
    names = {name.lower(): name for name in settings.parameters}
    needed = [(name, file) for name, pattern, file in NEEDED_FILES if re.fullmatch(pattern, values.get(name, ""), re.IGNORECASE)]
    needed += [(name, file) for name, value in values.items() for file in re.findall(rf"{DIRECTORY}/([^\s,:;=\"']+)", value)]
    for name, file in needed:
        if file not in settings.files:
            raise ValueError(f"parameters: {names[name]}={values[name]} needs the file {file}. Add it to files, or remove the parameter.")
    for name, pattern, other, sufficient in NEEDED_PARAMETERS:
        value = values.get(other.partition("=")[0].lower(), "")
        if re.fullmatch(pattern, values.get(name, ""), re.IGNORECASE) and not re.fullmatch(sufficient, value, re.IGNORECASE):
            raise ValueError(f"parameters: {names[name]}={values[name]} needs {other}. Add this parameter.")


def path_of(name: str) -> str:
    return os.path.join(DIRECTORY, name)


def given_files(files: Mapping[str, str]) -> list[HostFile]:
    """Return the files that users specify. Raises ValueError."""
    for name, content in files.items():
        _match("files", name, FILE_NAME, "file names without directories")
        if not isinstance(content, str):
            raise ValueError(f"files: the content of {name} is not text. Use a string, for example with |.")
        if name in OWN_FILES:
            raise ValueError(f"files: {name} cannot be set, because the collection writes it. Use parameters instead.")
        if content.startswith("#!") and content.partition("\n")[0].endswith("\r"):
            raise ValueError(f"files: {name} has Windows line breaks. Convert the file, for example with dos2unix.")
    modes = {name: SCRIPT_MODE if content.startswith("#!") else 0o644 for name, content in files.items()}
    return [HostFile(path_of(name), content, modes[name]) for name, content in files.items()]


def check_node(name: str, address: str) -> None:
    """Raise ValueError if the name or the address of a node is not allowed in slurm.conf."""
    _match("nodes: name", name, NAME, NAMES)
    _match(f"nodes: address of {name}", address, ADDRESS, "an IP address")


def _match(subject: str, value: str, pattern: re.Pattern[str], accepted: str) -> None:
    if not pattern.fullmatch(value):
        raise ValueError(f"{subject}: invalid value {value!r}. Use {accepted}.")


def settings_lines(settings: SlurmSettings) -> str:
    """Return the part of slurm.conf that does not depend on the nodes. Raises ValueError for settings that are not allowed."""
    check_settings(settings)
    _match("nodes: name", settings.controller, NAME, NAMES)
    own = {
        "ClusterName": settings.cluster,
        # The value is a host name instead of an address, because a running job keeps the configuration with which it started, but must
        # report its end to the current master.
        "SlurmctldHost": f"{settings.controller}({MASTER_NAME})",
        "SlurmctldPort": str(PORT),
        # Nodes get these files from slurmctld.
        "SlurmctldParameters": "enable_configless",
        "AuthType": "auth/munge",
        "SlurmUser": "slurm",
        "StateSaveLocation": settings.state_directory,
        "SlurmdSpoolDir": SPOOL,
        "GresTypes": "gpu",
    }
    chosen = {**DEFAULTS, **(WITH_CGROUPS if settings.cgroups else WITHOUT_CGROUPS)}
    # Slurm ignores the case of parameters.
    overridden = {name.lower() for name in settings.parameters}
    chosen = {name: value for name, value in chosen.items() if name.lower() not in overridden}
    partition = f"PartitionName={settings.partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
    if settings.groups:
        partition += " AllowGroups=" + ",".join(settings.groups)
    lines = [f"{name}={value}" for name, value in {**own, **chosen, **settings.parameters}.items()]
    files = [f"# file {name} {_digest(content)}" for name, content in settings.files.items()]
    return "\n".join([*lines, partition, *files]) + "\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def settings_digest(settings: SlurmSettings) -> str:
    """Return a digest of the settings, as twelve hexadecimal digits."""
    return _digest(settings_lines(settings))


def slurm_conf(settings: SlurmSettings, nodes: Iterable[SlurmNode]) -> str:
    """Return the contents of slurm.conf. Raises ValueError for values that are not allowed in this file."""
    # slurmctld reads all nodes in the file before it reads partitions, so their order does not matter.
    # The size of the nodes' disks is that of /tmp.
    has_other_disk = "tmpfs" in {name.lower() for name in settings.parameters}
    described = (node._replace(hardware=node.hardware._replace(disk=0)) if has_other_disk else node for node in nodes)
    return HEADER + settings_lines(settings) + "".join(node_line(node) + "\n" for node in described)


def node_line(node: SlurmNode) -> str:
    """Return the line of slurm.conf that describes a node. Raises ValueError."""
    check_node(node.name, node.address)
    for feature in node.features:
        _match(f"nodes: features of {node.name}", feature, FEATURE, "letters, digits, dots, hyphens and underscores")
    hardware = node.hardware
    words = {"NodeName": node.name, "NodeAddr": node.address, "CPUs": hardware.cpus}
    if hardware.sockets:
        words.update(SocketsPerBoard=hardware.sockets, CoresPerSocket=hardware.cores, ThreadsPerCore=hardware.threads)
    words["RealMemory"] = hardware.memory
    if hardware.disk:
        words["TmpDisk"] = hardware.disk
    if hardware.gpus:
        words["Gres"] = ":".join(filter(None, ("gpu", _gpu_type(node), str(hardware.gpus))))
    if node.features:
        words["Feature"] = ",".join(node.features)
    return " ".join(f"{key}={value}" for key, value in words.items())


def _gpu_type(node: SlurmNode) -> str:
    if node.hardware.gpu_type:
        _match(f"nodes: gpu_type of {node.name}", node.hardware.gpu_type, GPU_TYPE, "lower-case letters and digits")
    return node.hardware.gpu_type


def gres_conf(nodes: Iterable[SlurmNode]) -> str:
    """Return gres.conf, which lists the GPUs of each node. Raises ValueError."""
    return HEADER + "AutoDetect=off\n" + "".join(gres_line(node) + "\n" for node in nodes if node.hardware.gpus)


def gres_line(node: SlurmNode) -> str:
    """Return the line of gres.conf that describes the GPUs of a node. Raises ValueError."""
    check_node(node.name, node.address)
    gpus, model = node.hardware.gpus, _gpu_type(node)
    return f"NodeName={node.name} Name=gpu {f'Type={model} ' if model else ''}File=/dev/nvidia" + ("0" if gpus == 1 else f"[0-{gpus - 1}]")


def cgroup_conf(settings: SlurmSettings) -> str:
    """Return cgroup.conf. With cgroups, a job can use only the cores and GPUs that are allocated to it."""
    return HEADER + ("ConstrainCores=yes\nConstrainDevices=yes\n" if settings.cgroups else "")


def parse_nodes(slurm: str) -> dict[str, SlurmNode]:
    """Return the nodes that an existing slurm.conf describes, keyed by name. Lines that this package has not written are ignored."""
    nodes = {}
    for line in slurm.splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if not line.startswith("NodeName=") or not {"NodeAddr", "CPUs", "RealMemory"} <= words.keys():
            continue
        name = words["NodeName"]
        nodes[name] = SlurmNode(name, words["NodeAddr"], _hardware(words), tuple(filter(None, words.get("Feature", "").split(","))))
    return nodes


def parse_files(slurm: str) -> list[str]:
    return [found[1] for found in map(FILE_LINE.fullmatch, slurm.splitlines()) if found]


def _hardware(words: Mapping[str, str]) -> Hardware:
    topology = [int(words.get(key, 0)) for key in ("SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")]
    gres = words.get("Gres", "gpu:0").split(":")
    model, disk = "".join(gres[1:-1]), int(words.get("TmpDisk", 0))
    return Hardware(int(words["CPUs"]), topology[0], topology[1], topology[2], int(words["RealMemory"]), int(gres[-1]), model, disk)


def hardware_of(values: Mapping[str, Any]) -> Hardware:
    optional = Hardware._field_defaults
    return Hardware(*(values.get(field, optional[field]) if field in optional else values[field] for field in Hardware._fields))


def is_plausible(hardware: Hardware) -> bool:
    """Return whether the hardware that a host has reported is plausible. The reported values are untrusted."""
    topology = (hardware.sockets, hardware.cores, hardware.threads)
    regular = topology == (0, 0, 0) or (min(topology) > 0 and topology[0] * topology[1] * topology[2] == hardware.cpus)
    has_valid_type = not hardware.gpu_type or GPU_TYPE.fullmatch(hardware.gpu_type) is not None
    sizes = 0 < hardware.cpus <= MOST_CPUS and 0 < hardware.memory <= MOST_MEMORY and 0 <= hardware.disk <= MOST_DISK
    return regular and has_valid_type and sizes and 0 <= hardware.gpus <= MOST_GPUS
