"""Hostile nodes give the answers in hostile_answers.py and in the lists of two authors who had not seen the filter.

Honest nodes take part in the same tasks, and nothing changes for them.
"""

from __future__ import annotations

import importlib
import json
import re
import resource
import shlex
import sys
from collections import Counter
from unittest.mock import MagicMock

import pytest
from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import answers, documented_values, module_output
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output.folding import folded
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.budget import MESSAGES

from . import hostile_answers, hostile_answers_second, hostile_answers_third
from .hostile_answers import INFO, STATUS, Program, smallest_result
from .main_process import main_process_seconds
from .nodes import ON_NODES, Nodes

LISTS = (hostile_answers, hostile_answers_second, hostile_answers_third)
ANSWERS = [(f"{number}: {name}", *rest) for number, one in enumerate(LISTS, 1) for name, *rest in one.ANSWERS]
# `make test` gives a fixed sample of the answers to the callback `concise`. The exhaustive tests give all of them to both callbacks.
SAMPLE = ANSWERS[::12]
# Answers to polls and to the module training_job_report, which the honest nodes of the playbook do not give.
POLLS = [*hostile_answers_third.POLLS, *hostile_answers_second.REPORTS]
REPORT = "training_job_report"
COLUMNS = 80
HONEST = ("bert-honest1", "bert-honest2")
MARK = "task of"
CONCISE = "deeplearning.cluster.concise"


def test_answers_have_unique_names():
    assert [name for name, count in Counter(name for name, _module, _output in ANSWERS).items() if count > 1] == []


@pytest.fixture(autouse=True)
def _command_line(monkeypatch):
    monkeypatch.setattr(context, "CLIARGS", {"check": False})


@pytest.mark.parametrize(("module", "output"), [each[1:] for each in ANSWERS], ids=[each[0] for each in ANSWERS])
def test_an_answer_costs_the_main_process_less_than_a_second(module, output):
    text = output()
    if isinstance(text, Program):
        return  # the other test runs it
    try:
        own, warnings = module_output.own_result(text)
        result = json.loads(own)
    except (TypeError, ValueError, RecursionError):
        return  # the worker process refuses it
    module = INFO if module == STATUS else module
    limits = answers.LARGE.get(module, answers.USUAL)
    assert len(warnings) <= MESSAGES + 2
    if len(text) > limits.size:
        return  # the worker process refuses it
    part = documented_values.documented_part(result, f"deeplearning.cluster.{module}", "w", limits.values)
    assert main_process_seconds(part, is_failed=part.get("failed") is True) < 1


@pytest.mark.parametrize(("name", "module", "output"), POLLS, ids=[each[0] for each in POLLS])
def test_answers_to_polls_imitate_nothing_and_fail_with_a_message(name, module, output, monkeypatch, tmp_path):
    # The first line about a job must begin with the name of the requested job. Otherwise, nothing else of the answer is read.
    text = output().replace('["digits running"]', '["digits-1 running"]')
    shown = []
    monkeypatch.setattr(Display, "display", lambda _self, text, **_: shown.append(str(text)))
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    task = MagicMock(
        args={**ON_NODES[module], "dest": str(tmp_path / "report.html")} if module == REPORT else ON_NODES[module], async_val=0
    )
    task.check_mode, task.action = module == REPORT, f"deeplearning.cluster.{module}"
    action = importlib.import_module(f"ansible_collections.deeplearning.cluster.plugins.action.{module}").ActionModule(
        task, *(MagicMock() for _number in range(5))
    )
    read = REPORT if module == REPORT else INFO
    limit = answers.LARGE[read].values
    action._execute_module = lambda *_, **__: documented_values.documented_part(
        json.loads(text), f"deeplearning.cluster.{read}", "w", limit
    )
    try:
        result = action.run(task_vars={"inventory_hostname": "w"})
    except AnsibleActionFail as error:
        result = {"failed": True, "msg": error.message}
    if result.get("failed"):
        assert isinstance(result["msg"], str)
    everything = folded("\n".join(f"  {line}" for one in shown for line in one.split("\n")), COLUMNS)
    assert re.findall(r"^ {0,2}EVIL.*", everything, re.MULTILINE) == []
    assert not set("\x1b\x07\x9b\u202e") & set(everything)


def program(text):
    """Return the shell script that prints an answer."""
    return f"#!/bin/sh\n{text}\n" if isinstance(text, Program) else ""


