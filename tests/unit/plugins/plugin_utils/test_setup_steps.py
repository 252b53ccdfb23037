"""Tests that check how set-up steps are parsed, how errors in them are described, and which steps count as identical."""

from __future__ import annotations

import base64

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.setup_steps import described, read_steps, steps_of_node

from unit.inventories import HostVars


@pytest.fixture
def read(tmp_path):
    (tmp_path / "setup.sh").write_text("#!/bin/sh\necho hello\n")

    def steps(*given):
        found, errors = read_steps(list(given), [str(tmp_path)])
        assert errors == []
        return found

    return steps


@pytest.fixture
def wrong(tmp_path):
    (tmp_path / "setup.sh").write_text("#!/bin/sh\n")
    (tmp_path / "empty.sh").touch()
    (tmp_path / "windows.sh").write_bytes(b"#!/bin/sh\r\necho hello\r\n")
    (tmp_path / "large.sh").write_bytes(b"#" * ((1 << 20) + 1))

    def errors(*given):
        return [error.removeprefix("node_setup_steps: ") for error in read_steps(list(given), [str(tmp_path)])[1]]

    return errors


def test_each_kind_as_the_shortest_example(read):
    packages, script, command, line, repository = read(
        {"packages": ["cmake", "libfoo=1.2-1", "@development-tools"]},
        {"script": "setup.sh", "arguments": ["--jobs", 4]},
        {"command": ["touch", "/opt/ready"]},
        {"command": "make && make install"},
        {"repository": "https://example.com/tools.git", "path": "/opt/tools/"},
    )
    common = {"environment": {}, "secrets": {}, "timeout": 1800, "user": "root", "only": "all"}
    assert packages.items() >= {**common, "number": 1, "kind": "packages", "name": "packages"}.items()
    assert packages["packages"] == ["cmake", "libfoo=1.2-1", "@development-tools"]
    assert base64.b64decode(script["content"]) == b"#!/bin/sh\necho hello\n"
    assert script["arguments"] == ["--jobs", "4"]
    assert described(script) == "step 2 (script setup.sh)"
    assert command["command"] == ["touch", "/opt/ready"]
    assert line["command"] == "make && make install"
    assert (repository["path"], repository["version"]) == ("/opt/tools", "")
    assert len({step["digest"] for step in (packages, script, command, line, repository)}) == 5


@pytest.mark.parametrize("url", ["https://example.com/a/setup.sh?signature=secret", "s3://scripts/a/setup.sh"])
def test_a_script_from_a_url_is_left_to_the_node(read, url):
    (step,) = read({"script": url})
    assert (step["script"], step["content"], step["name"]) == (url, None, "script setup.sh")


def test_what_counts_as_content(read, tmp_path):
    base = {"script": "setup.sh", "environment": {"MODE": "fast"}, "secrets": {"TOKEN": "hunter2"}}
    (before,) = read(base)
    for same in (
        {**base, "name": "tools"},
        {**base, "timeout": 5},
        {**base, "only": "master"},
        {**base, "secrets": {"TOKEN": "tomorrow"}},
        {**base, "script": str(tmp_path / "setup.sh")},
    ):
        assert read(same)[0]["digest"] == before["digest"], same
    for other in (
        {**base, "environment": {"MODE": "slow"}},
        {**base, "secrets": {"KEY": "hunter2"}},
        {**base, "arguments": ["x"]},
        {**base, "user": "ubuntu"},
    ):
        assert read(other)[0]["digest"] != before["digest"], other
    (tmp_path / "setup.sh").write_text("#!/bin/sh\necho changed\n")
    assert read(base)[0]["digest"] != before["digest"]


def test_a_presigned_url_is_new_each_day_and_a_digest_is_not(read):
    urls = [{"script": f"https://example.com/setup.sh?signature={day}"} for day in (1, 2)]
    assert read(urls[0])[0]["digest"] != read(urls[1])[0]["digest"]
    assert len({read({**url, "sha256": "0" * 64})[0]["digest"] for url in urls}) == 1
    assert read({**urls[0], "sha256": "1" * 64})[0]["digest"] != read({**urls[0], "sha256": "0" * 64})[0]["digest"]


@pytest.mark.parametrize(("userinfo", "secret"), [("me:pass%2Fword", "pass/word"), ("ghp_token", "ghp_token")])
def test_the_password_of_a_repository_is_a_secret_and_no_content(read, userinfo, secret):
    (step,) = read({"repository": f"https://{userinfo}@example.com/tools.git", "path": "/opt/tools"})
    (without,) = read({"repository": "https://example.com/tools.git", "path": "/opt/tools"})
    assert step["repository"] == "https://example.com/tools.git"
    assert list(step["secrets"].values()) == [secret]
    assert secret not in str(step["environment"])
    assert step["environment"]["GIT_CONFIG_COUNT"] == "3"
    assert step["digest"] == without["digest"]


