"""Users' mistakes, and the messages that report them. `pytest -s` shows each message, and the number of seconds until it appeared."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_cloud.testing import LocalCloud

from .conftest import INVENTORY, REPOSITORY, Finished

pytestmark = pytest.mark.exhaustive

FAILS_ON_RANK_1 = "import os\nassert os.environ['RANK'] != '1', 'the second rank has no data'\n"
SCRIPTS = {
    "ends.py": "print('done')\n",
    "fails.py": FAILS_ON_RANK_1,
    "imports.py": "import transformerz\n",
    "syntax.py": "def train(:\n    pass\n",
    "silent.py": "import sys\nsys.exit(3)\n",
    "options.py": "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--batch')\nparser.parse_args()\n",
    "no-such-package.txt": "no-such-package==1.0\n",
    "killed.py": "import os\nos.kill(os.getpid(), 9)\n",
    "no-archive.tar": "some text\n",
}


@dataclass(frozen=True)
class Mistake:
    """A mistake, and words that its message must contain: what is wrong, where, the value, and what to do."""

    name: str
    playbook: str
    words: tuple[str, ...]
    variables: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=dict)
    inventory: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def job(script: str, **variables: Any) -> dict[str, Any]:
    return {"training_job_source": "{{ scripts }}", "training_job_script": script, "training_job_arguments": [], **variables}


DEFINITION = (
    Mistake(
        "a misspelled variable", "provision", ("deeplearning_worker_cuont", "deeplearning_worker_count"), {"deeplearning_worker_cuont": 3}
    ),
    Mistake(
        "a number that is a word", "provision", ("worker_count: 'three'", "Specify an integer"), {"deeplearning_worker_count": "three"}
    ),
    Mistake("a negative number", "provision", ("worker_count", "-1"), {"deeplearning_worker_count": -1}),
    Mistake(
        "an instance type that does not exist",
        "validate",
        ("instance_type", "p4d.24xlage", "Did you mean p4d.24xlarge"),
        {"deeplearning_instance_type": "p4d.24xlage"},
    ),
    Mistake("a range too large for a VPC", "validate", ("network_cidr", "10.0.0.0/8", "/16"), {"deeplearning_network_cidr": "10.0.0.0/8"}),
    Mistake("no range for SSH", "validate", ("ssh_cidrs",), {"deeplearning_ssh_cidrs": []}),
    Mistake("an address that is none", "validate", ("ssh_cidrs", "10.0.0.300/32"), {"deeplearning_ssh_cidrs": ["10.0.0.300/32"]}),
    Mistake("a zone that does not exist", "validate", ("zones", "us-east-1z", "us-east-1a"), {"deeplearning_zones": ["us-east-1z"]}),
    Mistake("a root volume too small for the image", "validate", ("root_volume_size", "5"), {"deeplearning_root_volume_size": 5}),
    Mistake("a minimum above the count", "validate", ("worker_minimum", "5"), {"deeplearning_worker_minimum": 5}),
    Mistake("a market that does not exist", "validate", ("market: 'spott'", "Use one of", "spot"), {"deeplearning_market": "spott"}),
)
ACCOUNT = (
    Mistake(
        "a quota that is too low",
        "validate",
        ("instance_type", "p4d.24xlarge", "L-417A185B", "vCPUs"),
        {"deeplearning_instance_type": "p4d.24xlarge", "deeplearning_worker_count": 7},
        quotas={"L-417A185B": 96},
    ),
    Mistake("no credentials", "provision", ("credentials",), environment={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}),
    Mistake(
        "a wrong secret key",
        "provision",
        ("AWS does not accept the credentials in us-east-1 (", "AWS_ACCESS_KEY_ID", "get-caller-identity"),
        environment={"AWS_SECRET_ACCESS_KEY": "wrong"},
    ),
    Mistake(
        "an endpoint that nothing listens on", "provision", ("http://127.0.0.1:9",), environment={"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    ),
    Mistake("a region that does not exist", "provision", ("us-east-9", "us-east-1"), inventory={"region": "us-east-9"}),
    Mistake(
        "a region that does not exist as a variable",
        "validate",
        ("deeplearning_region: 'us-east-9'", "us-east-1"),
        {"deeplearning_region": "us-east-9"},
    ),
    Mistake("a key pair that does not exist", "validate", ("key_name", "my-keyy"), {"deeplearning_key_name": "my-keyy"}),
    Mistake(
        "an image parameter that does not exist",
        "validate",
        ("image_parameter", "/my/image"),
        {"deeplearning_image_parameter": "/my/image"},
    ),
    Mistake("a file system that does not exist", "validate", ("fs-0123abcd",), {"deeplearning_file_system_id": "fs-0123abcd"}),
    Mistake("a VPC that does not exist", "validate", ("vpc_id", "vpc-0123456789abcdef0"), {"deeplearning_vpc_id": "vpc-0123456789abcdef0"}),
    Mistake(
        "no permission",
        "provision",
        ("is not authorized to perform: ec2:", "Attach the policies from docs/permissions.md"),
        environment={"OPERATOR": "status"},
    ),
)
HOSTS = (
    Mistake(
        "a private key that is not there",
        "configure",
        ("private_key_file", "/nowhere/id", "is not a file"),
        inventory={"private_key_file": "/nowhere/id"},
    ),
    Mistake(
        "another private key",
        "configure",
        ("Set private_key_file in", "key pair 'local-cloud'", "because SSH reaches them through demo-master"),
        inventory={"private_key_file": "{{ other_key }}"},
        environment={"ANSIBLE_SSH_ARGS": "-o ControlMaster=no"},  # do not reuse a connection from an earlier run
    ),
    Mistake(
        "another login user",
        "configure",
        ("ec2-user", "Set user: ubuntu in", "demo-worker3 are unreachable, because SSH reaches them through demo-master"),
        inventory={"user": "ec2-user"},
    ),
    Mistake(
        "a cluster that does not exist",
        "status",
        ("cluster: 'nosuch'", "in this region: demo.", "deeplearning.cluster.provision"),
        inventory={"cluster": "nosuch"},
    ),
    Mistake(
        "a Python that is not on the hosts",
        "train",
        ("/opt/nope/bin/python", "python"),
        job("ends.py", training_job_python="/opt/nope/bin/python"),
    ),
    Mistake("more GPUs than there are", "train", ("gpus",), job("ends.py", training_job_gpus=[0, 1])),
    Mistake(
        "jobs that are not on shared storage",
        "train",
        ("/home/ubuntu/jobs", "this host's own disk", "Specify a directory on shared storage, for example /efs/jobs"),
        job("ends.py", training_job_directory="/home/ubuntu/jobs"),
    ),
    Mistake(
        "a user who is not there",
        "train",
        ("training_job_user: 'nobody2'", "does not exist on this host"),
        job("ends.py", training_job_user="nobody2"),
    ),
    Mistake(
        "an option of the inventory that does not exist",
        "status",
        ("login_user", "is not an option of", "Did you mean 'user'?"),
        inventory={"login_user": "ec2-user"},
    ),
    Mistake("a pattern that matches no host", "train", ("demo-worker9", "demo-worker2"), job("ends.py", training_job_hosts="demo-worker9")),
)
CODE = (
    Mistake("a script that is not there", "train", ("'fial.py' is not a file in", "Did you mean 'fails.py'?"), job("fial.py")),
    Mistake(
        "a folder that is not there",
        "train",
        ("'nowhere' is not a directory", f"searched in {REPOSITORY}"),
        job("ends.py", training_job_source="nowhere"),
    ),
    Mistake(
        "a repository that is not there",
        "train",
        ("training_job_repository: 'file:///nowhere/repo.git'", "on the controller"),
        job("ends.py", training_job_source="", training_job_repository="file:///nowhere/repo.git"),
    ),
    Mistake(
        "a branch that is not there",
        "train",
        ("training_job_version: 'no-such-branch'", "Correct the version"),
        job("train.py", training_job_source="", training_job_repository="{{ repository }}", training_job_version="no-such-branch"),
    ),
    Mistake("an error on one rank", "train", ("rank 1", "the second rank has no data", "fails.py"), job("fails.py")),
    Mistake(
        "a package that is not installed", "train", ("transformerz", "imports.py", "python_environment_requirements"), job("imports.py")
    ),
    Mistake("a syntax error", "train", ("SyntaxError", "syntax.py"), job("syntax.py")),
    Mistake(
        "an exit status without a word",
        "train",
        ("exit status 3", "It has printed nothing to", "Search silent.py", "completed no checkpoint"),
        job("silent.py"),
    ),
    Mistake("a process that is killed", "train", ("SIGKILL", "training_job_restarts is 3", "journalctl", "OOM killer"), job("killed.py")),
    Mistake(
        "arguments that the script does not have",
        "train",
        ("unrecognized arguments: --epoch 3", "Correct training_job_arguments", "After 1 attempt"),
        job("options.py", training_job_arguments=["--epoch", 3]),
    ),
    Mistake(
        "a command that is not there",
        "train",
        ("could not be started: No such file or directory: 'nope'", "training_job_command: specify", "started the job on 3 hosts"),
        {"training_job_source": "", "training_job_script": "", "training_job_command": ["nope"], "training_job_launcher": "command"},
    ),
)
DATA = (
    Mistake("a URL that is not there", "dataset", ("http://127.0.0.1:9/data.tar",), {"dataset_source": "http://127.0.0.1:9/data.tar"}),
    Mistake(
        "a checksum that is none", "dataset", ("checksum", "abc"), {"dataset_source": "s3://demo-data/data.tar", "dataset_checksum": "abc"}
    ),
    Mistake("a file that is not on the controller", "dataset", ("/nowhere/data",), {"dataset_source": "/nowhere/data"}),
    Mistake(
        "a destination that does not exist",
        "dataset",
        ("destination", "sharred"),
        {"dataset_source": "s3://demo-data/data.tar", "dataset_destination": "sharred"},
    ),
    Mistake("a source of another kind", "dataset", ("ftp://example.com/data",), {"dataset_source": "ftp://example.com/data"}),
    Mistake("no source", "dataset", ("dataset_source",)),
    Mistake(
        "an archive that is none",
        "dataset",
        ("/scripts/no-archive.tar cannot be unpacked", "dataset_unpack: false"),
        {"dataset_source": "{{ scripts }}/no-archive.tar", "dataset_unpack": True},
    ),
    Mistake(
        "a file that is no archive",
        "dataset",
        ("dataset_unpack", "ends.py", ".tar.gz"),
        {"dataset_source": "{{ scripts }}/ends.py", "dataset_unpack": True},
    ),
    Mistake(
        "the checksum of another file",
        "dataset",
        ("dataset_checksum", f"sha256:{'0' * 64}"),
        {"dataset_source": "{{ scripts }}/ends.py", "dataset_checksum": f"sha256:{'0' * 64}"},
    ),
    Mistake(
        "a file of the controller that is to stay in S3",
        "dataset",
        ("dataset_destination", "direct", "S3"),
        {"dataset_source": "{{ scripts }}/ends.py", "dataset_destination": "direct"},
    ),
    Mistake(
        "a bucket that does not exist",
        "validate",
        ("bucket_mount", "no-such-bucket"),
        {"deeplearning_bucket_mount": "s3://no-such-bucket"},
    ),
)
JOBS = (
    Mistake("a name that is taken", "train", ("done-1", "already"), job("ends.py", training_job_name="done-1")),
    Mistake("a name that is none", "train", ("My_Job",), job("ends.py", training_job_name="My_Job")),
    Mistake("a launcher that does not exist", "train", ("launcher", "torch", "torchrun"), job("ends.py", training_job_launcher="torch")),
    Mistake(
        "an option that the launcher does not have",
        "train",
        ("launcher_options", "restart"),
        job("ends.py", training_job_launcher_options={"restart": 3}),
    ),
    Mistake("stop without a name", "stop", ("training_job_name",)),
    Mistake("a job that does not exist is stopped", "stop", ("nope-1",), {"training_job_name": "nope-1"}),
    Mistake(
        "logs of a job that does not exist",
        "logs",
        ("training_job_name: there is no job 'nope-1'", "done-1", "deeplearning.cluster.status"),
        {"training_job_name": "nope-1"},
    ),
    Mistake("logs of a rank that does not exist", "logs", ("done-1", "9"), {"training_job_name": "done-1", "rank": 9}),
    Mistake(
        "requirements that are not there",
        "train",
        ("req.txt",),
        job("ends.py", python_environment_name="mine", python_environment_requirements="req.txt"),
    ),
    Mistake(
        "requirements that cannot be installed",
        "train",
        ("no-such-package==1.0", "could not install the requirements", "python_environment_requirements"),
        job(
            "ends.py",
            python_environment_name="mine",
            python_environment_requirements="{{ scripts }}/no-such-package.txt",
            python_environment_index_url="file:///nowhere",
        ),
    ),
    Mistake(
        "requirements without the name of an environment",
        "train",
        ("python_environment_requirements: 'req.txt' has no effect", "python_environment_name"),
        job("ends.py", python_environment_requirements="req.txt"),
    ),
    Mistake(
        "arguments that are one string",
        "train",
        ("training_job_arguments", "--epochs 3", '["--epochs", "3"]'),
        {"training_job_arguments": "--epochs 3"},
    ),
    Mistake("a job to continue that does not exist", "train", ("nope-1", "status"), job("ends.py", training_job_resume="nope-1")),
    Mistake(
        "another instance type on a cluster that exists",
        "train",
        (
            "demo-master, demo-worker2, demo-worker3 differ from the definition: ",
            "deeplearning_instance_type is 'c5.xlarge', but the nodes have 'c5.large'",
            "-e deeplearning_replace_nodes=true",
            "-e deeplearning_allow_outdated_nodes=true",
        ),
        job("ends.py", deeplearning_instance_type="c5.xlarge"),
    ),
    Mistake(
        "a misspelled variable of jobs",
        "train",
        ("trainning_job_script", "training_job_script"),
        job("ends.py", trainning_job_script="x.py"),
    ),
)
MISTAKES = (*DEFINITION, *ACCOUNT, *HOSTS, *CODE, *DATA, *JOBS)


@dataclass(frozen=True)
class Desk:
    """A user's working environment: an inventory, files, and a working cluster."""

    cloud: LocalCloud
    folder: Path
    network: str
    operator: Callable[..., dict[str, str]]

    def run(self, mistake: Mistake) -> Finished:
        environment = self.environment(mistake)
        variables = self.filled({"deeplearning_network_cidr": self.network, **mistake.variables})
        command = ["ansible-playbook", "-i", str(self.inventory(mistake)), f"playbooks/{mistake.playbook}.yml", "-e", json.dumps(variables)]
        done = subprocess.run(
            command,
            env=environment,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Finished(done.returncode, done.stdout)

    def environment(self, mistake: Mistake) -> dict[str, str]:
        changed = dict(mistake.environment)
        base = self.operator(changed.pop("OPERATOR"), "demo") if "OPERATOR" in changed else self.cloud.environment
        found = {**base, "ANSIBLE_STDOUT_CALLBACK": "deeplearning.cluster.concise", **changed}
        return {name: value for name, value in found.items() if value}

    def inventory(self, mistake: Mistake) -> Path:
        folder = self.folder / "inventory"
        nodes = yaml.safe_load((INVENTORY / "nodes.yml").read_text()) | self.filled(mistake.inventory)
        shutil.copytree(INVENTORY, folder, dirs_exist_ok=True)
        (folder / "nodes.yml").write_text(yaml.safe_dump(nodes))
        return folder

    def filled(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with this environment's paths inserted."""
        text = json.dumps(values)
        for name in ("scripts", "repository", "other_key"):
            text = text.replace(f"{{{{ {name} }}}}", str(self.folder / name))
        return dict(json.loads(text))


@pytest.fixture(scope="module")
def desk(
    cloud: LocalCloud,
    network: str,
    playbook: Callable[..., Finished],
    operator: Callable[..., dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Desk]:
    """A working environment with a configured cluster, a job that has ended, and a bucket with some data."""
    folder = tmp_path_factory.mktemp("desk")
    for name, text in SCRIPTS.items():
        (folder / "scripts").mkdir(exist_ok=True)
        (folder / "scripts" / name).write_text(text)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "other_key")], check=True)
    subprocess.run(["git", "init", "--quiet", str(folder / "repository")], check=True)
    cloud.client("s3").create_bucket(Bucket="demo-data")
    cloud.client("s3").put_object(Bucket="demo-data", Key="data.tar", Body=b"no archive")
    definition = json.dumps(
        {
            "training_job_source": str(folder / "scripts"),
            "training_job_script": "ends.py",
            "training_job_arguments": [],
            "training_job_name": "done-1",
        }
    )
    playbook("train.yml", "-e", definition)
    yield Desk(cloud, folder, network, operator)
    cloud.control.reset()
    playbook("destroy.yml", "-e", "deeplearning_delete_data=true")


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_the_message_has_what_is_wrong_and_the_value(desk: Desk, mistake: Mistake) -> None:
    if mistake.quotas:
        desk.cloud.control.set_quotas(mistake.quotas)
    begin = time.monotonic()
    try:
        done = desk.run(mistake)
    finally:
        seconds = time.monotonic() - begin
        desk.cloud.control.reset()
    print(f"\n--- {mistake.name} ({mistake.playbook}.yml), {seconds:.1f} s\n{done.output}")
    told = " ".join(done.output.split())
    assert done.status != 0
    assert [word for word in mistake.words if word not in told] == []
    assert mistake in CODE or "Traceback" not in told
