#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: shared_storage
version_added: 0.1.0
short_description: Mount the cluster's EFS or Lustre file system on a host
description:
  - Runs on the host. Makes the entry of C(/etc/fstab), mounts it, verifies in the mount table that the right file system is there,
    and gives the mount point to the login user, all in one run.
  - Tries again for a while, because the DNS names of new mount targets take time to appear.
  - Fails where the host lacks the client that the kind of file system needs, and says which one that is.
  - The entry is the one that nodes of M(deeplearning.cluster.node_group) get at boot.
  - An action plugin of the same name first looks at the host by one shell command, and runs the module where not everything is right.
options:
  file_system_id:
    description:
      - Id of the EFS file system. Exactly one of this and O(lustre_source) is required with O(state=present).
    type: str
  region:
    description:
      - Region of the EFS file system, required with O(file_system_id).
    type: str
  dns_suffix:
    description:
      - End of the file system's DNS name, which is that of the region's partition.
      - The action plugin of the same name takes it from the region.
    type: str
    default: amazonaws.com
  address:
    description:
      - Address of the mount target, for hosts to whom the file system's DNS name says nothing, such as those in another VPC.
    type: str
  encrypt_in_transit:
    description:
      - Whether EFS is mounted through TLS, by C(amazon-efs-utils).
    type: bool
    default: false
  lustre_source:
    description:
      - What is mounted of FSx for Lustre, C(DNS-NAME@tcp:/MOUNT-NAME).
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
  adopted:
    description:
      - Whether the file system belongs to somebody else. Its root folder keeps its owner then, and O(owner) has to be able to write there.
    type: bool
    default: false
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

- name: Mount a Lustre file system
  deeplearning.cluster.shared_storage:
    lustre_source: fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh
    path: /fsx
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
  description: Whether the host lacks the client, which is why nothing could be mounted.
  returned: always
  type: bool
client_packages:
  description: The client's package in a distribution's own repositories, by the name of the distribution or of its family.
  returned: when the client is missing
  type: dict
  sample: {"Debian": "nfs-common", "RedHat": "nfs-utils"}
