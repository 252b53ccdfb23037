"""No terminal control sequences reach the operator (M5 of the security review)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import logs
from ansible_collections.deeplearning.cluster.plugins.module_utils._text import clean, clean_line
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import aws_progress, job_formatting

from .hostile_answers import PROCESS
from .nodes import Nodes

BIDIRECTIONAL = {"LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss 0.3\n\tb", "loss 0.3\n\tb"),
        ("\x1b[31mred\x1b[0m and \x9b1mbold", "red and bold"),
        ("\x1b]52;c;c2VjcmV0\x07clipboard", "clipboard"),
        ("\x1b]0;title\x1b\\a\x9d0;title\x9cb\x1bPq#0\x1b\\c", "abc"),
        ("\x1b]52;c;without an end", "52;c;without an end"),
        ("\x1b\x1b[2J\x1bcreset \x1b(0", "reset "),
        ("100%\r101%\r\nnext\x85more\u2028last\u2029", "100%\n101%\nnext\nmore\nlast\n"),
        ("a\x00\x07\x08\x7fb", "ab"),
        ("user \u202etxt.exe\u202c \u2066x\u2069\u200f", "user txt.exe x"),
        ("half \ud83d a character", "half \ufffd a character"),
        ("ü 漢 👩\u200d💻", "ü 漢 👩💻"),
    ],
)
def test_text_keeps_what_it_says_and_nothing_that_a_terminal_obeys(text, shown):
    assert clean(text) == shown
    assert clean(shown) == shown


def test_a_line_is_one_line():
    assert clean_line("a\nfatal: [master]:\r\n\tb\u2028c") == "a fatal: [master]: b c"


@pytest.mark.parametrize("function", [clean, clean_line])
def test_no_character_gets_through_that_controls_anything(function):
    kept = function("".join(map(chr, range(0x110000))))
    found = {character for character in kept if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")}
    assert found <= {"\n", "\t"}
    assert not {unicodedata.bidirectional(character) for character in kept} & BIDIRECTIONAL


@pytest.mark.parametrize("part", ["\x1b[", "\x1b]", "\x1b[0;", "\x1b(", "\r", "\x9d", "\x9b", "\x1b", "\x1bP "])
def test_a_long_text_takes_no_time(part):
    start = time.perf_counter()
    clean_line(part * (1 << 18) + "0" * (1 << 18))
    assert time.perf_counter() - start < 5


HOSTILE = "\x1b]52;c;eA==\x07\x1b[2J\x9b1m\u202e\nfatal: [bert-master]: UNREACHABLE!"
JOB = {
    "name": "digits",
    "state": "failed",
    "over": True,
    "directory": "/efs/jobs/digits",
    "script": f"{HOSTILE}.py",
    "command": [],
    "launcher": "torchrun",
    "created": 1790000000.0,
    "code": {"version": HOSTILE},
    "metrics": {HOSTILE: HOSTILE},
    "process_count": 1,
    "processes": [],
    "failure": {
        **PROCESS,
        "host": "bert-worker3",
        "state": "failed",
        "cause": {"kind": "health", "what": HOSTILE},
        "log": "/efs/jobs/digits/logs/rank0.log",
        "lines": [HOSTILE],
    },
    "hosts": 1,
    "spares": 0,
    "began": 1.0,
    "ended": 2.0,
    "read": 3.0,
}


def test_what_a_node_says_of_a_job_does_not_reach_the_terminal_as_it_is(tmp_path):
    task = {"deeplearning.cluster.training_job_status": {"directory": "/efs/jobs", "name": "digits"}}
    answer = {"changed": False, "jobs": [JOB], "problems": [HOSTILE], "warnings": [HOSTILE], "stderr": HOSTILE}
    done = Nodes(tmp_path).run([task], json.dumps(answer) + HOSTILE)
    shown = done.stdout + done.stderr
    assert "digits failed" in shown
    assert "job digits failed: rank 0 on" in shown
    assert [character for character in "\x1b\x07\x9b\u202e" if character in shown] == []
    assert not re.search(r"^fatal: \[bert-master\]", shown, re.MULTILINE)


def test_messages_of_a_failed_module_are_clean(tmp_path):
    task = {"deeplearning.cluster.training_job_info": {"directory": "/efs/jobs"}}
    done = Nodes(tmp_path).run([task], {"failed": True, "msg": HOSTILE})
    assert done.returncode != 0
    assert [character for character in "\x1b\x07\x9b\u202e" if character in done.stdout + done.stderr] == []


def test_lines_that_are_made_of_a_jobs_fields_are_single_and_clean():
    part = {"name": "rank0", "part": "worker"}
    process = {**part, "host": HOSTILE, "state": HOSTILE, "started": 1.0, "heartbeat": 2.0, "stopped_for": HOSTILE, "signal": HOSTILE}
    job = {**JOB, "processes": [process]}
    lines = [
        job_formatting.job_line(job),
        *job_formatting.process_table([process]),
        *job_formatting.summary(job, {"loss": HOSTILE}),
        job_formatting.failure_sentence(job),
        *job_formatting.log_lines([{"name": HOSTILE, "path": HOSTILE, "left_out": 3, "lines": [HOSTILE]}], [process]),
    ]
    assert [line for line in lines if re.search("[\x00-\x08\n-\x1f\x7f-\x9f\u202e]", line)] == []


def test_the_end_of_a_log_is_clean(tmp_path):
    (tmp_path / "rank0.log").write_text(HOSTILE)
    assert logs.tail(str(tmp_path / "rank0.log"), 1000) == ["", "fatal: [bert-master]: UNREACHABLE!"]


CONTROLLER = {"ansible.builtin.assert", "ansible.builtin.debug", "ansible.builtin.fail", "ansible.builtin.set_fact", "ansible.builtin.meta"}
ROOT = Path(__file__).resolve().parents[2]


def tasks(content):
    for task in content or []:
        for part in ("block", "rescue", "always"):
            yield from tasks(task.get(part))
        if "block" not in task:
            yield task


def builtin_tasks():
    """Yield the role or playbook, the module and the task of each builtin module that runs on a node or connects to one with ssh."""
    places = [(path.parts[-3], yaml.safe_load(path.read_text())) for path in sorted(ROOT.glob("roles/*/tasks/*.yml"))]
    for path in sorted(ROOT.glob("playbooks/*.yml")):
        places += [(path.name, play.get("tasks")) for play in yaml.safe_load(path.read_text()) if play.get("hosts") != "localhost"]
    for place, content in places:
        for task in tasks(content):
            names = [
                name for name in task if name.startswith(("ansible.builtin.", "ansible.posix.")) and not name.endswith(("_tasks", "_role"))
            ]
            if names and names[0] not in CONTROLLER and (task.get("delegate_to") != "localhost" or "_ssh +" in str(task[names[0]])):
                yield place, names[0].rpartition(".")[2], task


def test_every_builtin_module_that_runs_on_nodes_is_documented():
    used = {}
    for role, module, task in builtin_tasks():
        if task.get("delegate_to") != "localhost":
            used.setdefault(role, set()).add(module)
    told = {}
    for line in (ROOT / "docs/security.md").read_text().partition("## Builtin modules on nodes")[2].splitlines():
        role, modules, _when = [*line.strip("| ").split(" | "), "", ""][:3]
        if role.startswith("`"):
            told[role.strip("`")] = {name.rpartition(".")[2] for name in re.findall(r"`([a-z_.]+)`", modules)}
    assert told == used


def test_every_builtin_module_that_runs_on_nodes_has_a_limit_of_time():
    found = list(builtin_tasks())
    assert [task["name"] for _role, _module, task in found if "timeout" not in task] == []
    # The time limit applies to each retry separately
    assert [task["name"] for _role, _module, task in found if "until" in task and task["timeout"] != 60] == []


def test_no_builtin_module_leaves_files_on_nodes_that_ansible_removes_without_a_limit_of_time():
    assert not {"assemble", "copy", "fetch", "script", "template", "unarchive"} & {module for _role, module, _task in builtin_tasks()}


def test_no_play_asks_nodes_for_facts():
    """Ansible's own task for gathering facts has no time limit."""
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        plays = yaml.safe_load(path.read_text())
        assert [play["name"] for play in plays if "hosts" in play and play.get("gather_facts") is not False] == [], path.name


