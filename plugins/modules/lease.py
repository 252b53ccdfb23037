#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lease
version_added: 0.2.0
short_description: Prolongs the lease of a cluster's nodes
description:
  - At the end of a lease, AWS terminates the nodes of a cluster. M(deeplearning.cluster.cluster) begins and changes the lease.
  - This module lets a lease with a duration end later, if less than half of it is left. It neither begins a lease, nor prolongs one that
    has ended or that differs from O(lease). It reports no change, because the definition has not changed.
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  lease:
    description: The lease in the cluster's definition, such as V(8h). A lease with a fixed end is not prolonged.
    type: str
    required: true
  minimum:
    description: Number of seconds that must be left. The lease is prolonged if less is left, even if it is more than half.
    type: int
    default: 0
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
attributes:
  check_mode:
    description: In check mode, the end is only predicted.
    support: full
  diff_mode:
    description: The module reports no changes.
    support: none
  idempotent:
    description: A lease of which enough is left stays as it is.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Prolong the lease if less than 4 hours are left
  deeplearning.cluster.lease:
    cluster: bert
    region: us-east-1
    lease: 8h
"""

RETURN = r"""
lease:
  description: The lease of the nodes. Null without a lease.
  returned: success
  type: dict
  contains:
    end:
      description: When AWS terminates the nodes, or has terminated them.
      type: str
      sample: "2026-12-01T18:00:00Z"
    seconds:
      description: Number of seconds until then. Negative after the end.
      type: float
      sample: 28800
    former_end:
      description: If this run has prolonged the lease, when it would have ended. Otherwise null.
      type: str
      sample: "2026-12-01T14:00:00Z"
    fixed:
      description: Whether the definition specifies the end, which no run then prolongs.
      type: bool
    longer:
      description: Whether more is left than the duration in the definition, because a job needs it.
      type: bool
"""

from datetime import timedelta

from ..module_utils._aws.client import SDK_ERRORS, AnsibleAWSModule, AwsClient, ClusterError
from ..module_utils._aws.component import Request
from ..module_utils._aws.error_messages import fail
from ..module_utils._aws.lease import resources
from ..module_utils._aws.lease.component import describe, prolong


def main() -> None:
    module = AnsibleAWSModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "lease": {"type": "str", "required": True},
            "minimum": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    try:
        cloud = AwsClient(module, module.params["cluster"])
        lease, least, writes = module.params["lease"], timedelta(seconds=module.params["minimum"]), not module.check_mode
        found = [prolong(cloud, lease, each, least, writes=writes) for each in resources.read(cloud)]
    except ValueError as error:
        module.fail_json(msg=f"lease: {error}.")
    except (ClusterError, *SDK_ERRORS) as error:
        fail(module, error)
    result = describe(Request(cloud, {}), found)
    if result is None:
        module.warn(f"lease: cluster {cloud.cluster} has no lease. To begin one, run the playbook provision.")
    module.exit_json(changed=False, lease=result)


if __name__ == "__main__":
    main()
