"""Permissions for dependent actions: calls that AWS makes on behalf of the caller.

Sources: the "dependent actions" of the Service Authorization Reference; Amazon EC2 User Guide, "Example policies: Launch templates";
Amazon EC2 Auto Scaling User Guide, "Control Amazon EC2 launch template usage in Auto Scaling groups"; Amazon EFS API Reference, the
permissions that each operation requires; FSx for Lustre User Guide, "Linking your file system to an S3 bucket"; IAM User Guide, "Grant a
user permissions to pass a role", "Tagging IAM resources" and "AWS global condition context keys".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moto.autoscaling.models import autoscaling_backends
from moto.ec2.models import ec2_backends
from moto.efs.models import efs_backends
from moto.ssm.models import ssm_backends

from ..context import ACCOUNT, CLOUD
from ..ec2.launch_templates import find_version
from ..kms.keys import find_key
from ..policies import Permission
from . import resources
from .tag_conditions import Context, request_tags, resource_tags, tag_pairs

SERVICE_ROLES = {
    "autoscaling": "AWSServiceRoleForAutoScaling",
    "elasticfilesystem": "AWSServiceRoleForAmazonElasticFileSystem",
    "elasticmapreduce": "AWSServiceRoleForEMRCleanup",
    "fsx": "AWSServiceRoleForAmazonFSx",
    "s3.data-source.lustre.fsx": "AWSServiceRoleForFSxS3Access",
}


def calling_service(service: str) -> Context:
    """Return the condition keys of a call that a service makes on behalf of the caller."""
    return {"aws:viaawsservice": "true", "aws:calledvia": (f"{service}.amazonaws.com",)}


def create_service_role(service: str) -> Iterator[Permission]:
    """Yield the permissions for creating the service-linked role, unless the account has the role."""
    principal = f"{service}.amazonaws.com"
    if principal not in CLOUD.service_roles:
        resource = resources.arn("iam", "", f"role/aws-service-role/{principal}/{SERVICE_ROLES[service]}")
        yield Permission("iam:CreateServiceLinkedRole", resource, {"iam:awsservicename": principal})


def pass_role(profile: Mapping[str, Any]) -> Iterator[Permission]:
    """Yield the permissions for launching instances with an instance profile."""
    found = resources.find_profile(profile.get("Name") or profile.get("Arn") or "")
    for role in found.roles if found else ():
        yield Permission("iam:PassRole", role.arn, {"iam:passedtoservice": "ec2.amazonaws.com"})


def for_ec2(call: Any, parameters: Mapping[str, Any]) -> Iterator[Permission]:
    if call.action == "CreateVpcEndpoint":
        for action in ("DescribeSecurityGroups", "DescribeSubnets", "DescribeVpcs"):
            yield Permission(f"ec2:{action}", "*")
        if parameters.get("VpcEndpointType") == "Interface":
            yield Permission("route53:AssociateVPCWithHostedZone", resources.arn("route53", "", "hostedzone/*", ""))
    elif call.action == "AssociateIamInstanceProfile":
        yield from pass_role(parameters.get("IamInstanceProfile") or {})


def for_launch(
    region: str, template: Mapping[str, Any] | None, given: Mapping[str, Any], more: Context | None = None
) -> Iterator[Permission]:
    """Yield the permissions for running instances. `given` overrides the launch template; `more` extends the context of `RunInstances`."""
    backend: Any = ec2_backends[ACCOUNT][region]
    data, base = dict(given), dict(more or {})
    if template:
        version = find_version(backend, dict(template))
        data = {**version.data, **given}
        resource, tags = resources.ec2(region, version.template.id, "launch-template")
        base["ec2:launchtemplate"] = resource
        yield Permission("ec2:RunInstances", resource, base | resource_tags(tags, "ec2"))
    for kind, (identifiers, parameter) in _named_resources(data).items():
        for identifier in dict.fromkeys(filter(None, identifiers)):
            resource, tags = resources.ec2(region, identifier, kind)
            for from_template in _from_template(bool(template) and parameter not in given, base):
                yield Permission("ec2:RunInstances", resource, base | resource_tags(tags, "ec2") | from_template)
    for from_template in _from_template(bool(template) and not given.keys() - {"SubnetId"}, base):
        yield from _create_with_instances(region, data, base | from_template)
    yield from pass_role(data.get("IamInstanceProfile") or {})


def _from_template(known: bool, base: Context) -> list[Context]:
    """Return the contexts in which a policy must allow the launch: whether the launch template specifies a resource.

    AWS does not document how EC2 sets this key when Auto Scaling tests a launch. Policies must therefore allow the launch with both values.
    """
    values = ("true", "false") if "aws:calledvia" in base else (str(known).lower(),)
    return [{"ec2:islaunchtemplateresource": value} for value in values]


def _named_resources(data: Mapping[str, Any]) -> dict[str, tuple[list[Any], str]]:
    """Return the resources to which launch data refers.

    For each kind of resource, the result contains the identifiers and the RunInstances parameter that specifies them.
    """
    interfaces = data.get("NetworkInterfaces") or []
    groups = [*(data.get("SecurityGroupIds") or []), *(each for one in interfaces for each in one.get("Groups") or [])]
    reservation = (data.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    return {
        "image": ([data.get("ImageId")], "ImageId"),
        "key-pair": ([data.get("KeyName")], "KeyName"),
        "placement-group": ([(data.get("Placement") or {}).get("GroupName")], "Placement"),
        "security-group": (groups, "NetworkInterfaces" if interfaces else "SecurityGroupIds"),
        "subnet": ([data.get("SubnetId"), *(each.get("SubnetId") for each in interfaces)], "SubnetId"),
        "capacity-reservation": ([reservation.get("CapacityReservationId")], "CapacityReservationSpecification"),
    }


def _create_with_instances(region: str, data: Mapping[str, Any], base: Context) -> Iterator[Permission]:
    """Yield the permissions for creating and tagging instances and the resources that are created with them."""
    spot = (data.get("InstanceMarketOptions") or {}).get("MarketType") == "spot"
    specified = {each["ResourceType"]: tag_pairs(each.get("Tags")) for each in data.get("TagSpecifications") or []}
    for kind in ("instance", "network-interface", "volume", *(["spot-instances-request"] if spot else [])):
        resource, tags = resources.arn("ec2", region, f"{kind}/*"), specified.get(kind, {})
        yield Permission("ec2:RunInstances", resource, base | request_tags(tags))
        if tags:
            yield Permission("ec2:CreateTags", resource, request_tags(tags) | {"ec2:createaction": "RunInstances"})


def find_group_of(region: str, instance: str) -> str:
    """Return the name of an instance's Auto Scaling group, or `*` if the instance belongs to no group."""
    backend: Any = autoscaling_backends[ACCOUNT][region]
    for name, group in backend.autoscaling_groups.items():
        if any(state.instance.id == instance for state in group.instance_states):
            return str(name)
    return "*"


