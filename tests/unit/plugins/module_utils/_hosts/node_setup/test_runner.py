"""Tests of the output, results and time limits of steps. The steps run as this user in temporary folders."""

from __future__ import annotations

import base64
import io
import json
import os
import pwd
import subprocess
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_setup import runner
from ansible_collections.deeplearning.cluster.plugins.module_utils._secret_forms import forms
from local_cloud.testing import wait_until

USER = pwd.getpwuid(os.geteuid()).pw_name
DEFAULTS = {"number": 1, "name": "test", "digest": "0" * 12, "environment": {}, "secrets": {}, "timeout": 60, "user": USER}
SCRIPT = {"kind": "script", "script": None, "arguments": [], "sha256": ""}


class Host:
    """Runs steps in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("records", "logs", "work"):
            (folder / name).mkdir()

    def run(self, *steps):
        """Run the steps, and return the exit status of the program."""
        numbered = [{**DEFAULTS, "digest": f"{number:012}", "number": number, **step} for number, step in enumerate(steps, 1)]
        given = [{**step, "hidden": forms(step["secrets"].values())} for step in numbered]
        paths = [str(self.folder / name) for name in ("records", "logs", "work", "progress.json")]
        spec = self.folder / "spec.json"
        spec.write_text(json.dumps(runner.SetupSpec(given, "a", "", *paths)._asdict()))
        status = runner.main([str(spec)])
        assert not spec.exists(), "the specification contains secrets"
        assert list((self.folder / "work").iterdir()) == []
        return status

    def record(self, number=1):
        return json.loads((self.folder / "records" / f"{number:012}.json").read_text())

    def log(self, number=1):
        return (self.folder / "logs" / f"{number:012}.log").read_text()


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(runner.signal, "signal", lambda *_: None)
    return Host(tmp_path)


def script(text):
    return {**SCRIPT, "content": base64.b64encode(text.encode()).decode()}


def command(value, **others):
    return {"kind": "command", "command": value, **others}


def test_steps_run_in_order_and_leave_records_that_only_their_user_reads(host):
    first = script("echo $1 $GREETING from bash ${BASH_VERSION:+indeed}\n")
    assert host.run({**first, "arguments": ["a b"], "environment": {"GREETING": "hello"}}, command(["printf", "%s", "$HOME"])) == 0
    assert host.log(1) == "a b hello from bash indeed\n"
    assert host.log(2) == "$HOME\n"
    record = host.record(1)
    assert (record["state"], record["exit_code"], record["tail"]) == ("succeeded", 0, ["a b hello from bash indeed"])
    assert record["ended"] >= record["started"]
    modes = {path.stat().st_mode & 0o777 for folder in ("records", "logs") for path in (host.folder / folder).iterdir()}
    assert modes == {0o600}
    assert json.loads((host.folder / "progress.json").read_text()).items() >= {"attempt": "a", "number": 2}.items()


def test_a_script_runs_with_the_program_that_it_names(host):
    assert host.run(script("#!/usr/bin/env python3\nimport sys\nprint(sys.version_info.major)\n")) == 0
    assert host.log() == "3\n"


@pytest.mark.parametrize(
    ("step", "reason", "code"),
    [
        (command("echo no; exit 3"), "the command ended with exit status 3", 3),
        (command("kill -9 $$"), "the command was killed by signal 9", -9),
        (command(["/nowhere/program"]), "cannot run '/nowhere/program': No such file or directory", None),
        ({**command("true"), "user": "nobody-of-this-name"}, "user 'nobody-of-this-name' does not exist on this host", None),
        ({**script("true"), "sha256": "0" * 64}, "the SHA-256 digest of the downloaded file is b5bea41b", None),
    ],
)
def test_a_failure_ends_the_steps(host, step, reason, code):
    assert host.run(step, command("touch never")) == 1
    record = host.record()
    assert record["state"] == "failed"
    assert record["reason"].startswith(reason)
    assert record["exit_code"] == code
    assert not (host.folder / "records" / "000000000002.json").exists()


def test_a_step_that_takes_too_long_is_killed_with_all_its_processes(host, tmp_path):
    ignores = "trap '' TERM; sleep 4321 & echo $! >{}; wait; sleep 4321".format(tmp_path / "child")
    runner_grace, runner.GRACE = runner.GRACE, 0.5
    try:
        assert host.run(command(ignores, timeout=1)) == 1
    finally:
        runner.GRACE = runner_grace
    assert host.record()["reason"] == "timed out after 1 s"
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    wait_until(lambda: not child.exists() or ") Z " in child.read_text())


@pytest.mark.parametrize("program", ["sleep 4321", "yes"])
def test_a_process_in_the_background_does_not_hold_up_the_next_step(host, tmp_path, program):
    background = command(f"{program} & echo $! >{tmp_path / 'pid'}; echo done")
    try:
        assert host.run(background, command("echo next")) == 0
        assert "done\n" in host.log(1)
        assert host.log(2) == "next\n"
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)


def test_secrets_reach_the_step_and_no_log(host):
    token, key = "hunter2-hunter2", "-----BEGIN-----\nMIIabc\n}\n"
    step = command('printf "%s" "$TOKEN" | wc -c; echo "a $TOKEN b"; echo "$KEY"; exit 1', secrets={"TOKEN": token, "KEY": key})
    host.run(step)
    assert host.log() == f"{len(token)}\na ******** b\n********\n********\n}}\n\n"
    everything = "".join(path.read_text() for path in host.folder.rglob("*") if path.is_file())
    assert "hunter2" not in everything
    assert "MIIabc" not in everything


class Log(io.BytesIO):
    def text(self):
        return self.getvalue().decode()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_secret_in_parts_is_masked(size):
    log = Log()
    output = runner.Output(log, ["secret-and-more", "secret"])
    text = b"a secret-and-more of secret\nprogress 1\rprogress 2\rsecret"
    for start in range(0, len(text), size):
        output.add(text[start : start + size])
    output.end()
    assert log.text() == "a ******** of ********\nprogress 1\rprogress 2\r********\n"
    assert output.tail() == ["a ******** of ********", "progress 1", "progress 2", "********"]


def test_a_line_without_end_is_written_in_parts_and_the_log_has_a_limit(monkeypatch):
    monkeypatch.setattr(runner, "CHUNK", 100)
    monkeypatch.setattr(runner, "LOG_LIMIT", 1000)
    log = Log()
    output = runner.Output(log, ["secret"])
    for _part in range(500):
        output.add(b"0123456789secret")
    output.add(b"\nthe end\n")
    output.end()
    assert "secret" not in log.text()
    assert 1000 <= len(log.text()) < 1100
    assert log.text().endswith("(The log is full. Later output is not in it.)\n")
    assert output.tail()[-1] == "the end"
    assert max(map(len, output.tail())) <= runner.LINE_LIMIT


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Return a function that creates stubs of programs, such as package managers. These stubs are the only programs that the runner
    finds.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(runner, "PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(runner, "AWS_PATH", str(folder))
    monkeypatch.setattr(runner, "APT_PAUSE", 0.01)
    real = runner.shutil.which
    monkeypatch.setattr(runner.shutil, "which", lambda name, path: real(name, path=str(folder)))

    def make(**contents):
        for name, text in contents.items():
            path = folder / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)

    return make


SAYS = 'echo "$(basename $0) $*"'


def test_apt_waits_for_its_locks(host, programs, tmp_path):
    tries = tmp_path / "tries"
    locked = f"echo x >>{tries}; [ $(wc -l <{tries}) -gt 2 ] || {{ echo Could not get lock; exit 100; }}"
    programs(
        apt_get=f"for each do last=$each; done; [ $last != update ] || {{ {locked}; }}; echo $DEBIAN_FRONTEND $last", dpkg_query="exit 1"
    )
    assert host.run({"kind": "packages", "packages": ["cmake"]}) == 0
    assert host.log().splitlines() == ["Could not get lock"] * 2 + ["noninteractive update", "noninteractive cmake"]


def test_apt_that_fails_is_not_tried_again(host, programs):
    programs(apt_get="echo no network; exit 100", dpkg_query="exit 1")
    assert host.run({"kind": "packages", "packages": ["cmake"]}) == 1
    assert (host.record()["reason"], host.record()["tail"]) == ("apt-get update failed", ["no network"])


@pytest.mark.parametrize(("package", "installs"), [("cmake", False), ("cmake=3.25", False), ("cmake=4.0", True)])
def test_installed_packages_need_no_package_index(host, programs, package, installs):
    programs(apt_get=SAYS, dpkg_query="echo installed 3.25")
    assert host.run({"kind": "packages", "packages": [package]}) == 0
    assert ("apt-get" in host.log()) == installs


@pytest.mark.parametrize(("status", "says"), [(1, "dnf install --assumeyes gcc @development-tools"), (0, "All packages are installed.")])
def test_packages_of_amazon_linux(host, programs, status, says):
    programs(dnf=SAYS, rpm=f"exit {status}")
    assert host.run({"kind": "packages", "packages": ["gcc", "@development-tools"]}) == 0
    assert host.log() == f"{says}\n"


def test_a_host_without_package_manager(host, programs):
    programs()
    assert host.run({"kind": "packages", "packages": ["gcc"]}) == 1
    assert host.record()["reason"] == "this host has neither apt-get nor dnf"


def test_a_script_from_the_web_is_downloaded_without_its_url_in_the_command_line(host, programs):
    programs(curl='for each do shift; [ "$each" != --output ] || path=$1; echo "argument $each"; done; cat; echo "echo ran" >$path')
    assert host.run({**SCRIPT, "script": 'https://example.com/x.sh?s="secret"', "content": None}) == 0
    lines = host.log().splitlines()
    assert lines[-1] == "ran"
    assert 'url = "https://example.com/x.sh?s=\\"secret\\""' in lines
    assert not [line for line in lines if line.startswith("argument") and "example.com" in line]
    assert {"argument --fail", "argument --proto", "argument =https"} <= set(lines)


def test_a_url_adds_no_options_to_the_configuration_of_curl():
    with pytest.raises(runner.StepError, match="control characters"):
        runner.curl_configuration("https://example.com/x\noutput = /etc/x")


def test_a_script_from_s3_needs_the_aws_cli(host, programs):
    step = {**SCRIPT, "script": "s3://bucket/x.sh", "content": None}
    programs()
    assert host.run(step) == 1
    assert host.record()["reason"] == "the AWS CLI, which downloads from S3, is not installed on this host"
    programs(aws='echo "$1 $2 $3 $4"; echo "echo ran" >$5')
    assert host.run(step) == 0
    assert host.log() == "s3 cp --only-show-errors s3://bucket/x.sh\nran\n"


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path):
    """A git repository with the tag v1 and the branches main and work."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name in ("v1", "main"):
        (folder / "file").write_text(f"{name}\n")
        git(folder, "add", "file")
        git(folder, "commit", "--quiet", "--message", name)
        if name == "v1":
            git(folder, "tag", "v1")
    git(folder, "checkout", "--quiet", "-b", "work")
    (folder / "file").write_text("work\n")
    git(folder, "commit", "--quiet", "--all", "--message", "work")
    git(folder, "checkout", "--quiet", "main")
    return folder


