#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: idle_hold
version_added: 0.2.0
short_description: Keeps nodes that look idle
description:
  - If a cluster has the option O(deeplearning.cluster.cluster#module:idle_after), AWS terminates its nodes when they are idle. As long as
    the cluster has a hold, AWS keeps the nodes, whatever they report. A hold ends by itself.
  - A hold is a tag of the function that looks for idle nodes. The nodes themselves cannot set it.
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  name:
    description:
      - Name of the hold. Each job, person or program uses its own name, so that it changes only its own hold. By default, a new hold with
        a name of its own begins.
      - Up to 64 ASCII letters, digits and C(_.@+-).
    type: str
  seconds:
    description: Number of seconds from now for which the hold lasts. A hold that already lasts longer is shortened. V(0) ends the hold.
    type: int
  duration:
    description: The same as a text such as V(4h) or V(1d12h). Required without O(seconds).
    type: str
  missing_ok:
    description: Whether a hold for a cluster whose idle nodes AWS does not end is a success. If false, only V(seconds=0) is.
    type: bool
    default: false
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
attributes:
  check_mode:
    description: In check mode, holds stay as they are.
    support: full
  diff_mode:
    description: The module reports no changes.
    support: none
  idempotent:
    description: Each run lets the hold last from now. The module reports no change, because the definition has not changed.
    support: none
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Keep the nodes for the next 4 hours
  deeplearning.cluster.idle_hold:
    cluster: bert
    region: us-east-1
    name: evaluation
    duration: 4h

- name: Let AWS terminate the nodes when they are idle
  deeplearning.cluster.idle_hold:
    cluster: bert
    region: us-east-1
    name: evaluation
    seconds: 0
"""

RETURN = r"""
name:
  description: Name of the hold.
  returned: success
  type: str
  sample: evaluation
holds:
  description: The end of each hold, by its name. Null if AWS does not look for idle nodes.
  returned: success
  type: dict
  sample:
    evaluation: "2026-12-01T18:00:00Z"
"""

from datetime import timedelta

from ..module_utils._aws.client import SDK_ERRORS, AnsibleAWSModule, AwsClient, ClusterError
from ..module_utils._aws.error_messages import fail
from ..module_utils._aws.idle import holds
from ..module_utils._aws.idle.resources import read_function
from ..module_utils._aws.lease.definition import duration


def main() -> None:
    module = AnsibleAWSModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "name": {"type": "str"},
            "seconds": {"type": "int"},
            "duration": {"type": "str"},
            "missing_ok": {"type": "bool", "default": False},
        },
        mutually_exclusive=[("seconds", "duration")],
        required_one_of=[("seconds", "duration")],
        supports_check_mode=True,
    )
    try:
        cloud = AwsClient(module, module.params["cluster"])
        name = module.params["name"] or cloud.run_id
        given, missing_ok = module.params["duration"], module.params["missing_ok"]
        lasts = timedelta(seconds=module.params["seconds"] or 0) if given is None else duration(given)
        if lasts is None:
            raise ClusterError(f"duration: {given!r} is not a duration such as 4h or 1d12h. Correct it.")
        found = holds.hold(cloud, read_function(cloud), name, lasts, missing_ok=missing_ok)
    except (ClusterError, *SDK_ERRORS) as error:
        fail(module, error)
    module.exit_json(changed=False, name=name, holds=found)


if __name__ == "__main__":
    main()
