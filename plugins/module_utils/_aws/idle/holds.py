# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Holds, which keep nodes that look idle. They are tags of the function that looks for idle nodes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Mapping

from ..client import AwsClient, ClusterError
from .function import HOLD, IDLE_SINCE, LONGEST_HOLD, NO_NODES, holds_in, iso, verdict_in

# Such names are shown to people, so they cannot be sentences.
NAME = re.compile(r"[\w.@+-]{1,64}", re.ASCII)


def held(tags: Mapping[str, str], now: datetime) -> dict[str, str]:
    return {name: iso(end) for name, end in holds_in(tags, now).items()}


def hold(
    cloud: AwsClient, function: Mapping[str, Any] | None, name: str, lasts: timedelta, *, missing_ok: bool = False
) -> dict[str, str] | None:
    """Begin, change or end the hold with this name. Return the ends of all holds by name, or None without a function.

    `function` is the answer of GetFunction. In check mode, the hold stays as it is. Raises ClusterError if the name is not allowed, or if
    a hold would keep nothing and not `missing_ok`.
    """
    if lasts > LONGEST_HOLD:
        raise _too_long(cloud.module.params["duration"])
    if not NAME.fullmatch(name):
        raise ClusterError(f"name: {name!r} is no name of a hold. Use up to 64 ASCII letters, digits and _.@+-.")
    if function is None:
        if missing_ok or lasts <= timedelta():
            return None
        raise ClusterError(
            f"cluster: AWS does not end idle nodes of '{cloud.cluster}' in {cloud.region}, so this hold keeps nothing. Correct cluster or "
            "region, or set deeplearning_idle_after and run the playbook provision first."
        )
    cloud.learn_time(function)
    arn, tags, own = function["Configuration"]["FunctionArn"], function.get("Tags", {}), HOLD + name
    if lasts > timedelta():
        _warn_without_nodes(cloud, function, missing_ok)
        new = {own: iso(cloud.now + lasts)}
        if not cloud.module.check_mode:
            cloud.client("lambda").tag_resource(Resource=arn, Tags=new)
        return held({**tags, **new}, cloud.now)
    if own in tags:
        _end(cloud, arn, own)
    elif not missing_ok:
        cloud.module.warn(f"name: there is no hold {name!r}. To see the holds, run the playbook info.")
    return held({key: value for key, value in tags.items() if key != own}, cloud.now)


def _warn_without_nodes(cloud: AwsClient, function: Mapping[str, Any], missing_ok: bool) -> None:
    """Warn if the function has ended the nodes, or has found none for some time. It finds new ones within 5 minutes."""
    tags, verdict = function.get("Tags", {}), verdict_in(function.get("Tags", {}), cloud.now)
    ends = function["Configuration"].get("Environment", {}).get("Variables", {}).get("THEN") == "terminate"
    is_gone = verdict is not None and verdict.state == NO_NODES and cloud.now - verdict.since > timedelta(minutes=10)
    if not missing_ok and (is_gone or (ends and IDLE_SINCE in tags)):
        cloud.module.warn(
            f"cluster: '{cloud.cluster}' in {cloud.region} has no nodes, so this hold keeps nothing. To see why, run the playbook info."
        )


def _too_long(duration: str | None) -> ClusterError:
    option, most = ("seconds", f"{LONGEST_HOLD.total_seconds():.0f}") if duration is None else ("duration", f"{LONGEST_HOLD.days}d")
    return ClusterError(f"{option}: a hold lasts at most {LONGEST_HOLD.days} days. Specify up to {most}.")


def _end(cloud: AwsClient, arn: str, own: str) -> None:
    if not cloud.module.check_mode:
        cloud.client("lambda").untag_resource(Resource=arn, TagKeys=[own])
