"""Tests of the upload of a host's logs."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_logs import export


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host that has a boot log, a set-up log and the kernel's journal, and that lacks another log.

    The values are a function that exports the logs, the uploaded files by path, and the folder of the test.
    """
    logs = tmp_path / "setup-logs"
    logs.mkdir()
    (logs / "tools.log").write_text("installed\n")
    for name in ("cloud-init.log", "gone.log"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "gone.log").unlink()
    monkeypatch.setattr(export, "FILES", tuple(str(tmp_path / name) for name in ("cloud-init.log", "gone.log")))
    monkeypatch.setattr(export, "LOGS", str(logs))
    uploaded = {}

    def copy(_access, folder, destination, _report, *_options, tree):
        for place, _folders, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    uploaded[os.path.relpath(path, folder)] = file.read()

    def run(command):
        return (0, "", "") if f"--unit={export.UNIT}" in command else (0, "kernel \udce9\n", "")

    monkeypatch.setattr(export.s3, "copy", copy)
    monkeypatch.setattr(export.s3, "list_objects", None)  # jobs can put any objects there
    return lambda *, check_mode=False: export.export(run, "s3://results/nodes/w2/", "", check_mode=check_mode), uploaded, tmp_path


def test_each_run_uploads_all_logs(host):
    export_logs, uploaded, _folder = host
    everything = ["cloud-init.log", "kernel.log", "setup/tools.log"]
    predicted = export_logs(check_mode=True)
    assert uploaded == {}
    result = export_logs()
    assert result == predicted == {"changed": True, "destination": "s3://results/nodes/w2/", "logs": everything}
    assert sorted(uploaded) == everything
    assert uploaded["setup/tools.log"] == b"installed\n"
    uploaded.clear()
    assert export_logs() == result
    assert sorted(uploaded) == everything


def test_links_are_not_followed(host):
    export_logs, uploaded, folder = host
    (folder / "setup-logs/tools.log").unlink()
    (folder / "setup-logs/tools.log").symlink_to("/etc/passwd")
    with pytest.raises(ValueError, match=r"/setup-logs/tools\.log cannot be copied: .*symbolic links\. Correct or remove this file\."):
        export_logs()
    assert uploaded == {}


@pytest.mark.parametrize(
    ("destination", "name", "expected"),
    [
        ("s3://results", "w2-i-0ab", "s3://results/nodes/w2-i-0ab/"),
        ("s3://results/a/b", "w2", "s3://results/a/b/nodes/w2/"),
        ("s3://results", "gpu_host.example.com", "s3://results/nodes/gpu_host.example.com/"),
        ("results", "w2", None),
        ("s3://results", "../w2", None),
        ("s3://results", "", None),
    ],
)
def test_each_host_has_its_own_prefix(destination, name, expected):
    if expected is None:
        with pytest.raises(ValueError, match=r"results|name: "):
            export.prefix(destination, name)
    else:
        assert export.prefix(destination, name) == expected
