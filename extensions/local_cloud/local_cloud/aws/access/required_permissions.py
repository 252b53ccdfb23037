"""Permissions that API calls require: actions, resources, and condition keys from the Service Authorization Reference.

Only the administrator may make calls that are not listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moto.ec2.models import ec2_backends

from ..context import ACCOUNT
from ..policies import Permission
from ..requests.calls import Call
from . import dependent_actions, resources
from .tag_conditions import Context, request_tags, resource_tags, tag_pairs

Parameters = Mapping[str, Any]
CREATED_BY_IAM = {
    "CreateGroup": ("group", "GroupName"),
    "CreateInstanceProfile": ("instance-profile", "InstanceProfileName"),
    "CreatePolicy": ("policy", "PolicyName"),
    "CreateRole": ("role", "RoleName"),
    "CreateUser": ("user", "UserName"),
}
READS = ("Describe", "Get", "List", "Lookup", "Search")

# By EC2 action: the kinds of resources that the action creates, and the kinds of resources that it references, with their parameters
EC2: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    "AllocateAddress": (("elastic-ip",), {}),
    "AssociateAddress": (
        (),
        {"elastic-ip": ("AllocationId",), "instance": ("InstanceId",), "network-interface": ("NetworkInterfaceId",)},
    ),
    "AssociateIamInstanceProfile": ((), {"instance": ("InstanceId",)}),
    "AssociateRouteTable": ((), {"route-table": ("RouteTableId",), "subnet": ("SubnetId",)}),
    "AttachInternetGateway": ((), {"internet-gateway": ("InternetGatewayId",), "vpc": ("VpcId",)}),
    "AuthorizeSecurityGroupEgress": ((), {"security-group": ("GroupId",)}),
    "AuthorizeSecurityGroupIngress": ((), {"security-group": ("GroupId",)}),
    "CreateInternetGateway": (("internet-gateway",), {}),
    "CreateLaunchTemplate": (("launch-template",), {}),
    "CreateLaunchTemplateVersion": ((), {"launch-template": ("LaunchTemplateId", "LaunchTemplateName")}),
    "CreateNatGateway": (("natgateway",), {"subnet": ("SubnetId",), "elastic-ip": ("AllocationId",)}),
    "CreateNetworkInterface": (("network-interface",), {"subnet": ("SubnetId",), "security-group": ("Groups",)}),
    "CreatePlacementGroup": (("placement-group",), {}),
    "CreateRoute": ((), {"route-table": ("RouteTableId",)}),
    "CreateRouteTable": (("route-table",), {"vpc": ("VpcId",)}),
    "CreateSecurityGroup": (("security-group",), {"vpc": ("VpcId",)}),
    "CreateSubnet": (("subnet",), {"vpc": ("VpcId",)}),
    "CreateVpc": (("vpc",), {}),
    "CreateVpcEndpoint": (
        ("vpc-endpoint",),
        {"vpc": ("VpcId",), "subnet": ("SubnetIds",), "route-table": ("RouteTableIds",), "security-group": ("SecurityGroupIds",)},
    ),
    "DeleteInternetGateway": ((), {"internet-gateway": ("InternetGatewayId",)}),
    "DeleteLaunchTemplate": ((), {"launch-template": ("LaunchTemplateId", "LaunchTemplateName")}),
    "DeleteNatGateway": ((), {"natgateway": ("NatGatewayId",)}),
    "DeleteNetworkInterface": ((), {"network-interface": ("NetworkInterfaceId",)}),
    "DeletePlacementGroup": ((), {"placement-group": ("GroupName",)}),
    "DeleteRoute": ((), {"route-table": ("RouteTableId",)}),
    "DeleteRouteTable": ((), {"route-table": ("RouteTableId",)}),
    "DeleteSecurityGroup": ((), {"security-group": ("GroupId",)}),
    "DeleteSubnet": ((), {"subnet": ("SubnetId",)}),
    "DeleteVpc": ((), {"vpc": ("VpcId",)}),
    "DeleteVpcEndpoints": ((), {"vpc-endpoint": ("VpcEndpointIds",)}),
    "DescribeVpcAttribute": ((), {"vpc": ("VpcId",)}),
    "DetachInternetGateway": ((), {"internet-gateway": ("InternetGatewayId",), "vpc": ("VpcId",)}),
    "DisassociateRouteTable": ((), {"association": ("AssociationId",)}),
    "GetConsoleOutput": ((), {"instance": ("InstanceId",)}),
    "GetSecurityGroupsForVpc": ((), {"vpc": ("VpcId",)}),
    "ModifyInstanceAttribute": ((), {"instance": ("InstanceId",), "security-group": ("Groups",)}),
    "ModifyLaunchTemplate": ((), {"launch-template": ("LaunchTemplateId", "LaunchTemplateName")}),
    "ModifyNetworkInterfaceAttribute": ((), {"network-interface": ("NetworkInterfaceId",), "security-group": ("Groups",)}),
    "ModifyVpcAttribute": ((), {"vpc": ("VpcId",)}),
    "ModifyVpcEndpoint": (
        (),
        {
            "vpc-endpoint": ("VpcEndpointId",),
            "subnet": ("AddSubnetIds", "RemoveSubnetIds"),
            "route-table": ("AddRouteTableIds", "RemoveRouteTableIds"),
            "security-group": ("AddSecurityGroupIds", "RemoveSecurityGroupIds"),
        },
    ),
    "RebootInstances": ((), {"instance": ("InstanceIds",)}),
    "ReleaseAddress": ((), {"elastic-ip": ("AllocationId",)}),
    "ReplaceRoute": ((), {"route-table": ("RouteTableId",)}),
    "ReplaceRouteTableAssociation": ((), {"route-table": ("RouteTableId",), "association": ("AssociationId",)}),
    "RevokeSecurityGroupEgress": ((), {"security-group": ("GroupId",)}),
    "RevokeSecurityGroupIngress": ((), {"security-group": ("GroupId",)}),
    "StartInstances": ((), {"instance": ("InstanceIds",)}),
    "StopInstances": ((), {"instance": ("InstanceIds",)}),
    "TerminateInstances": ((), {"instance": ("InstanceIds",)}),
}


def find(call: Call, parameters: Parameters) -> list[Permission] | None:
    """Return the permissions that a call requires, or None for an unknown call."""
    ask = SERVICES.get(call.service)
    if ask is None:
        return None
    found = ask(call, parameters)
    return None if found is None else list(found)


def _values(parameters: Parameters, names: tuple[str, ...]) -> list[str]:
    found = [parameters[name] for name in names if parameters.get(name)]
    return [each for value in found for each in (value if isinstance(value, list) else [value])]


def _ec2(call: Call, parameters: Parameters) -> Iterator[Permission] | None:
    if call.action == "RunInstances":
        return _run_instances(call, parameters)
    if call.action in ("CreateTags", "DeleteTags"):
        return _ec2_tags(call, parameters)
    if call.action in EC2:
        return _ec2_by_table(call, parameters)
    return iter([_on_any_resource(call)]) if call.action.startswith(READS) else None


def _on_any_resource(call: Call) -> Permission:
    return Permission(f"{call.service}:{call.action}", "*")


def _ec2_by_table(call: Call, parameters: Parameters) -> Iterator[Permission]:
    action, (made, named) = f"ec2:{call.action}", EC2[call.action]
    specified = {each["ResourceType"]: tag_pairs(each.get("Tags")) for each in parameters.get("TagSpecifications") or []}
    for kind in made:
        tags = specified.get(kind, {})
        resource = resources.arn("ec2", call.region, f"{kind}/*")
        yield Permission(action, resource, request_tags(tags))
        if tags:
            yield Permission("ec2:CreateTags", resource, request_tags(tags) | {"ec2:createaction": call.action})
    for kind, names in named.items():
        for identifier in _values(parameters, names):
            for found in _resources_of_association(call, identifier) if kind == "association" else [identifier]:
                resource, tags = _ec2_resource(call.region, found, kind)
                yield Permission(action, resource, resource_tags(tags, "ec2"))
    yield from dependent_actions.for_ec2(call, parameters)


def _ec2_resource(region: str, identifier: str, kind: str) -> tuple[str, dict[str, str]]:
    if kind == "launch-template" and not identifier.startswith("lt-"):
        backend: Any = ec2_backends[ACCOUNT][region]
        identifier = backend.launch_template_name_to_ids.get(identifier, identifier)
    return resources.ec2(region, identifier, "" if kind == "association" else kind)


def _resources_of_association(call: Call, association: str) -> list[str]:
    """Return the route table and the subnet of an association, or an empty list for an unknown association."""
    backend: Any = ec2_backends[ACCOUNT][call.region]
    for table in backend.route_tables.values():
        if association in table._associations:
            return [table.id, table._associations[association]]
    return []


def _ec2_tags(call: Call, parameters: Parameters) -> Iterator[Permission]:
    tag_context = request_tags(tag_pairs(parameters.get("Tags")))
    for identifier in parameters.get("Resources") or []:
        resource, tags = resources.ec2(call.region, identifier)
        yield Permission(f"ec2:{call.action}", resource, tag_context | resource_tags(tags, "ec2"))


def _run_instances(call: Call, parameters: Parameters) -> Iterator[Permission]:
    overriding = {
        name: value for name, value in parameters.items() if name not in ("LaunchTemplate", "MinCount", "MaxCount", "ClientToken")
    }
    yield from dependent_actions.for_launch(call.region, parameters.get("LaunchTemplate"), overriding)


def _autoscaling(call: Call, parameters: Parameters) -> Iterator[Permission] | None:
    if call.action in ("CreateOrUpdateTags", "DeleteTags"):
        return _tag_groups(call, parameters)
    if call.action == "TerminateInstanceInAutoScalingGroup":
        return _for_group(call, parameters, dependent_actions.find_group_of(call.region, parameters.get("InstanceId", "")))
    if call.action.startswith(READS):
        return iter([_on_any_resource(call)])
    name = parameters.get("AutoScalingGroupName")
    return _for_group(call, parameters, name) if name else None


def _for_group(call: Call, parameters: Parameters, name: str) -> Iterator[Permission]:
    resource, tags = resources.group(call.region, name)
    tag_context = request_tags(tag_pairs(parameters.get("Tags")))
    context = tag_context | resource_tags(tags, "autoscaling") | _launch_context(parameters)
    if call.action == "DeleteAutoScalingGroup":
        context["autoscaling:forcedelete"] = str(bool(parameters.get("ForceDelete"))).lower()
    yield Permission(f"autoscaling:{call.action}", resource, context)
    yield from dependent_actions.for_group(call, parameters)


def _launch_context(parameters: Parameters) -> dict[str, str]:
    """Return the condition keys of a group's launch template. `$Latest` and `$Default` do not count as a specified version."""
    context = {}
    policy = parameters.get("MixedInstancesPolicy") or {}
    template = parameters.get("LaunchTemplate") or (policy.get("LaunchTemplate") or {}).get("LaunchTemplateSpecification")
    if template:
        specified = not str(template.get("Version") or "$Default").startswith("$")
        context["autoscaling:launchtemplateversionspecified"] = str(specified).lower()
    if parameters.get("LaunchConfigurationName"):
        context["autoscaling:launchconfigurationname"] = parameters["LaunchConfigurationName"]
    return context


