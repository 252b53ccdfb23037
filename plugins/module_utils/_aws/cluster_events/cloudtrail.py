# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads from CloudTrail's event history who has created, changed and deleted resources of a cluster.

AWS finds events by one attribute in each request, at two requests per second, and returns events of the account's other resources too.
Sources: AWS CloudTrail API Reference, LookupEvents; AWS CloudTrail User Guide, "CloudTrail record contents".
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from ..client import SDK_ERRORS, AwsClient, ClientError
from ..error_codes import DENIED, error_code
from ..idle import definition as idle
from ..instance_role.own_role import PATH
from ..instances import ON_DEMAND
from ..lease import definition as lease
from ..node_names import NODE_TYPES, group_name
from ..regions import partition_of
from ..tags import CLUSTER_TAG
from .scaling_activities import CLOUD_TRAIL, DELETE_GROUP, ENDS, Event, LifeOfNode, name_of

KEPT = timedelta(days=90)
# The most pages of 50 events to read for one attribute.
PAGES = 20
# If there are more, events are also read from BEFORE to AFTER the end of a node, newest first. Only later calls could hide its cause.
BEFORE, AFTER = timedelta(minutes=10), timedelta(minutes=1)
# The most times around ends, and the most nodes, for which events are then read, and the most pages. AWS allows 2 requests per second.
MOST, PAGES_AROUND_ENDS = 50, 200
RUN, TAG = "RunInstances", "CreateTags"
TEMPLATES = ("CreateLaunchTemplate", "CreateLaunchTemplateVersion")
# The longest time in seconds between the beginning of a launch and the call that launches the instance.
LAUNCH_TIME = 60
# Calls that create and delete the network and what costs money, other than nodes. For those that create something, the name of the member
# of the response that contains its ID.
CREATIONS = {"CreateVpc": "vpcId", "CreateNatGateway": "natGatewayId", "CreateFileSystem": "fileSystemId"}
DELETIONS = ("DeleteNatGateway", "DeleteFileSystem")
# Calls that set, change and remove the schedules of the lease, and that which looks for idle nodes.
SCHEDULES = ("CreateSchedule", "UpdateSchedule", "DeleteSchedule")
LEASE, IDLE = "lease", "idle"
# The services whose events count, by the names of the events. All others are of EC2 and Auto Scaling. Many services share such names.
SERVICES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SCHEDULES, ("scheduler",)),
    **dict.fromkeys(("CreateFileSystem", "DeleteFileSystem"), ("elasticfilesystem", "fsx")),
}


