"""Results from nodes are untrusted data (finding C1 of the security review). The nodes' Python prints the results that a test specifies."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import random
import resource
import signal
import string
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import documented_values, worker_limits
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.answers import NodeAction
from local_cloud.testing import wait_until

from .nodes import ON_NODES, Nodes

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "plugins" / "modules"
# Modules that run on the controller.
ON_CONTROLLER = {
    "cluster",
    "cluster_events_info",
    "cluster_info",
    "cluster_validation",
    "confirmation",
    "dataset_bucket",
    "emr_cluster",
    "former_nodes_info",
    "host_keys_info",
    "idle_hold",
    "lease",
    "notification",
    "ssh_authority",
    "ssh_authority_info",
    "ssh_files",
    "variable_validation",
}
FACTS = {
    "deeplearning_proxy_command": "sh -c 'id > /tmp/owned'",
    "deeplearning_number": 1,
    "deeplearning_instance_id": "i-0aaa",
    "ssh_trust_principals": ["i-0aaa", "anything.example.com"],
    "deeplearning_ssh_directory": "/root/.ssh",
    "ssh_trust_validity_days": 36500,
    "training_job_source": "~/.aws",
    "training_job_script": "credentials",
    "dataset_source": "/etc",
    "harmless": "value",
}


@pytest.fixture
def nodes(tmp_path):
    return Nodes(tmp_path)


def test_every_module_is_known_to_run_on_nodes_or_on_the_controller():
    assert {path.stem for path in MODULES.glob("*.py")} == set(ON_NODES) | ON_CONTROLLER


@pytest.mark.parametrize("module", sorted(ON_NODES))
def test_the_answer_of_every_module_on_nodes_is_filtered(module):
    """Without an action plugin based on NodeAction, ansible-core would pass on the result of a node unchanged."""
    action = importlib.import_module(f"ansible_collections.deeplearning.cluster.plugins.action.{module}")
    assert issubclass(action.ActionModule, NodeAction)
    # Equal actions inherit from each other, and each must run its own module
    other = {"training_job_logs": "training_job_info", "training_job_status": "training_job_info", "training_job_wait": "training_job_info"}
    assert action.ActionModule._module == f"deeplearning.cluster.{other.get(module, module)}"


def test_no_answer_becomes_a_variable_unless_documented(nodes):
    """The variables of the host and of the controller stay the same, and results contain only documented keys."""
    noise = random.Random(8)
    extra = {"".join(noise.choices(string.ascii_lowercase + "_", k=noise.randint(1, 30))): noise.random() for _unused in range(300)}
    answer = {
        "changed": True,
        "ansible_facts": {**FACTS, **extra},
        "add_host": {"host_name": "evil", "groups": ["trainers"]},
        "add_group": "evil",
        "ansible_stats": {"data": {"x": 1}, "per_host": False, "aggregate": True},
        "_ansible_no_log": False,
        "_ansible_delegated_vars": {"ansible_host": "203.0.113.66"},
        "include": "/etc/passwd",
        **{name: value for name, value in extra.items() if name not in {"changed", "jobs"}},
    }
    before = [{"ansible.builtin.set_fact": {"before": "{{ vars.keys() | list }}", "controller": "{{ hostvars.localhost.keys() | list }}"}}]
    calls = [
        {f"deeplearning.cluster.{module}": arguments, "register": f"result_{module}", "ignore_errors": True}
        for module, arguments in ON_NODES.items()
        if module not in ("training_job_wait", "training_job_logs")
    ]
    results = " + ".join(f"[['{module}', result_{module}.keys() | list]]" for module in ON_NODES if f"result_{module}" in str(calls))
    after = [
        {
            "ansible.builtin.copy": {
                "dest": str(nodes.folder / "seen.json"),
                "content": "{{ {'before': before, 'after': vars.keys() | list, 'controller': controller,"
                " 'controller_after': hostvars.localhost.keys() | list, 'groups': groups, 'results': " + results + "} | to_json }}",
            },
            "delegate_to": "localhost",
            "vars": {"ansible_python_interpreter": sys.executable},
        }
    ]
    done = nodes.run([*before, *calls, *after], answer)
    seen = json.loads((nodes.folder / "seen.json").read_text())
    allowed = {"before", "controller"} | {f"result_{module}" for module in ON_NODES}
    assert set(seen["after"]) - set(seen["before"]) <= allowed, done.stdout
    assert set(seen["controller_after"]) == set(seen["controller"])
    assert "evil" not in str(seen["groups"])
    own = {"failed", "changed", "msg", "dest", "exception", "warnings"}  # the controller adds these keys
    for module, keys in seen["results"]:
        documented = "training_job_info" if module == "training_job_status" else module
        assert set(keys) <= set(documented_values.returned_values(documented)) | set(documented_values.COMMON) | own, module
    assert "bert-worker2" in done.stderr
    assert "ansible_facts" in done.stderr
    assert "These values are ignored. Check the host" in done.stderr.replace("\n", " ")


def test_a_host_whose_python_was_looked_for_is_not_suspected(nodes):
    """ansible-core adds the discovered interpreter to the result, and does not search for it again."""
    task = {"deeplearning.cluster.training_job_info": {"directory": str(nodes.folder)}}
    known = {"ansible.builtin.assert": {"that": "ansible_facts.discovered_interpreter_python is defined"}}
    done = nodes.run([task, known], {}, is_honest=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "undocumented values" not in done.stderr


def test_a_strategy_that_mixes_tasks_is_refused(nodes, monkeypatch):
    """Roles read results of other hosts, and other strategies replace how modules are run."""
    monkeypatch.setenv("ANSIBLE_STRATEGY", "free")
    done = nodes.run([{"deeplearning.cluster.training_job_info": ON_NODES["training_job_info"]}], {"jobs": []})
    assert done.returncode != 0
    assert "strategy: 'free' is not supported" in " ".join((done.stdout + done.stderr).split())


def test_a_configuration_that_makes_variables_of_facts_is_refused(nodes):
    """With this configuration, builtin modules on nodes could set role variables. No action plugin of the collection could prevent this."""
    done = nodes.run([{"deeplearning.cluster.training_job_info": ON_NODES["training_job_info"]}], {"jobs": []}, inject=True)
    assert done.returncode != 0
    assert "inject_facts_as_vars = false" in done.stdout + done.stderr


def test_an_answer_that_is_no_answer_is_told_of_in_a_sentence(nodes):
    answers = [
        "",
        "[]",
        "null",
        "not json",
        '{"jobs": ' + "[" * 100_000,
        '{"changed": true, "ansible_facts": []}',
        '{"changed": true, "warnings": 3, "deprecations": {}}',
        '{"jobs": {}}',
        '{"jobs": [null]}',
        '{"jobs": [{"name": "../../x"}]}',
        '{"failed": true}',
        '{"failed": true, "msg": ["a list"]}',
        '{"results": 1}',
        '{"exception": {"__ansible_type": "TaggedStr"}, "failed": true}',
    ]
    done = nodes.run([{"deeplearning.cluster.training_job_status": ON_NODES["training_job_status"]}], *answers)
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert done.stdout.count("failed=1") == len(answers), done.stdout


def test_terminal_control_reaches_nobody(nodes):
    escape = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m"
    answer = {
        "failed": True,
        "msg": f"a{escape}b",
        "warnings": [f"c{escape}d"],
        "jobs": [],
        escape: 1,
        f"_ansible_{escape}": escape,
        "add_host": escape,
        "diff": [{"before": escape, "after": escape}],
    }
    for text in (
        json.dumps(answer),
        json.dumps(answer) + escape,
        escape + json.dumps(answer),
        escape,
        json.dumps(answer, ensure_ascii=False),
        # Values that ansible-core itself uses, with other types.
        json.dumps({"changed": escape, "failed": [escape], "rc": escape, "ansible_facts": escape, "deprecations": [{"msg": escape}]}),
        json.dumps({"__ansible_type": "_AnsibleTaggedDict", "value": answer, "tags": []}),
        json.dumps({"jobs": [], "exception": escape, "failed": True}),
    ):
        done = nodes.run([{"deeplearning.cluster.training_job_info": ON_NODES["training_job_info"], "diff": True}], text)
        assert "\x1b" not in done.stdout + done.stderr
        assert "\x9b" not in done.stdout + done.stderr
        assert "\x07" not in done.stdout + done.stderr


def test_a_node_that_answers_late_in_each_task_is_left_out(nodes):
    """Otherwise, the node could delay the other nodes by almost the answer timeout in each task."""
    hosts = {f"bert-worker{number}": nodes.node(number, {"changed": False, "jobs": []}) for number in (2, 3)}
    hosts["bert-worker2"]["ansible_python_interpreter"] = nodes.program("late", f"sleep 8\nexec {nodes.folder}/python2")
    task = {"deeplearning.cluster.training_job_info": ON_NODES["training_job_info"]}
    tasks = [{"name": f"task {number}", **task} for number in range(6)]
    variables = {"deeplearning_answer_timeout": 12}
    done = nodes.play([{"hosts": "trainers", "gather_facts": False, "vars": variables, "tasks": tasks}], hosts)
    output = " ".join((done.stdout + done.stderr).split())
    assert "unreachable=1" in output.partition("bert-worker2 : ok=")[2].partition("bert-worker3")[0], output
    assert "bert-worker3 : ok=6 changed=0 unreachable=0" in output


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("exec sleep 700", "bert-worker2: no answer within 10 s"),
        ("exec cat /dev/zero", "bert-worker2: reading the output takes more than 1024 MiB of memory. Check the host."),
        ("exec yes", "bert-worker2: reading the output takes more than 1024 MiB of memory. Check the host."),
        # 60 MiB that become several GiB of empty lists
        ("echo '{\"jobs\": ['; yes '[],[],[],[],[],[],[],[],[],[],' | head -c 62914560; echo '[]]}'", "takes more than 1024 MiB of memory"),
    ],
    ids=["silence", "bytes", "lines", "lists"],
)
def test_a_node_that_is_silent_or_never_ends_its_answer_is_left_out(nodes, answer, message):
    """The other nodes continue long before the process for the silent node ends."""
    endless = nodes.program("endless", answer)
    python = f"{{{{ '{endless}' if inventory_hostname == 'bert-worker2' else '{nodes.folder}/python3' }}}}"
    timeout = {"deeplearning_answer_timeout": 10} if "sleep" in answer else {}
    job_info = {"deeplearning.cluster.training_job_info": ON_NODES["training_job_info"]}
    tasks = [
        {**job_info, "vars": {"ansible_python_interpreter": python, **timeout}},
        {"ansible.builtin.debug": {"msg": "the next task of {{ inventory_hostname }}"}},
    ]
    began = time.monotonic()
    done = nodes.run(tasks, "", {"changed": False, "jobs": []})
    assert time.monotonic() - began < 600
    assert message in done.stdout + done.stderr
    assert "the next task of bert-worker3" in done.stdout
    assert "the next task of bert-worker2" not in done.stdout
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 << 20, "in KiB: the largest process of all runs so far"


def test_the_memory_limit_ends_with_its_context():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with worker_limits.memory_limit(1 << 26):
        outer = resource.getrlimit(resource.RLIMIT_DATA)
        with worker_limits.memory_limit(1 << 30):
            assert resource.getrlimit(resource.RLIMIT_DATA) == outer
        with pytest.raises(MemoryError):
            bytearray(1 << 27)
    assert outer != before
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert len(bytearray(1 << 27)) == 1 << 27


def test_a_failed_connection_controls_no_terminal(nodes):
    """ssh passes on the output of the remote side, and Ansible shows it."""
    ssh = nodes.folder / "ssh"
    connection = {"ansible_connection": "ssh", "ansible_ssh_executable": str(ssh), "ansible_host": "10.0.0.2", "ansible_ssh_retries": 0}
    task = {"vars": {**connection, "ansible_ssh_pipelining": False}, "ignore_unreachable": True, "ignore_errors": True}
    tasks = [{**task, f"deeplearning.cluster.{name}": ON_NODES[name]} for name in ("training_job_info", "training_job", "shared_storage")]
    for status in ("255", "1"):
        nodes.program("ssh", f"printf '\\033]52;c;ZXZpbA==\\007\\033[2J' >&2\nprintf '\\033[2Jx'\nexit {status}")
        done = nodes.run(tasks, "")
        assert "bert-worker2" in done.stdout
        assert not set("\x1b\x9b\x07") & set(done.stdout + done.stderr)


def test_a_host_that_is_lost_while_a_run_waits_for_a_job_does_not_hide_it(nodes):
    """Without pipelining, Ansible transfers files for each poll, tries this again, and deletes the files at the end."""
    ssh, calls = nodes.folder / "ssh", nodes.folder / "calls"
    answers = f"""case "$*" in *mkdir*) for last; do :; done; exec sh -c "$last";; *) echo >> {calls}; exit 255;; esac"""
    nodes.program("ssh", answers)
    nodes.program("sftp", "exit 255")
    connection = {"ansible_connection": "ssh", "ansible_ssh_executable": str(ssh), "ansible_host": "10.0.0.2", "ansible_ssh_retries": 5}
    transfer = {"ansible_sftp_executable": str(nodes.folder / "sftp"), "ansible_scp_executable": str(nodes.folder / "sftp")}
    variables = {**connection, **transfer, "ansible_ssh_pipelining": False, "ansible_remote_tmp": str(nodes.folder / "remote")}
    wait = {"name": "digits", "directory": "/efs/jobs", "heartbeat_timeout": 1}
    task = {"deeplearning.cluster.training_job_wait": wait, "vars": variables, "register": "waited", "failed_when": False}
    told = nodes.run([task, {"ansible.builtin.debug": {"var": "waited.out_of_reach"}}], "", {}).stdout
    assert "waited.out_of_reach: true" in told.replace('"', "").lower(), told
    assert len(calls.read_text().splitlines()) < 12


def test_files_go_to_nodes_as_everything_else_does():
    """By default, ansible.posix.synchronize neither checks host keys nor connects through the master."""
    tasks = yaml.safe_load((ROOT / "roles" / "dataset" / "tasks" / "main.yml").read_text())
    blocks = [task for each in tasks for task in each.get("block", [])]
    (copy,) = [task["ansible.posix.synchronize"] for task in blocks if "ansible.posix.synchronize" in task]
    assert copy["verify_host"] is True
    assert copy["use_ssh_args"] is True


def test_the_plan_of_a_job_is_not_made_of_what_a_host_says_of_itself(nodes):
    """A host that reported the name or address of another host would receive that host's part of the job, including its secrets."""
    said = {"name": "deeplearning-worker1", "address": "10.0.0.1", "number": 1, "gpus": [], "interface": "ens5", "efa": False}
    task = {
        "deeplearning.cluster.training_job": {
            "name": "digits-1",
            "state": "prepared",
            "directory": "/efs/jobs",
            "command": ["true"],
            "generation": "0",
        }
    }
    done = nodes.run([task], {"changed": False, "job_state": "new", "job_directory": "/efs/jobs/digits-1", "host": said})
    assert done.returncode != 0
    assert "the host's number is 2 in the inventory, but 1 in the module result" in (done.stdout + done.stderr).replace("\n", " ")


