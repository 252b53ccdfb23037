"""VPC Block Public Access."""

from __future__ import annotations

from ..conftest import Account, refused


def test_the_mode_and_its_exclusions(elsewhere: Account) -> None:
    ec2, vpc = elsewhere.ec2, elsewhere.vpc()
    options = ec2.describe_vpc_block_public_access_options()["VpcBlockPublicAccessOptions"]
    assert (options["State"], options["InternetGatewayBlockMode"]) == ("default-state", "off")
    ec2.modify_vpc_block_public_access_options(InternetGatewayBlockMode="block-ingress")
    options = ec2.describe_vpc_block_public_access_options()["VpcBlockPublicAccessOptions"]
    assert (options["State"], options["InternetGatewayBlockMode"]) == ("update-complete", "block-ingress")
    ec2.modify_vpc_block_public_access_options(InternetGatewayBlockMode="off")
    excluded = ec2.create_vpc_block_public_access_exclusion(VpcId=vpc, InternetGatewayExclusionMode="allow-egress")
    exclusion = excluded["VpcBlockPublicAccessExclusion"]
    assert ec2.describe_vpc_block_public_access_exclusions()["VpcBlockPublicAccessExclusions"] == [exclusion]
    assert exclusion["ResourceArn"].endswith(f":vpc/{vpc}")
    for resources in ({}, {"VpcId": vpc, "SubnetId": elsewhere.subnets("a", vpc)[0]}):
        refused(
            lambda given=resources: ec2.create_vpc_block_public_access_exclusion(InternetGatewayExclusionMode="allow-egress", **given),
            "InvalidParameterCombination",
        )
