"""Tests that check what the action of a training job decides before it starts any process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.action import training_job as action
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.worker_metadata import metadata
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.options import OPTIONS

from unit.inventories import HostVars, node

DEFAULTS = yaml.safe_load((Path(__file__).parents[4] / "roles" / "training_job" / "defaults" / "main.yml").read_text())


def variables(**changes):
    hosts = {
        f"c-{n}": {"deeplearning_cluster": "c", "deeplearning_number": n, "deeplearning_private_ip": f"10.0.0.{n}"} for n in (1, 2, 10)
    }
    other = {"x": {"deeplearning_cluster": "other", "deeplearning_number": 1, "deeplearning_private_ip": "10.1.0.1"}, "localhost": {}}
    return {**hosts["c-2"], "hostvars": HostVars({**hosts, **other}), "ansible_play_hosts_all": ["c-10", "c-2", "c-1"], **changes}


def test_the_generation_is_that_of_the_clusters_hosts_alone():
    workers = [{"number": n, "address": f"10.0.0.{n}"} for n in (10, 2, 1)]
    assert action.inventory_generation(variables()) == metadata.generation("c", workers)


def test_an_inventory_without_a_cluster_is_refused():
    with pytest.raises(AnsibleActionFail, match="deeplearning_cluster: the variable is not set"):
        action.inventory_generation({"hostvars": {}})


def test_the_lowest_number_in_the_play_gets_the_code():
    assert not action.is_first(variables())
    assert action.is_first(variables(ansible_play_hosts_all=["c-10", "c-2"]))


def test_a_job_on_the_first_host_alone():
    assert action.is_on_first_host(variables(ansible_play_hosts_all=["c-1"]))
    assert not action.is_on_first_host(variables(ansible_play_hosts_all=["c-2"]))
    assert not action.is_on_first_host(variables(ansible_play_hosts_all=["c-1", "c-2"]))


def test_the_queue_must_know_the_hosts_of_the_play():
    hostvars = HostVars(variables()["hostvars"], {f"c-{n}": node(n, deeplearning_hostname=f"node{n}") for n in (1, 2, 3)})
    assert action.play_hosts(variables(hostvars=hostvars, ansible_play_hosts_all=["c-3", "c-1"])) == ["node3", "node1"]
    assert action.play_hosts(variables(ansible_play_hosts_all=["c-10", "c-1"])) == ["c-10", "c-1"], "a hand-written inventory"


def with_price(**changes):
    charge = {"kind": "auto_scaling_group", "key": "workers", "product": "instance", "quantity": 2, "hourly": 20.0}
    made = variables()
    result = {"provision_result": {"price": {"currency": "USD", "charges": [charge], "published": "", "read_at": 0, "problem": ""}}}
    return variables(hostvars=HostVars({**made["hostvars"], "localhost": result}), **changes)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"max_cost": "60"}, 7200),
        ({"max_cost": 60, "time_limit": 600}, 600),
        ({"max_cost": 60, "time_limit": "0", "host_count": 2}, 10800),
        ({"max_cost": 60, "planned_hosts": "0"}, 7200),
    ],
)
def test_the_maximum_cost_becomes_a_time_limit(monkeypatch, arguments, expected):
    """Three hosts of the play, or as many as the queue allocates, cost 10 dollars per hour each. Only the first host tells the limit."""
    told = Mock()
    monkeypatch.setattr(action, "show", told)
    made = action.with_cost_limit("started", dict(arguments), with_price())
    assert (made.pop("time_limit"), "max_cost" in made, told.called) == (expected, False, False)
    hourly = 10.0 * arguments.get("host_count", 3)
    assert made.get("cost_limit") == (None if arguments.get("time_limit") == 600 else LIMIT | {"hourly": hourly})
    # Only the first host says what the job has used up
    assert "cost_limit" in action.with_cost_limit("prepared", dict(arguments), with_price(ansible_play_hosts_all=["c-10", "c-2"]))
    assert not told.called
    action.with_cost_limit("told", dict(arguments), with_price())
    assert told.call_count == 1


def test_check_mode_counts_the_nodes_that_the_job_will_have(monkeypatch):
    told = Mock()
    monkeypatch.setattr(action, "show", told)
    made = action.with_cost_limit("told", {"max_cost": 60, "planned_hosts": "4"}, with_price())
    assert made == {"time_limit": 5400, "cost_limit": LIMIT | {"hourly": 40.0}}
    assert "60.00 USD for 4 nodes at 40.00 USD per hour" in told.call_args.args[0]
    assert action.with_cost_limit("prepared", {"planned_hosts": "4"}, variables()) == {}


LIMIT = {"amount": 60.0, "earlier": 0.0, "currency": "USD"}


def test_a_job_that_continues_has_only_the_rest_of_the_maximum_cost(monkeypatch):
    """Hosts have run it for an hour, which cost 10 dollars."""
    told = Mock()
    monkeypatch.setattr(action, "show", told)
    arguments = {"max_cost": 60, "earlier_node_seconds": "3600.0"}
    made = action.with_cost_limit("told", dict(arguments), with_price())
    assert made == {"time_limit": 6000, "cost_limit": LIMIT | {"earlier": 10.0, "hourly": 30.0}}
    assert [call.args[0] for call in told.call_args_list] == [
        "training_job_max_cost: earlier attempts have cost about 10.00 USD of 60.00 USD, at the present price",
        "training_job_max_cost: 50.00 USD for 3 nodes at 30.00 USD per hour, so the job is stopped after 1 h 40 min",
    ]
    assert action.with_cost_limit("started", arguments | {"max_cost": 0}, with_price()) == {}
    with pytest.raises(AnsibleActionFail, match="does not pay for a minute"):
        action.with_cost_limit("started", arguments | {"max_cost": 10.2}, with_price())


def test_the_price_of_emr_nodes_limits_their_jobs(monkeypatch):
    """No run provisions these nodes: the result of that task is skipped."""
    price = with_price()["hostvars"]["localhost"]["provision_result"]["price"]
    monkeypatch.setattr(action, "price_of_nodes", lambda _variables: price)
    made = variables(deeplearning_node_service="emr")
    made["hostvars"]["localhost"] |= {"provision_result": {"skipped": True}}
    assert action.with_cost_limit("started", {"max_cost": 60}, made)["time_limit"] == 7200


@pytest.mark.parametrize(("state", "count"), [("new", 1), ("ended", 1), ("running", 0)])
def test_a_run_does_not_promise_the_whole_maximum_cost_to_a_running_job(monkeypatch, state, count):
    told = Mock()
    monkeypatch.setattr(action, "show", told)
    monkeypatch.setattr(action, "checked_identity", lambda answer, *_: answer)
    task = SimpleNamespace(args={"max_cost": 60}, async_val=0, check_mode=False, _role=None)
    action.ActionModule(task, *[Mock()] * 5)._prepared({"job_state": state}, with_price(ansible_play_hosts_all=["c-2"]))
    assert told.call_count == count


@pytest.mark.parametrize("given", [None, "", 0, "0", "0.0"])
def test_without_a_maximum_cost_nothing_changes(given):
    assert action.with_cost_limit("started", {"max_cost": given, "time_limit": 5}, variables()) == {"time_limit": 5}


@pytest.mark.parametrize(
    ("made", "given", "message"),
    [
        (variables, 60, "the price of the nodes is not known"),
        (with_price, "x", "max_cost: 'x' is not a number"),
        (with_price, 0.01, "pay for only"),
    ],
)
def test_a_maximum_cost_that_cannot_be_kept_is_refused(made, given, message):
    with pytest.raises(AnsibleActionFail, match=message):
        action.with_cost_limit("started", {"max_cost": given}, made())


def printed(tmp_path, *, check_mode=False, **changes):
    host = {"name": "c-1", "address": "10.0.0.1", "number": 1, "gpus": [], "interface": "ens5"}
    arguments = {
        "name": "x",
        "state": "printed",
        "directory": "/efs/jobs",
        "script": "train.py",
        "hosts": [host],
        "dest": str(tmp_path / "s"),
    }
    task = SimpleNamespace(args={**arguments, **changes}, async_val=0, check_mode=check_mode, _role=None)
    return action.ActionModule(task, Mock(), Mock(), Mock(), Mock(), Mock()).run(task_vars={})


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("environment", {"HF_HUB_OFFLINE": True}, "environment: HF_HUB_OFFLINE: YAML reads the value as true"),
        ("environment_by_task", {"ps": {"A": None}}, "environment_by_task: ps: A: YAML reads the value as null"),
        ("secrets", {"TOKEN": False}, "secrets: TOKEN: YAML reads the value as something else"),
        ("arguments", ["--fp16", True], "arguments: element 2: YAML reads the value as true"),
    ],
)
def test_text_that_would_not_be_passed_unchanged_is_refused(tmp_path, option, value, message):
    with pytest.raises(AnsibleActionFail, match=message):
        printed(tmp_path, **{option: value})


def test_printing_writes_the_scripts_without_a_host(tmp_path):
    assert printed(tmp_path, check_mode=True)["changed"]
    assert not (tmp_path / "s").exists()
    result = printed(tmp_path)
    assert result["changed"]
    assert (tmp_path / "s/c-1.sh").read_text() == result["scripts"]["c-1"]
    assert [process["name"] for process in result["processes"]] == ["rank0"]
    assert result["lines"][0].startswith("rank0 on c-1: /opt/pytorch/bin/python -m torch.distributed.run")
    assert not printed(tmp_path)["changed"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"launcher": "torch"}, "launcher: 'torch' is unknown. Use one of"),
        ({"launcher": "mxnet", "launcher_options": {"workers": 5}}, "workers is 5, but the hosts can run only 1"),
        ({"dest": "/dev/null/scripts"}, "dest: '/dev/null/scripts' cannot be written: .* Use another path"),
    ],
)
def test_what_cannot_be_printed_is_refused(tmp_path, changes, message):
    with pytest.raises(AnsibleActionFail, match=message):
        printed(tmp_path, **changes)


@pytest.mark.parametrize("option", ["arguments", "command"])
def test_a_command_line_is_a_list(tmp_path, option):
    with pytest.raises(AnsibleActionFail, match=rf"^{option}: '--epochs 3' is a string. Use a list: \[\"--epochs\", \"3\"\]"):
        printed(tmp_path, **{option: "--epochs 3"})


def test_printing_needs_hosts(tmp_path):
    with pytest.raises(AnsibleActionFail, match=r"hosts: the list is empty\. Specify the job's hosts"):
        printed(tmp_path, hosts=[])


@pytest.mark.parametrize("role", ["deeplearning.cluster.training_job", "other"])
def test_all_tasks_of_the_role_get_all_options_of_the_job_from_its_variables(monkeypatch, role):
    """The module gets the options at several times, and plans a later attempt from those with which the processes were started."""
    given = {**DEFAULTS, "training_job_script": "{{ own }}", "training_job_stop_timeout": "{{ omit }}"}
    task = SimpleNamespace(args={"name": "digits-1", "restarts": 0}, async_val=0, check_mode=False, _role=Mock())
    task._role.get_name.return_value = role
    given["training_job_secrets"] = {"TOKEN": "{{ lookup('a vault that is down') }}"}

    def template(values):
        assert "lookup" not in str(values), "only the start of a job needs its secrets"
        return {name: "train.py" if value == "{{ own }}" else value for name, value in values.items() if value != "{{ omit }}"}

    templar = Mock(template=template)
    plugin = action.ActionModule(task, Mock(), Mock(), Mock(), templar, Mock())
    found = plugin._arguments_of_role(given)
    if role == "other":
        assert found == {}
        return
    left_out = {name.removeprefix("training_job_") for name, value in DEFAULTS.items() if value == ""}
    expected = {option.name for option in OPTIONS} - {"secrets", "gpus"}
    assert {*found} == expected - left_out - {"stop_timeout"} | {"script"}
    assert (found["script"], found["launcher"], found["restarts"]) == ("train.py", "torchrun", 3)


@pytest.mark.parametrize(
    ("host", "arguments", "efa"),
    [({"deeplearning_has_efa": True}, {}, True), ({"deeplearning_has_efa": True}, {"efa": False}, False), ({}, {}, False)],
)
def test_the_inventory_tells_which_hosts_have_efa(monkeypatch, host, arguments, efa):
    task = SimpleNamespace(args={"state": "prepared", "generation": "g", **arguments}, async_val=0, check_mode=False, _role=None)
    plugin = action.ActionModule(task, Mock(), Mock(), Mock(), Mock(), Mock())
    monkeypatch.setattr(plugin, "_execute_module", lambda *_, module_args, **__: module_args)
    monkeypatch.setattr(action, "is_first", lambda _: False)
    monkeypatch.setattr(action, "checked_identity", lambda answer, *_: answer)
    assert plugin.run(task_vars={**variables(), **host})["efa"] is efa


NODE = node(2)


@pytest.mark.parametrize(
    ("host", "table", "arguments", "expected"),
    [
        ({"deeplearning_instance_type": "p5.48xlarge"}, {}, {}, ("p5.48xlarge", 0)),
        # An extra variable says what the next nodes will be.
        ({"deeplearning_instance_type": "p5.48xlarge"}, {"c-2": NODE}, {}, ("p4d.24xlarge", 0)),
        ({"deeplearning_has_efa": True, "deeplearning_efa_devices": 4}, {"c-2": NODE}, {}, ("p4d.24xlarge", 4)),
        ({"deeplearning_has_efa": True, "deeplearning_efa_devices": 4}, {"c-2": NODE}, {"efa": False}, ("p4d.24xlarge", 0)),
        ({}, {}, {"instance_type": "g5.xlarge"}, ("g5.xlarge", 0)),
        ({}, {}, {}, ("", 0)),
    ],
)
def test_the_inventory_tells_which_gpus_and_adapters_a_host_should_have(monkeypatch, host, table, arguments, expected):
    task = SimpleNamespace(args={"state": "prepared", "generation": "g", **arguments}, async_val=0, check_mode=False, _role=None)
    plugin = action.ActionModule(task, Mock(), Mock(), Mock(), Mock(), Mock())
    monkeypatch.setattr(plugin, "_execute_module", lambda *_, module_args, **__: module_args)
    monkeypatch.setattr(action, "is_first", lambda _: False)
    monkeypatch.setattr(action, "checked_identity", lambda answer, *_: answer)
    known = variables(inventory_hostname="c-2", **host)
    known["hostvars"] = HostVars(known["hostvars"], table)
    sent = plugin.run(task_vars=known)
    assert (sent["instance_type"], sent["efa_devices"]) == expected


@pytest.mark.parametrize(("arguments", "end"), [({}, 1795601702.0), ({"capacity_end": 5.0}, 5.0)])
def test_the_inventory_tells_when_the_capacity_block_ends(monkeypatch, arguments, end):
    task = SimpleNamespace(args={"state": "started", "generation": "g", **arguments}, async_val=0, check_mode=False, _role=None)
    plugin = action.ActionModule(task, Mock(), Mock(), Mock(), Mock(), Mock())
    monkeypatch.setattr(plugin, "_execute_module", lambda *_, module_args, **__: module_args)
    sent = plugin.run(
        task_vars={**variables(), "deeplearning_capacity_end": 1795601702.0, "deeplearning_instance_id": "i-0123456789abcdef0"}
    )
    assert (sent["capacity_end"], sent["instance_id"], sent["cluster"]) == (end, "i-0123456789abcdef0", variables()["deeplearning_cluster"])


@pytest.mark.parametrize(("number", "expected"), [(1, ["step 1 (a)", "step 2 (b)"]), (2, ["step 1 (a)", "step 3 (c)"])])
def test_a_host_is_told_which_set_up_steps_it_needs_and_not_their_content(monkeypatch, number, expected):
    steps = [
        {"name": name, "command": "x" * index, "only": only}
        for index, (name, only) in enumerate(zip("abc", ("all", "master", "workers")), 1)
    ]
    steps[0]["secrets"] = {"TOKEN": "hunter2"}
    task = SimpleNamespace(args={"state": "prepared", "generation": "g", "setup_steps": steps}, async_val=0, check_mode=False, _role=None)
    plugin = action.ActionModule(task, Mock(), Mock(), Mock(), Mock(), Mock())
    plugin._loader.get_basedir.return_value = "/"
    monkeypatch.setattr(plugin, "_execute_module", lambda *_, module_args, **__: module_args)
    monkeypatch.setattr(action, "is_first", lambda _: False)
    monkeypatch.setattr(action, "checked_identity", lambda answer, *_: answer)
    sent = plugin.run(task_vars={**variables(), "inventory_hostname": f"c-{number}"})
    assert list(sent["setup_digests"].values()) == expected
    assert "setup_steps" not in sent
    assert "hunter2" not in str(sent)
