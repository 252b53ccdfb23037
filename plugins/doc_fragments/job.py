# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation shared by the modules that read job records, and by those with options for a job's hosts."""


class ModuleDocFragment:
    """Options and attributes of modules that read job records, and options for the hosts of a job."""

    DOCUMENTATION = r"""
options:
  directory:
    description: Parent directory of the job directories, on the shared storage.
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

    HOSTS = r"""
options:
  hosts:
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the host in the cluster's metadata.
        type: str
        required: true
      address:
        description: Private address of the host.
        type: str
        required: true
      number:
        description: Worker number of the host. The host with the lowest number is the first host of a job.
        type: int
        required: true
      gpus:
        description: Indices of the host's GPUs that a job uses.
        type: list
        elements: int
        required: true
      interface:
        description: Network interface that has the address.
        type: str
        required: true
      efa:
        description: Whether the host has Elastic Fabric Adapters.
        type: bool
        default: false
  metadata_directory:
    description: Directory of C(metadata.json) on the hosts, which M(deeplearning.cluster.worker_metadata) writes.
    type: path
    default: /opt/deeplearning
"""
