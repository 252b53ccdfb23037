"""Tests that misspelled variables are found. Variables of the collection and users' own variables do not count as misspelled."""

from __future__ import annotations

import re
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.inventory.nodes import InventoryModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.inventory import Node
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import options_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.kinds import TAGS
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import variable_names
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.variable_names import (
    COLLECTION,
    COMMON,
    INVENTORY,
    PREFIX,
    check_names,
    known_variables,
    misspellings,
    prefixes,
    role_variables,
    without_prefix,
)

# Names of programs and files, not of variables
OF_GRID_ENGINE = {"sge_qmaster", "sge_execd", "sge_conf"}
USED_IN = ("roles/**/*.*", "playbooks/**/*.yml", "inventory/**/*.yml", "examples/definitions/*.yml", "docs/*.md", "README.md")


def used(pattern):
    # Exclude plugins (after a dot), parts of internal names (after a letter or underscore), and patterns (before a star or bracket).
    words = re.compile(rf"(?<![\w.])(?:{'|'.join(prefixes())})\w*[a-z0-9]\b(?![*<])")
    return {word for file in COLLECTION.glob(pattern) for word in words.findall(file.read_text())} - OF_GRID_ENGINE


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("training_job_argumnets", "training_job_arguments"),
        ("training_job_nmae", "training_job_name"),
        ("training_job_hots", "training_job_hosts"),
        ("deeplearning_worker_cuont", "deeplearning_worker_count"),
        ("deeplearning_lustre_mountpoint", "deeplearning_lustre_mount_point"),
        ("deeplearning_zoness", "deeplearning_zones"),
        ("provision_worker_count", "deeplearning_worker_count"),
        ("provision_delete_date", "deeplearning_delete_data"),
        ("emr_cluster_wait_timeout", "deeplearning_wait_timeout"),
        ("deeplearning_delete_date", "deeplearning_delete_data"),
        ("deeplearning_clutser", "deeplearning_cluster"),
        ("deeplearning_stat", "deeplearning_state"),
        ("deeplearning_wiat", "deeplearning_wait"),
        ("deeplearning_file_system", "deeplearning_file_system_id"),
        ("deeplearning_file_sytem", "deeplearning_file_system_id"),
        ("deeplearning_file_system_idd", "deeplearning_file_system_id"),
        ("deeplearning_answer_timeuot", "deeplearning_answer_timeout"),
        ("python_environment_requirement", "python_environment_requirements"),
        ("dataset_destinaton", "dataset_destination"),
        ("tensorboard_tunel", "tensorboard_tunnel"),
        ("ssh_trust_validity_day", "ssh_trust_validity_days"),
        ("shared_storage_time_out", "shared_storage_timeout"),
        ("worker_metadata_worker_ip_files", "worker_metadata_worker_ip_file"),
        ("trainning_job_script", "training_job_script"),
        ("deeplerning_worker_count", "deeplearning_worker_count"),
        ("deep_learning_nat", "deeplearning_nat"),
        ("trainingjob_script", "training_job_script"),
        ("datset_source", "dataset_source"),
        ("pyhton_environment_name", "python_environment_name"),
    ],
)
def test_a_misspelled_variable(name, meant):
    assert misspellings([name, meant]) == {name: meant}


@pytest.mark.parametrize(
    "name",
    [
        "training_job_argument_list_of_mine",
        "training_job_logs",  # the whole name is similar to training_job_gpus
        "training_job_",
        "training_job",
        "dataset_path",
        "dataset",
        "deeplearning_team",
        "provision_team",
        "training_job_instance_type",  # only the roles of the definition have its options
        "__training_job_nmae",
        "my_training_job_nmae",
        "trainings",
        "worker_cuont",
        "training_script",
        "ansible_training_job_script",
        "learning_worker_count",
    ],
)
def test_a_variable_of_somebodys_own(name):
    assert misspellings([name]) == {}


@pytest.mark.parametrize("pattern", USED_IN)
def test_no_variable_that_is_used_is_unknown_or_misspelled(pattern):
    names = used(pattern)
    assert names
    assert misspellings(names) == {}
    if pattern.startswith(("roles", "playbooks")):
        assert names - known_variables() == set()


def test_no_variable_of_the_inventory_is_misspelled(monkeypatch):
    monkeypatch.setattr(InventoryModule, "get_option", lambda _self, name: {"connection_path": "session_manager"}.get(name, "x"))
    node = Node(**{**dict.fromkeys(Node.__dataclass_fields__, "x"), "number": 2, "tags": {tag.key: "true" for tag in TAGS}})
    plugin = InventoryModule()
    plugin.inventory = MagicMock()
    plugin._populate([node])
    names = {call.args[1] for call in plugin.inventory.set_variable.mock_calls if call.args[1].startswith("deeplearning_")}
    names_of_cluster = (
        "account",
        "cluster",
        "inventory_error",
        "inventory_file",
        "node_service",
        "other_regions",
        "region",
        "ssh_directory",
    )
    of_the_cluster = {f"deeplearning_{name}" for name in names_of_cluster}
    assert names | of_the_cluster == {f"deeplearning_{name}" for name in INVENTORY}
    assert misspellings(names) == {}


