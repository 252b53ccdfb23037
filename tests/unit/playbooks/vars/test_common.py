"""Tests of the variables that several playbooks share."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import OPTIONS
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.kinds import ADOPTED, SWITCHES

from unit.ansible_templates import evaluated, loaded

COMMON = loaded(Path(__file__).resolve().parents[4] / "playbooks" / "vars" / "common.yml")
SWITCHES_OFF = {f"deeplearning_{name}": False for name in SWITCHES}
OF_STORAGE = [option for option in OPTIONS if option.name in (*SWITCHES, *ADOPTED)]


def rendered(name, **variables):
    environment = jinja2.Environment()
    environment.filters["bool"] = boolean
    return environment.from_string(COMMON[name]).render(variables)


def own_disk(**definition):
    adopted = rendered("__playbook_adopted", **definition)
    return rendered("__playbook_own_disk", __playbook_jobs_directory="/jobs", __playbook_adopted=adopted, **definition)


def test_jobs_are_on_the_masters_own_disk_if_no_option_of_a_kind_of_storage_is_set():
    assert own_disk(**SWITCHES_OFF) == "/jobs"


@pytest.mark.parametrize("name", [option.variable for option in OF_STORAGE])
def test_each_option_of_a_kind_of_storage_counts(name):
    value = "fs-1" if name.endswith("_id") else True
    switches = {switch: off for switch, off in SWITCHES_OFF.items() if not name.endswith(switch.removeprefix("deeplearning"))}
    assert own_disk(**switches, **{name: value}) == ""


def test_an_empty_id_does_not_hide_the_id_of_another_kind_of_storage():
    """A definition can keep an option that it does not use, such as `deeplearning_file_system_id: ''`."""
    ids = [option.variable for option in OPTIONS if option.name in ADOPTED]
    for name in ids:
        assert rendered("__playbook_adopted", **{**dict.fromkeys(ids, ""), name: "fs-1"}) == "fs-1"
    assert rendered("__playbook_adopted", **dict.fromkeys(ids, "")) == ""


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("", "ssh -F /home/a/config demo-master"),
        ('# BEGIN deeplearning.cluster 1/us-east-1/demo\nInclude "/home/a/config"\n', "ssh demo-master"),
        (
            "# BEGIN deeplearning.cluster 1/eu-west-1/demo\nHost demo-*.eu-west-1 demo-*.eu-west-1.1\n"
            '# BEGIN deeplearning.cluster 1/us-east-1/demo\nHost demo-*.us-east-1 demo-*.us-east-1.1\nInclude "/home/a/config"\n',
            "ssh demo-master.us-east-1",
        ),
    ],
)
def test_the_command_that_logs_in_has_the_name_of_this_cluster_among_those_with_the_same_name(config, expected):
    place = {"deeplearning_account": "1", "deeplearning_region": "us-east-1", "deeplearning_cluster": "demo"}
    given = {**place, "__playbook_user_config": config, "__playbook_ssh_directory": "/home/a"}
    assert evaluated("{{ __playbook_login }}", COMMON, **given) == expected
