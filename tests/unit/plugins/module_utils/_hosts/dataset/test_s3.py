"""Tests that progress and errors are read from the output of the AWS CLI."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset import source
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import s3


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
            "s3://data/a: the bucket is in another region: An error occurred (PermanentRedirect) when calling the PutObject operation: "
            "Use eu-west-1. Use a bucket in the cluster's region.",
        ),
        ("first\nCould not connect to the endpoint URL\n", "s3://data: Could not connect to the endpoint URL"),
        ("", "s3://data: the AWS CLI failed without a message"),
        (
            "warning: Skipping file /nvme/a/. File does not exist.\n"
            'download failed: s3://data/a/7.bin to ../a/7.bin Could not connect to the endpoint URL: "https://data.s3.amazonaws.com/a/7.bin"\n'
            "warning: Skipping file /nvme/error: failed.log. File does not exist.\n",
            "s3://data: download failed: s3://data/a/7.bin to ../a/7.bin Could not connect to the endpoint URL: "
            '"https://data.s3.amazonaws.com/a/7.bin"',
        ),
        ("warning: Skipping file /nvme/a. File does not exist.\n", "s3://data: warning: Skipping file /nvme/a. File does not exist"),
        (
            "download failed: s3://data/403/7.bin to ../7.bin An error occurred (SlowDown) when calling the GetObject operation (reached "
            "max retries: 4): Please reduce your request rate.\n"
            "download failed: s3://data/8.bin to ../8.bin An error occurred (InternalError) when calling the GetObject operation: Error\n",
            "s3://data/403/7.bin: An error occurred (SlowDown) when calling the GetObject operation (reached max retries: 4): Please "
            "reduce your request rate (first of 2 failures)",
        ),
        (
            "An error occurred (NoSuchUpload) when calling the ListParts operation: None\n\nAdditional error details:\nUploadId: 1\n",
            "s3://data: An error occurred (NoSuchUpload) when calling the ListParts operation: None",
        ),
        (
            "upload failed: ../links/a to s3://data/a An error occurred (KMS.DisabledException) when calling the PutObject operation: "
            "arn:aws:kms:us-east-1:111122223333:key/1 is disabled.\n",
            "s3://data/a: the KMS key of the bucket or object cannot be used: An error occurred (KMS.DisabledException) when calling the "
            "PutObject operation: arn:aws:kms:us-east-1:111122223333:key/1 is disabled. Check that the key exists and is enabled.",
        ),
    ],
)
def test_what_s3_refuses_is_explained(errors, message):
    assert str(s3.failure(s3.Access(), source.parse("s3://data"), errors)) == message


def test_a_denial_says_what_grants_the_access():
    denied = s3.failure(s3.Access(grant="Ask"), source.parse("s3://data"), "403 Forbidden")
    assert isinstance(denied, source.DeniedError)
    assert str(denied) == "s3://data: S3 denies this host access: 403 Forbidden. Ask, and run deeplearning.cluster.provision."


@pytest.mark.parametrize(
    "reason",
    [
        "User: arn:aws:sts::111122223333:assumed-role/n/i-1 is not authorized to perform: kms:Decrypt on resource: arn:aws:kms:us-east-1:"
        "111122223333:key/1 because no identity-based policy allows the kms:Decrypt action",
        "The ciphertext refers to a customer master key that does not exist, does not exist in this region, or you are not allowed to "
        "access",
    ],
)
def test_a_denied_kms_key_is_named_as_the_cause(reason):
    answer = f"An error occurred (AccessDenied) when calling the GetObject operation: {reason}"
    denied = s3.failure(s3.Access(), source.parse("s3://data"), f"download failed: s3://data/7.bin to ../7.bin {answer}.\n")
    assert isinstance(denied, source.DeniedError)
    assert str(denied) == (
        f"s3://data/7.bin: this host's role is not allowed to use the KMS key: {answer}. Allow kms:Decrypt and kms:GenerateDataKey for the "
        "role in the key policy and, if the key belongs to another account, also in a policy of the role."
    )


@pytest.mark.parametrize(
    ("script", "text"),
    [("echo '{}'", "{}\n"), ("echo 'An error occurred (404) when calling HeadObject' >&2; exit 1", None)],
)
def test_an_object_is_read(tmp_path, monkeypatch, script, text):
    replace_aws(tmp_path, monkeypatch, script)
    assert s3.read_object(s3.Access(), "s3://data/set/.dataset.json") == text


def test_an_object_whose_name_contains_404_is_not_missing(tmp_path, monkeypatch):
    errors = "download failed: s3://data/404/a to - An error occurred (AccessDenied) when calling the GetObject operation: Access Denied"
    replace_aws(tmp_path, monkeypatch, f"echo '{errors}' >&2; exit 1")
    with pytest.raises(source.DeniedError, match=r"^s3://data/404/a: S3 denies"):
        s3.read_object(s3.Access(), "s3://data/404/a")


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


RESET = "download failed: s3://data/7.bin to ./7.bin (\"Connection broken: ConnectionResetError(104, 'Connection reset by peer')\", ...)"
SLOW = "download failed: s3://data/8.bin to ./8.bin An error occurred (SlowDown) when calling the GetObject operation: Reduce your rate."
DENIED = "download failed: s3://data/9.bin to ./9.bin An error occurred (AccessDenied) when calling the GetObject operation: Denied"


@pytest.mark.parametrize(
    ("errors", "source_", "calls"),
    [
        ([RESET, SLOW], "s3://data", 3),
        ([RESET, DENIED], "s3://data", 1),
        (["the AWS CLI was killed"], "s3://data", 1),
        (["upload failed: ./a to s3://data/a Connection was closed before we received a valid response"], "/data", 1),
    ],
)
def test_a_download_is_repeated_after_failures_that_pass(tmp_path, monkeypatch, errors, source_, calls):
    monkeypatch.setattr(s3, "PAUSES", (0, 0))
    (tmp_path / "errors").write_text("\n".join(errors))
    replace_aws(tmp_path, monkeypatch, f"cd {tmp_path}; echo >> calls; cat errors >&2; exit 1")
    with pytest.raises(source.DataError):
        s3.copy(s3.Access(), source_, "s3://data" if source_ == "/data" else "/data", lambda done, total: None)
    assert (tmp_path / "calls").read_text() == "\n" * calls


def test_a_repeated_download_can_succeed(tmp_path, monkeypatch):
    monkeypatch.setattr(s3, "PAUSES", (0, 0))
    (tmp_path / "errors").write_text(RESET)
    replace_aws(tmp_path, monkeypatch, f"cd {tmp_path}; [ -e calls ] || {{ echo > calls; cat errors >&2; exit 1; }}")
    s3.copy(s3.Access(), "s3://data", "/data", lambda done, total: None)
