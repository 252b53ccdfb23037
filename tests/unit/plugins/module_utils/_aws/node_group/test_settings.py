"""Tests of the settings of the master and the workers."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import settings
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.definition import Image, NodeSettings, RootVolume

SPOT = NodeSettings(
    instance_type="p5.48xlarge",
    image=Image("ami-1", "/dev/sda1", "ami-1"),
    key_name="key",
    root_volume=RootVolume(100),
    ebs_optimized=True,
    interfaces=(),
    clustered=True,
    market="spot",
    spot_max_price="9.5",
    capacity_reservation="",
    login_user="ubuntu",
    mounts=(),
)
BLOCK = replace(SPOT, market="capacity-block", spot_max_price="", capacity_reservation="cr-1")


def test_only_the_master_can_be_in_another_market():
    for given in (SPOT, BLOCK):
        assert settings.settings_of("workers", given, "on-demand") == given
        assert settings.settings_of("master", given, None) == given
        master = settings.settings_of("master", given, "on-demand")
        assert master == replace(given, market="on-demand", spot_max_price="", capacity_reservation="")
