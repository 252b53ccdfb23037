"""Tests of the volumes that EMR gives to nodes, and of what they cost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import volumes
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.charges import charges
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.definition import CLUSTER
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing import cache
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.estimate import Estimate, Place
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output.prices import sentence

IMAGE = {"VolumeType": "gp3", "VolumeSize": 60, "Iops": 4000, "Throughput": 225}
IMAGES = {"ami-1": {"RootDeviceName": "/dev/xvda", "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": IMAGE}]}}


def estimate(monkeypatch, tmp_path, types, release, root=None, image=None):
    """Return the price of a cluster with a master and two core nodes, at the published prices of us-east-1."""
    monkeypatch.setattr(cache, "path", lambda _region, _endpoint: tmp_path / "prices.json")
    monkeypatch.setattr(volumes.images, "find", lambda _cloud, name: IMAGES.get(name))
    monkeypatch.setattr(
        volumes.instance_types, "find", lambda _cloud, name: name[0] in "cgm" and SimpleNamespace(has_disks=name.startswith("g5."))
    )
    master, core = types.split()
    options = {
        "emr_release_label": release,
        "emr_instance_type": master,
        "emr_core_instance_type": core,
        "emr_root_volume_size": root,
        "emr_image_id": image,
    }
    known = volumes.volumes(SimpleNamespace(options=options, cloud=None))
    properties = {"master_instance_type": master, "core_instance_type": core, "core_count": 2, "volumes": known}
    return Estimate(Place("us-east-1"), [], list(charges({CLUSTER: Found(CLUSTER, "j", properties)}, [])))


# Prices in us-east-1 per month: gp2 0.10 USD per GB; gp3 0.08 USD per GB, 0.005 USD per IOPS above 3,000, and 0.04 USD per MiB/s above 125.
@pytest.mark.parametrize(
    ("definition", "monthly"),
    [
        # 3 nodes, each with a root of 15 GB (1.20) and two volumes of 32 GB (6.40)
        (("m5.xlarge m5.xlarge", "emr-7.9.0"), 3 * (15 * 0.08 + 2 * 32 * 0.1)),
        # The master: 10 GB (1.00) and 32 GB (3.20). Two core nodes: 10 GB (1.00) and four volumes of 144 GB (57.60)
        (("m5.large c5.9xlarge", "emr-5.30.0"), 1.0 + 3.2 + 2 * (1.0 + 57.6)),
        # 3 nodes with disks of their own, each with a root of 50 GB (5.00)
        (("g5.2xlarge g5.2xlarge", "emr-6.14.0", 50), 3 * 5.0),
        (("g5.2xlarge g5.2xlarge", "emr-6.14.0"), 3 * 15 * 0.1),
        # The first releases with this type of the root, and with these volumes
        (("g5.2xlarge g5.2xlarge", "emr-6.15.0"), 3 * 15 * 0.08),
        (("m5.large m5.large", "emr-5.22.0"), 3 * (1.0 + 3.2)),
        # The root of the image: 60 GB (4.80), 1,000 IOPS (5.00) and 100 MiB/s (4.00) above what is free
        (("g5.2xlarge g5.2xlarge", "emr-7.9.0", None, "ami-1"), 3 * (4.8 + 5.0 + 4.0)),
        (("g5.2xlarge g5.2xlarge", "emr-7.9.0", 100, "ami-1"), 3 * (8.0 + 5.0 + 4.0)),
    ],
)
def test_volumes_cost_what_their_prices_are(monkeypatch, tmp_path, definition, monthly):
    made = estimate(monkeypatch, tmp_path, *definition)
    told = made.describe()["charges"]
    assert 730 * sum(each["hourly"] for each in told if each["product"].startswith("volume")) == pytest.approx(monthly)


@pytest.mark.parametrize(
    ("definition", "missing"),
    [
        (("c5.metal g5.2xlarge", "emr-7.9.0"), "the volumes of 1 x c5.metal"),
        (("g5.2xlarge m5.xlarge", "emr-5.21.0"), "the volumes of 2 x m5.xlarge"),
        (("g5.2xlarge x9.xlarge", "emr-7.9.0"), "the volumes of 2 x x9.xlarge"),
        (("g5.2xlarge g5.2xlarge", "emr-7.9.0", None, "ami-2"), "the volumes of 1 x g5.2xlarge, the volumes of 2 x g5.2xlarge"),
        (("g5.2xlarge g5.2xlarge", "emr-7.9.0", 100, "ami-2"), "the volumes of 1 x g5.2xlarge, the volumes of 2 x g5.2xlarge"),
    ],
)
def test_volumes_that_nobody_knows_are_named(monkeypatch, tmp_path, definition, missing):
    made = estimate(monkeypatch, tmp_path, *definition)
    assert ", ".join(each for each in made.unknown() if "volumes" in each) == missing
    told = sentence(made.describe())
    assert "costs at least" in told
    assert f"{missing.split(', ')[0].replace('the ', '')} (emr cluster main)" in told
