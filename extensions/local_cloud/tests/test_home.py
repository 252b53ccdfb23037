"""Names, addresses, and files of a local cloud."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

import pytest
from local_cloud.home import NETWORKS, Home, Setup


def test_public_addresses_are_loopback_and_differ_between_homes() -> None:
    prefixes = {ipaddress.ip_network(Home(Path(f"/cloud/{number}")).public_prefix) for number in range(20)}
    assert len(prefixes) > 15
    assert all(prefix.subnet_of(ipaddress.ip_network("127.64.0.0/10")) for prefix in prefixes)


def test_names_differ_between_homes() -> None:
    assert Home(Path("/a")).cloud_name(Setup()) != Home(Path("/b")).cloud_name(Setup())


def test_setup_is_remembered(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert home.read_setup() == Setup()
    home.write_setup(Setup(port=1234, hosts=False))
    assert Home(tmp_path / "home").read_setup() == Setup(port=1234, hosts=False)


def test_only_one_server_serves_a_home(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.server_pid() is None
    with home.serving():
        assert home.server_pid() == os.getpid()
        with pytest.raises(BlockingIOError), Home(tmp_path).serving():
            pass
    assert home.server_pid() is None


def test_delete_spares_what_is_not_the_cloud_s(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.write_setup(Setup())
    (home.folder / "mine").touch()
    home.delete()
    assert [path.name for path in home.folder.iterdir()] == ["mine"]


def test_environment_keeps_loopback_off_proxies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_PROXY", "example.com")
    assert Home(tmp_path).environment(Setup(port=5))["NO_PROXY"] == "example.com,127.0.0.1"


def test_each_cloud_has_a_secret_of_its_own_for_its_owner_alone(tmp_path: Path) -> None:
    first, second = Home(tmp_path / "one"), Home(tmp_path / "two")
    assert first.administrator == Home(tmp_path / "one").administrator
    assert first.administrator != second.administrator
    assert first.administrator_file.stat().st_mode & 0o777 == 0o600
    assert first.environment(Setup())["AWS_SECRET_ACCESS_KEY"] == first.administrator.secret_access_key
    first.delete()
    assert not first.folder.exists()


def test_the_network_of_the_cloud_is_in_the_environment_once_it_is_chosen(tmp_path: Path) -> None:
    assert "LOCAL_CLOUD_NETWORK" not in Home(tmp_path).environment(Setup())
    assert Home(tmp_path).environment(Setup(network="10.41.0.0/16"))["LOCAL_CLOUD_NETWORK"] == "10.41.0.0/16"


def test_clouds_begin_with_different_networks_of_the_same() -> None:
    ranges = [Home(Path(f"/cloud/{number}")).networks for number in range(20)]
    assert len({each[0] for each in ranges}) > 10
    assert {tuple(sorted(each)) for each in ranges} == {tuple(sorted(NETWORKS))}
