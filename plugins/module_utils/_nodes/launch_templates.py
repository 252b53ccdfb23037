# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Launch templates: what an instance of a group is launched from."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Mapping

from .._aws import COMPONENT_TAG, IMAGE_TAG, KEY_TAG, Cloud, tag_dict, tag_list
from .._plan.plan import Kind
from .._plan.resources import Address, Found
from .definition import COMPONENT

Properties = Mapping[str, Any]


def read(cloud: Cloud) -> Iterator[Found]:
    """The cluster's launch templates as their newest version is."""
    templates = cloud.retrieve("ec2", "describe_launch_templates", "LaunchTemplates", Filters=cloud.filters())
    with ThreadPoolExecutor(4) as pool:
        versions = pool.map(
            lambda template: cloud.ec2.describe_launch_template_versions(
                LaunchTemplateId=template["LaunchTemplateId"], Versions=["$Latest"]
            )["LaunchTemplateVersions"][0],
            templates,
        )
        for template, version in zip(templates, versions):
            tags = tag_dict(template.get("Tags", []))
            if tags.get(COMPONENT_TAG) == COMPONENT:
                yield Found(
                    Address("launch_template", tags[KEY_TAG]),
                    template["LaunchTemplateId"],
                    {
                        "name": template["LaunchTemplateName"],
                        **_template_properties(version["LaunchTemplateData"]),
                        "tags": cloud.comparable_tags(template["Tags"]),
                    },
                    {"version": version["VersionNumber"], "image_source": tags.get(IMAGE_TAG)},
                )


def _template_properties(data: Mapping[str, Any]) -> dict[str, Any]:
    interface: dict[str, Any] = next(iter(data.get("NetworkInterfaces", [])), {})
    root: dict[str, Any] = next(iter(data.get("BlockDeviceMappings", [])), {})
    return {
        "instance_type": data.get("InstanceType"),
        "image_id": data.get("ImageId"),
        "root_device": root.get("DeviceName"),
        "root_volume_size": root.get("Ebs", {}).get("VolumeSize"),
        "key_name": data.get("KeyName"),
        "instance_profile": data.get("IamInstanceProfile", {}).get("Name"),
        "security_groups": frozenset(interface.get("Groups", [])),
        "public_address": interface.get("AssociatePublicIpAddress", False),
        "user_data": base64.b64decode(data.get("UserData", "")).decode(),
    }


def _template_data(cloud: Cloud, key: str, properties: Properties) -> dict[str, Any]:
    return {
        "InstanceType": properties["instance_type"],
        "ImageId": properties["image_id"],
        "KeyName": properties["key_name"],
        "IamInstanceProfile": {"Name": properties["instance_profile"]},
        "UserData": base64.b64encode(properties["user_data"].encode()).decode(),
        "MetadataOptions": {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        "BlockDeviceMappings": [
            {
                "DeviceName": properties["root_device"],
                "Ebs": {"VolumeSize": properties["root_volume_size"], "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True},
            }
        ],
        "NetworkInterfaces": [
            {
                "DeviceIndex": 0,
                "AssociatePublicIpAddress": properties["public_address"],
                "Groups": sorted(properties["security_groups"]),
                "DeleteOnTermination": True,
            }
        ],
        "TagSpecifications": [{"ResourceType": "volume", "Tags": tag_list(cloud.tags(COMPONENT, key, properties["name"]))}],
    }


def _create_template(cloud: Cloud, address: Address, properties: Properties) -> Found:
    template = cloud.ec2.create_launch_template(
        LaunchTemplateName=properties["name"],
        LaunchTemplateData=_template_data(cloud, address.key, properties),
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": tag_list(properties["tags"])}],
    )["LaunchTemplate"]
    return Found(address, template["LaunchTemplateId"], properties)


def _update_template(cloud: Cloud, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    if changed - {"tags"}:
        version = cloud.ec2.create_launch_template_version(
            LaunchTemplateId=found.id, LaunchTemplateData=_template_data(cloud, found.address.key, properties)
        )["LaunchTemplateVersion"]["VersionNumber"]
        cloud.ec2.modify_launch_template(LaunchTemplateId=found.id, DefaultVersion=str(version))
    if "tags" in changed:
        cloud.ec2.create_tags(Resources=[found.id], Tags=tag_list(properties["tags"]))


def _delete_template(cloud: Cloud, found: Found) -> None:
    cloud.once_unused(cloud.ec2.delete_launch_template, LaunchTemplateId=found.id)


KIND = Kind(
    "launch_template",
    _create_template,
    _delete_template,
    update=_update_template,
    updatable=frozenset(
        {
            "instance_type",
            "image_id",
            "root_device",
            "root_volume_size",
            "key_name",
            "instance_profile",
            "security_groups",
            "public_address",
            "user_data",
            "tags",
        }
    ),
    deleted_after=("auto_scaling_group",),
)
