# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Explains why a mount command has failed."""

from __future__ import annotations

import re

from .mounts import FstabMount

# The log of the EFS mount helper, which contains errors of TLS that mount(8) does not report.
HELPER_LOG = "/var/log/amazon/efs/mount.log"


def explain(output: str, storage: FstabMount) -> str:
    """Return why a mount command failed with `output`, and what to do about it."""
    # A traceback of a mount helper ends with the cause.
    said = output.strip()
    reported = f"mount reports: {said.splitlines()[-1] if 'Traceback (most recent call last)' in said else said or 'nothing'}"
    end = f". See {HELPER_LOG} on this host." if storage.kind == "efs" else "."
    if storage.kind == "mount-s3" and not re.search(r"unknown filesystem type", output):
        return f"the nodes' IAM role must be allowed to list and read the bucket, and a private subnet needs a route to S3. {reported}"
    server = re.split("[:@]", storage.source)[0]
    if re.search(r"resolve|Name or service not known|Temporary failure in name|Can't parse NID", output):
        return (
            f"this host cannot resolve {server}. For EFS, check that there is a mount target in this zone and VPC, that the ID and the"
            " region are correct, and that DNS support and DNS hostnames are enabled in the VPC."
        )
    if re.search(r"timed? ?out|status (124|137)|Input/output error", output, re.IGNORECASE):
        ports = storage.client.ports
        return f"{server} does not respond. The storage's security group must allow connections from this host to {ports}{end}"
    if re.search(r"access denied|Permission denied|Operation not permitted", output, re.IGNORECASE):
        return f"{server} denies this host access. {_permission_advice(storage)}"
    if re.search(r"No such device|unknown filesystem type|bad option; for several filesystems", output):
        return storage.client.advice
    if storage.client.mismatch and re.search(r"Invalid argument|Protocol not supported", output):
        return f"{storage.client.mismatch} {reported}"
    return reported.rstrip(".") + end


def _permission_advice(storage: FstabMount) -> str:
    if storage.kind == "efs":
        means = f"through access point {storage.access_point}" if storage.access_point else "over TLS"
        return f"The file system's policy must allow clients without an IAM identity to connect {means}."
    return (
        "Check the file system's policy: plain NFS is anonymous and not encrypted in transit. If that policy requires TLS, install "
        "amazon-efs-utils on the host, and do not set encrypt_in_transit to false."
    )