class Trail:
    """The events of the history that belong to the cluster. `problems` says which events may be missing."""

    def __init__(self, cloud: AwsClient) -> None:
        self._cloud = cloud
        self._records: dict[str, dict[str, Any]] = {}
        self._ends: Mapping[str, float] = {}
        self._pages_left = PAGES_AROUND_ENDS
        self.problems: list[dict[str, str]] = []

    def read(self, groups: Collection[str], nodes: Mapping[str, LifeOfNode], since: datetime, ends: Mapping[str, float]) -> list[Event]:
        """Return the events since a time, and complete the nodes with what the history tells about their launches.

        `groups` contains the names of the cluster's Auto Scaling groups, and `ends` when nodes ended, as far as other sources tell.
        """
        ids = {*nodes}
        self._ends = ends
        try:
            ids |= self._own_ids()
            self._lookup("ResourceName", [*groups, *(each for each in sorted(ids) if each.startswith("vpc-"))], since, ends.values())
            self._lookup("EventName", (*ENDS, *DELETIONS, *SCHEDULES), since, ends.values())
            self._complete(nodes, since)
            self._look_up_nodes(nodes, since)
        except SDK_ERRORS as error:
            denied = isinstance(error, ClientError) and error_code(error) in DENIED
            self.problems.append({"kind": "denied" if denied else "unavailable", "message": str(error)})
        schedules = _schedules(self._cloud.cluster)
        changes = [(record, _own(record, ids, groups, schedules)) for record in self._records.values() if _is_change(record)]
        found = [_event(record, resources, self._ended_by(record, resources, schedules)) for record, resources in changes]
        return [event for event in found if event.resources and event.time >= since.timestamp()]

    def _ended_by(self, record: Mapping[str, Any], resources: Iterable[str], schedules: Mapping[str, str]) -> str:
        """Return what has let AWS delete a group, or what a schedule is for. Only AWS services can assume the roles."""
        if record["eventName"] != DELETE_GROUP or record.get("errorCode"):
            return next((schedules[name] for name in resources if name in schedules), "")
        cluster, region = self._cloud.cluster, self._cloud.region
        issuer = ((record.get("userIdentity") or {}).get("sessionContext") or {}).get("sessionIssuer") or {}
        names = {lease.role_name(cluster, region): LEASE, idle.role_name(cluster, region): IDLE}
        own = {
            partition_of(region).arn("iam", f"role{PATH}{name}", "", record.get("recipientAccountId", "")): names[name] for name in names
        }
        return own.get(str(issuer.get("arn")), "")

    def _complete(self, nodes: Mapping[str, LifeOfNode], since: datetime) -> None:
        """Complete the nodes with what the history tells about their launches and, if EC2 has forgotten them, their numbers."""
        unknown = [node for node in nodes.values() if not node.instance_type]
        launches = self._lookup("EventName", [RUN], _first_launch(unknown, since))
        for record in launches:
            _describe_nodes(record, nodes)
        self._describe_omitted(launches, unknown)
        unnamed = [node for node in nodes.values() if not node.name]
        for record in self._lookup("EventName", [TAG] if unnamed else (), _first_launch(unnamed, since)):
            _name_nodes(record, unnamed, self._cloud.cluster)

    def _describe_omitted(self, launches: Iterable[Mapping[str, Any]], nodes: Sequence[LifeOfNode]) -> None:
        """Describe nodes by the launch templates in calls from which CloudTrail has omitted the instances, because they are too long."""
        by_group = defaultdict[str, list[LifeOfNode]](list)
        for node in nodes:
            by_group[group_name(self._cloud.cluster, node.group)].append(node)
        omitted = [record for record in launches if _omitted_group(record) in by_group]
        made = self._lookup("EventName", TEMPLATES if omitted else (), datetime.fromtimestamp(0, timezone.utc))
        templates = {_template(each): each for each in map(_members, made)}
        for record in omitted:
            asked, launched = _members(record), by_group[_omitted_group(record)]
            _describe_by_template(launched, _time(record).timestamp(), {**templates.get(_template(asked), {}), **asked})
        if omitted and (unknown := [node.instance_id for node in nodes if not node.instance_type]):
            self.problems.append({"kind": "omitted", "message": ", ".join(unknown)})

    def _look_up_nodes(self, nodes: Mapping[str, LifeOfNode], since: datetime) -> None:
        """If there were too many events, look up the nodes of which something is unknown by their IDs."""
        if "truncated" not in [each["kind"] for each in self.problems]:
            return
        lost = {
            name: node for name, node in nodes.items() if not (node.name and node.instance_type and (node.running or name in self._ends))
        }
        for record in self._lookup("ResourceName", [*lost][:MOST], _first_launch(lost.values(), since)):
            _describe_nodes(record, lost)
            _name_nodes(record, lost.values(), self._cloud.cluster)

    def _own_ids(self) -> set[str]:
        created = self._lookup("EventName", CREATIONS, datetime.fromtimestamp(0, timezone.utc))
        own = [record for record in created if _has_tag(record, CLUSTER_TAG, self._cloud.cluster)]
        elements = ((record["eventName"], _texts(record.get("responseElements"))) for record in own)
        return {text for action, texts in elements for name, text in texts if name == CREATIONS.get(action)}

    def _lookup(self, attribute: str, values: Iterable[str], since: datetime, ends: Collection[float] = ()) -> list[dict[str, Any]]:
        """Return the records of the events with one of the values, and keep them. If there are too many, read those around `ends`, too."""
        found = []
        for value in values:
            for record in self._with_value(attribute, value, since, ends):
                self._records[record["eventID"]] = record
                found.append(record)
        return found

    def _with_value(self, attribute: str, value: str, since: datetime, ends: Collection[float]) -> Iterator[dict[str, Any]]:
        """Yield the newest records of the events with a value and, if there are more, those around the ends of nodes."""
        begin = max(since, self._cloud.now - KEPT)
        oldest = yield from self._pages(attribute, value, StartTime=begin)
        for start, end in _spans(ends, begin, oldest) if oldest else ():
            if self._pages_left > 0:
                yield from self._pages(attribute, value, StartTime=start, EndTime=end)

    def _pages(self, attribute: str, value: str, **times: datetime) -> Generator[dict[str, Any], None, datetime | None]:
        """Yield records, newest first. Return the time of the last one if there are more."""
        asked, last = [{"AttributeKey": attribute, "AttributeValue": value}], None
        pages = self._cloud.cloudtrail.get_paginator("lookup_events").paginate(LookupAttributes=asked, **times)
        for number, page in enumerate(pages, 1):
            records = [json.loads(event["CloudTrailEvent"]) for event in page["Events"]]
            yield from filter(_is_of_known_service, records)
            last = records[-1] if records else last
            self._pages_left -= "EndTime" in times
            if last and number == PAGES and page.get("NextToken"):
                self.problems.append({"kind": "truncated", "message": f"{attribute} {value}", "time": last["eventTime"]})
                return _time(last)
        return None


