"""The API of CloudTrail's event history, which moto lacks.

Source: AWS CloudTrail API Reference, LookupEvents.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from moto.cloudtrail.responses import CloudTrailResponse
from moto.core.exceptions import JsonRESTError

from ..context import CLOUD
from ..override import override
from .events import Entry, describe, resources, visible

PAGE = 50
RATE_PERIOD = 1.0  # seconds
# How each attribute selects events.
SELECTS: dict[str, Callable[[Entry, str], bool]] = {
    "AccessKeyId": lambda entry, value: entry.access_key == value,
    "EventId": lambda entry, value: entry.id == value,
    "EventName": lambda entry, value: entry.action == value,
    "EventSource": lambda entry, value: entry.source == value,
    "ReadOnly": lambda entry, value: entry.read_only == (value.lower() == "true"),
    "ResourceName": lambda entry, value: value in [name for _kind, name in resources(entry)],
    "ResourceType": lambda entry, value: value in [kind for kind, _name in resources(entry)],
    "Username": lambda entry, value: entry.username == value,
}


@override(CloudTrailResponse)
def lookup_events(self: CloudTrailResponse) -> str:
    """Return a page of the account's events in a region, newest first. A token belongs to the parameters of its request."""
    _limit_rate()
    request = json.loads(self.body or "{}")
    _check(request)
    asked = json.dumps({name: value for name, value in request.items() if name not in ("MaxResults", "NextToken")}, sort_keys=True)
    after = _after(request.get("NextToken"), asked)
    found = (entry for entry in visible(self.current_account, self.region) if _matches(entry, request))
    page = list(islice(_rest(found, after), (request.get("MaxResults") or PAGE) + 1))
    shown = page[: request.get("MaxResults") or PAGE]
    more = {"NextToken": base64.b64encode(json.dumps([asked, shown[-1].id]).encode()).decode()} if len(page) > len(shown) else {}
    return json.dumps({"Events": [describe(entry) for entry in shown], **more})


def _check(request: Mapping[str, Any]) -> None:
    if len(request.get("LookupAttributes") or []) > 1:
        raise _error("InvalidLookupAttributesException", "You can specify only one lookup attribute.")
    if request.get("EventCategory"):
        raise _error("InvalidEventCategoryException", "The local cloud has no Insights events.")
    if request.get("StartTime", 0) > request.get("EndTime", float("inf")):
        raise _error("InvalidTimeRangeException", "The start time is after the end time.")


def _matches(entry: Entry, request: Mapping[str, Any]) -> bool:
    if not request.get("StartTime", 0) <= entry.time < request.get("EndTime", float("inf")) + 1:
        return False
    return all(SELECTS[each["AttributeKey"]](entry, each["AttributeValue"]) for each in request.get("LookupAttributes") or [])


def _rest(found: Any, after: str) -> Any:
    """Return the entries after that with an ID, so that new events do not shift pages."""
    if after:
        for entry in found:
            if entry.id == after:
                break
    return found


def _after(token: str | None, asked: str) -> str:
    try:
        of, after = json.loads(base64.b64decode(token, validate=True)) if token else (asked, "")
    except ValueError:
        of, after = "", ""
    if of != asked:
        raise _error("InvalidNextTokenException", "The token is not valid, or belongs to other parameters.")
    return str(after)


def _limit_rate() -> None:
    """Raise a throttling error for more look-ups per second than the test allows. AWS allows two, per account and region."""
    if CLOUD.lookup_rate is None:
        return
    now = CLOUD.clock.now()
    CLOUD.lookups[:] = [each for each in CLOUD.lookups if now - RATE_PERIOD < each]
    if len(CLOUD.lookups) >= CLOUD.lookup_rate:
        raise _error("ThrottlingException", "Rate exceeded")
    CLOUD.lookups.append(now)


def _error(code: str, message: str) -> JsonRESTError:
    return JsonRESTError(code, message)
