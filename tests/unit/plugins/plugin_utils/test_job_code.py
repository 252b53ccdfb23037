"""Tests of a job's code: which files are sent from the controller, and what git records about them."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import git_repositories, job_code

from unit.files import write


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Return a function that runs git in a new repository.

    The repository has two commits, the branches main and work, and the tag v1 on the first commit.
    """
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@example.com")

    def run(*arguments):
        return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    run("init", "--quiet", "--initial-branch=main")
    for number, branch in enumerate(("main", "work")):
        run("checkout", "--quiet", "-B", branch)
        write(folder, **{"train.py": f"print({number})\n", "data/raw": "data"})
        run("add", ".")
        run("commit", "--quiet", "--message", branch)
        if not number:
            run("tag", "--annotate", "--message", "first", "v1")
    run("checkout", "--quiet", "main")
    run.folder = str(folder)
    return run


@pytest.mark.parametrize(
    ("version", "means"), [("", "main"), ("main", "main"), ("work", "work"), ("v1", "main"), ("refs/other/one", "work")]
)
def test_a_version_of_a_repository_is_what_is_sent(git, version, means):
    git("update-ref", "refs/other/one", "work")
    arguments = {"repository": git.folder, "version": version, "script": "train.py"}
    with job_code.job_code(arguments, ["/"]) as code:
        assert sorted(code.names) == ["data", "train.py"]
        with open(os.path.join(code.root, "train.py")) as file:
            assert file.read() == ("print(0)\n" if means == "main" else "print(1)\n")
    assert not os.path.exists(code.root)
    assert code.origin == {"commit": git("rev-parse", means), "changed": False, "repository": git.folder, "version": version}


def test_a_commit_is_a_version_also_when_abbreviated(git):
    commit = git("rev-parse", "work")
    for version in (commit, commit[:10]):
        with job_code.job_code({"repository": "repository", "version": version}, [os.path.dirname(git.folder)]) as code:
            assert code.origin["commit"] == commit


@pytest.mark.parametrize("kind", ["heads", "tags", "both"])
def test_a_ref_with_the_name_of_a_commit_does_not_replace_the_commit(git, kind):
    """Whoever may push to the repository could otherwise change what a pinned commit means."""
    commit, other = git("rev-parse", "work"), git("rev-parse", "main")
    for each in ("heads", "tags") if kind == "both" else (kind,):
        git("update-ref", f"refs/{each}/{commit}", other)
    with job_code.job_code({"repository": git.folder, "version": commit}, ["/"]) as code:
        assert code.origin["commit"] == commit
    missing = "0123456789" * 4
    git("update-ref", f"refs/heads/{missing}", other)
    with (
        pytest.raises(AnsibleActionFail, match=f"version: '{missing}' is not a branch, tag or commit"),
        job_code.job_code({"repository": git.folder, "version": missing}, ["/"]),
    ):
        pass
    annotated = git("rev-parse", "refs/tags/v1")
    assert annotated != git("rev-parse", "v1^{commit}")
    with (
        pytest.raises(AnsibleActionFail, match="is not a branch, tag or commit"),
        job_code.job_code({"repository": git.folder, "version": annotated}, ["/"]),
    ):
        pass


def test_a_pinned_commit_that_is_on_no_branch_is_fetched(git):
    commit = git("commit-tree", "-m", "other", "work^{tree}")
    git("update-ref", "refs/other/one", commit)
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    with job_code.job_code({"repository": f"file://{git.folder}", "version": commit}, ["/"]) as code:
        assert code.origin["commit"] == commit


def test_a_version_that_is_a_branch_and_a_tag_is_refused(git):
    git("tag", "work", "main")
    with (
        pytest.raises(AnsibleActionFail, match=r"version: 'work' is a branch and a tag .*Specify refs/heads/work or refs/tags/work"),
        job_code.job_code({"repository": git.folder, "version": "work"}, ["/"]),
    ):
        pass
    for version, means in (("refs/heads/work", "refs/heads/work"), ("refs/tags/work", "main")):
        with job_code.job_code({"repository": git.folder, "version": version}, ["/"]) as code:
            assert code.origin["commit"] == git("rev-parse", means)
    git("tag", "same", "main")
    git("branch", "same", "main")
    with job_code.job_code({"repository": git.folder, "version": "same"}, ["/"]) as code:
        assert code.origin["commit"] == git("rev-parse", "main"), "both names mean one commit"