def test_all_errors_come_at_once(wrong):
    assert wrong({"packages": ["a;b"], "tiemout": 5}, "setup.sh", {"command": "true"}, {"command": "true", "name": "again"}) == [
        "step 1: unknown key 'tiemout'. Did you mean 'timeout'?",
        "step 1: packages: 'a;b' is not a valid package name. Use names of packages that apt-get or dnf can install.",
        "step 2: the value is not a dictionary. Use a dictionary with one of packages, script, command and repository.",
        "step 4: is identical to step 3, but each step runs only once. Remove one of the two.",
    ]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({}, "has none of packages, script, command and repository. Specify one of them."),
        ({"command": "true", "script": "setup.sh"}, "has both script and command. Specify one of them."),
        ({"packages": []}, "packages: the list is empty."),
        ({"packages": "cmake"}, "packages: the value is not a list. Use a list."),
        ({"packages": ["--allow-unauthenticated"]}, "packages: '--allow-unauthenticated' is not a valid package name."),
        ({"packages": ["cmake-"]}, "packages: 'cmake-' is not a valid package name."),
        ({"packages": ["cmake"], "user": "ubuntu"}, "user: cannot be combined with packages. Remove it."),
        ({"command": "true", "arguments": ["x"]}, "arguments: cannot be combined with command. Remove it."),
        ({"script": "setup.sh", "version": "v1"}, "version: cannot be combined with script. Remove it."),
        ({"script": "nowhere.sh"}, "script: 'nowhere.sh' is not a file on the controller (searched in "),
        ({"script": "empty.sh"}, "script: 'empty.sh' is empty."),
        ({"script": "windows.sh"}, "script: 'windows.sh' has Windows line breaks."),
        ({"script": "large.sh"}, "script: 'large.sh' is larger than 1 MiB."),
        ({"script": "setup.sh", "sha256": "0" * 64}, "sha256: applies only to a script from a URL."),
        ({"script": "https://example.com/x.sh", "sha256": "abc"}, "sha256: the value is not a SHA-256 digest."),
        ({"script": "http://example.com/x.sh?s=1"}, "script: 'http://example.com/x.sh' cannot be downloaded. Use an https:// URL"),
        ({"script": "s3://bucket"}, "script: 's3://bucket' does not name a file."),
        ({"script": "https://me:hunter2@example.com/x.sh"}, "script: the URL contains a user name or a password"),
        ({"command": ""}, "command: the value is empty."),
        ({"command": []}, "command: the list does not begin with a program."),
        ({"command": [["x"]]}, "command: the value is not a list of strings. Write it in quotes."),
        ({"command": {"x": 1}}, "command: the value is not text. Write it in quotes."),
        ({"command": "a\0b"}, "command: the value contains a NUL character."),
        ({"repository": "https://example.com/x.git"}, "path: missing."),
        ({"repository": "https://example.com/x.git", "path": "src"}, "path: 'src' is not an absolute path below /."),
        ({"repository": "https://example.com/x.git", "path": "/"}, "path: '/' is not an absolute path below /."),
        ({"repository": "https://example.com/x.git", "path": "/opt/../etc"}, "path: '/opt/../etc' is not an absolute path below /."),
        ({"repository": "--upload-pack=x", "path": "/opt/x"}, "repository: the value is not a URL."),
        ({"repository": "ssh://me:hunter2@example.com/x", "path": "/opt/x"}, "repository: ssh does not use the password in the URL"),
        ({"repository": "https://example.com/x", "path": "/opt/x", "version": "-x"}, "version: '-x' is not a branch, tag or commit."),
        ({"command": "true", "timeout": 0}, "timeout: '0' is not a number of seconds. Use a whole number above 0."),
        ({"command": "true", "timeout": "1h"}, "timeout: '1h' is not a number of seconds."),
        ({"command": "true", "timeout": True}, "timeout: 'True' is not a number of seconds."),
        ({"command": "true", "only": "worker"}, "only: 'worker' is not a valid value. Use one of all, master and workers."),
        ({"command": "true", "user": "a b"}, "user: 'a b' is not a valid user name."),
        ({"command": "true", "name": "a\nb"}, "name: the value is not a single line of at most 100 characters."),
        ({"command": "true", "environment": ["x"]}, "environment: the value is not a dictionary."),
        ({"command": "true", "environment": {"A-B": "x"}}, "environment: 'A-B' is not a valid variable name."),
        ({"command": "true", "environment": {"A": True}}, "environment: A: the value is not text. Write it in quotes."),
        ({"command": "true", "secrets": {"A": ["hunter2"]}}, "secrets: A: the value is not text. Write it in quotes."),
        ({"command": "true", "secrets": {"A": "ab  "}}, "secrets: A: the value is too short to be masked. Use 4 characters or more."),
        ({"command": "true", "secrets": {"A": "123"}}, "secrets: A: the value is too short to be masked. Use 4 characters or more."),
        ({"command": "true", "environment": {"A": "x"}, "secrets": {"A": "hunter2"}}, "secrets: 'A' is also in environment."),
    ],
)
def test_each_error_is_one_message_without_secrets(wrong, step, message):
    (found,) = wrong(step)
    assert found.startswith(f"step 1: {message}")
    assert "hunter2" not in found


def test_a_value_that_is_no_list():
    assert read_steps("setup.sh", ["/"]) == ([], ["node_setup_steps: the value is not a list. Use a list of steps."])


def host(number=None):
    own = {"deeplearning_cluster": "demo", **({"deeplearning_number": number} if number else {})}
    return {**own, "inventory_hostname": "node", "hostvars": HostVars({"node": own})}


def test_the_master_and_the_workers_have_steps_of_their_own(read):
    steps = read({"command": "a"}, {"command": "b", "only": "master"}, {"command": "c", "only": "workers"})
    assert [step["command"] for step in steps_of_node(steps, host(1))] == ["a", "b"]
    assert [step["command"] for step in steps_of_node(steps, host(2))] == ["a", "c"]
    assert [step["command"] for step in steps_of_node(steps[:1], host())] == ["a"]
    with pytest.raises(AnsibleActionFail, match="step 2: only is 'master', but the inventory does not say whether node is the master"):
        steps_of_node(steps, host())
