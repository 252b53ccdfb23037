"""Slurm and SGE on four hosts: many jobs in the queue, and a host that dies while jobs run and wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .queues import UNTIL_GO, QueueHosts, check_turns, queue_hosts, wait
from .sge import Sge
from .slurm import Slurm

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module", params=[Slurm, Sge], ids=lambda kind: kind.role)
def queue(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueHosts]:
    with queue_hosts(request.param, tmp_path_factory.mktemp(request.param.role), count=4) as queue:
        yield queue


@pytest.fixture(autouse=True)
def restored(queue: QueueHosts) -> None:
    queue.restore()


def test_twenty_training_jobs_never_share_a_host(queue: QueueHosts) -> None:
    """Some jobs use all hosts, others run on hosts that the queue chooses. All wait until the first one ends."""
    queue.train("blocks", UNTIL_GO)
    turn = "echo $(hostname) $(date +%s.%N) >turn-$(hostname); sleep 2; date +%s.%N >>turn-$(hostname)"
    counts = {f"turn-{number}": (4, 1, 2, 1, 3)[number % 5] for number in range(20)}
    for name, count in counts.items():
        queue.train(name, turn, host_count=count % 4)
    assert queue.entries() == {"blocks": queue.running, **dict.fromkeys(counts, queue.waiting)}
    queue.master.ssh("touch /efs/go")
    for name in counts:
        queue.wait_for_end(name)
    turns = {name: queue.master.ssh(f"cat /efs/jobs/{name}/code/turn-*").stdout.split() for name in counts}
    assert {name: len(words) for name, words in turns.items()} == {name: 3 * count for name, count in counts.items()}
    check_turns([word for words in turns.values() for word in words], places=4)
    assert all(queue.status(name).startswith(f"{name} succeeded after ") for name in counts)


def test_twenty_jobs_never_share_a_gpu(queue: QueueHosts) -> None:
    """The jobs need one GPU each. The hosts have eight GPUs."""
    script = "exec >/efs/turns/$(hostname)-$$; echo $(hostname):$CUDA_VISIBLE_DEVICES $(date +%s.%N); sleep 3; date +%s.%N"
    queue.master.ssh("mkdir /efs/turns")
    queue.submit(script, queue.array.format(20), queue.one_gpu)
    wait(lambda: queue.master.ssh(queue.list_jobs).stdout == "")
    turns = queue.master.ssh("cat /efs/turns/*").stdout.split()
    assert len(turns) == 3 * 20
    assert {place.partition(":")[2] for place in turns[::3]} == {"0", "1"}
    check_turns(turns, places=8)


def test_a_host_dies_while_jobs_run_and_wait(queue: QueueHosts) -> None:
    """The jobs of the other hosts continue. Jobs that need the host wait until it is replaced."""
    workers, last = ("--limit", ",".join(queue.names[1:])), queue.names[3]
    script = "[ $DEEPLEARNING_ATTEMPT != 1 ] || sleep 600"
    queue.train("runs", script, *workers, restarts=1, min_hosts=2, heartbeat_timeout=30, stop_timeout=5)
    queue.wait_for_start("runs", 3)
    queue.train("two", "hostname", *workers, host_count=2)
    queue.train("three", "hostname", *workers)
    user = queue.submit("hostname", queue.on.format(last))
    assert queue.entries() == {"runs": queue.running, "two": queue.waiting, "three": queue.waiting}
    queue.runtime.remove(queue.hosts[3].name)
    for name in ("runs", "two"):
        queue.wait_for_end(name)
        assert queue.status(name).startswith(f"{name} succeeded after ")
    assert queue.entries() == {"three": queue.waiting}
    assert queue.state(user) == queue.waiting
    queue.replace(4)
    queue.wait_for_end("three")
    assert queue.status("three").startswith("three failed "), "the new host does not have the job's parameters"
    queue.wait_for(user, queue.ended)
    assert queue.output(user) == f"{last}\n"
    queue.wait_for_nodes()