def for_group(call: Any, parameters: Mapping[str, Any]) -> Iterator[Permission]:
    """Yield the permissions for creating or changing a group. Auto Scaling tests the launch on behalf of the caller."""
    if call.action not in ("CreateAutoScalingGroup", "UpdateAutoScalingGroup"):
        return
    if call.action == "CreateAutoScalingGroup":
        yield from create_service_role("autoscaling")
    template = parameters.get("LaunchTemplate")
    if template:
        interfaces = find_version(ec2_backends[ACCOUNT][call.region], dict(template)).data.get("NetworkInterfaces")
        for subnet in (parameters.get("VPCZoneIdentifier") or "").split(","):
            # A request that specifies interfaces must specify the subnet in the interfaces, so Auto Scaling replaces those of the template
            placed = {"NetworkInterfaces": [{**each, "SubnetId": subnet} for each in interfaces]} if interfaces else {"SubnetId": subnet}
            yield from for_launch(call.region, template, placed if subnet else {}, calling_service("autoscaling"))


def file_system_of(region: str, mount_target: str) -> str | None:
    backend: Any = efs_backends[ACCOUNT][region]
    found = backend.mount_targets_by_id.get(mount_target)
    return str(found.file_system_id) if found else None


def for_efs(call: Any, parameters: Mapping[str, Any], tag_context: Context) -> Iterator[Permission]:
    service, region = "elasticfilesystem", call.region
    if call.action in ("CreateFileSystem", "CreateAccessPoint"):
        kind = "file-system" if call.action == "CreateFileSystem" else "access-point"
        if tag_context:
            tagged = tag_context | {"elasticfilesystem:createaction": call.action}
            yield Permission("elasticfilesystem:TagResource", resources.arn(service, region, f"{kind}/*"), tagged)
    if call.action == "CreateFileSystem":
        yield from create_service_role(service)
        yield from key_permissions(region, parameters.get("KmsKeyId"), service, "DescribeKey", "CreateGrant")
    elif call.action == "CreateMountTarget":
        for action in ("DescribeSubnets", "DescribeNetworkInterfaces"):
            yield Permission(f"ec2:{action}", "*", calling_service(service))
        yield from create_interface(region, [parameters.get("SubnetId", "")], parameters.get("SecurityGroups") or [], service)
    elif parameters.get("MountTargetId"):
        yield from _for_mount_target(call, parameters)


