# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation that the modules share which look at jobs."""

from __future__ import annotations


class ModuleDocFragment:
    """Options and attributes of modules that read what jobs have recorded."""

    DOCUMENTATION = r"""
options:
  directory:
    description:
      - Where the jobs' directories are, on the shared storage.
    type: path
    required: true
  heartbeat_timeout:
    description:
      - A process that has not been heard of for so many seconds is lost, and the job with it.
      - Where a task waits, also the time for which the host that is asked may be out of reach.
    type: int
    default: 60
attributes:
  check_mode:
    description: Changes nothing then.
    support: full
  diff_mode:
    description: There is no difference to show.
    support: none
  platform:
    description: Runs on any host of the cluster that has the shared storage.
    support: full
    platforms: posix
"""
