#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: dataset_bucket
version_added: 0.1.0
short_description: Manages an S3 bucket for data sets
description:
  - Creates a bucket that blocks public access, encrypts its objects, and rejects requests without TLS.
  - If the tag C(deeplearning:cluster) of an existing bucket is not set to this cluster's name, the bucket is used but not changed.
  - A bucket of another AWS account is refused, because anyone can create a bucket with the name and the tags that a cluster will use.
  - Buckets are never deleted.
options:
  bucket:
    description: Name of the bucket.
    type: str
    required: true
  cluster:
    description: Name of the cluster to which the bucket belongs. Other clusters can also use the bucket.
    type: str
    required: true
  kms_key_id:
    description:
      - ID or ARN of a KMS key that encrypts new objects. By default, new objects are encrypted with Amazon S3 managed keys (SSE-S3).
      - The key policy must allow the nodes' role to use the key.
    type: str
  tags:
    description: Additional tags of the bucket.
    type: dict
    default: {}
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
attributes:
  check_mode:
    description: Predicts the changes.
    support: full
  diff_mode:
    description: Shows the properties that differ.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Create a bucket for the data of a cluster
  deeplearning.cluster.dataset_bucket:
    bucket: bert-data-123456789012
    cluster: bert
    region: us-east-1
"""

RETURN = r"""
changes:
  description: The changes that the run made, or would make in check mode.
  returned: success
  type: list
  elements: dict
  sample: [{"kind": "bucket", "key": "data", "action": "create", "policy": "in_place", "before": {}, "after": {"name": "bert-data"}}]
adopted:
  description: V(true) if the bucket does not belong to this cluster and was therefore not changed.
  returned: success
  type: bool
"""

from ..module_utils._aws.client import SDK_ERRORS, AnsibleAWSModule, AwsClient, ClusterError
from ..module_utils._aws.dataset_bucket import bucket
from ..module_utils._aws.error_messages import fail
from ..module_utils._aws.plan.errors import ApplyError, ForbiddenChange
from ..module_utils._aws.plan.execute import apply_plan
from ..module_utils._aws.plan.planning import make_plan
from ..module_utils._aws.validators import definition

ARGUMENTS = {
    "bucket": {"type": "str", "required": True},
    "cluster": {"type": "str", "required": True},
    "kms_key_id": {"type": "str"},
    "tags": {"type": "dict", "default": {}},
}


def main() -> None:
    module = AnsibleAWSModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    name = module.params["bucket"]
    try:
        findings = [*definition.check_cluster_name(module.params["cluster"]), *definition.check_buckets("bucket", [name])]
        if findings:
            raise ClusterError(" ".join(findings))
        cloud = AwsClient(module, module.params["cluster"], tags={key: str(value) for key, value in module.params["tags"].items()})
        found = bucket.read(cloud, name)
        tags = cloud.tags(bucket.NAME, bucket.BUCKET.key, name)
        plan = make_plan([bucket.wanted(name, cloud.region, module.params["kms_key_id"], tags)], found, bucket.KINDS)
        if not module.check_mode:
            apply_plan(cloud, plan, found, bucket.KINDS)
    except (ClusterError, *SDK_ERRORS, ApplyError, ForbiddenChange) as error:
        fail(module, error)
    module.exit_json(
        changed=bool(plan),
        changes=[change.describe() for change in plan],
        diff=[change.difference() for change in plan],
        adopted=any(item.adopted for item in found),
    )


if __name__ == "__main__":
    main()
