# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for an adopted instance profile and the permissions of its role."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..client import AwsClient, ClientError
from ..component import Request
from ..error_codes import error_code
from ..instance_role.component import nodes_policy
from ..instance_role.definition import INSTANCE_PROFILE
from ..message_parts import P
from ..plan.resources import Found
from ..ssh_authority.parameter import parameter_name
from ..tags import INSTANCE_ROLE_COMPONENT, NODES_COMPONENT
from ..validator import Level, Validator

STATEMENT_KEYS = ("Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition")
SID = re.compile(r"[A-Za-z0-9]*")
ACTION = re.compile(r"\*|[A-Za-z0-9-]+:[A-Za-z0-9*?]+")
RESOURCE = re.compile(r"\*|arn:.+")
# Source: IAM User Guide, "IAM JSON policy elements: Condition operators"
ORDERED = ("Equals", "NotEquals", "LessThan", "LessThanEquals", "GreaterThan", "GreaterThanEquals")
OPERATORS = (
    *(f"String{each}" for each in ("Equals", "NotEquals", "EqualsIgnoreCase", "NotEqualsIgnoreCase", "Like", "NotLike")),
    *(f"Numeric{each}" for each in ORDERED),
    *(f"Date{each}" for each in ORDERED),
    *(f"Arn{each}" for each in ("Equals", "NotEquals", "Like", "NotLike")),
    *("Bool", "BinaryEquals", "IpAddress", "NotIpAddress"),
)
OPERATOR = re.compile(rf"(?:ForAllValues:|ForAnyValue:)?(?:(?:{'|'.join(OPERATORS)})(?:IfExists)?|Null)")
# The options that add statements to the policy of the nodes' role.
STATEMENT_OPTIONS = ("additional_policy_statements", "read_buckets", "write_buckets", "export_destinations")
LONGEST_POLICY = 10240  # IAM's limit for the inline policies of a role, without white space
DENIED = ("AccessDenied", "AccessDeniedException")
SERVICE_KEY = "alias/aws/ssm"
# AWS managed policies that allow reading all parameters.
READING_POLICIES = (
    "AdministratorAccess",
    "AmazonEC2RoleforSSM",
    "AmazonSSMFullAccess",
    "AmazonSSMManagedInstanceCore",
    "AmazonSSMReadOnlyAccess",
)


