"""Answers of AWS in the examples of the AWS CLI's documentation, which the package awscli contains, are read without errors."""

from __future__ import annotations

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import tag_dict
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import cluster_properties
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import (
    adopted,
    route_tables,
    security_groups,
    subnets,
    vpc_endpoints,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import former_nodes, images, launch_templates
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.insufficient_capacity import Launches, explain

EXAMPLES = files("awscli") / "examples"
# The possible beginning of an answer.
OBJECT = re.compile(r"\n[ \t]+\{")
# A comma that JSON does not allow, but some examples have.
LAST_COMMA = re.compile(r",(?=\s*[}\]])")
DECODER = json.JSONDecoder()
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
CLOUD = SimpleNamespace(comparable_tags=tag_dict)
REQUEST = SimpleNamespace(cloud=CLOUD, options=defaultdict(lambda: None))


@pytest.fixture(autouse=True)
def _fresh():
    """Override the fixture of conftest.py, because these tests use no local cloud."""


def answers(service, operation, key):
    """Return the documented answers of an operation. Examples that leave out a part of the answer are no JSON, and are skipped."""
    text = LAST_COMMA.sub("", (EXAMPLES / service / f"{operation}.rst").read_text())
    found = []
    for start in OBJECT.finditer(text):
        with contextlib.suppress(ValueError):
            found.append(DECODER.raw_decode(text, start.end() - 1)[0])
    return [with_times(each) for each in found if key in each]


def with_times(value):
    """Return an answer with times in the form in which the SDK returns them."""
    if isinstance(value, Mapping):
        return {key: with_times(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_times(item) for item in value]
    return datetime.fromisoformat(value) if isinstance(value, str) and TIME.match(value) else value


def read_template(version):
    return launch_templates._template_properties(version["LaunchTemplateData"])


def read_endpoint(endpoint):
    assert vpc_endpoints._endpoint_state(endpoint) in {"available", "pending", "deleted", "deleting", "failed", "rejected"}
    return vpc_endpoints.endpoint_is_gone(endpoint)


def read_table(table):
    return list(route_tables._comparable_routes(table["Routes"])), adopted.leads_out(table), adopted.leads_to_the_internet(table)


def read_activity(activity):
    launches = Launches(activity["StartTime"], 1)
    launches.observe(0, [activity])
    assert explain("bert-workers", launches).startswith("0 of 1 nodes of bert-workers are in service.")
    return former_nodes.departures([activity], former_nodes.former_instances([activity], activity["StartTime"], ()), ())


@pytest.mark.parametrize(
    ("service", "operation", "key", "read", "least"),
    [
        ("ec2", "describe-launch-template-versions", "LaunchTemplateVersions", read_template, 1),
        ("ec2", "describe-vpc-endpoints", "VpcEndpoints", read_endpoint, 1),
        ("ec2", "describe-security-groups", "SecurityGroups", lambda each: security_groups.security_group_properties(CLOUD, each), 1),
        ("ec2", "describe-subnets", "Subnets", lambda each: subnets.subnet_properties(CLOUD, each), 1),
        ("ec2", "describe-route-tables", "RouteTables", read_table, 1),
        ("ec2", "describe-images", "Images", lambda each: (images.unsupported_system(each), images.root_volume_size(each)), 1),
        ("autoscaling", "describe-scaling-activities", "Activities", read_activity, 3),
        ("emr", "describe-cluster", "Cluster", lambda each: cluster_properties.cluster_properties(REQUEST, each, [], []), 1),
    ],
)
def test_documented_answers_are_read(service, operation, key, read, least):
    found = [item for each in answers(service, operation, key) for item in (each[key] if isinstance(each[key], list) else [each[key]])]
    assert len(found) >= least
    for item in found:
        read(item)