def test_submodules_of_a_repository_are_sent_too(git, tmp_path, monkeypatch):
    inner = tmp_path / "models"
    write(inner, **{"cifar10.py": ""})
    git("init", "--quiet", str(inner))
    git("-C", str(inner), "add", ".")
    git("-C", str(inner), "commit", "--quiet", "--message", "model")
    git("-c", "protocol.file.allow=always", "submodule", "add", str(inner), "models")
    git("commit", "--message", "submodule")
    monkeypatch.setattr(git_repositories, "SUBMODULE_TRANSPORTS", "file")  # by default, https is allowed, and local files are not
    with job_code.job_code({"repository": git.folder, "script": "train.py"}, ["/"]) as code:
        assert sorted(os.listdir(os.path.join(code.root, "models"))) == [".git", "cifar10.py"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"version": "nowhere"},
            "version: 'nowhere' is not a branch, tag or commit of repository '/[^']*'. Correct the version, or push it",
        ),
        ({"version": "--upload-pack=touch hacked"}, "is not a branch, tag or commit"),
        (
            {"repository": "file:///nowhere/x.git"},
            "^repository: 'file:///nowhere/x.git' cannot be used on the controller: '/nowhere/x.git' does not appear to be a git"
            " repository. Correct the repository, or make it readable for git on the controller. To test it, run: git ls-remote"
            " file:///nowhere/x.git$",
        ),
        ({"script": "other.py"}, r"script: 'other.py' is not a file in repository '.*' \(training_job_repository\)."),
        ({"source": "src"}, "source and repository: both are set"),
        ({"repository": "https://me:secret-token@localhost:1/x.git"}, r"repository: 'https://localhost:1/x.git' cannot be used"),
    ],
)
def test_a_repository_that_cannot_be_used_is_refused(git, changes, message):
    arguments = {"repository": git.folder, "script": "train.py", **changes}
    with pytest.raises(AnsibleActionFail, match=message) as failure, job_code.job_code(arguments, ["/"]):
        pass
    assert "secret-token" not in str(failure.value)


def test_a_work_tree_tells_its_commit_and_whether_what_is_sent_has_changed(git):
    commit = git("rev-parse", "HEAD")

    def origin(**arguments):
        with job_code.job_code({"script": "train.py", **arguments}, [git.folder]) as code:
            return code.origin

    assert origin(source=".") == {"commit": commit, "changed": False}
    with open(os.path.join(git.folder, "data/raw"), "a") as file:
        file.write("more")
    assert origin(source=".")["changed"]
    assert not origin()["changed"]  # only the script is sent
    assert not origin(source=".", exclude=["data"])["changed"]


@pytest.fixture
def project(tmp_path):
    names = (
        "train.py",
        "src/model.py",
        "src/__pycache__/model.pyc",
        ".git/config",
        "data/raw/x",
        "src/data/raw",
        "a.ckpt",
        "src/b.ckpt",
        "venv/x",
    )
    write(tmp_path / "project", **{name: name for name in names})
    return tmp_path


def test_a_script_alone_is_sent_alone(project):
    with job_code.job_code({"script": "train.py"}, ["/nonexistent", str(project / "project")]) as code:
        assert code == (str(project / "project"), ["train.py"], {})


@pytest.mark.parametrize(
    ("exclude", "names"),
    [
        (None, ["a.ckpt", "data", "data/raw", "data/raw/x", "src", "src/b.ckpt", "src/data", "src/data/raw", "src/model.py", "train.py"]),
        (["*.ckpt", "data/raw", ".git", "__pycache__", "venv"], ["data", "src", "src/data", "src/data/raw", "src/model.py", "train.py"]),
    ],
)
def test_a_source_is_sent_without_what_is_left_out(project, exclude, names):
    arguments = {"script": "src/model.py", "source": "project", "exclude": exclude}
    with job_code.job_code(arguments, [str(project)]) as code:
        job_code.write_archive(str(project / "code.tar.gz"), code, job_code.patterns(arguments))
    with tarfile.open(project / "code.tar.gz") as tar:
        assert sorted(tar.getnames()) == names
        assert {(member.uid, member.uname) for member in tar} == {(0, "")}


def test_a_package_is_sent_even_if_it_is_named_like_an_environment(tmp_path):
    write(tmp_path / "project", **{"train.py": "", "lib/venv/__init__.py": "", "venv/bin/python": "", "lib/.venv/x": ""})
    with job_code.job_code({"script": "lib/venv/__init__.py", "source": "project"}, [str(tmp_path)]) as code:
        job_code.write_archive(str(tmp_path / "code.tar.gz"), code, job_code.patterns({}))
    with tarfile.open(tmp_path / "code.tar.gz") as tar:
        assert sorted(tar.getnames()) == ["lib", "lib/venv", "lib/venv/__init__.py", "train.py"]


