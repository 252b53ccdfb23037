# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""How hosts mount the shared file system: the fstab entry, what cloud-init does with it at boot, and what the mount table says."""

from __future__ import annotations

import re
import shlex
from typing import Any, NamedTuple

#: Recommended by https://docs.aws.amazon.com/efs/latest/ug/mounting-fs-nfs-mount-settings.html; a boot goes on without the storage.
EFS_OPTIONS = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,_netdev,nofail"

#: Seconds that the boot service goes on trying: DNS names of new mount targets take up to 90 s to appear.
BOOT_TIMEOUT = 900

SCRIPT_PATH = "/usr/local/sbin/deeplearning-shared-storage"
UNIT = "deeplearning-shared-storage.service"


class Mount(NamedTuple):
    """One line of the mount table; C(root) is the folder of the file system that is mounted."""

    source: str
    kind: str
    root: str


def efs_source(file_system_id: str, region: str) -> str:
    """Return what mount(8) calls the file system: its DNS name, which finds the mount target of the host's own zone, and the root."""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{file_system_id}.efs.{region}.{suffix}:/"


def fstab_entry(file_system_id: str, region: str, mount_point: str) -> str:
    """Return the line of /etc/fstab, without its end. Raises ValueError when the mount point is not a plain absolute path."""
    if not re.match(r"^(/[A-Za-z0-9._-]+)+$", mount_point):
        raise ValueError(f"mount point {mount_point!r}: must be an absolute path of letters, digits, '.', '_' and '-'")
    return f"{efs_source(file_system_id, region)} {mount_point} nfs4 {EFS_OPTIONS} 0 0"


def replace_entry(fstab: str, mount_point: str, entry: str) -> str:
    """Return the text of /etc/fstab with I(entry) as the only one for the mount point; an empty entry removes it.

    Raises ValueError when another kind of file system has the mount point: that is somebody else's.
    """
    lines = []
    placed = not entry
    for line in fstab.splitlines():
        fields = line.split("#", 1)[0].split()
        if len(fields) < 3 or fields[1] != mount_point:
            lines.append(line)
            continue
        if not fields[2].startswith("nfs"):
            raise ValueError(f"/etc/fstab already has {fields[0]} at {mount_point}: choose another mount point, or remove that line")
        if not placed:
            lines.append(entry)
            placed = True
    if not placed:
        lines.append(entry)
    return "".join(line + "\n" for line in lines)


def mounted_at(mountinfo: str, mount_point: str) -> Mount | None:
    """Return what /proc/self/mountinfo says is mounted there (the topmost), None when nothing is."""
    found = None
    for line in mountinfo.splitlines():
        place, _separator, rest = line.partition(" - ")
        fields, kind_and_source = place.split(), rest.split()
        if len(fields) > 4 and len(kind_and_source) > 1 and _unescape(fields[4]) == mount_point:
            found = Mount(_unescape(kind_and_source[1]), kind_and_source[0], _unescape(fields[3]))
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def is_mount_of(mount: Mount, source: str) -> bool:
    """Return whether that is the file system I(source).

    The kernel names a bind mount after the file system that holds the folder, so its source says nothing: somebody made it on
    purpose, and it is taken for what it should be.
    """
    if mount.kind.startswith("nfs"):
        return mount.source == source
    return mount.root != "/"


def explain(output: str, source: str) -> str:
    """Return what to do about a mount command that failed with I(output)."""
    server = source.split(":", 1)[0]
    if re.search(r"resolve|Name or service not known|Temporary failure in name", output):
        return (
            f"{server} has no address here: the file system has no mount target in its zone and VPC yet, its id or region is wrong, "
            "or the VPC has DNS support or DNS host names switched off"
        )
    if re.search(r"timed? ?out|status 124", output, re.IGNORECASE):
        return f"{server} does not answer: the mount target's security group must let this host in on TCP port 2049"
    if re.search(r"access denied|Permission denied|Operation not permitted", output, re.IGNORECASE):
        return f"{server} refuses this host: see the file system's policy (plain NFS is anonymous and not encrypted in transit)"
    if re.search(r"No such device|unknown filesystem type|bad option; for several filesystems", output):
        return "this host has no NFS client: install the package nfs-common (Debian, Ubuntu) or nfs-utils (Amazon Linux)"
    return "mount says: {0}".format(output.strip() or "nothing")


def boot_script(file_system_id: str, region: str, mount_point: str, user: str) -> str:
    """Return the shell script that mounts at boot, trying again with growing pauses for BOOT_TIMEOUT seconds."""
    entry = fstab_entry(file_system_id, region, mount_point)
    return f"""#!/bin/sh
# Mounts the cluster's shared storage; safe to run again.
mount_point={shlex.quote(mount_point)}
entry={shlex.quote(entry)}
grep -qxF "$entry" /etc/fstab || printf '%s\\n' "$entry" >>/etc/fstab
mkdir -p "$mount_point"
# A private subnet may not reach the package servers yet: installing is tried again like mounting.
has_client() {{
  command -v mount.nfs4 >/dev/null && return
  if command -v apt-get >/dev/null; then
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q nfs-common
  else
    dnf install -y -q nfs-utils
  fi
}}
end=$(($(date +%s) + {BOOT_TIMEOUT}))
pause=1
until mountpoint -q "$mount_point" || {{ has_client && timeout 60 mount "$mount_point"; }}; do
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "no shared storage at $mount_point after {BOOT_TIMEOUT} s" >&2
    exit 1
  fi
  sleep "$pause"
  pause=$((pause < 30 ? pause * 2 : 30))
done
chown {shlex.quote(user)}: "$mount_point"
"""


def boot_unit() -> str:
    """Return the systemd unit that runs the script at every boot without holding the boot up."""
    return f"""[Unit]
Description=Shared storage of the cluster
Wants=network-online.target
After=network-online.target remote-fs.target

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=infinity
ExecStart={SCRIPT_PATH}

[Install]
WantedBy=multi-user.target
"""


def cloud_config(file_system_id: str, region: str, mount_point: str, user: str) -> dict[str, Any]:
    """Return the part of a cloud-config that mounts the file system at boot, in the background, with the role's own fstab entry."""
    return {
        "write_files": [
            {"path": SCRIPT_PATH, "permissions": "0755", "content": boot_script(file_system_id, region, mount_point, user)},
            {"path": "/etc/systemd/system/" + UNIT, "permissions": "0644", "content": boot_unit()},
        ],
        "runcmd": [
            ["systemctl", "daemon-reload"],
            ["systemctl", "enable", UNIT],
            ["systemctl", "start", "--no-block", UNIT],
        ],
    }