def _tag_groups(call: Call, parameters: Parameters) -> Iterator[Permission]:
    for name in dict.fromkeys(tag["ResourceId"] for tag in parameters.get("Tags") or []):
        tag_context = request_tags(tag_pairs([tag for tag in parameters["Tags"] if tag["ResourceId"] == name]))
        resource, tags = resources.group(call.region, name)
        yield Permission(f"autoscaling:{call.action}", resource, tag_context | resource_tags(tags, "autoscaling"))


def _efs(call: Call, parameters: Parameters) -> Iterator[Permission]:
    tag_context = request_tags(tag_pairs(parameters.get("Tags")))
    identifier = parameters.get("FileSystemId") or parameters.get("AccessPointId") or parameters.get("ResourceId")
    if parameters.get("MountTargetId"):
        identifier = dependent_actions.file_system_of(call.region, parameters["MountTargetId"]) or "*"
    resource, tags = resources.efs(call.region, identifier) if identifier else ("*", {})
    yield Permission(f"elasticfilesystem:{call.action}", resource, tag_context | resource_tags(tags))
    yield from dependent_actions.for_efs(call, parameters, tag_context)


def _emr(call: Call, parameters: Parameters) -> Iterator[Permission]:
    tags = tag_pairs(parameters.get("Tags")) if call.action in ("RunJobFlow", "AddTags") else {}
    tag_context = _emr_request_tags(tags)
    identifiers = _values(parameters, ("ClusterId", "JobFlowId", "JobFlowIds", "ResourceId"))
    if call.action == "ModifyInstanceGroups" and not identifiers:
        groups = [each.get("InstanceGroupId", "") for each in parameters.get("InstanceGroups") or []]
        identifiers = [resources.emr_cluster_of(call.region, each) for each in groups]
    if call.action == "RemoveTags":
        tag_context = {"aws:tagkeys": tuple(parameters.get("TagKeys") or ())}
    for identifier in dict.fromkeys(identifiers):
        resource, found = resources.emr(call.region, identifier)
        yield Permission(f"elasticmapreduce:{call.action}", resource, tag_context | resource_tags(found, "elasticmapreduce"))
    if not identifiers:
        yield Permission(f"elasticmapreduce:{call.action}", "*", tag_context)
    yield from dependent_actions.for_emr(call, parameters, tag_context)


