# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Launch templates, from which Auto Scaling groups launch instances."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Mapping

from ..client import IMAGE_TAG, AwsClient, tag_dict, tag_list
from ..instances import BLOCK, RESERVATION, SPOT
from ..own_resources import read_own, readable, with_keys
from ..plan.planning import Change, Kind
from ..plan.resources import UNKNOWN, Address, Found, Properties
from ..tags import NODES_COMPONENT
from .capacity import without_zeros
from .definition import PLAIN, Interface

ON_DEMAND = "on-demand"
SPOT_REQUEST = "spot-instances-request"
RESERVATIONS_ONLY = "capacity-reservations-only"


def read(cloud: AwsClient) -> Iterator[Found]:
    """Return the newest version of each of the cluster's launch templates."""
    described = cloud.retrieve("ec2", "describe_launch_templates", "LaunchTemplates", Filters=cloud.filters())
    templates = [template for _key, template in with_keys(cloud, described, NODES_COMPONENT)]
    with ThreadPoolExecutor(4) as pool:
        versions = pool.map(
            lambda template: cloud.ec2.describe_launch_template_versions(
                LaunchTemplateId=template["LaunchTemplateId"], Versions=["$Latest"]
            )["LaunchTemplateVersions"][0],
            templates,
        )
        newest = [{**template, "Newest": version} for template, version in zip(templates, versions)]
    return read_own(cloud, newest, NODES_COMPONENT, "LaunchTemplateId", _found)


def _found(cloud: AwsClient, key: str, template: Mapping[str, Any]) -> Found:
    version = template["Newest"]
    return Found(
        Address("launch_template", key),
        template["LaunchTemplateId"],
        {
            "name": template["LaunchTemplateName"],
            **_template_properties(version["LaunchTemplateData"]),
            "tags": cloud.comparable_tags(template["Tags"]),
        },
        {"version": str(version["VersionNumber"]), "image_source": tag_dict(template["Tags"]).get(IMAGE_TAG)},
    )


def _template_properties(data: Mapping[str, Any]) -> dict[str, Any]:
    # AWS does not guarantee the order of interfaces
    interfaces: list[dict[str, Any]] = sorted(data.get("NetworkInterfaces", []), key=_place)
    primary: dict[str, Any] = next(iter(interfaces), {})
    disk: dict[str, Any] = next(iter(data.get("BlockDeviceMappings", [])), {})
    volume = disk.get("Ebs", {})
    market, reservation = _found_market(data)
    tags_of_kinds = {item["ResourceType"]: tag_dict(item["Tags"]) for item in data.get("TagSpecifications", [])}
    return {
        "instance_type": data.get("InstanceType"),
        "image_id": data.get("ImageId"),
        "root_device": disk.get("DeviceName"),
        "root_volume_size": volume.get("VolumeSize"),
        "root_volume_type": volume.get("VolumeType"),
        "root_volume_iops": volume.get("Iops", 0),
        "root_volume_throughput": volume.get("Throughput", 0),
        "root_volume_kms_key": volume.get("KmsKeyId", ""),
        "ebs_optimized": data.get("EbsOptimized", False),
        "key_name": data.get("KeyName"),
        "instance_profile": data.get("IamInstanceProfile", {}).get("Name"),
        "interfaces": tuple((*_place(item), item.get("InterfaceType", PLAIN)) for item in interfaces),
        "security_groups": frozenset(primary.get("Groups", [])),
        "public_address": primary.get("AssociatePublicIpAddress", False),
        "placement_group": data.get("Placement", {}).get("GroupName", ""),
        "market": market,
        "spot_max_price": without_zeros(data.get("InstanceMarketOptions", {}).get("SpotOptions", {}).get("MaxPrice", "")),
        "capacity_reservation": reservation,
        "user_data": base64.b64decode(data.get("UserData", "")).decode(),
        "metadata_hop_limit": data.get("MetadataOptions", {}).get("HttpPutResponseHopLimit", 1),
        "launched_tags": {kind: tags for kind, tags in tags_of_kinds.items() if kind != SPOT_REQUEST},
    }


