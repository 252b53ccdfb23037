"""Tests of prices in the form of the AWS Price List. tests/integration/test_prices.py asks a price list."""

from __future__ import annotations

import datetime
import json

import boto3
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing import price_list
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.charges import Product
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.instance_products import instance, spot_instance
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.price_list import Price
from botocore.exceptions import ClientError

VOLUME = Product("volume", "gp3", "AmazonEC2", "EBS:VolumeUsage.gp3", "GB-Mo")


def item(usage, amount="0.0800000000", unit="GB-Mo", currency="USD"):
    dimension = {"unit": unit, "pricePerUnit": {currency: amount}}
    term = {"priceDimensions": {"S.J.6": dimension}}
    return json.dumps({"product": {"attributes": {"usagetype": usage}, "sku": "S"}, "terms": {"OnDemand": {"S.J": term}}})


class Cloud:
    """A connection that returns the given items, or raises the given error."""

    def __init__(self, *items, region="eu-west-1", error=None, history=()):
        self.items, self.region, self.error, self.history = items, region, error, history
        self.connected = self.service = self.filters = None
        self.session = boto3.session.Session()

    def connect(self, service, region, config):
        self.connected = (service, region, config.connect_timeout, config.retries)
        return self

    def get_products(self, **arguments):
        """Return one item per page."""
        if self.error:
            raise self.error
        self.service = arguments["ServiceCode"]
        self.filters = {each["Field"]: (each["Type"], each["Value"]) for each in arguments["Filters"]}
        number = int(arguments.get("NextToken", 0))
        more = {"NextToken": str(number + 1)} if number + 1 < len(self.items) else {}
        return {"PriceList": self.items[number : number + 1], **more}

    def retrieve(self, *_names, **arguments):
        self.filters = arguments
        return self.history


@pytest.mark.parametrize("unit", ["GB-Mo", "GB-month"])
@pytest.mark.parametrize("usage", ["EBS:VolumeUsage.gp3", "EU-EBS:VolumeUsage.gp3"])
def test_usage_types_can_begin_with_a_code_of_the_region(usage, unit):
    cloud = Cloud(item(usage, unit=unit))
    assert price_list.fetch(cloud, [VOLUME]) == ({VOLUME: Price(0.08 / 730, "USD")}, {})
    assert cloud.filters == {"regionCode": ("TERM_MATCH", "eu-west-1"), "usagetype": ("CONTAINS", "EBS:VolumeUsage.gp3")}


def test_only_the_price_of_a_linux_instance_without_reservation_is_asked_for():
    cloud, product = Cloud(item("EU-BoxUsage:g5.xlarge", unit="Hrs")), instance("g5.xlarge")
    assert price_list.fetch(cloud, [product]) == ({product: Price(0.08, "USD")}, {})
    terms = {"regionCode": "eu-west-1", "instanceType": "g5.xlarge", "operatingSystem": "Linux", "tenancy": "Shared"}
    terms |= {"preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand"}
    matches = {name: ("TERM_MATCH", value) for name, value in terms.items()}
    assert (cloud.service, cloud.filters) == ("AmazonEC2", {**matches, "usagetype": ("CONTAINS", "BoxUsage:g5.xlarge")})


@pytest.mark.parametrize(
    "items",
    [
        (),
        (item("EU-EBS:VolumeUsage.gp3.tier2"),),
        (item("EU-SnapshotEBS:VolumeUsage.gp3"),),
        (item("EU-EBS:VolumeUsage.gp3", unit="Hrs"),),
        (item("EU-EBS:VolumeUsage.gp3", amount="0.0000000000"),),
        (item("EU-EBS:VolumeUsage.gp3"), item("EBS:VolumeUsage.gp3", amount="0.0900000000")),
    ],
)
def test_without_exactly_one_price_there_is_none(items):
    assert price_list.fetch(Cloud(*items), [VOLUME]) == ({}, {})


def test_equal_prices_are_one_and_have_their_currency():
    cloud = Cloud(*2 * [item("EBS:VolumeUsage.gp3", currency="CNY")], region="cn-north-1")
    assert price_list.fetch(cloud, [VOLUME])[0] == {VOLUME: Price(0.08 / 730, "CNY")}


@pytest.mark.parametrize("content", ["{", "[]", '{"product": {"attributes": {}}}', '{"product": 5}'])
def test_an_answer_in_another_form_is_no_failure(content):
    found, problem = price_list.fetch(Cloud(content.replace("{}", '{"usagetype": "EBS:VolumeUsage.gp3"}')), [VOLUME])
    assert (found, bool(problem)) == ({}, True)


def test_the_first_error_is_told():
    error = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not you"}}, "GetProducts")
    found, problem = price_list.fetch(Cloud(error=error), [VOLUME])
    assert (found, "not you" in problem[False]) == ({}, True)


@pytest.mark.parametrize(
    ("region", "endpoint"),
    [("us-east-1", "us-east-1"), ("eu-west-1", "us-east-1"), ("eu-central-1", "eu-central-1"), ("cn-north-1", "cn-northwest-1")],
)
def test_the_endpoint_of_the_partition_is_asked_once_and_not_for_long(region, endpoint):
    cloud = Cloud(region=region)
    price_list.fetch(cloud, [VOLUME])
    assert cloud.connected == ("pricing", endpoint, 2, {"total_max_attempts": 1})


def test_a_partition_without_price_list_is_named_and_has_spot_prices():
    problem, product = "AWS has no price list in the partition aws-us-gov.", spot_instance("g5.xlarge", ["a"])
    history = [{"SpotPrice": "0.5", "Timestamp": 1}]
    found = price_list.fetch(Cloud(region="us-gov-west-1", history=history), [VOLUME, product])
    assert found == ({product: Price(0.5, "USD")}, {False: problem})


@pytest.mark.parametrize(("region", "currency"), [("eu-west-1", "USD"), ("cn-north-1", "CNY")])
def test_a_spot_price_is_the_newest_of_its_zone(region, currency):
    def entry(price, day):
        return {"AvailabilityZone": "a", "SpotPrice": price, "Timestamp": datetime.datetime(2026, 11, day, tzinfo=datetime.UTC)}

    product = spot_instance("g5.xlarge", ["a"])
    cloud = Cloud(region=region, history=[entry("0.5", 2), entry("0.700000", 3), entry("9.0", 1)])
    assert price_list.fetch(cloud, [product]) == ({product: Price(0.7, currency)}, {})
    assert (cloud.filters["InstanceTypes"], cloud.filters["Filters"][0]["Values"]) == (["g5.xlarge"], ["a"])
    assert price_list.fetch(Cloud(), [product]) == ({}, {})
