"""The price list has AWS's form, and filters as AWS does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ..conftest import Account

INSTANCE = {
    "instanceType": "g5.12xlarge",
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}


def prices(account: Account, service: str, region: str = "us-east-1", **terms: str) -> list[tuple[str, str, float]]:
    """Return the usage type, unit and price of all products of a service with these attributes."""
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in {"regionCode": region, **terms}.items()]
    pages = account.client("pricing").get_paginator("get_products").paginate(ServiceCode=service, Filters=filters)
    found = []
    for text in (text for page in pages for text in page["PriceList"]):
        item = json.loads(text)
        (term,) = item["terms"]["OnDemand"].values()
        (dimension,) = term["priceDimensions"].values()
        assert item["product"]["attributes"]["servicecode"] == item["serviceCode"] == service
        found.append((item["product"]["attributes"]["usagetype"], dimension["unit"], float(dimension["pricePerUnit"]["USD"])))
    return found


def test_an_instance_type_has_one_price_in_each_region(account: Account) -> None:
    ((usage, unit, price),) = prices(account, "AmazonEC2", **INSTANCE)
    assert (usage, unit, price) == ("BoxUsage:g5.12xlarge", "Hrs", pytest.approx(48 * 0.05 + 4 * 2.5))
    ((usage, _unit, elsewhere),) = prices(account, "AmazonEC2", "eu-west-1", **INSTANCE)
    assert (usage, elsewhere) == ("EU-BoxUsage:g5.12xlarge", pytest.approx(price * 1.1))
    assert not prices(account, "AmazonEC2", **{**INSTANCE, "instanceType": "g5.99xlarge"})


@pytest.mark.parametrize("name", [name for name in INSTANCE if name != "instanceType"])
def test_without_one_of_the_terms_there_are_several(account: Account, name: str) -> None:
    assert len(prices(account, "AmazonEC2", **{key: value for key, value in INSTANCE.items() if key != name})) > 1


@pytest.mark.parametrize(
    ("service", "terms", "expected"),
    [
        ("AmazonEC2", {"productFamily": "NAT Gateway"}, {"NatGateway-Hours", "NatGateway-Bytes"}),
        ("AmazonEC2", {"productFamily": "Storage", "volumeApiName": "io1"}, {"EBS:VolumeUsage.piops"}),
        ("AmazonVPC", {"group": "VPCPublicIPv4Address"}, {"USE1-PublicIPv4:InUseAddress", "USE1-PublicIPv4:IdleAddress"}),
        ("AmazonEFS", {"storageClass": "General Purpose"}, {"TimedStorage-ByteHrs"}),
        ("ElasticMapReduce", {"instanceType": "m5.xlarge", "softwareType": "EMR"}, {"BoxUsage:m5.xlarge"}),
    ],
)
def test_products(account: Account, service: str, terms: dict[str, str], expected: set[str]) -> None:
    assert {usage for usage, _unit, _price in prices(account, service, **terms)} == expected


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("ANY_OF", "gp2,gp3", {"gp2", "gp3"}),
        ("CONTAINS", "gp", {"gp2", "gp3"}),
        ("EQUALS", "gp3", {"gp3"}),
        ("NONE_OF", "gp2,gp3", {"io1", "io2"}),
    ],
)
def test_filters(account: Account, kind: str, value: str, expected: set[str]) -> None:
    filters: list[Any] = [
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"},
        {"Type": "TERM_MATCH", "Field": "productFamily", "Value": "Storage"},
        {"Type": kind, "Field": "volumeApiName", "Value": value},
    ]
    found = account.client("pricing").get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
    assert {json.loads(each)["product"]["attributes"]["volumeApiName"] for each in found} == expected


def test_pages(account: Account) -> None:
    client, filters = account.client("pricing"), [{"Type": "TERM_MATCH", "Field": "instanceType", "Value": "g5.xlarge"}]
    first = client.get_products(ServiceCode="AmazonEC2", Filters=filters, MaxResults=5)
    second = client.get_products(ServiceCode="AmazonEC2", Filters=filters, MaxResults=5, NextToken=first["NextToken"])
    assert len({*first["PriceList"], *second["PriceList"]}) == 10
    for service, token, code in (("AmazonEC2", "x", "InvalidNextTokenException"), ("Lunch", "5", "NotFoundException")):
        with pytest.raises(ClientError, match=code):
            client.get_products(ServiceCode=service, NextToken=token)


def test_only_some_regions_have_an_endpoint(account: Account) -> None:
    assert Account(account.url, "eu-central-1").client("pricing").get_products(ServiceCode="AmazonEFS")["PriceList"]
    with pytest.raises(ClientError, match="no endpoint in eu-west-1"):
        Account(account.url, "eu-west-1").client("pricing").get_products(ServiceCode="AmazonEFS")


def test_a_user_needs_permission(account: Account) -> None:
    denied = account.user({"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}).client("pricing")
    with pytest.raises(ClientError, match="AccessDenied"):
        denied.get_products(ServiceCode="AmazonEFS")
    allowed = account.user({"Effect": "Allow", "Action": "pricing:GetProducts", "Resource": "*"}).client("pricing")
    assert allowed.get_products(ServiceCode="AmazonEFS")["PriceList"]
