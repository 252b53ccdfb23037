"""The command `local-cloud`."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from local_cloud import cli
from local_cloud.manager import CloudManager


def test_env_before_the_first_start_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--home", str(tmp_path / "none"), "env"]) == 1
    assert capsys.readouterr().err == "local-cloud: The local cloud has no address before its first start. Run `local-cloud start`.\n"
    assert not (tmp_path / "none").exists()


def test_stop_when_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stop", "--home", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "local-cloud: not running\n"


def test_a_shell_needs_a_running_cloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--home", str(tmp_path), "shell"]) == 1
    assert "The local cloud is not running" in capsys.readouterr().err


def test_the_shell_says_where_it_is_and_when_its_cloud_has_ended(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("PS1='mine> '\nPROMPT_COMMAND='echo own command'\n")

    def shell(port: int) -> str:
        environment = {**os.environ, "HOME": str(tmp_path), "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        command = ["bash", "--rcfile", str(cli.BASHRC), "-i"]
        typed = "(exit 3)\necho status $?\nexit\n"
        finished = subprocess.run(command, input=typed, env=environment, capture_output=True, text=True, check=False, timeout=300)
        return finished.stdout + finished.stderr

    ended = "The local cloud of this shell is no longer running. Leave the shell with exit."
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        running = shell(port)
    assert "(local cloud) mine> " in running
    assert "own command" in running
    assert "status 3" in running
    assert ended not in running
    assert ended in shell(port)


def test_a_new_cloud_has_the_quotas_of_a_new_account(tmp_path: Path) -> None:
    cloud = CloudManager(tmp_path)

    def vcpus(code: str) -> float:
        value: float = cloud.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"]
        return value

    try:
        assert cli.main(["--home", str(tmp_path), "start", "--no-hosts"]) == 0
        assert (vcpus("L-1216C47A"), vcpus("L-417A185B")) == (32, 0)
        request = {"ServiceCode": "ec2", "QuotaCode": "L-417A185B", "DesiredValue": 192}
        cloud.client("service-quotas").request_service_quota_increase(**request)
        cloud.stop()
        cli.main(["--home", str(tmp_path), "start"])
        assert vcpus("L-417A185B") == 192
    finally:
        cloud.destroy()
