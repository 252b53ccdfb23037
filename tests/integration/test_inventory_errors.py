"""If the inventory cannot be read, users see the reason once, at the end of the output."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import ansible_commands
import pytest
from local_cloud.testing import LocalCloud

FILE = "plugin: deeplearning.cluster.nodes\ncluster: demo\nregion: us-east-1\n"
NO_CREDENTIALS = {"AWS_EC2_METADATA_DISABLED": "true"}
NO_ENDPOINT = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}

Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(tmp_path: Path, repository: Path) -> Run:
    """Run a playbook in a project with one inventory file, and return its status and the lines that it printed."""

    def begin(playbook: str, configuration: str, file: str, content: str, **environment: str) -> tuple[int, list[str]]:
        (tmp_path / "ansible.cfg").write_text(configuration)
        (tmp_path / file).write_text(content)
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ANSIBLE_STDOUT"))}
        command = ["ansible-playbook", "-i", file, f"deeplearning.cluster.{playbook}"]
        done = ansible_commands.run(command, {**mine, "HOME": str(tmp_path), **environment}, tmp_path, merged=True)
        return done.returncode, [line for line in done.stdout.splitlines() if line.strip()]

    return begin


@pytest.mark.parametrize(
    ("file", "content", "environment", "cause"),
    [
        ("nodes.yml", FILE.replace("region: us-east-1\n", ""), {}, "region: missing. Specify a value, for example region: us-east-1."),
        ("nodes.yml", FILE + "privatekey_file: x\n", {}, "'privatekey_file' is not an option of deeplearning.cluster.nodes. Did you mean"),
        (
            "nodes.yml",
            FILE.replace("region", "regoin"),
            {},
            "'regoin' is not an option of deeplearning.cluster.nodes. Did you mean 'region'?",
        ),
        ("nodes.yml", FILE + "login_user: x\n", {}, "'login_user' is not an option of deeplearning.cluster.nodes. Did you mean 'user'?"),
        ("other.yml", FILE, NO_CREDENTIALS, "No AWS credentials found. Set AWS_PROFILE"),
        ("nodes.yml", FILE, NO_CREDENTIALS, "No AWS credentials found. Set AWS_PROFILE"),
        ("nodes.yml", FILE, NO_ENDPOINT, "Cannot list the nodes of cluster demo in us-east-1: Could not connect"),
    ],
)
def test_in_the_project_of_the_readme_the_cause_is_the_only_line(
    run: Run, repository: Path, tmp_path: Path, file: str, content: str, environment: dict[str, str], cause: str
) -> None:
    (configuration,) = re.findall(r"^```ini\n(.*?)^```", (repository / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    status, lines = run("status", configuration, file, content, **environment)
    assert status != 0
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"[ERROR]: {tmp_path / file}: {cause}")


@pytest.mark.parametrize("playbook", ["status", "destroy", "train"])
def test_without_that_configuration_the_cause_is_the_last_message(run: Run, tmp_path: Path, playbook: str) -> None:
    status, lines = run(playbook, "[defaults]\ninject_facts_as_vars = false\n", "nodes.yml", FILE, **NO_CREDENTIALS)
    output = "\n".join(lines)
    assert status != 0
    assert f"The inventory cannot be read. {tmp_path / 'nodes.yml'}: No AWS credentials found." in output[output.rindex("TASK [") :]
    assert "has no nodes" not in output
    assert "[WARNING]: Failed to parse" in output, "the configuration in the README prevents this message"


def test_an_operator_without_permission_sees_which_policies_to_attach(run: Run, repository: Path, cloud: LocalCloud) -> None:
    (configuration,) = re.findall(r"^```ini\n(.*?)^```", (repository / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    status, lines = run("status", configuration, "nodes.yml", FILE, **cloud.operator("visitor"))
    assert (status != 0, len(lines)) == (True, 1), lines
    assert "ec2:DescribeInstances" in lines[0]
    assert lines[0].endswith("Attach the policies from docs/permissions.md to this identity, or use other credentials.")