"""

import glob
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._files import THIS, Host, HostFile, agree, converge
from ansible_collections.deeplearning.cluster.plugins.module_utils.storage import (
    DNS_SUFFIX,
    SAFE_OPTIONS,
    SCRIPT_PATH,
    TUNNEL,
    UNIT,
    Mount,
    Storage,
    efs,
    explain,
    is_mount_of,
    is_shared,
    lustre,
    mounted_at,
    replace_entry,
    replace_in_script,
    tunnel_state,
)

FSTAB = "/etc/fstab"
MOUNTS = "/proc/self/mountinfo"
#: What is_right() asks for, beside the mount point.
PATHS = (FSTAB, MOUNTS, SCRIPT_PATH)
#: Seconds that one attempt may take; a mount target that drops packets would hold it for minutes.
ATTEMPT = 20
LONGEST_PAUSE = 15.0

SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "file_system_id": {"type": "str"},
        "region": {"type": "str"},
        "dns_suffix": {"type": "str", "default": DNS_SUFFIX},
        "address": {"type": "str"},
        "encrypt_in_transit": {"type": "bool", "default": False},
        "lustre_source": {"type": "str"},
        "path": {"type": "path", "default": "/efs"},
        "owner": {"type": "str"},
        "adopted": {"type": "bool", "default": False},
        "timeout": {"type": "int", "default": 180},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    },
    "required_if": [("state", "present", ["owner"]), ("state", "present", ["file_system_id", "lustre_source"], True)],
    "required_by": {"file_system_id": ["region"]},
    "mutually_exclusive": [("file_system_id", "lustre_source")],
}


def main() -> None:
    os.umask(0o022)  # on hardened hosts it would hide from the jobs' user what is made here
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    try:
        if module.params["state"] == "present":
            ensure_present(module)
        else:
            ensure_absent(module)
    except (ValueError, OSError) as error:
        module.fail_json(msg=f"shared storage: {error}", client_missing=False)


def described(params: dict[str, Any]) -> Storage:
    """Return the shared storage that the parameters describe."""
    if params["lustre_source"]:
        return lustre(params["lustre_source"], params["path"])._replace(adopted=params["adopted"])
    address, encrypted = params["address"], params["encrypt_in_transit"]
    suffix = params["dns_suffix"]
    return efs(
        params["file_system_id"], params["region"], params["path"], address=address, encrypted=encrypted, dns_suffix=suffix
    )._replace(adopted=params["adopted"])


def ensure_present(module: AnsibleModule) -> None:
    """Make entry, mount and owner right, and end the module."""
    params = module.params
    path = params["path"]
    THIS.account(params["owner"])
    storage = described(params)
    mount = current_mount(path)
    check_mount(mount, storage)
    client = storage.client
    if mount is None and not module.check_mode and module.get_bin_path(client.helper, opt_dirs=["/sbin", "/usr/sbin"]) is None:
        module.fail_json(msg=f"shared storage: {client.advice}", client_missing=True, client_packages=client.packages)

    diff: list[dict[str, Any]] = list(converge(module, files(storage, THIS)))
    if diff and not module.check_mode:
        module.run_command(["systemctl", "daemon-reload"])
    if mount is None:
        diff.append(mount_difference(path, "", storage.source))
        if not module.check_mode:
            mount_in_time(module, storage)
    elif not mount.is_safe:
        diff.append(mount_difference(path, mount.options, f"{mount.options},{SAFE_OPTIONS}"))
        if not module.check_mode:
            make_safe(module, path)
    known = mount is not None or not module.check_mode
    if not storage.adopted:
        diff += ensure_owner(module, path, params["owner"], known=known)
    elif known:
        check_writable(module, path, params["owner"])
    module.exit_json(changed=bool(diff), diff=diff, **facts(storage))


def files(storage: Storage, host: Host) -> list[HostFile]:
    """Return /etc/fstab and, where there is one, the boot script, with the storage in them.

    Raises ValueError when another kind of file system has the mount point.
    """
    script = host.read(SCRIPT_PATH)
    result = [HostFile(FSTAB, replace_entry(host.read(FSTAB) or "", storage.mount_point, storage.entry), in_place=True)]
    return result if script is None else [*result, HostFile(SCRIPT_PATH, replace_in_script(script, storage), mode=0o755)]


def facts(storage: Storage) -> dict[str, Any]:
    """Return what the module tells of a host that has the storage."""
    return {"source": storage.source, "client_missing": False}


def is_right(params: dict[str, Any], host: Host) -> bool:
    """Return whether nothing has to be changed. Raises ValueError as the module itself would.

    Where a tunnel leads to cannot be told by what is mounted, so that a mount through one is never found right here.
    """
    storage = described(params)
    mount = mounted_at(host.read(MOUNTS) or "", storage.mount_point)
    if mount is None or mount.source == TUNNEL or not mount.is_safe or not is_mount_of(mount, storage):
        return False
    root, owner = host.find(storage.mount_point), host.account(params["owner"])
    if root is None or not agree(files(storage, host), host):
        return False
    owned = (root.uid, root.gid) == (owner.uid, owner.gid)
    return owned or (storage.adopted and bool(root.mode & (0o200 if root.uid == owner.uid else 0o020 if root.gid == owner.gid else 0o002)))


def ensure_absent(module: AnsibleModule) -> None:
    """Take mount, entry and boot service away, and end the module."""
    path = module.params["path"]
    diff = []
    mount = current_mount(path)
    if mount is not None and (is_shared(mount.kind) or has_shared_entry(path)):
        diff.append(mount_difference(path, mount.source, ""))
        if not module.check_mode:
            status, _output, error = module.run_command(["umount", path])
            if status != 0:
                module.fail_json(msg=f"cannot unmount {path}: {error.strip()}", client_missing=False)
    if not module.check_mode and os.path.exists("/etc/systemd/system/" + UNIT):
        module.run_command(["systemctl", "disable", UNIT])
    absent = [HostFile(FSTAB, replace_entry(THIS.read(FSTAB) or "", path, ""), in_place=True)]
    absent += [HostFile(name, None) for name in ("/etc/systemd/system/" + UNIT, SCRIPT_PATH)]
    changed_files = converge(module, absent)
    if changed_files and not module.check_mode:
        module.run_command(["systemctl", "daemon-reload"])
    diff += changed_files
    module.exit_json(changed=bool(diff), diff=diff, client_missing=False)


def has_shared_entry(path: str) -> bool:
    """Return whether /etc/fstab mounts shared storage at I(path)."""
    fields = [line.split() for line in (THIS.read(FSTAB) or "").splitlines()]
    return any(len(field) > 2 and field[1] == path and is_shared(field[2]) for field in fields)


def current_mount(path: str) -> Mount | None:
    """Return what is mounted at I(path)."""
    return mounted_at(THIS.read(MOUNTS) or "", path)


def check_mount(mount: Mount | None, storage: Storage) -> None:
    """Raise ValueError when something else is mounted: it may be in use, so it is not taken away."""
    if mount is None:
        return
    tunnel = storage.kind == "efs" and mount.source == TUNNEL
    if not is_mount_of(mount, storage) or (tunnel and not glob.glob(tunnel_state(storage))):
        raise ValueError(
            f"{mount.source} is mounted at {storage.mount_point}, expected {storage.source} as {storage.kind}: "
            "unmount it, or choose another mount point"
        )


def mount_difference(path: str, before: str, after: str) -> dict[str, str]:
    """Return the Ansible diff of a mount."""
    header = f"mounted at {path}"
    return {"before_header": header, "after_header": header, "before": before and before + "\n", "after": after and after + "\n"}


def mount_in_time(module: AnsibleModule, storage: Storage) -> None:
    """Mount what fstab says, with growing pauses until it works or the time is over. The boot service may be quicker."""
    path = storage.mount_point
    os.makedirs(path, mode=0o755, exist_ok=True)
    if os.listdir(path) and current_mount(path) is None:
        module.warn(f"{path} contains files on the host's own disk; the shared storage hides them")
    end = time.monotonic() + module.params["timeout"]
    pause = 1.0
    while True:
        status, output, error = module.run_command(["timeout", str(ATTEMPT), "mount", path])
        mount = current_mount(path)
        if mount is not None:
            check_mount(mount, storage)
            return
        if time.monotonic() + pause > end:
            reason = explain(f"{output}{error} status {status}", storage)
            raise ValueError("{0} is not mounted at {1} after {2} s: {3}".format(storage.source, path, module.params["timeout"], reason))
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def make_safe(module: AnsibleModule, path: str) -> None:
    """Switch setuid files and devices off on what is mounted; files that are open stay open.

    A bind remount changes this mount alone. The helpers of NFS and EFS would refuse another set of options on a live connection.
    The other options stay as they are; mount would take those of fstab if it were not told the source as well.
    """
    before = current_mount(path)
    if before is None:
        raise ValueError(f"{path} is not mounted any more. Run again.")
    command = ["mount", "--internal-only", "-o", f"remount,bind,{before.options},{SAFE_OPTIONS}", before.source, path]
    _status, output, error = module.run_command(command)
    mount = current_mount(path)
    if mount is None or not mount.is_safe:
        reason = (error or output).strip() or "mount says nothing"
        raise ValueError(
            f"{path} is mounted without {SAFE_OPTIONS} and cannot be remounted ({reason}). When no job runs, unmount it and run again."
        )


def check_writable(module: AnsibleModule, path: str, owner: str) -> None:
    """Raise ValueError when the user cannot write into the mounted root folder, which somebody else owns."""
    status, _output, _error = module.run_command(["runuser", "-u", owner, "--", "test", "-w", path])
    if status != 0:
        root, uid = os.stat(path), THIS.account(owner).uid
        whose = f"belongs to {root.st_uid}:{root.st_gid} with mode {root.st_mode & 0o7777:04o}"
        raise ValueError(
            f"{owner} cannot write to {path}, which {whose}, and an adopted file system is not changed. "
            f"Let its owner give that folder to uid {uid}, or let that user write there"
        )


def ensure_owner(module: AnsibleModule, path: str, owner: str, known: bool) -> list[dict[str, Any]]:
    """Give the mounted root folder to its owner; who owns it is not known while it is not mounted."""
    if not known:
        return []
    user = THIS.account(owner)
    status = os.stat(path)
    if (status.st_uid, status.st_gid) == (user.uid, user.gid):
        return []
    if not module.check_mode:
        os.chown(path, user.uid, user.gid)
    header = f"owner of {path}"
    before = f"{status.st_uid}:{status.st_gid}\n"
    return [{"before_header": header, "after_header": header, "before": before, "after": f"{user.uid}:{user.gid}\n"}]


if __name__ == "__main__":
    main()
