# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Generates the IAM policies of the playbooks."""

from __future__ import annotations

DOCUMENTATION = r"""
name: iam_policies
version_added: 0.2.0
short_description: Generates the IAM policies of the playbooks
description:
  - Returns the policies with the least permissions that operators need for each playbook. The lookup makes no API calls.
  - A policy that is too long for AWS is divided into parts, and an identity needs all parts.
options:
  _terms:
    description: Name of the cluster, or a pattern. C(speech-*) covers all clusters whose names begin with C(speech-).
    required: true
  adopt:
    description: ARNs of resources that the definition specifies and that the cluster does not own.
    type: list
    elements: str
    default: []
  permissions_boundary:
    description: ARN of the permissions boundary that the role of the nodes must have.
    type: str
    default: ""
  partition:
    description: Partition of the account.
    type: str
    choices: [aws, aws-cn, aws-eusc, aws-us-gov]
    default: aws
  region:
    description: The only region that the policies allow. By default, the policies allow all regions.
    type: str
    default: ""
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show the policies of the playbook train for the cluster bert
  ansible.builtin.debug:
    msg: "{{ lookup('deeplearning.cluster.iam_policies', 'bert') | dict2items | selectattr('key', 'match', 'train') }}"
"""

RETURN = r"""
_raw:
  description: The policies, keyed by name.
  type: dict
  sample:
    status:
      Version: "2012-10-17"
      Statement:
        - Sid: Read
          Effect: Allow
          Action: ["ec2:DescribeInstances"]
          Resource: "*"
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ..plugin_utils.iam_account import Account
from ..plugin_utils.iam_policy_files import policies


class LookupModule(LookupBase):
    def run(self, terms: Sequence[Any], variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return the policies, keyed by name, for each term."""
        self.set_options(var_options=variables, direct=kwargs)
        if not all(isinstance(term, str) and term for term in terms):
            raise AnsibleError("iam_policies: the name of the cluster is missing. Specify a name, or a pattern such as 'speech-*'.")
        return [
            policies(
                Account(
                    term,
                    self.get_option("partition"),
                    self.get_option("permissions_boundary"),
                    tuple(self.get_option("adopt")),
                    self.get_option("region"),
                )
            )
            for term in terms
        ]
