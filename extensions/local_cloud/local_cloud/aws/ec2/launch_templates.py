"""Launch templates and their versions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from moto.core.responses import ActionResult
from moto.core.types import Base64EncodedString
from moto.ec2.exceptions import EC2ClientError, InvalidLaunchTemplateVersionNotFound
from moto.ec2.models import EC2Backend
from moto.ec2.models.launch_templates import LaunchTemplate, LaunchTemplateVersion
from moto.ec2.responses import EC2Response
from moto.ec2.utils import parse_user_data

from ..override import override

moto_create_version = LaunchTemplate.create_version
PAGE = 200

moto_describe_launch_templates = EC2Response.describe_launch_templates
moto_describe_launch_template_versions = EC2Response.describe_launch_template_versions
moto_create_launch_template = EC2Response.create_launch_template

# moto would always return the tags of the create request. This property returns the current tags.
setattr(LaunchTemplate, "tags", property(LaunchTemplate.get_tags, lambda self, value: None))  # noqa: B010


def find_version(backend: EC2Backend, wanted: dict[str, Any]) -> LaunchTemplateVersion:
    """Return the version that a LaunchTemplateSpecification selects. Raises the EC2 error for an unknown template or version."""
    if "LaunchTemplateId" in wanted:
        template = backend.get_launch_template(wanted["LaunchTemplateId"])
    else:
        template = backend.get_launch_template_by_name(wanted["LaunchTemplateName"])
    return template.get_version(wanted.get("Version") or "$Default")


@override(EC2Backend)
def _get_template_from_args(self: EC2Backend, launch_template_arg: dict[str, Any]) -> LaunchTemplateVersion:
    return find_version(self, launch_template_arg)


@override(LaunchTemplate)
def create_version(self: Any, data: dict[str, Any], description: str) -> LaunchTemplateVersion:
    """Create a version. A maximum price gets the six decimals that prices of spot requests have on AWS."""
    data = {key: value for key, value in data.items() if value is not None}
    if "UserData" in data and not isinstance(data["UserData"], Base64EncodedString):
        data["UserData"] = parse_user_data(data["UserData"])
    market = data.get("InstanceMarketOptions", {})
    if price := market.get("SpotOptions", {}).get("MaxPrice"):
        data["InstanceMarketOptions"] = {**market, "SpotOptions": {**market["SpotOptions"], "MaxPrice": f"{Decimal(price):.6f}"}}
    version = moto_create_version(self, data, description)
    version.number = self._latest_number = getattr(self, "_latest_number", 0) + 1
    return version


@override(LaunchTemplate)
def get_version(self: LaunchTemplate, num: Any) -> LaunchTemplateVersion:
    wanted = {"$latest": self.versions[-1].number, "$default": self.default_version_number}.get(str(num).lower(), num)
    for version in self.versions:
        if str(version.number) == str(wanted):
            return version
    raise InvalidLaunchTemplateVersionNotFound(template_id=self.id, version=num)


@override(LaunchTemplate)
def default_version(self: LaunchTemplate) -> LaunchTemplateVersion:
    return self.get_version("$Default")


@override(EC2Response)
def create_launch_template(self: EC2Response) -> ActionResult:
    """Create the template. The tags of the template do not become part of the version's data."""
    data = self._get_param("LaunchTemplateData", {})
    own = list(data.get("TagSpecifications", []))
    result = moto_create_launch_template(self)
    template = self.ec2_backend.get_launch_template_by_name(self._get_param("LaunchTemplateName"))
    version = template.versions[0]
    version.data.pop("TagSpecifications", None)
    if own:
        version.data["TagSpecifications"] = own
    version.instance_tags = {tag["Key"]: tag["Value"] for one in own if one["ResourceType"] == "instance" for tag in one["Tags"]}
    return result


@override(EC2Response)
def describe_launch_templates(self: EC2Response) -> ActionResult:
    """Return a page of the same size as on AWS. Raises the EC2 error for an unknown ID."""
    for identifier in self._get_param("LaunchTemplateIds", []):
        self.ec2_backend.get_launch_template(identifier)
    self.params["MaxResults"] = PAGE
    return moto_describe_launch_templates(self)


@override(EC2Response)
def describe_launch_template_versions(self: EC2Response) -> ActionResult:
    self.params["MaxResults"] = PAGE
    return moto_describe_launch_template_versions(self)


@override(EC2Response)
def create_launch_template_version(self: EC2Response) -> ActionResult:
    """Create a version. If the request names a source version, the source version provides the data that the request omits."""
    template = _template(self)
    data = dict(self._get_param("LaunchTemplateData", {}))
    if source := self._get_param("SourceVersion"):
        data = {**template.get_version(source).data, **data}
    self.error_on_dryrun()
    version = template.create_version(data, self._get_param("VersionDescription"))
    return ActionResult({"LaunchTemplateVersion": _described(self, template, version)})


@override(EC2Response)
def delete_launch_template_versions(self: EC2Response) -> ActionResult:
    template = _template(self)
    self.error_on_dryrun()
    deleted, refused = [], []
    for number in self._get_param("Versions", []):
        entry = {"LaunchTemplateId": template.id, "LaunchTemplateName": template.name, "VersionNumber": int(number)}
        found = [each for each in template.versions if str(each.number) == str(number)]
        if found and found[0].number != template.default_version_number:
            template.versions.remove(found[0])
            deleted.append(entry)
        else:
            code = "launchTemplateVersionDoesNotExist" if not found else "unexpectedError"
            refused.append({**entry, "ResponseError": {"Code": code, "Message": f"Version {number} cannot be deleted."}})
    return ActionResult(
        {
            "SuccessfullyDeletedLaunchTemplateVersions": deleted,
            "UnsuccessfullyDeletedLaunchTemplateVersions": refused,
        }
    )


@override(EC2Response)
def modify_launch_template(self: EC2Response) -> ActionResult:
    template = _template(self)
    template.default_version_number = template.get_version(self._get_param("DefaultVersion")).number
    return ActionResult(
        {
            "LaunchTemplate": {
                "CreateTime": template.create_time,
                "CreatedBy": f"arn:{self.partition}:iam::{self.current_account}:root",
                "DefaultVersionNumber": template.default_version_number,
                "LatestVersionNumber": template.latest_version_number,
                "LaunchTemplateId": template.id,
                "LaunchTemplateName": template.name,
                "Tags": template.get_tags(),
            }
        }
    )


def _template(response: EC2Response) -> LaunchTemplate:
    identifier, name = response._get_param("LaunchTemplateId"), response._get_param("LaunchTemplateName")
    if bool(identifier) == bool(name):
        raise EC2ClientError("MissingParameter", "Either launch template ID or launch template name must be specified.")
    backend: EC2Backend = response.ec2_backend
    return backend.get_launch_template(identifier) if identifier else backend.get_launch_template_by_name(name)


def _described(response: EC2Response, template: LaunchTemplate, version: LaunchTemplateVersion) -> dict[str, Any]:
    return {
        "CreateTime": version.create_time,
        "CreatedBy": f"arn:{response.partition}:iam::{response.current_account}:root",
        "DefaultVersion": template.is_default(version),
        "LaunchTemplateData": version.data,
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "VersionDescription": version.description,
        "VersionNumber": version.number,
    }
