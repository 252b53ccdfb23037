"""The state of hosts after boot, restart, and removal."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from local_cloud.hosts import podman_hosts
from local_cloud.hosts.podman import as_root
from local_cloud.testing import BareHost, bare_hosts, bare_podman_hosts, wait_until

from .conftest import Hosts


def test_is_up_with_nothing_failed(hosts: Hosts) -> None:
    assert hosts.first.ssh("systemctl is-system-running --wait").stdout == "running\n"


def test_user_data_has_taken_effect(hosts: Hosts) -> None:
    assert hosts.first.ssh("cat /etc/written /run/user-data").stdout == "by cloud-initdone\n"


def test_login_user_is_the_ami_s(hosts: Hosts) -> None:
    assert hosts.first.ssh("id -un; id -u; sudo -n id -u").stdout.split() == ["ubuntu", "1000", "0"]


def test_numeric_libraries_of_login_shells_leave_processors_to_other_hosts(hosts: Hosts) -> None:
    assert hosts.first.ssh("bash -lc 'echo $OMP_NUM_THREADS'").stdout == "1\n"


def test_hostname_is_known_to_itself(hosts: Hosts) -> None:
    name = "ip-" + hosts.first.private_ip.replace(".", "-")
    shown = hosts.first.ssh("hostname; cat /etc/hostname; getent ahostsv4 $(hostname) | head -1").stdout.split()
    assert shown[:3] == [name, name, hosts.first.private_ip]


def test_console_shows_the_host_keys_that_sshd_presents(hosts: Hosts) -> None:
    assert_keys_are_shown(hosts.runtime, hosts.first)


def assert_keys_are_shown(runtime: podman_hosts.PodmanHosts, host: BareHost) -> None:
    console = runtime.console_output(host.name).replace("\r", "")
    block = console.partition("-----BEGIN SSH HOST KEY KEYS-----\n")[2].partition("-----END SSH HOST KEY KEYS-----")[0]
    shown = {" ".join(line.split()[:2]) for line in block.splitlines()}
    scan = subprocess.run(["ssh-keyscan", host.private_ip], capture_output=True, text=True, check=True).stdout
    presented = {" ".join(line.split()[1:3]) for line in scan.splitlines() if not line.startswith("#")}
    assert presented
    assert presented == shown


def test_sshd_has_no_key_exchange_that_takes_long(hosts: Hosts) -> None:
    offered = hosts.first.ssh("sudo sshd -T | grep ^kexalgorithms").stdout
    assert "curve25519-sha256" in offered
    assert "sntrup761" not in offered


def test_a_bare_host_without_user_data_boots_without_cloud_init_and_keeps_its_keys(tmp_path: Path) -> None:
    with bare_hosts(tmp_path, 1) as (runtime, (host,)):
        assert host.ssh("systemctl is-system-running --wait; systemctl is-active cloud-init", check=False).stdout == "running\ninactive\n"
        assert_keys_are_shown(runtime, host)
        before = host.ssh("cat /etc/ssh/ssh_host_*_key.pub; stat -c '%U %a' ~/.ssh ~/.ssh/authorized_keys").stdout
        assert before.endswith("ubuntu 700\nubuntu 600\n")
        runtime.stop(host.name)
        runtime.start(host.spec())
        wait_until(lambda: runtime.is_booted(host.name))
        assert host.ssh("cat /etc/ssh/ssh_host_*_key.pub").stdout == before[: -len("ubuntu 700\nubuntu 600\n")]


def test_hosts_have_keys_of_their_own(hosts: Hosts) -> None:
    key = "cat /etc/ssh/ssh_host_ed25519_key.pub /etc/machine-id"
    assert not set(hosts.first.ssh(key).stdout.split()[1::2]) & set(hosts.second.ssh(key).stdout.split()[1::2])


def test_public_address_leads_to_its_host(hosts: Hosts) -> None:
    def scanned(address: str) -> str:
        return subprocess.run(["ssh-keyscan", "-t", "ed25519", address], capture_output=True, text=True, check=False).stdout

    for host in (hosts.first, hosts.second):
        scan = wait_until(partial(scanned, host.public_ip))
        assert host.ssh("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout.split()[1] in scan


def test_hosts_of_one_network_reach_each_other(hosts: Hosts) -> None:
    banner = hosts.first.ssh(f"timeout 60 bash -c 'head -c 4 </dev/tcp/{hosts.second.private_ip}/22'").stdout
    assert banner == "SSH-"


def test_hosts_file_can_be_replaced_by_rename(hosts: Hosts) -> None:
    hosts.first.ssh("for f in hosts hostname; do cp /etc/$f /tmp/$f && sudo mv /tmp/$f /etc/$f; done")


def test_stop_and_start_keep_the_disk_and_the_keys(hosts: Hosts) -> None:
    host = hosts.second
    before = host.ssh("echo kept | sudo tee /etc/kept; cat /etc/ssh/ssh_host_ed25519_key.pub").stdout
    hosts.runtime.stop(host.name)
    assert not hosts.runtime.is_alive(host.name)
    hosts.runtime.start(host.spec())
    wait_until(lambda: hosts.runtime.is_booted(host.name))
    assert host.ssh("cat /etc/kept /etc/ssh/ssh_host_ed25519_key.pub").stdout == before


def test_a_reboot_differs_from_a_shutdown(hosts: Hosts) -> None:
    host = hosts.second
    for command, is_rebooting in (("reboot", True), ("poweroff", False)):
        assert not hosts.runtime.is_rebooting(host.name)
        host.ssh(f"sudo systemctl {command} --no-block")
        wait_until(lambda: not hosts.runtime.is_alive(host.name))
        assert hosts.runtime.is_rebooting(host.name) == is_rebooting
        hosts.runtime.start(host.spec())
        wait_until(lambda: hosts.runtime.is_booted(host.name))


def test_a_host_that_ends_by_itself_can_be_started_again(hosts: Hosts) -> None:
    """After the host's first process is killed, podman's monitor alone must free the address of the host."""
    host = hosts.second
    process = hosts.runtime._podman("inspect", "--format={{.State.Pid}}", hosts.runtime._name(host.name)).strip()
    assert int(process) > 1, "without a running host, kill would end the processes of the whole test run"
    subprocess.run(as_root("kill", "-KILL", process), check=True)
    wait_until(lambda: not hosts.runtime.is_alive(host.name))
    hosts.runtime.start(host.spec())
    wait_until(lambda: hosts.runtime.is_booted(host.name))


def test_a_host_starts_after_the_monitor_of_its_previous_run_has_ended(hosts: Hosts) -> None:
    """A monitor that is still running stops the host while the host starts.

    Under load, the monitor of a stopped host runs for some seconds.
    """
    host = hosts.second
    hosts.runtime.stop(host.name)
    late = ["conmon", "-c", "import time; time.sleep(3)", hosts.runtime._name(host.name)]
    with subprocess.Popen(late, executable=sys.executable) as monitor:
        hosts.runtime.start(host.spec())
        assert monitor.poll() == 0
    wait_until(lambda: hosts.runtime.is_booted(host.name))


def test_podman_is_not_asked_about_hosts_that_run(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podman_hosts, "STATE_AGE", 0.0)
    assert hosts.runtime.is_alive(hosts.first.name)
    monkeypatch.setattr(hosts.runtime, "_list", lambda: pytest.fail("podman was asked"))
    assert hosts.runtime.is_alive(hosts.first.name)


def test_another_runtime_finds_the_hosts_again(hosts: Hosts) -> None:
    again = bare_podman_hosts(hosts.folder)
    assert again.is_alive(hosts.first.name)
    assert again.is_booted(hosts.first.name)


def test_removed_host_leaves_nothing(tmp_path: Path) -> None:
    with bare_hosts(tmp_path, 1) as (runtime, (host,)):
        runtime.remove(host.name)
        assert not runtime.is_alive(host.name)
        assert runtime.console_output(host.name) == ""
        assert not (tmp_path / "hosts" / host.name).exists()
        assert runtime.labelled() == ([], [])
        runtime.remove(host.name)


@pytest.mark.exhaustive
def test_addresses_are_free_again_where_podman_leaves_a_link_behind(tmp_path: Path) -> None:
    def bridges(prefix: str) -> list[str]:
        listed = subprocess.run(["ip", "-json", "address"], check=True, capture_output=True, text=True).stdout
        return [link["ifname"] for link in json.loads(listed) if any(item["local"].startswith(prefix) for item in link["addr_info"])]

    with bare_hosts(tmp_path, 1) as (runtime, (host,)):
        prefix = host.private_ip.rpartition(".")[0] + "."
        (bridge,) = bridges(prefix)
        left = f"left{bridge}"[:15]
        subprocess.run(as_root("ip", "link", "add", left, "master", bridge, "type", "veth"), check=True)
        try:
            runtime.remove(host.name)
            assert bridges(prefix) == []
        finally:
            subprocess.run(as_root("ip", "link", "delete", left), check=True)
