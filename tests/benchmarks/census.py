"""Counts the resources of a cluster in an account by kind, regardless of which tool created them."""

from __future__ import annotations

from typing import Any

from local_cloud.testing import LocalCloud


def census(cloud: LocalCloud, cluster: str) -> dict[str, int]:
    """Return the number of usable resources of each kind in a cluster, for example available gateways and instances in service."""
    vpcs = cloud.client("ec2").describe_vpcs(Filters=[{"Name": "tag:deeplearning:cluster", "Values": [cluster]}])["Vpcs"]
    counts = {"VPCs": len(vpcs)}
    for vpc in vpcs:
        counts |= _network(cloud.client("ec2"), vpc["VpcId"])
    return counts | _storage(cloud.client("efs"), cluster) | _role(cloud.client("iam"), cluster) | _nodes(cloud, cluster)


def _network(ec2: Any, vpc: str) -> dict[str, int]:
    def inside(name: str = "vpc-id") -> list[dict[str, Any]]:
        return [{"Name": name, "Values": [vpc]}]

    gateways = [each for each in ec2.describe_nat_gateways(Filter=inside())["NatGateways"] if each["State"] == "available"]
    tables = ec2.describe_route_tables(Filters=inside())["RouteTables"]
    routes = [route for table in tables for route in table["Routes"] if route.get("GatewayId") != "local"]
    groups = [each for each in ec2.describe_security_groups(Filters=inside())["SecurityGroups"] if each["GroupName"] != "default"]
    permissions = [each for group in groups for each in group["IpPermissions"] + group["IpPermissionsEgress"]]
    return {
        "internet gateways": len(ec2.describe_internet_gateways(Filters=inside("attachment.vpc-id"))["InternetGateways"]),
        "subnets": len(ec2.describe_subnets(Filters=inside())["Subnets"]),
        "NAT gateways": len(gateways),
        "addresses": sum("AllocationId" in each for gateway in gateways for each in gateway["NatGatewayAddresses"]),
        "route tables": len(tables),
        "routes": len(routes),
        "subnets with a route table": sum("SubnetId" in each for table in tables for each in table["Associations"]),
        "endpoints": len(ec2.describe_vpc_endpoints(Filters=inside())["VpcEndpoints"]),
        "security groups": len(groups),
        "security group rules": sum(len(each[key]) for each in permissions for key in ("IpRanges", "UserIdGroupPairs")),
    }


def _storage(efs: Any, cluster: str) -> dict[str, int]:
    own = [
        each
        for each in efs.describe_file_systems()["FileSystems"]
        if {"Key": "deeplearning:cluster", "Value": cluster} in each["Tags"] and each["Encrypted"]
    ]
    targets = [target for each in own for target in efs.describe_mount_targets(FileSystemId=each["FileSystemId"])["MountTargets"]]
    return {"file systems": len(own), "mount targets": sum(each["LifeCycleState"] == "available" for each in targets)}


def _role(iam: Any, cluster: str) -> dict[str, int]:
    profiles = [each for each in iam.list_instance_profiles()["InstanceProfiles"] if each["InstanceProfileName"].startswith(f"{cluster}-")]
    roles = [role["RoleName"] for profile in profiles for role in profile["Roles"]]
    return {
        "instance profiles": len(profiles),
        "roles": len(roles),
        "role policies": sum(len(iam.list_role_policies(RoleName=role)["PolicyNames"]) for role in roles),
    }


def _nodes(cloud: LocalCloud, cluster: str) -> dict[str, int]:
    templates = cloud.client("ec2").describe_launch_templates()["LaunchTemplates"]
    groups = [
        each
        for each in cloud.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
        if each["AutoScalingGroupName"].startswith(f"{cluster}-")
    ]
    return {
        "launch templates": sum(each["LaunchTemplateName"].startswith(f"{cluster}-") for each in templates),
        "groups": len(groups),
        "suspended processes": sum(len(each["SuspendedProcesses"]) for each in groups),
        "instances in service": sum(each["LifecycleState"] == "InService" for group in groups for each in group["Instances"]),
    }
