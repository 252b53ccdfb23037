"""Which variables are taken for a misspelled one of the collection: none that it has itself, and none that is somebody's own."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.inventory.nodes import InventoryModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.inventory import Node
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.tags import TAGS
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.spelling import COLLECTION, misspellings, prefixes, warn_of_misspellings

USED_IN = ("roles/**/*.*", "playbooks/*.yml", "inventory/**/*.yml", "examples/definitions/*.yml", "docs/*.md", "README.md")


def used(pattern):
    words = re.compile(rf"\b(?:{'|'.join(prefixes())})\w+")
    return {word for file in COLLECTION.glob(pattern) for word in words.findall(file.read_text())}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("training_job_argumnets", "training_job_arguments"),
        ("training_job_nmae", "training_job_name"),
        ("training_job_hots", "training_job_hosts"),
        ("deeplearning_worker_cuont", "deeplearning_worker_count"),
        ("deeplearning_lustre_mountpoint", "deeplearning_lustre_mount_point"),
        ("deeplearning_zoness", "deeplearning_zones"),
        ("provision_delete_date", "provision_delete_data"),
        ("python_environment_requirement", "python_environment_requirements"),
        ("dataset_destinaton", "dataset_destination"),
        ("tensorboard_tunel", "tensorboard_tunnel"),
        ("ssh_trust_validity_day", "ssh_trust_validity_days"),
        ("shared_storage_time_out", "shared_storage_timeout"),
        ("worker_metadata_worker_ip_files", "worker_metadata_worker_ip_file"),
    ],
)
def test_a_misspelled_variable(name, meant):
    assert misspellings([name, meant]) == {name: meant}


@pytest.mark.parametrize(
    "name",
    [
        "training_job_argument_list_of_mine",
        "training_job_logs",  # as a whole close to training_job_gpus
        "training_job_",
        "training_job",
        "dataset_path",
        "dataset",
        "deeplearning_team",
        "__training_job_nmae",
        "my_training_job_nmae",
        "trainings",
        "worker_cuont",
    ],
)
def test_a_variable_of_somebodys_own(name):
    assert misspellings([name]) == {}


@pytest.mark.parametrize("pattern", USED_IN)
def test_no_variable_that_is_used_is_misspelled(pattern):
    names = used(pattern)
    assert names
    assert misspellings(names) == {}


def test_no_variable_of_the_inventory_is_misspelled(monkeypatch):
    monkeypatch.setattr(InventoryModule, "get_option", lambda _self, name: {"connection_path": "session_manager"}.get(name, "x"))
    node = Node(**{**dict.fromkeys(Node.__dataclass_fields__, "x"), "number": 2, "tags": {tag.key: "true" for tag in TAGS}})
    names = {name for name in InventoryModule()._variables(node, None) if name.startswith("deeplearning_")}
    assert {"deeplearning_lustre_source", "deeplearning_proxy_command", "deeplearning_public_ip"} <= names
    assert misspellings(names) == {}


def test_each_misspelled_variable_is_warned_of(monkeypatch):
    told = []
    monkeypatch.setattr("ansible.utils.display.Display.warning", lambda _self, message: told.append(message))
    warn_of_misspellings({"dataset_nmae": 1, "training_job_argumnets": [], "training_job_name": "digits", "ansible_user": "ubuntu"})
    assert told == [
        "there is no variable dataset_nmae: is dataset_name meant?",
        "there is no variable training_job_argumnets: is training_job_arguments meant?",
    ]
