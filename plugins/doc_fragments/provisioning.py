# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation of the options that provisioning modules share."""

from __future__ import annotations


class ModuleDocFragment:
    """Options, attributes and return values by topic."""

    DOCUMENTATION = r"""
options:
  cluster:
    description:
      - Name of the cluster.
      - Stands in the tag C(deeplearning:cluster) of everything that belongs to it, and in host names.
      - Lower case letters, digits and dashes, 30 characters at most.
    type: str
    required: true
  state:
    description:
      - V(present) creates what is missing and changes what is different.
      - V(absent) deletes what belongs to the cluster. What was adopted stays, and so does the file system unless
        O(ignore:delete_data) is set.
    type: str
    choices: [present, absent]
    default: present
  tags:
    description:
      - Tags for every resource, beside the collection's own. Letters, digits, spaces and C(_.:/=+-@) are possible.
      - Other tags that a resource carries are left alone.
    type: dict
    default: {}
  suppress_validators:
    description:
      - Names of validators that are not to be asked. A finding tells the name of the one that made it.
    type: list
    elements: str
    default: []
  wait:
    description:
      - Whether to wait until everything can be used.
      - Without it only that is waited for which something else needs, and nodes are not numbered.
    type: bool
    default: true
  wait_timeout:
    description:
      - How long to wait for one resource, in seconds.
    type: int
    default: 900
attributes:
  check_mode:
    description: Predicts exactly what a run changes and changes nothing.
    support: full
  diff_mode:
    description: Shows for every change the properties that differ.
    support: full
  idempotent:
    description: A second run changes nothing and makes read calls only.
    support: full
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

    NETWORK = r"""
options:
  network_cidr:
    description:
      - Address range of the VPC, with a mask from /16 to /27. It cannot be changed later.
    type: str
    default: 10.0.0.0/16
  zones:
    description:
      - Availability zones that get a public and a private subnet, four at most.
      - By default the zones that the network has, or else one that offers the instance type.
      - A zone can be taken away as long as no node runs in it.
    type: list
    elements: str
    default: []
  ssh_cidrs:
    description:
      - Address ranges that may reach the master by SSH. Required when O(state=present).
    type: list
    elements: str
    default: []
  allow_ssh_from_anywhere:
    description:
      - Has to be set for O(ssh_cidrs) to hold C(0.0.0.0/0) or C(::/0).
    type: bool
    default: false
"""

    FILE_SYSTEM = r"""
options:
  file_system_id:
    description:
      - An existing EFS file system to use. It is never changed or deleted; mount targets that it lacks are added.
      - By default the cluster gets one of its own.
    type: str
  encrypted:
    description:
      - Whether a new file system is encrypted at rest. It cannot be changed later.
    type: bool
    default: true
  performance_mode:
    description:
      - Performance mode of a new file system. It cannot be changed later.
    type: str
    choices: [generalPurpose, maxIO]
    default: generalPurpose
  delete_data:
    description:
      - Whether O(state=absent) deletes the cluster's file system and all data on it.
    type: bool
    default: false
"""

    INSTANCE_ROLE = r"""
options:
  read_buckets:
    description:
      - S3 buckets that the nodes may read.
    type: list
    elements: str
    default: []
  write_buckets:
    description:
      - S3 buckets that the nodes may read and write.
    type: list
    elements: str
    default: []
"""

    NODES = r"""
options:
  instance_type:
    description:
      - Instance type of the master and the workers. Required when O(state=present).
    type: str
  worker_count:
    description:
      - Number of workers beside the master, at least 1. The master trains too, so a job has one host more.
      - Required when O(state=present).
    type: int
  image_id:
    description:
      - Machine image of the nodes.
      - Exactly one of O(image_id) and O(image_parameter) is required when O(state=present).
    type: str
  image_parameter:
    description:
      - Public SSM parameter that names a machine image, such as those of the deep learning AMIs.
      - It is looked up once. Later runs keep the image until this option changes, so that a new release does not roll the cluster.
    type: str
  key_name:
    description:
      - EC2 key pair for the first login. Required when O(state=present).
    type: str
  root_volume_size:
    description:
      - Size of the encrypted root volume, in GiB.
    type: int
    default: 100
  login_user:
    description:
      - The image's login user, to whom the mount point belongs.
    type: str
    default: ubuntu
  mount_point:
    description:
      - Where the nodes mount the cluster's file system at boot.
    type: str
    default: /efs
"""
