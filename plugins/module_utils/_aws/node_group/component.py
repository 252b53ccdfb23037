# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The component for the master and the workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..client import IMAGE_TAG, ClusterError
from ..component import Component, Request
from ..node_names import MASTER, NODE_TYPES, node_name
from ..plan.planning import Action, Change, Policy
from ..plan.resources import Address, Found, Wanted
from ..tags import END_TAGS, NODES_COMPONENT
from . import auto_scaling_groups, capacity, definition, launch_templates, master_elastic_ip, placement, resources
from .charges import charges
from .iam_actions import IAM_ACTIONS
from .settings import node_settings, settings_of


def _read(request: Request, _network: Sequence[Found]) -> list[Found]:
    return resources.read(request.cloud, request.options.get("placement_group"))


def _wish(request: Request, found: Sequence[Found], group: str, *, moving: bool) -> definition.Capacity:
    """Return the capacity that the run requests for a group, which may have to keep its zones until the run may replace nodes."""
    options, alternative = request.options, request.alternative
    leaves_subnets = group == MASTER and _is_private(found) == options["master_public_address"]
    stays = not moving and (leaves_subnets or not capacity.is_in_use(alternative, found, options["master_market"]))
    return definition.Capacity(
        workers=capacity.worker_count(request, found),
        wanted_workers=definition.desired_workers(options),
        least_workers=capacity.least_workers(request),
        zones=None if stays else alternative.zones,
        timeout=options["capacity_timeout"],
        past_activities=request.past_activities,
        alternative=str(capacity.launched(request, found, group)),
    )


def _wanted(request: Request, found: Sequence[Found]) -> Iterator[Wanted]:
    options, alternative = request.options, request.alternative
    public_master = options["master_public_address"]
    settings = node_settings(request, alternative, found)
    known, moving = {item.address: item for item in found}, capacity.may_replace_nodes(request, found)

    def tags(address: Address) -> dict[str, str]:
        own = request.tags(NODES_COMPONENT)(address)
        return {**own, IMAGE_TAG: _image_source(settings.image, known.get(address), moving)} if address.kind == "launch_template" else own

    if settings.clustered:
        yield placement.wanted(options["placement_group"] or request.cloud.cluster, tags)
    if MASTER in capacity.managed_groups(request) and len(settings.interfaces) > 1 and public_master:
        wish = _wish(request, found, MASTER, moving=moving)
        yield master_elastic_ip.wanted(tags, wish, wait=options["wait"], numbered=capacity.has_nodes(found, (MASTER,)))
    for group in capacity.managed_groups(request):
        scaling_group = None if moving else known.get(definition.auto_scaling_group(group))
        yield from definition.wanted(
            group,
            settings_of(group, settings, options["master_market"]),
            _wish(request, found, group, moving=moving),
            request.cloud.cluster,
            request.cloud.region,
            tags,
            public_master=public_master,
            storage_tags=auto_scaling_groups.storage_tags(scaling_group) if scaling_group else None,
            ends=_ends(options, known.get(definition.auto_scaling_group(group))),
            topic=options["notify_topic"],
            wait=options["wait"],
        )


def _image_source(image: definition.Image, template: Found | None, moving: bool) -> str:
    """Return the image source for the template's tag. While nodes still use the former image, the tag keeps the source of that image."""
    keeps = template is not None and not moving and template.properties["image_id"] != image.image_id
    return str(template.attributes["image_source"] or image.source) if template and keeps else image.source


def _ends(options: Mapping[str, Any], scaling_group: Found | None) -> list[str]:
    """Return the tags that say how AWS ends the nodes by itself. Runs that do not manage this do not change it."""
    existing = scaling_group.properties["tags"] if scaling_group else {}
    return [tag for option, tag in END_TAGS.items() if options.get(option, tag in existing)]


def _is_private(found: Sequence[Found]) -> bool | None:
    """Return whether the master is launched in private subnets, or None if it has no Auto Scaling group."""
    groups = (item for item in found if item.address == definition.auto_scaling_group(MASTER))
    private = {item.id for item in found if item.address.kind == "subnet" and item.address.key.startswith("private-")}
    return next((bool(private & item.properties["subnets"]) for item in groups), None)


def _keeps(request: Request, item: Found) -> bool:
    groups = capacity.managed_groups(request)
    if item.address.key in NODE_TYPES and item.address.key not in groups:
        return True
    if request.present:
        return item.address.kind == "nodes" or bool(item.attributes.get("used_by_nodes"))
    return bool(item.attributes.get("used_by_templates", set()) - set(groups))


def _predict(request: Request, plan: Sequence[Change], found: Sequence[Found]) -> list[Found]:
    changing = {change.address.key for change in plan if change.address.kind == "launch_template" and change.policy is Policy.REPLACE}
    predicted = [
        replace(item, properties={**item.properties, "outdated": item.properties["numbers"]})
        if item.address.kind == "nodes" and item.address.key in changing
        else item
        for item in launch_templates.predict_versions(plan, found, replacing=capacity.may_replace_nodes(request, found))
    ]
    if not capacity.may_replace_nodes(request, found) or not _is_outdated(MASTER, predicted):
        return predicted
    # The run terminates the master that has the Elastic IP address
    return [
        replace(item, properties={**item.properties, "master_is_public": False}) if item.address == definition.MASTER_ADDRESS else item
        for item in predicted
    ]


def _is_outdated(group: str, found: Sequence[Found]) -> bool:
    return any(item.address == definition.nodes(group) and item.properties["outdated"] for item in found)


def _refuse(request: Request, plan: Sequence[Change], found: Sequence[Found]) -> None:
    """Refuse a plan that changes nodes if they cannot be identified, or that terminates nodes that the caller does not know.

    If the run deletes the cluster, nodes need no identification, because they are deleted with their groups.
    """
    known = request.options.get("known_instances")
    unknown = [] if known is None else sorted(_terminated(request.cloud.cluster, plan, found, frozenset(known)))
    if unknown:
        raise ClusterError(
            f"nodes: this run would terminate {', '.join(unknown)}, which the inventory does not contain, so nobody has "
            "checked whether a job is running there. If the inventory is a copy, as in AWX, synchronize its source. Then run the playbook "
            "again. To terminate nodes even if jobs are running on them, add -e deeplearning_ignore_running_jobs=true"
        )
    problems = [text for item in found if item.address.kind == "nodes" for text in item.attributes.get("problems", ())]
    if request.present and problems:
        raise ClusterError("\n".join(dict.fromkeys(problems)))


def _terminated(cluster: str, plan: Sequence[Change], found: Sequence[Found], known: frozenset[str]) -> Iterator[str]:
    """Yield the names of the numbered nodes that a plan terminates and that are not known. Jobs run only on nodes with numbers."""
    instances = {item.address: item.attributes["instances"] for item in found if item.address.kind == "nodes"}
    for change in plan:
        for number in _ending(change) if change.address in instances else ():
            instance = instances[change.address].get(number)
            if instance and instance not in known:
                yield f"{node_name(cluster, change.address.key, number)} ({instance})"


def _ending(change: Change) -> set[int]:
    if change.action is Action.DELETE:
        return {*change.before["numbers"]}
    fewer = {*change.before.get("numbers", ())} - {*change.after["numbers"]} if "numbers" in change.after else set()
    return fewer | {*change.before.get("outdated", ())} | {*change.before.get("unhealthy", ())}


NODE_GROUP = Component(
    NODES_COMPONENT, resources.KINDS, IAM_ACTIONS, _read, _wanted, _keeps, refuse=_refuse, predict=_predict, charges=charges
)
