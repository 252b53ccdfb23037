"""Tests of the output of playbooks that use the callback. The playbooks run on this machine."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import ansible_commands
import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.callback import concise
from ansible_collections.deeplearning.cluster.plugins.callback.concise import JOB, CallbackModule
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.ssh_login import PROXY, Login, login_advice

CHANGE = {"kind": "subnet", "policy": "in_place", "before": {}}
CREATED = [{**CHANGE, "key": key, "action": "create", "after": {"cidr": f"10.0.{key}.0/24", "tags": {"Name": key}}} for key in "12"]
UPDATED = {**CHANGE, "key": "3", "action": "update", "before": {"size": 2}, "after": {"size": 3}}

# An action that returns its arguments, and displays messages in the same way as the collection's actions.
ACTION = """
import pathlib
import time
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.output import ProgressLine


class ActionModule(ActionBase):
    _supports_check_mode = _supports_diff = True
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = {**super().run(tmp, task_vars), **self._task.args}
        for line in result.pop("progress", []):
            Display().display(ProgressLine(line))
        for line in result.pop("lines", []):
            Display().display(line)
        if "warns" in result:
            Display().warning(result.pop("warns"))
        if "marker" in result:
            pathlib.Path(result["marker"]).touch()
        time.sleep(result.pop("sleep", 0))
        if "silence" in result:
            raise AnsibleConnectionFailure(result["silence"])
        return result
"""


def task(name, _keywords=None, **result):
    return {"name": name, "result": result, **(_keywords or {})}


def play(name, *tasks, hosts="all", **more):
    return {"name": name, "hosts": hosts, "gather_facts": False, "tasks": list(tasks), **more}


@dataclass(frozen=True)
class Project:
    """A directory with an inventory of three hosts, all of which are this machine."""

    folder: Path

    def command(self, plays, *arguments):
        (self.folder / "play.yml").write_text(yaml.safe_dump(plays))
        return ["ansible-playbook", "-i", "inventory", "play.yml", *arguments]

    def environment(self, **more):
        """Return the environment of Ansible, without the width of a terminal, which processes of xdist have."""
        inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        return {**inherited, "ANSIBLE_STDOUT_CALLBACK": "deeplearning.cluster.concise", "ANSIBLE_NOCOLOR": "true", **more}

    def run(self, *plays, arguments=(), status=0, **environment):
        """Return the lines that a playbook prints, with each number of seconds replaced by #."""
        done = ansible_commands.run(self.command(plays, *arguments), self.environment(**environment), self.folder, merged=True)
        assert done.returncode == status, done.stdout
        return re.sub(r"\b\d+ s\b", "# s", done.stdout).splitlines()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "inventory").write_text("h1 ansible_connection=local\nh2 ansible_connection=local\nh3 ansible_connection=local\n")
    (folder / "action_plugins").mkdir()
    (folder / "action_plugins" / "result.py").write_text(ACTION)
    return Project(folder)


FAILS = task("Break", failed=True, msg="broken")


def test_its_name_is_that_of_the_file():
    assert CallbackModule.CALLBACK_NAME == "deeplearning.cluster.concise"


@pytest.mark.parametrize(
    ("check", "changed", "waited", "summary"),
    [
        (
            False,
            [("ansible.builtin.copy", {}, "h1"), (JOB, {"state": "started"}, "h1"), (JOB, {}, "h2")],
            [{"changed": False}],
            "changed 1 host, ran the job on 2 hosts",
        ),
        (False, [(JOB, {}, "h1")], [{"interrupted": "leave"}], "started the job on 1 host"),
        (False, [(JOB, {"state": "prepared"}, "h2"), (JOB, {}, "h1")], [], "started the job on 1 host"),
        (False, [(JOB, {"state": "stopped"}, "h1"), (f"{JOB}_report", {}, "h2")], [], "stopped the job on 1 host"),
        (True, [(JOB, {"state": "prepared"}, "h1")], [], "job to run on 1 host"),
        (True, [("ansible.builtin.copy", {}, "h1"), ("ansible.builtin.copy", {}, "h2")], [], "2 hosts to change"),
    ],
)
def test_the_summary_tells_a_job_from_a_change_of_hosts(monkeypatch, check, changed, waited, summary):
    monkeypatch.setattr(concise.context, "CLIARGS", {"check": check})
    callback = CallbackModule()
    for action, arguments, host in changed:
        callback._changed_hosts(SimpleNamespace(action=action, args=arguments)).add(host)
    callback._totals.job_is_over = any(concise.is_end_of_job(f"{JOB}_wait", result) for result in waited)
    assert not concise.is_end_of_job(JOB, {})
    lines = [line for line, _color in callback._summary(is_failed=False)]
    assert [re.sub(r"in \d+ s", "in # s", line) for line in lines] == [f"Plan: {summary}" if check else f"Done in # s: {summary}."]


