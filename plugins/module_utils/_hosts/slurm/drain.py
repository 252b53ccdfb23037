# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Drains nodes before they are terminated, and lists the jobs that still run on them."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.files import THIS
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm import configuration
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.controller import GRES, SLURM
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.membership import REASON, parse_jobs
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.services import ask, node_states, update_node

STATES = "running,completing,suspended,configuring"


def drain(module: AnsibleModule) -> None:
    """Drain the nodes that slurmctld on this host manages, and exit the module. Raises SlurmError."""
    described = configuration.parse_nodes(THIS.read(SLURM) or "", THIS.read(GRES) or "")
    names = [name for name in module.params["nodes"] if name in described]
    if not names:
        module.exit_json(changed=False, drained=[], jobs=[], diff=[])
    states = node_states(module)
    drained = [name for name in names if name in states and "DRAIN" not in states[name].flags]
    if not module.check_mode:
        for name in drained:
            update_node(module, name, "drain", REASON)
    jobs = parse_jobs(ask(module, "squeue", "--noheader", "--format=%i", f"--states={STATES}", "--nodelist=" + ",".join(names)))
    diff = [{"before_header": f"node {name}", "after_header": f"node {name}", "before": "", "after": "drain\n"} for name in drained]
    module.exit_json(changed=bool(drained), drained=drained, jobs=sorted(set(jobs)), diff=diff)
