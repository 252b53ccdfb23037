"""Data repository associations: links between Lustre file systems and S3 buckets."""

from __future__ import annotations

from typing import Any

from local_cloud.testing import wait_until

from ..conftest import Account, refused
from .conftest import SCRATCH, available, create


def test_links_to_s3(account: Account, subnet: str) -> None:
    fsx, bucket = account.client("fsx"), account.name("bucket")
    account.client("s3").create_bucket(Bucket=bucket)
    identifier = create(account, subnet, SCRATCH, FileSystemTypeVersion="2.15")["FileSystemId"]
    old = create(account, subnet, SCRATCH)["FileSystemId"]
    available(account, old)
    available(account, identifier)
    policies = {"AutoImportPolicy": {"Events": ["NEW", "CHANGED"]}, "AutoExportPolicy": {"Events": ["NEW"]}}
    request = {"FileSystemPath": "/data", "DataRepositoryPath": f"s3://{bucket}/one/", "S3": policies, "BatchImportMetaDataOnCreate": True}

    def link(file_system: str = identifier, **changes: Any) -> dict[str, Any]:
        linked: dict[str, Any] = fsx.create_data_repository_association(FileSystemId=file_system, **{**request, **changes})["Association"]
        return linked

    created = link(ClientRequestToken=bucket)
    assert link(ClientRequestToken=bucket)["AssociationId"] == created["AssociationId"]
    assert (created["Lifecycle"], created["S3"], created["FileSystemPath"]) == ("CREATING", policies, "/data")
    refused(lambda: link(FileSystemPath="/data/deeper", DataRepositoryPath=f"s3://{bucket}/two/"), "BadRequest", "overlaps")
    refused(lambda: link(FileSystemPath="/", DataRepositoryPath=f"s3://{bucket}/two/"), "BadRequest", "overlaps")
    refused(lambda: link(FileSystemPath="/other"), "BadRequest", "linked by")
    refused(lambda: link(FileSystemPath="/other", DataRepositoryPath="s3://no-such-bucket"), "BadRequest", "no-such-bucket")
    refused(lambda: link(old), "UnsupportedOperation", "2.12")
    refused(lambda: link("fs-0123456789abcdef0"), "FileSystemNotFound")
    link(FileSystemPath="/database", DataRepositoryPath=f"s3://{bucket}/two/")
    filters = [{"Name": "file-system-id", "Values": [identifier]}]

    def links() -> dict[str, str]:
        found = fsx.describe_data_repository_associations(Filters=filters)["Associations"]
        return {each["FileSystemPath"]: each["Lifecycle"] for each in found}

    wait_until(lambda: links() == {"/data": "AVAILABLE", "/database": "AVAILABLE"})
    quiet = {"AutoExportPolicy": {"Events": []}}
    changed = fsx.update_data_repository_association(AssociationId=created["AssociationId"], S3=quiet)["Association"]
    assert (changed["Lifecycle"], changed["S3"]) == ("UPDATING", {**policies, **quiet})
    refused(lambda: fsx.update_data_repository_association(AssociationId=created["AssociationId"], S3=quiet), "BadRequest", "UPDATING")
    wait_until(lambda: links() == {"/data": "AVAILABLE", "/database": "AVAILABLE"})
    assert fsx.delete_data_repository_association(AssociationId=created["AssociationId"])["Lifecycle"] == "DELETING"
    wait_until(lambda: links() == {"/database": "AVAILABLE"})
    unknown = [created["AssociationId"]]
    refused(lambda: fsx.describe_data_repository_associations(AssociationIds=unknown), "DataRepositoryAssociationNotFound")
    fsx.delete_file_system(FileSystemId=identifier)
    wait_until(lambda: links() == {})


def test_fsx_works_on_one_request_after_another(account: Account, subnet: str) -> None:
    fsx, bucket = account.client("fsx"), account.name("bucket")
    account.client("s3").create_bucket(Bucket=bucket)
    identifier = create(account, subnet, SCRATCH, FileSystemTypeVersion="2.15")["FileSystemId"]
    available(account, identifier)
    account.control.set_delays(data_repository_association=100)
    for name in "abc":
        fsx.create_data_repository_association(
            FileSystemId=identifier, FileSystemPath=f"/{name}", DataRepositoryPath=f"s3://{bucket}/{name}"
        )

    def states() -> list[str]:
        found = fsx.describe_data_repository_associations(Filters=[{"Name": "file-system-id", "Values": [identifier]}])["Associations"]
        return [each["Lifecycle"] for each in sorted(found, key=lambda each: each["FileSystemPath"])]

    for count in range(4):
        assert states() == ["AVAILABLE"] * count + ["CREATING"] * (3 - count)
        account.control.advance(100)