def test_a_job_that_failed_may_have_run_on_some_hosts_only(monkeypatch):
    monkeypatch.setattr(concise.context, "CLIARGS", {"check": False})
    callback = CallbackModule()
    callback._changed_hosts(SimpleNamespace(action=JOB, args={})).add("h1")
    ((line, _color),) = callback._summary(is_failed=True)
    assert ": started the job on 1 host. Use -v" in line


def test_stages_changes_and_messages_are_lines_and_the_rest_is_not_shown(project):
    lines = project.run(
        play("Look", task("Look"), {"name": "Skip", "result": {"changed": True}, "when": False}),
        play(
            "Work",
            task("Look"),
            task("Change all", changed=True),
            task("Change one", {"when": "inventory_hostname == 'h2'"}, changed=True),
            task("Change in a loop", {"loop": [1, 2]}, changed=True),
            task("Ignore", {"ignore_errors": True}, failed=True, msg="unimportant"),
            task("Retry", {"until": False, "retries": 1, "delay": 0, "ignore_errors": True}),
            {"name": "Say", "ansible.builtin.debug": {"msg": "hello "}},
            {"name": "Say", "ansible.builtin.debug": {"msg": "I am {{ inventory_hostname }}"}, "when": "inventory_hostname != 'h2'"},
            {"name": "Say", "ansible.builtin.debug": {"msg": ["one", "two"]}, "run_once": True},
            {"name": "Show", "ansible.builtin.debug": {"var": "ansible_check_mode"}},
            task("Work", {"run_once": True}, lines=["line of an action"]),
        ),
    )
    hosts = slice(5, 7)  # hosts report in any order
    lines[hosts] = sorted(lines[hosts])
    assert lines == [
        "Work",
        "  Change all: changed on all 3 hosts",
        "  Change one: changed on h2",
        "  Change in a loop: changed on all 3 hosts",
        "  hello",
        "  h1: I am h1",
        "  h3: I am h3",
        "  one",
        "  two",
        "  ansible_check_mode: false",
        "  line of an action",
        "Done in # s: changed 3 hosts.",
    ]


def test_batches_are_one_stage_and_handlers_are_tasks(project):
    assert project.run(
        play(
            "Roll",
            task("Change", {"notify": "Restart"}, changed=True),
            serial=2,
            handlers=[task("Restart", changed=True)],
        ),
        arguments=["--limit", "h1,h2"],
    ) == ["Roll", "  Change: changed on all 2 hosts", "  Restart: changed on all 2 hosts", "Done in # s: changed 2 hosts."]


def test_resources_are_named_and_the_end_says_what_was_done(project):
    assert project.run(
        play("Provision", task("Apply", changed=True, changes=[*CREATED, UPDATED]), hosts="localhost", connection="local"),
        play(
            "Unchanged",
            task("Plan", {"check_mode": True}, changed=True, changes=CREATED),
            task("Apply", changes=[]),
            hosts="localhost",
            connection="local",
        ),
        play("Files", task("Write", {"delegate_to": "localhost", "run_once": True}, changed=True)),
    ) == [
        "Provision",
        "  Created 2 resources in # s: subnets 1, 2",
        "  Changed 1 resource in # s: subnet 3: size 2 -> 3",
        "Unchanged",
        "  Nothing to change.",
        "Files",
        "  Write: changed",
        "Done in # s: created 2 resources, changed 1 resource.",
    ]


