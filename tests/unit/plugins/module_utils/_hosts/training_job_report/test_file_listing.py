"""Tests that check what a report contains about a job's files."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report import file_listing

START = 1_790_000_000.0


def test_equal_code_has_equal_digests(tmp_path):
    for folder, content in (("one", "print(1)"), ("same", "print(1)"), ("other", "print(2)")):
        place = tmp_path / folder / "package"
        (place / "__pycache__").mkdir(parents=True)
        (place / "train.py").write_text(content)
        (place / "__pycache__" / "train.pyc").write_text(folder)
        (place / "nowhere").symlink_to("gone")
    one, same, other = (file_listing.code(str(tmp_path / folder)) for folder in ("one", "same", "other"))
    assert one["digest"] == same["digest"] != other["digest"]
    assert (one["count"], one["size"], one["files"][0]["name"]) == (1, 8, "package/train.py")


def test_listings_name_the_newest_files(tmp_path, monkeypatch):
    monkeypatch.setattr(file_listing.report_limits, "FILES", 2)
    for age, name in enumerate([b"new.pt", b"r\xe9sum\xe9.pt", b"old.pt"]):
        path = bytes(tmp_path) + b"/" + name
        with open(path, "wb") as file:
            file.write(b"x" * 10)
        file_listing.os.utime(path, (START - age, START - age))
    found = file_listing.newest(str(tmp_path))
    assert (found["count"], found["size"]) == (3, 30)
    assert [file["name"] for file in found["files"]] == ["new.pt", "r\ufffdsum\ufffd.pt"]
    assert file_listing.newest(str(tmp_path / "none"))["count"] == 0
