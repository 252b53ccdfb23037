#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: idle_reports
version_added: 0.2.0
short_description: Lets a host report on its console whether it is idle
description:
  - Runs on the host. Installs a timer of systemd that looks every minute whether anything runs on the host, and that prints a line on the
    serial console when the host becomes idle or is in use again. While the host is idle, the line is repeated every 10 minutes.
  - With the option O(deeplearning.cluster.cluster#module:idle_after), AWS reads these lines. A host that prints none counts as in use.
  - A host is in use while a job, an export or a set-up step runs, while a job of Slurm or SGE holds the host, while somebody types, while a
    GPU computes, and while processes of users, containers, or services in C(/etc/systemd/system) use at least 1 % of a processor or wait
    for storage. Daemons of the system do not count.
  - The file C(/run/deeplearning-idle.json) and C(journalctl -u deeplearning_idle) say why the host is in use.
options:
  state:
    description: V(absent) removes the timer.
    type: str
    choices: [present, absent]
    default: present
  emr:
    description:
      - On a node of an EMR cluster, whether the node is the master. EMR looks itself whether a cluster is idle, but does not see processes
        outside of YARN. While the node is in use, it touches the file C(/emr/metricscollector/isbusy) of the master every minute. Nodes
        other than the master log in to it over SSH.
      - On these nodes, services in C(/etc/systemd/system) do not count, because they are those of EMR and Hadoop.
    type: str
    choices: [master, worker]
attributes:
  check_mode:
    description: Predicts the changes without writing anything.
    support: full
  diff_mode:
    description: Shows the differences.
    support: full
  idempotent:
    description: A host that has the timer is not changed.
    support: full
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Let the host report whether it is idle
  deeplearning.cluster.idle_reports:
  become: true
"""

RETURN = r"""{}"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.idle_reports.service import converge
from ..module_utils._hosts.services import ServiceError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "emr": {"type": "str", "choices": ["master", "worker"]},
        },
        supports_check_mode=True,
    )
    try:
        changes = converge(module, module.params["state"] == "present", module.params["emr"] or "")
    except (KeyError, OSError, ServiceError, ValueError) as error:
        module.fail_json(msg=f"idle_reports: {error}")
    module.exit_json(changed=bool(changes), diff=changes)


if __name__ == "__main__":
    main()