@pytest.mark.parametrize(("diff", "properties"), [([], ["", ""]), (["--diff"], [": cidr 10.0.1.0/24", ": cidr 10.0.2.0/24"])])
def test_the_plan_of_check_mode_has_a_line_for_each_change_and_ends_with_counts(project, diff, properties):
    priced = [{**each, "hourly": hourly} for each, hourly in zip([*CREATED, UPDATED], (0.5, 0, None))]
    price = {"hourly": 2.5, "currency": "USD", "charges": [], "published": "2026-07-20", "read_at": None, "problem": ""}
    assert project.run(
        play(
            "Provision",
            task("Predict", {"vars": {"__provision_predicts": True}}, changed=True, changes=priced, price=price),
            task("Apply", changed=True, changes=priced, price=price),
            hosts="localhost",
            connection="local",
        ),
        play("Configure", task("Write", changed=True, diff={"before": "a\n", "after": "b\n"})),
        arguments=["--check", *diff],
    ) == [
        "Provision",
        f"  + subnet 1{properties[0]} (+0.500 USD per hour)",
        f"  + subnet 2{properties[1]}",
        "  ~ subnet 3: size 2 -> 3 (price not known)",
        "Configure",
        "  Write: would change on all 3 hosts",
        *(["  all 3 hosts:", "    --- before", "    +++ after", "    @@ -1 +1 @@", "    -a", "    +b"] if diff else []),
        "Plan: 2 to create, 1 to change, 0 to delete; then 2.50 USD per hour (60.00 USD per day) at prices of us-east-1 of 2026-07-20, "
        "without traffic and taxes; 3 hosts to change",
    ]


def test_a_failure_is_shown_once_with_its_hosts(project):
    lines = project.run(
        play(
            "Work",
            task("Check", {"when": "inventory_hostname != 'h3'"}, failed=True, msg="disk of {{ inventory_hostname }}:\n  full"),
            task("Loop", {"loop": ["a", "b"], "loop_control": {"label": "item {{ item }}"}}, failed=True, msg="no {{ item }}"),
        ),
        status=2,
    )
    assert lines[2] in ("    disk of h1:", "    disk of h2:")
    del lines[2]
    assert lines == [
        "Work",
        "  FAILED: Check (h1, h2)",
        "      full",
        "  FAILED: Loop (h3)",
        "    item a: no a",
        "    item b: no b",
        "Failed after # s: changed nothing. Use -v to show all tasks and results.",
    ]


def test_a_failed_run_says_what_it_has_created(project):
    failed = task("Apply", failed=True, msg="no capacity", changed=True, changes=CREATED)
    assert project.run(play("Provision", failed, hosts="localhost", connection="local"), status=2) == [
        "Provision",
        "  FAILED: Apply",
        "    no capacity",
        "Failed after # s: created 2 resources. Use -v to show all tasks and results.",
    ]


def test_a_failure_that_is_rescued_is_shown_only_if_the_rescue_fails_too(project):
    block = {"name": "Try", "block": [FAILS], "rescue": [task("Repair", changed=True)], "always": [task("Clean up", changed=True)]}
    bad = {"name": "Try", "block": [{"name": "Inside", "block": [FAILS]}], "rescue": [task("Repair", failed=True, msg="cannot repair")]}
    assert project.run(play("Work", block, bad, hosts="h1"), status=2) == [
        "Work",
        "  Repair: changed on h1",
        "  Clean up: changed on h1",
        "  FAILED: Repair (h1)",
        "    cannot repair",
        "    This task ran because 'Break' failed: broken",
        "Failed after # s: changed 1 host. Use -v to show all tasks and results.",
    ]


def test_an_included_task_in_a_block_is_rescued(project):
    (project.folder / "included.yml").write_text(yaml.safe_dump([FAILS]))
    block = {"name": "Try", "block": [{"name": "Include", "ansible.builtin.include_tasks": "included.yml"}], "rescue": [task("Repair")]}
    assert project.run(play("Work", block)) == []


def test_errors_of_a_playbook_are_shown_without_their_results(project):
    lines = project.run(play("Work", {"name": "Say", "ansible.builtin.debug": {"msg": "{{ nowhere }}"}}), status=2)
    assert lines[:2] == ["Work", "  FAILED: Say (all 3 hosts)"]
    assert lines[2].endswith("'nowhere' is undefined")
    assert len(lines) == 4


def test_of_hosts_behind_an_unreachable_host_only_that_is_shown(project):
    behind = f"kex_exchange_identification: closed\nClosed {PROXY}.\n{login_advice(f'Closed {PROXY}', Login(through='h2'))}"
    silent = task("Connect", {"when": "inventory_hostname != 'h3'"}, silence="{{ behind if inventory_hostname == 'h1' else 'timed out' }}")
    lines = project.run(play("Reach", silent, vars={"behind": behind}), status=4)
    assert lines[1] == "  h2 is unreachable: timed out"
    assert lines[2] == "  h1 is unreachable, because SSH reaches it through h2."
    reached = task("Connect", {"when": "inventory_hostname == 'h1'"}, silence="{{ behind }}")
    lines = project.run(play("Reach", reached, vars={"behind": behind}), status=4)
    assert lines[1].startswith("  h1 is unreachable: SSH reaches this node through h2, and that connection was closed. Check that both")


