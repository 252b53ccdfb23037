"""The bootstrap action that mounts EFS on the nodes of an EMR cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mounts
from local_cloud.testing import bare_hosts

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "emr" / "mount_efs.sh"
FILE_SYSTEM, REGION = "fs-0123456789abcdef0", "us-east-1"
SERVER = f"{FILE_SYSTEM}.efs.{REGION}.amazonaws.com"
ENTRY = mounts.efs(FILE_SYSTEM, REGION, "/efs", encrypted=False).entry
RESET = "sudo umount -l /efs 2>/dev/null; sudo sed -i '\\# /efs #d' /etc/fstab; sudo rm -rf /efs /etc/fstab.mount_efs"
# Bash reads this file first. The file makes Bash kill the script before command number KILL_AT.
KILLER = "set -o functrace; count=0; trap '((++count != KILL_AT)) || kill -KILL $$' DEBUG\n"
# The hosts have no yum. This one installs the helper of mount that `WITHOUT_NFS_UTILS` has moved
YUM = """#!/bin/sh
[ "$*" = "--assumeyes --quiet install nfs-utils" ] && mv /sbin/mount.nfs4.absent /sbin/mount.nfs4
"""
WITHOUT_NFS_UTILS = "[ ! -e /sbin/mount.nfs4 ] || sudo mv /sbin/mount.nfs4 /sbin/mount.nfs4.absent"
# Kills the script before each of its commands in turn, and then runs the script to its end. Prints how often the script was killed.
KILLED_EVERYWHERE = f"""
for ((number = 1; ; number++)); do
  {RESET}; {WITHOUT_NFS_UTILS}
  BASH_ENV=/tmp/killer KILL_AT=$number /tmp/mount_efs.sh {FILE_SYSTEM} {REGION} >/dev/null 2>&1
  status=$?
  [[ $status -eq 137 ]] || break
  /tmp/mount_efs.sh {FILE_SYSTEM} {REGION} >/tmp/out 2>&1 || {{ echo "killed before command $number:"; cat /tmp/out; exit 1; }}
  mountpoint -q /efs && [[ $(stat -c %U /efs) == "$USER" && $(grep -c ' /efs ' /etc/fstab) == 1 && -z $(ls -A /efs) ]] ||
    {{ echo "killed before command $number:"; cat /etc/fstab; ls -la /efs; exit 1; }}
done
[[ $status -eq 0 ]] && echo $((number - 1))
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: mount_efs.sh FILE_SYSTEM_ID REGION [DIRECTORY]"),
        ([FILE_SYSTEM], "usage: mount_efs.sh FILE_SYSTEM_ID REGION [DIRECTORY]"),
        (["fs-0123,soft", REGION], "FILE_SYSTEM_ID: 'fs-0123,soft' is not the ID of a file system."),
        ([FILE_SYSTEM, "Virginia"], "REGION: 'Virginia' is not a region."),
        ([FILE_SYSTEM, REGION, "efs"], "DIRECTORY: 'efs' is not an absolute path"),
        ([FILE_SYSTEM, REGION, "/e fs"], "DIRECTORY: '/e fs' is not an absolute path"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_done(arguments, message):
    done = subprocess.run([SCRIPT, *arguments], env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.startswith(message)) == (1, True), done.stderr


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with bare_hosts(tmp_path_factory.mktemp("bootstrap")) as (runtime, (host,)):
        host.ssh("cloud-init status --wait")
        for path, content in (("/tmp/mount_efs.sh", SCRIPT.read_text()), ("/tmp/killer", KILLER)):
            host.ssh(f"cat >{path} <<'END_OF_FILE'\n{content}END_OF_FILE\nchmod 755 {path}")
        host.ssh(f"sudo tee /usr/local/bin/yum >/dev/null <<'END_OF_FILE'\n{YUM}END_OF_FILE\nsudo chmod 755 /usr/local/bin/yum")
        yield runtime, host


@pytest.mark.exhaustive
def test_without_a_mount_target_the_script_says_so_and_later_mounts(node):
    runtime, host = node
    failed = host.ssh(f"MOUNT_TIMEOUT=3 /tmp/mount_efs.sh {FILE_SYSTEM} {REGION}", check=False)
    assert failed.returncode == 1
    assert "mount /efs: failed for 3 s. Check that the file system has an available mount target" in failed.stderr
    runtime.export(FILE_SYSTEM, [SERVER])
    assert f"{SERVER}:/ is mounted at /efs." in host.ssh(f"/tmp/mount_efs.sh {FILE_SYSTEM} {REGION}").stdout
    assert ENTRY in host.ssh("cat /etc/fstab").stdout.splitlines()
    assert host.ssh("stat -c %U /efs; ls -A /efs").stdout == f"{host.user}\n"


@pytest.mark.exhaustive
def test_a_script_that_is_killed_anywhere_ends_well_at_the_next_try(node):
    runtime, host = node
    runtime.export(FILE_SYSTEM, [SERVER])
    done = host.ssh(f"bash -s <<'END_OF_FILE'\n{KILLED_EVERYWHERE}END_OF_FILE", check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) > 20, "the script has that many commands"


@pytest.mark.exhaustive
def test_a_file_system_that_others_use_is_not_taken_over(node):
    runtime, host = node
    runtime.export(FILE_SYSTEM, [SERVER])
    host.ssh(f"{RESET}; /tmp/mount_efs.sh {FILE_SYSTEM} {REGION} && sudo mkdir /efs/project && sudo chown root:root /efs")
    refused = host.ssh(f"/tmp/mount_efs.sh {FILE_SYSTEM} {REGION}", check=False)
    assert f"/efs: {host.user} cannot write to it, and the file system is not new: its top directory belongs to root." in refused.stderr
    host.ssh(f"sudo rmdir /efs/project && sudo ln -s /root/target /efs/.mount_efs-$(hostname) && sudo chown root:{host.user} /efs")
    host.ssh(f"sudo chmod 775 /efs && /tmp/mount_efs.sh {FILE_SYSTEM} {REGION}")
    assert host.ssh("stat -c %U /efs; sudo ls -A /root/target 2>&1 | grep -c 'No such'").stdout.split() == ["root", "1"]
    host.ssh("sudo rm -f /efs/.mount_efs-*; sudo chmod 755 /efs; sudo chown $(id -u):$(id -g) /efs")


@pytest.mark.exhaustive
def test_another_file_system_in_the_directory_is_refused(node):
    runtime, host = node
    runtime.export(FILE_SYSTEM, [SERVER])
    host.ssh(RESET)
    host.ssh("echo 'elsewhere:/ /efs nfs4 noauto 0 0' | sudo tee -a /etc/fstab")
    refused = host.ssh(f"/tmp/mount_efs.sh {FILE_SYSTEM} {REGION}", check=False)
    assert "/efs: /etc/fstab mounts elsewhere:/ there. Specify another directory." in refused.stderr
    host.ssh(f"{RESET}; sudo mkdir /efs && sudo mount -t tmpfs tmpfs /efs")
    refused = host.ssh(f"/tmp/mount_efs.sh {FILE_SYSTEM} {REGION}", check=False)
    assert "/efs: another file system is mounted there. Specify another directory." in refused.stderr
    assert " /efs " not in host.ssh("cat /etc/fstab").stdout