def _emr_request_tags(tags: dict[str, str]) -> Context:
    """Return the condition keys for the tags in a request, including those that are specific to EMR."""
    return request_tags(tags) | {f"elasticmapreduce:requesttag/{key.lower()}": value for key, value in tags.items()}


def _fsx(call: Call, parameters: Parameters) -> Iterator[Permission]:
    tag_context = request_tags(tag_pairs(parameters.get("Tags")))
    if call.action == "CreateDataRepositoryAssociation":
        yield Permission(f"fsx:{call.action}", resources.arn("fsx", call.region, "association/*"), tag_context)
    identifier = parameters.get("FileSystemId") or parameters.get("AssociationId") or parameters.get("ResourceARN")
    made = resources.arn("fsx", call.region, "file-system/*") if call.action == "CreateFileSystem" else "*"
    resource, tags = resources.fsx(call.region, identifier) if identifier else (made, {})
    yield Permission(f"fsx:{call.action}", resource, tag_context | resource_tags(tags))
    yield from dependent_actions.for_fsx(call, parameters, tag_context)


def _iam(call: Call, parameters: Parameters) -> Iterator[Permission]:
    tag_context = request_tags(tag_pairs(parameters.get("Tags")))
    resource, tags = _iam_resource(call, parameters)
    context = tag_context | resource_tags(tags, "iam")
    boundary = parameters.get("PermissionsBoundary") or getattr(
        resources.find_role(parameters.get("RoleName", "")), "permissions_boundary_arn", None
    )
    if boundary:
        context["iam:permissionsboundary"] = boundary
    if parameters.get("PolicyArn"):
        context["iam:policyarn"] = parameters["PolicyArn"]
    if parameters.get("AWSServiceName"):
        context["iam:awsservicename"] = parameters["AWSServiceName"]
    yield Permission(f"iam:{call.action}", resource, context)
    yield from dependent_actions.for_iam(call, parameters, resource, tag_context)


