"""Root's operations in job directories while the jobs' users swap the files in them (M2, L2 and L3 of the security review)."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import pwd
import shutil
import signal
import tarfile
import tempfile
import time
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.python_environment.definition import BuildLocation
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment import build, record
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import unpack
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import local_code, users
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report import publish
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.refusal import RefusalError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the code requires root privileges")

LOGIN, USER = (pwd.getpwnam(name) for name in ("daemon", "nobody"))

AT_FDCWD, RENAME_EXCHANGE = -100, 2
FILES = 200


@pytest.fixture
def folder():
    """A directory that other users can access."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield Path(path)


@pytest.fixture
def code(folder):
    for number in range(FILES):
        (folder / "code" / "package").mkdir(parents=True, exist_ok=True)
        (folder / "code" / "package" / f"{number}.py").write_text("code")
    give(folder / "code", LOGIN)
    return folder / "code"


@pytest.fixture
def outside(folder):
    """Files that belong to root. After the test, the fixture verifies that the files have not changed."""
    for number in range(FILES):
        (folder / "outside").mkdir(exist_ok=True)
        (folder / "outside" / f"{number}.py").write_text("root's")
    (folder / "secret").write_text("root:SECRET")
    (folder / "secret").chmod(0o600)
    yield folder / "outside"
    found = list((folder / "outside").iterdir())
    assert {(path.read_text(), path.owner()) for path in found} == {("root's", "root")}
    assert len(found) == FILES


def give(path, user):
    for each in (path, *path.rglob("*")):
        os.chown(each, user.pw_uid, user.pw_gid, follow_symlinks=False)


@contextlib.contextmanager
def exchanging(one, other):
    """Have the job's user continuously swap the files behind two names."""
    child = os.fork()
    if not child:
        os.setuid(USER.pw_uid)
        renameat2 = ctypes.CDLL(None).renameat2
        while True:
            renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def copy(code, place):
    """Copy the code in the same way as `state=started`."""
    local_code.check_directory(str(place), "/proc/jobs/digits")
    descriptor = local_code.open_directory(str(place), USER)

    def work():
        local_code.check_contents(str(place), descriptor)
        local_code.copy(str(code), descriptor)

    try:
        users.as_user(USER, work, (RefusalError, shutil.Error))
    finally:
        os.close(descriptor)


def test_the_copy_is_the_users(folder, code):
    copy(code, folder / "scratch/code")
    copy(code, folder / "scratch/code")
    found = list((folder / "scratch/code").rglob("*"))
    assert {path.owner() for path in found} == {"nobody"}
    assert (folder / "scratch").owner() == "root"
    assert len(found) == FILES + 2


def test_a_link_is_not_followed(folder, code, outside):
    """Neither a link to an existing directory nor one to a directory that root would create is followed."""
    home = folder / "home"
    home.mkdir()
    for number, target in enumerate((outside, folder / "made/ssh.service.d")):
        (home / f"link{number}").symlink_to(target)
        for place in (home / f"link{number}", home / f"link{number}/code"):
            with pytest.raises(RefusalError, match=f"the path component 'link{number}' is a link"):
                copy(code, place)
    assert not (folder / "made").exists()


def test_a_directory_of_another_user_is_refused(folder, code):
    (folder / "theirs").mkdir()
    with pytest.raises(users.FailedWorkError, match="the job's user cannot write there"):
        copy(code, folder / "theirs")


def test_a_directory_that_becomes_a_link_is_not_emptied(folder, code, outside):
    home = folder / "home"
    (home / "place").mkdir(parents=True)
    give(home, USER)
    (outside / local_code.MARK).touch()
    descriptor = local_code.open_directory(str(home / "place"), USER)
    (home / "place").rename(home / "moved")
    (home / "place").symlink_to(outside)
    users.as_user(USER, lambda: local_code.copy(str(code), descriptor))
    assert (home / "moved/package").is_dir()
    (outside / local_code.MARK).unlink()


def test_a_race_gives_nothing_away(folder, code, outside):
    """While root copies the code, the user replaces a directory in the copy with a link."""
    home = folder / "home"
    (home / "place").mkdir(parents=True)
    (home / "link").symlink_to(outside)
    (home / "elsewhere").symlink_to(outside)
    give(home, USER)
    end = time.monotonic() + 5
    with exchanging(home / "place/package", home / "link"), exchanging(home / "place", home / "elsewhere"):
        while time.monotonic() < end:
            with contextlib.suppress(users.FailedWorkError, RefusalError, OSError):
                copy(code, home / "place")


def test_code_that_becomes_a_link_is_not_read_as_root(folder, code, outside):
    give(code, USER)
    os.symlink(folder / "secret", code / "link")
    (folder / "scratch").mkdir()
    end = time.monotonic() + 5
    with exchanging(code / "package/1.py", code / "link"):
        while time.monotonic() < end:
            with contextlib.suppress(users.FailedWorkError):
                copy(code, folder / "scratch/code")
            texts = [path.read_text() for path in (folder / "scratch/code").rglob("*") if path.is_file() and not path.is_symlink()]
            assert "root:SECRET" not in texts


def archive(folder):
    """An archive of code that the login user has transferred."""
    path = folder / "code.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, mode in (("train.py", 0o600), ("run.sh", 0o700)):
            info = tarfile.TarInfo(name)
            info.size, info.mode = 4, mode
            tar.addfile(info, io.BytesIO(b"code"))
        info = tarfile.TarInfo("src")
        info.type, info.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(info)
    os.chown(path, LOGIN.pw_uid, LOGIN.pw_gid)
    return path


@pytest.fixture
def paths(folder):
    (folder / "jobs").mkdir()
    give(folder / "jobs", LOGIN)
    return directories.Paths(str(folder / "jobs/digits"))


