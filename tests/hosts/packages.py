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

# The clients of shared storage in the repositories of Amazon Linux 2023, and the mount helper in each package.
RPM_CLIENTS = {"nfs-utils": "mount.nfs4", "amazon-efs-utils": "mount.efs", "lustre-client": "mount.lustre"}
# Downloads dnf, with all packages that it needs, and creates an rpm repository with `greeting` and with the clients. A client's package
# contains a link to the node image's own mount helper, which the host moves to /srv/clients.
RPM_REPOSITORY = """
set -e
export DEBIAN_FRONTEND=noninteractive
cd /repository
mkdir debs rpms
apt-get update -q
apt-get install -y -q --no-install-recommends --download-only dnf python3-dnf rpm
cp /var/cache/apt/archives/*.deb debs
apt-get install -y -q --no-install-recommends rpm createrepo-c
package() { # name, path of its only file, content of the file or target of the link
  {
    printf 'Name: %s\\nVersion: 1\\nRelease: 1\\nSummary: a test\\nLicense: MIT\\nBuildArch: noarch\\nAutoReqProv: no\\n' "$1"
    printf '%%description\\na test\\n%%install\\nmkdir -p %%{buildroot}%s\\n' "${2%/*}"
    case $3 in /*) echo "ln -s $3 %{buildroot}$2" ;; *) echo "echo $3 >%{buildroot}$2" ;; esac
    printf '%%files\\n%s\\n' "$2"
  } >"/tmp/$1.spec"
  rpmbuild --quiet -bb --define '_rpmdir /repository/rpms' --define 'debug_package %{nil}' "/tmp/$1.spec"
}
package greeting /usr/local/share/greeting hello
for each in "$@"; do package "${each%=*}" "/usr/sbin/${each#*=}" "/srv/clients/${each#*=}"; done
createrepo_c --quiet rpms
"""
# Makes a host that is booting look like Amazon Linux 2023: the distribution's name, and dnf and rpm with one repository in place of apt and
# dpkg. Removes the clients of shared storage, the queues and the user of the node image.
BECOME_AMAZON = """
set -e
dpkg --install {repository}/debs/*.deb
mkdir -p /etc/yum.repos.d /etc/dnf/vars /etc/rpm
printf '[test]\\nname=test\\nbaseurl=file://{repository}/rpms\\ngpgcheck=0\\n' >/etc/yum.repos.d/test.repo
echo 2023 >/etc/dnf/vars/releasever
echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros.database # Debian's default is a directory in the user's home directory
sed -i /apt-configure/d /etc/cloud/cloud.cfg.d/*.cfg
userdel --remove ubuntu
mkdir /srv/clients
mv /usr/local/sbin/mount.* /srv/clients
rm -f /usr/sbin/mount.* /usr/sbin/slurm* /usr/lib/gridengine/sge_* /usr/bin/apt* /usr/bin/dpkg* /etc/debian_version /etc/os-release
echo 'Amazon Linux release 2023.6.20241010 (Amazon Linux)' >/etc/system-release
cat >/etc/os-release <<'END'
NAME="Amazon Linux"
VERSION="2023"
ID="amzn"
ID_LIKE="fedora"
VERSION_ID="2023"
PLATFORM_ID="platform:al2023"
PRETTY_NAME="Amazon Linux 2023.6.20241010"
END
"""


def amazon_linux(folder: Path) -> dict[str, object]:
    """Return the cloud-config of hosts that look like Amazon Linux 2023. `folder` is the folder of the bare hosts."""
    repository = folder / "file-systems" / "amazon-linux"
    repository.mkdir(parents=True)
    podman = Podman(folder / "containers.conf")
    podman.write_configuration()
    podman(
        *("run", "--rm", "--network=host", f"--label={LABEL}=build", f"--volume={repository}:/repository"),
        *(node_image(podman), "sh", "-c", RPM_REPOSITORY, "sh", *(f"{name}={helper}" for name, helper in RPM_CLIENTS.items())),
        timeout=900,
    )
    script = BECOME_AMAZON.format(repository=Path(FileSystems.MOUNTED_AT) / repository.name)
    return {"bootcmd": [["sh", "-c", script]], "user": {"name": "ec2-user"}}


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
