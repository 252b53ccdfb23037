#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: munge_key
version_added: 0.2.0
short_description: Distributes the MUNGE key of a cluster that has a queue
description:
  - Runs on the host. Without O(key), creates the cluster's MUNGE key if the host has none, and returns the key. With O(key), writes this
    key.
  - Runs C(munged) with the key. Only C(munged) and root can read the key, which is in C(/etc/munge/deeplearning.key). The key of the
    distribution's package is not used.
  - The result contains the key, so set C(no_log) on the task. Diffs show only a digest of the key.
options:
  key:
    description: The key that another host returned as RV(key).
    type: str
  replace:
    description: Whether to replace an existing key with a new one. Ignored with O(key).
    type: bool
    default: false
  state:
    description: V(absent) removes the key and stops C(munged).
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Predicts the changes without writing anything. A new key is not created.
    support: full
  diff_mode:
    description: Shows the differences, with digests instead of keys.
    support: full
  idempotent:
    description: A host that has the key is not changed, except with O(replace=true).
    support: partial
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
seealso:
  - module: deeplearning.cluster.sge
  - module: deeplearning.cluster.slurm
"""

EXAMPLES = r"""
- name: Create the key on the master
  deeplearning.cluster.munge_key:
  become: true
  register: master
  no_log: true
"""

RETURN = r"""
key:
  description: The key, encoded in base64. Absent in check mode if the host has no key yet.
  returned: with O(state=present)
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.munge.key import encode, ensure_key, ensure_no_key
from ..module_utils._hosts.services import ServiceError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "key": {"type": "str", "no_log": True},
            "replace": {"type": "bool", "default": False},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    try:
        if module.params["state"] == "absent":
            diff = ensure_no_key(module)
            module.exit_json(changed=bool(diff), diff=diff)
        diff, key = ensure_key(module, module.params["key"], replace=module.params["replace"])
    except (KeyError, OSError, ServiceError, ValueError) as error:
        module.fail_json(msg=f"munge_key: {error}")
    returned = {"key": encode(key)} if key and not module.params["key"] else {}
    module.exit_json(changed=bool(diff), diff=diff, **returned)


if __name__ == "__main__":
    main()
