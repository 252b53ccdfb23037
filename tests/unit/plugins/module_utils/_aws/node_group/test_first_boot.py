"""Tests of what all nodes do when they boot for the first time."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import first_boot


@pytest.mark.parametrize(
    "package",
    [
        *("linux-aws", "linux-image-aws", "linux-image-6.8.0-1021-aws", "linux-modules-extra-6.8.0-1021-aws", "linux-generic-hwe-22.04"),
        *("linux-image-cloud-amd64", "nvidia-fabricmanager-550", "nvidia-driver-550-server", "libnvidia-compute-550", "cuda-drivers"),
        *("lustre-client-modules-aws", "lustre-client-modules-6.8.0-1021-aws", "efa", "efa-config"),
    ],
)
def test_the_kernel_and_its_drivers_are_left_out(package):
    assert any(re.match(pattern, package) for pattern in first_boot.PACKAGES)


@pytest.mark.parametrize(
    "package", ["openssh-server", "linux-libc-dev", "linux-base", "libc6", "python3", "libefa1", "efax", "amazon-efs-utils"]
)
def test_other_packages_are_upgraded(package):
    assert not any(re.match(pattern, package) for pattern in first_boot.PACKAGES)


def test_apt_reads_the_file(tmp_path):
    apt = shutil.which("apt-config")
    if apt is None:
        pytest.skip("This machine has no apt.")
    (tmp_path / "conf").write_text(first_boot.UPGRADES_CONTENT)
    done = subprocess.run(
        [apt, "dump", "--format", "%v%n", "Unattended-Upgrade::Package-Blacklist"],
        env={"APT_CONFIG": str(tmp_path / "conf"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert [line for line in done.stdout.splitlines() if line][-len(first_boot.PACKAGES) :] == list(first_boot.PACKAGES)


def test_the_files_of_the_node_in_the_image_are_removed_once(tmp_path):
    """The command of cloud-init runs the rest of its arguments once for each instance."""
    config = first_boot.cloud_config({})
    (command,) = config["bootcmd"]
    assert command[:2] == ["cloud-init-per", "instance"]
    former = [tmp_path / path.lstrip("/") for path in first_boot.FORMER]
    for path in former:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    subprocess.run([each if each not in first_boot.FORMER else f"{tmp_path}{each}" for each in command[3:]], check=True, timeout=60)
    assert not [path for path in former if path.exists()]
    assert config["ssh_deletekeys"] is True


def test_storage_and_all_nodes_write_their_files():
    storage = {"write_files": [{"path": "/usr/local/sbin/x"}], "runcmd": [["x"]]}
    config = first_boot.cloud_config(storage)
    assert [file["path"] for file in config["write_files"]] == ["/usr/local/sbin/x", first_boot.UPGRADES]
    assert config["runcmd"] == [["x"]]
