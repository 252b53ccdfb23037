"""Tests of the conditions under which train.yml removes nodes after a failed job."""

from __future__ import annotations

import json
import os
from pathlib import Path

import ansible_commands
import pytest
import yaml

from unit.ansible_templates import evaluated, loaded

PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"
EXPORT = "s3://results/jobs"


FAILED = {"__training_job_started": {}, "__training_job_result": {"msg": "no luck"}}
SUCCEEDED = {"__training_job_started": {}, "__training_job_result": {}}
NOT_EXPORTED, EXPORTED = ({"__training_job_exported": {"finished": finished}} for finished in (False, True))
DISK = "/efs/jobs"
DESTROY = {"training_job_then": "destroy"}
EARLIER = "Check that the name is not in use, and that the earlier job can be continued"
# The job was not started
LAUNCHED = {"provision_result": {"changes": [{"kind": "nodes", "action": "update"}]}}


@pytest.mark.parametrize(
    ("always", "export", "own_disk", "facts", "nodes_go"),
    [
        (True, "", "", FAILED, True),
        (True, EXPORT, DISK, FAILED, False),
        (True, EXPORT, DISK, FAILED | NOT_EXPORTED, False),
        (True, EXPORT, "", FAILED | NOT_EXPORTED, True),
        (True, EXPORT, DISK, FAILED | EXPORTED, True),
        (True, EXPORT, DISK, LAUNCHED, True),
        (True, EXPORT, DISK, {}, False),
        (False, EXPORT, "", SUCCEEDED | NOT_EXPORTED, True),
        (False, EXPORT, DISK, SUCCEEDED | NOT_EXPORTED, False),
        (False, EXPORT, "", FAILED | NOT_EXPORTED, False),
        (False, EXPORT, "", FAILED | EXPORTED, False),
        (False, EXPORT, "", {}, False),
        (False, "", "", FAILED, False),
    ],
)
def test_nodes_stay_for_a_limited_time_if_the_export_fails_and_files_are_on_shared_storage(
    tmp_path, always, export, own_disk, facts, nodes_go
):
    """`training_job_then_always` also applies to failed jobs. Without shared storage, the nodes have the only copy of the files."""
    (play,) = [play for play in yaml.safe_load((PLAYBOOKS / "train.yml").read_text()) if "is_unexported" in play.get("vars", {})]
    fails = [{"ansible.builtin.set_fact": facts}] * bool(facts) + [{"ansible.builtin.fail": {"msg": "no luck\nsecond line"}}]
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "job.yml").write_text(json.dumps(fails))
    shown = [{"ansible.builtin.debug": {"msg": "nodes may go"}, "when": "hostvars['localhost'].job_is_over | default(false)"}]
    play |= {"hosts": "localhost", "vars_files": [], "tasks": play["tasks"] + shown}
    play["vars"] |= {
        "training_job_then": "destroy",
        "training_job_then_always": always,
        "training_job_then_delay": 0,
        "training_job_export": export,
        "__playbook_running": "x",
        "__playbook_own_disk": own_disk,
        "__playbook_jobs_directory": "/efs/jobs",
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    environment = {**os.environ, "ANSIBLE_STDOUT_CALLBACK": "deeplearning.cluster.concise", "COLUMNS": "200"}
    done = ansible_commands.run(["ansible-playbook", "-i", "localhost,", "play.yml"], environment, tmp_path)
    assert "no luck\n  second line\n" in done.stdout, "the cause is told as without training_job_then"
    assert (done.returncode == 0, "nodes may go" in done.stdout) == (nodes_go, nodes_go), done.stdout
    if export and not nodes_go:
        failed = not always and facts.get("__training_job_result") != {}
        what = "was not started" if "__training_job_started" not in facts else "failed" if failed else "was not exported"
        assert f"The job {what}, as shown above, so training_job_then: destroy" in done.stdout
    waits = nodes_go and export and "__training_job_started" in facts and not facts.get("__training_job_exported", {}).get("finished")
    assert ("The nodes keep running for 0 minutes, so that you can export the job." in done.stdout) == bool(waits)


@pytest.mark.parametrize(
    ("groups", "variables", "named", "refuses", "resumes"),
    [
        (["node1"], {}, False, False, False),
        (["node1"], {"node1": {"training_job_name": "digits"}}, True, False, False),
        (["node1"], {"node1": {"training_job_name": "digits", "named": {"jobs": [{"state": "running"}]}}}, True, False, False),
        (["node1"], {"node1": {"training_job_name": "digits", "named": {"jobs": [{"state": "succeeded"}]}}}, True, True, False),
        (["node1"], {"localhost": {"training_job_resume": "newest"}, "node1": {"training_job_resume": "newest"}}, False, True, True),
        ([], {"localhost": {"training_job_name": "digits"}}, True, False, False),
    ],
)
def test_plays_before_the_job_have_hosts_only_if_there_is_something_to_check(groups, variables, named, refuses, resumes):
    plays = {play["name"]: play for play in loaded(PLAYBOOKS / "train.yml")}
    hostvars = {name: variables.get(name, {}) for name in ("localhost", *groups)}
    for name, expected in (
        ("Read the job with this name", "trainers[0]" if named else "trainers:!trainers"),
        (EARLIER, "trainers[0]" if refuses else "trainers:!trainers"),
        ("Check that the cluster can contain an earlier job", "localhost" if resumes else "localhost:!localhost"),
    ):
        own = {key: value for key, value in plays[name]["vars"].items() if key != "known_hosts"}
        assert evaluated(plays[name]["hosts"], own, hostvars=hostvars, groups={"trainers": groups}) == expected


def test_variables_of_the_user_keep_their_values_in_the_plays_that_run_the_job():
    """Variables of a job can refer to the user's own variables, such as `state`."""
    plays = [play for play in yaml.safe_load((PLAYBOOKS / "train.yml").read_text()) if "continues" in play.get("vars", {})]
    own = {"then", "then_always", "continues", "job_succeeded", "is_unexported"}
    assert [name for play in plays for name in play["vars"] if name not in own and not name.startswith("__")] == []
    assert len(plays) == 2


@pytest.mark.parametrize(
    ("named", "is_allowed"),
    [
        ({"jobs": [{"process_count": 3, "over": False}]}, True),
        ({"jobs": [{"process_count": 3, "over": True}]}, False),
        ({"jobs": [{"process_count": 0, "over": False}]}, False),
        ({"jobs": []}, False),
        ({"skipped": True}, False),
        (None, False),
    ],
)
def test_only_a_job_that_has_started_may_run_on_outdated_nodes(named, is_allowed):
    (play,) = [play for play in loaded(PLAYBOOKS / "train.yml") if play["name"] == "Provision"]
    found = {} if named is None else {"named": named}
    wanted = "{{ __provision_allow_outdated_nodes }}"
    given = {"groups": {"trainers": ["a"]}, "hostvars": {"a": found, "localhost": {}}}
    assert evaluated(wanted, play["vars"], given) == is_allowed
    assert evaluated(wanted, play["vars"], given, deeplearning_allow_outdated_nodes=not is_allowed) != is_allowed
    assert evaluated(wanted, play["vars"], {"groups": {}, "hostvars": {"localhost": {}}}) is False


@pytest.mark.parametrize(("facts", "hosts"), [({"job_is_over": True}, "trainers:!trainers"), ({"nodes_may_go": True}, "localhost")])
def test_nothing_follows_a_job_unless_it_was_requested(facts, hosts):
    """The task that runs the job sets `job_is_over` only if `training_job_then` is not `keep`."""
    (play,) = [play for play in loaded(PLAYBOOKS / "train.yml") if play["name"] == "Remove nodes after the job"]
    assert evaluated(play["hosts"], hostvars={"localhost": facts}) == hosts


@pytest.mark.parametrize("other_job", ["", "long runs on b."])
def test_nodes_go_after_a_failed_job_only_if_no_other_job_is_running(tmp_path, other_job):
    """A host that has not reported the failure counts as failed. Ansible would go on if the check then fails on the other host."""
    names = "Run the training job, and continue if it fails", "Check that no other job is running on the nodes to terminate"
    plays = {play["name"]: play for play in yaml.safe_load((PLAYBOOKS / "train.yml").read_text())}
    removal = {**plays["Remove nodes after the job"], "tasks": [{"ansible.builtin.debug": {"msg": "nodes go"}}]}
    played = [{**play, "vars_files": []} for play in (plays[names[0]], plays[names[1]], removal)]
    played[0]["hosts"] = "trainers"
    check = [{"ansible.builtin.fail": {"msg": other_job}, "run_once": True, "when": bool(other_job)}]
    (tmp_path / "tasks").mkdir()
    started = {"ansible.builtin.set_fact": {"__training_job_started": {}}}
    failed = [started, {"block": [{"ansible.builtin.fail": {"msg": "the job failed"}, "run_once": True}]}]
    for name, tasks in (("job", failed), ("check_jobs", check)):
        (tmp_path / "tasks" / f"{name}.yml").write_text(json.dumps(tasks))
    given = {
        "training_job_then": "destroy",
        "training_job_then_always": True,
        "__playbook_running": "2 nodes run.",
        "__playbook_own_disk": "",
    }
    hosts = {name: {"ansible_connection": "local"} for name in ("a", "b")}
    (tmp_path / "hosts.yml").write_text(json.dumps({"trainers": {"hosts": hosts}, "all": {"vars": given}}))
    (tmp_path / "play.yml").write_text(json.dumps(played))
    environment = {**os.environ, "ANSIBLE_INVENTORY_ENABLED": "yaml", "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}
    done = ansible_commands.run(["ansible-playbook", "-i", "hosts.yml", "play.yml"], environment, tmp_path)
    assert ("nodes go" in done.stdout) == (not other_job), done.stdout
    if other_job:
        assert "training_job_then: destroy is not applied. long runs on b. 2 nodes run." in " ".join(done.stdout.split())
        assert done.returncode


def shown(tmp_path, task, **variables):
    """Return what a task with the module debug shows."""
    play = [{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [task]}]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    environment = {**os.environ, "ANSIBLE_STDOUT_CALLBACK": "deeplearning.cluster.concise", "COLUMNS": "1000"}
    return " ".join(ansible_commands.run(["ansible-playbook", "-i", "localhost,", "play.yml"], environment, tmp_path).stdout.split())


@pytest.mark.parametrize(
    ("then", "told"),
    [
        ("scale_in", "All workers were removed."),
        ("destroy", "The cluster was destroyed. Kept: fs-1."),
    ],
)
def test_a_notification_says_that_the_nodes_are_gone(tmp_path, then, told):
    (play,) = [play for play in yaml.safe_load((PLAYBOOKS / "train.yml").read_text()) if play["name"] == "Remove nodes after the job"]
    (sent,) = [task["deeplearning.cluster.notification"] for task in play["tasks"] if "deeplearning.cluster.notification" in task]
    facts = {"training_job_then": then, **({"playbook_remaining": {"msg": "Kept: fs-1."}} if then == "destroy" else {})}
    found = shown(tmp_path, {"ansible.builtin.debug": {"msg": f"{sent['event']}: {sent['msg']}"}}, **facts)
    assert f"{'cluster_destroyed' if then == 'destroy' else 'nodes_ended'}: {told}" in found


@pytest.mark.parametrize(("then", "is_told"), [("keep", False), ("destroy", True)])
@pytest.mark.parametrize("is_lost", [False, True])
def test_nodes_that_stay_after_a_failed_job_are_reported_with_the_reason(tmp_path, then, is_told, is_lost):
    (block,) = yaml.safe_load((PLAYBOOKS / "tasks" / "job.yml").read_text())
    (task,) = [task for task in block["always"] if task["name"] == "Report the running nodes"]
    facts = {"then": then, "continues": False, "reports_nodes": True, "__playbook_running": "2 nodes run.", "__playbook_login": "ssh x"}
    facts |= {"__training_job_started": {}, "then_always": False}
    (play,) = [play for play in yaml.safe_load((PLAYBOOKS / "train.yml").read_text()) if play["name"] == "Run the training job"]
    facts |= {name: play["vars"][name] for name in ("__train_kept", "job_succeeded")}
    found = shown(tmp_path, task, **facts, **({"__training_job_result": {"out_of_reach": True}} if is_lost else {}))
    advice = "" if is_lost else "To apply it even if a job fails, set training_job_then_always: true. "
    reason = f"training_job_then: {then} is not applied. {advice}2 nodes run."
    assert (reason in found, "2 nodes run. To log in" in found) == (is_told, True), found


@pytest.mark.parametrize(
    ("facts", "is_told"),
    [({}, True), ({"__training_job_started": {}}, False), ({"ansible_check_mode": True}, False), ({"__train_state": "printed"}, False)],
)
def test_people_hear_that_a_job_was_not_started_and_why(facts, is_told):
    (block,) = loaded(PLAYBOOKS / "tasks" / "job.yml")
    included = next(each for each in block["always"] if "after_job.yml" in each.get("ansible.builtin.include_tasks", ""))
    task = loaded(PLAYBOOKS / "tasks" / "after_job.yml")[0]
    hosts = {"a": {}, "b": {"__training_job_prepared": {"msg": "no GPU"}}}
    given = {"__train_state": "started", "ansible_check_mode": False, "ansible_play_hosts_all": [*hosts], "hostvars": hosts, **facts}
    assert evaluated([included["when"]], included["vars"], given) == is_told
    assert evaluated([task["when"]], included["vars"], given) == is_told
    told = evaluated(task["vars"]["facts"], task["vars"], given, training_job_name="bert")
    assert told == {"job": "bert", "reason": "no GPU"}


@pytest.mark.parametrize(
    ("options", "then"),
    [
        ({}, "keep"),
        ({"training_job_then": "destroy"}, "destroy"),
        ({"training_job_then": "destroy", "training_job_state": "printed"}, "keep"),
    ],
)
def test_people_hear_that_the_nodes_of_a_job_that_had_succeeded_before_stay(options, then):
    block = loaded(PLAYBOOKS / "tasks" / "check_earlier_jobs.yml")[0]
    given = {"__train_named": {"name": "bert", "directory": "/j/bert", "state": "succeeded"}, **options}
    assert evaluated([block["when"]], given)
    assert evaluated([block["block"][0]["when"]], block["vars"], given) == (then != "keep")
    assert evaluated(block["vars"]["facts"], block["vars"], given)["then"] == then
