"""Tests of the nodes and settings that the module reads from its parameters."""

from __future__ import annotations

import grp
import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.slurm import configuration
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.slurm.configuration import Hardware, SlurmNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm import controller

from unit.modules import Module

HARDWARE = Hardware(4, 1, 2, 2, 15000, 0)
MASTER = {"name": "demo-master", "address": "10.0.0.4", "hardware": HARDWARE._asdict(), "features": []}
SILENT = {"name": "demo-worker2", "address": "10.0.1.9", "hardware": None, "features": ["p5.48xlarge"]}
PARAMS = {
    "cluster": "demo",
    "nodes": [MASTER, SILENT],
    "state_directory": "/efs/slurm-demo",
    "partition": "trainers",
    "groups": [],
    "cgroups": False,
    "parameters": {"SlurmdTimeout": 60},
    "files": {},
}


def test_a_node_that_does_not_answer_keeps_its_description_at_its_present_address():
    module = Module()
    found = controller.members(module, PARAMS["nodes"], {"demo-worker2": SlurmNode("demo-worker2", "10.0.1.5", HARDWARE)})
    assert found == [SlurmNode("demo-master", "10.0.0.4", HARDWARE), SlurmNode("demo-worker2", "10.0.1.9", HARDWARE, ("p5.48xlarge",))]
    assert module.warnings == []


@pytest.mark.parametrize(("gpus", "cpus", "expected"), [(0, 4, 8), (7, 4, 8), (8, 4, 8), (0, 2, 0)])
def test_a_host_that_lost_gpus_is_not_described_without_them(gpus, cpus, expected):
    """Otherwise, jobs would start there without GPUs. A node with other CPUs is another instance."""
    module, whole = Module(), HARDWARE._replace(gpus=8, gpu_type="h100")
    reported = whole._replace(gpus=gpus, gpu_type="h100" if gpus else "", cpus=cpus)
    node = {**MASTER, "hardware": reported._asdict()}
    (found,) = controller.members(module, [node], {"demo-master": SlurmNode("demo-master", "10.0.0.4", whole)})
    assert found.hardware.gpus == expected
    assert bool(module.warnings) is (gpus < expected)


def test_files_of_users_replace_those_of_the_collection_and_are_deleted_later():
    files = {"topology.conf": "SwitchName=a Nodes=demo-master\n", "cgroup.conf": "ConstrainRAMSpace=yes\n", "prolog.sh": "#!/bin/sh\n"}
    parameters = {"TopologyPlugin": "topology/tree", "Prolog": "/etc/slurm/prolog.sh"}
    settings = controller.settings_of({**PARAMS, "files": files, "parameters": parameters})
    found = controller.files_of(settings, [])
    assert {os.path.basename(file.path): file.content for file in found}.items() >= files.items()
    assert {file.path: file.mode for file in found}["/etc/slurm/prolog.sh"] == 0o755
    assert len({file.path for file in found}) == len(found)
    paths = [file.path for file in found]
    assert max(paths.index(f"/etc/slurm/{name}") for name in files) < paths.index(controller.SLURM), "slurmctld reads them with slurm.conf"
    assert configuration.parse_files(next(file.content for file in found if file.path == controller.SLURM)) == list(files)


def test_a_new_node_that_does_not_answer_waits():
    module = Module()
    assert controller.members(module, PARAMS["nodes"], {}) == [SlurmNode("demo-master", "10.0.0.4", HARDWARE)]
    assert module.warnings == [
        "demo-worker2 is not in the queue yet, because it did not report its hardware. Run the role again when the node responds."
    ]


def test_the_first_node_is_the_controller():
    settings = controller.settings_of(PARAMS)
    assert settings.controller == "demo-master"
    assert settings.parameters == {"SlurmdTimeout": "60"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"nodes": []}, "nodes: the list is empty"), ({"groups": ["no-such-group"]}, "groups: group 'no-such-group' does not exist")],
)
def test_bad_parameters_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        controller.settings_of({**PARAMS, **changes})


def test_groups_of_the_host_are_accepted():
    group = grp.getgrgid(os.getgid()).gr_name
    assert controller.settings_of({**PARAMS, "groups": [group]}).groups == (group,)
