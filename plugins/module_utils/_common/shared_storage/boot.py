# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the cloud-config that mounts shared storage when hosts boot, with the same fstab entries as the role."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from .mounts import TYPES, FstabMount

# Seconds for which the boot service retries. DNS names of new mount targets take up to 90 s to appear.
BOOT_TIMEOUT = 900

SCRIPT_PATH = "/usr/local/sbin/deeplearning-shared-storage"
UNIT = "deeplearning-shared-storage.service"

# A host that was launched without the preferred client keeps its fstab entry when the client is installed later.
ADD_PREFERRED = f"""add_preferred() {{ # entry that needs {TYPES["efs"].helper}, entry that does not, mount point
  if command -v {TYPES["efs"].helper} >/dev/null && ! grep -qxF "$2" /etc/fstab; then add "$1" "$3"; else add "$2" "$3"; fi
}}
"""


REPLACE_OLDER = r"""replace_older() { # entry, mount point
  others='{ point = $2; if (point != "/") sub(/\/+$/, "", point) } ($0 !~ /^[ \t]*#/ && point == at && $0 != entry) == older'
  replaced=$(awk -v at="$2" -v entry="$1" -v older=1 "$others" /etc/fstab)
  [ -n "$replaced" ] || return 0
  echo "/etc/fstab: older entries are replaced: $replaced. The old file is /etc/fstab.before-deeplearning." >&2
  cp -p --backup=numbered /etc/fstab /etc/fstab.before-deeplearning
  awk -v at="$2" -v entry="$1" -v older=0 "$others" /etc/fstab >/etc/fstab.new && cat /etc/fstab.new >/etc/fstab
  rm -f /etc/fstab.new
  unit=$(systemd-escape --path "$2")
  systemctl stop "$unit.automount" "$unit.mount"
  systemctl daemon-reload
  if mountpoint -q "$2" && ! umount "$2"; then
    echo "$2: the storage of the older entry is still mounted. Stop the processes that use it, and reboot." >&2
    exit 1
  fi
}
"""


def boot_script(storages: Sequence[FstabMount], user: str) -> str:
    """Return the shell script that mounts shared storage at boot. For BOOT_TIMEOUT seconds, the script retries, with increasing pauses.

    If a client is missing and the distribution does not provide it, the script skips that storage without retrying.
    """
    attempts = "\n".join(f"  {_attempt(storage)} || status=1" for storage in storages)
    entries = "\n".join(_addition(storage) for storage in storages)
    preferring = ADD_PREFERRED if any(storage.preferred for storage in storages) else ""
    return f"""#!/bin/sh
# Mounts the cluster's shared storage; safe to run again.
missing=
# An image of a node can contain the entry of another cluster, whose storage may already be mounted.
{REPLACE_OLDER}add() {{ # entry, mount point
  replace_older "$1" "$2"
  grep -qxF "$1" /etc/fstab || printf '%s\\n' "$1" >>/etc/fstab
  mkdir -p "$2"
}}
{preferring}# Hosts in a private subnet may not reach the package servers yet, so a failed installation is retried.
install_client() {{ # apt package, dnf package
  if command -v apt-get >/dev/null; then
    [ -n "$1" ] || return 2
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$1"
  else
    dnf install -y -q "$2"
  fi
}}
attempt() {{ # mount point, mount helper, apt package, dnf package, advice, non-empty if the storage is adopted
  case " $missing " in *" $1 "*) return 0 ;; esac
  if ! mountpoint -q "$1"; then
    if ! command -v "$2" >/dev/null; then
      install_client "$3" "$4"
      case $? in
        0) ;;
        2) echo "nothing is mounted at $1: $5" >&2; missing="$missing $1"; return 0 ;;
        *) return 1 ;;
      esac
    fi
    # After SIGINT, the EFS client cleans up. After SIGTERM, its proxy would continue to run.
    timeout --signal=INT --kill-after=5 60 mount "$1" || return 1
  fi
  [ -n "$6" ] || chown {shlex.quote(user)}: "$1"
}}
attempt_all() {{
  status=0
{attempts}
  return $status
}}
{entries}
end=$(($(date +%s) + {BOOT_TIMEOUT}))
pause=1
until attempt_all; do
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "Timed out after {BOOT_TIMEOUT} s waiting for all shared storage to be mounted." >&2
    exit 1
  fi
  sleep "$pause"
  pause=$((pause < 30 ? pause * 2 : 30))
done
[ -z "$missing" ]
"""


def _attempt(storage: FstabMount) -> str:
    client = storage.client
    amazon = client.packages.get("Amazon") or client.packages.get("RedHat", "")
    owner = "adopted" if storage.adopted else ""
    return shlex.join(["attempt", storage.mount_point, client.helper, client.packages.get("Debian", ""), amazon, client.advice, owner])


def boot_unit() -> str:
    """Return the systemd unit that runs the script at every boot without delaying the boot.

    The script starts the tunnels of EFS mounts. These tunnels continue to run after the script has exited.
    """
    return f"""[Unit]
Description=Shared storage of the cluster
Wants=network-online.target
After=network-online.target remote-fs.target

[Service]
Type=oneshot
RemainAfterExit=yes
KillMode=process
TimeoutStartSec=infinity
ExecStart={SCRIPT_PATH}

[Install]
WantedBy=multi-user.target
"""


def cloud_config(storages: Sequence[FstabMount], user: str) -> dict[str, Any]:
    """Return the part of a cloud-config that mounts shared storage in the background at boot, with the role's fstab entries."""
    if not storages:
        return {}
    return {
        "write_files": [
            {"path": SCRIPT_PATH, "permissions": "0755", "content": boot_script(storages, user)},
            {"path": "/etc/systemd/system/" + UNIT, "permissions": "0644", "content": boot_unit()},
        ],
        "runcmd": [
            ["systemctl", "daemon-reload"],
            ["systemctl", "enable", UNIT],
            ["systemctl", "start", "--no-block", UNIT],
        ],
    }


def replace_in_script(script: str, storage: FstabMount, alternative: FstabMount) -> str:
    """Return the boot script with the fstab entry of `alternative` in place of the existing entry for the mount point.

    A host keeps the script that it was launched with. Without the replacement, that script would add the old entry again at the next boot.
    A script that chooses the entry itself is returned unchanged.
    """
    if _addition(storage) in script.splitlines():
        return script
    word = r"('[^'\n]*'|[^'\s]+)"
    pattern = rf"(?m)^add(_preferred {word})? {word} {re.escape(shlex.quote(storage.mount_point))}$"
    line = _addition(alternative)
    return re.sub(pattern, lambda _match: line, script)


def _addition(storage: FstabMount) -> str:
    function = ["add_preferred", storage.preferred.entry] if storage.preferred else ["add"]
    return shlex.join([*function, storage.entry, storage.mount_point])
