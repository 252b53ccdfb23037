"""Tests of the pairs of nodes between which all-reduce is measured, of the verdict about slow nodes, and of the report on all nodes."""

from __future__ import annotations

import collections
import itertools
import json
import os
import runpy
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import ansible_commands
import pytest
import yaml

ROLE = Path(__file__).resolve().parents[3] / "roles" / "node_health"
SCRIPT = ROLE / "files" / "all_reduce.py"
script = SimpleNamespace(**runpy.run_path(str(SCRIPT)))
TIMEOUT = 120


def complaints(names, pairs, total, minimum=0, share=0.5):
    return script.complaints(names, pairs, total, SimpleNamespace(minimum=minimum, share=share, timeout=TIMEOUT))


def measured(count, *slow, rate=10.0, slow_rate=1.0):
    """Return the bandwidths of all pairs of nodes in a cluster in which these nodes are slow."""
    pairs = itertools.chain.from_iterable(script.rounds(count))
    return {pair: slow_rate if set(pair) & set(slow) else rate for pair in pairs}


def names(count):
    return [f"worker{number + 1}" for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 15, 16, 100])
def test_each_node_is_in_several_pairs_but_only_in_one_at_a_time(count):
    rounds = script.rounds(count)
    assert len(rounds) == min(script.ROUNDS, count - 1 + count % 2)
    for pairs in rounds:
        nodes = list(itertools.chain.from_iterable(pairs))
        assert len(nodes) == len(set(nodes)) == count - count % 2
    pairs = list(itertools.chain.from_iterable(rounds))
    assert len(pairs) == len(set(pairs))
    partners = collections.Counter(itertools.chain.from_iterable(pairs))
    assert all(partners[node] >= min(count - 1, script.ROUNDS - 1) for node in range(count))


@pytest.mark.parametrize("count", [3, 4, 5, 16])
def test_a_slow_node_is_named_and_its_partners_are_not(count):
    assert complaints(names(count), measured(count), 1.0) == []
    for slow in range(count):
        assert complaints(names(count), measured(count, slow), 1.0) == [
            f"worker{slow + 1}: all-reduce reaches 1 Gbit/s, but the median of all nodes is 10 Gbit/s."
        ]


def test_several_slow_nodes_are_named():
    found = complaints(names(16), measured(16, 3, 12), 1.0)
    assert [sentence.partition(":")[0] for sentence in found] == ["worker4", "worker13"]


@pytest.mark.parametrize(("count", "slow"), [(4, [2]), (2, [0, 1])])
def test_a_node_whose_pairs_failed_is_named(count, slow):
    found = complaints(names(count), measured(count, *slow, slow_rate=0.0), 1.0)
    assert found == [f"worker{node + 1}: all-reduce with each other node failed or took longer than 120 s." for node in slow]


def test_an_all_reduce_across_all_nodes_that_failed_is_an_error():
    found = complaints(names(3), measured(3), 0.0)
    assert found == ["all 3 nodes: all-reduce failed or took longer than 120 s."]


class Distributed:
    """A stub of torch.distributed for two nodes with one rank each. Each all-reduce takes `seconds`."""

    ReduceOp = SimpleNamespace(MAX="max")

    def __init__(self, seconds):
        self.seconds, self.now = seconds, 0.0
        self.timeouts, self.backends, self.operations = [], [], 0

    def init_process_group(self, backend, timeout):
        self.backends.append(backend)
        self.timeouts.append(timeout.total_seconds())

    def new_group(self, ranks, timeout, backend):
        self.backends.append(backend)
        self.timeouts.append(timeout.total_seconds())
        return list(ranks)

    def get_rank(self):
        return 0

    def get_world_size(self):
        return 2

    def all_reduce(self, tensor, op="sum", group=None, async_op=False):
        assert group == [0, 1]
        assert async_op, "gloo would wait without a limit, as long as data arrive"
        return SimpleNamespace(wait=lambda timeout: self.wait(0 if op == "max" else self.seconds, timeout.total_seconds()))

    def wait(self, seconds, timeout):
        self.now += min(seconds, timeout)
        self.operations += seconds > 0
        if seconds > timeout:
            raise RuntimeError("Operation timed out!")

    def all_gather_object(self, everything, found, group=None):
        assert (group, self.backends[0]) == (None, "gloo"), "the results do not use the network that is measured"
        everything[:] = [found, found]


class Tensor(tuple):
    """A tensor of one element."""

    __slots__ = ()

    def __getitem__(self, _index):
        return self

    def item(self):
        (element,) = self
        return element


