# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Drains nodes before they are terminated, and lists the jobs that still run on them."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

from ..._common.managed_files import THIS
from ..._common.slurm import configuration
from .commands import ask, change_state, node_states
from .controller import SLURM
from .membership import REASON, parse_jobs

STATES = "running,completing,suspended,configuring"


def drain(module: AnsibleModule) -> None:
    """Drain the nodes that slurmctld on this host manages, and exit the module. Raises SlurmError or ValueError."""
    described = configuration.parse_nodes(THIS.read(SLURM) or "")
    names = [name for name in module.params["nodes"] if name in described]
    if not names:
        module.exit_json(changed=False, drained=[], jobs=[], diff=[])
    states = node_states(module)
    drained = [name for name in names if name in states and "DRAIN" not in states[name].flags]
    diff = [difference for name in drained for difference in change_state(module, name, states[name], "drain", REASON)]
    jobs = parse_jobs(ask(module, "squeue", "--noheader", "--format=%F", f"--states={STATES}", "--nodelist=" + ",".join(names)))
    module.exit_json(changed=bool(drained), drained=drained, jobs=jobs, diff=diff)