@pytest.fixture
def clone(host, origin, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "changeable", lambda _path: "")

    def run(version, url=f"file://{origin}", path=tmp_path / "clones" / "tools", **step):
        return host.run({"kind": "repository", "repository": url, "version": version, "path": str(path), **step})

    run.file = tmp_path / "clones" / "tools" / "file"
    return run


def test_versions_of_a_repository_are_checked_out_one_after_another(host, origin, clone):
    commit = git(origin, "rev-parse", "work")
    for version, content in (("v1", "v1"), ("", "main"), ("work", "work"), (commit[:10], "work"), ("main", "main")):
        assert clone(version) == 0, host.log()
        assert clone.file.read_text() == f"{content}\n"
        assert host.log().startswith("Checked out ")
    (origin / "file").write_text("moved\n")
    git(origin, "commit", "--quiet", "--all", "--message", "moved")
    git(origin, "tag", "--force", "v1")
    assert clone("v1") == 0
    assert clone.file.read_text() == "moved\n"


@pytest.mark.parametrize("kind", ["heads", "tags"])
def test_a_ref_with_the_name_of_a_commit_does_not_replace_the_commit(host, origin, clone, kind):
    commit = git(origin, "rev-parse", "work")
    git(origin, "update-ref", f"refs/{kind}/{commit}", "main")
    assert clone(commit) == 0, host.log()
    assert clone.file.read_text() == "work\n"
    missing = "0123456789" * 4
    git(origin, "update-ref", f"refs/{kind}/{missing}", "main")
    assert clone(missing) == 1
    assert clone.file.read_text() == "work\n"


