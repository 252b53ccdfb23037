"""Tests of the desired configuration of Grid Engine, and of the output of its commands."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.sge import configuration
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.sge.configuration import SgeNode, SgeObject, SgeSettings

SETTINGS = SgeSettings("/efs/sge-demo", "trainers", ("ubuntu",), {"max_unheard": "00:02:00"})
NODES = (SgeNode("demo-master", 96, 8), SgeNode("demo-worker2", 48, 0))


def desired(settings=SETTINGS, nodes=NODES, members=("demo-master",)):
    return {item.shown: item for item in configuration.items(settings, nodes, members)}


def test_nodes_offer_their_cpus_and_gpus():
    found = desired()
    assert found["e demo-master"].own["complex_values"] == "exclusive=true,gpu=8,slots=96"
    assert found["q trainers"].own["slots"] == "96"
    assert found["hgrp @deeplearning"].own["hostlist"] == "demo-master"
    assert desired(members=())["hgrp @deeplearning"].own["hostlist"] == "NONE"


def test_only_root_uses_the_environment_of_training_jobs():
    found = desired()
    environments = {name: found[f"p {name}"].own["user_lists"] for name in configuration.ENVIRONMENTS}
    assert environments == {"orte": "NONE", "mpi": "NONE", "smp": "NONE", "nodes": "NONE", "training_jobs": "deeplearning_root"}
    assert found["u deeplearning_root"].own["entries"] == "root"
    first = {name: found[f"p {name}"].own["job_is_first_task"] for name in configuration.ENVIRONMENTS}
    assert first == {"orte": "TRUE", "mpi": "TRUE", "smp": "TRUE", "nodes": "FALSE", "training_jobs": "FALSE"}


@pytest.mark.parametrize(("groups", "lists", "entries"), [(("ubuntu", "staff"), "deeplearning", "root,@ubuntu,@staff"), ((), "NONE", None)])
def test_members_of_the_groups_can_submit_jobs(groups, lists, entries):
    found = desired(SETTINGS._replace(groups=groups))
    assert found["conf global"].own["user_lists"] == lists
    assert (found["u deeplearning"].own["entries"] if "u deeplearning" in found else None) == entries


def test_parameters_override_defaults():
    own = desired()["conf global"].own
    assert (own["max_unheard"], own["reschedule_unknown"]) == ("00:02:00", "00:01:00")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SETTINGS._replace(state_directory="efs"), r"state_directory: invalid value 'efs'\. Use an absolute path"),
        (SETTINGS._replace(queue="a b"), r"queue: invalid value 'a b'\. Use a letter"),
        (SETTINGS._replace(groups=("a,b",)), r"groups: invalid value 'a,b'"),
        (SETTINGS._replace(parameters={"Max Unheard": "1"}), r"parameters: invalid value 'Max Unheard'"),
        (SETTINGS._replace(parameters={"mailer": "a\nshepherd_cmd b"}), r"parameters: mailer: invalid value"),
        (SETTINGS._replace(parameters={"shepherd_cmd": "/x"}), r"parameters: shepherd_cmd cannot be set, because the collection sets it"),
        (SETTINGS._replace(parameters={"user_lists": "NONE"}), r"parameters: user_lists cannot be set"),
    ],
)
def test_values_that_the_configuration_cannot_contain(settings, message):
    with pytest.raises(ValueError, match=message):
        configuration.check(settings, NODES)


def test_good_values():
    configuration.check(SETTINGS, NODES)
    with pytest.raises(ValueError, match="nodes: name: invalid value"):
        configuration.check(SETTINGS, [SgeNode("a b", 1, 0)])


@pytest.mark.parametrize(("cpus", "gpus", "plausible"), [(1, 0, True), (96, 8, True), (0, 0, False), (10**6, 0, False), (1, -1, False)])
def test_impossible_hardware(cpus, gpus, plausible):
    assert configuration.is_plausible(SgeNode("a", cpus, gpus)) == plausible


SHOWN = (
    "hostname   demo-master\ncomplex_values  exclusive=true,gpu=8, \\\n                slots=96\nload_values arch=lx\n# a comment\nempty\n"
)


def test_output_of_qconf_is_read_with_continued_lines():
    found = configuration.parse(SHOWN)
    assert found == {
        "hostname": "demo-master",
        "complex_values": "exclusive=true,gpu=8, slots=96",
        "load_values": "arch=lx",
        "empty": "",
    }
    assert configuration.changed(configuration.node_item(NODES[0]), found) == {}


@pytest.mark.parametrize(
    ("current", "changes"),
    [
        ({"hostlist": "b a"}, {}),
        ({"hostlist": "A,b"}, {}),
        ({"hostlist": "a"}, {"hostlist": ("a", "a b")}),
        ({}, {"hostlist": ("", "a b")}),
        (None, {"hostlist": ("", "a b")}),
    ],
)
def test_only_settings_of_the_collection_are_compared(current, changes):
    item = SgeObject("hgrp", "@deeplearning", {"hostlist": "a b"}, {"rest": "1"})
    assert configuration.changed(item, current) == changes


def test_what_operators_have_set_stays():
    item = SgeObject("q", "trainers", {"slots": "4"}, {"notify": "00:01:00", "shell": "/bin/bash"})
    current = {"slots": "2", "notify": "00:05:00", "load_values": "arch=lx"}
    assert configuration.complete(item, current) == {"slots": "4", "notify": "00:05:00", "shell": "/bin/bash"}
    assert configuration.complete(item, None) == {"slots": "4", "notify": "00:01:00", "shell": "/bin/bash"}
    assert configuration.complete(item._replace(rest=None), current) == {**current, "slots": "4"}


def test_resources_are_added_once():
    table = "#name shortcut\narch a RESTRING ## NO NO NONE 0\n"
    added = configuration.resources(table)
    assert added == "arch a RESTRING ## NO NO NONE 0\nexclusive excl BOOL EXCL YES YES 0 0\ngpu gpu INT <= YES YES 0 0\n"
    assert configuration.resources(added) is None


def test_hosts_authenticate_users():
    assert configuration.parse(configuration.bootstrap("/efs/sge-demo"))["security_mode"] == "munge"


JOBS = """<?xml version='1.0'?>
<job_info><queue_info>
<job_list state="running"><JB_job_number>12</JB_job_number><queue_name>trainers@a</queue_name></job_list>
<job_list state="running"><JB_job_number>12</JB_job_number><queue_name>trainers@b</queue_name></job_list>
<job_list state="running"><JB_job_number>7</JB_job_number><queue_name>trainers@a</queue_name></job_list>
<job_list state="running"><JB_job_number>x</JB_job_number><queue_name>trainers@c</queue_name></job_list>
<job_list state="pending"><JB_job_number>13</JB_job_number><queue_name></queue_name></job_list>
</queue_info></job_info>"""


def test_jobs_of_hosts():
    assert configuration.jobs_by_host(JOBS) == {"a": ["7", "12"], "b": ["12"]}
    with pytest.raises(ValueError, match="qstat: unreadable output"):
        configuration.jobs_by_host("error")


@pytest.mark.parametrize(
    ("row", "registered"),
    [
        ("a  lx-amd64  2  1  2  2 24.40 23.5G 5.5G 0.0 0.0", True),
        ("a  lx-amd64  2  1  2  2 - 23.5G - 0.0 -", False),
        ("a  -  -  -  -  -  -  -  -  -  -", False),
        ("b  lx-amd64  2  1  2  2 24.40 23.5G 5.5G 0.0 0.0", False),
        ("", False),
    ],
)
def test_a_node_has_registered_if_it_reports_its_load(row, registered):
    output = f"HOSTNAME ARCH NCPU NSOC NCOR NTHR LOAD MEMTOT MEMUSE SWAPTO SWAPUS\n-----\nglobal - - - - - - - - - -\n{row}\n"
    assert configuration.has_registered(output, "a") == registered