def _iam_resource(call: Call, parameters: Parameters) -> tuple[str, dict[str, str]]:
    if call.action in CREATED_BY_IAM:
        kind, name = CREATED_BY_IAM[call.action]
        return resources.arn("iam", "", f"{kind}{parameters.get('Path') or '/'}{parameters.get(name, '')}"), {}
    # Calls that add a role to an instance profile or remove a role from one also contain RoleName. For these calls, the resource is the
    # instance profile.
    if parameters.get("InstanceProfileName"):
        return resources.instance_profile(parameters["InstanceProfileName"])
    if parameters.get("RoleName"):
        return resources.role(parameters["RoleName"])
    for kind in ("User", "Group"):
        if parameters.get(f"{kind}Name"):
            return resources.arn("iam", "", f"{kind.lower()}/{parameters[f'{kind}Name']}"), {}
    return str(parameters.get("PolicyArn") or parameters.get("PolicySourceArn") or "*"), {}


def _scheduler(call: Call, parameters: Parameters) -> Iterator[Permission]:
    if call.action in ("ListSchedules", "ListScheduleGroups"):
        yield _on_any_resource(call)
        return
    tag_context = request_tags(tag_pairs(parameters.get("Tags")))
    if call.action == "UntagResource":
        tag_context = {"aws:tagkeys": tuple(parameters.get("TagKeys") or ())}
    if call.action.endswith("Schedule"):
        group = parameters.get("GroupName") or "default"
        yield Permission(f"scheduler:{call.action}", resources.arn("scheduler", call.region, f"schedule/{group}/{parameters['Name']}"))
    else:
        name = parameters.get("Name") or parameters["ResourceArn"].rpartition("/")[2]
        resource, tags = resources.schedule_group(call.region, name)
        yield Permission(f"scheduler:{call.action}", resource, tag_context | resource_tags(tags))
    yield from dependent_actions.for_scheduler(call, parameters, tag_context)


def _sns(call: Call, parameters: Parameters) -> Iterator[Permission]:
    yield Permission(f"sns:{call.action}", parameters.get("TopicArn") or "*")


def _ssm(call: Call, parameters: Parameters) -> Iterator[Permission] | None:
    if call.action.startswith("Describe"):
        return iter([_on_any_resource(call)])
    if call.action == "StartSession":
        return _session(call, parameters)
    named = parameters.get("ResourceId") if parameters.get("ResourceType") == "Parameter" else None
    names = [named] if named else _values(parameters, ("Name", "Names", "Path"))
    return _parameters(call, parameters, names) if names else None


