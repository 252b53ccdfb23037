"""Tests that write slurm.conf, gres.conf and cgroup.conf for a list of nodes, and read these files."""

from __future__ import annotations

import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.slurm.configuration import (
    Hardware,
    SlurmNode,
    SlurmSettings,
    cgroup_conf,
    check_settings,
    gres_conf,
    is_plausible,
    parse_nodes,
    settings_digest,
    slurm_conf,
)

SETTINGS = SlurmSettings("demo", "demo-master", "/efs/slurm-demo", "trainers", ("ubuntu",), False, {})
CPU = Hardware(4, 0, 0, 0, 15000, 0)
GPU = Hardware(96, 2, 24, 2, 1_090_000, 8)
NODES = [
    SlurmNode("demo-master", "10.0.0.4", CPU),
    SlurmNode("demo-worker2", "10.0.1.5", GPU),
    SlurmNode("demo-worker3", "10.0.1.6", GPU._replace(gpus=1, gpu_type="h100", disk=95000), ("p5.48xlarge", "us-east-1a")),
]


def parameters(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith(("NodeName", "PartitionName")))


def test_each_node_is_described_by_what_it_has():
    lines = [line for line in slurm_conf(SETTINGS, NODES).splitlines() if line.startswith("NodeName")]
    topology = "SocketsPerBoard=2 CoresPerSocket=24 ThreadsPerCore=2"
    assert lines == [
        "NodeName=demo-master NodeAddr=10.0.0.4 CPUs=4 RealMemory=15000",
        f"NodeName=demo-worker2 NodeAddr=10.0.1.5 CPUs=96 {topology} RealMemory=1090000 Gres=gpu:8",
        f"NodeName=demo-worker3 NodeAddr=10.0.1.6 CPUs=96 {topology} RealMemory=1090000 TmpDisk=95000 Gres=gpu:h100:1"
        " Feature=p5.48xlarge,us-east-1a",
    ]


def test_gpus_are_device_files():
    assert gres_conf(NODES).splitlines()[1:] == [
        "AutoDetect=off",
        "NodeName=demo-worker2 Name=gpu File=/dev/nvidia[0-7]",
        "NodeName=demo-worker3 Name=gpu Type=h100 File=/dev/nvidia0",
    ]


def test_nodes_are_read_back_as_they_were_written():
    assert parse_nodes(slurm_conf(SETTINGS, NODES)) == {node.name: node for node in NODES}
    assert parse_nodes("NodeName=other CPUs=2\nClusterName=x\n") == {}


def test_a_thousand_nodes_take_less_than_five_seconds():
    nodes = [SlurmNode(f"demo-worker{number}", f"10.0.{number // 250}.{number % 250 + 4}", GPU) for number in range(1000)]
    began = time.process_time()
    slurm, gres = slurm_conf(SETTINGS, nodes), gres_conf(nodes)
    found = parse_nodes(slurm)
    assert time.process_time() - began < 5
    assert list(found.values()) == nodes
    assert gres.count("File=/dev/nvidia[0-7]") == 1000


def test_the_cluster_is_configless_and_its_queue_is_where_it_was_put():
    found = parameters(slurm_conf(SETTINGS, NODES))
    assert found["SlurmctldHost"] == "demo-master(deeplearning-master)", "a name, which a running job resolves again after the master moves"
    assert found["SlurmctldParameters"] == "enable_configless"
    assert found["StateSaveLocation"] == "/efs/slurm-demo"
    assert (found["SlurmUser"], found["AuthType"]) == ("slurm", "auth/munge")


def test_only_members_of_the_groups_may_submit_jobs():
    assert "AllowGroups=ubuntu,research" in slurm_conf(SETTINGS._replace(groups=("ubuntu", "research")), NODES)
    assert "AllowGroups" not in slurm_conf(SETTINGS._replace(groups=()), NODES)


@pytest.mark.parametrize(
    ("cgroups", "tracking", "constraints"),
    [(True, "proctrack/cgroup", ["ConstrainCores=yes", "ConstrainDevices=yes"]), (False, "proctrack/linuxproc", [])],
)
def test_jobs_are_confined_where_hosts_have_control_groups(cgroups, tracking, constraints):
    settings = SETTINGS._replace(cgroups=cgroups)
    assert parameters(slurm_conf(settings, NODES))["ProctrackType"] == tracking
    assert cgroup_conf(settings).splitlines()[1:] == constraints


