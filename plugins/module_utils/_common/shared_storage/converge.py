# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Mounts or unmounts shared storage on this host. The action plugin uses the same functions to inspect other hosts."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ..managed_files import THIS, Account, FileState, HostFile, HostFiles, agree, converge
from .boot import SCRIPT_PATH, UNIT, replace_in_script
from .fstab import fstab_fields, older_entries, replace_entry
from .mount_errors import explain
from .mount_table import TUNNELS, MountTableEntry, automounts, mounted_alternative, mounted_at
from .mounts import DEAD, DNS_SUFFIX, KINDS, SAFE_OPTIONS, SOURCE_OPTIONS, FstabMount, is_shared

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

FSTAB = "/etc/fstab"
MOUNTS = "/proc/self/mountinfo"
# The paths that find_right() reads, in addition to the mount point.
PATHS = (FSTAB, MOUNTS, SCRIPT_PATH)
# The command that lists the tunnel files, which find_right() also needs.
LIST_TUNNELS = f"ls {TUNNELS}"
# Maximum duration of one mount attempt in seconds. Without a limit, a mount target that drops packets would block an attempt for minutes.
ATTEMPT = 20
LONGEST_PAUSE = 15.0


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "kind": {"type": "str", "choices": list(KINDS)},
        "source": {"type": "str"},
        **{option: {"type": "str"} for option in SOURCE_OPTIONS},
        "region": {"type": "str"},
        "dns_suffix": {"type": "str", "default": DNS_SUFFIX},
        "address": {"type": "str"},
        "access_point": {"type": "str"},
        "directory": {"type": "str"},
        "encrypt_in_transit": {"type": "bool"},
        "path": {"type": "path", "default": "/efs"},
        "owner": {"type": "str"},
        "adopted": {"type": "bool", "default": False},
        "timeout": {"type": "int", "default": 180},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    },
    "required_if": [
        ("state", "present", ["owner"]),
        ("state", "present", ["source", *SOURCE_OPTIONS], True),
        ("kind", "efs", ["region"]),
    ],
    "required_by": {"source": ["kind"], "file_system_id": ["region"]},
    "mutually_exclusive": [("source", *SOURCE_OPTIONS)],
}


def described(params: dict[str, Any]) -> FstabMount:
    named = [(kind, params[option]) for option, kind in SOURCE_OPTIONS.items() if params[option]]
    kind, source = next(iter(named), (params["kind"], params["source"]))
    return KINDS[kind](source, params)


def ensure_present(module: AnsibleModule) -> None:
    """Configure the fstab entry, the mount and its owner, and exit the module."""
    params = module.params
    path = params["path"]
    THIS.account(params["owner"])
    wanted = described(params)
    mount = working_mount(module, path)
    if mount is None:
        storage = mountable_way(module, wanted)
        if not module.check_mode and not has_client(module, storage):
            module.fail_json(msg=f"{path}: {storage.client.advice}", client_missing=True, client_packages=storage.client.packages)
    else:
        storage = check_mount(mount, wanted)

    diff: list[dict[str, Any]] = list(converge(module, files(wanted, storage, THIS)))
    if diff and not module.check_mode:
        stop_automount(module, path)
        module.run_command(["systemctl", "daemon-reload"])
    if mount is None:
        diff.append(mount_difference(path, "", storage.source))
        if module.check_mode:
            module.exit_json(changed=True, diff=diff, **facts(storage))
        mount_in_time(module, storage)
    elif not mount.is_safe:
        diff.append(mount_difference(path, mount.options, f"{mount.options},{SAFE_OPTIONS}"))
        if not module.check_mode:
            make_safe(module, path)
    if not storage.adopted:
        diff += ensure_owner(module, path, params["owner"])
    elif not storage.read_only:
        check_writable(module, path, params["owner"])
    module.exit_json(changed=bool(diff), diff=diff, **facts(storage))


def has_client(module: AnsibleModule, storage: FstabMount) -> bool:
    return module.get_bin_path(storage.client.helper, opt_dirs=["/sbin", "/usr/sbin"]) is not None


def mountable_way(module: AnsibleModule, wanted: FstabMount) -> FstabMount:
    """Return the best alternative whose client is installed on this host, or the simplest one if no client is installed."""
    return next((alternative for alternative in wanted.alternatives if has_client(module, alternative)), wanted.alternatives[-1])


