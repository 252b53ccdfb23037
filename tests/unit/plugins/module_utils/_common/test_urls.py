"""Tests of which parts of a URL are credentials."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common import urls


@pytest.mark.parametrize(
    ("url", "left"),
    [
        ("https://u:p@h/x", "https://h/x"),
        ("git+https://t@h/o/p.git@v1#subdirectory=d", "git+https://h/o/p.git@v1#subdirectory=d"),
        ("https://h/x?date=A&X-Amz-Algorithm=a&X-Amz-Signature=s", "https://h/x?date=A"),
        ("https://h/x?AWSAccessKeyId=a&Signature=s&Expires=1", "https://h/x"),
        ("https://h/x?Policy=a&Signature=s&Key-Pair-Id=k&versionId=1", "https://h/x?versionId=1"),
        ("https://h/x?GoogleAccessId=a&Expires=1&Signature=s&generation=2", "https://h/x?generation=2"),
        ("https://h/x?X-Goog-Signature=s&x-goog-date=1", "https://h/x"),
        ("https://h/x?sv=1&sr=b&se=2&sp=r&skoid=3&sig=s&snapshot=4", "https://h/x?snapshot=4"),
        ("https://h/x?token=a&private_token=b&job_token=c&access_token=d&api_key=e&apikey=f&__token__=g&v=1", "https://h/x?v=1"),
        ("https://h/x?sp=1&se=2&policy=3&expires=4&page_token=5", "https://h/x?sp=1&se=2&policy=3&expires=4&page_token=5"),
        ("https://h/x?sha=1#sha256=2", "https://h/x?sha=1#sha256=2"),
        ("https://h/x?token=1#egg=e", "https://h/x#egg=e"),
        ("p @ https://u@h/x?a ; marker == 'https://u@h/'", "p @ https://h/x?a ; marker == 'https://h/'"),
        ("/efs/wheels", "/efs/wheels"),
    ],
)
def test_what_identifies_the_content(url, left):
    assert urls.without_credentials(url) == left


def test_a_query_can_be_left_out():
    assert urls.without_credentials("-i https://u@h/simple?channel=1#x", has_query=False) == "-i https://h/simple#x"
