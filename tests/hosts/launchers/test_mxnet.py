"""The mxnet launcher on three real hosts with two parameter servers: the example script, and jobs with faults."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import describe_failure
from local_cloud.testing import wait_until

from ..cluster import job_cluster
from ..queues import MXNET_SUM
from .cifar10 import DIRECTORY, EXAMPLE, staged
from .conftest import Endless, kill_rank_and_resume

pytestmark = pytest.mark.frameworks

GUIDE = Path(__file__).resolve().parents[3] / "docs/from-mxnet-on-ec2.md"
MXNET = {
    "launcher": "mxnet",
    "launcher_options": {"servers": 2},
    "python": "/opt/mxnet/bin/python",
    "environment": {"OMP_NUM_THREADS": 1},
}
PLACES = {"worker0": 3, "worker1": 1, "worker2": 2, "server0": 1, "server1": 2, "scheduler": 1}
ENDLESS = """
    import sys
    import mxnet as mx
    store = mx.kvstore.create("dist_sync")
    total = mx.nd.zeros(1)
    store.init("sum", total)
    step = 0
    while True:
        store.push("sum", mx.nd.array([store.rank + 1]))
        store.pull("sum", total)
        step += 1
        if step == 20:
            print(f"the sum is {total.asscalar()}", flush=True)
            if sys.argv[1:] == [str(store.rank)]:
                sys.exit("no more data")
        mx.nd.waitall()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("mxnet"), ["mxnet"]) as result:
        yield result


def is_training(cluster, name):
    logs = cluster.hosts[0].ssh(f"cat /efs/jobs/{name}/logs/*.log", check=False).stdout
    return logs.count("the sum is 6.0\n") == 3


def test_residual_network_is_trained_synchronously_and_goes_on_asynchronously(cluster):
    example = {"source": str(EXAMPLE), **MXNET, "environment_by_task": {"server": {"PS_VERBOSE": 1}}}
    directory = "/efs/jobs/cifar10"
    result = cluster.train("cifar10", "mxnet_train.py", arguments=["--epochs", "4"], **example)
    assert result.returncode == 0, result.stdout + result.stderr
    processes = cluster.info("cifar10")["processes"]
    assert {process["name"]: process["host"] for process in processes} == {
        name: f"deeplearning-worker{number}" for name, number in PLACES.items()
    }
    assert {process["state"] for process in processes} == {"succeeded"}
    logs = {name: cluster.read(f"{directory}/logs/{name}.log") for name in PLACES}
    assert {name for name, log in logs.items() if "is connected to others" in log} == {"server0", "server1"}
    ranks = set()
    for name in ("worker0", "worker1", "worker2"):
        first, _end, log = logs[name].partition("\n")
        assert first == "images: generated, because CIFAR-10 is not in /fsx/datasets/cifar10 or /efs/datasets/cifar10"
        rank, rest = log.removeprefix("rank ").split(" of 3 on ", 1)
        ranks.add(rank)
        address = cluster.workers[PLACES[name] - 1]["address"].replace(".", "-")
        assert rest.startswith(f"ip-{address} ([cpu(0)]): 500 of 1500 images")
    assert ranks == {"0", "1", "2"}
    last = json.loads(cluster.read(f"{directory}/progress.jsonl").splitlines()[-1])
    assert last["accuracy"] >= 0.6
    assert last["step"] == last["steps"] == 60
    assert "events.out.tfevents" in cluster.hosts[0].ssh(f"ls {directory}/tensorboard").stdout

    example["environment"] = {"DEEPLEARNING_CHECKPOINT_DIRECTORY": f"{directory}/checkpoints", **MXNET["environment"]}
    result = cluster.train("cifar10-2", "mxnet_train.py", arguments=["--epochs", "5", "--kvstore", "dist_async"], **example)
    assert result.returncode == 0, result.stdout + result.stderr
    resumed = cluster.hosts[0].ssh("cat /efs/jobs/cifar10-2/logs/worker*.log").stdout
    assert resumed.count(f"continues after epoch 4, from {directory}/checkpoints/epoch-0004.params") == 3
    (only,) = [json.loads(line) for line in cluster.read("/efs/jobs/cifar10-2/progress.jsonl").splitlines()]
    assert (only["epoch"], only["step"]) == (5, 75)
    assert only["loss"] < math.log(10) / 2, "late gradients undo some of the training, but most of it remains"