def _for_mount_target(call: Any, parameters: Mapping[str, Any]) -> Iterator[Permission]:
    backend: Any = efs_backends[ACCOUNT][call.region]
    target = backend.mount_targets_by_id.get(parameters["MountTargetId"])
    interface = target.network_interface_id if target else "*"
    if call.action == "DescribeMountTargetSecurityGroups":
        yield Permission("ec2:DescribeNetworkInterfaceAttribute", "*", calling_service("elasticfilesystem"))
    elif call.action == "DeleteMountTarget":
        yield _ec2_permission("DeleteNetworkInterface", call.region, interface, "network-interface", "elasticfilesystem")
    elif call.action == "ModifyMountTargetSecurityGroups":
        yield _ec2_permission("ModifyNetworkInterfaceAttribute", call.region, interface, "network-interface", "elasticfilesystem")
        for group in parameters.get("SecurityGroups") or []:
            yield _ec2_permission("ModifyNetworkInterfaceAttribute", call.region, group, "security-group", "elasticfilesystem")


def create_interface(region: str, subnets: list[str], groups: list[str], service: str) -> Iterator[Permission]:
    """Yield the permissions for a network interface that a service creates."""
    yield _ec2_permission("CreateNetworkInterface", region, "*", "network-interface", service)
    for kind, identifiers in (("subnet", subnets), ("security-group", groups)):
        for identifier in identifiers:
            yield _ec2_permission("CreateNetworkInterface", region, identifier, kind, service)


def _ec2_permission(action: str, region: str, identifier: str, kind: str, service: str) -> Permission:
    resource, tags = resources.ec2(region, identifier, kind)
    return Permission(f"ec2:{action}", resource, resource_tags(tags, "ec2") | calling_service(service))


def for_fsx(call: Any, parameters: Mapping[str, Any], tag_context: Context) -> Iterator[Permission]:
    region = call.region
    if call.action == "CreateFileSystem":
        if tag_context:
            yield Permission("fsx:TagResource", resources.arn("fsx", region, "file-system/*"), tag_context)
        yield from create_service_role("fsx")
        yield from create_interface(region, parameters.get("SubnetIds") or [], parameters.get("SecurityGroupIds") or [], "fsx")
        for subnet in parameters.get("SubnetIds") or []:
            yield _ec2_permission("GetSecurityGroupsForVpc", region, _vpc_of(region, subnet), "vpc", "fsx")
        yield from key_permissions(region, parameters.get("KmsKeyId"), "fsx", "DescribeKey", "CreateGrant")
    elif call.action == "CreateDataRepositoryAssociation":
        if tag_context:
            yield Permission("fsx:TagResource", resources.arn("fsx", region, "association/*"), tag_context)
        yield from _lustre_role()


def _vpc_of(region: str, subnet: str) -> str:
    backend: Any = ec2_backends[ACCOUNT][region]
    found = next((subnets[subnet] for subnets in backend.subnets.values() if subnet in subnets), None)
    return str(found.vpc_id) if found else "*"


def _lustre_role() -> Iterator[Permission]:
    service = "s3.data-source.lustre.fsx"
    yield from create_service_role(service)
    resource = resources.arn("iam", "", f"role/aws-service-role/{service}.amazonaws.com/{SERVICE_ROLES[service]}")
    for action in ("AttachRolePolicy", "PutRolePolicy"):
        yield Permission(f"iam:{action}", resource)


def for_emr(call: Any, parameters: Mapping[str, Any], tag_context: Context) -> Iterator[Permission]:
    """Yield the permissions that the tags and roles of a new EMR cluster require. The caller passes the roles to EMR and to EC2.

    Source: Amazon EMR Management Guide, "Tag clusters", "Permissions to use auto-termination" and "Using service-linked roles for cleanup".
    """
    if call.action != "RunJobFlow":
        return
    if tag_context:
        yield Permission("elasticmapreduce:AddTags", resources.arn("elasticmapreduce", call.region, "cluster/*"), tag_context)
    if "AutoTerminationPolicy" in parameters:
        cluster = resources.arn("elasticmapreduce", call.region, "cluster/*")
        yield Permission("elasticmapreduce:PutAutoTerminationPolicy", cluster, tag_context)
    service_role, profile = parameters.get("ServiceRole"), parameters.get("JobFlowRole") or ""
    if service_role:
        context: Context = {"iam:passedtoservice": "elasticmapreduce.amazonaws.com"}
        yield Permission("iam:PassRole", resources.role(service_role.rpartition("/")[2])[0], context)
    yield from pass_role({"Arn" if profile.startswith("arn:") else "Name": profile})
    yield from create_service_role("elasticmapreduce")