@pytest.mark.parametrize(
    ("extra", "inventory", "variables", "found"),
    [
        ({"replace_nodes"}, set(), {}, {"replace_nodes": "deeplearning_replace_nodes"}),
        ({"region", "confirm"}, set(), {}, {"confirm": "deeplearning_confirm", "region": "deeplearning_region"}),
        (set(), {"worker_count"}, {}, {"worker_count": "deeplearning_worker_count"}),
        (set(), {"region", "state", "tags", "key_name", "instance_type", "vpc_id"}, {}, {}),  # a common name, possibly the user's own
        ({"instance_type"}, set(), {}, {"instance_type": "deeplearning_instance_type"}),
        ({"zone", "nodes", "hostname"}, {"instance_id"}, {}, {}),  # the inventory plugin sets these, not the user
        ({"worker_count"}, {"worker_count"}, {"deeplearning_worker_count": "{{ worker_count }}"}, {}),
        ({"zones"}, set(), {"deeplearning_alternatives": [{"zones": "{{ zones }}"}]}, {}),
        ({"worker_count"}, set(), {"deeplearning_worker_count": "{{ my_worker_count }}"}, {"worker_count": "deeplearning_worker_count"}),
        ({"worker_count"}, set(), {"deeplearning_worker_count": 3}, {"worker_count": "deeplearning_worker_count"}),
        ({"worker_count"}, set(), {"other": "{{ worker_count }}"}, {"worker_count": "deeplearning_worker_count"}),
    ],
)
def test_a_variable_without_the_prefix(extra, inventory, variables, found):
    assert without_prefix(variables, extra, inventory) == found


def test_each_common_name_is_that_of_a_variable():
    assert {PREFIX + name for name in COMMON} <= set().union(*role_variables().values())


def test_variables_without_the_prefix_are_errors(monkeypatch):
    monkeypatch.setattr(variable_names, "load_extra_vars", lambda _loader: {"replace_nodes": True})
    hostvars = SimpleNamespace(raw_get=lambda host: {"worker_count": 3} if host == "localhost" else {})
    own = " If the variable is your own, set deeplearning_allow_unknown_variables: true."
    with pytest.raises(AnsibleActionFail) as refused:
        check_names({"hostvars": hostvars, "inventory_hostname": "localhost", "worker_minimum": 1})
    assert refused.value.message == "\n".join(
        f"Unknown variable '{name}'. Did you mean 'deeplearning_{name}'?{own}" for name in ("replace_nodes", "worker_count")
    )


MISSPELLED = {"dataset_nmae": 1, "training_job_argumnets": [], "training_job_name": "digits", "ansible_user": "ubuntu"}
UNKNOWN = [
    "Unknown variable 'dataset_nmae'. Did you mean 'dataset_name'?",
    "Unknown variable 'training_job_argumnets'. Did you mean 'training_job_arguments'?",
]


def test_unknown_variables_from_the_command_line_are_named(monkeypatch):
    given = {
        "deeplearning_spot": "true",
        "training_job_epochs": "3",
        "deeplearning_worker_count": "2",
        "deeplearning_own": "x",
        "mine": "y",
    }
    monkeypatch.setattr(variable_names, "load_extra_vars", lambda loader: given)
    found = variable_names.name_findings({**given, "training_job_script": "{{ deeplearning_own }}.py"})
    assert [finding.message for finding in found] == [
        f"'{name}' is not a variable of this collection and has no effect. Correct the name, or remove it."
        for name in ("deeplearning_spot", "training_job_epochs")
    ]
    assert not variable_names.name_findings({**given, "deeplearning_own": "{{ x }}", variable_names.ALLOWED: True})


def test_misspelled_variables_are_one_error():
    own = " If the variable is your own, set deeplearning_allow_unknown_variables: true."
    with pytest.raises(AnsibleActionFail) as refused:
        check_names(MISSPELLED)
    assert refused.value.message == "\n".join(line + own for line in UNKNOWN)


@pytest.mark.parametrize("allowed", [True, "true"])
def test_misspelled_variables_can_be_allowed(monkeypatch, allowed):
    told = []
    monkeypatch.setattr("ansible.utils.display.Display.warning", lambda _self, message: told.append(message))
    check_names({**MISSPELLED, "deeplearning_allow_unknown_variables": allowed})
    assert told == UNKNOWN


@pytest.mark.parametrize("option", options_of(), ids=lambda option: option.name)
def test_each_option_is_a_variable_of_the_same_name(option):
    assert (option.variable in known_variables()) is option.has_variable


def test_a_misspelled_option_of_a_playbook():
    options = ["attempt", "follow", "lines", "process", "rank"]
    given = ["rnak", "folow", "line", "rank", "process", "my_own", "color"]
    assert variable_names.misspelled_options(given, options) == {"rnak": "rank", "folow": "follow", "line": "lines"}
    assert variable_names.misspelled_options(given, []) == {}
