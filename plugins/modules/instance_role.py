#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_role
version_added: 0.1.0
short_description: What the nodes of a training cluster may do in AWS
description:
  - An IAM role with the least rights that nodes need, and the instance profile that carries it.
extends_documentation_fragment:
  - deeplearning.cluster.provisioning
  - deeplearning.cluster.provisioning.instance_role
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Nodes may read the data and write the results
  deeplearning.cluster.instance_role:
    cluster: bert
    region: us-east-1
    read_buckets: [my-datasets]
    write_buckets: [my-results]

- name: Nodes may be reached by Session Manager
  deeplearning.cluster.instance_role:
    cluster: bert
    region: us-east-1
    session_manager: true
"""

RETURN = r"""
changes:
  description: What was changed, or would be, in the order of the plan.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the resource.
      type: str
      sample: subnet
    key:
      description: Which resource of its kind.
      type: str
      sample: private-us-east-1a
    action:
      description: C(create), C(update) or C(delete).
      type: str
      sample: create
    policy:
      description:
        - C(in_place), or C(replace) for an update that nodes are replaced for.
      type: str
      sample: in_place
    before:
      description: The properties that differ, as they were.
      type: dict
    after:
      description: The properties that differ, as they are now.
      type: dict
resources:
  description: Ids of the cluster's resources by kind and key; in check mode as they would be.
  returned: success
  type: dict
  sample: {"vpc": {"main": "vpc-0123456789abcdef0"}}
kept:
  description: Ids of data that belongs to the cluster and was not deleted.
  returned: when not in check mode
  type: list
  elements: str
"""

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role.component import INSTANCE_ROLE
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import argument_spec
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import provisioning


def main() -> None:
    provisioning.run(argument_spec("instance_role"), [INSTANCE_ROLE])


if __name__ == "__main__":
    main()