def install(folder, paths):
    keys = (
        "name",
        "resume",
        "printed",
        "environment",
        "script",
        "command",
        "arguments",
        "launcher",
        "launcher_options",
        "python",
        "time_limit",
        "sync_directory",
        "code",
    )
    unpack.install_code({**dict.fromkeys(keys), "archive": str(archive(folder))}, paths, USER)


def test_the_jobs_user_reads_the_code_and_cannot_change_it(folder, paths):
    install(folder, paths)
    code = Path(paths.code)
    assert {path.name: f"{path.owner()} {path.stat().st_mode & 0o7777:o}" for path in code.iterdir()} == {
        "train.py": "daemon 640",
        "run.sh": "daemon 750",
        "src": "daemon 1770",
    }

    def attempts():
        assert (code / "train.py").read_text() == "code"
        (code / "src/results").touch()
        (code / "results").touch()
        for action in (
            lambda: (code / "train.py").write_text("mine"),
            lambda: (code / "results").replace(code / "train.py"),
            lambda: code.rename(code.parent / "old"),
            Path(paths.description).unlink,
            (code.parent.parent / "next").mkdir,
        ):
            with pytest.raises(PermissionError):
                action()

    users.as_user(USER, attempts)


def test_what_the_jobs_user_puts_in_the_way_of_a_second_preparation_is_replaced(folder, paths):
    """The login user does not follow links that the job's user has created."""
    install(folder, paths)
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("theirs")
    give(theirs, LOGIN)
    shutil.rmtree(paths.code)
    os.unlink(paths.description)
    os.symlink(theirs, paths.code)
    os.symlink(theirs / "file", paths.description)
    install(folder, paths)
    assert [path.name for path in theirs.iterdir()] == ["file"]
    assert (theirs / "file").read_text() == "theirs"
    assert not os.path.islink(paths.code)
    assert not os.path.islink(paths.description)


def test_a_job_directory_of_another_user_is_not_used(folder, paths):
    (folder / "jobs").chmod(0o777)
    os.mkdir(paths.directory)
    give(Path(paths.directory), USER)
    with pytest.raises(users.FailedWorkError, match="belongs to another user"):
        install(folder, paths)
    assert os.listdir(paths.directory) == []


@pytest.mark.parametrize(
    ("folders", "mode", "refused"),
    [
        (["environments"], 0o755, True),
        (["environments/bert"], 0o755, True),
        (["environments/bert/x86_64-python3.10/d1ge57"], 0o755, True),
        ([], 0o777, True),
        ([], 0o755, False),
    ],
)
def test_an_environment_that_others_can_change_is_not_used(folder, folders, mode, refused):
    """A job may have created the directory first, on a world-writable disk."""
    directory = folder / "environments"
    place = BuildLocation(str(directory / "bert/x86_64-python3.10"), "d1ge57")
    Path(place.path).mkdir(parents=True)
    Path(place.folder).chmod(mode)
    for name in folders:
        os.chown(folder / name, USER.pw_uid, USER.pw_gid)
    with pytest.raises(record.EnvironmentRefusalError, match="other users can change") if refused else contextlib.nullcontext():
        build.check_owner(str(directory), place)


@pytest.mark.parametrize("target", ["theirs", "theirs/file", "nowhere", None], ids=str)
def test_a_report_is_not_written_through_a_link(folder, paths, target):
    install(folder, paths)
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("theirs")
    (folder / "page").write_text("<html>")
    give(theirs, LOGIN)
    page = Path(paths.directory, "report.html")
    if target:
        page.symlink_to(folder / target)
    else:
        os.mkfifo(page)
    os.chown(page, USER.pw_uid, USER.pw_gid, follow_symlinks=False)
    for changed in (True, False):
        assert users.as_user(LOGIN, lambda: publish.put(str(folder / "page"), paths.directory, False)) is changed
    assert (page.read_text(), page.is_symlink(), page.owner()) == ("<html>", False, "daemon")
    assert [(path.name, path.read_text()) for path in theirs.iterdir()] == [("file", "theirs")]
    assert not [name for name in os.listdir(paths.directory) if name.startswith(".")]


def test_who_holds_the_lock_does_not_keep_root_waiting_for_ever(tmp_path, monkeypatch):
    """Waiting for the lock has a time limit, and only root can open the lock file (L2 of the security review)."""
    from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import transient_units as units

    monkeypatch.setattr(units.directories, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(units, "PATIENCE", 0.3)
    with units.exclusive(), pytest.raises(units.UnitError, match=r"another playbook run has held .*/lock for 0 s"), units.exclusive():
        pass
    assert os.stat(tmp_path / "lock").st_mode & 0o777 == 0o600


def test_a_broken_note_of_a_job_is_forgotten(tmp_path, monkeypatch):
    """An invalid note about a running job is deleted and does not prevent the start of a different job (L3 of the security review)."""
    from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd

    monkeypatch.setattr(systemd, "STARTED", str(tmp_path / "started"))
    monkeypatch.setattr(systemd, "runtime_directory", lambda job, process: str(tmp_path / f"jobs/{job}-{process}"))
    (tmp_path / "started").mkdir()
    for name, text in {
        "a-rank0": '{"job": "a", "gpus": [0], "cwd": "/a"}',
        "b-rank0": "{}",
        "c-rank0": "[",
        "gone-rank0": '{"job": "gone"}',
    }.items():
        (tmp_path / "started" / f"{name}.json").write_text(text)
        if name != "gone-rank0":
            (tmp_path / "jobs" / name).mkdir(parents=True)
    assert [note["job"] for note in systemd.other_jobs("mine")] == ["a"]
    assert sorted(os.listdir(tmp_path / "started")) == ["a-rank0.json"]
