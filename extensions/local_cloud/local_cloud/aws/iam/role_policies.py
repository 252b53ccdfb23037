"""The size limit of a role's inline policies, which moto lacks."""

from __future__ import annotations

import re

from moto.iam.exceptions import LimitExceededException
from moto.iam.models import IAMBackend

from ..override import override

# The sum over all inline policies of a role, without white space. Source: IAM User Guide, "IAM and AWS STS quotas".
LONGEST = 10240

moto_put_role_policy = IAMBackend.put_role_policy


@override(IAMBackend)
def put_role_policy(self: IAMBackend, role_name: str, policy_name: str, policy_json: str) -> None:
    """Write a policy. Raises `LimitExceeded` if the role's policies are too long."""
    policies = {**self.get_role(role_name).policies, policy_name: policy_json}
    if sum(len(re.sub(r"\s", "", each)) for each in policies.values()) > LONGEST:
        raise LimitExceededException(f"Maximum policy size of {LONGEST} bytes exceeded for role {role_name}")
    moto_put_role_policy(self, role_name, policy_name, policy_json)
