"""The node image and the environments are built once, with the machine's package settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from local_cloud.hosts.podman import Podman
from local_cloud.image.builder import IMAGE_FILES, INPUTS_LABEL, digest, environment, machine_settings, node_image, pip_configuration
from local_cloud.testing import bare_hosts


@pytest.fixture
def podman(tmp_path: Path) -> Podman:
    podman = Podman(tmp_path / "containers.conf")
    podman.write_configuration()
    return podman


def test_second_build_builds_nothing(podman: Podman) -> None:
    name = node_image(podman)
    podman.configure(name)
    environment(podman, name, "pytorch")
    steps: list[str] = []
    assert node_image(podman, steps.append) == name
    assert environment(podman, name, "pytorch", steps.append).is_dir()
    assert steps == []


def test_image_says_what_it_was_built_from(podman: Podman) -> None:
    name = node_image(podman)
    assert podman("image", "inspect", name, f'--format={{{{index .Labels "{INPUTS_LABEL}"}}}}').strip() == digest(IMAGE_FILES)


def test_image_has_the_clients_of_the_file_systems(podman: Podman) -> None:
    helpers = [f"/sbin/mount.{kind}" for kind in ("nfs", "nfs4", "efs", "lustre", "mount-s3")]
    podman.configure(node_image(podman))
    podman("run", "--rm", "--network=none", node_image(podman), "sh", "-c", " && ".join(f"test -x {helper}" for helper in helpers))


def test_digest_covers_files_and_folders() -> None:
    assert len({digest(IMAGE_FILES), digest(("Containerfile",)), digest(("files",))}) == 3


@pytest.mark.exhaustive
def test_hosts_have_pytorch(tmp_path: Path) -> None:
    with bare_hosts(tmp_path, 1, environments=["pytorch"]) as (_runtime, (host,)):
        code = "import sklearn, tensorboard, torch; print(torch.ones(3).sum().item(), torch.distributed.is_gloo_available())"
        assert host.ssh(f"/opt/pytorch/bin/python -c '{code}'").stdout == "3.0 True\n"
        assert host.ssh("sudo touch /opt/pytorch/file", check=False).returncode != 0


def test_pip_settings_go_into_the_build_with_the_folders_they_name(tmp_path: Path) -> None:
    wheels, index = tmp_path / "wheels", tmp_path / "index" / "simple"
    wheels.mkdir()
    index.mkdir(parents=True)
    listed = "\n".join(
        [
            f"global.find-links='{wheels} https://example.com/wheels'",
            f"global.extra-index-url='\\nfile://{index}'",
            "global.timeout='15'",
            ":env:.timeout='60'",
            "install.no-compile='true'",
            "global.cert='/does/not/exist'",
        ]
    )
    text, folders = pip_configuration(listed)
    assert folders == [str(index.parent), str(wheels)]
    assert text.splitlines() == [
        "[global]",
        f"find-links = {wheels} https://example.com/wheels",
        f"extra-index-url = file://{index}",
        "timeout = 60",
        "cert = /does/not/exist",
        "[install]",
        "no-compile = true",
    ]


def test_hosts_install_packages_as_this_machine_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wheels").mkdir()
    for name in ("ca.crt", "bundle.crt"):
        (tmp_path / name).touch()
    (tmp_path / "machine.conf").write_text(
        f"[global]\nfind-links = {tmp_path}/wheels\ntarget = {tmp_path}\n[install]\ncert = {tmp_path}/ca.crt\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "machine.conf"))
    monkeypatch.setenv("PIP_TIMEOUT", "7")
    files = machine_settings(tmp_path / "pip.conf", str(tmp_path / "bundle.crt"))
    assert files[str(tmp_path / "bundle.crt")] == "/etc/ssl/certs/ca-certificates.crt"
    assert files[str(tmp_path / "pip.conf")] == "/etc/pip.conf"
    assert files[str(tmp_path / "wheels")] == str(tmp_path / "wheels")
    assert files[str(tmp_path / "ca.crt")] == str(tmp_path / "ca.crt")
    settings = (tmp_path / "pip.conf").read_text()
    assert f"find-links = {tmp_path}/wheels\n" in settings
    assert "timeout = 7\n" in settings
    assert "target" not in settings