def test_a_pinned_commit_that_is_on_no_branch_is_fetched(host, origin, clone):
    commit = git(origin, "commit-tree", "-m", "other", "work^{tree}")
    git(origin, "update-ref", "refs/other/one", commit)
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    assert clone(commit) == 0, host.log()
    assert clone.file.read_text() == "work\n"


def test_a_version_that_is_a_branch_and_a_tag_is_refused(host, origin, clone):
    git(origin, "tag", "work", "main")
    assert clone("work") == 1
    assert host.record()["tail"] == ["work is a branch and a tag. Specify refs/heads/work or refs/tags/work as the version."]
    for version, content in (("refs/heads/work", "work"), ("refs/tags/work", "main")):
        assert clone(version) == 0, host.log()
        assert clone.file.read_text() == f"{content}\n"


def test_no_hook_of_the_repository_runs(host, origin, clone, tmp_path):
    """With a relative path, the configuration of the host lets the files of each repository be hooks."""
    (tmp_path / "gitconfig").write_text("[core]\nhooksPath = hooks\n")
    hook = origin / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/proof\n")
    hook.chmod(0o755)
    git(origin, "add", "hooks")
    git(origin, "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--message", "hook")
    assert clone("main", environment={"GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig")}) == 0, host.log()
    assert not (tmp_path / "proof").exists()


