# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation shared by the modules for Slurm and SGE."""


class ModuleDocFragment:
    """Options and attributes of modules that configure a queue, drain nodes or read hardware."""

    DOCUMENTATION = r"""
options:
  user:
    description:
      - The login user.
      - Required with O(component=controller).
    type: str
  groups:
    description: Groups whose members can submit jobs. If the list is empty, all users can submit jobs.
    type: list
    elements: str
    default: []
  state:
    description:
      - V(absent) stops the daemon and removes its files. With O(component=controller), it also deletes O(state_directory), and fails if the
        queue contains jobs.
    type: str
    choices: [present, absent]
    default: present
  timeout:
    description: Seconds to wait for the controller to respond, or for the node to register with it.
    type: int
    default: 120
attributes:
  check_mode:
    description: Predicts the changes without writing anything.
    support: full
  diff_mode:
    description: Shows the differences in files, services, settings and nodes.
    support: full
  idempotent:
    description: A correctly configured host is not changed.
    support: full
"""

    DRAIN = r"""
options:
  nodes:
    description: Host names of the nodes.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Predicts the changes, and lists the jobs.
    support: full
  diff_mode:
    description: Shows the nodes to drain.
    support: full
  idempotent:
    description: Drained nodes are not changed.
    support: full
"""

    INFO = r"""
options:
  controller:
    description: Whether the host will run the queue's controller.
    type: bool
    default: false
attributes:
  check_mode:
    description: Changes nothing in check mode.
    support: full
  diff_mode:
    description: The module shows no differences.
    support: none
"""
