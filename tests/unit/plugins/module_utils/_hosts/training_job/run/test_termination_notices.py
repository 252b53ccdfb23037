"""Tests of the notices with which AWS announces that it will terminate a host."""

from __future__ import annotations

import socket
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import termination_notices

from .metadata_service import MetadataService

AT = 1795601702.0  # 2026-11-25 10:15:02 UTC
TEXT = '{"action": "terminate", "time": "2026-11-25T10:15:02Z"}'


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setattr(termination_notices, "ADDRESS", "127.0.0.1")
    with MetadataService() as found:
        monkeypatch.setattr(termination_notices, "PORT", found.port)
        yield found


@pytest.fixture
def watched(service):
    """Return a thread object that has not been started, so that the test polls."""
    return termination_notices.Notices(lambda notice: None, 0)


def test_the_notice_of_a_spot_instance_is_found(service, watched):
    assert watched.poll() is None
    service.items["spot/instance-action"] = TEXT
    assert watched.poll() == {"kind": "spot_interruption", "deadline": AT}


def test_a_poll_is_one_request(service, watched):
    watched.poll()
    service.requests.clear()
    assert [watched.poll() for _poll in range(5)] == [None] * 5
    assert service.requests == ["GET /latest/meta-data/spot/instance-action"] * 5


def test_an_expired_token_is_renewed(service, watched):
    watched.poll()
    service.tokens.clear()
    service.items["spot/instance-action"] = TEXT
    assert watched.poll() == {"kind": "spot_interruption", "deadline": AT}


def test_a_rebalance_recommendation_is_only_logged_once(service, watched, capsys):
    service.items["events/recommendations/rebalance"] = "{}"
    assert [watched.poll() for _poll in range(3 * termination_notices.REBALANCE_POLLS)] == [None] * (
        3 * termination_notices.REBALANCE_POLLS
    )
    assert capsys.readouterr().err.count("AWS recommends to replace this Spot Instance") == 1


@pytest.mark.parametrize("life_cycle", ["on-demand", None])
def test_other_instances_are_not_polled(service, life_cycle):
    service.items["instance-life-cycle"] = life_cycle
    watched = termination_notices.Notices(lambda notice: None, 0)
    assert [watched.poll() for _poll in range(5)] == [None] * 5
    assert len(service.requests) == 2


@pytest.mark.parametrize("is_silent", [False, True], ids=["refuses", "does not answer"])
def test_a_host_without_the_service_is_polled_three_times(monkeypatch, is_silent):
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        if is_silent:
            port.listen()
        monkeypatch.setattr(termination_notices, "ADDRESS", "127.0.0.1")
        monkeypatch.setattr(termination_notices, "PORT", port.getsockname()[1])
        monkeypatch.setattr(termination_notices, "TIMEOUT", 0.1)
        watched = termination_notices.Notices(lambda notice: None, 0)
        gone = [watched.poll() or watched._service is None for _poll in range(5)]
    assert gone == [False, False, True, True, True]


def test_a_spot_instance_is_still_polled_after_errors(service, watched, monkeypatch):
    watched.poll()
    monkeypatch.setattr(termination_notices, "PORT", 1)
    assert [watched.poll() for _poll in range(10)] == [None] * 10
    monkeypatch.setattr(termination_notices, "PORT", service.port)
    service.items["spot/instance-action"] = TEXT
    assert watched.poll()["deadline"] == AT


@pytest.mark.parametrize(("minutes", "announced"), [(41, False), (39, True), (20, True)])
def test_the_end_of_a_capacity_block_is_announced_when_aws_announces_it(service, minutes, announced):
    end = time.time() + minutes * 60
    found = termination_notices.Notices(lambda notice: None, end).poll()
    assert found == ({"kind": "capacity_block_end", "deadline": end - 1800} if announced else None)


@pytest.mark.parametrize(("text", "announced"), [("2026-11-25T10:15:02Z\n", True), ("", False), ("\n", False), ("nan", False)])
def test_the_end_of_the_lease_is_announced_ten_minutes_before(watched, monkeypatch, tmp_path, text, announced):
    monkeypatch.setattr(termination_notices, "LEASE", str(tmp_path / "lease"))
    monkeypatch.setattr(termination_notices.time, "time", lambda: AT - 599)
    assert watched.poll() is None
    (tmp_path / "lease").write_text(text)
    assert watched.poll() == ({"kind": "lease_end", "deadline": AT} if announced else None)
    monkeypatch.setattr(termination_notices.time, "time", lambda: AT - 601)
    assert watched.poll() is None


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"time": 5}', '{"time": "soon"}'])
def test_a_notice_without_a_time_is_two_minutes_early(text):
    assert termination_notices.action_time(text, 1000.0) == 1120.0


@pytest.mark.parametrize(("left", "seconds"), [(120, 105), (1, 5), (-100, 5), (1 << 40, 600)])
def test_the_time_to_save_is_what_is_left(left, seconds):
    assert termination_notices.time_to_save(AT + left, AT) == seconds
