"""Tests of the packages that a host lacks, and of the distributions that contain them."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.queue import packages
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.services import ServiceError

AMAZON = 'ID="amzn"\nID_LIKE="fedora"\nPRETTY_NAME="Amazon Linux 2023.6"\n'


@pytest.mark.parametrize(
    ("release", "name", "has_packages"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n', "Debian GNU/Linux 12 (bookworm)", True),
        ('PRETTY_NAME="Ubuntu 24.04 LTS"\nID=ubuntu\nID_LIKE=debian\n', "Ubuntu 24.04 LTS", True),
        (AMAZON, "Amazon Linux 2023.6", False),
        ("", "this distribution", False),
    ],
)
def test_debian_and_ubuntu_have_packages(release, name, has_packages):
    assert packages.distribution(release) == (name, has_packages)


def test_packages_are_found_by_their_programs(tmp_path):
    program, other = tmp_path / "scontrol", tmp_path / "slurmctld"
    programs = {str(other): "slurmctld", str(program): "slurm-client"}
    assert packages.missing(programs) == ["slurm-client", "slurmctld"]
    program.touch(0o755)
    other.touch(0o644)
    assert packages.missing(programs) == ["slurmctld"]


def test_libraries_are_found_in_the_directory_of_any_architecture(tmp_path):
    programs = {str(tmp_path / "*" / "libpmix.so"): "libpmix-dev"}
    assert packages.missing(programs) == ["libpmix-dev"]
    (tmp_path / "x86_64-linux-gnu").mkdir()
    (tmp_path / "x86_64-linux-gnu" / "libpmix.so").touch(0o644)
    assert packages.missing(programs) == []


def test_a_distribution_without_the_packages_is_refused_unless_the_programs_exist(monkeypatch, tmp_path):
    release = tmp_path / "os-release"
    release.write_text(AMAZON)
    monkeypatch.setattr(packages, "OS_RELEASE", str(release))
    packages.check_available([], "Slurm")
    with pytest.raises(ServiceError, match=r"of Amazon Linux 2023\.6 do not contain Slurm\. .* the programs of munge, slurmd\."):
        packages.check_available(["munge", "slurmd"], "Slurm")
    release.write_text("ID=debian\n")
    packages.check_available(["munge"], "Slurm")