def test_the_example_continues_from_its_checkpoint_when_a_worker_was_killed(cluster):
    example = {"source": str(EXAMPLE), "arguments": ["--epochs", "8"], **MXNET}
    log = kill_rank_and_resume(cluster, "resumes", "mxnet_train.py", "/opt/mxnet/bin/python -c", **example)
    assert len(re.findall(r"continues after epoch [2-7], from ", log)) == 3, log
    last = json.loads(cluster.read("/efs/jobs/resumes/progress.jsonl").splitlines()[-1])
    assert last["epoch"] == 8


@pytest.mark.parametrize(("form", "folder"), [("binary", f"{DIRECTORY}/cifar-10-batches-bin"), ("records", DIRECTORY)])
def test_staged_files_of_cifar_10_are_trained_on(cluster, form, folder):
    with staged(cluster, MXNET["python"], form):
        result = cluster.train(f"cifar10-{form}", "mxnet_train.py", arguments=["--epochs", "1"], source=str(EXAMPLE), **MXNET)
    assert result.returncode == 0, result.stdout + result.stderr
    logs = [cluster.read(f"/efs/jobs/cifar10-{form}/logs/worker{number}.log") for number in range(3)]
    assert all(log.startswith(f"images: CIFAR-10 from {folder}\n") and "32 of 96 images" in log for log in logs), logs


def test_the_installation_is_tried_on_one_host(cluster):
    """A script that trains without parameter servers runs on the first host only, as the guide says for `train_mnist.py`."""
    quick = {**MXNET, "launcher": "command", "launcher_options": {"hosts": "first"}}
    result = cluster.train("quick", "mxnet_train.py", arguments=["--epochs", "2"], source=str(EXAMPLE), **quick)
    assert result.returncode == 0, result.stdout + result.stderr
    assert [process["name"] for process in cluster.info("quick")["processes"]] == ["rank0"]
    first, second = (json.loads(line)["loss"] for line in cluster.read("/efs/jobs/quick/progress.jsonl").splitlines())
    assert second < first


def test_a_worker_that_fails_does_not_wait_for_the_others(cluster):
    result = cluster.train("raises", ENDLESS, arguments=["1"], **MXNET)
    assert result.returncode != 0
    found = cluster.info("raises")
    assert (found["state"], describe_failure(found["failure"])) == ("failed", "ended with exit status 1")
    assert "no more data" in cluster.read(f"/efs/jobs/raises/logs/{found['failure']['name']}.log")
    assert cluster.members("raises") == []


def test_a_killed_server_leaves_nothing_behind(cluster):
    cluster.start("without", ENDLESS, **MXNET)
    wait_until(lambda: is_training(cluster, "without"))
    cluster.hosts[1].ssh("sudo pkill -KILL -P $(systemctl show --property=MainPID --value deeplearning-without-server1.service)")
    wait_until(lambda: cluster.members("without") == [])
    found = cluster.info("without")
    assert (found["state"], found["failure"]["name"]) == ("failed", "server1")
    # Some kernels add that the OOM killer was not the cause.
    assert describe_failure(found["failure"]).startswith("was killed by signal SIGKILL")


def test_survives(cluster, survive):
    # A worker has no separate launcher process, so the test kills its supervisor instead.
    launcher, rank = "supervisor.zip run /run/deeplearning/jobs/.*-worker", "/opt/mxnet/bin/python -c"
    survive(cluster, Endless(ENDLESS, {**MXNET, "stop_timeout": 5}, launcher, rank, is_training))