class InstanceProfile(Validator):
    name = "instance_profile"
    components = frozenset({INSTANCE_ROLE_COMPONENT, NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        name = request.options["instance_profile"]
        if not name:
            return
        profile = next((item for item in found if item.address == INSTANCE_PROFILE), None)
        if not profile:
            yield (
                f"{P}instance_profile: there is no instance profile '{name}'. Specify another profile, or remove the option to create one."
            )
        elif not profile.properties["role"]:
            yield (
                f"{P}instance_profile: {name} contains no role, so nodes would have no permissions. Add a role, or specify another profile."
            )


class IgnoredRights(Validator):
    name = "ignored_rights"
    level = Level.WARNING
    components = frozenset({INSTANCE_ROLE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        names = ("read_buckets", "write_buckets", "export_destinations", "additional_policy_statements", "session_manager")
        ignored = [f"{P}{name}" for name in names if options[name]]
        if options["instance_profile"] and ignored:
            yield (
                f"{P}instance_profile: this collection does not change {options['instance_profile']}, "
                f"so these options have no effect: {', '.join(ignored)}. "
                "Check that the role of the profile allows this access."
            )


class PolicyStatements(Validator):
    """Checks the statements that the definition adds to the policy of the nodes' role, and the size of the policy."""

    name = "policy_statements"
    components = frozenset({INSTANCE_ROLE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        if not options["instance_profile"]:
            yield from check_statements(options["additional_policy_statements"])
            yield from check_policy(nodes_policy(request, found), [name for name in STATEMENT_OPTIONS if options[name]])


def check_statements(statements: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number, statement in enumerate(statements, 1):
        for problem in _problems(statement):
            yield f"{P}additional_policy_statements: statement {number}: {problem}"


def _problems(statement: Mapping[str, Any]) -> Iterator[str]:
    unknown = [str(key) for key in statement if key not in STATEMENT_KEYS]
    if unknown:
        yield f"{', '.join(unknown)} is not valid in the policy of a role. Use only {', '.join(STATEMENT_KEYS)}."
    if statement.get("Effect") not in ("Allow", "Deny"):
        yield f"Effect is {statement.get('Effect')!r}. Use Allow or Deny."
    if not SID.fullmatch(str(statement.get("Sid", ""))):
        yield f"Sid {statement['Sid']!r} is not valid. Use letters and digits."
    yield from _problems_of_condition(statement.get("Condition", {}))
    yield from _problems_of_values(statement, "Action", ACTION, "s3:GetObject")
    yield from _problems_of_values(statement, "Resource", RESOURCE, "arn:aws:s3:::my-bucket/*")


def _problems_of_values(statement: Mapping[str, Any], key: str, pattern: re.Pattern[str], example: str) -> Iterator[str]:
    given = [name for name in (key, f"Not{key}") if name in statement]
    if len(given) != 1:
        yield f"{' and '.join(given) or key} {'exclude each other' if given else 'is missing'}. Specify either {key} or Not{key}."
        return
    values = statement[given[0]]
    wrong = [value for value in (values if isinstance(values, list) else [values]) if not pattern.fullmatch(str(value))]
    if wrong or values == []:
        shown = f"{wrong[0]!r} is not valid" if wrong else "is empty"
        yield f"{given[0]} {shown}. Specify a value such as {example}, or a list."


def _problems_of_condition(condition: Any) -> Iterator[str]:
    if not isinstance(condition, Mapping):
        yield "Condition is not a dictionary. Specify operators, such as StringEquals, and their keys and values."
        return
    for operator, values in condition.items():
        if not OPERATOR.fullmatch(str(operator)):
            yield f"{operator!r} is not a condition operator. Use an operator such as StringEquals or ForAnyValue:StringLike."
        elif not isinstance(values, Mapping):
            yield f"{operator} in Condition is not a dictionary. Specify the keys and their values."


def check_policy(policy: Mapping[str, Any], options: Sequence[str]) -> Iterator[str]:
    """Check that the policy does not exceed IAM's size limit, and that each Sid occurs only once.

    `options` contains the names of the options to which the policy owes its statements.
    """
    sids = [statement["Sid"] for statement in policy["Statement"] if statement.get("Sid")]
    for sid in sorted({sid for sid in sids if sids.count(sid) > 1}):
        yield f"{P}additional_policy_statements: the Sid '{sid}' occurs twice in the policy of the role. Choose another Sid."
    size = len(json.dumps(policy, separators=(",", ":")))
    if size > LONGEST_POLICY:
        yield (
            f"{', '.join(f'{P}{name}' for name in options)}: the policy of the role would have {size} characters, but IAM allows "
            f"{LONGEST_POLICY}. Combine statements or buckets, or use your own role with {P}instance_profile."
        )


class AuthorityReadable(Validator):
    """Warns if training scripts can read the private key of the SSH certificate authority.

    The cluster's own role denies access to the private key, but an adopted role may allow such access. The validator simulates the role's
    policies. Service control policies and the policy of a KMS key may restrict access further. Without permission to simulate policies, the
    validator checks the names of the attached policies. Without permission to list the attached policies, the validator reports nothing.
    """

    name = "authority_readable"
    level = Level.WARNING
    components = frozenset({INSTANCE_ROLE_COMPONENT, NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, name = request.cloud, request.options["instance_profile"]
        profile = next((item for item in found if item.address == INSTANCE_PROFILE and item.adopted), None)
        role = profile.attributes["role_arn"] if profile and name else None
        if role and _reads_authority(cloud, role):
            parameter = parameter_name(cloud.cluster)
            yield (
                f"{P}instance_profile: the role of {name} is allowed to read {parameter}. "
                "A training script could therefore sign certificates for every node. "
                f"Deny the role ssm:GetParameter* on parameter/deeplearning/*, or set ssh_trust_create_kms_key: true."
            )


def _reads_authority(cloud: AwsClient, role: str) -> bool:
    partition, account, role_name = role.split(":")[1], role.split(":")[4], role.rpartition("/")[2]
    parameter = f"arn:{partition}:ssm:{cloud.region}:{account}:parameter{parameter_name(cloud.cluster)}"
    try:
        if not is_allowed(cloud, role, "ssm:GetParameter", parameter):
            return False
        key = _authority_key(cloud)
        return key in ("", SERVICE_KEY) or is_allowed(cloud, role, "kms:Decrypt", key if key.startswith("arn:") else "*")
    except ClientError as error:
        if error_code(error) not in DENIED:
            raise
    try:
        attached = cloud.retrieve("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=role_name)
        return any(item["PolicyName"] in READING_POLICIES for item in attached) and _authority_key(cloud) in ("", SERVICE_KEY)
    except ClientError as error:
        if error_code(error) not in DENIED:
            raise
        return False


def is_allowed(cloud: AwsClient, role: str, action: str, resource: str) -> bool:
    results = cloud.iam.simulate_principal_policy(PolicySourceArn=role, ActionNames=[action], ResourceArns=[resource])
    return any(item["EvalDecision"] == "allowed" for item in results["EvaluationResults"])


def _authority_key(cloud: AwsClient) -> str:
    """Return the KMS key that encrypts the SSH certificate authority's parameter, or an empty string if there is no parameter yet."""
    names = {"Key": "Name", "Values": [parameter_name(cloud.cluster)]}
    described = cloud.retrieve("ssm", "describe_parameters", "Parameters", ParameterFilters=[names])
    return next((str(item.get("KeyId", "")) for item in described), "")
