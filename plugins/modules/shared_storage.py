#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: shared_storage
version_added: 0.1.0
short_description: Mount the cluster's EFS file system on a host
description:
  - Runs on the host. Makes the entry of C(/etc/fstab), mounts it, verifies in the mount table that the right file system is there,
    and gives the mount point to the login user, all in one run.
  - Tries again for a while, because the DNS names of new mount targets take time to appear.
  - The entry is the one that nodes of M(deeplearning.cluster.node_group) get at boot.
options:
  file_system_id:
    description:
      - Id of the EFS file system.
      - Required with O(state=present).
    type: str
  region:
    description:
      - Region of the file system.
      - Required with O(state=present).
    type: str
  path:
    description:
      - The mount point.
    type: path
    default: /efs
  owner:
    description:
      - The login user, who owns the root folder of the file system.
      - Required with O(state=present).
    type: str
  timeout:
    description:
      - How long to go on trying to mount, in seconds.
    type: int
    default: 180
  state:
    description:
      - V(present) mounts now and at boot.
      - V(absent) unmounts and removes the entry and the boot service. What the file system contains stays.
    type: str
    choices:
      - present
      - absent
    default: present
attributes:
  check_mode:
    description: Predicts the changes and mounts nothing.
    support: full
  diff_mode:
    description: Shows the entry and what is mounted.
    support: full
  idempotent:
    description: A host that has the storage is not changed.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Mount the shared storage
  deeplearning.cluster.shared_storage:
    file_system_id: fs-0123456789abcdef0
    region: us-east-1
    path: /efs
    owner: ubuntu
  become: true
"""

RETURN = r"""
source:
  description: What is mounted.
  returned: with O(state=present)
  type: str
  sample: fs-0123456789abcdef0.efs.us-east-1.amazonaws.com:/
client_missing:
  description: Whether the host lacks an NFS client, which is why nothing could be mounted.
  returned: always
  type: bool