def test_a_builtin_module_that_never_ends_fails_its_node_alone(tmp_path):
    nodes = Nodes(tmp_path)
    silent = nodes.program("silent", "exec sleep 321")
    (look,) = [task for _role, _module, task in builtin_tasks() if task["name"] == "Check whether the service exists"]
    python = f"{{{{ '{silent}' if inventory_hostname == 'bert-worker2' else '{tmp_path}/python3' }}}}"
    own = {"deeplearning_answer_timeout": "3", "__tensorboard_unit": "x.service", "ansible_python_interpreter": python}
    done = nodes.run([{**look, "vars": own}, {"ansible.builtin.debug": {"msg": "on {{ inventory_hostname }}"}}], "", {"changed": False})
    assert "Timed out after 3 second(s)" in done.stdout + done.stderr
    assert "on bert-worker3" in done.stdout
    assert "on bert-worker2" not in done.stdout


SAYS = """
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"text": {"type": "str"}})
module.warn(module.params["text"])
module.exit_json(changed=False)
"""


def test_warnings_of_modules_on_the_controller_control_no_terminal(tmp_path):
    """A step of an EMR cluster can fail with an arbitrary message, which AWS returns and a module on the controller shows."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "says.py").write_text(SAYS)
    book = tmp_path / "play.yml"
    book.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [{"says": {"text": f"a{HOSTILE}b"}}]}]))
    environment = {**os.environ, "ANSIBLE_STDOUT_CALLBACK": "deeplearning.cluster.concise", "ANSIBLE_NOCOLOR": "true"}
    command = [str(Path(sys.executable).parent / "ansible-playbook"), str(book)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    said = done.stdout + done.stderr
    assert "fatal: [bert-master]: UNREACHABLE!b" in " ".join(said.split()), said
    assert not set("\x1b\x07\x9b\u202e") & set(said)
    assert "\nfatal:" not in said


@pytest.mark.parametrize("direct", [False, True])
def test_progress_of_modules_on_the_controller_controls_no_terminal(tmp_path, monkeypatch, direct):
    shown = []
    monkeypatch.setattr(aws_progress, "show", shown.append)
    file, errors = tmp_path / "progress", tmp_path / "errors"
    file.write_text(HOSTILE.replace("\n", "") + "\r, 5 s\n")
    with file.open() as lines, errors.open("w") as stream:
        monkeypatch.setattr(aws_progress, "ERRORS", stream.fileno())
        watch = aws_progress.FileWatch(lines.fileno())
        if direct:
            watch.speak_directly()
        watch._show()
    (said,) = [errors.read_text().rstrip("\n")] if direct else shown
    assert said == "fatal: [bert-master]: UNREACHABLE! , 5 s"
    assert direct or isinstance(said, aws_progress.ProgressLine)
