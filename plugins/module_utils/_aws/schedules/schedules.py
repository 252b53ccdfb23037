# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Schedules of EventBridge Scheduler, with which AWS makes calls for a cluster even if no controller exists any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Mapping

from ..client import AwsClient, ClientError, WaitTimeout, if_exists, tag_list
from ..error_codes import error_code, is_missing

# Seconds until EventBridge Scheduler can use a new role, and until AWS has deleted a former schedule group of the same name.
ROLE_TIMEOUT, GROUP_TIMEOUT = 120, 600


def get_schedule(cloud: AwsClient, group: str, name: str) -> dict[str, Any] | None:
    return if_exists(cloud.scheduler.get_schedule, GroupName=group, Name=name)


def put_schedule(cloud: AwsClient, what: str, schedule: Mapping[str, Any]) -> None:
    """Replace a schedule, or create it. Retry while EventBridge Scheduler cannot use a new role. `what` is for messages."""

    def accepted() -> bool:
        try:
            try:
                cloud.scheduler.update_schedule(**schedule)
            except ClientError as error:
                if not is_missing(error):
                    raise
                cloud.scheduler.create_schedule(**schedule)
        except ClientError as error:
            refusals.append(error)
            # Another request is changing the schedule, the schedule group is new, or the role is new
            if error_code(error) == "ConflictException" or is_missing(error) or "to assume the role" in str(error):
                return False
            raise
        return True

    refusals: list[ClientError] = []
    try:
        cloud.wait_until(f"EventBridge Scheduler to accept the {what}", accepted, ROLE_TIMEOUT, pause=1)
    except WaitTimeout as error:
        raise (refusals[-1] if refusals else error) from error


def ensure_group(cloud: AwsClient, name: str, tags: Mapping[str, str]) -> None:
    """Create the schedule group unless it exists. If a former group is being deleted, wait for it."""

    def exists() -> bool:
        try:
            return bool(cloud.scheduler.get_schedule_group(Name=name)["State"] == "ACTIVE")
        except ClientError as error:
            if not is_missing(error):
                raise
        # Unlike other services, EventBridge Scheduler accepts no empty values
        cloud.scheduler.create_schedule_group(Name=name, Tags=tag_list({key: value for key, value in tags.items() if value}))
        return True

    cloud.wait_until(f"the deletion of the former schedule group {name}", exists, GROUP_TIMEOUT)


def delete_group(cloud: AwsClient, group: str, names: Iterable[str]) -> None:
    """Delete a schedule group. While AWS deletes it, its schedules still make calls, so they are deleted first."""
    delete_schedules(cloud, group, names)
    cloud.once_unused(cloud.scheduler.delete_schedule_group, "ConflictException", Name=group)


def delete_schedules(cloud: AwsClient, group: str, names: Iterable[str]) -> None:
    for name in sorted(names):
        cloud.once_unused(cloud.scheduler.delete_schedule, "ConflictException", GroupName=group, Name=name)
