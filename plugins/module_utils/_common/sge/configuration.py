# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the output of qconf, qstat and qhost, and returns the desired objects of Grid Engine's configuration.

Source: the manual pages sge_*(5).
"""

from __future__ import annotations

import re
from typing import Iterable, Mapping, NamedTuple
from xml.etree import ElementTree

from ..._queues.sge import ENVIRONMENT, GROUP

# Access lists: who can submit jobs, and who can submit training jobs.
USERS, ROOT = "deeplearning", "deeplearning_root"
# Parallel environments for users' scripts, with their allocation rules. MXNet's launch.py uses `orte`.
ENVIRONMENTS = {"orte": "$fill_up", "mpi": "$fill_up", "smp": "$pe_slots", "nodes": "1", ENVIRONMENT: "1"}
# Lines of the table of resources, by name.
RESOURCES = {"exclusive": "excl BOOL EXCL YES YES 0 0", "gpu": "gpu INT <= YES YES 0 0"}
NONE = "NONE"
# Settings that `parameters` may override. sge_conf(5) describes them.
DEFAULTS = {
    "max_unheard": "00:05:00",
    # Jobs on lost hosts start again on other hosts, unless the jobs were submitted with `qsub -r n`.
    "reschedule_unknown": "00:01:00",
    "load_report_time": "00:00:20",
    "gid_range": "65400-65500",
    "min_gid": "0",
}
# Settings for which the module has options, or on which the collection relies.
OWN = frozenset(["execd_spool_dir", "min_uid", "qmaster_params", "shepherd_cmd", "user_lists"])
# Jobs start in the order in which they were submitted, unless `qsub -p` or `qalter -p` changes this order.
SCHEDULER = {
    "schedule_interval": "0:0:5",
    "flush_submit_sec": "1",
    "flush_finish_sec": "1",
    "job_load_adjustments": NONE,
    "max_reservation": "32",
    "weight_ticket": "0.000000",
    "weight_urgency": "0.000000",
    "weight_waiting_time": "0.000000",
    "weight_priority": "1.000000",
}
SPOOL = "/var/spool/gridengine/execd"
SHEPHERD = "/usr/local/lib/deeplearning/sge_shepherd"
MASTER_PORT, EXEC_PORT = 6444, 6445
ROOT_DIRECTORY, CELL = "/var/lib/gridengine", "default"
HEADER = "# The role deeplearning.cluster.sge writes this file and overwrites changes.\n"

# These limits exceed the hardware of every instance type.
MOST_CPUS, MOST_GPUS = 65_534, 1024
NAME, NAMES = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*"), "a letter, then letters, digits, dots, hyphens and underscores"
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
PATH = re.compile(r"/[A-Za-z0-9._/+-]+")
PARAMETER = re.compile(r"[a-z_]+")
VALUE = re.compile(r"[^#\\\x00-\x1f\x7f]+")

QUEUE = """\
seq_no 0
load_thresholds NONE
suspend_thresholds NONE
nsuspend 1
suspend_interval 00:05:00
priority 0
min_cpu_interval 00:05:00
processors UNDEFINED
qtype BATCH INTERACTIVE
ckpt_list NONE
rerun TRUE
tmpdir /tmp
shell /bin/bash
prolog NONE
epilog NONE
shell_start_mode unix_behavior
starter_method NONE
suspend_method NONE
resume_method NONE
terminate_method NONE
notify 00:01:00
owner_list NONE
user_lists NONE
xuser_lists NONE
subordinate_list NONE
complex_values NONE
projects NONE
xprojects NONE
calendar NONE
initial_state default
"""
LIMITS = ["rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem"]


class SgeNode(NamedTuple):
    """A node, its number of CPUs (hardware threads), and its number of GPUs."""

    name: str
    cpus: int
    gpus: int


class SgeSettings(NamedTuple):
    """The contents of the configuration, apart from the nodes."""

    state_directory: str
    queue: str
    groups: tuple[str, ...]
    parameters: Mapping[str, str]


class SgeObject(NamedTuple):
    """A desired object of the configuration.

    `option` is the last part of qconf's options for this kind of object, such as `q` for -sq, -Aq and -Mq. `own` contains the settings that
    the collection sets. `rest` contains the defaults of all other settings, which operators may change. If `rest` is None, the object
    always exists.
    """

    option: str
    name: str
    own: Mapping[str, str]
    rest: Mapping[str, str] | None

    @property
    def shown(self) -> str:
        return f"{self.option} {self.name}".strip()


def check(settings: SgeSettings, nodes: Iterable[SgeNode]) -> None:
    """Raise ValueError if one of the values is not allowed in the configuration."""
    _match("state_directory", settings.state_directory, PATH, "an absolute path of letters, digits and ._/+-")
    _match("queue", settings.queue, NAME, NAMES)
    for group in settings.groups:
        _match("groups", group, NAME, "the names of groups")
    for name, value in settings.parameters.items():
        _match("parameters", name, PARAMETER, "setting names from sge_conf(5)")
        if name in OWN:
            raise ValueError(f"parameters: {name} cannot be set, because the collection sets it. Remove this parameter.")
        _match(f"parameters: {name}", value, VALUE, "one line without # and backslashes")
    for node in nodes:
        _match("nodes: name", node.name, HOST, "letters, digits, dots and hyphens")


def _match(subject: str, value: str, pattern: re.Pattern[str], accepted: str) -> None:
    if not pattern.fullmatch(value):
        raise ValueError(f"{subject}: invalid value {value!r}. Use {accepted}.")


def is_plausible(node: SgeNode) -> bool:
    """Return whether the hardware that a host has reported is plausible. The reported values are untrusted."""
    return 0 < node.cpus <= MOST_CPUS and 0 <= node.gpus <= MOST_GPUS


def bootstrap(state_directory: str) -> str:
    """Return the bootstrap file, which the daemons and the commands read first.

    The queue is stored in text files, which also work on NFS.
    """
    lines = {
        "admin_user": "sgeadmin",
        "default_domain": "none",
        "ignore_fqdn": "false",
        "spooling_method": "classic",
        "spooling_lib": "libspoolc",
        "spooling_params": f"{state_directory}/common;{state_directory}/spool",
        "binary_path": "/usr/lib/gridengine",
        "qmaster_spool_dir": f"{state_directory}/spool",
        # Without this setting, every program on a host could act as any user.
        "security_mode": "munge",
        "listener_threads": "2",
        "worker_threads": "2",
        "scheduler_threads": "1",
    }
    return HEADER + text(lines)


def environment() -> str:
    ports = f"export SGE_QMASTER_PORT={MASTER_PORT} SGE_EXECD_PORT={EXEC_PORT}\n"
    return f"{HEADER}SGE_ROOT={ROOT_DIRECTORY}\nSGE_CELL={CELL}\n{ports}"


def text(settings: Mapping[str, str]) -> str:
    return "".join(f"{name:<20} {value}\n" for name, value in settings.items())


def parse(output: str) -> dict[str, str]:
    """Return the settings that qconf shows. Long values continue on the next lines."""
    lines = re.sub(r"\\\n\s*", "", output).splitlines()
    found = (line.split(None, 1) for line in lines if line.strip() and not line.startswith("#"))
    return {words[0]: " ".join(words[1].split()) if len(words) > 1 else "" for words in found}


def changed(item: SgeObject, current: Mapping[str, str] | None) -> dict[str, tuple[str, str]]:
    """Return the current and the desired values of the settings that differ.

    The elements of a list may be separated by commas or spaces.
    """

    def words(value: str) -> list[str]:
        return sorted(re.split(r"[,\s]+", value.lower()))

    current = current or {}
    return {name: (current.get(name, ""), value) for name, value in item.own.items() if words(current.get(name, "")) != words(value)}


def complete(item: SgeObject, current: Mapping[str, str] | None) -> dict[str, str]:
    current = current or {}
    if item.rest is None:
        return {**current, **item.own}
    return {**item.own, **{name: current.get(name, value) for name, value in item.rest.items()}, **item.own}


def items(settings: SgeSettings, nodes: list[SgeNode], members: Iterable[str]) -> list[SgeObject]:
    """Return the desired objects, in the order in which they can be created. Jobs can start only on `members`, a subset of the nodes."""
    users = USERS if settings.groups else NONE
    access = {"type": "ACL", "fshare": "0", "oticket": "0"}
    found = [SgeObject("u", ROOT, {"name": ROOT, "entries": "root"}, access)]
    if settings.groups:
        entries = ",".join(["root", *(f"@{group}" for group in settings.groups)])
        found.append(SgeObject("u", USERS, {"name": USERS, "entries": entries}, access))
    found += [node_item(node) for node in nodes]
    found.append(SgeObject("hgrp", GROUP, {"group_name": GROUP, "hostlist": " ".join(members) or NONE}, {}))
    found += [environment_item(name, rule) for name, rule in ENVIRONMENTS.items()]
    rest = {**parse(QUEUE), **{f"{kind}_{limit}": "INFINITY" for limit in LIMITS for kind in "sh"}}
    slots = str(max((node.cpus for node in nodes), default=1))
    own = {"qname": settings.queue, "hostlist": GROUP, "pe_list": " ".join(ENVIRONMENTS), "slots": slots}
    found.append(SgeObject("q", settings.queue, own, rest))
    found.append(SgeObject("sconf", "", SCHEDULER, None))
    fixed = {
        "execd_spool_dir": SPOOL,
        "min_uid": "0",  # training jobs belong to root, and the access list excludes other users
        "qmaster_params": "ENABLE_FORCED_QDEL_IF_UNKNOWN=true",
        "shepherd_cmd": SHEPHERD,
        "user_lists": users,
    }
    found.append(SgeObject("conf", "global", {**DEFAULTS, **settings.parameters, **fixed}, None))
    return found


def node_item(node: SgeNode) -> SgeObject:
    values = f"exclusive=true,gpu={node.gpus},slots={node.cpus}"
    lists = ("user_lists", "xuser_lists", "projects", "xprojects", "usage_scaling", "report_variables")
    return SgeObject("e", node.name, {"hostname": node.name, "complex_values": values}, dict.fromkeys(("load_scaling", *lists), NONE))


def environment_item(name: str, rule: str) -> SgeObject:
    """Return the object for a parallel environment. With one slot per host, a script starts tasks on all hosts, including its own."""
    own = {"pe_name": name, "allocation_rule": rule, "control_slaves": "TRUE", "user_lists": ROOT if name == ENVIRONMENT else NONE}
    own["job_is_first_task"] = "FALSE" if rule == "1" else "TRUE"
    rest = dict.fromkeys(("xuser_lists", "start_proc_args", "stop_proc_args", "qsort_args"), NONE)
    return SgeObject("p", name, own, {**rest, "slots": "9999999", "urgency_slots": "min", "accounting_summary": "FALSE"})


def resources(table: str) -> str | None:
    """Return the table with the collection's resources added, or None if the table already contains these resources."""
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in table.splitlines() if line.strip() and not line.startswith("#")}
    if all(rows.get(name) == row for name, row in RESOURCES.items()):
        return None
    return "".join(f"{name} {row}\n" for name, row in {**rows, **RESOURCES}.items())


def jobs_by_host(xml: str) -> dict[str, list[str]]:
    """Return the IDs of the jobs that run on each host, from the output of `qstat -xml -g t -s rs -u '*'`. Raises ValueError."""
    try:
        rows = ElementTree.fromstring(xml).iter("job_list")
    except ElementTree.ParseError as error:
        raise ValueError(f"qstat: unreadable output: {error}") from None
    found: dict[str, set[str]] = {}
    for row in rows:
        host = (row.findtext("queue_name") or "").rpartition("@")[2]
        identity = row.findtext("JB_job_number") or ""
        if host and identity.isdigit():
            found.setdefault(host, set()).add(identity)
    return {host: sorted(ids, key=int) for host, ids in found.items()}


def has_registered(output: str, name: str) -> bool:
    """Return whether execd runs on a host, from the output of `qhost -h NAME`. A host without load values has no contact with qmaster."""
    rows = [line.split() for line in output.splitlines()]
    return any(row[0] == name and len(row) > 6 and row[6] != "-" for row in rows if row)