def _spans(ends: Iterable[float], start: datetime, oldest: datetime) -> list[tuple[datetime, datetime]]:
    """Return the times around the ends of nodes between two times, newest first. Those that overlap are one."""
    spans: list[tuple[datetime, datetime]] = []
    for end in (datetime.fromtimestamp(each, timezone.utc) for each in sorted(ends, reverse=True)):
        first, last = max(end - BEFORE, start), min(end + AFTER, oldest)
        if spans and last >= spans[-1][0]:
            spans[-1] = (first, spans[-1][1])
        elif first <= last:
            spans.append((first, last))
    return spans[:MOST]


def _is_of_known_service(record: Mapping[str, Any]) -> bool:
    services = SERVICES.get(record["eventName"], ("autoscaling", "ec2"))
    return record["eventSource"] in [f"{service}.amazonaws.com" for service in services]


def _is_change(record: Mapping[str, Any]) -> bool:
    """Return whether a record may be an event to show. Auto Scaling's own launches and terminations are its activities.

    After the end of a lease, AWS repeats the deletion of groups that no longer exist. Runs repeat calls for schedules until they succeed.
    """
    by_auto_scaling = (record.get("userIdentity") or {}).get("invokedBy") == "autoscaling.amazonaws.com"
    is_repeated = record["eventName"] == "DeleteAutoScalingGroup" and "not found" in str(record.get("errorMessage"))
    has_no_effect = record["eventName"] in SCHEDULES and (record.get("errorCode") or DENIED[0]) not in DENIED
    return not (record.get("readOnly") or by_auto_scaling or is_repeated or has_no_effect or record["eventName"] in (RUN, TAG, *TEMPLATES))


def _schedules(cluster: str) -> dict[str, str]:
    """Return the schedules with which AWS ends the nodes of a cluster, and what each is for."""
    of_lease = {f"{lease.schedule_group(cluster)}/{group}": LEASE for group in NODE_TYPES}
    return {**of_lease, f"{idle.name_of(cluster)}/{idle.SCHEDULE}": IDLE}


def _own(record: Mapping[str, Any], ids: Collection[str], groups: Collection[str], schedules: Collection[str]) -> list[str]:
    """Return the IDs and names of the cluster's own resources in a record.

    AWS assigns IDs, but anyone can give another resource the name of a group, and any resource a tag with an ID.
    """
    if record["eventSource"] == "scheduler.amazonaws.com":
        asked = {name.lower(): value for name, value in (record.get("requestParameters") or {}).items()}
        return [name for name in schedules if name == f"{asked.get('groupname')}/{asked.get('name')}"]
    names = groups if record["eventSource"] == "autoscaling.amazonaws.com" else ()
    texts = [(name.lower(), text) for name, text in _texts(_elements(record))]
    return sorted({text for name, text in texts if (text in names if name == "autoscalinggroupname" else text in ids and name != "value")})


def _event(record: Mapping[str, Any], resources: list[str], ended_by: str) -> Event:
    identity = record.get("userIdentity") or {}
    caller, error = identity.get("arn") or identity.get("invokedBy") or "", record.get("errorCode") or ""
    until = _until(record) if ended_by == LEASE and record["eventName"] in SCHEDULES and not error else None
    call = (_time(record).timestamp(), CLOUD_TRAIL, record["eventName"], resources)
    return Event(*call, caller=caller, ended_by=ended_by, error=error, until=until)