def test_parameters_override_defaults_whatever_their_case():
    settings = SETTINGS._replace(parameters={"returntoservice": "1", "SlurmdTimeout": "60"})
    found = parameters(slurm_conf(settings, NODES))
    assert "ReturnToService" not in found
    assert (found["returntoservice"], found["SlurmdTimeout"]) == ("1", "60")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": {"slurmuser": "root"}}, "parameters: slurmuser cannot be set"),
        ({"parameters": {"Prolog": "/x\nSlurmUser=root"}}, "parameters: Prolog: invalid value"),
        ({"parameters": {"Prolog": "/x # y"}}, "parameters: Prolog: invalid value"),
        ({"parameters": {"Pro log": "1"}}, "parameters: invalid value 'Pro log'"),
        ({"state_directory": "/efs/a b"}, "state_directory: invalid value"),
        ({"partition": "a,b"}, "partition: invalid value"),
        ({"groups": ("a b",)}, "groups: invalid value"),
        ({"controller": "demo master"}, "nodes: name: invalid value"),
    ],
)
def test_values_that_would_change_the_meaning_of_the_file_are_refused(changes, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        slurm_conf(SETTINGS._replace(**changes), NODES)


@pytest.mark.parametrize(
    "node",
    [
        NODES[0]._replace(name="a[1-9]"),
        NODES[0]._replace(name="a\nb"),
        NODES[0]._replace(address="x y"),
        NODES[0]._replace(features=("a b",)),
        NODES[2]._replace(hardware=GPU._replace(gpu_type="a:b")),
    ],
)
def test_names_and_addresses_are_checked(node):
    with pytest.raises(ValueError, match=r"nodes: .* invalid value"):
        slurm_conf(SETTINGS, [node])


def test_the_digest_is_that_of_the_settings():
    digests = {settings_digest(settings) for settings in (SETTINGS, SETTINGS._replace(partition="other"), SETTINGS._replace(cgroups=True))}
    assert len(digests) == 3


NEEDS_FILES = [
    ({"TopologyPlugin": "topology/tree"}, "topology.conf"),
    ({"topologyplugin": "Topology/Tree"}, "topology.conf"),
    ({"JobContainerType": "job_container/tmpfs", "PrologFlags": "Alloc,Contain"}, "job_container.conf"),
    ({"JobSubmitPlugins": "lua"}, "job_submit.lua"),
    ({"JobSubmitPlugins": "throttle,job_submit/lua"}, "job_submit.lua"),
    ({"CliFilterPlugins": "cli_filter/lua"}, "cli_filter.lua"),
    ({"BurstBufferType": "burst_buffer/lua"}, "burst_buffer.lua"),
    ({"AcctGatherProfileType": "acct_gather_profile/hdf5"}, "acct_gather.conf"),
    ({"PlugStackConfig": "/etc/slurm/plugstack.conf"}, "plugstack.conf"),
    ({"Prolog": "/etc/slurm/prolog.sh"}, "prolog.sh"),
    ({"SomeNewParameter": "file=/etc/slurm/new.conf,x"}, "new.conf"),
]


@pytest.mark.parametrize(("given", "file"), NEEDS_FILES)
def test_a_parameter_comes_with_the_file_that_it_needs(given, file):
    with pytest.raises(ValueError, match=f"parameters: {next(iter(given))}=.* needs the file {file}"):
        check_settings(SETTINGS._replace(parameters=given))
    check_settings(SETTINGS._replace(parameters=given, files={file: "text\n"}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"JobContainerType": "job_container/tmpfs"}, "needs PrologFlags=Contain"),
        ({"AccountingStorageType": "accounting_storage/slurmdbd"}, "needs AccountingStorageHost"),
    ],
)
def test_a_parameter_comes_with_the_parameter_that_it_needs(given, message):
    with pytest.raises(ValueError, match=message):
        check_settings(SETTINGS._replace(parameters=given, files={"job_container.conf": ""}))
    check_settings(SETTINGS._replace(parameters={"TopologyPlugin": "topology/none", "Prolog": "/efs/prolog.sh"}))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"slurm.conf": ""}, r"files: slurm\.conf cannot be set"),
        ({"../munge/munge.key": ""}, "files: invalid value"),
        ({"a b": ""}, "files: invalid value"),
        ({"prolog.sh": "#!/bin/sh\r\nexit 0\r\n"}, r"prolog\.sh has Windows line breaks"),
        ({"topology.conf": ["SwitchName=a"]}, "the content of topology.conf is not text"),
    ],
)
def test_files_that_cannot_be_written_are_refused(files, message):
    with pytest.raises(ValueError, match=message):
        check_settings(SETTINGS._replace(files=files))


def test_another_directory_for_temporary_files_has_another_size():
    settings = SETTINGS._replace(parameters={"TmpFS": "/scratch"})
    assert "TmpDisk" not in slurm_conf(settings, NODES)


def test_nodes_restart_with_other_contents_of_a_file():
    digests = {settings_digest(SETTINGS._replace(files={"topology.conf": text})) for text in ("a", "b")}
    assert len(digests | {settings_digest(SETTINGS)}) == 3


@pytest.mark.parametrize(
    ("hardware", "plausible"),
    [
        (CPU, True),
        (GPU, True),
        (GPU._replace(sockets=0, cores=0, threads=0), True),
        (GPU._replace(sockets=1), False),
        (GPU._replace(sockets=-2, cores=-24), False),
        (GPU._replace(cpus=0, sockets=0, cores=0, threads=0), False),
        (CPU._replace(cpus=1 << 40), False),
        (CPU._replace(memory=0), False),
        (CPU._replace(memory=1 << 60), False),
        (CPU._replace(gpus=-1), False),
        (CPU._replace(gpus=1 << 40), False),
        (GPU._replace(gpu_type="h100"), True),
        (GPU._replace(gpu_type="h100 Feature=x"), False),
        (CPU._replace(disk=-1), False),
        (CPU._replace(disk=1 << 60), False),
    ],
)
def test_impossible_hardware_is_recognized(hardware, plausible):
    assert is_plausible(hardware) is plausible
