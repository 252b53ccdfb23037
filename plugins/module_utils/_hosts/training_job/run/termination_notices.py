# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads when AWS will terminate this host: the interruption notice of a Spot Instance, the end of a Capacity Block or of a lease.

The supervisor reads the notice of a Spot Instance from the instance metadata service (IMDSv2). A Capacity Block has no such notice: EC2
begins to terminate its instances 30 minutes before the block ends, and the inventory knows when that is. The end of the lease is in a file,
because runs of the controller prolong the lease while the job is running.
"""

from __future__ import annotations

import calendar
import contextlib
import http.client
import json
import sys
import threading
import time
from http import HTTPStatus
from typing import Callable

from ...._job.documents import CauseRecord
from ...._job.failure_causes import ANNOUNCED_BEFORE, CAPACITY_BLOCK_END, LEASE_END, SPOT_INTERRUPTION

# The instance metadata service. No option and no environment variable changes the address, so a job cannot invent notices for other jobs.
ADDRESS, PORT = "169.254.169.254", 80
LIFE_CYCLE = "instance-life-cycle"
ACTION = "spot/instance-action"
REBALANCE = "events/recommendations/rebalance"
TOKEN_SECONDS = 21600
ANSWER_LIMIT = 1 << 12

# Seconds between two polls. AWS recommends to poll at least every 5 s. With this interval, all processes get SIGTERM within 7 s of the
# notice.
INTERVAL = 3.0

# Number of polls between two checks for a rebalance recommendation, which only the unit's log shows.
REBALANCE_POLLS = 20

# Time limit in seconds for one request. The service runs on the host's own hardware.
TIMEOUT = 1.0

# Number of consecutive failed requests after which a host counts as a host without the service, unless it is known to be a Spot Instance.
ATTEMPTS = 3

# Seconds between the notice and the interruption, if the notice does not contain a valid time.
SPOT_SECONDS = 120.0

# EC2 begins to terminate the instances of a Capacity Block 30 minutes before the block ends. ANNOUNCED_BEFORE that, EC2 emits an event, and
# supervisors end the attempt. Source: "Monitor Capacity Blocks using EventBridge" in the user guide of EC2.
TERMINATED_BEFORE_END = 1800.0

# The file with the end of the lease, such as 2026-12-01T18:00:00Z. The playbooks write it.
LEASE = "/var/lib/deeplearning-lease"

# Of the time until the host is terminated, the last seconds are for the decision about the next attempt and for the records.
RESERVE = 15.0

# The minimum and maximum time in seconds for saving a checkpoint. The maximum limits the effect of a forged notice.
SAVE_MIN, SAVE_MAX = 5.0, ANNOUNCED_BEFORE

ERRORS = (OSError, http.client.HTTPException, ValueError)


class MetadataService:
    """A client of the instance metadata service, version 2."""

    def __init__(self) -> None:
        self._token = ""

    def read(self, item: str) -> str | None:
        """Return an item of the metadata, or None if there is no such item. Raises one of ERRORS."""
        for _try in range(2):
            self._token = self._token or self._request(
                "PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
            )
            try:
                return self._request("GET", f"/latest/meta-data/{item}", {"X-aws-ec2-metadata-token": self._token})
            except FileNotFoundError:
                return None
            except PermissionError:
                self._token = ""  # the token has expired
        raise OSError("the instance metadata service rejects its own token")

    @staticmethod
    def _request(method: str, path: str, headers: dict[str, str]) -> str:
        with contextlib.closing(http.client.HTTPConnection(ADDRESS, PORT, timeout=TIMEOUT)) as connection:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            text = answer.read(ANSWER_LIMIT).decode()
        if answer.status == HTTPStatus.NOT_FOUND:
            raise FileNotFoundError(path)
        if answer.status == HTTPStatus.UNAUTHORIZED and method == "GET":
            raise PermissionError(path)
        if answer.status != HTTPStatus.OK:
            raise OSError(f"{path}: status {answer.status}")
        return text


class Notices:
    """A thread that calls `tell` with the notice, if AWS announces that it will terminate this host. The notice is the cause to record.

    `capacity_end` is the time at which the host's Capacity Block ends, in seconds since 1970, or 0.
    """

    def __init__(self, tell: Callable[[CauseRecord], None], capacity_end: float) -> None:
        self._tell = tell
        self._ends = capacity_end - TERMINATED_BEFORE_END if capacity_end else 0.0
        self._service: MetadataService | None = MetadataService()
        self._is_spot = False
        self._is_recommended = False
        self._silent = 0
        self._polls = 0

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            notice = self.poll()
            if notice:
                self._tell(notice)
                return
            time.sleep(INTERVAL)

    def poll(self) -> CauseRecord | None:
        if self._ends and time.time() >= self._ends - ANNOUNCED_BEFORE:
            return {"kind": CAPACITY_BLOCK_END, "deadline": self._ends}
        end = lease_end()
        if end and time.time() >= end - ANNOUNCED_BEFORE:
            return {"kind": LEASE_END, "deadline": end}
        if self._service is None:
            return None
        try:
            self._is_spot = self._is_spot or self._service.read(LIFE_CYCLE) == "spot"
            if not self._is_spot:
                self._service = None
                return None
            return self._poll_spot(self._service)
        except ERRORS:
            self._silent += 1
            if not self._is_spot and self._silent >= ATTEMPTS:
                self._service = None
            return None

    def _poll_spot(self, service: MetadataService) -> CauseRecord | None:
        found = service.read(ACTION)
        if found is not None:
            return {"kind": SPOT_INTERRUPTION, "deadline": action_time(found, time.time())}
        self._polls += 1
        if not self._is_recommended and self._polls % REBALANCE_POLLS == 1 and service.read(REBALANCE) is not None:
            self._is_recommended = True
            sys.stderr.write("AWS recommends to replace this Spot Instance, because its risk of interruption is elevated\n")
        return None


def lease_end() -> float:
    """Return when the lease of the nodes ends, in seconds since 1970. Return 0 without a lease."""
    try:
        with open(LEASE, encoding="utf-8") as file:
            return _seconds(file.read(ANSWER_LIMIT).strip())
    except (OSError, ValueError):
        return 0.0


def _seconds(text: str) -> float:
    return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))


def action_time(text: str, now: float) -> float:
    """Return the time in a notice such as `{"action": "terminate", "time": "2026-11-25T10:15:02Z"}`, in seconds since 1970."""
    try:
        return _seconds(json.loads(text)["time"])
    except (ValueError, KeyError, TypeError):
        return now + SPOT_SECONDS


def time_to_save(deadline: float, now: float) -> float:
    """Return the seconds that a process has between SIGTERM and SIGKILL to save a checkpoint."""
    return min(max(deadline - now - RESERVE, SAVE_MIN), SAVE_MAX)
