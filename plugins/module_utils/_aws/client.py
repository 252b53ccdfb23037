# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The connection to AWS that all controller modules share. Only this file and the inventory plugin import `amazon.aws`."""

from __future__ import annotations

import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import Any, TypeVar

try:
    import boto3
    import botocore.exceptions
    import botocore.session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:
    BotoCoreError = ClientError = Exception  # AnsibleAWSModule reports the missing library

from ansible_collections.amazon.aws.plugins.module_utils import modules
from ansible_collections.amazon.aws.plugins.module_utils.botocore import boto3_at_least, botocore_at_least, get_aws_connection_info
from ansible_collections.amazon.aws.plugins.module_utils.retries import AWSRetry
from ansible_collections.amazon.aws.plugins.module_utils.tagging import ansible_dict_to_boto3_tag_list, boto3_tag_list_to_ansible_dict

from .error_codes import DENIED, IN_USE, NOT_YET_VISIBLE, THROTTLED, error_code, is_missing
from .plan.resources import Address, Found
from .regions import valid_region
from .tags import CLUSTER_TAG, COMPONENT_TAG, IMAGE_TAG, KEY_TAG

# The time in seconds for a connection to an AWS endpoint. The SDK's default is 60 s for each attempt.
CONNECT_TIMEOUT = 10
DENIED_TIMEOUT = 60  # seconds
CREATE_ATTEMPTS = 10
RESOURCE_ID = re.compile(r"[a-z]+-[0-9a-f]{8,}|j-[0-9A-Z]{8,}")
PROGRESS_INTERVAL = 30  # seconds

# The minimum version of boto3 and botocore. Older versions do not return the interface types of network cards, and do not support some
# parameters
LEAST_SDK = "1.44.0"

T = TypeVar("T")


class ClusterError(Exception):
    """An error that the user can correct. The message of the error explains how."""


# The exceptions that an API call can raise.
SDK_ERRORS = (BotoCoreError, ClientError)


class WaitTimeout(ClusterError):
    """A resource did not become ready in time."""


def sdk_problem() -> str | None:
    """Return an error message if boto3 or botocore is too old, and None otherwise. Both packages must be installed."""
    if boto3_at_least(LEAST_SDK) and botocore_at_least(LEAST_SDK):
        return None
    return (
        f"{sys.executable} uses boto3 {boto3.__version__} and botocore {botocore.__version__}, but deeplearning.cluster needs "
        f"version {LEAST_SDK} or newer of both. Upgrade them: {sys.executable} -m pip install --upgrade 'boto3>={LEAST_SDK}'"
    )


def environment_endpoint(service: str) -> str:
    """Return the endpoint that the environment sets instead of that of AWS, or an empty string."""
    return os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or os.environ.get("AWS_ENDPOINT_URL") or ""


class AnsibleAWSModule(modules.AnsibleAWSModule):
    """The module class of `amazon.aws`, extended to fail if the SDK is too old for this collection."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        problem = sdk_problem()
        if problem:
            self.fail_json(msg=problem)

    def warn(self, *args: Any, **options: Any) -> None:
        """Show a warning. The inherited method also passes warnings to exit_json and fail_json, which is deprecated in ansible-core."""
        self._module.warn(*args, **options)


def use_module_class(module_class: Callable[..., Any]) -> None:
    """Let AnsibleAWSModule wrap objects of another class than Ansible's module class."""
    modules.AnsibleAWSModule.default_settings["module_class"] = module_class


@lru_cache(maxsize=None)
def service_models(profile: str | None) -> Any:
    """Return what loads the SDK's descriptions of services. Tasks share those that the inventory plugin has loaded before them.

    The profile can set the path of more descriptions.
    """
    session = botocore.session.get_session()
    if profile:
        session.set_config_variable("profile", profile)
    return session.get_component("data_loader")


class Interrupted(ClusterError):
    """Ansible was interrupted before the cluster matched its definition."""


