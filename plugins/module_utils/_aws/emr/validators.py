# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for EMR clusters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._common.shared_storage.mounts import BUCKET_NAME
from ..client import AwsClient, ClientError
from ..component import Request
from ..error_codes import error_code
from ..message_parts import P
from ..plan.resources import Found
from ..tags import EMR_COMPONENT
from ..validator import Level, Validator
from .definition import CLUSTER, idle_seconds
from .network_validators import EmrNetwork, EmrPublicAccess
from .node_validators import EmrImageSystem, EmrNodes
from .releases import FIRST_WITH_CUSTOM_IMAGES, LARGEST_ROOT, has_auto_termination, release, smallest_root
from .role_validators import EmrRoles, EmrServicePolicy

LOG_URI = re.compile(rf"(?i:s3[an]?)://({BUCKET_NAME})(/.*)?")
SCRIPT = re.compile(r"(s3[an]?|file)://.+|/.+", re.IGNORECASE)
MOST_BOOTSTRAP_ACTIONS = 16
MOST_STEPS = 256
MOST_CHARACTERS = 256
# Source: Amazon EMR API Reference, AddJobFlowSteps.
MOST_CHARACTERS_OF_STEP = 10240
MOST_ADDITIONAL_GROUPS = 4
COUNTS = {"emr_core_count": "core", "emr_task_count": "task"}


class EmrOptions(Validator):
    """Checks the options without making API calls."""

    name = "emr_options"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        yield from _check_release(options)
        yield from _check_idle(options)
        yield from _check_nodes(options)
        yield from _check_groups(options)
        yield from _check_bootstrap_actions(options["emr_bootstrap_actions"])
        yield from _check_steps(options["emr_steps"])
        yield from _check_duplicates("emr_applications", options["emr_applications"])
        uri = options["emr_log_uri"]
        if uri and not LOG_URI.fullmatch(uri):
            yield f"{P}emr_log_uri: '{uri}' is not a location in S3. Specify a general purpose bucket, as in s3://bucket/logs/."


def _check_release(options: Mapping[str, Any]) -> Iterator[str]:
    label = options["emr_release_label"]
    version = release(label)
    if not label:
        yield f"{P}emr_release_label: missing. Specify a release, for example emr-7.9.0."
    elif not version:
        yield f"{P}emr_release_label: '{label}' is not a release label. Specify a label such as emr-7.9.0."
    elif options["emr_image_id"] and version < FIRST_WITH_CUSTOM_IMAGES:
        yield f"{P}emr_image_id: {label} does not support custom images. Remove this option, or choose release emr-5.7.0 or later."
    size = options["emr_root_volume_size"]
    smallest = smallest_root(version)
    if size is not None and size < smallest:
        yield f"{P}emr_root_volume_size: {size} GiB is too small. Specify at least {smallest} GiB for {label}."
    if size is not None and size > LARGEST_ROOT:
        yield f"{P}emr_root_volume_size: {size} GiB is too large. Specify at most {LARGEST_ROOT} GiB."


def _check_idle(options: Mapping[str, Any]) -> Iterator[str]:
    after, label = options["emr_idle_after"], options["emr_release_label"]
    if not after:
        return
    try:
        idle_seconds(after)
    except ValueError as error:
        yield f"{P}emr_idle_after: {error}."
    version = release(label)
    if version and not has_auto_termination(version):
        yield f"{P}emr_idle_after: {label} does not support auto-termination. Remove this option, or choose release 5.30.0, 6.1.0 or later."


def _check_nodes(options: Mapping[str, Any]) -> Iterator[str]:
    if not options["emr_instance_type"]:
        yield f"{P}emr_instance_type: missing. Specify an instance type, for example p4d.24xlarge."
    if options["emr_core_count"] is None:
        yield f"{P}emr_core_count: missing. Specify the number of core nodes besides the master. With 0, the master is the only node."
    for name, role in COUNTS.items():
        if options[name] is not None and options[name] < 0:
            yield f"{P}{name}: {options[name]} is not valid. Specify the number of {role} nodes."
    if options["emr_task_count"] > 0 and options["emr_core_count"] == 0:
        yield f"{P}emr_task_count: task nodes require at least one core node. Set {P}emr_core_count to at least 1."
    if options["emr_core_instance_type"] and options["emr_core_count"] == 0:
        yield (
            f"{P}emr_core_instance_type: the cluster has no core nodes ({P}emr_core_count: 0). Remove this option, or increase "
            f"{P}emr_core_count."
        )


