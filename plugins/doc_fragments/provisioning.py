# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation of the provisioning modules' options.

Written by tools/options.py from the list in plugins/module_utils/_aws/options/registry.py.
"""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation that all provisioning modules share, and the options of each module under its name."""

    DOCUMENTATION = r"""
options:
  cluster:
    description:
      - Name of the cluster.
      - The name is part of the host names and is the value of the tag C(deeplearning:cluster) on every resource
        of the cluster.
      - Use 1 to 30 lowercase letters, digits and hyphens.
    type: str
    required: true
  state:
    description:
      - V(present) creates missing resources and updates resources that differ from the definition.
      - V(absent) deletes the cluster's resources. Adopted resources are never deleted. The cluster's file systems
        are deleted only if O(ignore:delete_data) is set.
    type: str
    choices: [present, absent]
    default: present
  tags:
    description:
      - Tags for every resource, in addition to the tags that the collection sets. Use only letters, digits, spaces
        and C(_.:/=+-@).
      - A run does not change tags that were added to a resource outside the collection.
      - This option can be changed in place, but root volumes, network interfaces and Spot requests are tagged only
        at launch. If you remove a tag from this option, existing resources keep the tag. Remove the tag from those
        resources yourself.
    type: dict
    default: {}
  suppress_validators:
    description:
      - Names of validators to skip. Each finding includes the name of its validator.
      - This option applies to one run and is not stored.
    type: list
    elements: str
    default: []
  prices:
    description:
      - Whether to show what the cluster costs per hour. The prices come from the AWS Price List. The controller
        keeps them a week, and prices of Spot Instances for an hour.
      - If AWS cannot be asked, the run uses published prices, and shows their date.
      - This option applies to one run and is not stored.
    type: bool
    default: true
  price_warning:
    description:
      - Price per day, in the currency of O(prices). A run or a validation warns if the cluster costs more after
        the run.
      - The price does not include data, traffic, requests, taxes and discounts.
      - This option applies to one run and is not stored.
    type: float
  wait:
    description:
      - Whether to wait until all resources are ready.
      - With V(false), a run waits only for resources that other resources depend on, and does not assign numbers
        to the nodes.
      - This option applies to one run and is not stored.
    type: bool
    default: true
  wait_timeout:
    description:
      - Maximum time to wait for one resource, in seconds. The timeout for terminating instances is always at least
        3600 seconds.
      - This option applies to one run and is not stored.
    type: int
    default: 900
attributes:
  check_mode:
    description: Predicts exactly what a run would change, and changes nothing.
    support: full
  diff_mode:
    description: For every change, shows the properties that differ.
    support: full
  idempotent:
    description: A second run changes nothing and makes only read-only API calls.
    support: full
"""

    CLUSTER = r"""
options:
  vpc_id:
    description:
      - ID of an existing VPC for the cluster. The VPC must already contain subnets. A run checks the VPC, but never
        changes or deletes it.
      - By default, a run creates a VPC for the cluster.
      - Modules that manage a single component also need this option and the related network options, because no
        tag in AWS shows that the cluster uses an adopted network.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
    type: str
  public_subnet_ids:
    description:
      - Subnets of O(vpc_id) with a route to an internet gateway, one for each Availability Zone. Required with
        O(vpc_id), unless you set O(master_public_address=false).
      - This option can be changed in place, but the change applies only to a master that is launched afterwards.
    type: list
    elements: str
    default: []
  private_subnet_ids:
    description:
      - Subnets of O(vpc_id) for the workers and the shared storage, one for each Availability Zone. Required with
        O(vpc_id).
      - This option can be changed in place, but only to add zones, or to remove zones that have no nodes. To use
        a different subnet in the same zone, delete the cluster (the data is kept) and create it again.
    type: list
    elements: str
    default: []
  security_group_ids:
    description:
      - Existing security groups of O(vpc_id) to use instead of new groups. A run checks the existing groups, but
        never changes or deletes them.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
        Alternatively, change the rules of the security groups.
    type: dict
    suboptions:
      nodes:
        description:
          - Security group of all nodes. The group must allow all TCP traffic from itself. With EFA, the group must
            allow all traffic to and from itself.
        type: str
      ssh:
        description:
          - Security group of the master or, if O(master_public_address=false), of all nodes. The group must allow
            inbound traffic on TCP port 22.
        type: str
      storage:
        description:
          - Security group for mount targets and file systems. The group must allow inbound traffic from the nodes
            on TCP port 2049. For a Lustre file system, the group must also allow traffic to and from the nodes
            and itself on TCP ports 988 and 1018-1023.
        type: str
  master_public_address:
    description:
      - Whether the master is in a public subnet and has a public address. With V(false), the master is in a private
        subnet like the workers. SSH can then reach the nodes only from inside the VPC or through Session Manager.
      - Changing this option replaces the nodes, which requires O(replace_nodes). Do not change O(nat) in the same
        run. You can set O(nat) to V(none) in a later run.
    type: bool
    default: true
  network_cidr:
    description:
      - CIDR block of the cluster's own VPC, with a prefix length from /16 to /27. The block must contain enough
        addresses for all nodes.
      - This option is not used if O(vpc_id) is set.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
    type: str
    default: 10.0.0.0/16
  private_subnet_cidrs:
    description:
      - CIDR blocks of the private subnets in the cluster's own VPC, by zone. Each block must be part of O(network_cidr)
        and have a prefix length from /16 to /28.
      - A zone without a block gets a free block of O(network_cidr). This option is not used if O(vpc_id) is set.
      - This option cannot be changed for existing subnets. Delete the cluster (the data is kept) and create it
        again. A Lustre file system cannot move to a different network, so copy its data elsewhere and delete the
        file system as well.
    type: dict
    default: {}
  public_subnet_cidrs:
    description:
      - CIDR blocks of the public subnets in the cluster's own VPC, by zone, in the same format as O(private_subnet_cidrs).
      - This option cannot be changed for existing subnets. Delete the cluster (the data is kept) and create it
        again. A Lustre file system cannot move to a different network, so copy its data elsewhere and delete the
        file system as well.
    type: dict
    default: {}
  zones:
    description:
      - Availability Zones of the cluster, at most four. Each zone gets a public and a private subnet.
      - By default, the cluster uses the zones of the existing network or of the adopted subnets. A new network
        gets one zone in which the instance type is offered.
      - This option can be changed in place, but you can remove only zones in which no node is running.
    type: list
    elements: str
    default: []
  ssh_cidrs:
    description:
      - CIDR blocks from which SSH can reach the master, or all nodes if the master has no public address.
      - Required with O(state=present), unless the master has no public address or the SSH security group is adopted.
      - This option can be changed in place.
    type: list
    elements: str
    default: []
  allow_ssh_from_anywhere:
    description:
      - Whether O(ssh_cidrs) may contain public ranges that together are larger than an IPv4 /8 or an IPv6 /32,
        such as the whole internet.
      - This option applies to one run and is not stored.
    type: bool
    default: false
  nat:
    description:
      - NAT gateways in the cluster's own VPC. V(single) creates one gateway for all zones. Traffic from other zones
        to this gateway costs extra. V(per_zone) creates a gateway in each zone, so that the other zones keep their
        internet access if one zone fails. With V(none), nodes without a public address cannot reach the internet.
      - This option is not used if O(vpc_id) is set.
      - This option can be changed in place, without interrupting the nodes' internet access.
    type: str
    choices: [single, per_zone, none]
    default: single
  interface_endpoints:
    description:
      - AWS services that nodes can reach without internet access. Specify the last part of each service name, such
        as V(ssm), V(ssmmessages), V(ec2), V(autoscaling), V(elasticfilesystem), V(fsx), V(logs), V(sts) or V(monitoring).
        Each service gets an interface endpoint in the private subnet of every zone. The cluster's own VPC always
        has a gateway endpoint for S3.
      - This option can be changed in place.
    type: list
    elements: str
    default: []
  kms_key_id:
    description:
      - ID or ARN of the KMS key that encrypts new file systems. SCRATCH_2 file systems always use a key that Amazon
        FSx manages.
      - The default is the account's AWS managed key for the service.
      - This option cannot be changed. Copy the data to another file system, then adopt that file system.
    type: str
  delete_data:
    description:
      - Whether O(state=absent) deletes the cluster's file systems and all data on them.
      - A file system is not deleted while nodes of a different cluster use it.
      - This option applies to one run and is not stored.
    type: bool
    default: false
  efs:
    description:
      - Whether the nodes share an EFS file system.
      - With V(false) and without another file system, the cluster has no shared storage. Jobs then run only on
        the master, and are stored in O(mount_point) on the master's own disk. The jobs are lost when the master
        is terminated.
      - This option cannot be changed while the file system is mounted on running nodes. Delete the cluster (the
        data is kept) and create it again.
    type: bool
    default: true
  file_system_id:
    description:
      - ID of an existing EFS file system to use. A run never changes or deletes the file system, but adds missing
        mount targets in the cluster's zones. The added mount targets are deleted together with the cluster. If
        the file system has mount targets in a different VPC, there must be a route to these mount targets, and
        nodes mount the file system by its address.
      - By default, a run creates a file system for the cluster.
      - M(deeplearning.cluster.node_group) finds the file system by the cluster's mount targets. The module needs
        this option if the mount targets do not belong to the cluster.
      - This option cannot be changed while a different file system is mounted on running nodes. Delete the cluster
        (the data is kept) and create it again.
    type: str
  encrypted:
    description:
      - Whether a new EFS file system is encrypted at rest.
      - This option cannot be changed. Copy the data to another file system, then adopt that file system.
    type: bool
    default: true
  performance_mode:
    description:
      - Performance mode of a new EFS file system.
      - This option cannot be changed. Copy the data to another file system, then adopt that file system.
    type: str
    choices: [generalPurpose, maxIO]
    default: generalPurpose
  throughput_mode:
    description:
      - Throughput mode of the EFS file system. With V(bursting), the throughput grows with the amount of data.
        With V(elastic), the throughput follows the load and is billed per gigabyte. With V(provisioned), the throughput
        is O(provisioned_throughput).
      - This option can be changed in place, but AWS may require you to wait 24 hours before you change the mode
        again.
    type: str
    choices: [bursting, elastic, provisioned]
    default: bursting
  provisioned_throughput:
    description:
      - Throughput in MiB/s. Required with O(throughput_mode=provisioned), and valid only in this mode.
      - This option can be changed in place, but AWS may require you to wait 24 hours after a change before you
        decrease the throughput.
    type: float
  file_system_directory:
    description:
      - Directory of the file system O(file_system_id) that the nodes mount instead of the whole file system, such
        as V(/teams/bert). The directory can be at most four levels deep. Nodes mount the directory over TLS through
        an access point, which is created and deleted together with the cluster. The directory itself is never deleted.
      - If the directory does not exist, EFS creates it with UID 1000 as the owner.
      - Changing this option replaces the nodes, which requires O(replace_nodes). A run deletes the old access point
        once no node uses it.
    type: str
  encrypt_in_transit:
    description:
      - Whether the nodes mount EFS over TLS. TLS requires C(amazon-efs-utils), which is installed if the distribution
        provides it.
      - By default, nodes whose image includes C(amazon-efs-utils) use TLS, and other nodes use plain NFS. A cluster
        that was launched with plain NFS keeps using plain NFS.
      - With V(true), the policy of the cluster's own file system denies plain NFS once no node of any cluster uses
        plain NFS.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: bool
  mount_point:
    description:
      - Directory where the nodes mount the EFS file system at boot. This directory contains the jobs. Without EFS,
        set this option to the mount point of the storage that contains the jobs. Without shared storage, set this
        option to a directory on the master's own disk, such as V(/data).
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    default: /efs
  lustre:
    description:
      - Whether the nodes share an FSx for Lustre file system. Security groups allow traffic on the Lustre ports
        only with this option or O(lustre_file_system_id).
      - If you set this option, the run creates the file system immediately. Nodes mount the file system when they
        are launched.
      - Changing this option replaces the nodes, which requires O(replace_nodes). To disable this option while the
        file system is mounted on running nodes, delete the cluster (the data is kept) and create it again.
    type: bool
    default: false
  lustre_file_system_id:
    description:
      - ID of an existing FSx for Lustre file system to use. A run never changes or deletes the file system. If
        the file system is in a different VPC, there must be a route to the file system, and nodes mount the file
        system by its address.
      - This option cannot be changed while a different file system is mounted on running nodes. Delete the cluster
        (the data is kept) and create it again.
    type: str
  lustre_capacity:
    description:
      - 'Size of the cluster''s own Lustre file system in GiB: 1200 or a multiple of 2400.'
      - This option can be changed in place, but at most once every six hours, and only to a larger size. To reduce
        the size, copy the data to a smaller file system, then adopt that file system.
    type: int
    default: 1200
  lustre_deployment:
    description:
      - V(PERSISTENT_2) replicates the data. V(SCRATCH_2) keeps one copy, which is lost if its disk fails.
      - This option cannot be changed. Copy the data to another file system, then adopt that file system.
    type: str
    choices: [SCRATCH_2, PERSISTENT_2]
    default: PERSISTENT_2
  lustre_throughput:
    description:
      - Throughput of a PERSISTENT_2 file system in MB/s per TiB. SCRATCH_2 file systems have 200 MB/s per TiB.
      - This option can be changed in place.
    type: int
    choices: [125, 250, 500, 1000]
    default: 250
  lustre_compression:
    description:
      - Data compression on the Lustre file system.
      - This option can be changed in place, but the change applies only to data that is written afterwards.
    type: str
    choices: [NONE, LZ4]
    default: LZ4
  lustre_data_repositories:
    description:
      - S3 prefixes that appear as directories of the cluster's own Lustre file system.
      - This option can be changed in place, but imported files stay on the file system. To change the prefix of
        a path, remove the path in one run, and add it with the new prefix in the next run.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description:
          - Directory on the file system in which the objects appear. Linked directories must not contain each other.
        type: str
        default: /
      s3:
        description:
          - The S3 bucket or prefix, such as C(s3://bucket/prefix). To change the prefix, remove the path first.
        type: str
        required: true
      import_changes:
        description:
          - Whether existing objects, and later changes and deletions of objects, are imported. This setting can
            be changed in place.
        type: bool
        default: true
      export_changes:
        description:
          - Whether new, changed and deleted files are exported to S3. This setting can be changed in place.
        type: bool
        default: false
  lustre_mount_point:
    description:
      - Directory where the nodes mount the Lustre file system at boot.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    default: /fsx
  bucket_mount:
    description:
      - S3 bucket or prefix that the nodes mount, such as C(s3://bucket/prefix). The objects appear as read-only
        files at O(bucket_mount_point). Mountpoint for Amazon S3 uses the credentials of the nodes' role, which
        is allowed to read these objects.
      - By default, no bucket is mounted.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  bucket_mount_point:
    description:
      - Directory where the nodes mount O(bucket_mount) at boot.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    default: /bucket
  instance_profile:
    description:
      - Name of an existing instance profile for the nodes. The profile must contain a role. A run never changes
        or deletes the profile, and the profile's owner controls the permissions of the role.
      - By default, a run creates a profile for the cluster.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  read_buckets:
    description:
      - S3 buckets that the nodes are allowed to read.
      - This option can be changed in place.
    type: list
    elements: str
    default: []
  write_buckets:
    description:
      - S3 buckets that the nodes are allowed to read and write. The nodes can also replace and delete objects,
        so that jobs can remove old checkpoints. The nodes cannot delete object versions. To protect data, enable
        versioning on the bucket.
      - This option can be changed in place.
    type: list
    elements: str
    default: []
  export_destinations:
    description:
      - S3 buckets or prefixes to which jobs are exported, such as C(s3://bucket/prefix). The nodes are allowed
        to add, replace and list objects in these locations, but not to read or delete objects.
      - This option can be changed in place.
    type: list
    elements: str
    default: []
  additional_policy_statements:
    description:
      - Statements to add to the policy of the nodes' role, in IAM policy format, for example for a KMS key or an
        ECR repository.
      - The policy always denies access to the SSH certificate authorities of clusters.
      - This option can be changed in place.
    type: list
    elements: dict
    default: []
  permissions_boundary:
    description:
      - ARN of the IAM policy to use as the permissions boundary of the nodes' role.
      - By default, a new role has no permissions boundary, and an existing role keeps its own.
      - This option can be changed in place, but a role keeps its permissions boundary if you remove the option.
        To delete the permissions boundary, use C(aws iam delete-role-permissions-boundary).
    type: str
  session_manager:
    description:
      - Whether the role allows connections to the nodes through Session Manager.
      - The image must include the SSM Agent, and every node must be able to reach the services C(ssm) and C(ssmmessages).
      - This option can be changed in place.
    type: bool
    default: false
  instance_type:
    description:
      - Instance type of the master and the workers. Required with O(state=present).
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  worker_count:
    description:
      - Number of workers in addition to the master. The master also takes part in training, so a job can use one
        more host than this number. With V(0), the cluster is a single node.
      - Required with O(state=present).
      - The module does not check whether jobs are running on the nodes, but C(playbooks/provision.yml) does.
      - This option can be changed in place, but a lower value, which removes the nodes with the highest numbers,
        is refused while a job is running on these nodes. If a job is running on a node to be removed, wait until
        the job ends, or stop it with C(deeplearning.cluster.stop).
    type: int
  worker_minimum:
    description:
      - The minimum number of workers that the cluster needs, from 1 to O(worker_count). This option has no effect
        with O(worker_count=0).
      - If AWS has launched at least this many workers after O(capacity_timeout), but fewer than O(worker_count),
        the run accepts and reports the smaller cluster. By default, all O(worker_count) workers are required.
      - A cluster that was accepted with fewer workers keeps its size until you set O(grow) or change O(worker_count).
      - This option applies to one run and is not stored.
    type: int
  spares:
    description:
      - Number of spare nodes, in addition to the master and the O(worker_count) workers. Spares are launched, numbered,
        configured and checked in the same way as workers, and cost the same.
      - A job on all nodes keeps the spares on standby. If the job loses a node, it continues on a spare.
      - Spares count toward O(worker_minimum). By default, all spares are required.
      - This option can be changed in place, in the same way as the number of workers.
    type: int
    default: 0
  market:
    description:
      - Whether the nodes are On-Demand Instances, Spot Instances, or instances in a capacity reservation or a Capacity
        Block for ML.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    choices: [on-demand, spot, capacity-reservation, capacity-block]
    default: on-demand
  master_market:
    description:
      - With V(on-demand), the master is an On-Demand Instance, and only the workers use O(market) and the markets
        in O(alternatives). By default, all nodes use the same market.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    choices: [on-demand]
  spot_max_price:
    description:
      - Maximum price for a Spot Instance, in US dollars per hour. The default is the On-Demand price.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  capacity_reservation_id:
    description:
      - The capacity reservation or Capacity Block for the nodes. This reservation or block determines the zone
        of the nodes. Required with O(market=capacity-block).
      - Without this option, O(market=capacity-reservation) uses any matching open reservation, but no capacity
        outside reservations.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  alternatives:
    description:
      - Alternatives to try in the given order if AWS has insufficient capacity for the master and O(worker_minimum)
        workers with O(instance_type) and O(market). An alternative inherits every setting that it does not override.
      - A run waits up to O(capacity_timeout) for each alternative. All nodes use the same alternative, because
        a job runs at the speed of its slowest host. This option requires O(wait).
      - This option applies to one run and is not stored. A cluster that has nodes keeps its current alternative.
        The zones of new alternatives are added in place.
    type: list
    elements: dict
    default: []
    suboptions:
      instance_type:
        description:
          - Instance type of the nodes.
        type: str
      zone:
        description:
          - Availability Zone for all nodes.
        type: str
      market:
        description:
          - Purchasing option of the nodes.
        type: str
        choices: [on-demand, spot, capacity-reservation, capacity-block]
      spot_max_price:
        description:
          - Maximum price for a Spot Instance, in US dollars per hour.
        type: str
      capacity_reservation_id:
        description:
          - The capacity reservation or Capacity Block for the nodes.
        type: str
  capacity_timeout:
    description:
      - Maximum time to wait for the nodes of one alternative, in seconds. The wait ends early if launches fail
        permanently.
      - If AWS has insufficient capacity for every alternative, the run restores the previous state of the Auto
        Scaling groups.
      - This option applies to one run and is not stored.
    type: int
    default: 600
  grow:
    description:
      - Whether the run tries to launch the missing workers of a cluster that was accepted with fewer than O(worker_count)
        workers.
      - This option applies to one run and is not stored.
    type: bool
    default: false
  replace_nodes:
    description:
      - Whether the run replaces outdated nodes and nodes whose EC2 status checks have failed. A node is outdated
        if its launch template has changed, changes in this run, or was deleted. The nodes are replaced one by one,
        workers before the master.
      - By default, if the cluster has nodes, the run defers changes that require new nodes. RV(ignore:deferred)
        lists these changes. Until these changes are applied, new nodes get the same settings as the existing nodes.
      - Do not use this option while a job is running. C(playbooks/provision.yml) first checks the hosts for running
        jobs.
      - This option applies to one run and is not stored.
    type: bool
    default: false
  allow_outdated_nodes:
    description:
      - Whether the run accepts outdated nodes that it does not replace. With V(false), the run fails before it
        changes anything if nodes differ from the definition and O(replace_nodes) is V(false).
      - C(playbooks/train.yml) changes the default to V(false), so that no job starts on nodes that differ from
        the definition.
      - This option applies to one run and is not stored.
    type: bool
    default: true
  known_instances:
    description:
      - IDs of the instances that the caller has checked for running jobs. The run fails before it changes anything
        if it would terminate another node of the cluster.
      - Playbooks set this option to the nodes of the inventory. A copy of an inventory, as in AWX, can be older
        than some nodes.
      - This option applies to one run and is not stored.
    type: list
    elements: str
  progress_file:
    description:
      - File to which the module appends progress messages while it waits for nodes. If this option is not set,
        M(deeplearning.cluster.cluster) and M(deeplearning.cluster.emr_cluster) show these messages.
      - This option applies to one run and is not stored.
    type: path
  image_id:
    description:
      - ID of the AMI for the nodes.
      - O(image_id), O(image_parameter) and O(image_framework) are mutually exclusive.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  image_parameter:
    description:
      - Public SSM parameter that contains the ID of an AMI, such as a parameter of the Deep Learning AMIs.
      - The first run looks up the image. Later runs keep this image until the option changes, so that a new release
        of the image does not cause the nodes to be replaced.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  image_framework:
    description:
      - Framework of a Deep Learning AMI, such as V(pytorch) or V(pytorch-2.7), or V(base) for drivers only. Without
        a version, the run uses and reports the newest version that is available for O(image_os) and the architecture
        of the instance type.
      - Later runs keep the image that the first run looked up.
      - The default is V(pytorch) if neither O(image_id) nor O(image_parameter) is set.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  image_os:
    description:
      - Operating system of the image for O(image_framework), such as V(ubuntu-22.04) or V(amazon-linux-2023). O(login_user)
        must match the operating system.
      - The default is the newest Ubuntu release up to V(ubuntu-24.04) that is available with the newest version
        of the framework.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  image_update:
    description:
      - Whether to look up O(image_parameter) or O(image_framework) again to get the newest image.
      - This option applies to one run and is not stored. Changing to a newer image replaces the nodes, which requires
        O(replace_nodes).
    type: bool
    default: false
  key_name:
    description:
      - EC2 key pair for the first login. Required with O(state=present).
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  private_key_file:
    description:
      - File on the controller with the private key of O(key_name). The module compares the key with the key pair,
        but does not copy the file.
      - The inventory sets this option to the value of its own option C(private_key_file), which is the file that
        SSH uses.
      - This option applies to one run and is not stored.
    type: path
  root_volume_size:
    description:
      - Size of the encrypted root volume, in GiB.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: int
    default: 100
  root_volume_type:
    description:
      - Type of the root volume.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    choices: [gp3, gp2, io1, io2]
    default: gp3
  root_volume_iops:
    description:
      - Provisioned IOPS of a root volume of type V(gp3), V(io1) or V(io2). Required for V(io1) and V(io2).
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: int
  root_volume_throughput:
    description:
      - Throughput of a root volume of type V(gp3), in MiB per second.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: int
  root_volume_kms_key:
    description:
      - ID, ARN or alias of the KMS key for the root volume. The default is the account's default KMS key for EBS
        encryption.
      - The service-linked role C(AWSServiceRoleForAutoScaling) must be allowed to use the key.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  metadata_hop_limit:
    description:
      - Hop limit for responses from the instance metadata service, from 1 to 64. With V(1), only processes on the
        host and containers that use the host network can get the credentials of the nodes' role. Containers on
        a bridge network need V(2).
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: int
    default: 1
  efa:
    description:
      - Whether nodes get an Elastic Fabric Adapter on every network card that supports EFA. The instance type must
        support EFA.
      - A master with several network interfaces gets an Elastic IP address, because AWS does not automatically
        assign a public address to such instances.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: bool
    default: false
  placement:
    description:
      - Whether to launch the nodes close to each other in a placement group with the strategy C(cluster).
      - V(auto) uses a placement group for a new cluster that has workers and only one zone, if the instance type
        supports it, and always with O(efa). Nodes in a capacity reservation or Capacity Block are in no placement
        group, because the reservation determines their placement. A cluster that has nodes keeps its placement.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    choices: [auto, cluster, none]
    default: auto
  placement_group:
    description:
      - Name of an existing placement group with the strategy C(cluster). A run never changes or deletes the group.
      - By default, a run creates a placement group if O(placement) requires one.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  additional_security_group_ids:
    description:
      - Existing security groups that all nodes belong to, in addition to the cluster's own security groups. For
        example, a database can then allow connections from these groups. A run never changes or deletes these groups.
      - This option requires O(vpc_id), and these groups must be in that VPC. By default, AWS allows 5 security
        groups per network interface. The cluster's own groups use up to 2 of them.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: list
    elements: str
    default: []
  login_user:
    description:
      - The login user of the image, who also owns the mount point.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    default: ubuntu
"""

    NETWORK = r"""
options:
  vpc_id:
    description:
      - ID of an existing VPC for the cluster. The VPC must already contain subnets. A run checks the VPC, but never
        changes or deletes it.
      - By default, a run creates a VPC for the cluster.
      - Modules that manage a single component also need this option and the related network options, because no
        tag in AWS shows that the cluster uses an adopted network.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
    type: str
  public_subnet_ids:
    description:
      - Subnets of O(vpc_id) with a route to an internet gateway, one for each Availability Zone. Required with
        O(vpc_id), unless you set O(master_public_address=false).
      - This option can be changed in place, but the change applies only to a master that is launched afterwards.
    type: list
    elements: str
    default: []
  private_subnet_ids:
    description:
      - Subnets of O(vpc_id) for the workers and the shared storage, one for each Availability Zone. Required with
        O(vpc_id).
      - This option can be changed in place, but only to add zones, or to remove zones that have no nodes. To use
        a different subnet in the same zone, delete the cluster (the data is kept) and create it again.
    type: list
    elements: str
    default: []
  security_group_ids:
    description:
      - Existing security groups of O(vpc_id) to use instead of new groups. A run checks the existing groups, but
        never changes or deletes them.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
        Alternatively, change the rules of the security groups.
    type: dict
    suboptions:
      nodes:
        description:
          - Security group of all nodes. The group must allow all TCP traffic from itself. With EFA, the group must
            allow all traffic to and from itself.
        type: str
      ssh:
        description:
          - Security group of the master or, if O(master_public_address=false), of all nodes. The group must allow
            inbound traffic on TCP port 22.
        type: str
      storage:
        description:
          - Security group for mount targets and file systems. The group must allow inbound traffic from the nodes
            on TCP port 2049. For a Lustre file system, the group must also allow traffic to and from the nodes
            and itself on TCP ports 988 and 1018-1023.
        type: str
  master_public_address:
    description:
      - Whether the master is in a public subnet and has a public address. With V(false), the master is in a private
        subnet like the workers. SSH can then reach the nodes only from inside the VPC or through Session Manager.
      - Changing this option replaces the nodes, which requires O(ignore:replace_nodes). Do not change O(nat) in
        the same run. You can set O(nat) to V(none) in a later run.
    type: bool
    default: true
  network_cidr:
    description:
      - CIDR block of the cluster's own VPC, with a prefix length from /16 to /27. The block must contain enough
        addresses for all nodes.
      - This option is not used if O(vpc_id) is set.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
    type: str
    default: 10.0.0.0/16
  private_subnet_cidrs:
    description:
      - CIDR blocks of the private subnets in the cluster's own VPC, by zone. Each block must be part of O(network_cidr)
        and have a prefix length from /16 to /28.
      - A zone without a block gets a free block of O(network_cidr). This option is not used if O(vpc_id) is set.
      - This option cannot be changed for existing subnets. Delete the cluster (the data is kept) and create it
        again. A Lustre file system cannot move to a different network, so copy its data elsewhere and delete the
        file system as well.
    type: dict
    default: {}
  public_subnet_cidrs:
    description:
      - CIDR blocks of the public subnets in the cluster's own VPC, by zone, in the same format as O(private_subnet_cidrs).
      - This option cannot be changed for existing subnets. Delete the cluster (the data is kept) and create it
        again. A Lustre file system cannot move to a different network, so copy its data elsewhere and delete the
        file system as well.
    type: dict
    default: {}
  zones:
    description:
      - Availability Zones of the cluster, at most four. Each zone gets a public and a private subnet.
      - By default, the cluster uses the zones of the existing network or of the adopted subnets. A new network
        gets one zone in which the instance type is offered.
      - This option can be changed in place, but you can remove only zones in which no node is running.
    type: list
    elements: str
    default: []
  ssh_cidrs:
    description:
      - CIDR blocks from which SSH can reach the master, or all nodes if the master has no public address.
      - Required with O(state=present), unless the master has no public address or the SSH security group is adopted.
      - This option can be changed in place.
    type: list
    elements: str
    default: []
  allow_ssh_from_anywhere:
    description:
      - Whether O(ssh_cidrs) may contain public ranges that together are larger than an IPv4 /8 or an IPv6 /32,
        such as the whole internet.
      - This option applies to one run and is not stored.
    type: bool
    default: false
  nat:
    description:
      - NAT gateways in the cluster's own VPC. V(single) creates one gateway for all zones. Traffic from other zones
        to this gateway costs extra. V(per_zone) creates a gateway in each zone, so that the other zones keep their
        internet access if one zone fails. With V(none), nodes without a public address cannot reach the internet.
      - This option is not used if O(vpc_id) is set.
      - This option can be changed in place, without interrupting the nodes' internet access.
    type: str
    choices: [single, per_zone, none]
    default: single
  interface_endpoints:
    description:
      - AWS services that nodes can reach without internet access. Specify the last part of each service name, such
        as V(ssm), V(ssmmessages), V(ec2), V(autoscaling), V(elasticfilesystem), V(fsx), V(logs), V(sts) or V(monitoring).
        Each service gets an interface endpoint in the private subnet of every zone. The cluster's own VPC always
        has a gateway endpoint for S3.
      - This option can be changed in place.
    type: list
    elements: str
    default: []
  lustre:
    description:
      - Whether the nodes share an FSx for Lustre file system. Security groups allow traffic on the Lustre ports
        only with this option or O(lustre_file_system_id).
      - If you set this option, the run creates the file system immediately. Nodes mount the file system when they
        are launched.
      - Changing this option replaces the nodes, which requires O(ignore:replace_nodes). To disable this option
        while the file system is mounted on running nodes, delete the cluster (the data is kept) and create it again.
    type: bool
    default: false
  lustre_file_system_id:
    description:
      - ID of an existing FSx for Lustre file system to use. A run never changes or deletes the file system. If
        the file system is in a different VPC, there must be a route to the file system, and nodes mount the file
        system by its address.
      - This option cannot be changed while a different file system is mounted on running nodes. Delete the cluster
        (the data is kept) and create it again.
    type: str
"""

    FILE_SYSTEM = r"""
options:
  vpc_id:
    description:
      - ID of an existing VPC for the cluster. The VPC must already contain subnets. A run checks the VPC, but never
        changes or deletes it.
      - By default, a run creates a VPC for the cluster.
      - Modules that manage a single component also need this option and the related network options, because no
        tag in AWS shows that the cluster uses an adopted network.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
    type: str
  public_subnet_ids:
    description:
      - Subnets of O(vpc_id) with a route to an internet gateway, one for each Availability Zone. Required with
        O(vpc_id), unless you set O(master_public_address=false).
      - This option can be changed in place, but the change applies only to a master that is launched afterwards.
    type: list
    elements: str
    default: []
  private_subnet_ids:
    description:
      - Subnets of O(vpc_id) for the workers and the shared storage, one for each Availability Zone. Required with
        O(vpc_id).
      - This option can be changed in place, but only to add zones, or to remove zones that have no nodes. To use
        a different subnet in the same zone, delete the cluster (the data is kept) and create it again.
    type: list
    elements: str
    default: []
  security_group_ids:
    description:
      - Existing security groups of O(vpc_id) to use instead of new groups. A run checks the existing groups, but
        never changes or deletes them.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
        Alternatively, change the rules of the security groups.
    type: dict
    suboptions:
      nodes:
        description:
          - Security group of all nodes. The group must allow all TCP traffic from itself. With EFA, the group must
            allow all traffic to and from itself.
        type: str
      ssh:
        description:
          - Security group of the master or, if O(master_public_address=false), of all nodes. The group must allow
            inbound traffic on TCP port 22.
        type: str
      storage:
        description:
          - Security group for mount targets and file systems. The group must allow inbound traffic from the nodes
            on TCP port 2049. For a Lustre file system, the group must also allow traffic to and from the nodes
            and itself on TCP ports 988 and 1018-1023.
        type: str
  master_public_address:
    description:
      - Whether the master is in a public subnet and has a public address. With V(false), the master is in a private
        subnet like the workers. SSH can then reach the nodes only from inside the VPC or through Session Manager.
      - Changing this option replaces the nodes, which requires O(ignore:replace_nodes). Do not change O(ignore:nat)
        in the same run. You can set O(ignore:nat) to V(none) in a later run.
    type: bool
    default: true
  kms_key_id:
    description:
      - ID or ARN of the KMS key that encrypts new file systems. SCRATCH_2 file systems always use a key that Amazon
        FSx manages.
      - The default is the account's AWS managed key for the service.
      - This option cannot be changed. Copy the data to another file system, then adopt that file system.
    type: str
  delete_data:
    description:
      - Whether O(state=absent) deletes the cluster's file systems and all data on them.
      - A file system is not deleted while nodes of a different cluster use it.
      - This option applies to one run and is not stored.
    type: bool
    default: false
  efs:
    description:
      - Whether the nodes share an EFS file system.
      - With V(false) and without another file system, the cluster has no shared storage. Jobs then run only on
        the master, and are stored in O(ignore:mount_point) on the master's own disk. The jobs are lost when the
        master is terminated.
      - This option cannot be changed while the file system is mounted on running nodes. Delete the cluster (the
        data is kept) and create it again.
    type: bool
    default: true
  file_system_id:
    description:
      - ID of an existing EFS file system to use. A run never changes or deletes the file system, but adds missing
        mount targets in the cluster's zones. The added mount targets are deleted together with the cluster. If
        the file system has mount targets in a different VPC, there must be a route to these mount targets, and
        nodes mount the file system by its address.
      - By default, a run creates a file system for the cluster.
      - M(deeplearning.cluster.node_group) finds the file system by the cluster's mount targets. The module needs
        this option if the mount targets do not belong to the cluster.
      - This option cannot be changed while a different file system is mounted on running nodes. Delete the cluster
        (the data is kept) and create it again.
    type: str
  encrypted:
    description:
      - Whether a new EFS file system is encrypted at rest.
      - This option cannot be changed. Copy the data to another file system, then adopt that file system.
    type: bool
    default: true
  performance_mode:
    description:
      - Performance mode of a new EFS file system.
      - This option cannot be changed. Copy the data to another file system, then adopt that file system.
    type: str
    choices: [generalPurpose, maxIO]
    default: generalPurpose
  throughput_mode:
    description:
      - Throughput mode of the EFS file system. With V(bursting), the throughput grows with the amount of data.
        With V(elastic), the throughput follows the load and is billed per gigabyte. With V(provisioned), the throughput
        is O(provisioned_throughput).
      - This option can be changed in place, but AWS may require you to wait 24 hours before you change the mode
        again.
    type: str
    choices: [bursting, elastic, provisioned]
    default: bursting
  provisioned_throughput:
    description:
      - Throughput in MiB/s. Required with O(throughput_mode=provisioned), and valid only in this mode.
      - This option can be changed in place, but AWS may require you to wait 24 hours after a change before you
        decrease the throughput.
    type: float
  file_system_directory:
    description:
      - Directory of the file system O(file_system_id) that the nodes mount instead of the whole file system, such
        as V(/teams/bert). The directory can be at most four levels deep. Nodes mount the directory over TLS through
        an access point, which is created and deleted together with the cluster. The directory itself is never deleted.
      - If the directory does not exist, EFS creates it with UID 1000 as the owner.
      - Changing this option replaces the nodes, which requires O(ignore:replace_nodes). A run deletes the old access
        point once no node uses it.
    type: str
  encrypt_in_transit:
    description:
      - Whether the nodes mount EFS over TLS. TLS requires C(amazon-efs-utils), which is installed if the distribution
        provides it.
      - By default, nodes whose image includes C(amazon-efs-utils) use TLS, and other nodes use plain NFS. A cluster
        that was launched with plain NFS keeps using plain NFS.
      - With V(true), the policy of the cluster's own file system denies plain NFS once no node of any cluster uses
        plain NFS.
      - Changing this option replaces the nodes, which requires O(ignore:replace_nodes).
    type: bool
"""

    LUSTRE_FILE_SYSTEM = r"""
options:
  vpc_id:
    description:
      - ID of an existing VPC for the cluster. The VPC must already contain subnets. A run checks the VPC, but never
        changes or deletes it.
      - By default, a run creates a VPC for the cluster.
      - Modules that manage a single component also need this option and the related network options, because no
        tag in AWS shows that the cluster uses an adopted network.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
    type: str
  public_subnet_ids:
    description:
      - Subnets of O(vpc_id) with a route to an internet gateway, one for each Availability Zone. Required with
        O(vpc_id), unless you set O(master_public_address=false).
      - This option can be changed in place, but the change applies only to a master that is launched afterwards.
    type: list
    elements: str
    default: []
  private_subnet_ids:
    description:
      - Subnets of O(vpc_id) for the workers and the shared storage, one for each Availability Zone. Required with
        O(vpc_id).
      - This option can be changed in place, but only to add zones, or to remove zones that have no nodes. To use
        a different subnet in the same zone, delete the cluster (the data is kept) and create it again.
    type: list
    elements: str
    default: []
  security_group_ids:
    description:
      - Existing security groups of O(vpc_id) to use instead of new groups. A run checks the existing groups, but
        never changes or deletes them.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
        Alternatively, change the rules of the security groups.
    type: dict
    suboptions:
      nodes:
        description:
          - Security group of all nodes. The group must allow all TCP traffic from itself. With EFA, the group must
            allow all traffic to and from itself.
        type: str
      ssh:
        description:
          - Security group of the master or, if O(master_public_address=false), of all nodes. The group must allow
            inbound traffic on TCP port 22.
        type: str
      storage:
        description:
          - Security group for mount targets and file systems. The group must allow inbound traffic from the nodes
            on TCP port 2049. For a Lustre file system, the group must also allow traffic to and from the nodes
            and itself on TCP ports 988 and 1018-1023.
        type: str
  master_public_address:
    description:
      - Whether the master is in a public subnet and has a public address. With V(false), the master is in a private
        subnet like the workers. SSH can then reach the nodes only from inside the VPC or through Session Manager.
      - Changing this option replaces the nodes, which requires O(ignore:replace_nodes). Do not change O(ignore:nat)
        in the same run. You can set O(ignore:nat) to V(none) in a later run.
    type: bool
    default: true
  kms_key_id:
    description:
      - ID or ARN of the KMS key that encrypts new file systems. SCRATCH_2 file systems always use a key that Amazon
        FSx manages.
      - The default is the account's AWS managed key for the service.
      - This option cannot be changed. Copy the data to another file system, then adopt that file system.
    type: str
  delete_data:
    description:
      - Whether O(state=absent) deletes the cluster's file systems and all data on them.
      - A file system is not deleted while nodes of a different cluster use it.
      - This option applies to one run and is not stored.
    type: bool
    default: false
  lustre:
    description:
      - Whether the nodes share an FSx for Lustre file system. Security groups allow traffic on the Lustre ports
        only with this option or O(lustre_file_system_id).
      - If you set this option, the run creates the file system immediately. Nodes mount the file system when they
        are launched.
      - Changing this option replaces the nodes, which requires O(ignore:replace_nodes). To disable this option
        while the file system is mounted on running nodes, delete the cluster (the data is kept) and create it again.
    type: bool
    default: false
  lustre_file_system_id:
    description:
      - ID of an existing FSx for Lustre file system to use. A run never changes or deletes the file system. If
        the file system is in a different VPC, there must be a route to the file system, and nodes mount the file
        system by its address.
      - This option cannot be changed while a different file system is mounted on running nodes. Delete the cluster
        (the data is kept) and create it again.
    type: str
  lustre_capacity:
    description:
      - 'Size of the cluster''s own Lustre file system in GiB: 1200 or a multiple of 2400.'
      - This option can be changed in place, but at most once every six hours, and only to a larger size. To reduce
        the size, copy the data to a smaller file system, then adopt that file system.
    type: int
    default: 1200
  lustre_deployment:
    description:
      - V(PERSISTENT_2) replicates the data. V(SCRATCH_2) keeps one copy, which is lost if its disk fails.
      - This option cannot be changed. Copy the data to another file system, then adopt that file system.
    type: str
    choices: [SCRATCH_2, PERSISTENT_2]
    default: PERSISTENT_2
  lustre_throughput:
    description:
      - Throughput of a PERSISTENT_2 file system in MB/s per TiB. SCRATCH_2 file systems have 200 MB/s per TiB.
      - This option can be changed in place.
    type: int
    choices: [125, 250, 500, 1000]
    default: 250
  lustre_compression:
    description:
      - Data compression on the Lustre file system.
      - This option can be changed in place, but the change applies only to data that is written afterwards.
    type: str
    choices: [NONE, LZ4]
    default: LZ4
  lustre_data_repositories:
    description:
      - S3 prefixes that appear as directories of the cluster's own Lustre file system.
      - This option can be changed in place, but imported files stay on the file system. To change the prefix of
        a path, remove the path in one run, and add it with the new prefix in the next run.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description:
          - Directory on the file system in which the objects appear. Linked directories must not contain each other.
        type: str
        default: /
      s3:
        description:
          - The S3 bucket or prefix, such as C(s3://bucket/prefix). To change the prefix, remove the path first.
        type: str
        required: true
      import_changes:
        description:
          - Whether existing objects, and later changes and deletions of objects, are imported. This setting can
            be changed in place.
        type: bool
        default: true
      export_changes:
        description:
          - Whether new, changed and deleted files are exported to S3. This setting can be changed in place.
        type: bool
        default: false
"""

    INSTANCE_ROLE = r"""
options:
  bucket_mount:
    description:
      - S3 bucket or prefix that the nodes mount, such as C(s3://bucket/prefix). The objects appear as read-only
        files at O(ignore:bucket_mount_point). Mountpoint for Amazon S3 uses the credentials of the nodes' role,
        which is allowed to read these objects.
      - By default, no bucket is mounted.
      - Changing this option replaces the nodes, which requires O(ignore:replace_nodes).
    type: str
  instance_profile:
    description:
      - Name of an existing instance profile for the nodes. The profile must contain a role. A run never changes
        or deletes the profile, and the profile's owner controls the permissions of the role.
      - By default, a run creates a profile for the cluster.
      - Changing this option replaces the nodes, which requires O(ignore:replace_nodes).
    type: str
  read_buckets:
    description:
      - S3 buckets that the nodes are allowed to read.
      - This option can be changed in place.
    type: list
    elements: str
    default: []
  write_buckets:
    description:
      - S3 buckets that the nodes are allowed to read and write. The nodes can also replace and delete objects,
        so that jobs can remove old checkpoints. The nodes cannot delete object versions. To protect data, enable
        versioning on the bucket.
      - This option can be changed in place.
    type: list
    elements: str
    default: []
  export_destinations:
    description:
      - S3 buckets or prefixes to which jobs are exported, such as C(s3://bucket/prefix). The nodes are allowed
        to add, replace and list objects in these locations, but not to read or delete objects.
      - This option can be changed in place.
    type: list
    elements: str
    default: []
  additional_policy_statements:
    description:
      - Statements to add to the policy of the nodes' role, in IAM policy format, for example for a KMS key or an
        ECR repository.
      - The policy always denies access to the SSH certificate authorities of clusters.
      - This option can be changed in place.
    type: list
    elements: dict
    default: []
  permissions_boundary:
    description:
      - ARN of the IAM policy to use as the permissions boundary of the nodes' role.
      - By default, a new role has no permissions boundary, and an existing role keeps its own.
      - This option can be changed in place, but a role keeps its permissions boundary if you remove the option.
        To delete the permissions boundary, use C(aws iam delete-role-permissions-boundary).
    type: str
  session_manager:
    description:
      - Whether the role allows connections to the nodes through Session Manager.
      - The image must include the SSM Agent, and every node must be able to reach the services C(ssm) and C(ssmmessages).
      - This option can be changed in place.
    type: bool
    default: false
"""

    NODE_GROUP = r"""
options:
  vpc_id:
    description:
      - ID of an existing VPC for the cluster. The VPC must already contain subnets. A run checks the VPC, but never
        changes or deletes it.
      - By default, a run creates a VPC for the cluster.
      - Modules that manage a single component also need this option and the related network options, because no
        tag in AWS shows that the cluster uses an adopted network.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
    type: str
  public_subnet_ids:
    description:
      - Subnets of O(vpc_id) with a route to an internet gateway, one for each Availability Zone. Required with
        O(vpc_id), unless you set O(master_public_address=false).
      - This option can be changed in place, but the change applies only to a master that is launched afterwards.
    type: list
    elements: str
    default: []
  private_subnet_ids:
    description:
      - Subnets of O(vpc_id) for the workers and the shared storage, one for each Availability Zone. Required with
        O(vpc_id).
      - This option can be changed in place, but only to add zones, or to remove zones that have no nodes. To use
        a different subnet in the same zone, delete the cluster (the data is kept) and create it again.
    type: list
    elements: str
    default: []
  security_group_ids:
    description:
      - Existing security groups of O(vpc_id) to use instead of new groups. A run checks the existing groups, but
        never changes or deletes them.
      - This option cannot be changed. Delete the cluster (the data is kept) and create it again. A Lustre file
        system cannot move to a different network, so copy its data elsewhere and delete the file system as well.
        Alternatively, change the rules of the security groups.
    type: dict
    suboptions:
      nodes:
        description:
          - Security group of all nodes. The group must allow all TCP traffic from itself. With EFA, the group must
            allow all traffic to and from itself.
        type: str
      ssh:
        description:
          - Security group of the master or, if O(master_public_address=false), of all nodes. The group must allow
            inbound traffic on TCP port 22.
        type: str
      storage:
        description:
          - Security group for mount targets and file systems. The group must allow inbound traffic from the nodes
            on TCP port 2049. For a Lustre file system, the group must also allow traffic to and from the nodes
            and itself on TCP ports 988 and 1018-1023.
        type: str
  master_public_address:
    description:
      - Whether the master is in a public subnet and has a public address. With V(false), the master is in a private
        subnet like the workers. SSH can then reach the nodes only from inside the VPC or through Session Manager.
      - Changing this option replaces the nodes, which requires O(replace_nodes). Do not change O(ignore:nat) in
        the same run. You can set O(ignore:nat) to V(none) in a later run.
    type: bool
    default: true
  file_system_id:
    description:
      - ID of an existing EFS file system to use. A run never changes or deletes the file system, but adds missing
        mount targets in the cluster's zones. The added mount targets are deleted together with the cluster. If
        the file system has mount targets in a different VPC, there must be a route to these mount targets, and
        nodes mount the file system by its address.
      - By default, a run creates a file system for the cluster.
      - M(deeplearning.cluster.node_group) finds the file system by the cluster's mount targets. The module needs
        this option if the mount targets do not belong to the cluster.
      - This option cannot be changed while a different file system is mounted on running nodes. Delete the cluster
        (the data is kept) and create it again.
    type: str
  file_system_directory:
    description:
      - Directory of the file system O(file_system_id) that the nodes mount instead of the whole file system, such
        as V(/teams/bert). The directory can be at most four levels deep. Nodes mount the directory over TLS through
        an access point, which is created and deleted together with the cluster. The directory itself is never deleted.
      - If the directory does not exist, EFS creates it with UID 1000 as the owner.
      - Changing this option replaces the nodes, which requires O(replace_nodes). A run deletes the old access point
        once no node uses it.
    type: str
  encrypt_in_transit:
    description:
      - Whether the nodes mount EFS over TLS. TLS requires C(amazon-efs-utils), which is installed if the distribution
        provides it.
      - By default, nodes whose image includes C(amazon-efs-utils) use TLS, and other nodes use plain NFS. A cluster
        that was launched with plain NFS keeps using plain NFS.
      - With V(true), the policy of the cluster's own file system denies plain NFS once no node of any cluster uses
        plain NFS.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: bool
  mount_point:
    description:
      - Directory where the nodes mount the EFS file system at boot. This directory contains the jobs. Without EFS,
        set this option to the mount point of the storage that contains the jobs. Without shared storage, set this
        option to a directory on the master's own disk, such as V(/data).
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    default: /efs
  lustre_file_system_id:
    description:
      - ID of an existing FSx for Lustre file system to use. A run never changes or deletes the file system. If
        the file system is in a different VPC, there must be a route to the file system, and nodes mount the file
        system by its address.
      - This option cannot be changed while a different file system is mounted on running nodes. Delete the cluster
        (the data is kept) and create it again.
    type: str
  lustre_mount_point:
    description:
      - Directory where the nodes mount the Lustre file system at boot.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    default: /fsx
  bucket_mount:
    description:
      - S3 bucket or prefix that the nodes mount, such as C(s3://bucket/prefix). The objects appear as read-only
        files at O(bucket_mount_point). Mountpoint for Amazon S3 uses the credentials of the nodes' role, which
        is allowed to read these objects.
      - By default, no bucket is mounted.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  bucket_mount_point:
    description:
      - Directory where the nodes mount O(bucket_mount) at boot.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    default: /bucket
  instance_profile:
    description:
      - Name of an existing instance profile for the nodes. The profile must contain a role. A run never changes
        or deletes the profile, and the profile's owner controls the permissions of the role.
      - By default, a run creates a profile for the cluster.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  group:
    description:
      - Nodes to manage, either the master or the workers.
    type: str
    choices: [master, workers]
    required: true
  instance_type:
    description:
      - Instance type of the master and the workers. Required with O(state=present).
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  worker_count:
    description:
      - Number of workers in addition to the master. The master also takes part in training, so a job can use one
        more host than this number. With V(0), the cluster is a single node.
      - Required with O(state=present).
      - The module does not check whether jobs are running on the nodes, but C(playbooks/provision.yml) does.
      - This option can be changed in place, but a lower value, which removes the nodes with the highest numbers,
        is refused while a job is running on these nodes. If a job is running on a node to be removed, wait until
        the job ends, or stop it with C(deeplearning.cluster.stop).
    type: int
  worker_minimum:
    description:
      - The minimum number of workers that the cluster needs, from 1 to O(worker_count). This option has no effect
        with O(worker_count=0).
      - If AWS has launched at least this many workers after O(capacity_timeout), but fewer than O(worker_count),
        the run accepts and reports the smaller cluster. By default, all O(worker_count) workers are required.
      - A cluster that was accepted with fewer workers keeps its size until you set O(grow) or change O(worker_count).
      - This option applies to one run and is not stored.
    type: int
  spares:
    description:
      - Number of spare nodes, in addition to the master and the O(worker_count) workers. Spares are launched, numbered,
        configured and checked in the same way as workers, and cost the same.
      - A job on all nodes keeps the spares on standby. If the job loses a node, it continues on a spare.
      - Spares count toward O(worker_minimum). By default, all spares are required.
      - This option can be changed in place, in the same way as the number of workers.
    type: int
    default: 0
  market:
    description:
      - Whether the nodes are On-Demand Instances, Spot Instances, or instances in a capacity reservation or a Capacity
        Block for ML.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    choices: [on-demand, spot, capacity-reservation, capacity-block]
    default: on-demand
  master_market:
    description:
      - With V(on-demand), the master is an On-Demand Instance, and only the workers use O(market) and the markets
        in O(alternatives). By default, all nodes use the same market.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    choices: [on-demand]
  spot_max_price:
    description:
      - Maximum price for a Spot Instance, in US dollars per hour. The default is the On-Demand price.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  capacity_reservation_id:
    description:
      - The capacity reservation or Capacity Block for the nodes. This reservation or block determines the zone
        of the nodes. Required with O(market=capacity-block).
      - Without this option, O(market=capacity-reservation) uses any matching open reservation, but no capacity
        outside reservations.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  alternatives:
    description:
      - Alternatives to try in the given order if AWS has insufficient capacity for the master and O(worker_minimum)
        workers with O(instance_type) and O(market). An alternative inherits every setting that it does not override.
      - A run waits up to O(capacity_timeout) for each alternative. All nodes use the same alternative, because
        a job runs at the speed of its slowest host. This option requires O(wait).
      - This option applies to one run and is not stored. A cluster that has nodes keeps its current alternative.
        The zones of new alternatives are added in place.
    type: list
    elements: dict
    default: []
    suboptions:
      instance_type:
        description:
          - Instance type of the nodes.
        type: str
      zone:
        description:
          - Availability Zone for all nodes.
        type: str
      market:
        description:
          - Purchasing option of the nodes.
        type: str
        choices: [on-demand, spot, capacity-reservation, capacity-block]
      spot_max_price:
        description:
          - Maximum price for a Spot Instance, in US dollars per hour.
        type: str
      capacity_reservation_id:
        description:
          - The capacity reservation or Capacity Block for the nodes.
        type: str
  capacity_timeout:
    description:
      - Maximum time to wait for the nodes of one alternative, in seconds. The wait ends early if launches fail
        permanently.
      - If AWS has insufficient capacity for every alternative, the run restores the previous state of the Auto
        Scaling groups.
      - This option applies to one run and is not stored.
    type: int
    default: 600
  grow:
    description:
      - Whether the run tries to launch the missing workers of a cluster that was accepted with fewer than O(worker_count)
        workers.
      - This option applies to one run and is not stored.
    type: bool
    default: false
  replace_nodes:
    description:
      - Whether the run replaces outdated nodes and nodes whose EC2 status checks have failed. A node is outdated
        if its launch template has changed, changes in this run, or was deleted. The nodes are replaced one by one,
        workers before the master.
      - By default, if the cluster has nodes, the run defers changes that require new nodes. RV(ignore:deferred)
        lists these changes. Until these changes are applied, new nodes get the same settings as the existing nodes.
      - Do not use this option while a job is running. C(playbooks/provision.yml) first checks the hosts for running
        jobs.
      - This option applies to one run and is not stored.
    type: bool
    default: false
  allow_outdated_nodes:
    description:
      - Whether the run accepts outdated nodes that it does not replace. With V(false), the run fails before it
        changes anything if nodes differ from the definition and O(replace_nodes) is V(false).
      - C(playbooks/train.yml) changes the default to V(false), so that no job starts on nodes that differ from
        the definition.
      - This option applies to one run and is not stored.
    type: bool
    default: true
  known_instances:
    description:
      - IDs of the instances that the caller has checked for running jobs. The run fails before it changes anything
        if it would terminate another node of the cluster.
      - Playbooks set this option to the nodes of the inventory. A copy of an inventory, as in AWX, can be older
        than some nodes.
      - This option applies to one run and is not stored.
    type: list
    elements: str
  progress_file:
    description:
      - File to which the module appends progress messages while it waits for nodes. If this option is not set,
        M(deeplearning.cluster.cluster) and M(deeplearning.cluster.emr_cluster) show these messages.
      - This option applies to one run and is not stored.
    type: path
  image_id:
    description:
      - ID of the AMI for the nodes.
      - O(image_id), O(image_parameter) and O(image_framework) are mutually exclusive.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  image_parameter:
    description:
      - Public SSM parameter that contains the ID of an AMI, such as a parameter of the Deep Learning AMIs.
      - The first run looks up the image. Later runs keep this image until the option changes, so that a new release
        of the image does not cause the nodes to be replaced.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  image_framework:
    description:
      - Framework of a Deep Learning AMI, such as V(pytorch) or V(pytorch-2.7), or V(base) for drivers only. Without
        a version, the run uses and reports the newest version that is available for O(image_os) and the architecture
        of the instance type.
      - Later runs keep the image that the first run looked up.
      - The default is V(pytorch) if neither O(image_id) nor O(image_parameter) is set.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  image_os:
    description:
      - Operating system of the image for O(image_framework), such as V(ubuntu-22.04) or V(amazon-linux-2023). O(login_user)
        must match the operating system.
      - The default is the newest Ubuntu release up to V(ubuntu-24.04) that is available with the newest version
        of the framework.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  image_update:
    description:
      - Whether to look up O(image_parameter) or O(image_framework) again to get the newest image.
      - This option applies to one run and is not stored. Changing to a newer image replaces the nodes, which requires
        O(replace_nodes).
    type: bool
    default: false
  key_name:
    description:
      - EC2 key pair for the first login. Required with O(state=present).
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  private_key_file:
    description:
      - File on the controller with the private key of O(key_name). The module compares the key with the key pair,
        but does not copy the file.
      - The inventory sets this option to the value of its own option C(private_key_file), which is the file that
        SSH uses.
      - This option applies to one run and is not stored.
    type: path
  root_volume_size:
    description:
      - Size of the encrypted root volume, in GiB.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: int
    default: 100
  root_volume_type:
    description:
      - Type of the root volume.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    choices: [gp3, gp2, io1, io2]
    default: gp3
  root_volume_iops:
    description:
      - Provisioned IOPS of a root volume of type V(gp3), V(io1) or V(io2). Required for V(io1) and V(io2).
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: int
  root_volume_throughput:
    description:
      - Throughput of a root volume of type V(gp3), in MiB per second.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: int
  root_volume_kms_key:
    description:
      - ID, ARN or alias of the KMS key for the root volume. The default is the account's default KMS key for EBS
        encryption.
      - The service-linked role C(AWSServiceRoleForAutoScaling) must be allowed to use the key.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  metadata_hop_limit:
    description:
      - Hop limit for responses from the instance metadata service, from 1 to 64. With V(1), only processes on the
        host and containers that use the host network can get the credentials of the nodes' role. Containers on
        a bridge network need V(2).
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: int
    default: 1
  efa:
    description:
      - Whether nodes get an Elastic Fabric Adapter on every network card that supports EFA. The instance type must
        support EFA.
      - A master with several network interfaces gets an Elastic IP address, because AWS does not automatically
        assign a public address to such instances.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: bool
    default: false
  placement:
    description:
      - Whether to launch the nodes close to each other in a placement group with the strategy C(cluster).
      - V(auto) uses a placement group for a new cluster that has workers and only one zone, if the instance type
        supports it, and always with O(efa). Nodes in a capacity reservation or Capacity Block are in no placement
        group, because the reservation determines their placement. A cluster that has nodes keeps its placement.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    choices: [auto, cluster, none]
    default: auto
  placement_group:
    description:
      - Name of an existing placement group with the strategy C(cluster). A run never changes or deletes the group.
      - By default, a run creates a placement group if O(placement) requires one.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
  additional_security_group_ids:
    description:
      - Existing security groups that all nodes belong to, in addition to the cluster's own security groups. For
        example, a database can then allow connections from these groups. A run never changes or deletes these groups.
      - This option requires O(vpc_id), and these groups must be in that VPC. By default, AWS allows 5 security
        groups per network interface. The cluster's own groups use up to 2 of them.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: list
    elements: str
    default: []
  login_user:
    description:
      - The login user of the image, who also owns the mount point.
      - Changing this option replaces the nodes, which requires O(replace_nodes).
    type: str
    default: ubuntu
"""

    EMR_CLUSTER = r"""
options:
  progress_file:
    description:
      - File to which the module appends progress messages while it waits for nodes. If this option is not set,
        M(deeplearning.cluster.cluster) and M(deeplearning.cluster.emr_cluster) show these messages.
      - This option applies to one run and is not stored.
    type: path
  emr_release_label:
    description:
      - EMR release of the cluster, such as V(emr-7.9.0). Required with O(state=present).
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: str
  emr_image_id:
    description:
      - ID of a custom image for all nodes. Requires release 5.7.0 or later.
      - The image must be based on Amazon Linux 2023 for release 7.0.0 or later, on Amazon Linux 2 for release 5.30.0
        or later, and on Amazon Linux 1 for earlier releases. The image must have one EBS volume of at most 100
        GiB.
      - By default, EMR uses the image of the release.
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: str
  emr_instance_type:
    description:
      - Instance type of the master and, by default, of all other nodes. Required with O(state=present).
      - The release must support this type. To list the types, run C(aws emr list-supported-instance-types --release-label
        emr-7.9.0).
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: str
  emr_core_instance_type:
    description:
      - Instance type of the core nodes, if it differs from O(emr_instance_type).
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: str
  emr_core_count:
    description:
      - Number of core nodes, which store the data in HDFS. Required with O(state=present). With V(0), the master
        is the only node.
      - 'If you decrease the number, EMR terminates the nodes with the highest numbers. EMR waits up to an hour
        for the containers on these nodes to finish. EMR also keeps at least as many core nodes as HDFS has copies
        of each block: by default 1 if the cluster started with up to 3 core nodes, 2 with 4 to 9, and 3 with 10
        or more.'
      - This option can be changed in place, but a change from or to 0 requires O(emr_replace).
    type: int
  emr_task_instance_type:
    description:
      - Instance type of the task nodes, if it differs from O(emr_instance_type).
      - Changing this option replaces the EMR cluster, which requires O(emr_replace). The first task nodes can be
        added in place.
    type: str
  emr_task_count:
    description:
      - Number of task nodes, which store no data. If you decrease the number, EMR terminates the nodes with the
        highest numbers, and waits up to an hour for the containers on these nodes to finish.
      - At most one task group of the cluster may have nodes.
      - This option can be changed in place.
    type: int
    default: 0
  emr_service_role:
    description:
      - Name or ARN of the IAM role that EMR assumes. A run never changes or deletes the role.
      - If the role has the AWS managed policy C(AmazonEMRServicePolicy_v2), the cluster (O(tags)), the subnet and
        the security groups that you specify need the tag C(for-use-with-amazon-emr-managed-policies) with the value
        V(true). If EMR creates the security groups, the VPC also needs this tag.
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: str
    default: EMR_DefaultRole
  emr_instance_profile:
    description:
      - Name or ARN of the instance profile for the nodes. A run never changes or deletes the profile or its role.
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: str
    default: EMR_EC2_DefaultRole
  emr_create_default_roles:
    description:
      - Whether a run creates C(EMR_DefaultRole) and C(EMR_EC2_DefaultRole) if the cluster uses these roles and
        the account does not have them. The new roles have the AWS managed policies that C(aws emr create-default-roles)
        attaches. All EMR clusters of the account share the roles, so a run never deletes them.
      - AWS has deprecated these managed policies. If IAM no longer allows them to be attached, create your own
        roles.
      - New roles can take a minute to become visible to EMR. If EMR terminates the new cluster for this reason,
        run the playbook again.
      - This option applies to one run and is not stored.
    type: bool
    default: false
  emr_key_name:
    description:
      - Name of the EC2 key pair for SSH logins as the user C(hadoop).
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: str
  emr_subnet_id:
    description:
      - ID of the subnet for all nodes. Nodes in a public subnet have public addresses. DNS resolution and DNS hostnames
        must be enabled in the VPC.
      - By default, EMR chooses a subnet of the default VPC.
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: str
  emr_security_group_ids:
    description:
      - IDs of the security groups that EMR manages for the cluster. EMR adds its rules to the security groups of
        the nodes, but not to the security group for service access.
      - In a public subnet, the EMR block public access configuration does not permit security groups that allow
        traffic from all addresses, except on the ports that the account permits.
      - By default, EMR creates the security groups. All clusters in a VPC share these groups, and EMR keeps them
        when a cluster terminates.
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: dict
    default: {}
    suboptions:
      master:
        description:
          - Security group of the master. Requires O(emr_security_group_ids.workers).
        type: str
      workers:
        description:
          - Security group of the core and task nodes. Requires O(emr_security_group_ids.master).
        type: str
      service:
        description:
          - Security group for service access, through which EMR reaches nodes in a private subnet. Required for
            a private subnet if the other two security groups are set. For release 5.30.0 or later, this group needs
            an inbound rule for TCP port 9443 from the security group of the master.
        type: str
  emr_additional_security_group_ids:
    description:
      - IDs of additional security groups for the nodes, such as a group from which the mount targets of an EFS
        file system accept traffic. Each list can contain at most 4 IDs.
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: dict
    default: {}
    suboptions:
      master:
        description:
          - Additional security groups for the master.
        type: list
        elements: str
        default: []
      workers:
        description:
          - Additional security groups for the core and task nodes.
        type: list
        elements: str
        default: []
  emr_bootstrap_actions:
    description:
      - Scripts that each node runs, in this order, before EMR installs the applications. If a script fails, EMR
        terminates the cluster.
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - Name of the bootstrap action.
        type: str
        default: Bootstrap action
      path:
        description:
          - Location of the script, such as C(s3://bucket/script.sh).
        type: str
        required: true
      args:
        description:
          - Arguments of the script.
        type: list
        elements: str
        default: []
  emr_root_volume_size:
    description:
      - Size of the nodes' root volumes in GiB, at most 100.
      - By default, EMR uses the smallest size for the release and the image.
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: int
  emr_log_uri:
    description:
      - Location to which EMR copies the logs of nodes, bootstrap actions and steps, such as V(s3://bucket/logs/).
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: str
  emr_applications:
    description:
      - Names of the applications that EMR installs, such as V(Spark). EMR also installs the applications on which
        the named applications depend.
      - Changing this option replaces the EMR cluster, which requires O(emr_replace).
    type: list
    elements: str
    default: []
  emr_termination_protection:
    description:
      - Whether the cluster is protected against termination. To delete or replace a protected cluster, set this
        option to V(false).
      - By default, a new cluster is not protected, and an existing cluster keeps its setting.
      - This option can be changed in place.
    type: bool
  emr_steps:
    description:
      - Steps that the cluster runs one after the other. Each step runs once. The name identifies the step, so a
        new name adds a step.
      - A run adds steps, but does not wait for them to end.
      - This option can be changed in place, by adding steps. An added step cannot be changed or removed.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - Name of the step, which must be unique in the cluster.
        type: str
        required: true
      jar:
        description:
          - JAR file of the step.
        type: str
        default: command-runner.jar
      args:
        description:
          - Arguments of the step. The combined length of O(emr_steps[].jar) and the arguments can be at most 10,240
            characters.
        type: list
        elements: str
        default: []
      on_failure:
        description:
          - What EMR does if the step fails.
        type: str
        choices: [continue, cancel_and_wait, terminate_cluster]
        default: continue
  emr_replace:
    description:
      - Whether a run may replace the EMR cluster to apply changes that EMR does not support in place. The run terminates
        the cluster and creates a new one, which runs all steps. The data on HDFS is lost.
      - This option applies to one run and is not stored.
    type: bool
    default: false
"""
