"""Packages that hosts, which have no network, can install."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from local_cloud.hosts.file_systems import FileSystems
from local_cloud.hosts.podman import LABEL, Podman
from local_cloud.image.builder import node_image

from .project import Project

# Options of pip for the wheels of the hosts of the local cloud: Debian 12 with Python 3.11.
WHEELS = ["--python-version=3.11", "--implementation=cp", "--only-binary=:all:"]

# Creates the package `greeting`, in the host's only apt repository.
APT_REPOSITORY = """
set -e
mkdir -p /srv/apt/greeting/DEBIAN /srv/apt/greeting/usr/local/share
echo hello >/srv/apt/greeting/usr/local/share/greeting
printf 'Package: greeting\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: a <a@example.com>\\nDescription: a test\\n' \\
    >/srv/apt/greeting/DEBIAN/control
cd /srv/apt
dpkg-deb --build greeting greeting.deb >/dev/null
{ cat greeting/DEBIAN/control; echo Filename: ./greeting.deb; echo Size: $(stat -c %s greeting.deb)
  echo SHA256: $(sha256sum greeting.deb | cut -d' ' -f1); } >Packages
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/apt ./' >/etc/apt/sources.list.d/test.list
"""

# Downloads packages, and all packages that they need in addition to those that remain after their removal, into an apt repository.
DOWNLOAD = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get purge -y -q --auto-remove "$@"
apt-get update -q
apt-get install -y -q --no-install-recommends --download-only "$@" python3-apt
cd /repository
cp /var/cache/apt/archives/*.deb .
for file in *.deb; do
  dpkg-deb --field "$file"
  echo "Filename: ./$file"
  echo "Size: $(stat -c %s "$file")"
  echo "SHA256: $(sha256sum "$file" | cut -d' ' -f1)"
  echo
done >Packages
"""

# Removes packages, and makes the repository with the same packages the host's only one. Images on AWS contain python3-apt, which Ansible
# needs.
PURGE = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get purge -y -q --auto-remove {packages}
cp -r {repository} /srv/apt
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/apt ./' >/etc/apt/sources.list.d/test.list
apt-get update -q
apt-get install -y -q python3-apt
"""


def download(folder: Path, *arguments: str) -> None:
    """Download Python packages with pip, unless the folder already contains them."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", f"--dest={folder}", f"--find-links={folder}", *arguments]
    subprocess.run(command, check=True, timeout=5400)


def purge(project: Project, hosts: Sequence[int], packages: Sequence[str]) -> None:
    """Remove packages from the hosts with these numbers, so that they look like hosts on AWS, which can install the packages again."""
    repository = project.folder / "file-systems" / "repository"
    if not repository.exists():
        repository.mkdir()
        podman = Podman(project.folder / "containers.conf")
        podman(
            *("run", "--rm", "--network=host", f"--label={LABEL}=build", f"--volume={repository}:/repository"),
            *(node_image(podman), "sh", "-c", DOWNLOAD, "sh", *packages),
            timeout=900,
        )
    script = PURGE.format(packages=" ".join(packages), repository=Path(FileSystems.MOUNTED_AT) / repository.name)
    for number in hosts:
        project.hosts[number - 1].ssh(f"sudo sh <<'END'\n{script}END", timeout=900)
