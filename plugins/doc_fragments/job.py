# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation shared by all modules that read job records."""

from __future__ import annotations


class ModuleDocFragment:
    """Options and attributes of modules that read job records."""

    DOCUMENTATION = r"""
options:
  directory:
    description:
      - Parent directory of the job directories, on the shared storage.
    type: path
    required: true
  heartbeat_timeout:
    description:
      - Seconds without a heartbeat after which a process, and therefore its job, counts as lost.
      - If the task waits for the job, this is also the maximum time for which the polled host may be unreachable.
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
    description: Runs on any host of the cluster that mounts the shared storage.
    support: full
    platforms: posix
"""