def _until(record: Mapping[str, Any]) -> float | None:
    """Return when a schedule begins that a call sets, if the record says so. AWS does not document the form of this time."""
    asked = {name.lower(): value for name, value in (record.get("requestParameters") or {}).items()}.get("startdate")
    if isinstance(asked, (int, float)):
        return float(asked)
    for read in (datetime.fromisoformat, lambda text: datetime.strptime(text, "%b %d, %Y, %I:%M:%S %p")):
        with contextlib.suppress(ValueError):
            found = read(str(asked))
            return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
    return None


def _time(record: Mapping[str, Any]) -> datetime:
    return datetime.strptime(record["eventTime"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def _elements(record: Mapping[str, Any]) -> list[Any]:
    return [record.get(name) for name in ("requestParameters", "responseElements", "serviceEventDetails")]


def _first_launch(nodes: Iterable[LifeOfNode], since: datetime) -> datetime:
    """Return the time from which events are read, so that they contain the launches of these nodes."""
    return min([since, *(datetime.fromtimestamp(node.launched_at, timezone.utc) for node in nodes if node.launched_at)])


def _describe_nodes(record: Mapping[str, Any], nodes: Mapping[str, LifeOfNode]) -> None:
    """Set the type, market and zone of the nodes that a call of RunInstances has launched."""
    launched = ((record.get("responseElements") or {}).get("instancesSet") or {}).get("items") or []
    for item in launched:
        node = nodes.get(item.get("instanceId"))
        if node and not node.instance_type:
            node.instance_type, node.market = item.get("instanceType", ""), item.get("instanceLifecycle") or ON_DEMAND
            node.zone = (item.get("placement") or {}).get("availabilityZone", "")


def _describe_by_template(nodes: Iterable[LifeOfNode], time: float, data: Mapping[str, Any]) -> None:
    """Describe the nodes whose launch began at most LAUNCH_TIME before a call with these data."""
    for node in nodes:
        if not node.instance_type and node.launched_at and abs(node.launched_at - time) <= LAUNCH_TIME:
            node.instance_type, node.market = data.get("instancetype", ""), data.get("markettype", ON_DEMAND)
            node.zone = data.get("availabilityzone", "")


def _omitted_group(record: Mapping[str, Any]) -> str:
    """Return the Auto Scaling group in whose launch CloudTrail has omitted the instances, or an empty string.

    Only Auto Scaling can set the tag.
    """
    is_long = record.get("omitted") or (record.get("responseElements") or {}).get("omitted")
    tags = dict(map(_pair, _objects(record.get("requestParameters"))))
    return str(tags.get("aws:autoscaling:groupName", "")) if is_long else ""


def _template(members: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the ID and the version of the launch template in a call that has created or used it."""
    version = next((members[name] for name in ("latestversionnumber", "versionnumber", "version") if name in members), "")
    return members.get("launchtemplateid"), str(version)


def _members(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of all objects in a request and its answer by their names in lower case, which differ between calls."""
    return {name.lower(): value for each in _objects(_elements(record)) for name, value in each.items()}


def _name_nodes(record: Mapping[str, Any], nodes: Iterable[LifeOfNode], cluster: str) -> None:
    """Set the names of the nodes to which a call of CreateTags has given a number. The newest call comes first, and counts."""
    tags = [{"Key": key, "Value": value} for key, value in map(_pair, _objects(record.get("requestParameters"))) if key and value]
    tagged = {text for _name, text in _texts((record.get("requestParameters") or {}).get("resourcesSet"))}
    for node in nodes:
        if node.instance_id in tagged and not node.name and not record.get("errorCode"):
            node.name = name_of(cluster, node.group, {"Tags": tags})


def _has_tag(record: Mapping[str, Any], key: str, value: str) -> bool:
    """Return whether a request sets a tag. The names of the members differ between services, and in case."""
    return any(_pair(each) == (key, value) for each in _objects(record.get("requestParameters")))


def _pair(item: Mapping[str, Any]) -> tuple[Any, Any]:
    lower = {name.lower(): value for name, value in item.items()}
    return lower.get("key"), lower.get("value")


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(each)


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield all texts in a JSON value, each with the name of the member that contains it."""
    if isinstance(value, str):
        yield name, value
    for key, each in value.items() if isinstance(value, dict) else ((name, each) for each in value) if isinstance(value, list) else ():
        yield from _texts(each, key)
