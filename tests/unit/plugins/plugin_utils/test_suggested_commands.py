"""Tests that the commands suggested in messages apply to the run's cluster."""

from __future__ import annotations

import re
import shlex

import pytest
from ansible import constants
from ansible._internal._datatag._tags import Origin
from ansible.module_utils.common.collections import ImmutableDict
from ansible_collections.deeplearning.cluster.plugins.filter.playbook_command import FilterModule
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import suggested_commands
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.variable_names import COLLECTION


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that sets this process's command-line options. The current directory is an empty folder."""
    monkeypatch.chdir(tmp_path)

    def begin(**options):
        monkeypatch.setattr(suggested_commands.context, "CLIARGS", ImmutableDict(options))
        return tmp_path

    return begin


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ""),
        ({"inventory": tuple(constants.DEFAULT_HOST_LIST)}, ""),
        ({"inventory": ("{here}/inventory/a_nodes.yml",)}, "-i inventory/a_nodes.yml "),
        ({"inventory": ("{here}/my nodes.yml", "a,b")}, "-i 'my nodes.yml' -i a,b "),
        ({"inventory": ("/nodes.yml",)}, "-i /nodes.yml "),  # the absolute path is shorter than the relative path
        ({"extra_vars": ("deeplearning_worker_count=3 training_job_name=x",)}, ""),
        (
            {"extra_vars": ("deeplearning_cluster=bert deeplearning_region=eu-west-1",)},
            "-e deeplearning_cluster=bert -e deeplearning_region=eu-west-1 ",
        ),
        ({"extra_vars": ('{"deeplearning_cluster": "bert", "secret": "x"}',)}, "-e deeplearning_cluster=bert "),
        ({"extra_vars": ("{deeplearning_region: eu-west-1}",)}, "-e deeplearning_region=eu-west-1 "),
        ({"extra_vars": ("deeplearning_cluster='{{ team }}'",)}, '-e \'{"deeplearning_cluster": "{{ team }}"}\' '),
        ({"extra_vars": ("@{here}/my.yml", "deeplearning_cluster=bert")}, "-e @my.yml -e deeplearning_cluster=bert "),
        (
            {"inventory": ("{here}/nodes.yml",), "extra_vars": ("deeplearning_region=eu-west-1",)},
            "-i nodes.yml -e deeplearning_region=eu-west-1 ",
        ),
    ],
)
def test_the_options_select_the_inventory_and_the_cluster(run, tmp_path, options, expected):
    # Ansible tags the words of the command line.
    tag = Origin(description="command line").tag
    run(**{name: tuple(tag(value.replace("{here}", str(tmp_path))) for value in values) for name, values in options.items()})
    assert suggested_commands.run_options() == expected
    assert FilterModule().filters()["playbook_command"]("logs") == f"ansible-playbook {expected}deeplearning.cluster.logs"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), ""),
        (("deeplearning_worker_count=3 training_job_name=x",), "-e deeplearning_worker_count=3 "),
        (
            ("@my.yml", '{"deeplearning_worker_count": 3, "plain": "a b"}'),
            """-e @my.yml -e '{"deeplearning_worker_count": 3}' -e plain=AS_BEFORE """,
        ),
        (('{"training_job_arguments": ["--epochs", "3"]}',), """-e '{"training_job_arguments": ["--epochs", "3"]}' """),
        (("training_job_script=src/train.py training_job_resume=newest",), "-e training_job_script=src/train.py "),
        (("my_api_key=abc",), "-e my_api_key=AS_BEFORE "),
        (
            ('{"deeplearning_alternatives": [{"market": "spot", "token": "abc"}]}',),
            """-e '{"deeplearning_alternatives": [{"market": "spot", "token": "AS_BEFORE"}]}' """,
        ),
        (('{"training_job_secrets": {"TOKEN": "abc"}}',), "-e training_job_secrets=AS_BEFORE "),
        (
            ('{"training_job_environment": {"WANDB_API_KEY": "abc", "A": "b"}}',),
            """-e '{"training_job_environment": {"WANDB_API_KEY": "AS_BEFORE", "A": "b"}}' """,
        ),
    ],
)
def test_a_command_that_continues_a_job_repeats_the_variables_of_the_run(run, given, expected):
    run(extra_vars=given, inventory=("my.yml",))
    command = suggested_commands.continuing_command("digits-1")
    fixed = "-e training_job_name=digits-2 -e training_job_resume=digits-1"
    assert command == f"ansible-playbook -i my.yml deeplearning.cluster.train {expected}{fixed}"
    again = {"training_job_name": "digits-2", "training_job_resume": "digits-1"}
    assert FilterModule().filters()["playbook_command"]("train", again) == command


def test_the_shell_reads_each_option_as_one_word(run):
    here = run()
    run(inventory=(f"{here}/a'b $c/nodes.yml",))
    assert shlex.split(suggested_commands.playbook_command("destroy")) == [
        "ansible-playbook",
        "-i",
        "a'b $c/nodes.yml",
        "deeplearning.cluster.destroy",
    ]


@pytest.mark.parametrize(
    "pattern", ["roles/*/tasks/*.yml", "roles/*/vars/*.yml", "playbooks/**/*.yml", "plugins/plugin_utils/*.py", "plugins/action/*.py"]
)
def test_no_message_has_a_command_without_the_options_of_the_run(pattern):
    literal = re.compile(r"^(?!\s*#).*\bansible-playbook deeplearning\.cluster\.[a-z]", re.MULTILINE)
    assert {path.name: found for path in COLLECTION.glob(pattern) if (found := literal.findall(path.read_text()))} == {}
