"""Tests of the boot script and the cloud-config of nodes: what they mount, install and retry."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import boot, mounts

from .described import BUCKET, EITHER, ENTRY, LUSTRE, LUSTRE_SOURCE, PLAIN, SOURCE, TLS


@pytest.mark.parametrize("described", [PLAIN, TLS, LUSTRE, EITHER])
def test_the_script_of_a_host_gets_the_entry_of_today(described):
    """Without the new entry, the script of a host that was launched with different mount options would add the old entry at each boot."""
    script = boot.boot_script([mounts.lustre(LUSTRE_SOURCE, "/other"), described], "ubuntu")
    old = script.replace(",nosuid,nodev", "")
    assert boot.replace_in_script(script, described, described) == script
    for alternative in described.alternatives:
        today = boot.boot_script([mounts.lustre(LUSTRE_SOURCE, "/other"), described], "ubuntu").splitlines()
        today = [f"add '{alternative.entry}' {alternative.mount_point}" if alternative.entry in line else line for line in today]
        assert boot.replace_in_script(old, described, alternative).splitlines() == [
            line.replace(",nosuid,nodev", "") if " /other " in line else line for line in today
        ]


def test_what_tls_must_have_is_in_the_script_of_a_host_that_may_do_without():
    script = boot.boot_script([EITHER], "ubuntu")
    required = boot.replace_in_script(script, TLS, TLS)
    assert f"\nadd '{TLS.entry}' /efs\n" in required
    assert ENTRY not in required


def test_cloud_config_has_the_entries_of_the_role():
    config = boot.cloud_config([TLS, LUSTRE], "ubuntu")
    script, unit = (file["content"] for file in config["write_files"])
    for described in (TLS, LUSTRE):
        assert f"add '{described.entry}' {described.mount_point}" in script
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert config["write_files"][0]["path"] in unit
    assert ["systemctl", "start", "--no-block", boot.UNIT] in config["runcmd"]
    assert boot.cloud_config([], "ubuntu") == {}


class Host:
    """A folder in which the boot script runs, with stubs of tools that record their arguments."""

    def __init__(self, folder):
        self.folder, self.tools, self.log = folder, folder / "bin", folder / "log"
        self.tools.mkdir()
        for name in ("awk", "cat", "cp", "date", "ln", "mkdir", "rm", "test", "touch"):
            (self.tools / name).symlink_to(shutil.which(name))
        self.tool("grep", 'case "$3" in */fstab) while read -r line; do [ "$line" = "$2" ] && exit; done <"$3" ;; esac; exit 1')
        self.tool("sleep", "")
        self.tool("chown", "")
        self.tool("timeout", '[ "$1 $2" = "--signal=INT --kill-after=5" ] && shift 3 && exec "$@"')
        self.tool("mountpoint", f'[ -e {folder}/mounted-"${{2##*/}}" ]')
        self.tool("systemctl", "")
        self.tool("systemd-escape", 'echo "${2##*/}"')

    def tool(self, name, body):
        (self.tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{self.log}\n{body}\n')
        (self.tools / name).chmod(0o755)

    def fails_first(self, name, then):
        return f"test -e {self.folder}/{name} && {{ {then}; exit; }}; touch {self.folder}/{name}; exit 1"

    def mounted(self):
        return f'touch {self.folder}/mounted-"${{1##*/}}"'

    def here(self, item):
        preferred = self.here(item.preferred) if item.preferred else None
        return item._replace(mount_point=f"{self.folder}{item.mount_point}", preferred=preferred)

    def boot(self, *storages):
        here = [self.here(item) for item in storages]
        (self.folder / "fstab").touch()
        self.log.touch()
        script = boot.boot_script(here, "ubuntu").replace("/etc/fstab", f"{self.folder}/fstab")
        done = subprocess.run(
            ["/bin/sh"], input=script, text=True, check=False, capture_output=True, env={"PATH": str(self.tools)}, timeout=300
        )
        calls = [line.replace(str(self.folder), "") for line in self.log.read_text().splitlines()]
        return done, [call for call in calls if call.split()[0] in ("apt-get", "dnf", "mount", "umount", "chown", "systemctl")]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_boot_tries_again_until_the_client_is_there_and_the_storage_is_mounted(host):
    """The first attempts to install the client and to mount the storage fail."""
    install = host.fails_first("install", f"ln {host.tools}/mount {host.tools}/mount.nfs4")
    host.tool("apt-get", f'[ "$1" = update ] || {{ {install}; }}')
    host.tool("mount", host.fails_first("mount", host.mounted()))
    done, calls = host.boot(PLAIN)
    assert done.returncode == 0
    assert [call.split()[0] for call in calls] == ["apt-get", "apt-get", "apt-get", "apt-get", "mount", "mount", "chown"]
    assert (host.folder / "fstab").read_text().startswith(SOURCE)


def test_boot_gives_up_after_15_minutes(host):
    """A stub advances the clock by a minute at each pause."""
    host.tool("mount.nfs4", "")
    host.tool("mount", "exit 1")
    clock = host.folder / "clock"
    clock.write_text("0")
    (host.tools / "date").unlink()
    host.tool("date", f"cat {clock}")
    host.tool("sleep", f"read -r now <{clock}; echo $((now + 60)) >{clock}")
    done, calls = host.boot(PLAIN)
    assert (done.returncode, calls) == (1, ["mount /efs"] * 16)
    assert "Timed out after 900 s waiting for all shared storage to be mounted." in done.stderr


def test_boot_goes_on_without_a_client_that_the_distribution_lacks(host):
    """The script mounts the remaining storage, and does not spend 15 minutes on retries of the installation."""
    host.tool("apt-get", "")
    host.tool("mount", host.mounted())
    host.tool("mount.nfs4", "")
    done, calls = host.boot(LUSTRE, PLAIN)
    assert calls == ["mount /efs", "chown ubuntu: /efs"]
    assert done.returncode == 1
    assert "nothing is mounted at" in done.stderr
    assert "no Lustre client" in done.stderr


def test_boot_leaves_the_owner_of_an_adopted_file_system_alone(host):
    """The file system belongs to another owner. If root is squashed, the script cannot change the owner at all."""
    host.tool("mount", host.mounted())
    host.tool("mount.nfs4", "")
    host.tool("mount.lustre", "")
    done, calls = host.boot(PLAIN._replace(adopted=True), LUSTRE)
    assert done.returncode == 0
    assert calls == ["mount /efs", "mount /fsx", "chown ubuntu: /fsx"]


def test_boot_mounts_a_bucket_and_changes_nothing_in_it(host):
    host.tool("mount", host.mounted())
    host.tool("mount.mount-s3", "")
    done, calls = host.boot(BUCKET)
    assert (done.returncode, calls) == (0, ["mount /data"])


def test_boot_takes_tls_where_its_client_is(host):
    """A host on which the client is installed later keeps its first fstab entry, because a mount point must have only one entry."""
    host.tool("mount", host.mounted())
    host.tool("mount.nfs4", "")
    for with_client in (False, True):
        if with_client:
            host.tool("mount.efs", "")
        done, calls = host.boot(EITHER)
        assert (done.returncode, done.stderr) == (0, "")
        assert (host.folder / "fstab").read_text() == host.here(PLAIN).entry + "\n"
    assert calls.count("mount /efs") == 1
    assert not [call for call in calls if call.startswith("apt-get")], "the script does not install a client that is only preferred"
    (host.folder / "fstab").unlink()
    for _boot in range(2):
        assert host.boot(EITHER)[0].returncode == 0
        assert (host.folder / "fstab").read_text() == host.here(TLS).entry + "\n"


def test_boot_installs_what_amazon_linux_has(host):
    host.tool("dnf", f"ln {host.tools}/mount {host.tools}/mount.lustre; ln {host.tools}/mount {host.tools}/mount.efs")
    host.tool("mount", host.mounted())
    done, calls = host.boot(TLS, LUSTRE)
    assert done.returncode == 0
    assert calls == ["dnf install -y -q amazon-efs-utils", "mount /efs", "chown ubuntu: /efs", "mount /fsx", "chown ubuntu: /fsx"]


OLD = "fs-0aaaaaaaaaaaaaaaa:/ /efs efs tls,noresvport,nosuid,nodev,_netdev,nofail 0 0"


@pytest.fixture
def image(host):
    """A host that was launched from an image of a node of another cluster, whose storage systemd has mounted."""
    host.tool("mount", host.mounted())
    host.tool("umount", f'test ! -e {host.folder}/busy && rm {host.folder}/mounted-"${{1##*/}}"')
    host.tool("mount.nfs4", "")
    (host.folder / "fstab").write_text(f"LABEL=root / ext4 defaults 0 1\n{OLD.replace('/efs', f'{host.folder}/efs')}\n")
    (host.folder / "mounted-efs").touch()
    return host


def test_boot_replaces_the_entry_and_the_mount_of_the_cluster_from_which_the_image_was_made(image):
    old = (image.folder / "fstab").read_text()
    done, calls = image.boot(PLAIN)
    assert done.returncode == 0
    assert calls == [
        "systemctl stop efs.automount efs.mount",
        "systemctl daemon-reload",
        "umount /efs",
        "mount /efs",
        "chown ubuntu: /efs",
    ]
    assert (image.folder / "fstab").read_text() == f"LABEL=root / ext4 defaults 0 1\n{image.here(PLAIN).entry}\n"
    assert (image.folder / "fstab.before-deeplearning").read_text() == old
    assert "older entries are replaced: fs-0aaaaaaaaaaaaaaaa:/" in done.stderr
    assert image.boot(PLAIN)[0].stderr == "", "the next boot replaces nothing"


def test_boot_does_not_hand_out_the_storage_of_another_cluster(image):
    (image.folder / "busy").touch()
    done, calls = image.boot(PLAIN)
    assert done.returncode == 1
    assert calls[-1] == "umount /efs"
    assert "the storage of the older entry is still mounted" in done.stderr
