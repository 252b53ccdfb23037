"""Instance groups of clusters, and their nodes, which are EC2 instances."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from moto.emr.utils import random_id

from ..context import CLOUD
from ..ec2.instances import ENDING

MASTER, CORE, TASK = "MASTER", "CORE", "TASK"
ROLES = (MASTER, CORE, TASK)
JOB_FLOW_TAG = "aws:elasticmapreduce:job-flow-id"
ROLE_TAG = "aws:elasticmapreduce:instance-group-role"


class Node:
    """An EC2 instance of a cluster. The node is ready when the instance has booted and the bootstrap actions have finished."""

    def __init__(self, group: InstanceGroup, instance: Any) -> None:
        self.id = f"ci-{random_id()}"
        self.group = group
        self.instance = instance
        self.state = "PROVISIONING"
        self.reason: dict[str, str] = {}
        self.created: datetime = CLOUD.utcnow()
        self.ready: datetime | None = None
        self.ended: datetime | None = None
        self.bootstrapped_at = 0.0
        self.report: dict[str, Any] | None = None
        """The outcome of the bootstrap actions, as the instance controller on the host of the node reports it."""
        # A terminated EC2 instance no longer has addresses
        self.addresses = {
            "PrivateIpAddress": instance.private_ip,
            "PrivateDnsName": instance.private_dns_name,
            "PublicIpAddress": instance.public_ip,
            "PublicDnsName": instance.public_dns_name,
        }

    @property
    def is_live(self) -> bool:
        return self.state != "TERMINATED"

    def follow(self) -> None:
        """Derive the node's state from the state of the EC2 instance, up to the start of the bootstrap actions."""
        if self.instance.state in ENDING and self.is_live:
            self.end("INSTANCE_FAILURE", f"Instance {self.instance.id} was terminated.")
        elif self.state == "PROVISIONING" and self.instance.state == "running":
            self.state, self.bootstrapped_at = "BOOTSTRAPPING", time.time() + CLOUD.delays.emr_cluster

    @property
    def has_host(self) -> bool:
        """Return whether a host executes the bootstrap actions. Otherwise, the bootstrap actions only take time and are not executed."""
        return CLOUD.hosts.socket(str(self.instance.id)) is not None

    @property
    def is_bootstrapped(self) -> bool:
        """Return whether the bootstrap actions have finished. The cluster then determines the outcome of the actions."""
        if self.state != "BOOTSTRAPPING":
            return False
        return self.report is not None or (time.time() >= self.bootstrapped_at and not self.has_host)

    def become_ready(self) -> None:
        self.state, self.ready = "RUNNING", CLOUD.utcnow()

    def end(self, code: str, message: str) -> None:
        """Terminate the EC2 instance."""
        if self.is_live:
            self.state, self.reason, self.ended = "TERMINATED", {"Code": code, "Message": message}, CLOUD.utcnow()
            self.instance.terminate()

    def describe(self) -> dict[str, Any]:
        volumes = self.instance.block_device_mapping.items()
        return {
            "Id": self.id,
            "Ec2InstanceId": self.instance.id,
            **self.addresses,
            "Status": {
                "State": self.state,
                "StateChangeReason": self.reason,
                "Timeline": {"CreationDateTime": self.created, "ReadyDateTime": self.ready, "EndDateTime": self.ended},
            },
            "InstanceGroupId": self.group.id,
            "Market": "ON_DEMAND",
            "InstanceType": self.instance.instance_type,
            "EbsVolumes": [{"Device": device, "VolumeId": disk.volume_id} for device, disk in volumes],
        }


def replication_of(count: int) -> int:
    """Return the number of copies of each HDFS block for a cluster that starts with `count` core nodes.

    Source: Amazon EMR Management Guide, "Cluster scale-down".
    """
    return 1 if count < 4 else 2 if count < 10 else 3


class InstanceGroup:
    """A uniform instance group."""

    def __init__(self, request: dict[str, Any], volumes: list[dict[str, Any]], replication: int = 0) -> None:
        self.id = f"ig-{random_id()}"
        self.replication = replication
        """The number of copies of each HDFS block. The group never shrinks to fewer nodes than this number."""
        self.role = str(request["InstanceRole"])
        self.instance_type = str(request["InstanceType"])
        self.name = str(request.get("Name") or self.role)
        self.volumes = volumes
        self.requested = int(request["InstanceCount"])
        self.nodes: list[Node] = []
        self.failure = ""
        """Why the group no longer launches instances."""
        self.created: datetime = CLOUD.utcnow()
        self.ready: datetime | None = None
        self.ended: datetime | None = None

    @property
    def live(self) -> list[Node]:
        return [each for each in self.nodes if each.is_live]

    @property
    def running(self) -> int:
        return sum(1 for each in self.nodes if each.state == "RUNNING")

    @property
    def state(self) -> str:
        if self.ended:
            return "TERMINATED"
        if self.failure:
            return "ARRESTED"
        if self.running == len(self.live) == self.requested:
            return "RUNNING"
        if self.ready:
            return "RESIZING"
        return "BOOTSTRAPPING" if any(each.state == "BOOTSTRAPPING" for each in self.nodes) else "PROVISIONING"

    def shrink(self, chosen: list[str]) -> None:
        """Terminate surplus nodes: first the EC2 instances that the request selects, then the newest instances."""
        ordered = sorted(self.live, key=lambda node: (node.instance.id in chosen, node.created))
        for node in ordered[max(self.requested, self.replication) :]:
            node.end("USER_REQUEST", "Instance was terminated because of a resize request.")

    def end(self) -> None:
        self.ended = self.ended or CLOUD.utcnow()

    def describe(self) -> dict[str, Any]:
        reason = {"Code": "INSTANCE_FAILURE", "Message": self.failure} if self.failure else {}
        return {
            "Id": self.id,
            "Name": self.name,
            "Market": "ON_DEMAND",
            "InstanceGroupType": self.role,
            "InstanceType": self.instance_type,
            "RequestedInstanceCount": self.requested,
            "RunningInstanceCount": self.running,
            "Status": {
                "State": self.state,
                "StateChangeReason": reason,
                "Timeline": {"CreationDateTime": self.created, "ReadyDateTime": self.ready, "EndDateTime": self.ended},
            },
            "Configurations": [],
            "EbsBlockDevices": self.volumes,
            "ShrinkPolicy": {},
        }
