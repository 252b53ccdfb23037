"""Tests that check how messages from the provisioning modules name the variables that users of roles set."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.module_utils._internal import _messages
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.component import EMR
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import OPTIONS
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision.components import KINDS
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import option_names
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.variable_names import known_variables

ROLE = SimpleNamespace(_role=SimpleNamespace(get_name=lambda: "deeplearning.cluster.provision"))
PLAY = SimpleNamespace(_role=None)


@pytest.mark.parametrize(
    "text",
    [
        "<worker_count>: -1 is not valid. Specify the number of workers besides the master. With 0, the master is the only node.",
        "<zones>: there is no zone us-east-1z in us-east-1. Choose from us-east-1a, us-east-1b.",
        "<efa>: c5.large does not support EFA. Choose another type, or set <efa>: false.",
        "<placement_group>: x cannot be combined with <placement>: none. Remove one of these options.",
        "<security_group_ids>.storage: sg-1 is in vpc-1. Remove <security_group_ids>.storage.",
        "r is a spot, but <market> is on-demand. Set <market> to spot.",
        "Specify other zones (<zones>) or subnets in other zones (<private_subnet_ids>), or set <efs>: false.",
        "<private_subnet_ids>: a subnet is in a, which is missing from <zones>. Add the zone to <zones>, or remove the subnet.",
        "first line\n<efs>: false\n<tags>: 51 tags exceed the limit.",
        "To apply them, set <replace_nodes>: true and run again while no job is running.",
        "<region>: 'us-east-9' is not an AWS region.",
        "these options have no effect: <read_buckets>, <write_buckets>. Check the role",
        "parameters are mutually exclusive: <image_id>|<image_framework>",
        "<emr_task_count>: task nodes require at least one core node. Set <emr_core_count> to at least 1.",
        # Words, resources, values and options that are not variables stay as they are.
        "cluster: 'Bert' is not a valid name.",
        "private_key_file: a does not belong to 'b' (<key_name>). Set private_key_file in the inventory.",
        "Could not create placement_group main: x. Applied changes: create instance_profile nodes, update role nodes.",
        "placement_group main: strategy is 'spread' and cannot be changed to 'cluster'.",
        "Delete the cluster, its tags and the state of the market: all zones.",
        "'worker_count' is quoted; --worker_count and a/worker_count and my_worker_count and worker_counts are not the option.",
        "Set deeplearning_worker_count: 3 or __provision_worker_count.",
    ],
)
def test_names_of_options_become_names_of_variables(text):
    given, expected = text.replace("<", "").replace(">", ""), text.replace("<", "deeplearning_").replace(">", "")
    assert option_names.with_variables(given) == expected
    assert option_names.with_variables(expected) == expected
    assert option_names.of_run(ROLE, given) == expected
    assert option_names.of_run(PLAY, given) == given, "a module that is called directly names its own options"


@pytest.mark.parametrize(
    ("role", "text", "expected"),
    [
        ("deeplearning.cluster.training_job", "gpus: 9 does not exist: x", "training_job_gpus: 9 does not exist: x"),
        ("deeplearning.cluster.training_job", "key: is missing.", "key: is missing."),
        ("deeplearning.cluster.training_job", "name of nothing", "name of nothing"),
        ("deeplearning.cluster.slurm", "gpus: 9", "gpus: 9"),
        ("team.training.training_job", "gpus: 9", "gpus: 9"),
        (None, "gpus: 9", "gpus: 9"),
    ],
)
def test_a_message_of_a_host_begins_with_the_variable_of_the_role(role, text, expected):
    task = SimpleNamespace(_role=role and SimpleNamespace(get_name=lambda: role), args={"name": "x", "gpus": [9], "key": "x"})
    assert option_names.of_host_role(task, text) == expected


def test_each_name_is_that_of_a_variable():
    for option in OPTIONS:
        translated = option_names.with_variables(f"{option.name}: wrong")
        assert translated.partition(":")[0] in (known_variables() if option.name not in option_names.NOT_VARIABLES else {option.name})


def test_the_kinds_of_resources_that_are_also_options_are_known():
    kinds = KINDS.keys() | {kind.name for kind in EMR.kinds}
    assert set(option_names.KINDS) == kinds & {option.name for option in OPTIONS}


def test_all_texts_of_a_result_are_for_the_users_of_the_role():
    wrong, right = "efa: x", "deeplearning_efa: x"

    def event(text):
        return _messages.Event(
            msg="Module failed.", chain=_messages.EventChain(msg_reason="by", traceback_reason="by", event=_messages.Event(msg=text))
        )

    def result(text):
        return {
            "msg": text,
            "warnings": [text, _messages.WarningSummary(event=_messages.Event(msg=text))],
            "findings": [{"validator": "efa", "level": "error", "message": text}],
            "exception": _messages.ErrorSummary(event=event(text)),
            "changes": [{"kind": "efa: x"}],
            "failed": True,
        }

    assert option_names.result_of_run(ROLE, result(wrong)) == result(right)
    assert option_names.result_of_run(PLAY, result(wrong)) == result(wrong)
    assert option_names.result_of_run(ROLE, {"changed": False}) == {"changed": False}


def test_commands_are_completed_for_all_users(monkeypatch):
    monkeypatch.setattr(option_names, "with_run_options", lambda text: text.replace("run", "run -i x"))
    assert [option_names.of_run(task, "run it") for task in (ROLE, PLAY)] == ["run -i x it"] * 2
