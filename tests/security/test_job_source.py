"""Git on the controller runs no program that a source configures, and reveals no password (M6 and L4 of the security review)."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import threading

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import (
    custom_health_checks,
    git_repositories,
    job_code,
    python_requirements,
    setup_steps,
)


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Run git in a work tree with one commit."""
    folder = tmp_path / "source"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@example.com")

    def run(*arguments, cwd=folder):
        return subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()

    run("init", "--quiet", "--initial-branch=main")
    (folder / "train.py").write_text("print(1)\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "data").mkdir()
    (folder / "data/ünsual name").write_text("x")
    (folder / "link").symlink_to("train.py")
    run("add", ".")
    run("commit", "--quiet", "--message", "first")
    run.folder = folder
    return run


def origin(git):
    with job_code.job_code({"script": "train.py", "source": str(git.folder)}, ["/"]) as code:
        return code.origin


@pytest.mark.parametrize("setting", ["core.fsmonitor", "filter.evil.clean", "filter.evil.process", "core.sshCommand", "core.pager"])
def test_nothing_runs_that_the_configuration_of_a_source_names(git, tmp_path, setting):
    proof = tmp_path / "proof"
    (git.folder / ".gitattributes").write_text("*.py filter=evil\n")
    git("add", ".gitattributes")
    git("commit", "--quiet", "--message", "attributes")
    git("config", setting, f"touch {proof}; cat #")
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
        (git.folder / ".git/hooks" / hook).write_text(f"#!/bin/sh\ntouch {proof}\n")
        (git.folder / ".git/hooks" / hook).chmod(0o755)
    (git.folder / "train.py").write_text("print(2)\n")
    assert origin(git) == {"commit": git("rev-parse", "HEAD"), "changed": True}
    assert not proof.exists()


def test_nothing_is_fetched_for_a_source(git, tmp_path):
    """A partial clone fetches missing objects from its remote with a program that its configuration specifies."""
    proof = tmp_path / "proof"
    digest = git("rev-parse", "HEAD^{tree}")
    git("config", "remote.origin.url", f"ext::touch {proof}")
    git("config", "remote.origin.promisor", "true")
    git("config", "remote.origin.uploadpack", f"touch {proof};")
    git("config", "protocol.ext.allow", "always")
    git("config", "extensions.partialClone", "origin")
    git("config", "core.repositoryFormatVersion", "1")
    (git.folder / f".git/objects/{digest[:2]}/{digest[2:]}").unlink()
    assert origin(git) == {}
    assert not proof.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "train.py").write_text("print(2)\n"),
        lambda folder: (folder / "train.py").chmod(0o755),
        lambda folder: (folder / "data/ünsual name").unlink(),
        lambda folder: (folder / "new.py").touch(),
        lambda folder: [(folder / "link").unlink(), (folder / "link").symlink_to("run.sh")],
        lambda folder: (folder / "data/ünsual name").write_text("y"),
    ],
)
def test_every_change_counts_without_git_status(git, change):
    assert origin(git)["changed"] is False
    change(git.folder)
    assert origin(git)["changed"] is True


def test_ignored_files_are_no_change(git):
    (git.folder / ".gitignore").write_text("*.log\n")
    git("add", ".gitignore")
    git("commit", "--quiet", "--message", "ignore")
    (git.folder / "a.log").touch()
    assert origin(git)["changed"] is False


def test_the_commit_of_a_submodule_counts(git, tmp_path):
    (git.folder / "sub").mkdir()
    git("init", "--quiet", cwd=git.folder / "sub")
    git("commit", "--quiet", "--allow-empty", "--message", "one", cwd=git.folder / "sub")
    git("add", "sub")
    git("commit", "--quiet", "--message", "sub")
    assert origin(git)["changed"] is False
    git("commit", "--quiet", "--allow-empty", "--message", "two", cwd=git.folder / "sub")
    assert origin(git)["changed"] is True