class Cluster(Nodes):
    """Two honest nodes, and one node for each hostile answer."""

    def __init__(self, folder):
        super().__init__(folder)
        self.pythons = folder / "pythons"
        self.pythons.mkdir()

    def add_answer(self, host, module, text):
        file, python = self.pythons / f"{host}.txt", self.pythons / f"{host}-{module}"
        file.write_text(text, errors="surrogatepass")
        python.write_text(program(text) or f"#!/bin/sh\ncat {shlex.quote(str(file))}\n")
        python.chmod(0o755)

    def run_answers(self, modules, hostile):
        """Run the task of each module on the honest nodes and on the hostile nodes of this module."""
        hosts = {}
        for number, host in enumerate([*HONEST, *hostile], 2):
            hosts[host] = {**self.node(number, ""), "module": hostile.get(host, ("", ""))[0]}
            del hosts[host]["ansible_python_interpreter"]
        for module in modules:
            for host in HONEST:
                self.add_answer(host, module, "")
                (self.pythons / f"{host}-{module}").write_text(f"#!/bin/sh\necho {shlex.quote(json.dumps(smallest_result(module)))}\n")
        for host, (module, text) in hostile.items():
            self.add_answer(host, module, text)
        tasks = []
        for module in modules:
            run = {
                f"deeplearning.cluster.{module}": ON_NODES[module],
                "when": f"module in ['', '{module}']",
                "register": f"result_{module}",
                "diff": True,
                "vars": {
                    "ansible_python_interpreter": f"{self.pythons}/{{{{ inventory_hostname }}}}-{module}",
                    "deeplearning_answer_timeout": 30,
                },
            }
            tasks += [{"ansible.builtin.debug": {"msg": f"{MARK} {module}"}, "run_once": True}, run]
        own = ", ".join(f"'{module}': result_{module}" for module in modules)
        tasks += [
            {
                "ansible.builtin.copy": {
                    "content": "{{ {'results': {" + own + "}, 'names': names, 'groups': groups} | to_json }}",
                    "dest": f"{self.folder}/{{{{ inventory_hostname }}}}.json",
                },
                "delegate_to": "localhost",
                "when": "module == ''",
                "vars": {
                    "ansible_python_interpreter": sys.executable,
                    "names": "{{ lookup('ansible.builtin.varnames', '^evil', wantlist=true) }}",
                },
            }
        ]
        return self.play([{"hosts": "trainers", "gather_facts": False, "tasks": tasks}], hosts)

    def honest(self):
        return [json.loads((self.folder / f"{host}.json").read_text()) for host in HONEST]


@pytest.mark.parametrize(
    ("callback", "hostile"),
    [
        pytest.param(CONCISE, SAMPLE, id="sample"),
        *(pytest.param(name, ANSWERS, id=name, marks=pytest.mark.exhaustive) for name in (CONCISE, "default")),
    ],
)
def test_hostile_answers_change_nothing_for_honest_nodes(tmp_path, monkeypatch, callback, hostile):
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", callback)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    for name in ("before", "during"):
        (tmp_path / name).mkdir()
    before, during = (Cluster(tmp_path / name) for name in ("before", "during"))
    modules = sorted({module for _name, module, _output in hostile})
    done = before.run_answers(modules, {})
    assert done.returncode == 0, done.stdout + done.stderr
    done = during.run_answers(modules, {f"bert-evil{number}": (module, output()) for number, (_name, module, output) in enumerate(hostile)})
    shown = done.stdout + done.stderr
    for expected, found in zip(before.honest(), during.honest()):
        assert without_times(found["results"]) == without_times(expected["results"])
        assert found["names"] == []
        assert set(found["groups"]) == set(expected["groups"])
    assert not set("\x1b\x07\x9b\u202e") & set(shown)
    # Ansible's own callback indents only the lines of diffs that both sides have, by one space.
    assert re.findall(r"^ {0,2}EVIL.*" if callback == CONCISE else r"^EVIL.*", shown, re.MULTILINE) == []
    assert "Traceback (most recent call last)" not in shown
    assert list(tmp_path.rglob("owned*")) == []
    assert len(shown) < len(hostile) * 100_000
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 << 20, "in KiB: the largest process of all runs so far"
    if callback == CONCISE:
        # A line that is longer than the terminal would continue in the first column.
        assert [line for line in shown.split("\n") if len(line) > COLUMNS] == []
        parts = re.split(rf"^ *{MARK} ", done.stdout, flags=re.MULTILINE)[1:]
        # Of each task, at most 20 lines of 1000 characters each, which are folded.
        most = 20 * (1000 // (COLUMNS - 8) + 1)
        lines = {part.split("\n")[0]: len(part.splitlines()) for part in parts if len(part.splitlines()) > most}
        assert lines.pop(STATUS, 0) <= 2 * 2502 * sum(module == STATUS for _name, module, _output in hostile)
        # Four diffs, of 40 lines each.
        assert lines.pop("worker_metadata", 0) <= most + 4 * 43
        assert lines == {}
        assert len(re.findall(r"^\[WARNING\]", done.stderr, re.MULTILINE)) <= 20 * len(modules)


def without_times(results):
    return {module: {key: value for key, value in one.items() if key != "findings"} for module, one in results.items()}