"""

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._files import HostFile, account, converge, read_text
from ansible_collections.deeplearning.cluster.plugins.module_utils.storage import (
    SCRIPT_PATH,
    UNIT,
    Mount,
    efs_source,
    explain,
    fstab_entry,
    is_mount_of,
    mounted_at,
    replace_entry,
)

FSTAB = "/etc/fstab"
#: Seconds that one attempt may take; a mount target that drops packets would hold it for minutes.
ATTEMPT = 20
LONGEST_PAUSE = 15.0


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "file_system_id": {"type": "str"},
            "region": {"type": "str"},
            "path": {"type": "path", "default": "/efs"},
            "owner": {"type": "str"},
            "timeout": {"type": "int", "default": 180},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["file_system_id", "region", "owner"])],
        supports_check_mode=True,
    )
    try:
        if module.params["state"] == "present":
            ensure_present(module)
        else:
            ensure_absent(module)
    except (ValueError, OSError) as error:
        module.fail_json(msg=f"shared storage: {error}", client_missing=False)


def ensure_present(module: AnsibleModule) -> None:
    """Make entry, mount and owner right, and end the module."""
    params = module.params
    path = params["path"]
    account(params["owner"])
    source = efs_source(params["file_system_id"], params["region"])
    entry = fstab_entry(params["file_system_id"], params["region"], path)
    mount = current_mount(path)
    check_mount(mount, path, source)
    if mount is None and not module.check_mode and module.get_bin_path("mount.nfs4", opt_dirs=["/sbin", "/usr/sbin"]) is None:
        module.fail_json(msg=explain("unknown filesystem type", source), client_missing=True)

    diff = converge(module, [HostFile(FSTAB, replace_entry(read_text(FSTAB) or "", path, entry), in_place=True)])
    if diff and not module.check_mode:
        module.run_command(["systemctl", "daemon-reload"])
    if mount is None:
        diff.append(mount_difference(path, "", source))
        if not module.check_mode:
            mount_in_time(module, path, source)
    diff += ensure_owner(module, path, params["owner"], known=mount is not None or not module.check_mode)
    module.exit_json(changed=bool(diff), diff=diff, source=source, client_missing=False)


def ensure_absent(module: AnsibleModule) -> None:
    """Take mount, entry and boot service away, and end the module."""
    path = module.params["path"]
    diff = []
    mount = current_mount(path)
    if mount is not None and (mount.kind.startswith("nfs") or has_nfs_entry(path)):
        diff.append(mount_difference(path, mount.source, ""))
        if not module.check_mode:
            status, _output, error = module.run_command(["umount", path])
            if status != 0:
                module.fail_json(msg=f"cannot unmount {path}: {error.strip()}", client_missing=False)
    if not module.check_mode and os.path.exists("/etc/systemd/system/" + UNIT):
        module.run_command(["systemctl", "disable", UNIT])
    files = [HostFile(FSTAB, replace_entry(read_text(FSTAB) or "", path, ""), in_place=True)]
    files += [HostFile(name, None) for name in ("/etc/systemd/system/" + UNIT, SCRIPT_PATH)]
    changed_files = converge(module, files)
    if changed_files and not module.check_mode:
        module.run_command(["systemctl", "daemon-reload"])
    diff += changed_files
    module.exit_json(changed=bool(diff), diff=diff, client_missing=False)


def has_nfs_entry(path: str) -> bool:
    """Return whether /etc/fstab mounts NFS at I(path)."""
    fields = [line.split() for line in (read_text(FSTAB) or "").splitlines()]
    return any(len(field) > 2 and field[1] == path and field[2].startswith("nfs") for field in fields)


def current_mount(path: str) -> Mount | None:
    """Return what is mounted at I(path)."""
    return mounted_at(read_text("/proc/self/mountinfo") or "", path)


def check_mount(mount: Mount | None, path: str, source: str) -> None:
    """Raise ValueError when something else is mounted: it may be in use, so it is not taken away."""
    if mount is not None and not is_mount_of(mount, source):
        raise ValueError(f"{mount.source} is mounted at {path}, expected {source}: unmount it, or choose another mount point")


def mount_difference(path: str, before: str, after: str) -> dict[str, str]:
    """Return the Ansible diff of a mount."""
    header = f"mounted at {path}"
    return {"before_header": header, "after_header": header, "before": before and before + "\n", "after": after and after + "\n"}


def mount_in_time(module: AnsibleModule, path: str, source: str) -> None:
    """Mount what fstab says, with growing pauses until it works or the time is over. The boot service may be quicker."""
    os.makedirs(path, mode=0o755, exist_ok=True)
    if os.listdir(path) and current_mount(path) is None:
        module.warn(f"{path} contains files on the host's own disk; the shared storage hides them")
    end = time.monotonic() + module.params["timeout"]
    pause = 1.0
    while True:
        status, output, error = module.run_command(["timeout", str(ATTEMPT), "mount", path])
        mount = current_mount(path)
        if mount is not None:
            check_mount(mount, path, source)
            return
        if time.monotonic() + pause > end:
            reason = explain(f"{output}{error} status {status}", source)
            raise ValueError("{0} is not mounted at {1} after {2} s: {3}".format(source, path, module.params["timeout"], reason))
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def ensure_owner(module: AnsibleModule, path: str, owner: str, known: bool) -> list[dict[str, Any]]:
    """Give the mounted root folder to its owner; who owns it is not known while it is not mounted."""
    if not known:
        return []
    user = account(owner)
    status = os.stat(path)
    if (status.st_uid, status.st_gid) == (user.pw_uid, user.pw_gid):
        return []
    if not module.check_mode:
        os.chown(path, user.pw_uid, user.pw_gid)
    header = f"owner of {path}"
    before = f"{status.st_uid}:{status.st_gid}\n"
    return [{"before_header": header, "after_header": header, "before": before, "after": f"{user.pw_uid}:{user.pw_gid}\n"}]


if __name__ == "__main__":
    main()
