"""Clusters that launch and replace their nodes, run steps, and terminate."""

from __future__ import annotations

import base64
import copy
import logging
import time
from datetime import datetime
from typing import Any, cast

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.emr.models import emr_backends
from moto.emr.utils import random_cluster_id

from ..context import CLOUD
from ..ec2.launch import check as check_launch
from ..ec2.launch import choose_subnet, launch
from .auto_termination import AutoTermination
from .block_public_access import open_group
from .checks import FIRST_WITH_SERVICE_RULE, version
from .images import image_of_release
from .managed_security_groups import ManagedGroups, is_public, lets_master_in, manage
from .node_tasks import failure_message, user_data
from .nodes import CORE, JOB_FLOW_TAG, MASTER, ROLE_TAG, ROLES, InstanceGroup, Node, replication_of
from .objects import is_missing
from .roles import SCOPED_TAG, check_effective, check_service_role, needs_tags
from .steps import Step
from .volumes import data_volumes, mappings

LOG = logging.getLogger(__name__)
STARTED = ("RUNNING", "WAITING")
OVER = ("TERMINATED", "TERMINATED_WITH_ERRORS")
ENDING = ("TERMINATING", *OVER)
SERVICE_GROUP_MISSING = (
    "You must also specify a ServiceAccessSecurityGroup if you use custom security groups when creating a cluster in a private subnet."
)
SERVICE_RULE_MISSING = "ServiceAccessSecurityGroup is missing ingress rule from EmrManagedMasterSecurityGroup on port 9443"


class Invalid(Exception):
    """EMR cannot start the cluster as requested. EMR detects the problem only after RunJobFlow has returned."""


