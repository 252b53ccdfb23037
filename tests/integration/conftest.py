"""An AWS account without hosts for each test file, and a function that runs modules in this process."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ansible_commands
import boto3
import pytest
from ansible.module_utils import _internal
from ansible.module_utils.common import warnings
from ansible.module_utils.testing import patch_module_args
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AwsClient
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.common import COMPONENTS
from botocore.loaders import JSONFileLoader, Loader
from local_cloud.testing import LocalCloud

from .landlord import Landlord, make_landlord

REGION = "us-east-1"
KEY_NAME = "tests"
IMAGE_PARAMETER = "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-amazon-linux-2023/latest/ami-id"
MODULES = "ansible_collections.deeplearning.cluster.plugins.modules"
PROVISIONING = {"cluster", "cluster_validation", *COMPONENTS}
FAST = {"nat_gateway": 0.2, "file_system": 0.1, "mount_target": 0.1, "launch_retry": 0.5}

LOADER = JSONFileLoader()

_numbers = itertools.count(1)


class ModuleFailed(Exception):
    """A module ended with fail_json. `result` is the result of the module."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result["msg"])
        self.result = result


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """An AWS account on this machine, shared only by the tests in one file."""
    with LocalCloud(tmp_path_factory.mktemp("cloud"), hosts=False) as started:
        started.client("ec2").create_key_pair(KeyName=KEY_NAME)
        os.environ.update({name: value for name, value in started.environment.items() if name.startswith("AWS_")})
        yield started


@pytest.fixture(scope="session", autouse=True)
def _models_are_read_once() -> Iterator[None]:
    """Cache service models.

    Each module run has its own boto3 session. Without the cache, the session would spend most of its time reading the same models.
    The model of S3 is read each time, because S3 clients change the paths in the model, and a local cloud in this process routes S3 calls
    by these paths.
    """
    original = JSONFileLoader.load_file
    kept = functools.cache(original)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda _self, path: (original if "/s3/" in path else kept)(LOADER, path))
        found = functools.cache(Loader().list_available_services)
        patch.setattr(Loader, "list_available_services", lambda _self, type_name: found(type_name))
        yield


@pytest.fixture(scope="module")
def clients() -> dict[str, Any]:
    """SDK sessions and clients by their settings."""
    return {}


@pytest.fixture(autouse=True)
def _clients_are_made_once(monkeypatch: pytest.MonkeyPatch, clients: dict[str, Any]) -> None:
    """Let the runs in a test file share sessions and clients with the same settings. Creating one takes longer than an API call."""
    connect, new_session = AwsClient._connect, boto3.session.Session

    def shared(create: Callable[..., Any], *settings: Any) -> Any:
        credentials = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        key = repr((settings, credentials))
        if key not in clients:
            clients[key] = create()
        return clients[key]

    def shared_client(self: AwsClient, service: str, config: Any, region: str = "") -> Any:
        settings = (service, region or self.region, self._endpoint, self._connection, config._user_provided_options)
        return shared(lambda: connect(self, service, config, region), *settings)

    monkeypatch.setattr(AwsClient, "_connect", shared_client)

    def shared_session(botocore_session: Any = None, **settings: Any) -> Any:
        return shared(lambda: new_session(botocore_session=botocore_session, **settings), "session", settings)

    monkeypatch.setattr(boto3.session, "Session", shared_session)


@pytest.fixture(autouse=True)
def _fresh(cloud: LocalCloud) -> None:
    """Remove the faults, limits and recorded calls of the previous test."""
    cloud.control.reset()
    cloud.control.set_delays(**FAST)