def test_an_interrupted_clone_goes_on(host, clone):
    clone.file.parent.mkdir(parents=True)
    git(clone.file.parent, "init", "--quiet")
    assert clone("v1") == 0, host.log()


def test_files_of_others_are_left_alone(host, clone, tmp_path):
    clone.file.parent.mkdir(parents=True)
    clone.file.write_text("mine")
    assert clone("v1") == 1
    assert host.record()["tail"] == [f"{clone.file.parent} is not empty and not a clone. Remove its contents, or choose another path."]
    assert clone.file.read_text() == "mine"
    assert clone("v1", path=tmp_path / "other") == 0
    assert clone("v1", url="file:///elsewhere", path=tmp_path / "other") == 1
    assert "is a clone of file://" in host.record()["tail"][0]
    assert clone("v1", url="file:///nowhere", path=tmp_path / "third") == 1
    assert "does not appear to be a git repository" in "".join(host.record()["tail"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of files")
def test_root_uses_no_path_that_others_can_change(tmp_path):
    assert runner.changeable("/usr/local/new/tools") == ""
    assert runner.changeable("/tmp/tools") == "/tmp"
    base = Path("/var/lib") / f"test-{tmp_path.name}-{os.getpid()}"
    base.mkdir(mode=0o755)
    try:
        (base / "own").mkdir(mode=0o755)
        os.chown(base / "own", 1234, 1234)
        (base / "link").symlink_to("/tmp")
        assert runner.changeable(f"{base}/tools") == ""
        assert runner.changeable(f"{base}/own/tools") == f"{base}/own"
        assert runner.changeable(f"{base}/link/tools") == "/tmp"
    finally:
        (base / "link").unlink()
        (base / "own").rmdir()
        base.rmdir()
