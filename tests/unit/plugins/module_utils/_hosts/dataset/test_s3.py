# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests that progress and errors are read from the output of the AWS CLI."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import s3, source


def replace_aws(folder, monkeypatch, script):
    """Replace the AWS CLI with a shell script."""
    (folder / "aws").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "aws").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("line", "bytes_"),
    [
        ("Completed 1.5 MiB/~20.0 MiB (2.1 MiB/s) with ~12 file(s) remaining (calculating...)", (1572864, 20971520)),
        ("Completed 7 Bytes/7 Bytes (88 Bytes/s) with 1 file(s) remaining", (7, 7)),
        ("download: s3://data/a to ./a", None),
    ],
)
def test_the_progress_of_the_aws_cli(line, bytes_):
    assert s3.completed_bytes(line) == bytes_


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (
            "An error occurred (AccessDenied) when calling the ListObjectsV2 operation: Access Denied",
            "s3://data: S3 denies this host access: An error occurred (AccessDenied) when calling the ListObjectsV2 operation: Access "
            "Denied. Add the bucket to deeplearning_read_buckets, or to deeplearning_write_buckets if data is written to it, and run "
            "deeplearning.cluster.provision.",
        ),
        (
            "Unable to locate credentials",
            "s3://data: this host has no AWS credentials. On a node, check the instance profile. "
            "The AWS CLI reports: Unable to locate credentials",
        ),
        (
            "An error occurred (NoSuchBucket): The specified bucket does not exist",
            "s3://data: there is no bucket data. Check the name, or create the bucket.",
        ),
        (
            "upload failed: a to s3://data/a An error occurred (PermanentRedirect) when calling the PutObject operation: Use eu-west-1.\n",
            "s3://data: the bucket is in another region: An error occurred (PermanentRedirect) when calling the PutObject operation: "
            "Use eu-west-1. Use a bucket in the cluster's region.",
        ),
        ("first\nCould not connect to the endpoint URL\n", "s3://data: Could not connect to the endpoint URL"),
        ("", "s3://data: the AWS CLI failed without a message"),
    ],
)
def test_what_s3_refuses_is_explained(errors, message):
    assert str(s3.failure(s3.Access(), source.parse("s3://data"), errors)) == message


def test_a_denial_says_what_grants_the_access():
    denied = s3.failure(s3.Access(grant="Ask"), source.parse("s3://data"), "403 Forbidden")
    assert isinstance(denied, source.DeniedError)
    assert str(denied) == "s3://data: S3 denies this host access: 403 Forbidden. Ask, and run deeplearning.cluster.provision."


@pytest.mark.parametrize(
    ("script", "text"),
    [("echo '{}'", "{}\n"), ("echo 'An error occurred (404) when calling HeadObject' >&2; exit 1", None)],
)
def test_an_object_is_read(tmp_path, monkeypatch, script, text):
    replace_aws(tmp_path, monkeypatch, script)
    assert s3.read_object(s3.Access(), "s3://data/set/.dataset.json") == text


def test_an_endless_object_is_not_read_into_memory(tmp_path, monkeypatch):
    replace_aws(tmp_path, monkeypatch, "exec head -c 200000000 /dev/zero")
    with pytest.raises(source.DataError, match=r"^s3://data/set/.dataset.json: the object is larger than 1 MiB"):
        s3.read_object(s3.Access(), "s3://data/set/.dataset.json")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("""echo 'ongoing-request="false", expiry-date="Fri, 21 Dec 2029 00:00:00 GMT"'""", True),
        ("""echo 'ongoing-request="true"'""", False),
        ("echo None", False),
    ],
)
def test_an_object_is_restored_or_not(tmp_path, monkeypatch, script, expected):
    replace_aws(tmp_path, monkeypatch, script)
    assert s3.is_restored(s3.Access(), source.parse("s3://b/set"), "set/a") is expected
    replace_aws(tmp_path, monkeypatch, "echo 'An error occurred (403) when calling the HeadObject operation: Forbidden' >&2; exit 254")
    with pytest.raises(source.DeniedError):
        s3.is_restored(s3.Access(), source.parse("s3://b/set"), "set/a")
