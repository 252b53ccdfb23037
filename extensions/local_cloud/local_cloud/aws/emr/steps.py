"""Steps of clusters. The steps run one after the other and take time. The programs of the steps are not executed.

A step fails only if its program is an S3 object that does not exist.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from moto.emr.utils import random_id

from ..context import CLOUD
from .objects import is_missing

# The maximum number of steps that are pending or running.
MOST_ACTIVE = 256
ACTIVE = ("PENDING", "RUNNING")


class Step:
    """The request and the state of a step."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.id = f"s-{random_id()}"
        self.request = request
        self.state = "PENDING"
        self.failure: dict[str, str] | None = None
        self.created: datetime = CLOUD.utcnow()
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.ends_at = 0.0

    @property
    def action_on_failure(self) -> str:
        return str(self.request.get("ActionOnFailure") or "TERMINATE_CLUSTER").replace("JOB_FLOW", "CLUSTER")

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    def start(self, seconds: float) -> None:
        self.state, self.started, self.ends_at = "RUNNING", CLOUD.utcnow(), time.time() + seconds

    def end(self, account: str) -> None:
        """Complete the step. The step fails if its program is an S3 object that does not exist."""
        jar = str(self.request["HadoopJarStep"]["Jar"])
        self.state, self.ended = "COMPLETED", CLOUD.utcnow()
        if is_missing(account, jar):
            self.state = "FAILED"
            self.failure = {"Reason": "Unable to download the program of the step.", "Message": f"{jar} does not exist"}

    def cancel(self) -> None:
        if self.is_active:
            self.state, self.ended = "CANCELLED", CLOUD.utcnow()

    def describe(self) -> dict[str, Any]:
        jar = self.request["HadoopJarStep"]
        properties = {each["Key"]: each["Value"] for each in jar.get("Properties", [])}
        return {
            "Id": self.id,
            "Name": self.request["Name"],
            "Config": {"Jar": jar["Jar"], "Properties": properties, "MainClass": jar.get("MainClass"), "Args": jar.get("Args", [])},
            "ActionOnFailure": self.action_on_failure,
            "Status": {
                "State": self.state,
                "StateChangeReason": {},
                "FailureDetails": self.failure,
                "Timeline": {"CreationDateTime": self.created, "StartDateTime": self.started, "EndDateTime": self.ended},
            },
        }
