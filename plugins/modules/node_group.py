#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: node_group
version_added: 0.1.0
short_description: The master or the workers of a training cluster
description:
  - A launch template (IMDSv2, encrypted root volume, file system mounted at boot) and an auto scaling group over it.
  - Every node has a number that stays with its instance; the master is 1, workers follow. Fewer workers means that those with
    the highest numbers go.
  - The cluster's network and role have to exist; they are found by their tags.
extends_documentation_fragment:
  - deeplearning.cluster.provisioning
  - deeplearning.cluster.provisioning.node_group
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Four workers
  deeplearning.cluster.node_group:
    cluster: bert
    region: us-east-1
    group: workers
    instance_type: p4d.24xlarge
    worker_count: 4
    image_id: ami-0123456789abcdef0
    key_name: my-key
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
deferred:
  description: Changes that wait until nodes may be replaced, in the same form.
  returned: success
  type: list
  elements: dict
alternative:
  description: What the nodes are, where, and how they are paid.
  returned: success
  type: str
  sample: p4d.24xlarge in us-east-1a (on-demand)
degraded:
  description: With how many workers the cluster was accepted, when these are fewer than wanted.
  returned: success
  type: dict
  contains:
    workers:
      description: Workers that there are.
      type: int
    wanted:
      description: Workers that the definition wants.
      type: int
    reason:
      description: What AWS said, in the run that met the shortage.
      type: str
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

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.component import NODE_GROUP
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import argument_spec
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import provisioning


def main() -> None:
    provisioning.run(argument_spec("node_group"), [NODE_GROUP])


if __name__ == "__main__":
    main()
