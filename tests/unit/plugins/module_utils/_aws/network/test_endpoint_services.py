# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the service names of VPC endpoints."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import endpoint_services


@pytest.mark.parametrize(
    ("service", "region", "name"),
    [
        ("com.amazonaws.us-east-1.ssm", "us-east-1", "ssm"),
        ("cn.com.amazonaws.cn-north-1.ec2", "cn-north-1", "ec2"),
        ("com.amazonaws.us-east-1.ecr.api", "us-east-1", "ecr.api"),
    ],
)
def test_names_of_services(service, region, name):
    assert endpoint_services.short_name(service, region) == name
