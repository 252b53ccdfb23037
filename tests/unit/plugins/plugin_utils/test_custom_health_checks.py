"""Tests of custom checks on the controller."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import custom_health_checks


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "checks").mkdir()
    return tmp_path / "checks"


def program(folder, name, content=b"#!/bin/sh\n", mode=0o755):
    (folder / name).write_bytes(content)
    (folder / name).chmod(mode)


def test_executable_files_are_sent(folder, tmp_path, monkeypatch):
    warnings = []
    monkeypatch.setattr(custom_health_checks.Display, "warning", lambda self, text: warnings.append(text))
    program(folder, "b", b"\x7fELF\x00")
    program(folder, "a.sh")
    program(folder, ".hidden")
    program(folder, "README.md", mode=0o644)
    (folder / "lib").mkdir()
    sent = custom_health_checks.programs("checks", ["/nowhere", str(tmp_path)])
    assert [(each["name"], base64.b64decode(each["content"])) for each in sent] == [("a.sh", b"#!/bin/sh\n"), ("b", b"\x7fELF\x00")]
    assert [warning.split(" ", 2)[2] for warning in warnings] == [
        "is not executable, so it is not run. To run this file, make it executable with chmod +x."
    ]


def test_without_a_folder_nothing_is_sent():
    assert custom_health_checks.programs("", ["/"]) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a b", b"", "checks: 'a b' is not a valid check name"),
        ("clock", b"", "checks: 'clock' is the name of one of the collection's checks. Rename the file."),
        ("a\nb", b"", "is not a valid check name"),
        ("disk.sh", b"#!/bin/sh\r\nexit 0\r\n", "checks: '.*disk.sh' has Windows line breaks"),
        ("disk.sh", b"\xef\xbb\xbf#!/bin/sh\nexit 0\n", "checks: '.*disk.sh' begins with a byte order mark"),
        ("large", bytes(custom_health_checks.PROGRAMS_LIMIT + 3), "but the limit is 1048576 bytes"),
    ],
)
def test_files_that_cannot_be_checks(folder, name, content, message):
    program(folder, name, content)
    with pytest.raises(ValueError, match=message):
        custom_health_checks.programs(str(folder), ["/"])


def test_a_folder_that_is_missing():
    with pytest.raises(ValueError, match="checks: 'nowhere' is not a directory on the controller"):
        custom_health_checks.programs("nowhere", ["/"])


@pytest.mark.parametrize(("method", "place"), [("read_bytes", ".*own"), ("iterdir", ".*")])
def test_a_file_or_a_folder_that_the_user_may_not_read(folder, monkeypatch, method, place):
    def denied(_path):
        raise PermissionError(13, "Permission denied")

    program(folder, "own")
    monkeypatch.setattr(custom_health_checks.Path, method, denied)
    with pytest.raises(ValueError, match=rf"checks: '{place}' cannot be read \(Permission denied\). Correct its permissions."):
        custom_health_checks.programs(str(folder), ["/"])
