"""The commands in the README and docs run unchanged, in the project that the README describes. The tests build on each other."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role.definition import trust_policy
from local_cloud.testing import LocalCloud, unused_range

from .conftest import REPOSITORY

pytestmark = pytest.mark.exhaustive

COMMAND = re.compile(r"(?:[^\n]*\\\n)*[^\n]*\n")  # one line, or several lines that end with a backslash
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")), *sorted((REPOSITORY / "roles").glob("*/README.md")))
# Commands that these tests do not run, each with the reason. The other commands in the same block run.
ELSEWHERE = {
    "coco_dataset": "it downloads 20 GB: tests/integration/test_playbooks.py stages small files in the same way",
    "deeplearning.cluster.emr": "its definition needs an image, a bucket and roles: tests/integration/test_documentation.py",
    "aws ssm put-parameter": "it adopts an EMR cluster: tests/integration/test_emr_nodes.py",
    "aws emr add-tags": "it adopts an EMR cluster: tests/integration/test_emr_nodes.py",
    "make test": "it runs this test",
    "make chaos": "it takes an hour: tests/chaos/test_chaos.py runs a part of it",
    "make train": "test_the_commands_for_newcomers runs it, and those of examples need frameworks: tests/hosts/launchers",
    "training_job_queue=yarn": "it needs YARN: tests/hosts/test_yarn.py",
    "pip install": "tests/integration/test_collection_install.py installs the collection without its requirements",
    "ansible-galaxy": "it needs the archive of a release: tests/integration/test_collection_install.py",
    "fi_info": "it needs Elastic Fabric Adapters",
    "cifar10_mxnet": "it needs MXNet: tests/hosts/launchers/test_mxnet.py",
    "pytest": "it is about a launcher that does not exist: tests/unit/plugins/module_utils/_launchers/test_registry.py adds it",
    "sudo runuser": "its process waits for those of the other hosts: tests/hosts/test_training_job.py starts all",
}
# Commands after which the rest of their block is typed in another place, each with the test that types it.
SESSIONS = {
    "make shell": "a shell: test_the_commands_for_newcomers",
    "environment=/efs/environments/mxnet": "the master, with MXNet: tests/hosts/launchers/test_mxnet.py",
}
# Commands that fail in the tests because earlier commands on the page left them nothing to do, each with part of its error message.
REFUSED = {
    "playbooks/stop.yml ": "no process of job",
    "# bert-1 has lost a host": "job bert-1 has already run",
    "cleanup.yml -e training_job_name=bert-1": "contains the checkpoints of bert-2",
}
# The beginning of commands that are typed on a host.
ON_HOST = re.compile(r"^(units=.*\n.*)?sudo ", re.MULTILINE)
# Pages that define their own project.
WITH_PROJECT = ("README.md", "docs/first-day.md")
# What docs/data.md adds to a definition.
BUCKETS = """
deeplearning_read_buckets: [bert-data]
deeplearning_export_destinations: [s3://bert-results/jobs]
"""
SHORT = """
import os, pathlib
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
(pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"]) / f"checkpoint-{os.environ['RANK']}").touch()
"""


@dataclass(frozen=True)
class Block:
    """A block of commands on a page."""

    page: str
    commands: str


def shell_blocks() -> Iterator[Block]:
    """Yield all blocks of commands, including the commands that these tests do not run."""
    for page in PAGES:
        for language, text in BLOCK.findall(page.read_text()):
            if language in ("sh", "console"):
                commands = "".join(line.removeprefix("$ ") for line in text.splitlines(keepends=True))
                yield Block(str(page.relative_to(REPOSITORY)), commands)


def reason(command: str, reasons: Mapping[str, str]) -> str | None:
    """Return the first key of `reasons` that the command contains."""
    return next((words for words in reasons if words in command), None)


def typed_here(block: Block) -> list[str]:
    """Return the commands of a block up to the first command that begins a session."""
    return list(takewhile(lambda command: not reason(command, SESSIONS), COMMAND.findall(block.commands)))


def blocks() -> Iterator[Block]:
    """Yield the blocks of commands without the commands that these tests do not run."""
    for block in shell_blocks():
        commands = "".join(command for command in typed_here(block) if not reason(command, ELSEWHERE))
        if commands.strip():
            yield replace(block, commands=commands)


def shown(page: str, name: str) -> str:
    """Return the contents of a file that a page shows below the file's name."""
    found = re.search(rf"^`{re.escape(name)}`.*?^```\w+\n(.*?)^```", (REPOSITORY / page).read_text(), re.MULTILINE | re.DOTALL)
    assert found, name
    return found[1]


@dataclass
class Project:
    """A directory with the files that a page shows, and the environment of its user.

    Like a terminal session, a project keeps the current directory.
    """

    folder: Path
    environment: dict[str, str]

    def run(self, commands: str, refused: str = "") -> None:
        if ON_HOST.match(commands):
            (self.folder / "typed.sh").write_text(f"#!/bin/bash\n{commands}")
            commands = "ansible master -m ansible.builtin.script -a typed.sh"
        leaving = self.folder / "leaving"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"trap 'pwd >{leaving}' EXIT\n{commands}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == bool(refused), done.stdout
        assert refused in done.stdout
        self.folder = Path(leaving.read_text().rstrip("\n"))


@pytest.fixture(scope="module")
def account(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Create what the pages expect in the account: a key pair, GPU quotas, a bucket with data and a role for operators."""
    key = Path(cloud.environment["LOCAL_CLOUD_HOME"]) / "id_ed25519.pub"
    cloud.client("ec2").import_key_pair(KeyName="my-key", PublicKeyMaterial=key.read_bytes())
    cloud.client("iam").create_role(RoleName="ml-operators", AssumeRolePolicyDocument=json.dumps(trust_policy("us-east-1")))
    cloud.control.set_quotas({"L-417A185B": 1000, "L-DB2E81BA": 8})
    data = tmp_path_factory.mktemp("data")
    (data / "labels").write_text("cat\n")
    subprocess.run(["tar", "-cf", str(data / "coco.tar"), "-C", str(data), "labels"], check=True)
    cloud.client("s3").create_bucket(Bucket="bert-data")
    cloud.client("s3").upload_file(str(data / "coco.tar"), "bert-data", "coco-2017.tar")
    cloud.client("s3").create_bucket(Bucket="bert-results")


@contextlib.contextmanager
def ssh_agent(key: Path) -> Iterator[dict[str, str]]:
    """Run an SSH agent that holds a private key, and yield the environment of its clients."""
    started = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    environment = dict(re.findall(r"(SSH_\w+)=([^;]+);", started))
    try:
        subprocess.run(["ssh-add", "-q", str(key)], env={**os.environ, **environment}, check=True)
        yield environment
    finally:
        os.kill(int(environment["SSH_AGENT_PID"]), 15)


def home(folder: Path) -> dict[str, str]:
    """Return the environment of a user with this home directory.

    OpenSSH ignores HOME, so wrapper scripts pass the configuration of the user to OpenSSH.
    """
    (folder / ".ssh").mkdir(mode=0o700)
    (folder / ".ssh" / "config").touch()
    (folder / "bin").mkdir()
    for name in ("ssh", "scp"):
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec {shutil.which(name)} -F "$HOME/.ssh/config" "$@"\n')
        (folder / "bin" / name).chmod(0o755)
    return {"HOME": str(folder), "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def project(account: None, cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Project]]:
    """Create the project that a page or, by default, the README defines, with an address range that is unused on this machine."""
    key = Path(cloud.environment["LOCAL_CLOUD_HOME"]) / "id_ed25519"
    ranges = contextlib.ExitStack()

    @functools.cache
    def make(page: str) -> Project:
        folder = tmp_path_factory.mktemp("project")
        for name in ("playbooks", "examples", "tools"):
            (folder / name).symlink_to(REPOSITORY / name)
        (folder / "nodes.yml").write_text(shown(page, "nodes.yml"))
        (folder / "ansible.cfg").write_text(shown("README.md", "ansible.cfg"))
        (folder / "train.yml").write_text(shown("README.md", "train.yml"))
        (folder / "group_vars").mkdir()
        cidr = ranges.enter_context(unused_range())
        definition = shown(page, "group_vars/all.yml") + f"deeplearning_network_cidr: {cidr}\n" + BUCKETS
        (folder / "group_vars" / "all.yml").write_text(definition)
        (folder / "src").mkdir()
        (folder / "src" / "train.py").write_text(SHORT)
        for name in ("bert.yml", "other.yml"):
            (folder / name).write_text("training_job_arguments: []\n")
        (folder / "dataset.yml").write_text("dataset_source: s3://bert-data/coco-2017.tar\ndataset_unpack: true\n")
        environment = {
            **cloud.environment,
            **agent,
            **home(folder),
        }
        return Project(folder, environment)

    with ranges, ssh_agent(key) as agent:
        yield lambda page: make(page if page in WITH_PROJECT else "README.md")


def order(page: str) -> tuple[bool, bool, str]:
    """Return the sort key of a page.

    The README is first, because its commands create the cluster. docs/changes.md is last, because its commands destroy the cluster.
    """
    return page != "README.md", page == "docs/changes.md", page


def type_commands(terminal: Project, page: str) -> None:
    """Type the commands of a page in a terminal."""
    for block in blocks():
        if block.page != page:
            continue
        playbooks = block.commands.startswith("ansible-playbook")
        for commands in COMMAND.findall(block.commands) if playbooks else [block.commands]:
            refused = next((words for command, words in REFUSED.items() if command in commands), "")
            terminal.run(commands, refused)


@pytest.fixture(scope="module")
def cluster(project: Callable[[str], Project]) -> None:
    """Create the cluster that all pages use, with the commands of the README."""
    type_commands(replace(project("README.md")), "README.md")


@pytest.mark.each_case
@pytest.mark.parametrize("page", sorted({block.page for block in blocks()}, key=order))
def test_the_commands_of_a_page(project: Callable[[str], Project], cluster: None, page: str) -> None:
    if page != "README.md":
        type_commands(replace(project(page)), page)


def test_each_reason_is_needed() -> None:
    """Each reason leaves out a command, and the tests that a reason names exist."""
    commands = [command for block in shell_blocks() for command in COMMAND.findall(block.commands)]
    here = [command for block in shell_blocks() for command in typed_here(block)]
    assert {reason(command, SESSIONS) for command in commands} == {*SESSIONS, None}
    assert {reason(command, ELSEWHERE) for command in here} == {*ELSEWHERE, None}
    named = re.findall(r"tests/[\w/.]+", " ".join([*ELSEWHERE.values(), *SESSIONS.values()]))
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_only_the_commands_with_a_reason_are_left_out() -> None:
    left = "".join(block.commands for block in blocks())
    assert "NCCL_DEBUG" in left, "the next command of this block needs Elastic Fabric Adapters"
    assert not [words for words in (*ELSEWHERE, *SESSIONS) if words in left]


def test_the_commands_for_newcomers(tmp_path: Path) -> None:
    """The commands run in this checkout, with a separate local cloud that they start."""
    make = ["make", f"LOCAL_CLOUD=local-cloud --home {tmp_path / 'cloud'}"]
    typed = next(text for _language, text in BLOCK.findall((REPOSITORY / "README.md").read_text()) if text.startswith("make shell"))
    environment = {**os.environ, **home(tmp_path)}
    # In the folder of another project, the shell uses that project's inventory, not the checkout's.
    shutil.copytree(REPOSITORY / "examples" / "project", tmp_path / "project")
    inventory = "ansible-config dump --only-changed | grep DEFAULT_HOST_LIST"
    lines = f"set -e\n{inventory}\n(cd {tmp_path / 'project'} && {inventory})\n" + typed.partition("\n")[2] + "exit 0\n"
    try:
        for target, answers in (("train", ""), ("shell", lines)):
            done = subprocess.run(
                [*make, target],
                cwd=REPOSITORY,
                env=environment,
                input=answers,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout
        assert str(REPOSITORY / "inventory" / "local") in done.stdout
        assert str(tmp_path / "project" / "nodes.yml") in done.stdout
    finally:
        subprocess.run([*make, "clean"], cwd=REPOSITORY, check=True)
