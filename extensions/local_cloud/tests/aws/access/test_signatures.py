"""Requests need a valid signature that covers their entire content."""

from __future__ import annotations

import socket
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials as Keys
from botocore.exceptions import ClientError
from local_cloud.aws.access.signatures import TIMESTAMP
from local_cloud.credentials import Credentials

from ..conftest import ADMINISTRATOR, Account

READS = {
    "ec2": ("describe_vpcs", "AuthFailure", "AuthFailure"),
    "autoscaling": ("describe_auto_scaling_groups", "InvalidClientTokenId", "SignatureDoesNotMatch"),
    "sts": ("get_caller_identity", "InvalidClientTokenId", "SignatureDoesNotMatch"),
    "ssm": ("describe_parameters", "UnrecognizedClientException", "InvalidSignatureException"),
    "efs": ("describe_file_systems", "UnrecognizedClientException", "InvalidSignatureException"),
    "s3": ("list_buckets", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
}


def refused(account: Account, service: str, call: str, **arguments: Any) -> str:
    """Return the error code of a call that is refused."""
    with pytest.raises(ClientError) as caught:
        getattr(account.client(service), call)(**arguments)
    return str(caught.value.response["Error"]["Code"])


@pytest.mark.parametrize("service", READS)
def test_unknown_keys_and_wrong_secrets_are_refused_as_by_aws(account: Account, service: str) -> None:
    call, unknown, wrong = READS[service]
    getattr(account.client(service), call)()
    assert refused(Account(account.url, keys=Credentials()), service, call) == unknown
    forged = Credentials(ADMINISTRATOR.access_key_id, Credentials().secret_access_key)
    assert refused(Account(account.url, keys=forged), service, call) == wrong


def test_a_request_without_a_signature_is_refused(account: Account) -> None:
    request = urllib.request.Request(f"{account.url}/", b"Action=DescribeVpcs&Version=2016-11-15")
    with pytest.raises(HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == 403
    with pytest.raises(HTTPError) as caught:
        urllib.request.urlopen(f"{account.url}/some-bucket/some-key")
    assert caught.value.code == 403


def signed(account: Account, body: bytes = b"Action=DescribeVpcs&Version=2016-11-15") -> AWSRequest:
    """Return a request to EC2 that botocore has signed."""
    request = AWSRequest("POST", f"{account.url}/", {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}, body)
    SigV4Auth(Keys(ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key), "ec2", "us-east-1").add_auth(request)
    return request


def status(request: AWSRequest, url: str = "", body: bytes | None = None) -> int:
    headers = {name: str(value) for name, value in request.headers.items()}
    asked = urllib.request.Request(url or request.url, body or request.data, headers, method=request.method)
    try:
        return int(urllib.request.urlopen(asked).status)
    except HTTPError as error:
        return error.code


def test_what_was_not_signed_is_refused(account: Account) -> None:
    request = signed(account)
    assert status(request) == 200
    assert status(request, body=b"Action=CreateVpc&Version=2016-11-15&CidrBlock=10.0.0.0/16") == 401
    assert status(request, url=f"{account.url}/?DryRun=true") == 401
    later = datetime.strptime(request.headers["X-Amz-Date"], TIMESTAMP) + timedelta(seconds=1)
    request.headers.replace_header("X-Amz-Date", later.strftime(TIMESTAMP))
    assert status(request) == 401


@pytest.mark.parametrize("minutes", [-20, 20])
def test_an_old_signature_is_refused(account: Account, minutes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    then = datetime.now(UTC) + timedelta(minutes=minutes)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: then)
    assert status(signed(account)) == 400


KEYS = ["plain.tar", "a b+c=d&e.txt", "ünï/cödé~(1)!*'.bin", "per%20cent", "with//two"]


@pytest.mark.parametrize("key", KEYS)
def test_objects_of_any_name_and_their_presigned_urls(account: Account, key: str) -> None:
    s3, bucket = account.client("s3"), account.name("signed")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key=key, Body=b"content", Metadata={"note": "two  blanks"})
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"content"
    modern = account.session.client("s3", endpoint_url=account.url, config=Config(signature_version="s3v4"))
    link = modern.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=60)
    with urllib.request.urlopen(link) as answer:
        assert answer.read() == b"content"
    with pytest.raises(HTTPError) as caught:
        urllib.request.urlopen(link.replace("X-Amz-Expires=60", "X-Amz-Expires=600"))
    assert caught.value.code == 403


def test_other_payloads_and_other_tokens_are_refused(account: Account) -> None:
    s3, bucket = account.client("s3"), account.name("payload")
    s3.create_bucket(Bucket=bucket)
    s3.meta.events.register("before-send.s3.PutObject", lambda request, **_: setattr(request, "body", b"another"))
    with pytest.raises(ClientError, match="XAmzContentSHA256Mismatch"):
        s3.put_object(Bucket=bucket, Key="file", Body=b"content")
    assert refused(Account(account.url, token="made-up"), "sts", "get_caller_identity") == "InvalidClientTokenId"


def test_keys_that_iam_made_work_until_they_are_deleted(account: Account) -> None:
    iam, name = account.client("iam"), account.name("user")
    iam.create_user(UserName=name)
    made = iam.create_access_key(UserName=name)["AccessKey"]
    user = Account(account.url, keys=Credentials(made["AccessKeyId"], made["SecretAccessKey"]))
    assert user.client("sts").get_caller_identity()["Arn"].endswith(f":user/{name}")
    iam.delete_access_key(UserName=name, AccessKeyId=made["AccessKeyId"])
    assert refused(user, "sts", "get_caller_identity") == "InvalidClientTokenId"


def test_only_requests_with_a_valid_signature_are_recorded(account: Account) -> None:
    request = signed(account)
    request.headers["Authorization"] = str(request.headers["Authorization"]).replace("Signature=", "Signature=0")
    before = account.control.calls()
    assert status(request) == 401
    assert account.control.calls() == before


@pytest.mark.parametrize("path", ["/", "/bucket/key", "/_local_cloud/reset"])
@pytest.mark.parametrize("service", ["ec2", "s3"])
@pytest.mark.parametrize("content", ["application/x-www-form-urlencoded", "application/json"])
@pytest.mark.parametrize("size", [f"Content-Length: {1 << 30}", "Content-Length: -1", "Transfer-Encoding: chunked"])
def test_large_bodies_are_not_read_before_the_signature_is_checked(
    account: Account, path: str, service: str, content: str, size: str
) -> None:
    address = urlsplit(account.url)
    credential = f"Credential={ADMINISTRATOR.access_key_id}/20260101/us-east-1/{service}/aws4_request"
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {address.netloc}",
        f"Content-Type: {content}",
        size,
        f"Authorization: AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=0",
        "X-Amz-Date: 20260101T000000Z",
        f"X-Amz-Content-Sha256: {'0' * 64}",
    ]
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=20) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        assert connection.recv(12)[9:] in (b"400", b"401", b"403", b"413")
