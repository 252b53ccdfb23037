"""Local clouds of tests, and address ranges for tests that run concurrently on one machine."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from local_cloud import testing
from local_cloud.hosts.podman import as_root
from local_cloud.private_files import CloudError
from local_cloud.testing import LocalCloud, unused_range, wait_until

NETWORK = "local-cloud-test-ranges"


def test_local_clouds_whose_servers_come_from_one_process_share_nothing(tmp_path: Path) -> None:
    with LocalCloud(tmp_path / "one", hosts=False) as one, LocalCloud(tmp_path / "two", hosts=False) as two:
        assert one.cloud.home.server_pid() != two.cloud.home.server_pid()
        one.client("ec2").create_key_pair(KeyName="key")
        assert [pair["KeyName"] for pair in one.client("ec2").describe_key_pairs()["KeyPairs"]] == ["local-cloud", "key"]
        assert [pair["KeyName"] for pair in two.client("ec2").describe_key_pairs()["KeyPairs"]] == ["local-cloud"]
        first, second = ({subnet["SubnetId"] for subnet in cloud.client("ec2").describe_subnets()["Subnets"]} for cloud in (one, two))
        assert len(first) > 1
        assert first.isdisjoint(second)
        one.restart()
        for cloud in (one, two):
            assert f"Serving on port {cloud.cloud.setup.port}\n" in cloud.cloud.home.log_file.read_text()


def test_a_server_that_does_not_start_is_noticed_at_once(tmp_path: Path) -> None:
    with LocalCloud(tmp_path / "home", hosts=False) as cloud:
        cloud.cloud.stop()
        cloud.cloud.home.state_file.write_bytes(b"no state")
        with pytest.raises(CloudError, match="The server failed to start"):
            cloud.cloud.start()


@pytest.mark.parametrize(("seconds", "pause"), [(0.01, 0.05), (2.0, 2.0)])
def test_polls_that_take_long_are_rarer(monkeypatch: pytest.MonkeyPatch, seconds: float, pause: float) -> None:
    pauses: list[float] = []
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now, sleep=pauses.append)
    monkeypatch.setattr(testing, "time", clock)

    def condition() -> bool:
        clock.now += seconds
        return len(pauses) == 2

    assert wait_until(condition, 10)
    assert pauses == pytest.approx([pause] * 2)
    with pytest.raises(TimeoutError, match="after 1 s"):
        wait_until(lambda: condition() and False, 1)


def test_no_range_is_claimed_twice() -> None:
    with ExitStack() as claims:
        ranges = [claims.enter_context(unused_range()) for _ in range(3)]
    assert len(set(ranges)) == 3


def test_a_range_that_podman_uses_is_left_out() -> None:
    with unused_range() as free:
        pass
    subnet = free.replace(".0.0/16", ".7.0/24")
    subprocess.run(as_root("podman", "network", "create", f"--subnet={subnet}", NETWORK), check=True, capture_output=True)
    try:
        with unused_range() as other:
            assert other != free
    finally:
        subprocess.run(as_root("podman", "network", "rm", NETWORK), check=True, capture_output=True)
