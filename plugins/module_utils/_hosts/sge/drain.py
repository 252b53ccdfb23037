# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Drains nodes before they are terminated, and lists the jobs that still run on them."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule

from ..._common.sge import configuration
from ..._common.sge.configuration import SgeObject
from ..._queues.sge import GROUP
from . import commands, hosts


def drain(module: AnsibleModule) -> None:
    """Drain the nodes that qmaster on this host manages, and exit the module. Raises ServiceError or ValueError."""
    if not os.path.exists(hosts.unit_path(hosts.CONTROLLER)):
        module.exit_json(changed=False, drained=[], jobs=[], diff=[])
    members, going = commands.members(module), set(module.params["nodes"])
    drained = [name for name in members if name in going]
    remaining = " ".join(name for name in members if name not in going) or configuration.NONE
    diff = commands.converge(
        module, [SgeObject("hgrp", GROUP, {"group_name": GROUP, "hostlist": remaining}, {})] if drained else [], up=True
    )
    jobs = {job for host, ids in commands.jobs_by_host(module).items() if host in going for job in ids}
    module.exit_json(changed=bool(drained), drained=drained, jobs=sorted(jobs, key=int), diff=diff)
