"""A script that provides a host with a package to install."""

from __future__ import annotations

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