def _place(interface: Mapping[str, Any]) -> tuple[int, int]:
    """Return the network card index and the device index of an interface. For the primary interface, both indexes are 0."""
    return interface.get("NetworkCardIndex", 0), interface["DeviceIndex"]


def _template_data(properties: Properties) -> dict[str, Any]:
    tags = properties["launched_tags"]
    if properties["market"] == SPOT and "volume" in tags:  # AWS refuses tags of requests that do not exist
        tags = {**tags, SPOT_REQUEST: tags["volume"]}
    return {
        "InstanceType": properties["instance_type"],
        "ImageId": properties["image_id"],
        "KeyName": properties["key_name"],
        "IamInstanceProfile": {"Name": properties["instance_profile"]},
        "UserData": base64.b64encode(properties["user_data"].encode()).decode(),
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": properties["metadata_hop_limit"],
        },
        "BlockDeviceMappings": [{"DeviceName": properties["root_device"], "Ebs": _root_volume(properties)}],
        "NetworkInterfaces": [_network_interface(interface, properties) for interface in properties["interfaces"]],
        "TagSpecifications": [{"ResourceType": kind, "Tags": tag_list(each)} for kind, each in tags.items()],
        **({"EbsOptimized": True} if properties["ebs_optimized"] else {}),
        **({"Placement": {"GroupName": properties["placement_group"]}} if properties["placement_group"] else {}),
        **_market_data(properties["market"], properties["spot_max_price"], properties["capacity_reservation"]),
    }


def _root_volume(properties: Properties) -> dict[str, Any]:
    asked = {
        "Iops": properties["root_volume_iops"],
        "Throughput": properties["root_volume_throughput"],
        "KmsKeyId": properties["root_volume_kms_key"],
    }
    return {
        "VolumeSize": properties["root_volume_size"],
        "VolumeType": properties["root_volume_type"],
        "Encrypted": True,
        "DeleteOnTermination": True,
        **{name: value for name, value in asked.items() if value},
    }


def _network_interface(interface: Interface, properties: Properties) -> dict[str, Any]:
    card, device, interface_type = interface
    result = {
        "NetworkCardIndex": card,
        "DeviceIndex": device,
        "InterfaceType": interface_type,
        "Groups": sorted(properties["security_groups"]),
        "DeleteOnTermination": True,
    }
    # AWS does not accept AssociatePublicIpAddress for instances with several interfaces
    if len(properties["interfaces"]) == 1:
        result["AssociatePublicIpAddress"] = properties["public_address"]
    return result


def _market_data(market: str, spot_max_price: str, reservation: str) -> dict[str, Any]:
    """Return the launch template data for `market`.

    The data for On-Demand Instances is empty, so that these instances can use matching open reservations.
    """
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    reserved = target if reservation else {"CapacityReservationPreference": RESERVATIONS_ONLY}
    if market == SPOT:
        price = {"MaxPrice": spot_max_price} if spot_max_price else {}
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate", **price}
        return {"InstanceMarketOptions": {"MarketType": SPOT, "SpotOptions": options}}
    if market == BLOCK:
        return {"InstanceMarketOptions": {"MarketType": BLOCK}, "CapacityReservationSpecification": reserved}
    return {"CapacityReservationSpecification": reserved} if market == RESERVATION else {}


def _found_market(data: Mapping[str, Any]) -> tuple[str, str]:
    reserved = data.get("CapacityReservationSpecification", {})
    reservation = reserved.get("CapacityReservationTarget", {}).get("CapacityReservationId", "")
    paid = data.get("InstanceMarketOptions", {}).get("MarketType")
    return paid or (RESERVATION if reserved else ON_DEMAND), reservation


