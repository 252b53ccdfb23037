# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation shared by the modules that only read from AWS."""


class ModuleDocFragment:
    """Attributes of modules that only read from AWS, and options of those that read about nodes."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: The module only reads.
    support: full
  diff_mode:
    description: The module changes nothing.
    support: none
  idempotent:
    description: The module only reads.
    support: full
"""

    NODES = r"""
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  node_service:
    description: AWS service that launches the cluster's nodes. The values are the same as in the inventory plugin.
    type: str
    choices: [auto_scaling, emr]
    default: auto_scaling
"""