@pytest.fixture
def with_torch(monkeypatch):
    """Return a function that installs a stub of torch, on a host with or without GPUs."""

    def install(distributed, has_gpus=False):
        torch = SimpleNamespace(
            distributed=distributed,
            device=lambda *names: names,
            cuda=SimpleNamespace(is_available=lambda: has_gpus, set_device=lambda _device: None),
            zeros=lambda _count, device: Tensor([0.0]),
            tensor=lambda values, device: Tensor(values),
        )
        monkeypatch.setitem(sys.modules, "torch", torch)

    for name, value in {"LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    for name in ("TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ENABLE_MONITORING"):
        monkeypatch.setenv(name, "")
    return install


@pytest.mark.parametrize(("has_gpus", "backend"), [(True, "nccl"), (False, "gloo")])
def test_only_the_measured_groups_use_the_network_of_the_gpus(with_torch, has_gpus, backend):
    distributed = Distributed(0.01)
    with_torch(distributed, has_gpus)
    measurement = script.Measurement(1, TIMEOUT)
    assert min(measurement.total(), measurement.pairs(2)[0, 1]) > 0
    assert distributed.backends == ["gloo", backend, backend]


def test_a_node_whose_nccl_fails_reports_this(with_torch, monkeypatch, capsys):
    distributed = Distributed(0.01)
    with_torch(distributed, has_gpus=True)

    def fail(*_arguments, **_options):
        raise RuntimeError("NCCL error: unhandled system error, no EFA provider")

    monkeypatch.setattr(distributed, "all_reduce", fail)
    measurement = script.Measurement(1, TIMEOUT)
    assert (measurement.total(), measurement.pairs(2)) == (0.0, {(0, 1): 0.0})
    assert "no EFA provider" in capsys.readouterr().out
    assert not measurement.is_blocked


def test_a_node_whose_nccl_blocks_while_it_connects_reports_this(with_torch, monkeypatch):
    """In a job with NCCL, the partner of a rank that failed never returns from the call that starts the operation."""
    distributed, forever = Distributed(0.01), threading.Event()
    with_torch(distributed, has_gpus=True)

    def block(*_arguments, **_options):
        forever.wait()
        raise RuntimeError("the end of the test")

    monkeypatch.setattr(distributed, "all_reduce", block)
    monkeypatch.setitem(script.Measurement.reduce.__globals__, "PATIENCE", 0.1)
    measurement = script.Measurement(1, 0.2)
    try:
        assert (measurement.total(), measurement.pairs(2), measurement.is_blocked) == (0.0, {(0, 1): 0.0}, True)
        ended = []
        monkeypatch.setattr(script.os, "_exit", ended.append)
        measurement.end("worker2: all-reduce failed.")
        measurement.end()
        assert ended == [1, 0], "the groups are not destroyed, because this would block too"
    finally:
        forever.set()


@pytest.mark.parametrize(("message", "status"), [("worker2: slow.", "worker2: slow."), ("", None)])
def test_the_groups_of_other_processes_are_destroyed(with_torch, message, status):
    distributed, destroyed = Distributed(0.01), []
    distributed.destroy_process_group = lambda: destroyed.append(True)
    with_torch(distributed)
    with pytest.raises(SystemExit) as end:
        script.Measurement(1, TIMEOUT).end(message)
    assert (end.value.code, destroyed) == (status, [True])


@pytest.mark.parametrize(("seconds", "operations"), [(1.0, 10), (30.0, 5), (119.0, 2), (121.0, 1)])
def test_a_very_slow_pair_does_not_exceed_the_time_for_which_other_ranks_wait(with_torch, monkeypatch, seconds, operations):
    distributed = Distributed(seconds)
    with_torch(distributed)
    monkeypatch.setattr(script.time, "perf_counter", lambda: distributed.now)
    measurement = script.Measurement(1, TIMEOUT)
    rate = script.bus_bandwidth(1 << 20, 2, seconds) if seconds < TIMEOUT else 0
    assert measurement.total() == rate
    assert distributed.operations == operations
    assert measurement.pairs(2) == {(0, 1): rate}
    waiting, *working = distributed.timeouts
    assert set(working) == {TIMEOUT}
    assert distributed.now / 2 <= 2 * TIMEOUT < waiting


def test_the_share_of_the_median_is_an_option():
    assert complaints(names(4), measured(4, 2), 1.0, 0, 0.1) == []
    assert len(complaints(names(4), measured(4, 2), 1.0, 0, 0.11)) == 1


def test_all_nodes_can_be_too_slow():
    assert complaints(names(2), measured(2), 1.0, 10, 0.5) == []
    assert complaints(names(2), measured(2), 1.0, 11, 0.5) == [
        "worker1: all-reduce reaches 10 Gbit/s, less than the minimum of 11 Gbit/s.",
        "worker2: all-reduce reaches 10 Gbit/s, less than the minimum of 11 Gbit/s.",
    ]
    assert complaints(names(1), {}, 1.0, 11, 0.5) == [], "a single node has no partner"


def test_the_bandwidth_does_not_depend_on_the_number_of_ranks():
    assert script.bus_bandwidth(1_000_000_000, 2, 1.0) == pytest.approx(8)
    assert script.bus_bandwidth(1_000_000_000, 16, 2 * 15 / 16) == pytest.approx(8)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [({"jobs": []}, "No job runs there."), ({"msg": "no answer"}, "It is not known which jobs run there."), ({}, "It is not known which")],
)
def test_the_report_names_nodes_that_could_not_be_checked(tmp_path, listed, expected):
    (task,) = [each for each in yaml.safe_load((ROLE / "tasks" / "main.yml").read_text()) if each["name"] == "Show the health of the nodes"]
    checked = {"ansible.builtin.set_fact": {"node_health_findings": [], "node_health_exclusions": []}}
    variables = {"__node_health_unreachable": ["lab2"], "__node_health_jobs": listed}
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [checked, task]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    done = ansible_commands.run(["ansible-playbook", "-i", "localhost,", "play.yml"], os.environ, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"lab2: not checked, because of the error above. {expected}" in done.stdout
    assert "1 of 2 nodes are healthy." in done.stdout


@pytest.mark.parametrize(("severities", "fails"), [([], False), (["monitor"], False), (["monitor", "restart"], True), (["replace"], True)])
def test_findings_to_monitor_do_not_make_a_node_unhealthy(tmp_path, severities, fails):
    (task,) = [
        each for each in yaml.safe_load((ROLE / "tasks" / "main.yml").read_text()) if each["name"] == "Fail if the node is unhealthy"
    ]
    variables = {"node_health_findings": [{"severity": each} for each in severities]}
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [task]}]))
    done = ansible_commands.run(["ansible-playbook", "-i", "localhost,", "play.yml"], os.environ, tmp_path)
    assert ("This node is unhealthy." in done.stdout + done.stderr) is bool(done.returncode) is fails