def _create_template(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    template = cloud.ec2.create_launch_template(
        LaunchTemplateName=properties["name"],
        LaunchTemplateData=_template_data(properties),
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": tag_list(properties["tags"])}],
    )["LaunchTemplate"]
    return Found(address, template["LaunchTemplateId"], properties, {"version": str(template["LatestVersionNumber"])})


def _update_template(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> Found:
    attributes = dict(found.attributes)
    if changed - {"tags"}:
        # Other differences are deferred until nodes are replaced
        data = _template_data({**found.properties, **{name: properties[name] for name in changed}})
        version = cloud.ec2.create_launch_template_version(LaunchTemplateId=found.id, LaunchTemplateData=data)["LaunchTemplateVersion"][
            "VersionNumber"
        ]
        cloud.ec2.modify_launch_template(LaunchTemplateId=found.id, DefaultVersion=str(version))
        attributes["version"] = str(version)
    if "tags" in changed:
        cloud.ec2.create_tags(Resources=[found.id], Tags=tag_list(properties["tags"]))
    return replace(found, properties={**found.properties, **properties}, attributes=attributes)


def predict_versions(plan: Iterable[Change], found: Iterable[Found], *, replacing: bool) -> list[Found]:
    """Return `found`, but mark the versions of the templates that the plan changes as unknown.

    If `replacing` is false, changes that would replace nodes are deferred, and no template version is created for them.
    """
    waiting = frozenset() if replacing else KIND.replacing
    changing = {
        change.address for change in plan if change.address.kind == KIND.name and change.found and set(change.after) - waiting - {"tags"}
    }
    return [replace(item, attributes={**item.attributes, "version": UNKNOWN}) if item.address in changing else item for item in found]


def _delete_template(cloud: AwsClient, found: Found) -> None:
    cloud.once_unused(cloud.ec2.delete_launch_template, LaunchTemplateId=found.id)


def outdated(cloud: AwsClient, template: Found | None, launched_from: Mapping[int, Mapping[str, Any] | None]) -> tuple[int, ...]:
    """Return the numbers of outdated nodes, that is, of nodes whose settings differ from the current launch template.

    `launched_from` contains each node's launch template specification, as reported by its Auto Scaling group, and None for nodes that the
    group does not report. Nodes of a deleted launch template, for which AWS may report an empty specification, are outdated. If versions
    differ only in properties that can change without replacing nodes, the nodes are not outdated.
    """
    specifications = {number: item for number, item in launched_from.items() if item is not None}
    if template is None:
        return tuple(sorted(specifications))
    own = {number: item["Version"] for number, item in specifications.items() if item.get("LaunchTemplateId") == template.id}
    same = {template.attributes["version"]}
    versions = [int(version) for version in own.values() if version not in same]
    if versions:
        same.update(_equal_versions(cloud, template, min(versions)))
    return tuple(sorted(number for number in specifications if own.get(number) not in same))


def _equal_versions(cloud: AwsClient, template: Found, first: int) -> Iterator[str]:
    """Yield those versions of a template from `first` on whose settings differ from the template only where nodes keep theirs."""
    query = {"LaunchTemplateId": template.id, "MinVersion": str(first)}
    for version in cloud.retrieve("ec2", "describe_launch_template_versions", "LaunchTemplateVersions", **query):
        with readable(cloud, template.id):
            properties = _template_properties(version["LaunchTemplateData"])
        if all(template.properties[name] == value for name, value in properties.items() if name in KIND.replacing):
            yield str(version["VersionNumber"])


KIND = Kind(
    "launch_template",
    _create_template,
    _delete_template,
    update=_update_template,
    updatable=frozenset({"tags", "launched_tags"}),
    replacing=frozenset(
        {
            "instance_type",
            "image_id",
            "root_device",
            "root_volume_size",
            "root_volume_type",
            "root_volume_iops",
            "root_volume_throughput",
            "root_volume_kms_key",
            "ebs_optimized",
            "key_name",
            "instance_profile",
            "interfaces",
            "security_groups",
            "public_address",
            "placement_group",
            "market",
            "spot_max_price",
            "capacity_reservation",
            "metadata_hop_limit",
            "user_data",
        }
    ),
    deleted_after=("auto_scaling_group",),
)