class AwsClient:
    """The SDK clients, tags and timeouts for one cluster in one region.

    Clients are created on first use and shared by all threads. botocore retries throttled and failed calls. All clients use one
    session, so that a profile's role is assumed only once, not once per service.
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
        self.created: set[str] = set()  # IDs of new resources, which may not be visible to IAM yet
        self._ahead = timedelta()  # how far AWS's clock is ahead of the controller's
        self._progress_file, self._told, self._told_at = module.params.get("progress_file"), "", 0.0
        region, self._endpoint, self._connection = get_aws_connection_info(module)
        try:
            self.region = valid_region(region)
        except ValueError as error:
            raise ClusterError(str(error)) from error
        profile, session = self._connection.pop("profile_name", None), botocore.session.get_session()
        session.register_component("data_loader", service_models(profile))
        self.session = boto3.session.Session(profile_name=profile, botocore_session=session)
        own = Config(
            user_agent_extra="deeplearning.cluster",
            retries={"mode": "standard", "max_attempts": 10},
            max_pool_connections=32,
            connect_timeout=CONNECT_TIMEOUT,
        )
        self._config = own.merge(self._connection.pop("aws_config", Config()))

    def endpoint(self, service: str) -> str:
        """Return the endpoint that the options or the environment set instead of that of AWS, or an empty string."""
        return str(self._endpoint or environment_endpoint(service))

    def client(self, service: str) -> Any:
        return self._client(service, self._config)

    def _client(self, service: str, config: Any, purpose: str = "") -> Any:
        name = service + purpose
        with self._lock:
            if name not in self._clients:
                self._clients[name] = self._connect(service, config)
            return self._clients[name]

    def connect(self, service: str, region: str, config: Any) -> Any:
        """Return a client that this object does not keep: one for another region, or with other settings."""
        return self._connect(service, self._config.merge(config), region)

    def _connect(self, service: str, config: Any, region: str = "") -> Any:
        region = region or self.region
        try:
            return self.session.client(service, region_name=region, endpoint_url=self._endpoint, config=config, **self._connection)
        except ValueError as error:
            raise ClusterError(f"Cannot connect to {service}: {error}. Check endpoint_url.") from error

    @property
    def now(self) -> datetime:
        """Return the time of AWS's clock, if a response has told it. The controller's clock may be wrong."""
        return datetime.now(timezone.utc) + self._ahead

    def learn_time(self, response: Mapping[str, Any]) -> None:
        """Set AWS's clock by the Date header of a response."""
        date = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date:
            self._ahead = parsedate_to_datetime(date) - datetime.now(timezone.utc)

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
    def emr(self) -> Any:
        return self.client("emr")

    @property
    def s3(self) -> Any:
        return self.client("s3")

    @property
    def scheduler(self) -> Any:
        return self.client("scheduler")

    @property
    def ssm(self) -> Any:
        return self.client("ssm")

    @property
    def cloudtrail(self) -> Any:
        return self.client("cloudtrail")

    def tags(self, component: str, key: str, name: str) -> dict[str, str]:
        """Return the tags for one of this cluster's resources, including the tags that the user specified."""
        own = {CLUSTER_TAG: self.cluster, COMPONENT_TAG: component, KEY_TAG: key, "Name": name}
        return {**self._extra_tags, **own}

    def comparable_tags(self, tag_list: Iterable[Mapping[str, str]]) -> dict[str, str]:
        """Return only those tags of a resource that the definition sets. Tags that users or other tools have added are ignored."""
        own = {CLUSTER_TAG, COMPONENT_TAG, KEY_TAG, IMAGE_TAG, "Name", *self._extra_tags}
        return {name: value for name, value in tag_dict(tag_list).items() if name in own}

    def filters(self, *more: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return EC2 filters that match all resources with this cluster's tag."""
        return [{"Name": f"tag:{CLUSTER_TAG}", "Values": [self.cluster]}, *more]

    def progress(self, what: str, elapsed: float = 0.0, *, limit: float = 0.0, once: bool = False) -> None:
        """Append the module's current activity to the progress file when the activity changes, or every 30 seconds if it stays the same.

        `elapsed` is the number of seconds so far, and `limit` is the number of seconds after which the module stops waiting. If `once` is
        true, a message is written only once per run.
        """
        now = time.monotonic()
        if once and what in self._told_once:
            return
        self._told_once |= {what} if once else set()
        if not self._progress_file or (what == self._told and now < self._told_at + PROGRESS_INTERVAL):
            return
        self._told, self._told_at = what, now
        with open(self._progress_file, "a", encoding="utf-8") as file:
            of = f" of {limit:.0f}" if limit else ""
            file.write(f"{what}, {elapsed:.0f}{of} s\n" if elapsed else f"{what}\n")

    def retrieve(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Return all items from all pages of a describe or list call."""
        client = self.client(service)
        with self._lock:  # Without the lock, concurrent threads would each search the SDK's data directories.
            can_paginate = client.can_paginate(operation)
        if can_paginate:
            return list(client.get_paginator(operation).paginate(**arguments).build_full_result().get(key, []))
        # botocore has no paginators for some operations that return pages
        call = getattr(client, operation)
        page = call(**arguments)
        items = list(page.get(key, []))
        while page.get("NextToken"):
            page = call(**arguments, NextToken=page["NextToken"])
            items += page.get(key, [])
        return items

    def retrieve_once(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Return the same items as `retrieve`, but make the API call only once per run.

        Use this method only for data that the run does not change, such as quotas and images. Concurrent threads share the response.
        """
        name = f"{service} {operation} {sorted(arguments.items())}"
        with self._lock:
            lock = self._fact_locks.setdefault(name, threading.Lock())
        with lock:
            if name not in self._facts:
                self._facts[name] = self.retrieve(service, operation, key, **arguments)
            return self._facts[name]

    def once_visible(self, call: Callable[..., T], *more_codes: str, **arguments: Any) -> T:
        """Make an API call that refers to a new resource, and retry while AWS reports that the resource does not exist.

        If this run created the resource, also retry while AWS denies the call, because permissions may depend on tags that are not visible
        to IAM yet (see `once_allowed`). `more_codes` lists additional error codes that allow a retry.
        """
        retry = AWSRetry.jittered_backoff(retries=12, delay=1, max_delay=10, catch_extra_error_codes=[*NOT_YET_VISIBLE, *more_codes])
        complete = partial(retry(call), **arguments)
        return self.once_allowed(complete) if self.created & ids(arguments) else complete()

    def once_allowed(self, call: Callable[[], T]) -> T:
        """Make an API call that refers to a resource created by this run. Retry for up to a minute while AWS denies the call.

        IAM can take up to a minute to apply new roles, policies and tags. Do not use this method for calls that refer only to older
        resources, because AWS would deny each retry as well.
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
            return self.wait_until("permission", answer, DENIED_TIMEOUT, pause=1)[0]
        except WaitTimeout as error:
            raise denials[-1] from error

    def create(self, service: str, operation: str, *more_codes: str, **arguments: Any) -> dict[str, Any]:
        """Make a create call that accepts no client token. Retry only if the error shows that AWS created nothing.

        If the call refers to a resource that this run created, also retry while AWS denies the call (see `once_allowed`).

        After any other error, a retry could create a duplicate resource. The method raises the error, and the caller must read the actual
        state before trying again (see `outcome_is_unknown`). `more_codes` lists additional error codes that allow a retry.
        """
        once = self._config.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))
        call = getattr(self._client(service, once, purpose=" once"), operation)
        not_done = (*THROTTLED, *NOT_YET_VISIBLE, *more_codes)

        def complete() -> dict[str, Any]:
            return self._remember(call(**arguments), arguments)

        if self.created & ids(arguments):
            complete = partial(self.once_allowed, complete)
        for attempt in range(1, CREATE_ATTEMPTS):
            try:
                return complete()
            except ClientError as error:
                if error_code(error) not in not_done:
                    raise
            self.pause(min(0.1 * 2**attempt, 10))
        return complete()

    def _remember(self, answer: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Record the IDs of the created resources, but not the IDs that the request contained."""
        self.created |= ids(answer) - ids(arguments)
        return dict(answer)

    def once_idle(self, call: Callable[..., T], *more_codes: str, **arguments: Any) -> T:
        """Make an API call, and retry while the resource is in use. `more_codes` lists additional error codes with this meaning."""
        retry = AWSRetry.jittered_backoff(retries=40, delay=1, max_delay=10, catch_extra_error_codes=[*IN_USE, *more_codes])
        return retry(call)(**arguments)

    def once_unused(self, call: Callable[..., T], *more_codes: str, **arguments: Any) -> T | None:
        """Make a delete call, and retry while the resource is in use. Return None if the resource is already deleted.

        `more_codes` lists additional error codes that mean that the resource is in use.
        """
        return if_exists(partial(self.once_idle, call, *more_codes, **arguments))

    def wait_until(self, what: str, probe: Callable[[], T | None], timeout: float | None = None, *, pause: float = 0.1) -> T:
        """Call `probe` at increasing intervals until it returns a truthy value. Raise WaitTimeout after `timeout` seconds.

        `what` completes the message "Timed out after N s waiting for ...". `pause` is the first interval in seconds. Use a longer
        interval for slow resources and for probes that make many requests.
        """
        deadline = time.monotonic() + (self.wait_timeout if timeout is None else timeout)
        while True:
            result = probe()
            if result:
                return result
            if time.monotonic() + pause > deadline:
                raise WaitTimeout(f"Timed out after {self.wait_timeout if timeout is None else timeout:g} s waiting for {what}.")
            self.pause(pause)
            pause = min(pause * 1.5, 10)

    def pause(self, seconds: float) -> None:
        """Sleep for `seconds`. Raise Interrupted if Ansible is interrupted."""
        if self.interruption.wait(seconds):
            raise Interrupted("Interrupted.")


def ids(value: Any) -> set[str]:
    """Return the resource IDs, such as `subnet-0123456789abcdef0`, in an AWS request or response."""
    if isinstance(value, str):
        return {value} if RESOURCE_ID.fullmatch(value) else set()
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return set().union(*map(ids, parts))


def if_exists(call: Callable[..., T], *more_codes: str, **arguments: Any) -> T | None:
    """Make an API call. Return None if the resource does not exist, which `more_codes` can also say."""
    try:
        return call(**arguments)
    except ClientError as error:
        if is_missing(error) or error_code(error) in more_codes:
            return None
        raise


def tag_dict(tag_list: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return dict(boto3_tag_list_to_ansible_dict(list(tag_list)))


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return list(ansible_dict_to_boto3_tag_list(dict(tags)))


def read_concurrently(functions: Iterable[Callable[[], Iterable[Found]]]) -> list[Found]:
    """Call all functions concurrently, and return the resources that the functions find.

    Raise ClusterError if two resources have the same `Address`.
    """
    calls = list(functions)
    with ThreadPoolExecutor(max_workers=max(len(calls), 1)) as pool:
        found = [item for result in pool.map(lambda call: list(call()), calls) for item in result]
    seen: dict[Address, Found] = {}
    for item in found:
        if item.address in seen:
            raise ClusterError(
                f"Both {seen[item.address].id} and {item.id} are tagged as {item.address} of this cluster. "
                f"Delete the unused resource, or remove its tag {KEY_TAG}."
            )
        seen[item.address] = item
    return found