def _session(call: Call, parameters: Parameters) -> Iterator[Permission]:
    """Yield the permissions for a session. If the request specifies no document, the session is a shell.

    The caller's policy determines whether AWS checks permission for the document. Source: Systems Manager User Guide, "Enforce a session
    document permission check for the AWS CLI". If a policy requires the document check and also allows the shell's document, AWS allows a
    session without a document, but the local cloud does not.
    """
    document = parameters.get("DocumentName")
    checked = {"ssm:sessiondocumentaccesscheck": "true" if document else "false"}
    resource, tags = resources.ec2(call.region, parameters.get("Target", ""), "instance")
    yield Permission("ssm:StartSession", resource, resource_tags(tags, "ssm") | checked)
    if document:
        owner = "" if document.startswith("AWS-") else ACCOUNT
        yield Permission("ssm:StartSession", resources.arn("ssm", call.region, f"document/{document}", owner), checked)


def _parameters(call: Call, parameters: Parameters, names: list[str]) -> Iterator[Permission]:
    tag_context = request_tags(tag_pairs(parameters.get("Tags")))
    for name in names:
        resource, tags = resources.parameter(call.region, name)
        yield Permission(f"ssm:{call.action}", resource, tag_context | resource_tags(tags, "ssm"))
        yield from dependent_actions.for_ssm(call, parameters, resource, tag_context)


def _kms(call: Call, parameters: Parameters) -> Iterator[Permission]:
    alias = parameters.get("AliasName")
    if call.action == "CreateKey":
        yield from _create_key(call, parameters)
        return
    if alias:
        yield Permission(f"kms:{call.action}", resources.arn("kms", call.region, alias))
    key = parameters.get("TargetKeyId") or parameters.get("KeyId") or alias
    yield dependent_actions.key_permission(call.action, call.region, key, request_tags(tag_pairs(parameters.get("Tags"))))


def _create_key(call: Call, parameters: Parameters) -> Iterator[Permission]:
    tags = {each["TagKey"]: each["TagValue"] for each in parameters.get("Tags") or []}
    spec, usage = parameters.get("KeySpec") or "SYMMETRIC_DEFAULT", parameters.get("KeyUsage") or "ENCRYPT_DECRYPT"
    yield Permission("kms:CreateKey", "*", request_tags(tags) | {"kms:keyspec": spec, "kms:keyusage": usage})
    key = resources.arn("kms", call.region, "key/*")
    if tags:
        yield Permission("kms:TagResource", key, request_tags(tags))
    if parameters.get("Policy") and not parameters.get("BypassPolicyLockoutSafetyCheck"):
        yield Permission("kms:PutKeyPolicy", key, {}, parameters["Policy"])


def _sts(call: Call, parameters: Parameters) -> Iterator[Permission]:
    if call.action != "GetCallerIdentity":  # requires no permission
        yield Permission(f"sts:{call.action}", parameters.get("RoleArn") or "*")


def _lambda(call: Call, parameters: Parameters) -> Iterator[Permission]:
    if call.action == "ListFunctions":
        yield _on_any_resource(call)
        return
    tag_context = request_tags(tag_pairs(parameters.get("Tags")))
    if call.action == "UntagResource":
        tag_context = {"aws:tagkeys": tuple(parameters.get("TagKeys") or ())}
    resource, tags = resources.function(call.region, parameters.get("FunctionName") or parameters["Resource"])
    action = "InvokeFunction" if call.action == "Invoke" else call.action
    yield Permission(f"lambda:{action}", resource, tag_context | resource_tags(tags))
    yield from dependent_actions.for_lambda(call, parameters, resource, tag_context)


def _only_reads(call: Call, _parameters: Parameters) -> Iterator[Permission] | None:
    return iter([_on_any_resource(call)]) if call.action.startswith(READS) else None


SERVICES: dict[str, Callable[[Call, Parameters], Iterator[Permission] | None]] = {
    "autoscaling": _autoscaling,
    "cloudtrail": _only_reads,
    "ec2": _ec2,
    "elasticfilesystem": _efs,
    "elasticmapreduce": _emr,
    "fsx": _fsx,
    "iam": _iam,
    "kms": _kms,
    "lambda": _lambda,
    "pricing": _only_reads,
    "scheduler": _scheduler,
    "servicequotas": _only_reads,
    "sns": _sns,
    "ssm": _ssm,
    "sts": _sts,
}