def test_git_reads_a_source_without_the_credentials_of_the_controller(git, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    seen = []
    run = vars(subprocess)["run"]
    monkeypatch.setattr(
        git_repositories.subprocess, "run", lambda *arguments, **options: seen.append(options["env"]) or run(*arguments, **options)
    )
    origin(git)
    assert seen
    assert not any("AWS_SECRET_ACCESS_KEY" in environment for environment in seen)


@pytest.mark.parametrize("repository", ["ext::sh -c 'touch {}'", "--upload-pack=touch {}", "fd::17"])
def test_no_transport_runs_a_program(git, tmp_path, monkeypatch, repository):
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext:file")
    proof = tmp_path / "proof"
    code = job_code.job_code({"repository": repository.format(proof)}, [str(tmp_path)])
    with pytest.raises(AnsibleActionFail, match="cannot be used on the controller"), code:
        pass
    assert not proof.exists()


@pytest.mark.parametrize(
    ("repository", "shown"),
    [
        ("https://me:p@ss@host/x.git", "https://host/x.git"),
        ("https://me:a/b@host/x.git", "https://host/x.git"),
        ("https://host:8443/x.git?private_token=secret", "https://host:8443/x.git"),
        ("https://me:12/34secret@host/x.git", "https://host/x.git"),
        ("https://tok/en@host/x.git", "https://host/x.git"),
        ("https://me:/secret@host/x.git", "https://host/x.git"),
        ("https://me:secr@et/secret@host/x.git", "https://host/x.git"),
        ("https://me:secr?et/secret@host/x.git", "https://..."),
        ("https://host/x.git?private_token=secr@et", "https://..."),
        ("https://host:8443/x%40y.git#secret", "https://host:8443/x%40y.git"),
        ("file:///srv/x@y.git", "file:///srv/x@y.git"),
        ("ssh://git@host/x.git", "ssh://host/x.git"),
        ("git@host:x.git", "git@host:x.git"),
        ("/srv/x.git", "/srv/x.git"),
    ],
)
def test_what_is_shown_of_an_address_has_no_credentials(repository, shown):
    assert git_repositories.without_credentials(repository) == shown


class Server(http.server.BaseHTTPRequestHandler):
    """A server that asks for a password and records the credentials that it receives."""

    def do_GET(self):
        self.server.given.append(self.headers.get("Authorization"))
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.end_headers()

    def log_message(self, *_arguments):
        pass


def test_a_password_reaches_the_server_and_no_command_line(git, monkeypatch):
    server = http.server.HTTPServer(("127.0.0.1", 0), Server)
    server.given = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    commands = []
    run = vars(subprocess)["run"]
    monkeypatch.setattr(git_repositories.subprocess, "run", lambda command, **options: commands.append(command) or run(command, **options))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    repository = f"http://me:p%40ss@127.0.0.1:{server.server_port}/x.git"
    with pytest.raises(AnsibleActionFail) as failure, job_code.job_code({"repository": repository}, ["/"]):
        pass
    server.shutdown()
    server.server_close()
    assert "Basic bWU6cEBzcw==" in server.given  # me:p@ss
    assert "p@ss" not in str(failure.value)
    assert "p%40ss" not in str(failure.value)
    assert not any("p@ss" in word or "p%40ss" in word for command in commands for word in command)


class Repositories(http.server.SimpleHTTPRequestHandler):
    """Serves files to everyone with credentials, and records the paths of these requests. Redirects URLs without .git, as GitLab does."""

    def do_GET(self):
        if "/tool/" in self.path:
            self.send_response(301)
            self.send_header("Location", self.path.replace("/tool/", "/tool.git/"))
        elif not self.headers.get("Authorization"):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
        else:
            self.server.paths.append(self.path)
            super().do_GET()
            return
        self.end_headers()

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def repositories(git, tmp_path, monkeypatch):
    """Serve the repository tool.git and, with the same credentials, the repository private.git."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Repositories, directory=str(tmp_path))) as server:
        server.paths, server.url = [], f"127.0.0.1:{server.server_port}"

        def publish(name):
            git("clone", "--quiet", "--bare", str(git.folder), str(tmp_path / name))
            git("update-server-info", cwd=tmp_path / name)

        publish("private.git")
        server.publish = publish
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("name", ["tool.git", "tool", "tool.git/"])
def test_a_repository_is_read_with_its_credentials(repositories, name):
    repositories.publish("tool.git")
    with job_code.job_code({"repository": f"http://me:token@{repositories.url}/{name}"}, ["/"]) as code:
        assert "train.py" in code.names


@pytest.mark.parametrize(
    "url", ["http://{}/private.git", "../private.git", "http://{}/tool.git/%2e%2e/private.git", "http://{}/tool.git/private.git"]
)
def test_submodules_get_no_credentials(git, repositories, url):
    (git.folder / ".gitmodules").write_text(f'[submodule "data"]\npath = private\nurl = {url.format(repositories.url)}\n')
    git("add", ".gitmodules")
    git("update-index", "--add", "--cacheinfo", f"160000,{git('rev-parse', 'HEAD')},private")
    git("commit", "--quiet", "--message", "submodule")
    repositories.publish("tool.git")
    repositories.publish("tool.git/private.git")
    repository = f"http://me:token@{repositories.url}/tool.git"
    with pytest.raises(AnsibleActionFail, match="could not read Username"), job_code.job_code({"repository": repository}, ["/"]):
        pass
    assert repositories.paths
    assert not [path for path in repositories.paths if "private" in path]


@pytest.mark.parametrize("name", ["tool", "tool.git", "a b/to%20ol*.git"])
def test_the_password_belongs_to_exactly_one_repository(name, tmp_path):
    """The helper itself compares the path, because git also uses it for repositories below that path."""
    address, environment = git_repositories.address_and_credentials(f"https://me:token@host.example/{name}")
    assert address == f"https://host.example/{name}"

    def password(url):
        own = {**os.environ, **environment, "GIT_TERMINAL_PROMPT": "0", "HOME": str(tmp_path)}
        done = subprocess.run(["git", "credential", "fill"], input=f"url={url}\n\n", env=own, capture_output=True, text=True, check=False)
        return "password=token" in done.stdout

    base = address.removesuffix(".git")
    for url in (base, f"{base}.git", f"{base}.git/", f"{base}/info/lfs", f"{base}.git/info/lfs"):
        assert password(url), url
    for url in (
        f"{base}/other",
        f"{base}.git/other",
        f"{base}.git/info/lfs/x",
        f"{base}x",
        "https://host.example/",
        "https://x.example/tool",
    ):
        assert not password(url), url


def test_no_hook_of_the_repository_runs(git, tmp_path):
    """With a relative path, the user's configuration lets the files of each repository be hooks."""
    proof = tmp_path / "proof"
    subprocess.run(["git", "config", "--global", "core.hooksPath", "hooks"], check=True)
    (git.folder / "hooks").mkdir()
    (git.folder / "hooks/post-checkout").write_text(f"#!/bin/sh\ntouch {proof}\n")
    (git.folder / "hooks/post-checkout").chmod(0o755)
    git("add", ".")
    git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--message", "hook")
    with job_code.job_code({"repository": str(git.folder)}, ["/"]) as code:
        assert "hooks" in code.names
    assert not proof.exists()


@pytest.mark.parametrize(
    ("repository", "advice"),
    [
        ("https://host.example/x.git?private_token=s3cret", "https://USER:TOKEN@HOST/PATH"),
        ("https://me:pass@host.example/x.git?ref=1&access_token=s3cret", "https://USER:TOKEN@HOST/PATH"),
        ("https://me:pass?s3cret@host.example/x.git", "https://USER:TOKEN@HOST/PATH"),
        ("https://host.example/x.git#s3cret", "https://USER:TOKEN@HOST/PATH"),
        ("https://me:s3cret/b@host.example/x.git", "write / as %2F"),
        ("ssh://me:s3cret@host.example/x.git", "Remove the password"),
        ("ssh://me:12/s3cret@host.example/x.git", "write / as %2F"),
        ("https://me:12/34s3cret@host.example/x.git", "write / as %2F"),
        ("https://s3cret/en@host.example/x.git", "write / as %2F"),
        ("https://me:/s3cret@host.example/x.git", "write / as %2F"),
        ("https://me:a@s3cret/b@host.example/x.git", "write / as %2F"),
    ],
)
def test_credentials_that_git_would_show_are_refused(git, monkeypatch, repository, advice):
    commands = []
    monkeypatch.setattr(git_repositories.subprocess, "run", lambda command, **options: commands.append(command))
    with pytest.raises(AnsibleActionFail) as failure, job_code.job_code({"repository": repository}, ["/"]):
        pass
    assert advice in str(failure.value)
    assert "s3cret" not in str(failure.value)
    assert not commands


@pytest.mark.parametrize(
    "repository",
    ["https://[::1]:8443/x.git", "https://host:/x", "git@host:x.git?y", "ssh://git@host:22/x.git", "/srv/a?b", "file:///srv/x@y.git"],
)
def test_other_addresses_are_taken(repository):
    assert git_repositories.address_and_credentials(repository) == (repository, {})


def test_a_submodule_names_no_file_of_the_controller(git, tmp_path):
    secret = tmp_path / "secret"
    subprocess.run(["git", "init", "--quiet", str(secret)], check=True)
    git("commit", "--quiet", "--allow-empty", "--message", "secret", cwd=secret)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(secret), "secret")
    git("commit", "--quiet", "--message", "submodule")
    with pytest.raises(AnsibleActionFail, match="not allowed"), job_code.job_code({"repository": str(git.folder)}, ["/"]):
        pass
    assert os.path.isdir(secret)


def read_requirements_file(path, bases):
    try:
        python_requirements.read_requirements(path, bases)
    except AnsibleActionFail as error:
        return str(error)
    return ""


def read_setup_script(path, bases):
    return " ".join(setup_steps.read_steps([{"script": path}], bases)[1])


def read_checks(path, bases):
    try:
        custom_health_checks.programs(os.path.dirname(path), bases)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("read", [read_requirements_file, read_setup_script, read_checks])
def test_links_do_not_lead_out_of_a_source(tmp_path, read):
    """The author of a source must not choose which of the user's files the controller reads and sends to nodes."""
    project = tmp_path / "project"
    source = project / "theirs"
    (source / "files").mkdir(parents=True)
    for path in (project / "mine", source / "real"):
        path.write_text("numpy\n")
        path.chmod(0o755)
    link = source / "files/file"
    link.symlink_to("../../mine")
    for path in ("theirs/files/file", str(link)):
        assert f"file' is a link to '{project}/mine', outside of '{source}'. Specify the path of the file itself." in read(
            path, [str(project)]
        )
    link.unlink()
    link.symlink_to("../real")
    (project / "linked").symlink_to(source)
    for path in ("theirs/files/file", str(link), "linked/files/file"):
        assert read(path, [str(project)]) == ""
