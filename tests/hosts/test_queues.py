"""Slurm and SGE on four hosts: many jobs in the queue, and a host that dies while jobs run and wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .queues import GPUS, UNTIL_GO, QueueHosts, check_turns, queue_hosts, wait
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


def test_twenty_jobs_never_share_a_gpu(queue: QueueHosts) -> None:
    """A user's jobs use one GPU each; training jobs use all GPUs of hosts that the queue chooses.

    All jobs wait until the first job ends.
    """
    queue.train("blocks", UNTIL_GO)
    turn = "echo $(hostname){} $(date +%s.%N) >{}; sleep 2; date +%s.%N >>{}"
    queue.master.ssh("mkdir /efs/turns")
    path = "/efs/turns/$(hostname)-$$"
    queue.submit(turn.format(":$CUDA_VISIBLE_DEVICES", path, path), queue.array.format(15), queue.one_gpu)
    counts = {f"turn-{number}": count for number, count in enumerate((4, 1, 2, 1, 3))}
    for name, count in counts.items():
        queue.train(name, turn.format("", "turn-$(hostname)", "turn-$(hostname)"), host_count=count % 4)
    assert queue.entries() == {"blocks": queue.running, **dict.fromkeys(counts, queue.waiting)}
    queue.master.ssh("touch /efs/go")
    for name in counts:
        queue.wait_for_end(name)
    wait(lambda: queue.master.ssh(queue.list_jobs).stdout == "")
    turns = queue.master.ssh("cat /efs/turns/*").stdout.split()
    assert len(turns) == 3 * 15
    for name, count in counts.items():
        assert queue.status(name).startswith(f"{name} succeeded after ")
        words = queue.master.ssh(f"cat /efs/jobs/{name}/code/turn-*").stdout.split()
        assert len(words) == 3 * count
        for host, start, end in zip(words[::3], words[1::3], words[2::3], strict=True):
            turns += [word for gpu in range(GPUS) for word in (f"{host}:{gpu}", start, end)]
    check_turns(turns, places=4 * GPUS)


def test_a_host_dies_while_jobs_run_and_wait(queue: QueueHosts) -> None:
    """Jobs on the other hosts continue. Jobs that need the lost host wait until it is replaced."""
    workers = ("--limit", ",".join(queue.names[1:]))
    script = "[ $DEEPLEARNING_ATTEMPT != 1 ] || sleep 600"
    queue.train("runs", script, *workers, restarts=1, min_hosts=2, heartbeat_timeout=30, stop_timeout=5)
    queue.wait_for_start("runs", 3)
    lost = 3 if queue.first_host("runs") == queue.names[3] else 4  # another test loses the first host
    queue.train("two", "hostname", *workers, host_count=2)
    queue.train("three", "hostname", *workers)
    user = queue.submit("hostname", queue.on.format(queue.name(lost)))
    assert queue.entries() == {"runs": queue.running, "two": queue.waiting, "three": queue.waiting}
    queue.runtime.remove(queue.hosts[lost - 1].name)
    for name in ("runs", "two"):
        queue.wait_for_end(name)
        assert queue.status(name).startswith(f"{name} succeeded after ")
    assert queue.entries() == {"three": queue.waiting}
    assert queue.state(user) == queue.waiting
    queue.replace(lost)
    queue.wait_for_end("three")
    assert queue.status("three").startswith("three succeeded after ")
    assert sorted(queue.master.ssh("cat /efs/jobs/three/logs/*.log").stdout.split()) == sorted(queue.names[1:])
    assert queue.left("three") == []
    queue.wait_for(user, queue.ended)
    assert queue.output(user) == f"{queue.name(lost)}\n"
    queue.wait_for_nodes()


def test_a_training_job_that_waits_for_a_lost_master_starts_on_the_new_one(queue: QueueHosts) -> None:
    """The new master gets the job's parameters, with its secrets, from another host. The secrets are in no output."""
    queue.train("holds", UNTIL_GO, "--limit", queue.name(2))
    secret = "correct-horse-battery"
    queue.train("waits", "hostname; echo $TOKEN | cut -c 9-13", secrets={"TOKEN": secret})
    assert queue.entries() == {"holds": queue.running, "waits": queue.waiting}
    queue.wait_until_saved()
    queue.runtime.remove(queue.master.name)
    done = queue.replace(1, "-vvv", "--diff")
    assert secret not in done.stdout + done.stderr
    assert queue.entries() == {"holds": queue.running, "waits": queue.waiting}
    assert set(queue.converge().values()) == {0}
    queue.master.ssh("touch /efs/go")
    queue.wait_for_end("waits")
    assert queue.status("waits").startswith("waits succeeded after ")
    assert sorted(queue.master.ssh("cat /efs/jobs/waits/logs/*.log").stdout.split()) == sorted([*queue.names, *["horse"] * 4])
    assert queue.left("waits") == []
