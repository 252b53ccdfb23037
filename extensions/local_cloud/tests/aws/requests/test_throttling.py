"""EC2 throttles requests that come too fast."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import Control

from ..conftest import Account


def test_many_requests_for_consoles_are_throttled(account: Account, control: Control) -> None:
    identifier = account.run(account.subnets()[0])[0]["InstanceId"]

    def read(times: int) -> None:
        for _each in range(times):
            account.ec2.get_console_output(InstanceId=identifier)

    control.advance(5)
    for allowed in (100, 40):
        read(allowed)
        with pytest.raises(ClientError, match="RequestLimitExceeded") as refusal:
            read(5000)
        assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        control.advance(2)
