# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation that is common to all modules that read jobs."""

from __future__ import annotations


class ModuleDocFragment:
    """Options and attributes of modules that read the records of jobs."""

    DOCUMENTATION = r"""
options:
  directory:
    description:
      - Parent of the jobs' directories, on the shared storage.
    type: path
    required: true
  heartbeat_timeout:
    description:
      - Seconds without a heartbeat after which a process counts as lost, and its job as well.
      - If the task waits, this is also the time for which the host that it polls may be unreachable.
    type: int
    default: 60
attributes:
  check_mode:
    description: Changes nothing in check mode.
    support: full
  diff_mode:
    description: The module shows no differences.
    support: none
  platform:
    description: Runs on any host of the cluster that has the shared storage.
    support: full
    platforms: posix
"""