def files(wanted: FstabMount, alternative: FstabMount, host: HostFiles) -> list[HostFile]:
    """Return /etc/fstab with `alternative` as the only entry for the mount point, and the boot script if the host has one."""
    script, fstab = host.read(SCRIPT_PATH), host.read(FSTAB) or ""
    content = replace_entry(fstab, alternative.mount_point, alternative.entry)
    result = [HostFile(FSTAB, content, in_place=True, replaced=older_entries(fstab, wanted))]
    return result if script is None else [*result, HostFile(SCRIPT_PATH, replace_in_script(script, wanted, alternative), mode=0o755)]


def facts(storage: FstabMount) -> dict[str, Any]:
    return {"source": storage.source, "client_missing": False}


def find_right(params: dict[str, Any], host: HostFiles, tunnels: Collection[str]) -> FstabMount | None:
    """Return the mounted storage if the host is in its desired state, otherwise None. Raises ValueError in the same cases as the module."""
    wanted = described(params)
    mount = mounted_at(host.read(MOUNTS) or "", wanted.mount_point)
    storage = mounted_alternative(mount, wanted, host.read(FSTAB) or "", tunnels) if mount and mount.is_safe else None
    root, owner = host.find(wanted.mount_point), host.account(params["owner"])
    if storage is None or root is None or not agree(files(wanted, storage, host), host):
        return None
    if storage.read_only or (root.uid, root.gid) == (owner.uid, owner.gid):
        return storage
    return storage if storage.adopted and _may_write(owner, root) else None


def _may_write(user: Account, folder: FileState) -> bool:
    return bool(folder.mode & (0o200 if folder.uid == user.uid else 0o020 if folder.gid == user.gid else 0o002))


def ensure_absent(module: AnsibleModule) -> None:
    """Remove the mount, its fstab entry and the boot service, and exit the module."""
    path = module.params["path"]
    diff = []
    mount = current_mount(path)
    if mount is not None and (mount.is_shared or has_shared_entry(path)):
        diff.append(mount_difference(path, mount.source, ""))
        if not module.check_mode:
            status, _output, error = module.run_command(["umount", path])
            if status != 0:
                advice = "Stop the processes that use this directory, and run the playbook again."
                module.fail_json(msg=f"{path}: the storage cannot be unmounted ({error.strip()}). {advice}", client_missing=False)
    if not module.check_mode and os.path.exists("/etc/systemd/system/" + UNIT):
        module.run_command(["systemctl", "disable", UNIT])
    absent = [HostFile(FSTAB, replace_entry(THIS.read(FSTAB) or "", path, ""), in_place=True)]
    absent += [HostFile(name, None) for name in ("/etc/systemd/system/" + UNIT, SCRIPT_PATH)]
    changed_files = converge(module, absent)
    if changed_files and not module.check_mode:
        module.run_command(["systemctl", "daemon-reload"])
    diff += changed_files
    module.exit_json(changed=bool(diff), diff=diff, client_missing=False)


def stop_automount(module: AnsibleModule, path: str) -> None:
    """Stop the automount of an older entry in /etc/fstab, which would otherwise mount its own storage when the path is opened."""
    if path in automounts(THIS.read(MOUNTS) or ""):
        _status, unit, _error = module.run_command(["systemd-escape", "--path", "--suffix=automount", path])
        module.run_command(["systemctl", "stop", unit.strip()])


def has_shared_entry(path: str) -> bool:
    entries = map(fstab_fields, (THIS.read(FSTAB) or "").splitlines())
    return any(fields and fields[1] == path and is_shared(fields[2]) for fields in entries)


def current_mount(path: str) -> MountTableEntry | None:
    return mounted_at(THIS.read(MOUNTS) or "", path)


def working_mount(module: AnsibleModule, path: str) -> MountTableEntry | None:
    """Return what is mounted at `path`. If nothing serves it any longer, unmount it and return None."""
    mount = current_mount(path)
    if mount is None or not is_dead(module, path):
        return mount
    if not module.check_mode:
        module.run_command(["umount", "--lazy", path])
    return None


def is_dead(module: AnsibleModule, path: str) -> bool:
    """Return whether the program or server that serves a mount no longer does. A server that does not answer in time may still return."""
    command = ["timeout", "--signal=KILL", str(ATTEMPT), "stat", path]
    _status, _output, error = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
    return any(os.strerror(number) in error for number in DEAD)


