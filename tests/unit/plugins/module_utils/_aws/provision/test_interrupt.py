from __future__ import annotations

import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision.interrupt import interruptible


@pytest.fixture
def cloud():
    return SimpleNamespace(interruption=threading.Event())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_sets_the_event_and_the_second_one_has_its_former_effect(cloud, number):
    former = signal.getsignal(number)
    with interruptible(cloud):
        assert signal.getsignal(number) is not former
        os.kill(os.getpid(), number)
        assert cloud.interruption.wait(10)
        assert signal.getsignal(number) is former


def test_the_handlers_of_an_action_that_runs_the_module_are_kept(cloud):
    received = []
    former = signal.signal(signal.SIGTERM, lambda *_: received.append("handler"))
    try:
        with interruptible(cloud):
            os.kill(os.getpid(), signal.SIGTERM)
            assert cloud.interruption.wait(10)
            assert received == ["handler"]
    finally:
        signal.signal(signal.SIGTERM, former)


def test_the_signal_may_arrive_while_the_main_thread_holds_the_lock_of_the_event(cloud):
    with interruptible(cloud):
        with cloud.interruption._cond:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        assert cloud.interruption.wait(10)


def test_without_a_signal_nothing_stays(cloud):
    handler, descriptors, threads = signal.getsignal(signal.SIGINT), len(os.listdir("/proc/self/fd")), threading.active_count()
    with interruptible(cloud):
        pass
    assert not cloud.interruption.is_set()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (descriptors, threads)
    assert signal.getsignal(signal.SIGINT) is handler