def test_unreachable_hosts_are_one_line(project):
    silent = {
        "silence": "Failed to connect to the host via ssh: {{ inventory_hostname }} port 22: refused",
        "when": "inventory_hostname != 'h3'",
    }
    lines = project.run(
        play(
            "Work",
            task("Expect nothing", {"ignore_unreachable": True, "when": silent["when"]}, silence="gone"),
            task("Ask", {"when": silent["when"]}, silence=silent["silence"]),
            task("Change", changed=True),
        ),
        status=4,
    )
    assert re.fullmatch(r"  h1, h2 are unreachable: h[12] port 22: refused", lines[1]), lines
    assert [lines[0], *lines[2:]] == [
        "Work",
        "  Change: changed on h3",
        "Failed after # s: changed 1 host. Use -v to show all tasks and results.",
    ]


def test_warnings_are_shown_once(project):
    lines = project.run(play("Work", task("Warn", warns="{{ inventory_hostname }} has no swap"), task("Warn", warns="all is slow")))
    assert len(lines) == 2
    assert re.fullmatch(r"\[WARNING\]: (h\d) has no swap \(also on h\d, h\d\)", lines[0])
    assert re.fullmatch(r"\[WARNING\]: all is slow \(also on h\d, h\d\)", lines[1])


@pytest.mark.parametrize(("arguments", "is_shown"), [((), False), (("-v",), True)])
@pytest.mark.parametrize("host", ["", "{{ inventory_hostname }}: "])
def test_a_warning_that_asks_for_nothing_is_shown_only_with_v(project, host, arguments, is_shown):
    text = f"{host}Module remote_tmp /home/ubuntu/.ansible/tmp did not exist and was created with a mode of 0700"
    assert any("remote_tmp" in line for line in project.run(play("Work", task("Warn", warns=text)), arguments=arguments)) == is_shown


def test_no_line_of_a_host_can_look_like_one_of_ansible(project):
    forged = "a\x1b[2Kb\nDone in 1 s: changed nothing."
    lines = project.run(play("Work", task("Fail", failed=True, msg=forged), hosts="h1"), status=2)
    assert lines[2:4] == ["    ab", "    Done in # s: changed nothing."]


def test_progress_is_shown_from_time_to_time_where_lines_cannot_be_rewritten(project):
    steps = [f"digits: step {number}" for number in range(100)]
    assert project.run(
        play("Train", task("Wait", {"run_once": True}, progress=[*steps, "0 of 2 nodes", "1 of 2 nodes"], lines=["digits succeeded"]))
    ) == [
        "Train",
        "  digits: step 0",
        "  0 of 2 nodes",
        "  digits succeeded",
    ]


