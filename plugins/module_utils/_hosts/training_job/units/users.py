# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The user of a job's processes, and functions that run code as a different user.

Root does not use paths that a job's user can change: a path that root has checked may be a link by the time root uses it. A child process
without root privileges reads and writes the files of a job's user.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import select
import signal
import time
import traceback
from typing import Any, Callable, NoReturn

from ...._job.naming import DEFAULT_USER
from ...transient_units import RunCommand

# Shared storage identifies the owner of a file by a numeric ID, so the default user needs the same ID on all hosts. According to the
# lists of systemd (https://systemd.io/UIDS-GIDS) and Debian, the range 60578 to 61183 is free. The range is above the IDs that useradd
# assigns (UID_MAX), and below 65536, where user namespaces often end.
ID = 61000
# The home directory is not in /var/lib/deeplearning, because that directory contains the login user's data sets.
HOME = "/var/lib/deeplearning-jobs"
SHELL = "/bin/bash"

# Maximum duration, in seconds, of the work that runs as a different user. The work may copy a large directory. Without a limit, another
# process of the user could block it forever.
PATIENCE = 600.0
# Maximum size, in bytes, of the result of work that runs as a different user.
ANSWER_LIMIT = 1 << 20


class UserError(Exception):
    """Neither jobs nor other work can run as the specified user. The message states the reason and the remedy."""


class FailedWorkError(Exception):
    """A function that ran as a different user failed. The message contains the reason."""


def ensure(run: RunCommand, name: str, make: bool) -> pwd.struct_passwd:
    """Return the account with the given name. Raises UserError.

    If the default user is missing, it is created. If `make` is false, the account that would be created is returned instead.
    """
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        if name != DEFAULT_USER:
            raise UserError(
                f"user: {name!r} does not exist on this host. Specify a user with the same ID on all hosts. The default is "
                f"{DEFAULT_USER!r}."
            ) from None
        return create(run) if make else pwd.struct_passwd((DEFAULT_USER, "x", ID, ID, "", HOME, SHELL))
    if name == DEFAULT_USER and (account.pw_uid, account.pw_gid) != (ID, ID):
        raise UserError(
            f"user {name!r} has uid {account.pw_uid} and gid {account.pw_gid} on this host, but both must be {ID}."
            " Specify another user for jobs."
        )
    return account


def create(run: RunCommand) -> pwd.struct_passwd:
    """Create the default user, which has no password, cannot log in, and belongs only to its own group. Raises UserError."""
    for kind, find in (("uid", pwd.getpwuid), ("gid", grp.getgrgid)):
        try:
            owner = str(find(ID)[0])
        except KeyError:
            continue
        if owner != DEFAULT_USER:
            raise UserError(f"user {DEFAULT_USER!r}: {kind} {ID} belongs to {owner!r} on this host. Specify another user for jobs.")
    group = ["groupadd", "--gid", str(ID), DEFAULT_USER]
    # PAM rejects an expired account, so sshd and cron reject it too. Therefore, nobody can log in, even if a job writes authorized_keys.
    user = ["useradd", "--uid", str(ID), "--gid", str(ID), "--home-dir", HOME, "--no-create-home", "--shell", SHELL]
    user += ["--expiredate", "1970-01-02", "--comment", "Training jobs", DEFAULT_USER]
    for command, exists in ((group, _has_group), (user, _has_user)):
        if exists():
            continue
        status, _unused, error = run(command)
        # Another playbook run may have created the user in the meantime.
        if status and not exists():
            raise UserError(f"user {DEFAULT_USER!r}: {command[0]} failed: {error.strip()}")
    try:
        os.mkdir(HOME, 0o700)
        os.chown(HOME, ID, ID, follow_symlinks=False)
    except FileExistsError:
        pass
    return pwd.getpwnam(DEFAULT_USER)


def owner(path: str) -> pwd.struct_passwd:
    """Return the account that owns a path, without following links. Raises OSError or UserError."""
    number = os.lstat(path).st_uid
    try:
        return pwd.getpwuid(number)
    except KeyError:
        raise UserError(f"{path} belongs to uid {number}, but this host has no such user. Create that user, or change the owner.") from None


def _has_group() -> bool:
    try:
        return grp.getgrnam(DEFAULT_USER).gr_gid == ID
    except KeyError:
        return False


def _has_user() -> bool:
    try:
        return pwd.getpwnam(DEFAULT_USER).pw_uid == ID
    except KeyError:
        return False


def as_user(
    account: pwd.struct_passwd,
    work: Callable[[], Any],
    expected: tuple[type[Exception], ...] = (),
    group: int | None = None,
    patience: float | None = None,
) -> Any:
    """Call `work` as the user and return its result, which must be JSON-serializable. New files get the group ID `group`.

    Raises FailedWorkError with the text of an expected exception or OSError, and with the traceback of any other exception. Raises
    UserError if the work takes longer than `patience` seconds, for example because another process of that user suspends it.
    """
    gid = account.pw_gid if group is None else group
    if os.geteuid() == account.pw_uid and os.getegid() == gid:
        return work()
    if os.geteuid() != 0:
        raise UserError(
            f"user {account.pw_name!r}: this task runs as uid {os.geteuid()} and cannot become that user. Run the task with become."
        )
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _work_and_exit(account, gid, work, (OSError, *expected), writer)
    os.close(writer)
    try:
        text = _read_answer(reader, account.pw_name, PATIENCE if patience is None else patience)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)  # kill the child even after it has returned a result, because it may be suspended
        os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(text or '{"error": "a child process was killed before it returned a result"}')
    if "error" in found:
        raise FailedWorkError(found["error"])
    return found["result"]


def _read_answer(reader: int, name: str, patience: float) -> str:
    """Return all text that the child process writes to a pipe. Raises UserError if the process takes too long or writes too much."""
    end, content = time.monotonic() + patience, b""
    while len(content) <= ANSWER_LIMIT:
        if not select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
            raise UserError(
                f"user {name!r}: timed out after {patience:.0f} s waiting for a child process that runs as that user."
                " Check whether storage hangs, or whether a job of that user has suspended the process."
            )
        part = os.read(reader, 1 << 16)
        if not part:
            return content.decode("utf-8")
        content += part
    raise UserError(
        f"user {name!r}: a child process that runs as that user has sent more than {ANSWER_LIMIT} bytes. Stop the jobs of that user."
    )


def _work_and_exit(
    account: pwd.struct_passwd, gid: int, work: Callable[[], Any], expected: tuple[type[Exception], ...], writer: int
) -> NoReturn:
    """Drop all privileges, do the work, write its result to the pipe and exit."""
    try:
        try:
            os.initgroups(account.pw_name, gid)
            os.setgid(gid)
            os.setuid(account.pw_uid)
            answer = {"result": work()}
        except expected as error:
            answer = {"error": str(error)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        with open(writer, "w", encoding="utf-8") as stream:
            json.dump(answer, stream)
    finally:
        os._exit(0)
