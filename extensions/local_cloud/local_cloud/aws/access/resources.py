"""ARNs and tags of resources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from moto.autoscaling.models import autoscaling_backends
from moto.awslambda.models import lambda_backends
from moto.ec2.models import ec2_backends
from moto.efs.models import efs_backends
from moto.emr.models import emr_backends
from moto.fsx.models import fsx_backends
from moto.iam.models import iam_backends
from moto.scheduler.models import scheduler_backends
from moto.ssm.models import ssm_backends

from ..context import ACCOUNT, CLOUD
from ..ec2.placement_groups import placement_groups
from ..emr.clusters import clusters
from ..fsx.data_repository_associations import associations
from ..lambda_.functions import functions, parse_name
from .identities import PARTITION

# The kind of EC2 resource, by the prefix of the resource ID. Source: Service Authorization Reference, "Resource types defined by Amazon
# EC2"
EC2_KINDS = {
    "acl": "network-acl",
    "ami": "image",
    "cr": "capacity-reservation",
    "eipalloc": "elastic-ip",
    "eni": "network-interface",
    "i": "instance",
    "igw": "internet-gateway",
    "key": "key-pair",
    "lt": "launch-template",
    "nat": "natgateway",
    "pg": "placement-group",
    "rtb": "route-table",
    "sg": "security-group",
    "sir": "spot-instances-request",
    "snap": "snapshot",
    "subnet": "subnet",
    "vol": "volume",
    "vpc": "vpc",
    "vpce": "vpc-endpoint",
}
PUBLIC = ("image", "snapshot")
Tags = dict[str, str]


def arn(service: str, region: str, resource: str, account: str = ACCOUNT) -> str:
    return f"arn:{PARTITION}:{service}:{region}:{account}:{resource}"


def ec2(region: str, identifier: str, kind: str = "") -> tuple[str, Tags]:
    """Return the ARN and tags of an EC2 resource. `kind` is necessary only if the prefix of the ID does not identify the kind."""
    kind = kind or EC2_KINDS.get(identifier.partition("-")[0], "unknown")
    backend: Any = ec2_backends[ACCOUNT][region]
    name = identifier
    if kind == "placement-group":
        found = ((name, each.id) for name, each in placement_groups(backend).items() if identifier in (name, each.id))
        name, identifier = next(found, (identifier, identifier))
    if kind == "key-pair" and not identifier.startswith("key-"):
        identifier = next((pair.id for pair in backend.key_pairs.values() if pair.key_name == identifier), identifier)
    tags = _visible(dict(backend.tags.get(identifier, {})), CLOUD.tagged_at.get(identifier, 0.0))
    return arn("ec2", region, f"{kind}/{name}", "" if kind in PUBLIC else ACCOUNT), tags


def group(region: str, name: str) -> tuple[str, Tags]:
    """Return the ARN and tags of an Auto Scaling group."""
    found: Any = autoscaling_backends[ACCOUNT][region].autoscaling_groups.get(name)
    tags = {tag["Key"]: tag.get("Value", "") for tag in found.tags} if found else {}
    tags = _visible(tags, datetime.fromisoformat(found.created_time).replace(tzinfo=UTC).timestamp()) if found else {}
    return arn("autoscaling", region, f"autoScalingGroup:*:autoScalingGroupName/{name}"), tags


def efs(region: str, identifier: str) -> tuple[str, Tags]:
    """Return the ARN and tags of an EFS file system or access point, by ID or ARN."""
    identifier = identifier.rpartition("/")[2]
    backend: Any = efs_backends[ACCOUNT][region]
    kind = "access-point" if identifier.startswith("fsap-") else "file-system"
    created = getattr(backend.file_systems_by_id.get(identifier), "creation_time", 0.0)
    tags = _visible(_tags(backend.list_tags_for_resource(identifier)), created)
    return arn("elasticfilesystem", region, f"{kind}/{identifier}"), tags


def emr(region: str, identifier: str) -> tuple[str, Tags]:
    """Return the ARN and tags of an EMR cluster."""
    found = clusters(emr_backends[ACCOUNT][region]).get(identifier)
    return arn("elasticmapreduce", region, f"cluster/{identifier}"), _visible(
        dict(found.tags), found.created.replace(tzinfo=UTC).timestamp()
    ) if found else {}


def emr_cluster_of(region: str, group: str) -> str:
    """Return the ID of the EMR cluster to which an instance group belongs, or `*` for an unknown instance group."""
    found = clusters(emr_backends[ACCOUNT][region]).values()
    return next((cluster.id for cluster in found if any(each.id == group for each in cluster.groups)), "*")


def fsx(region: str, identifier: str) -> tuple[str, Tags]:
    """Return the ARN and tags of an FSx file system or data repository association, by ID or ARN."""
    backend: Any = fsx_backends[ACCOUNT][region]
    if identifier.startswith("arn:"):
        return identifier, _tags(backend.list_tags_for_resource(identifier))
    kind = "association" if identifier.startswith("dra-") else "file-system"
    found = (backend.file_systems if kind == "file-system" else associations(backend)).get(identifier)
    resource = found.resource_arn if found else arn("fsx", region, f"{kind}/{identifier}")
    return resource, _visible(_tags(backend.list_tags_for_resource(resource)), found.created if found else 0.0)


def function(region: str, identifier: str) -> tuple[str, Tags]:
    """Return the ARN and tags of a Lambda function, by name or ARN."""
    name = parse_name(identifier)[1]
    found = functions(lambda_backends[ACCOUNT][region]).get(name)
    return arn("lambda", region, f"function:{name}"), _visible(dict(found.tags), found.created) if found else {}


def schedule_group(region: str, name: str) -> tuple[str, Tags]:
    """Return the ARN and tags of a schedule group."""
    backend: Any = scheduler_backends[ACCOUNT][region]
    resource, found = arn("scheduler", region, f"schedule-group/{name}"), backend.schedule_groups.get(name)
    return resource, _visible(backend.tagger.get_tag_dict_for_resource(resource), getattr(found, "created_on", None) or 0.0)


def role(name: str) -> tuple[str, Tags]:
    """Return the ARN and tags of a role. For an unknown role, the ARN has no path."""
    found = find_role(name)
    return (found.arn, _tags_of_new(found)) if found else (arn("iam", "", f"role/{name}"), {})


def find_role(name: str) -> Any:
    iam: Any = iam_backends[ACCOUNT][PARTITION]
    return next((each for each in iam.roles.values() if each.name == name), None)


def instance_profile(name: str) -> tuple[str, Tags]:
    """Return the ARN and tags of an instance profile."""
    found = find_profile(name)
    return (found.arn, _tags_of_new(found)) if found else (arn("iam", "", f"instance-profile/{name}"), {})


def find_profile(name: str) -> Any:
    """Return the instance profile with this name or ARN, or None for an unknown profile."""
    iam: Any = iam_backends[ACCOUNT][PARTITION]
    return next((each for each in iam.instance_profiles.values() if name in (each.name, each.arn)), None)


def parameter(region: str, name: str) -> tuple[str, Tags]:
    """Return the ARN and tags of a parameter. Public parameters belong to no account."""
    shared = name.startswith("/aws/")
    backend: Any = ssm_backends[ACCOUNT][region]
    tags = {} if shared else dict(backend._resource_tags["Parameter"].get(name, {}))
    return arn("ssm", region, f"parameter/{name.lstrip('/')}", "" if shared else ACCOUNT), tags


def _tags(listed: list[dict[str, str]]) -> Tags:
    return {tag["Key"]: tag["Value"] for tag in listed}


def _tags_of_new(found: Any) -> Tags:
    """Return the visible tags of an IAM resource. moto stores the tags as a dictionary or as a list."""
    tags = _tags(list(found.tags.values()) if isinstance(found.tags, dict) else list(found.tags or []))
    return _visible(tags, found.create_date.replace(tzinfo=UTC).timestamp())


def _visible(tags: Tags, created: float) -> Tags:
    """Return the tags with which policies are evaluated: none for a resource that was created less than `tag_visibility` ago."""
    return tags if CLOUD.age(created) >= CLOUD.delays.tag_visibility else {}
