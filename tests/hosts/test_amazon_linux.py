"""The roles on hosts that look like Amazon Linux 2023: the distribution's name, the login user, and dnf with a real rpm repository.

Amazon's own packages are not used, so these tests cover what the collection does on Amazon Linux, but not Amazon's versions of programs.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import boot, mounts
from local_cloud.testing import bare_hosts, wait_until

from .packages import RPM_CLIENTS, amazon_linux
from .project import FILE_SYSTEM, REGION, Project, changes

pytestmark = pytest.mark.exhaustive

EFS = mounts.efs(FILE_SYSTEM, REGION, "/efs")
LUSTRE = "fs-0123456789abcdef1"
LUSTRE_SERVER = f"{LUSTRE}.fsx.{REGION}.amazonaws.com"
USER = "ec2-user"
ROLES = ("ssh_trust", "shared_storage", "worker_metadata", "node_setup")
RANKS = """
import torch.distributed as dist
dist.init_process_group("gloo")
print(f"rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
"""
STEPS = {"node_setup_steps": [{"packages": ["greeting"]}]}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Two hosts to which the roles have been applied."""
    folder = tmp_path_factory.mktemp("amazon")
    config = {**amazon_linux(folder), **boot.cloud_config([EFS], USER)}
    with bare_hosts(folder, 2, b"#cloud-config\n" + json.dumps(config).encode(), ["pytorch"]) as (runtime, hosts):
        project = Project(folder, runtime, [dataclasses.replace(host, user=USER) for host in hosts])
        runtime.export(FILE_SYSTEM, [EFS.source.split(":", maxsplit=1)[0]])
        unit = "systemctl is-active deeplearning-shared-storage"
        wait_until(lambda: all(host.ssh(unit, check=False).stdout == "active\n" for host in project.hosts))
        yield project


def installed(project: Project, number: int) -> list[str]:
    """Return the rpm packages of a host."""
    return sorted(project.hosts[number - 1].ssh("rpm --query --all --queryformat '%{NAME}\\n'").stdout.split())


def test_the_boot_script_installs_the_client_and_the_login_user_owns_the_storage(project: Project) -> None:
    assert installed(project, 1) == ["nfs-utils"]
    for host in project.hosts:
        assert host.ssh("id --name --user && stat -c '%U %u' /efs && mountpoint -q /efs && touch /efs/$(hostname)").stdout == (
            f"{USER}\n{USER} 1000\n"
        )
    assert project.hosts[0].ssh("cat /etc/fstab").stdout.splitlines()[-1] == EFS.entry, "the host has no client for TLS"


def test_the_roles_converge(project: Project) -> None:
    project.write(2, **STEPS)
    done = changes(project.play(*ROLES))
    assert min(done.values()) > 0
    assert installed(project, 2) == ["greeting", "nfs-utils"]
    assert set(changes(project.play(*ROLES)).values()) == {0}
    shown = project.hosts[1].ssh("echo $DEEPLEARNING_WORKERS_COUNT $EFS_MOUNT; ssh deeplearning-master 'id --name --user; hostname'")
    assert shown.stdout == f"2 /efs\n{USER}\n{project.name(1)}\n"


def test_the_role_installs_each_client_with_dnf(project: Project) -> None:
    host = project.hosts[0]
    host.ssh("sudo umount /efs && sudo dnf remove --assumeyes --quiet nfs-utils")
    project.runtime.export(LUSTRE, [f"{LUSTRE_SERVER}@tcp:abcdefgh"])
    for variables in (
        {},
        {"deeplearning_encrypt_in_transit": True, "deeplearning_mount_point": "/tls"},
        {"deeplearning_lustre_source": f"{LUSTRE_SERVER}@tcp:/abcdefgh"},
    ):
        project.write(1, **variables)
        assert changes(project.play("shared_storage"))[project.name(1)] > 0
    assert installed(project, 1) == sorted([*RPM_CLIENTS, "greeting"])
    host.ssh("mountpoint -q /efs && mountpoint -q /tls && mountpoint -q /fsx && touch /tls/a /fsx/a && test -e /efs/a")
    project.write(2)


@pytest.mark.parametrize(("role", "title"), [("slurm", "Slurm"), ("sge", "Grid Engine")])
def test_queues_are_refused(project: Project, role: str, title: str) -> None:
    project.write(2)
    done = project.play(role, check=False)
    assert f"the repositories of Amazon Linux 2023.6.20241010 do not contain {title}" in done.stdout, done.stdout


def test_a_job_trains_on_both_hosts(project: Project) -> None:
    project.write(2, **STEPS)
    project.play(*ROLES)
    (project.folder / "ranks.py").write_text(RANKS)
    options = {"name": "ranks", "script": str(project.folder / "ranks.py"), "launcher": "torchrun", "health_check": False, "report": False}
    given = json.dumps({f"training_job_{key}": value for key, value in options.items()})
    done = project.play("training_job", arguments=("-e", given))
    assert "job ranks succeeded" in done.stdout
    shown = project.run("deeplearning.cluster.logs", ("-e", "training_job_name=ranks")).stdout
    assert all(f"rank {rank} of 2" in shown for rank in range(2)), shown