@pytest.mark.parametrize(
    ("content", "mode", "arguments", "message"),
    [
        (b"#!/bin/bash\r\n", 0o755, {"command": ["./run.sh"]}, "command: './run.sh' has Windows line breaks. Convert the file"),
        (b"\xef\xbb\xbf#!/bin/bash\n", 0o755, {"command": ["./run.sh"]}, "command: './run.sh' begins with a byte order mark."),
        (b"#!/bin/bash\n", 0o644, {"command": ["./run.sh"]}, "command: './run.sh' is not executable. Make it executable: chmod +x "),
        (b"# caf\xe9\n", 0o644, {"script": "run.sh"}, "script: 'run.sh' cannot be read by Python: line 1 is not utf-8 text."),
        ("print()".encode("utf-16"), 0o644, {"script": "run.sh"}, "script: 'run.sh' begins with a byte order mark of UTF-16"),
        (b"#!/bin/bash\n", 0o755, {"command": ["./run.sh"]}, ""),
        (b"#!/bin/bash\n", 0o644, {"command": ["run.sh"]}, ""),
        (b"print()\r\n", 0o755, {"command": ["./run.sh"]}, ""),
        (b"#!/bin/bash\r\n", 0o644, {"command": ["/bin/sh", "run.sh"]}, ""),
        (b"#!/bin/bash\r\n", 0o644, {"command": ["run.sh", "--x"]}, "command: 'run.sh' has Windows line breaks."),
        (b"#!/bin/bash\r\n", 0o644, {"command": ["/run.sh"]}, ""),
        (b"#!/usr/bin/env python\r\n", 0o644, {"script": "run.sh"}, ""),
    ],
)
def test_programs_that_hosts_cannot_run_are_refused(tmp_path, content, mode, arguments, message):
    (tmp_path / "run.sh").write_bytes(content)
    (tmp_path / "run.sh").chmod(mode)

    def check(**more):
        if message:
            with pytest.raises(AnsibleActionFail, match=re.escape(message)):
                job_code.code_to_send({**arguments, **more}, [str(tmp_path)], ())
        else:
            job_code.code_to_send({**arguments, **more}, [str(tmp_path)], ())

    check(source=".")
    if "script" in arguments:
        check()


@pytest.mark.parametrize("limit", ["SIZE_LIMIT", "ENTRIES_LIMIT"])
def test_code_that_would_fill_disks_is_refused(project, monkeypatch, limit):
    """A sparse file, or a folder with many files, costs its author nothing."""
    monkeypatch.setattr(job_code, limit, 3)
    with (
        job_code.job_code({"script": "train.py", "source": "project"}, [str(project)]) as code,
        pytest.raises(AnsibleActionFail, match=r"source: .*/project has more than .*training_job_exclude"),
    ):
        job_code.write_archive(str(project / "code.tar.gz"), code, ())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"script": "none.py"}, "script: 'none.py' is not a file on the controller"),
        ({"script": "project"}, "script: 'project' is not a file"),
        (
            {"script": "train.py", "source": "none"},
            "source: 'none' is not a directory on the controller (searched in {0}). Specify the path",
        ),
        ({"script": "train.py", "source": "projekt"}, "(searched in {0}). Did you mean '{0}/project'?"),
        (
            {"script": "train.py", "source": "/nowhere/at/all"},
            "'/nowhere/at/all' is not a directory on the controller. Specify the path of",
        ),
        ({"script": "project/trian.py"}, "is not a file on the controller (searched in {0}). Did you mean '{0}/project/train.py'?"),
        ({"script": "none.py", "source": "project"}, "script: 'none.py' is not a file in {0}/project (training_job_source). Specify the"),
        ({"script": "none.py", "source": "project"}, "Specify the relative path of one of its files, for example 'train.py'."),
        ({"script": "trian.py", "source": "project"}, "Did you mean 'train.py'?"),
        ({"script": "model.py", "source": "project"}, "Did you mean 'src/model.py'?"),
        ({"script": "{0}/project/src/model.py", "source": "project"}, "is an absolute path, but must be relative to {0}/project (training"),
        ({"script": "{0}/project/src/model.py", "source": "project"}, "Did you mean 'src/model.py'?"),
        ({"script": "/etc/passwd", "source": "project"}, "'/etc/passwd' is an absolute path, but must be relative to {0}/project"),
        ({"script": "train.py", "source": "empty"}, "is not a file in {0}/empty (training_job_source). It contains no files."),
    ],
)
def test_missing_code_is_named(project, arguments, message):
    (project / "empty").mkdir()
    given = {name: value.format(project) for name, value in arguments.items()}
    with pytest.raises(AnsibleActionFail, match=re.escape(message.format(project))), job_code.job_code(given, [str(project)]):
        pass
