"""Progress and errors of the AWS CLI."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import source, tools
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.source import DataError


@pytest.mark.parametrize(
    ("line", "bytes_"),
    [
        ("Completed 1.5 MiB/~20.0 MiB (2.1 MiB/s) with ~12 file(s) remaining (calculating...)", (1572864, 20971520)),
        ("Completed 7 Bytes/7 Bytes (88 Bytes/s) with 1 file(s) remaining", (7, 7)),
        ("download: s3://data/a to ./a", None),
    ],
)
def test_the_progress_of_the_aws_cli(line, bytes_):
    assert tools.completed_bytes(line) == bytes_


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ("An error occurred (AccessDenied) when calling the ListObjectsV2 operation: Access Denied", "deeplearning_read_buckets"),
        ("Unable to locate credentials", "instance profile"),
        ("An error occurred (NoSuchBucket): The specified bucket does not exist", "s3://data: .*does not exist"),
        ("", "without a message"),
    ],
)
def test_what_s3_refuses_is_explained(errors, message):
    with pytest.raises(DataError, match=message):
        raise DataError(tools.explain_s3(source.parse("s3://data"), errors))
