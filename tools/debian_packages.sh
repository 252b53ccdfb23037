#!/bin/sh
# Installs any missing Debian packages that the local cloud and the tests need.
set -eu

wanted="podman runc netavark iptables mmdebstrap debian-archive-keyring iproute2 openssh-client git python3-venv rsync"

missing=""
for package in $wanted; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
    as_root="sudo"
fi

echo "Installing Debian packages:$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of words, none with spaces
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -qq $missing >/dev/null
