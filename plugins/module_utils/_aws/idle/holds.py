# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Holds, which keep nodes that look idle. They are tags of the function that looks for idle nodes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Mapping

from ..client import AwsClient, ClusterError
from ..lease.definition import iso
from .function import HOLD, time_of

# What AWS allows in the keys of tags, which have up to 128 characters.
MOST = timedelta(days=7)
NAME = re.compile(r"[\w .:/=+@-]{1,100}", re.ASCII)


def held(tags: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Return the ends of the holds in the tags of a function, by name."""
    return {key[len(HOLD) :]: end for key, end in tags.items() if key.startswith(HOLD) and time_of(end) > now}


def hold(cloud: AwsClient, function: Mapping[str, Any] | None, name: str, lasts: timedelta) -> dict[str, str] | None:
    """Begin, change or end the hold with this name. Return the ends of all holds by name, or None without a function.

    `function` is the answer of GetFunction. In check mode, the hold stays as it is. Raises ClusterError if AWS does not allow the name.
    """
    if lasts > MOST:
        raise ClusterError(f"seconds: a hold lasts at most {MOST.days} days. Specify up to {MOST.total_seconds():.0f}.")
    if not NAME.fullmatch(name):
        raise ClusterError(f"name: {name!r} is no name of a hold. Use up to 100 ASCII letters, digits, spaces and _.:/=+-@.")
    if function is None:
        return None
    cloud.learn_time(function)
    arn, tags, own = function["Configuration"]["FunctionArn"], function.get("Tags", {}), HOLD + name
    changes = not cloud.module.check_mode
    if lasts > timedelta():
        new = {own: iso(cloud.now + lasts)}
        if changes:
            cloud.client("lambda").tag_resource(Resource=arn, Tags=new)
        return held({**tags, **new}, cloud.now)
    if own in tags and changes:
        cloud.client("lambda").untag_resource(Resource=arn, TagKeys=[own])
    return held({key: value for key, value in tags.items() if key != own}, cloud.now)