def test_verbose_output_is_that_of_the_default_callback(project):
    plays = [play("Work", task("Change", changed=True), {**FAILS, "ignore_errors": True})]
    ours = project.run(*plays, arguments=["-v", "--limit", "h1"])
    default = project.run(*plays, arguments=["-v", "--limit", "h1"], ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default")
    assert any(line.startswith("changed: [h1] => ") for line in ours)
    assert ours == default


def test_json_is_still_possible(project):
    lines = project.run(play("Work", task("Change", changed=True)), ANSIBLE_STDOUT_CALLBACK="ansible.posix.json")
    assert json.loads("\n".join(lines))["stats"]["h1"]["changed"] == 1


class Terminal:
    """A playbook that runs on a terminal."""

    def __init__(self, project, *plays):
        ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            project.command(list(plays)),
            cwd=project.folder,
            env=project.environment(TERM="xterm"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._terminal, self.output = ours, ""

    def read(self, until=None):
        """Read until the given text appears or the output ends."""
        deadline = time.monotonic() + 300
        while until is None or until not in self.output:
            assert time.monotonic() < deadline, self.output
            try:
                part = os.read(self._terminal, 4096)
            except OSError:
                break
            if not part:
                break
            self.output += part.decode()
        return self.output

    def lines(self):
        """Return the lines that remain on the terminal."""
        return [line.rpartition("\r\x1b[K")[2].rstrip("\r") for line in self.output.split("\n")]


def test_progress_is_rewritten_on_a_terminal(project):
    steps = [f"digits: step {number}" for number in range(3)]
    terminal = Terminal(project, play("Train", task("Wait", {"run_once": True}, progress=steps, lines=["digits succeeded"])))
    output = terminal.read()
    assert terminal.process.wait(300) == 0
    assert "Train: Wait" in output
    assert all(f"\r\x1b[K  {step}" in output for step in steps)
    assert terminal.lines() == ["Train", "  digits succeeded", ""]


def test_an_interrupt_leaves_no_progress_behind(project):
    marker = project.folder / "interrupt"
    wait = task("Wait", {"run_once": True}, progress=["digits: step 1"], marker=str(marker), sleep=60)
    terminal = Terminal(project, play("Train", wait))
    terminal.read("digits: step 1")
    # ansible-core waits forever if a process ends while this process forwards a line.
    while not marker.exists():
        assert terminal.process.poll() is None
        time.sleep(0.05)
    os.killpg(terminal.process.pid, signal.SIGINT)
    terminal.read()
    assert terminal.process.wait(300) == 99
    assert [line for line in terminal.lines() if "step" in line] == []
    assert any("User interrupted execution" in line for line in terminal.lines())


def test_tasks_of_roles_are_shown_without_the_name_of_the_role(project):
    folder = project.folder / "roles" / "greeting" / "tasks"
    folder.mkdir(parents=True)
    tasks = [{"name": "Greet {{ inventory_hostname }}", "result": {"changed": True}}, FAILS]
    (folder / "main.yml").write_text(yaml.safe_dump(tasks))
    lines = project.run(play("Greet", hosts="h1", roles=["greeting"]), status=2)
    assert lines[1:3] == ["  Greet h1: changed on h1", "  FAILED: Break (h1)"]


def test_many_messages_of_many_hosts_take_few_lines(project):
    hosts = ",".join(f"h{number}" for number in range(1, 31))
    texts = {f"h{number}": f"text {number}: " + "x\n" * 30 for number in range(1, 31)}
    inventory = ["-i", f"{hosts},", "-e", "ansible_connection=local", "-e", json.dumps({"texts": texts})]
    own = "{{ texts[inventory_hostname] }}"
    lines = project.run(
        play(
            "Work",
            task("Warn", warns=own),
            task("Break", {"when": "inventory_hostname != 'h1'"}, failed=True, msg=own, warns=own),
            task("Go on", changed=True),
        ),
        arguments=inventory,
        status=2,
    )
    end = lines.index("  Go on: changed on h1")
    begin = next(number for number, line in enumerate(lines) if "FAILED" in line)
    told = "\n".join(lines[:end])
    assert re.search(r"11 more warnings \(h\d+, h\d+, h\d+ and \d more hosts\), use -v to show them", told)
    assert re.search(r"27 more warnings \(h\d+, h\d+, h\d+ and \d+ more hosts\), use -v to show them", told)
    assert "The task also failed on" in lines[end - 1]
    assert end - begin <= 20
    assert told.count("[WARNING]") <= 21


def test_texts_for_people_stay_out_of_the_output_of_other_callbacks(project):
    """The JSON of ansible.posix.json can be parsed."""
    code = (
        "from ansible_collections.deeplearning.cluster.plugins.plugin_utils.output import ProgressLine, show\n"
        "from ansible.plugins.action import ActionBase\n"
        "class ActionModule(ActionBase):\n"
        "    def run(self, tmp=None, task_vars=None):\n"
        "        show('for people')\n"
        "        show(ProgressLine('1 of 2'))\n"
        "        return super().run(tmp, task_vars)\n"
    )
    (project.folder / "action_plugins" / "say.py").write_text(code)
    command = project.command([play("Say", {"say": {}}, hosts="h1")])
    for callback, is_text in (("ansible.posix.json", False), ("deeplearning.cluster.concise", True), ("default", True)):
        environment = project.environment(ANSIBLE_STDOUT_CALLBACK=callback)
        done = ansible_commands.run(command, environment, project.folder)
        assert done.returncode == 0, done.stderr
        assert ("for people" in done.stdout, "for people" in done.stderr) == (is_text, not is_text), callback
        assert is_text or json.loads(done.stdout)["stats"]["h1"]["ok"] == 1


@pytest.mark.parametrize("text", ["one", "x" * 100_000], ids=["short", "long"])
def test_a_run_whose_reader_has_ended_ends_too(project, text):
    say = task("Say", {"run_once": True}, lines=[text])
    command = project.command([play("Say", say, task("Wait", sleep=1), say, task("Wait", sleep=100), say)])
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=project.folder, env=project.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        run.stdout.read(1)
        run.stdout.close()
        errors = run.stderr.read()
        assert run.wait(timeout=90) == -signal.SIGTERM
    assert errors == ""
    assert time.monotonic() - began < 90
