"""Tests that check which variables of nodes the controller knows. The controller never knows a value that depends on a host variable."""

from __future__ import annotations

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.node_variables import UNKNOWN, NodeVariables, node_variables, references


def template(value):
    """Mark templates as trusted, like the templates that Ansible reads from files."""
    return [template(item) for item in value] if isinstance(value, list) else trust_as_template(value)


RAW = {
    "plain": "train.py",
    "chained": template("{{ folder }}/src"),
    "folder": "/code",
    "hidden": template("{{ of_host }}"),
    "of_host": template("{{ inventory_hostname }}"),
}
GROUPS = {
    "all": {
        "folder": "/code",
        "training_job_source": template("{{ folder }}/src"),
        "training_job_name": "of all",
        "training_job_script": template("{{ deeplearning_hostname }}.py"),
    },
    "trainers": {"training_job_name": "of trainers"},
    "master": {"training_job_time_limit": 1},
    "workers": {"training_job_time_limit": 2},
}


def evaluate(value):
    return Templar(DataLoader(), variables=RAW).template(template(value))


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("plain.py", "plain.py"),
        ("{{ chained }}/train.py", "/code/src/train.py"),
        (["{{ plain }}"], ["train.py"]),
        ("{{ [1, 2] | join('-') }}", "1-2"),
        ("{{ inventory_hostname }}.py", UNKNOWN),
        ("{{ inventory_hostname_short | default('x') }}.py", UNKNOWN),
        ("{{ ansible_user | default('x') }}", UNKNOWN),
        ("{{ deeplearning_number | default(1) }}", UNKNOWN),
        ("{{ hostvars.localhost.plain }}", UNKNOWN),
        ("{{ hidden }}", UNKNOWN),
        (["{{ hidden }}"], UNKNOWN),
        ("{{ different }}", UNKNOWN),
        ("{{ plain | no_such_filter }}", UNKNOWN),
        ("{{ plain", UNKNOWN),
        ("{% if hidden %}x{% endif %}", UNKNOWN),
    ],
)
def test_a_value_is_known_unless_a_host_decides_it(value, known):
    variables = NodeVariables({**RAW, "value": value, "different": 1}, evaluate, {"different"})
    assert variables.get("value") == known


def test_what_the_controller_uses_itself_is_known_to_it():
    own = NodeVariables({**RAW, "value": "{{ inventory_hostname }}"}, lambda _value: "localhost", of_host=False)
    assert own.get("value") == "localhost"
    assert own.get("nothing", "default") == "default"


def test_references_are_variables_and_not_filters_or_text():
    assert references("a {{ b | c(d) }} {% for e in f.g %}{{ e }}{% endfor %}") == {"b", "d", "e", "f"}
    assert references("no template of x") == set()


def test_nodes_have_the_variables_of_their_groups_before_they_exist():
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=None, parse=False)
    for group, values in GROUPS.items():
        inventory.add_group(group)
        for name, value in values.items():
            inventory.groups[group].set_variable(name, value)
    manager = VariableManager(loader=loader, inventory=inventory)
    hostvars = HostVars(inventory, manager, loader)
    task = {**hostvars.raw_get("localhost"), "training_job_launcher": "mpi", "hostvars": hostvars}
    nodes = node_variables(task, Templar(loader, variables=task))
    assert nodes.get("training_job_name") == "of trainers"
    assert nodes.get("training_job_source") == "/code/src"
    assert nodes.get("training_job_launcher") == "mpi", "a variable of the play"
    assert nodes.get("training_job_time_limit") is UNKNOWN, "the master and the workers have different values"
    assert nodes.get("training_job_script") is UNKNOWN
    assert "node" not in inventory.hosts