class Cluster:
    """A cluster that launches nodes and runs steps only in `reconcile`, never within an API call."""

    def __init__(self, backend: Any, request: dict[str, Any]) -> None:
        self.id = random_cluster_id()
        self.backend, self.request = backend, request
        self.arn = f"arn:aws:elasticmapreduce:{backend.region_name}:{backend.account_id}:cluster/{self.id}"
        self.state = "STARTING"
        self.reason: dict[str, str] = {}
        self.tags: dict[str, str] = {each["Key"]: each.get("Value", "") for each in request.get("Tags", [])}
        policy = request.get("AutoTerminationPolicy")
        self.auto_termination = None if policy is None else AutoTermination(request["ReleaseLabel"], policy)
        self.protected: bool = self.instances.get("TerminationProtected", False)
        self.groups = [
            self._group(each, replication_of(each["InstanceCount"]) if each["InstanceRole"] == CORE else 0)
            for each in self.instances["InstanceGroups"]
        ]
        self.groups.sort(key=lambda group: ROLES.index(group.role))
        self.steps = [Step(each) for each in request.get("Steps", [])]
        self.subnet_id: str | None = None
        self.managed: ManagedGroups | None = None
        self.created: datetime = CLOUD.utcnow()
        self.ready: datetime | None = None
        self.ended: datetime | None = None
        self._retry_at = 0.0
        self._failed = False

    @property
    def instances(self) -> dict[str, Any]:
        found: dict[str, Any] = self.request["Instances"]
        return found

    @property
    def keeps_alive(self) -> bool:
        return bool(self.instances.get("KeepJobFlowAliveWhenNoSteps", False))

    @property
    def nodes(self) -> list[Node]:
        return [node for group in self.groups for node in group.nodes]

    @property
    def master(self) -> Node | None:
        return next((node for node in self.nodes if node.group.role == MASTER), None)

    def terminate(self, code: str, message: str, *, failed: bool = False) -> None:
        """Start the termination of the cluster."""
        if self.state in ENDING:
            return
        self.state, self.reason, self._failed = "TERMINATING", {"Code": code, "Message": message}, failed
        for step in self.steps:
            step.cancel()
        for node in self.nodes:
            node.end(code, message)

    def set_tags(self, tags: dict[str, str]) -> None:
        """Add tags to the cluster and its instances."""
        self.tags.update(tags)
        for node in self.nodes:
            if node.is_live:
                node.instance.add_tags(tags)

    def remove_tags(self, keys: list[str]) -> None:
        """Remove tags from the cluster and its instances."""
        for key in keys:
            self.tags.pop(key, None)
            for node in self.nodes:
                if node.is_live:
                    self._ec2.tags[node.instance.id].pop(key, None)

    def add_steps(self, requests: list[dict[str, Any]]) -> list[Step]:
        new = [Step(each) for each in requests]
        self.steps += new
        CLOUD.wake.set()
        return new

    def add_group(self, request: dict[str, Any]) -> InstanceGroup:
        group = self._group(request)
        self.groups.append(group)
        CLOUD.wake.set()
        return group

    def _group(self, request: dict[str, Any], replication: int = 0) -> InstanceGroup:
        return InstanceGroup(request, data_volumes(self.request["ReleaseLabel"], request["InstanceType"]), replication)

    def reconcile(self) -> None:
        """Track the nodes, launch missing ones, run steps, and update the state of the cluster."""
        for node in self.nodes:
            node.follow()
        if self.state == "TERMINATING":
            self._finish()
        elif self.state not in OVER:
            self._check_master()
            self._launch_missing()
            self._bootstrap()
            self._advance()

    @property
    def _ec2(self) -> Any:
        return ec2_backends[self.backend.account_id][self.backend.region_name]

    def _finish(self) -> None:
        if all(node.instance.state == "terminated" for node in self.nodes):
            self.state, self.ended = OVER[self._failed], CLOUD.utcnow()
            for group in self.groups:
                group.end()

    def _check_master(self) -> None:
        master = self.master
        if master and not master.is_live:
            message = f"The master failed: {master.reason['Message']}"
            self.terminate("INSTANCE_FAILURE", message, failed=True)

    def _launch_missing(self) -> None:
        for group in self.groups:
            missing = group.requested - len(group.live)
            if self.state in ENDING or group.failure or missing <= 0 or time.time() < self._retry_at:
                continue
            try:
                for _ in range(missing):
                    self._launch(group)
            except (EC2ClientError, Invalid) as error:
                self._retry_at = time.time() + CLOUD.delays.launch_retry
                if self.ready is None:
                    self.terminate("VALIDATION_ERROR", str(getattr(error, "message", error)), failed=True)

    def _launch(self, group: InstanceGroup) -> None:
        data, subnet = self._launch_data(group)
        (instance,) = launch(self._ec2, data, subnet).instances
        group.nodes.append(Node(group, instance))

    def _launch_data(self, group: InstanceGroup) -> tuple[dict[str, Any], Any]:
        """Return the launch data of a group and the subnet of the cluster. Raises `Invalid`, and the EC2 errors for missing resources."""
        for check in (check_service_role, check_effective):
            check(self.backend.account_id, self.request["ServiceRole"], Invalid)
        place = {"Placement": self.instances.get("Placement") or {}}
        subnet = choose_subnet(self._ec2, {"SubnetId": self.subnet_id or self.instances.get("Ec2SubnetId"), **place})
        self.subnet_id, self.managed = subnet.id, self._managed_groups(subnet)
        side, own = ("Master", self.managed.master) if group.role == MASTER else ("Slave", self.managed.slave)
        tags = {**self.tags, JOB_FLOW_TAG: self.id, ROLE_TAG: group.role}
        image = self.request.get("CustomAmiId") or image_of_release(self._ec2, self.request["ReleaseLabel"])
        profile = self.request["JobFlowRole"]
        interface = {
            "DeviceIndex": 0,
            "SubnetId": subnet.id,
            "Groups": [own, *(self.instances.get(f"Additional{side}SecurityGroups") or [])],
            "AssociatePublicIpAddress": is_public(self._ec2, subnet),
        }
        data = {
            "ImageId": image,
            "InstanceType": group.instance_type,
            "KeyName": self.instances.get("Ec2KeyName"),
            "IamInstanceProfile": {"Arn" if profile.startswith("arn:") else "Name": profile},
            "NetworkInterfaces": [interface],
            "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}],
            "UserData": base64.b64encode(user_data(self._public_key).encode()).decode(),
        }
        check_launch(self._ec2, data)
        device = self._ec2.describe_images(ami_ids=[image])[0].root_device_name
        data["BlockDeviceMappings"] = mappings(self.request, device, group.volumes)
        return data, subnet

    @property
    def _public_key(self) -> str | None:
        key_pair = self._ec2.key_pairs.get(self.instances.get("Ec2KeyName"))
        return str(key_pair.public_key) if key_pair else None

    def _managed_groups(self, subnet: Any) -> ManagedGroups:
        master, slave, service = (
            self.instances.get(name)
            for name in ("EmrManagedMasterSecurityGroup", "EmrManagedSlaveSecurityGroup", "ServiceAccessSecurityGroup")
        )
        named = ManagedGroups(master, slave, service) if master and slave else None
        public = is_public(self._ec2, subnet)
        if named and not service and not public:
            raise Invalid(SERVICE_GROUP_MISSING)
        if self.managed:
            return self.managed
        self._check_tags(subnet, named)
        managed = manage(self._ec2, subnet, named)
        if public:
            if opened := open_group(self.backend, self._ec2, [managed.master, managed.slave, *self._additional_groups]):
                raise Invalid(f"Block public access does not permit the rules of the security group {opened} that allow all addresses.")
        elif version(self.request["ReleaseLabel"]) >= FIRST_WITH_SERVICE_RULE and not lets_master_in(self._ec2, managed):
            raise Invalid(SERVICE_RULE_MISSING)
        return managed

    @property
    def _additional_groups(self) -> list[str]:
        lists = (self.instances.get(f"Additional{side}SecurityGroups") or [] for side in ("Master", "Slave"))
        found = [group for groups in lists for group in groups]
        return [group for group in found if self._ec2.get_security_group_from_id(group)]

    def _check_tags(self, subnet: Any, named: ManagedGroups | None) -> None:
        """Raise `Invalid` if the service role may use only tagged resources, and the cluster or one of its resources lacks the tag."""
        role, ec2 = self.request["ServiceRole"], self._ec2
        if not needs_tags(self.backend.account_id, role):
            return
        groups = [ec2.get_security_group_from_id(each) for each in [*filter(None, named or ()), *self._additional_groups]]
        resources = [subnet, *filter(None, groups), *([] if named else [ec2.get_vpc(subnet.vpc_id)])]
        tags = [self.tags, *({tag["key"]: tag["value"] for tag in each.get_tags()} for each in resources)]
        if any(each.get(SCOPED_TAG) != "true" for each in tags):
            raise Invalid(f"Service role {role.rpartition('/')[2]} has insufficient EC2 permissions.")

    def _bootstrap(self) -> None:
        for node in [each for each in self.nodes if each.is_bootstrapped]:
            failure = self._bootstrap_failure(node)
            if not failure:
                node.become_ready()
            elif self.ready is None:
                self.terminate("BOOTSTRAP_FAILURE", failure, failed=True)
            else:
                node.group.failure = failure
                node.end("BOOTSTRAP_FAILURE", failure)

    def _bootstrap_failure(self, node: Node) -> str:
        """Return EMR's message about the first failed bootstrap action, or ''. If the local cloud runs without hosts, only a missing script
        is a failure.
        """
        if node.report is not None:
            failure = node.report["failure"]
            return failure_message(node, failure) if failure else ""
        for number, action in enumerate(self.request.get("BootstrapActions", []), start=1):
            if is_missing(self.backend.account_id, action["ScriptBootstrapAction"]["Path"]):
                return failure_message(node, {"action": number, "reason": "download"})
        return ""

    def _advance(self) -> None:
        """Update the state of the cluster from the states of its nodes, groups, and steps."""
        for group in self.groups:
            if group.state == "RUNNING":
                group.ready = group.ready or CLOUD.utcnow()
        if self.state == "STARTING" and all(node.state != "PROVISIONING" for node in self.nodes):
            self.state = "BOOTSTRAPPING"
        elif self.state == "BOOTSTRAPPING" and all(group.ready for group in self.groups):
            self.state, self.ready = "RUNNING", CLOUD.utcnow()
        if self.state in STARTED:
            self._run_steps()

    def _run_steps(self) -> None:
        """End the running step when its time has elapsed, or start the next step. If no steps remain, the cluster waits or terminates."""
        step = next((each for each in self.steps if each.is_active), None)
        if self.auto_termination and (step or self.state != "WAITING"):
            self.auto_termination.see_activity()
        if step is None:
            self._wait()
        elif step.state == "PENDING":
            self.state, self.reason = "RUNNING", {"Message": "Running step"}
            step.start(CLOUD.delays.emr_cluster)
        elif time.time() >= step.ends_at:
            step.end(self.backend.account_id)
            if step.state == "FAILED":
                self._follow_failure(step)

    def _wait(self) -> None:
        """Wait for steps, unless the cluster terminates after its last step or has been idle for too long."""
        if not self.keeps_alive:
            self.terminate("ALL_STEPS_COMPLETED", "Steps completed")
            return
        self.state = "WAITING"
        self.reason = {"Message": "Cluster ready after last step completed." if self.steps else "Cluster ready to run steps."}
        if self.auto_termination and not self.protected and self.auto_termination.has_expired(self.master):
            self.terminate("USER_REQUEST", "Terminated by the auto-termination policy")

    def _follow_failure(self, step: Step) -> None:
        if step.action_on_failure == "CANCEL_AND_WAIT":
            for other in self.steps:
                other.cancel()
        elif step.action_on_failure == "TERMINATE_CLUSTER":
            self.terminate("STEP_FAILURE", "Shut down as step failed", failed=True)

    def summarize(self) -> dict[str, Any]:
        """Return the description in the format of ListClusters."""
        return {
            "Id": self.id,
            "Name": self.request["Name"],
            "Status": {
                "State": self.state,
                "StateChangeReason": self.reason,
                "Timeline": {"CreationDateTime": self.created, "ReadyDateTime": self.ready, "EndDateTime": self.ended},
            },
            "NormalizedInstanceHours": 0,
            "ClusterArn": self.arn,
        }

    def describe(self) -> dict[str, Any]:
        """Return the description in the format of DescribeCluster."""
        request, master = self.request, self.master
        applications = request.get("Applications") or [{"Name": "Hadoop"}]
        log_uri = request.get("LogUri")
        return {
            **self.summarize(),
            "Ec2InstanceAttributes": self._describe_attributes(),
            "InstanceCollectionType": "INSTANCE_GROUP",
            # EMR returns this scheme and the slash, regardless of the request
            "LogUri": f"s3n://{log_uri.partition('://')[2].rstrip('/')}/" if log_uri else None,
            "ReleaseLabel": request["ReleaseLabel"],
            "AutoTerminate": not self.keeps_alive,
            "TerminationProtected": self.protected,
            "VisibleToAllUsers": request.get("VisibleToAllUsers", True),
            "Applications": [{"Version": "1.0.0", **copy.deepcopy(dict(each))} for each in applications],
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
            "ServiceRole": request["ServiceRole"],
            "MasterPublicDnsName": master and (master.addresses["PublicDnsName"] or master.addresses["PrivateDnsName"]),
            "Configurations": [],
            "ScaleDownBehavior": "TERMINATE_AT_TASK_COMPLETION",
            "CustomAmiId": request.get("CustomAmiId"),
            "EbsRootVolumeSize": request.get("EbsRootVolumeSize"),
            "KerberosAttributes": {},
            "StepConcurrencyLevel": 1,
        }

    def _describe_attributes(self) -> dict[str, Any]:
        requested, managed = self.instances, self.managed
        subnet = self._ec2.get_subnet(self.subnet_id) if self.subnet_id and self.state not in OVER else None
        return {
            "Ec2KeyName": requested.get("Ec2KeyName"),
            "Ec2SubnetId": self.subnet_id or requested.get("Ec2SubnetId"),
            "RequestedEc2SubnetIds": [requested["Ec2SubnetId"]] if requested.get("Ec2SubnetId") else [],
            "Ec2AvailabilityZone": subnet and subnet.availability_zone,
            "IamInstanceProfile": self.request["JobFlowRole"],
            "EmrManagedMasterSecurityGroup": managed.master if managed else requested.get("EmrManagedMasterSecurityGroup"),
            "EmrManagedSlaveSecurityGroup": managed.slave if managed else requested.get("EmrManagedSlaveSecurityGroup"),
            "ServiceAccessSecurityGroup": managed.service if managed else requested.get("ServiceAccessSecurityGroup"),
            "AdditionalMasterSecurityGroups": requested.get("AdditionalMasterSecurityGroups") or [],
            "AdditionalSlaveSecurityGroups": requested.get("AdditionalSlaveSecurityGroups") or [],
        }


def clusters(backend: Any) -> dict[str, Cluster]:
    """Return the clusters of an account and region by ID."""
    return cast("dict[str, Cluster]", backend.clusters)


def reconcile_all() -> None:
    """Reconcile the clusters in all accounts and regions."""
    for _account, _region, backend in list(cast(Any, emr_backends).iter_backends()):
        for cluster in list(clusters(backend).values()):
            try:
                cluster.reconcile()
            except Exception:  # an error in one cluster must not prevent the reconciliation of other clusters
                LOG.exception("Cluster %s could not be reconciled", cluster.id)