def _check_groups(options: Mapping[str, Any]) -> Iterator[str]:
    named = {name for name, value in options["emr_security_group_ids"].items() if value}
    if named and not {"master", "workers"} <= named:
        missing = " and ".join(sorted({"master", "workers"} - named))
        yield (
            f"{P}emr_security_group_ids: no group for {missing}. EMR requires both the group of the master and the group of the workers. "
            "Specify both groups, or remove this option."
        )
    for name, groups in options["emr_additional_security_group_ids"].items():
        if len(groups or ()) > MOST_ADDITIONAL_GROUPS:
            yield (
                f"{P}emr_additional_security_group_ids.{name}: {len(groups)} groups exceed the limit. "
                f"Specify at most {MOST_ADDITIONAL_GROUPS}."
            )


def _check_bootstrap_actions(actions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(actions) > MOST_BOOTSTRAP_ACTIONS:
        yield f"{P}emr_bootstrap_actions: {len(actions)} actions exceed the limit. Specify at most {MOST_BOOTSTRAP_ACTIONS}."
    for action in actions:
        if not SCRIPT.fullmatch(action["path"]):
            yield (
                f"{P}emr_bootstrap_actions: '{action['path']}' is not the location of a script. Specify a location in S3, such as "
                "s3://bucket/script.sh, or a path on the nodes."
            )
        if not 0 < len(action["name"]) <= MOST_CHARACTERS:
            yield f"{P}emr_bootstrap_actions: the name of {action['path']} is not valid. Use 1 to {MOST_CHARACTERS} characters."


def _check_steps(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(steps) > MOST_STEPS:
        yield f"{P}emr_steps: {len(steps)} steps exceed the limit. Specify at most {MOST_STEPS}."
    yield from _check_duplicates("emr_steps", [each["name"] for each in steps])
    if any(not 0 < len(each["name"]) <= MOST_CHARACTERS for each in steps):
        yield f"{P}emr_steps: a step has no valid name. Use 1 to {MOST_CHARACTERS} characters."
    for each in steps:
        characters = sum(map(len, (each["jar"], *each["args"])))
        if characters > MOST_CHARACTERS_OF_STEP:
            yield (
                f"{P}emr_steps: jar and args of '{each['name']}' have {characters} characters. EMR allows at most "
                f"{MOST_CHARACTERS_OF_STEP} in total. Put long arguments into a file in S3."
            )


def _check_duplicates(option: str, names: Sequence[str]) -> Iterator[str]:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        yield f"{P}{option}: {', '.join(map(repr, repeated))} occurs more than once. Use each name only once."


class EmrLogBucket(Validator):
    """Checks that the bucket for logs exists. Permissions are not checked, because the bucket's owner controls them."""

    name = "emr_log_bucket"
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        location = LOG_URI.fullmatch(request.options["emr_log_uri"] or "")
        if location and _is_missing(request.cloud, location.group(1)):
            yield f"{P}emr_log_uri: there is no bucket {location.group(1)}. Create it, or specify another location."


def _is_missing(cloud: AwsClient, bucket: str) -> bool:
    try:
        cloud.s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        return error_code(error) in ("404", "NoSuchBucket")
    return False


class EmrShrinking(Validator):
    """Warns if the number of nodes decreases, because EMR may take a long time to remove nodes, and keeps core nodes that HDFS needs."""

    name = "emr_shrinking"
    level = Level.WARNING
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        sizes = next((item.properties for item in found if item.address == CLUSTER), {})
        for option, role in COUNTS.items():
            before, after = sizes.get(f"{role}_count", 0), request.options[option]
            if after is not None and after < before:
                copies = " EMR keeps as many core nodes as HDFS has copies of each block: up to 3." if role == "core" else ""
                yield (
                    f"{P}{option}: EMR removes {before - after} of {before} {role} nodes. EMR waits up to an hour for the "
                    f"containers on these nodes.{copies}"
                )


class EmrFailedSteps(Validator):
    """Warns about steps in the definition that failed or were cancelled, because a run does not repeat them."""

    name = "emr_failed_steps"
    level = Level.WARNING
    components = frozenset({EMR_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        named = {each["name"] for each in request.options["emr_steps"]}
        for item in found:
            if item.address.kind == "emr_step" and item.address.key in named:
                status = item.attributes["status"]
                if status["State"] in ("FAILED", "CANCELLED"):
                    reason = status.get("FailureDetails", {}).get("Message", "EMR returned no reason")
                    yield (
                        f"{P}emr_steps: '{item.address.key}' ({item.id}) has the state {status['State']}: {reason.rstrip('.')}. "
                        "To run this step again, give it another name."
                    )


VALIDATORS = (
    EmrOptions(),
    EmrRoles(),
    EmrServicePolicy(),
    EmrNodes(),
    EmrImageSystem(),
    EmrNetwork(),
    EmrPublicAccess(),
    EmrLogBucket(),
    EmrShrinking(),
    EmrFailedSteps(),
)
