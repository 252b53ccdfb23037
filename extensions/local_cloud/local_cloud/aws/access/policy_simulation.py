"""IAM policy simulation for roles, which moto lacks. Policies are evaluated in the same way as for requests.

Condition keys and resource policies of a simulation request are ignored.
"""

from __future__ import annotations

from moto.core.responses import ActionResult
from moto.iam.responses import IamResponse

from ..override import override
from ..policies import Permission, decide
from .caller_policies import policies
from .identities import Identity


@override(IamResponse)
def simulate_principal_policy(self: IamResponse) -> ActionResult:
    """Evaluate each action on each resource. Raises `NoSuchEntity` for an unknown role."""
    source = self._get_param("PolicySourceArn")
    role = self.backend.get_role(source.rpartition("/")[2])
    documents, boundary = policies(Identity("", source, role=role.name))
    results = [
        {
            "EvalActionName": action,
            "EvalResourceName": resource,
            "EvalDecision": decide(documents, Permission(action, resource), boundary).effect.value,
            "MatchedStatements": [],
            "MissingContextValues": [],
        }
        for action in self._get_param("ActionNames")
        for resource in self._get_param("ResourceArns", ["*"])
    ]
    return ActionResult({"EvaluationResults": results, "IsTruncated": False})