def for_iam(call: Any, parameters: Mapping[str, Any], resource: str, tag_context: Context) -> Iterator[Permission]:
    if call.action in ("CreateRole", "CreateInstanceProfile") and tag_context:
        yield Permission(f"iam:Tag{call.action[6:]}", resource, tag_context)
    if call.action == "AddRoleToInstanceProfile":
        yield Permission("iam:PassRole", resources.role(parameters["RoleName"])[0], {"iam:passedtoservice": "ec2.amazonaws.com"})


def for_lambda(call: Any, parameters: Mapping[str, Any], resource: str, tag_context: Context) -> Iterator[Permission]:
    """Yield the permissions that the role and the tags of a function require.

    Source: AWS Lambda Developer Guide, "Lambda execution role" and "Using tags on Lambda functions".
    """
    if parameters.get("Role"):
        yield Permission("iam:PassRole", parameters["Role"], {"iam:passedtoservice": "lambda.amazonaws.com"})
    if call.action == "CreateFunction" and tag_context:
        yield Permission("lambda:TagResource", resource, tag_context)
    if call.action == "GetFunction":
        yield Permission("lambda:ListTags", resource, {})


def for_scheduler(call: Any, parameters: Mapping[str, Any], tag_context: Context) -> Iterator[Permission]:
    """Yield the permissions that the role of a schedule, and the tags and schedules of a schedule group, require.

    Source: Service Authorization Reference, "API operations defined by Amazon EventBridge Scheduler".
    """
    if call.action in ("CreateSchedule", "UpdateSchedule"):
        yield Permission("iam:PassRole", parameters["Target"]["RoleArn"], {"iam:passedtoservice": "scheduler.amazonaws.com"})
    elif call.action == "CreateScheduleGroup" and tag_context:
        yield Permission("scheduler:TagResource", resources.schedule_group(call.region, parameters["Name"])[0], tag_context)
    elif call.action == "DeleteScheduleGroup":
        yield Permission("scheduler:DeleteSchedule", resources.arn("scheduler", call.region, f"schedule/{parameters['Name']}/*"))


def for_ssm(call: Any, parameters: Mapping[str, Any], resource: str, tag_context: Context) -> Iterator[Permission]:
    if call.action == "PutParameter":
        if tag_context:
            yield Permission("ssm:AddTagsToResource", resource, tag_context)
        if parameters.get("Type") == "SecureString":
            yield from key_permissions(call.region, parameters.get("KeyId"), "ssm", "Encrypt", parameter=resource)
    elif call.action == "GetParameter" and parameters.get("WithDecryption"):
        backend: Any = ssm_backends[ACCOUNT][call.region]
        stored = backend._parameters.get(parameters.get("Name"))
        if stored and stored[-1].parameter_type == "SecureString":
            yield from key_permissions(call.region, stored[-1].keyid, "ssm", "Decrypt", parameter=resource)


def key_permission(action: str, region: str, identifier: str | None, context: Context) -> Permission:
    """Return the permission for an action on a KMS key. The key policy must also allow the action."""
    key = find_key(ACCOUNT, region, identifier) if identifier else None
    if key is None:
        return Permission(f"kms:{action}", "*", context)
    return Permission(f"kms:{action}", key.arn, context | {"kms:resourcealiases": tuple(key.aliases)}, key.policy)


def key_permissions(region: str, identifier: str | None, service: str, *actions: str, parameter: str = "") -> Iterator[Permission]:
    """Yield the permissions for using a customer managed key. AWS managed keys require no permissions."""
    if identifier and not identifier.removeprefix("alias/").startswith("aws/"):
        context = calling_service(service) | {"kms:viaservice": f"{service}.{region}.amazonaws.com"}
        if parameter:
            context |= {"kms:encryptioncontext:parameter_arn": parameter}
        for action in actions:
            yield key_permission(action, region, identifier, context)
