# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The connection to AWS that all controller modules share. The only importer of amazon.aws."""

from __future__ import annotations

import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn, TypeVar

try:
    import boto3
    import botocore.exceptions
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:
    BotoCoreError = ClientError = Exception  # AnsibleAWSModule reports it

from ansible_collections.amazon.aws.plugins.module_utils import modules
from ansible_collections.amazon.aws.plugins.module_utils.botocore import boto3_at_least, botocore_at_least, get_aws_connection_info
from ansible_collections.amazon.aws.plugins.module_utils.retries import AWSRetry
from ansible_collections.amazon.aws.plugins.module_utils.tagging import ansible_dict_to_boto3_tag_list, boto3_tag_list_to_ansible_dict
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.regions import valid_region
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.tags import CLUSTER_TAG, COMPONENT_TAG, IMAGE_TAG, KEY_TAG

# A new resource is not seen everywhere at once: calls that name it may answer so for a while.
NOT_YET_VISIBLE = (
    "InvalidAllocationID.NotFound",
    "InvalidGatewayID.NotFound",
    "InvalidGroup.NotFound",
    "InvalidGroupId.Malformed",
    "InvalidInternetGatewayID.NotFound",
    "InvalidLaunchTemplateId.NotFound",
    "InvalidNatGatewayID.NotFound",
    "InvalidRouteTableID.NotFound",
    "InvalidRouteTableId.NotFound",
    "InvalidSecurityGroupID.NotFound",
    "InvalidSubnetID.NotFound",
    "InvalidVpcID.NotFound",
    "InvalidVpcEndpointId.NotFound",
    "NatGatewayNotFound",
    "NoSuchEntity",
    "SubnetNotFound",
)
# What AWS answers while something that uses a resource is still going away.
IN_USE = (
    "DeleteConflict",
    "DependencyViolation",
    "FileSystemInUse",
    "InvalidPlacementGroup.InUse",
    "InvalidIPAddress.InUse",
    "ResourceInUse",
    "ScalingActivityInProgress",
)
# What AWS answers to bad credentials, and to good ones in a region that the account has not opted in to.
NOT_LET_IN = ("AuthFailure", "InvalidClientTokenId", "OptInRequired", "UnrecognizedClientException")

# What AWS answers to too many calls: it did nothing.
THROTTLED = ("RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException", "TooManyRequestsException")
# What it answers to a call whose like was done before, perhaps by ourselves, with the answer lost.
DONE_BEFORE = (
    "AccessPointAlreadyExists",
    "AlreadyExists",
    "AlreadyExistsFault",
    "EntityAlreadyExists",
    "Gateway.NotAttached",
    "InvalidGroup.Duplicate",
    "InvalidPermission.Duplicate",
    "InvalidPlacementGroup.Duplicate",
    "InvalidSubnet.Conflict",
    "LimitExceeded",  # of roles in an instance profile
    "MountTargetConflict",
    "Resource.AlreadyAssociated",
    "RouteAlreadyExists",
)
# What AWS answers to calls that no policy allows, and for a while to calls that name something new, which IAM does not know yet.
DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
DENIED_TIMEOUT = 60  # seconds
CREATE_ATTEMPTS = 10
RESOURCE_ID = re.compile(r"[a-z]+-[0-9a-f]{8,}")
PROGRESS_INTERVAL = 30  # seconds

# The first that tells which network cards take which interfaces; older ones also lack parameters of S3 buckets and route tables
LEAST_SDK = "1.44.0"

T = TypeVar("T")


class ClusterError(Exception):
    """Something that the user can put right, said in one sentence."""


# What an API call can end with.
SDK_ERRORS = (BotoCoreError, ClientError)


class WaitTimeout(ClusterError):
    """A resource did not get ready in time."""