def check_mount(mount: MountTableEntry, wanted: FstabMount) -> FstabMount:
    """Return the alternative that matches the mounted storage. Raises ValueError if something else is mounted.

    If different storage is mounted at the mount point, it is never unmounted, because it may be in use.
    """
    tunnels = os.listdir(TUNNELS) if os.path.isdir(TUNNELS) else []
    alternative = mounted_alternative(mount, wanted, THIS.read(FSTAB) or "", tunnels)
    if alternative is None:
        through = f" through {wanted.access_point}" if wanted.access_point else ""
        expected = " or ".join(f"{alternative.source} as {alternative.kind}" for alternative in wanted.alternatives) + through
        raise ValueError(
            f"path: {mount.source} is mounted at {wanted.mount_point} instead of {expected}. Unmount {mount.source}, or choose another"
            " mount point."
        )
    return alternative


def mount_difference(path: str, before: str, after: str) -> dict[str, str]:
    header = f"mounted at {path}"
    return {"before_header": header, "after_header": header, "before": before and before + "\n", "after": after and after + "\n"}


def mount_in_time(module: AnsibleModule, storage: FstabMount) -> None:
    """Mount the storage as fstab specifies, and retry with increasing pauses until the timeout.

    The boot service may mount the storage before this function does.
    """
    path = storage.mount_point
    os.makedirs(path, mode=0o755, exist_ok=True)
    if os.listdir(path) and current_mount(path) is None:
        module.warn(f"{path} contains files on the host's own disk. The mounted shared storage hides these files.")
    end = time.monotonic() + module.params["timeout"]
    pause = 1.0
    while True:
        command = ["timeout", "--signal=INT", "--kill-after=5", str(ATTEMPT), "mount", path]
        status, output, error = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})  # `explain` reads English
        mount = current_mount(path)
        if mount is not None:
            check_mount(mount, storage)
            return
        if time.monotonic() + pause > end:
            reason = explain(f"{output}{error} status {status}", storage)
            raise ValueError(f"Timed out after {module.params['timeout']} s mounting {storage.source} at {path}: {reason}")
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def make_safe(module: AnsibleModule, path: str) -> None:
    """Remount the storage with `nosuid` and `nodev`. Open files stay open.

    A bind remount changes only this mount. The NFS and EFS mount helpers would reject new options on an active connection.
    The existing options are kept. The command contains the source because mount would otherwise use the options in fstab.
    """
    before = current_mount(path)
    if before is None:
        raise ValueError(f"{path}: the storage is no longer mounted. Run the playbook again.")
    command = ["mount", "--internal-only", "-o", f"remount,bind,{before.options},{SAFE_OPTIONS}", before.source, path]
    _status, output, error = module.run_command(command)
    mount = current_mount(path)
    if mount is None or not mount.is_safe:
        reason = (error or output).strip() or "mount reports no error"
        raise ValueError(
            f"{path}: the storage is mounted without {SAFE_OPTIONS} and cannot be remounted ({reason}). Unmount this path while no job is"
            " running, and run the playbook again."
        )


def check_writable(module: AnsibleModule, path: str, owner: str) -> None:
    """Raise ValueError if the user cannot write to the mounted root folder, which belongs to another user."""
    status, _output, _error = module.run_command(["runuser", "-u", owner, "--", "test", "-w", path])
    if status != 0:
        root, uid = os.stat(path), THIS.account(owner).uid
        whose = f"belongs to {root.st_uid}:{root.st_gid} and has mode {root.st_mode & 0o7777:04o}"
        raise ValueError(
            f"owner: {owner} cannot write to {path}, which {whose}. This collection does not change adopted file systems. "
            f"Change the owner of that folder to uid {uid}, or give that user write permission."
        )


def ensure_owner(module: AnsibleModule, path: str, owner: str) -> list[dict[str, Any]]:
    user = THIS.account(owner)
    status = os.stat(path)
    if (status.st_uid, status.st_gid) == (user.uid, user.gid):
        return []
    if not module.check_mode:
        os.chown(path, user.uid, user.gid)
    header = f"owner of {path}"
    before = f"{status.st_uid}:{status.st_gid}\n"
    return [{"before_header": header, "after_header": header, "before": before, "after": f"{user.uid}:{user.gid}\n"}]