def write_workers(cluster, content):
    """Use the role worker_metadata to write the list of workers, with names or addresses."""
    variables = {"worker_metadata_workers_content": content}
    play = {"hosts": "trainers", "gather_facts": False, "vars": variables, "roles": ["deeplearning.cluster.worker_metadata"]}
    playbook = cluster.folder / "workers.yml"
    playbook.write_text(json.dumps([play]))
    written = cluster.play(str(playbook))
    assert written.returncode == 0, written.stdout + written.stderr


@pytest.fixture(scope="module")
def trusted(cluster):
    """A cluster whose hosts trust each other, and whose directory `/efs/by-hand` contains a corrected copy of MXNet's tracker.

    MXNet's last release calls a method of `threading.Thread` that Python 3.9 removed.
    """
    cluster.trust()
    master = cluster.hosts[0]
    master.ssh(f"mkdir /efs/by-hand && cat >/efs/by-hand/sum.py <<'END'\n{MXNET_SUM}END\n")
    python = master.ssh("ls -d /opt/mxnet/lib/python3*").stdout.split()[0]
    recipe = re.search(r"```sh\n(environment=.*?)```", GUIDE.read_text(), re.DOTALL)[1].splitlines()
    changed = ["environment=/opt/mxnet", f"packages={python}/site-packages", *recipe[2:4]]
    master.ssh("cd /efs/by-hand && " + " && ".join(changed))
    return cluster


@pytest.mark.parametrize(
    ("launcher", "content", "hosts"),
    [
        ("ssh", "addresses", 3),  # parameter servers bind to the entries of the list, so the entries must be addresses
        ("mpi", "names", 3),
        ("local", "names", 1),
    ],
)
def test_mxnets_own_launcher_runs_by_hand_on_the_list_of_workers(trusted, launcher, content, hosts):
    """Users of the former CloudFormation stacks run `launch.py` in this way."""
    write_workers(trusted, content)
    expected = [host.private_ip for host in trusted.hosts] if content == "addresses" else [worker["name"] for worker in trusted.workers]
    assert trusted.read("/opt/deeplearning/workers").split() == expected
    options = "" if launcher == "local" else "-H $DEEPLEARNING_WORKERS_PATH"
    command = f"launch.py -n 3 -s 2 {options} --launcher {launcher} /opt/mxnet/bin/python sum.py"
    one_per_host = "export OMPI_MCA_rmaps_base_mapping_policy=node"  # Open MPI fills all cores of a host before it uses the next one
    line = f"cd /efs/by-hand && {one_per_host} && timeout 300 /opt/mxnet/bin/python {command}"
    done = trusted.hosts[0].ssh(f"bash -lc '{line}' 2>&1", check=False, timeout=600)
    assert done.returncode == 0, done.stdout
    sums = re.findall(r"the sum is 6.0 on (\S+)", done.stdout)
    assert len(sums) == 3, done.stdout
    assert len(set(sums)) == hosts, done.stdout


@pytest.mark.parametrize(("module", "hosts"), [("ssh", 3), ("local", 1)])
def test_mxnets_tracker_runs_without_its_launcher(trusted, module, hosts):
    """The package contains no `dmlc-submit`, so users call the module of the tracker."""
    write_workers(trusted, "addresses")
    options = "" if module == "local" else "--host-file $DEEPLEARNING_WORKERS_PATH"
    python = f'/opt/mxnet/bin/python -c "from dmlc_tracker import opts, {module}; {module}.submit(opts.get_opts())" --cluster {module}'
    line = f"cd /efs/by-hand && timeout 300 {python} --num-workers 3 --num-servers 2 {options} /opt/mxnet/bin/python sum.py"
    done = trusted.hosts[0].ssh(f"bash -lc '{line}' 2>&1", check=False, timeout=600)
    assert done.returncode == 0, done.stdout
    sums = re.findall(r"the sum is 6.0 on (\S+)", done.stdout)
    assert (len(sums), len(set(sums))) == (3, hosts), done.stdout