def test_names_of_jobs_that_come_from_a_node_are_names(nodes):
    """Messages tell people to run commands that contain the names of jobs."""
    job = {
        "name": "--help",
        "state": "running",
        "over": False,
        "directory": "/efs/jobs/x",
        "command": ["true"],
        "launcher": "torchrun",
        "created": 1.0,
        "code": {},
        "metrics": {},
        "process_count": 0,
        "processes": [],
        "hosts": 1,
        "spares": 0,
        "began": 1.0,
        "ended": 2.0,
        "read": 3.0,
    }
    done = nodes.run([{"deeplearning.cluster.training_job_info": ON_NODES["training_job_info"]}], {"changed": False, "jobs": [job]})
    assert done.returncode != 0
    assert "is not a valid job name" in done.stdout + done.stderr


def test_processes_of_a_child_that_waits_are_ended_too(tmp_path):
    """ssh runs a ProxyCommand, which would otherwise wait for the node and keep in memory what the node has sent."""
    # The process of the tests has other children, which other tests use.
    process = multiprocessing.get_context("fork").Process(target=end_child, args=(tmp_path / "pid",))
    process.start()
    process.join()
    assert process.exitcode == 0
    grandchild = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_running(grandchild))


def end_child(pid):
    """Start a child that starts a process of its own, whose ID the file then contains, and end it."""
    with subprocess.Popen(["sh", "-c", f"sleep 600 & echo $! > {pid}; while :; do sleep 1; done"]) as child:
        wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        worker_limits.end_children()
        assert child.wait() == -signal.SIGTERM


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
