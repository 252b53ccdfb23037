"""Descriptions of mounts for the tests in this folder."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mounts

SOURCE = "fs-1.efs.us-east-1.amazonaws.com:/"
ENTRY = f"{SOURCE} /efs nfs4 nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,nosuid,nodev,_netdev,nofail 0 0"
LUSTRE_SOURCE = "fs-2.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh"
PLAIN = mounts.efs("fs-1", "us-east-1", "/efs", encrypted=False)
EITHER = mounts.efs("fs-1", "us-east-1", "/efs")
TLS = mounts.efs("fs-1", "us-east-1", "/efs", encrypted=True)
POINT = mounts.efs("fs-1", "us-east-1", "/efs", access_point="fsap-1")
LUSTRE = mounts.lustre(LUSTRE_SOURCE, "/fsx")
BUCKET = mounts.bucket("s3://sets/images", "/data")