def run_module(name: str, /, *, check: bool = False, **options: Any) -> dict[str, Any]:
    """Run a module of the collection and return its result. Raises ModuleFailed.

    To save time, provisioning modules ask for prices only in tests of prices.
    """
    prices = {"prices": False} if name in PROVISIONING else {}
    arguments = {"region": REGION, **prices, **options, "_ansible_check_mode": check, "_ansible_diff": True, "_ansible_remote_tmp": "/tmp"}
    arguments = {key: value for key, value in arguments.items() if value is not None}
    module = importlib.import_module(f"{MODULES}.{name}")
    output = io.StringIO()
    # The warnings of modules that ran earlier stay in the process
    warnings._global_warnings.clear()
    warnings._global_deprecations.clear()
    # Modules usually run in their own processes, without the controller's code that other tests have imported into this process.
    alone = patch.object(_internal, "is_controller", False)
    with alone, patch_module_args(arguments), contextlib.redirect_stdout(output), pytest.raises(SystemExit):
        module.main()
    result: dict[str, Any] = json.loads(output.getvalue())
    if result.get("failed"):
        raise ModuleFailed(result)
    return result


@pytest.fixture
def run(cloud: LocalCloud) -> Callable[..., dict[str, Any]]:
    """Run a module of the collection in the test's AWS account."""
    return run_module


@pytest.fixture
def playbook(cloud: LocalCloud, repository: Path, tmp_path: Path, definition: dict[str, Any]) -> Callable[..., tuple[bool, str]]:
    """Run a playbook for the cluster. Return whether it has succeeded, and its output in one line."""
    nodes = {"plugin": "deeplearning.cluster.nodes", "cluster": definition["cluster"], "region": REGION}
    (tmp_path / "nodes.yml").write_text(json.dumps(nodes))

    def play(playbook: str | Path, *arguments: str, **options: Any) -> tuple[bool, str]:
        own = {key: value for key, value in {**definition, **options}.items() if key != "cluster"}
        given = {key if key.startswith("training_job_") else f"deeplearning_{key}": value for key, value in own.items()}
        command = ["ansible-playbook", "-i", "nodes.yml", str(repository / "playbooks" / f"{playbook}.yml"), "-e", json.dumps(given)]
        done = ansible_commands.run([*command, *arguments], {**cloud.environment, "HOME": str(tmp_path)}, tmp_path)
        return done.returncode == 0, " ".join((done.stdout + done.stderr).split())

    return play


@pytest.fixture
def name() -> str:
    return new_name()


@pytest.fixture
def definition(name: str) -> dict[str, Any]:
    return cluster_options(name)


def new_name() -> str:
    """Return a cluster name that no other test uses."""
    return f"test-{next(_numbers)}"


def cluster_options(name: str) -> dict[str, Any]:
    """Return the options of a whole cluster with two workers."""
    return {
        "cluster": name,
        "ssh_cidrs": ["203.0.113.0/24"],
        "instance_type": "c5.large",
        "worker_count": 2,
        "image_parameter": IMAGE_PARAMETER,
        "key_name": KEY_NAME,
        "wait_timeout": 120,
        "capacity_timeout": 120,
    }


@pytest.fixture
def landlord(cloud: LocalCloud) -> Callable[..., Landlord]:
    """Create a VPC that belongs to another owner."""
    return functools.partial(make_landlord, cloud.client("ec2"))


@pytest.fixture
def repository() -> Path:
    """The root directory of the collection."""
    return Path(__file__).resolve().parents[2]


def schedule_groups(cloud) -> list[str]:
    """Return the names of the groups of schedules, without the default group and those that AWS deletes, which takes it some time."""
    found = cloud.client("scheduler").list_schedule_groups()["ScheduleGroups"]
    return [each["Name"] for each in found if each["Name"] != "default" and each["State"] == "ACTIVE"]


@pytest.fixture
def only_own_schedules(cloud) -> Iterator[None]:
    """Remove the schedules of the test, which would make calls as soon as other tests advance the clock."""
    yield
    cloud.control.set_faults([])
    cloud.control.set_delays(schedule_group=0)
    for group in schedule_groups(cloud):
        cloud.client("scheduler").delete_schedule_group(Name=group)


@pytest.fixture
def topic(cloud, name):
    return cloud.client("sns").create_topic(Name=f"{name}-alerts")["TopicArn"]


@pytest.fixture
def room_for_the_next(cloud, run, name):
    """Delete the cluster, so that its instances do not affect other tests."""
    yield
    cloud.control.reset()
    run("cluster", cluster=name, state="absent", delete_data=True)
