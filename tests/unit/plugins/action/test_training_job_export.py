"""Tests of the output of an export."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.action.training_job_export import changing, omitted, summary, text

ANSWER = {"destination": "s3://results/digits/", "files": 12, "size": 3 << 20, "uploaded": 2, "uploaded_size": 2048}


@pytest.mark.parametrize(
    ("progress", "line"),
    [({"seconds": 5}, "exporting"), ({"seconds": 5, "uploaded_size": 5 << 30}, "exporting, 5.0 GiB uploaded")],
)
def test_the_progress(progress, line):
    assert text(progress) == line


def test_the_result():
    end = "of 12 files (3.0 MiB) uploaded to s3://results/digits/; the other files are already there"
    assert summary(ANSWER, check_mode=False) == f"2 (2.0 KiB) {end}"
    assert summary(ANSWER, check_mode=True) == f"2 (2.0 KiB) {end.replace('uploaded', 'would be uploaded')}"


@pytest.mark.parametrize(("count", "more"), [(1, ""), (4, ", and 3 more")])
def test_what_is_left_out(count, more):
    assert omitted({"omitted": ["checkpoints/.b/"]}) == "not uploaded: checkpoints/.b/"
    assert omitted({"omitted": ["checkpoints/.b/"], "omitted_count": count}) == f"not uploaded: checkpoints/.b/{more}"


@pytest.mark.parametrize(("count", "files"), [(1, "1 file"), (2, "2 files")])
def test_files_that_change(count, files):
    assert changing(count) == f"{files} changed while being uploaded. Export again after the job has ended."