def sdk_problem() -> str | None:
    """Return what is wrong with the versions of boto3 and botocore that this Python has, or nothing. Both have to be installed."""
    if boto3_at_least(LEAST_SDK) and botocore_at_least(LEAST_SDK):
        return None
    return (
        f"boto3 {boto3.__version__} and botocore {botocore.__version__} of {sys.executable} are too old, deeplearning.cluster needs "
        f"{LEAST_SDK} or newer of both. Upgrade them: {sys.executable} -m pip install --upgrade 'boto3>={LEAST_SDK}'"
    )


class AnsibleAWSModule(modules.AnsibleAWSModule):
    """A module of amazon.aws that refuses an SDK which does not know what the collection asks AWS."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        problem = sdk_problem()
        if problem:
            self.fail_json(msg=problem)


class Interrupted(ClusterError):
    """Ansible is to end before AWS is as described."""


class AwsClient:
    """One cluster in one region: its clients, its tags, its patience.

    Clients are made on first use and shared by all threads; botocore retries throttled and failed calls. All come from one
    session, so that a profile's role is assumed once and not once per service.
    """

    def __init__(self, module: AnsibleAWSModule, cluster: str, *, wait_timeout: int = 900, tags: Mapping[str, str] | None = None) -> None:
        self.module, self.cluster, self.wait_timeout = module, cluster, wait_timeout
        self.run_id = secrets.token_hex(8)
        self._extra_tags = dict(tags or {})
        self._clients: dict[str, Any] = {}
        self._facts: dict[str, list[Any]] = {}
        self._fact_locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._told_once: set[str] = set()
        self.interruption = threading.Event()
        self.created: set[str] = set()  # what IAM may not know yet
        self._progress_file, self._told, self._told_at = module.params.get("progress_file"), "", 0.0
        region, self._endpoint, self._connection = get_aws_connection_info(module)
        try:
            self.region = valid_region(region)
        except ValueError as error:
            raise ClusterError(str(error)) from error
        self._session = boto3.session.Session(profile_name=self._connection.pop("profile_name", None))
        own = Config(user_agent_extra="deeplearning.cluster", retries={"mode": "standard", "max_attempts": 10}, max_pool_connections=32)
        self._config = own.merge(self._connection.pop("aws_config", Config()))

    def client(self, service: str) -> Any:
        return self._client(service, self._config)

    def _client(self, service: str, config: Any, purpose: str = "") -> Any:
        name = service + purpose
        with self._lock:
            if name not in self._clients:
                self._clients[name] = self._connect(service, config)
            return self._clients[name]

    def _connect(self, service: str, config: Any) -> Any:
        try:
            return self._session.client(service, region_name=self.region, endpoint_url=self._endpoint, config=config, **self._connection)
        except ValueError as error:
            raise ClusterError(f"Cannot connect to {service}: {error}. Is endpoint_url right?") from error

    @property
    def ec2(self) -> Any:
        return self.client("ec2")

    @property
    def efs(self) -> Any:
        return self.client("efs")

    @property
    def iam(self) -> Any:
        return self.client("iam")

    @property
    def autoscaling(self) -> Any:
        return self.client("autoscaling")

    @property
    def s3(self) -> Any:
        return self.client("s3")

    @property
    def ssm(self) -> Any:
        return self.client("ssm")

    # Tags: the only state

    def tags(self, component: str, key: str, name: str) -> dict[str, str]:
        """The tags of a resource of this cluster, the user's own included."""
        own = {CLUSTER_TAG: self.cluster, COMPONENT_TAG: component, KEY_TAG: key, "Name": name}
        return {**self._extra_tags, **own}

    def comparable_tags(self, tag_list: Iterable[Mapping[str, str]]) -> dict[str, str]:
        """Those tags of a resource that the definition speaks about; tags that others have put on it are theirs."""
        own = {CLUSTER_TAG, COMPONENT_TAG, KEY_TAG, IMAGE_TAG, "Name", *self._extra_tags}
        return {name: value for name, value in tag_dict(tag_list).items() if name in own}

    def filters(self, *more: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """EC2 filters for everything that is tagged as this cluster's."""
        return [{"Name": f"tag:{CLUSTER_TAG}", "Values": [self.cluster]}, *more]

    def progress(self, what: str, elapsed: float = 0.0, *, once: bool = False) -> None:
        """Tells whoever watches the module how far it is: when that has changed, and every half minute all the same.

        What has to be said C(once) is not said again by this run.
        """
        now = time.monotonic()
        if once and what in self._told_once:
            return
        self._told_once |= {what} if once else set()
        if not self._progress_file or (what == self._told and now < self._told_at + PROGRESS_INTERVAL):
            return
        self._told, self._told_at = what, now
        with open(self._progress_file, "a", encoding="utf-8") as file:
            file.write(f"{what}, {elapsed:.0f} s\n" if elapsed else f"{what}\n")

    # Reading, retrying, waiting

    def retrieve(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """All items of a describe or list call, over all its pages."""
        client = self.client(service)
        if client.can_paginate(operation):
            return list(client.get_paginator(operation).paginate(**arguments).build_full_result().get(key, []))
        return list(getattr(client, operation)(**arguments).get(key, []))

    def facts(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Like C(retrieve), asked once: for what this run does not change, such as instance types, images, quotas and what is adopted.

        Threads that ask at the same time share the answer.
        """
        name = f"{service} {operation} {sorted(arguments.items())}"
        with self._lock:
            lock = self._fact_locks.setdefault(name, threading.Lock())
        with lock:
            if name not in self._facts:
                self._facts[name] = self.retrieve(service, operation, key, **arguments)
            return self._facts[name]

    def once_visible(self, call: Callable[..., T], *more_codes: str, **arguments: Any) -> T:
        """Makes a call that names something made a moment ago, again while AWS says that it does not exist.

        Where permissions go by tags, AWS denies it in place of that: C(once_allowed) is for what this run has made.
        """
        retry = AWSRetry.jittered_backoff(retries=12, delay=1, max_delay=10, catch_extra_error_codes=[*NOT_YET_VISIBLE, *more_codes])
        complete = partial(retry(call), **arguments)
        return self.once_allowed(complete) if self.created & ids(arguments) else complete()

    def once_allowed(self, call: Callable[[], T]) -> T:
        """Makes a call that names something which this run has made a moment ago, again while AWS denies it, for a minute.

        IAM learns of new roles, policies and tags that late. A call that names nothing new is denied for good, and is not for this.
        """
        denials: list[Exception] = []

        def answer() -> tuple[T] | None:
            try:
                return (call(),)
            except ClientError as error:
                if error_code(error) not in DENIED:
                    raise
                denials.append(error)
                return None

        try:
            return self.wait_until("Permission", answer, DENIED_TIMEOUT, pause=1)[0]
        except WaitTimeout as error:
            raise denials[-1] from error

    def create(self, service: str, operation: str, *more_codes: str, **arguments: Any) -> dict[str, Any]:
        """Makes a create call for which AWS has no client token: again only as long as AWS says that it did not do it.

        After an error that leaves that open, a second call could make a second resource: such an error is raised, for the caller to
        look first (see C(worth_another_look)). C(more_codes) are those of C(once_visible).
        """
        once = self._config.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))
        call = getattr(self._client(service, once, purpose=" once"), operation)
        not_done = (*THROTTLED, *NOT_YET_VISIBLE, *more_codes)
        for attempt in range(1, CREATE_ATTEMPTS):
            try:
                return self._remember(call(**arguments), arguments)
            except ClientError as error:
                if error_code(error) not in not_done:
                    raise
            self.pause(min(0.1 * 2**attempt, 10))
        return self._remember(call(**arguments), arguments)

    def _remember(self, answer: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Remember what has just been made, and not what it was made of."""
        self.created |= ids(answer) - ids(arguments)
        return dict(answer)

    def once_unused(self, call: Callable[..., T], *more_codes: str, **arguments: Any) -> T | None:
        """Makes a delete call, again while AWS says that something still uses the resource; gone already is fine.

        C(more_codes) are further error codes by which AWS says so of this resource.
        """
        retry = AWSRetry.jittered_backoff(retries=40, delay=1, max_delay=10, catch_extra_error_codes=[*IN_USE, *more_codes])
        try:
            return retry(call)(**arguments)
        except ClientError as error:
            if is_missing(error):
                return None
            raise

    def wait_until(self, what: str, probe: Callable[[], T | None], timeout: float | None = None, *, pause: float = 0.1) -> T:
        """IamActions C(probe) at growing intervals until it returns something; raises WaitTimeout after C(timeout) seconds.

        C(pause) is the first interval in seconds, longer for what takes minutes and asks AWS a lot each time.
        """
        deadline = time.monotonic() + (self.wait_timeout if timeout is None else timeout)
        while True:
            result = probe()
            if result:
                return result
            if time.monotonic() + pause > deadline:
                raise WaitTimeout(f"{what}: not ready after {self.wait_timeout if timeout is None else timeout:g} s.")
            self.pause(pause)
            pause = min(pause * 1.5, 10)

    def pause(self, seconds: float) -> None:
        """Sleep; raise Interrupted when Ansible is to end."""
        if self.interruption.wait(seconds):
            raise Interrupted("Interrupted.")


def ids(value: Any) -> set[str]:
    """The ids of resources, such as C(subnet-0123456789abcdef0), that a request or an answer of AWS has."""
    if isinstance(value, str):
        return {value} if RESOURCE_ID.fullmatch(value) else set()
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return set().union(*map(ids, parts))


def error_code(error: BaseException) -> str:
    """The error code that AWS gave, or an empty text."""
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))


def worth_another_look(error: BaseException) -> bool:
    """Whether AWS may be in another state than the call supposed: it broke down, the answer was lost, or it was done before."""
    if isinstance(error, botocore.exceptions.HTTPClientError):
        return True
    status = getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    broken = status >= 500 and error_code(error) not in THROTTLED
    return bool(broken or error_code(error) in DONE_BEFORE or is_missing(error))


def is_missing(error: BaseException) -> bool:
    """Whether AWS says that what a call names does not exist."""
    code = error_code(error)
    return (
        code in ("NoSuchEntity", "InvalidPlacementGroup.Unknown")
        or code.endswith(("NotFound", "NotFoundException"))
        or (code == "ValidationError" and "AutoScalingGroup name not found" in str(error))
    )


def tag_dict(tag_list: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Tags as AWS lists them, as a dictionary."""
    return dict(boto3_tag_list_to_ansible_dict(list(tag_list)))


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as AWS wants them."""
    return list(ansible_dict_to_boto3_tag_list(dict(tags)))


def together(functions: Iterable[Callable[[], Iterable[Found]]]) -> list[Found]:
    """IamActions all functions at once and returns everything they found; refuses two resources that claim to be the same one."""
    calls = list(functions)
    with ThreadPoolExecutor(max_workers=max(len(calls), 1)) as pool:
        found = [item for result in pool.map(lambda call: list(call()), calls) for item in result]
    seen: dict[Address, Found] = {}
    for item in found:
        if item.address in seen:
            raise ClusterError(
                f"Both {seen[item.address].id} and {item.id} are tagged as {item.address} of this cluster. "
                f"Delete the one that is not used, or take the tag {KEY_TAG} off it."
            )
        seen[item.address] = item
    return found


def fail(module: AnsibleAWSModule, error: Exception, **result: Any) -> NoReturn:
    """Ends the module with one clear message."""
    if isinstance(error, botocore.exceptions.NoCredentialsError):
        module.fail_json(
            msg="No AWS credentials found. Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or sign in first.", **result
        )
    if error_code(error) in NOT_LET_IN:
        module.fail_json_aws(
            error,
            msg=f"AWS does not accept the credentials in {module.region}. "
            "If they are good in other regions, this one has to be enabled for the account first",
            **result,
        )
    if isinstance(error, ClientError):
        module.fail_json_aws(error, **result)
    module.fail_json(msg=str(error), **result)
    raise AssertionError("fail_json returned")
