# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation of the options that modules share when they provision.

Written by tools/options.py from what plugins/module_utils/_aws/options/registry.py lists.
"""

from __future__ import annotations


class ModuleDocFragment:
    """What all of these modules share, and the options of each, by its name."""

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
      - V(absent) deletes what belongs to the cluster. What was adopted stays, and so do the file systems unless
        O(ignore:delete_data) is set.
    type: str
    choices: [present, absent]
    default: present
  tags:
    description:
      - Tags for every resource, beside the collection's own. Letters, digits, spaces and C(_.:/=+-@) are possible.
      - Other tags that a resource carries are left alone.
      - Changed in place, except for root volumes, network interfaces and spot requests, which have new ones from
        their launch on. A tag that is left out stays where it is; take it off yourself.
    type: dict
    default: {}
  suppress_validators:
    description:
      - Names of validators that are not to be asked. A finding tells the name of the one that made it.
      - It counts for one run and is not stored.
    type: list
    elements: str
    default: []
  wait:
    description:
      - Whether to wait until everything can be used.
      - Without it only that is waited for which something else needs, and nodes are not numbered.
      - It counts for one run and is not stored.
    type: bool
    default: true
  wait_timeout:
    description:
      - How long to wait for one resource, in seconds. The end of instances is waited for at least 3600 seconds.
      - It counts for one run and is not stored.
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

    CLUSTER = r"""
options:
  vpc_id:
    description:
      - An existing VPC for the cluster, with existing subnets. It is checked, and never changed or deleted.
      - By default the cluster gets a VPC of its own.
      - Modules of one component need this and the other options of the network, too, because nothing in AWS says
        that the cluster has adopted it.
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well.
    type: str
  public_subnet_ids:
    description:
      - Subnets of O(vpc_id) with a route to an internet gateway, one for each zone. Required with O(vpc_id) unless
        O(master_public_address=false).
      - Changed in place, for a master that is launched from then on.
    type: list
    elements: str
    default: []
  private_subnet_ids:
    description:
      - Subnets of O(vpc_id) for the workers and the shared storage, one for each zone. Required with O(vpc_id).
      - Changed in place, to add zones, or to remove zones without nodes. Delete the cluster, which keeps the data,
        and create it again for another subnet of the same zone.
    type: list
    elements: str
    default: []
  security_group_ids:
    description:
      - Existing security groups of O(vpc_id) to use in place of the cluster's own. They are checked, and never
        changed or deleted.
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well. Or change the rules of the groups.
    type: dict
    suboptions:
      nodes:
        description:
          - Of all nodes; it must let in all TCP from itself, and with EFA all protocols from and to itself.
        type: str
      ssh:
        description:
          - Of the master, and of all nodes with O(master_public_address=false); it must let in TCP port 22.
        type: str
      storage:
        description:
          - Of mount targets and file systems; it must let in TCP port 2049 from the nodes.
        type: str
  master_public_address:
    description:
      - Whether the master has a public address, in a public subnet. Without one it is beside the workers, and all
        nodes are reached alike from inside the VPC or by Session Manager.
      - Changing it replaces the nodes, which happens only with O(replace_nodes). Keep O(nat) for that run; it can
        become V(none) afterwards.
    type: bool
    default: true
  network_cidr:
    description:
      - Address range of the cluster's own VPC, with a mask from /16 to /27. It has to hold all nodes.
      - Not used with O(vpc_id).
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well.
    type: str
    default: 10.0.0.0/16
  zones:
    description:
      - Availability zones that get a public and a private subnet, four at most.
      - By default the zones that the network or the adopted subnets have, or else one that offers the instance
        type.
      - Changed in place, as long as no node runs in a zone to be removed.
    type: list
    elements: str
    default: []
  ssh_cidrs:
    description:
      - Address ranges that may reach the master by SSH, or all nodes if the master has no public address.
      - Required when O(state=present), unless the master has no public address or the security group for SSH is
        adopted.
      - Changed in place.
    type: list
    elements: str
    default: []
  allow_ssh_from_anywhere:
    description:
      - Whether O(ssh_cidrs) may cover the internet, or more of it than an IPv4 /8 or an IPv6 /32. Private ranges
        do not count.
      - It counts for one run and is not stored.
    type: bool
    default: false
  nat:
    description:
      - NAT gateways of the cluster's own VPC. V(single) serves all zones, and other zones pay for traffic to it.
        V(per_zone) costs one gateway for each zone and outlives the loss of a zone. With V(none), nodes without
        a public address do not reach the internet.
      - Not used with O(vpc_id).
      - Changed in place, without interrupting the nodes' route out.
    type: str
    choices: [single, per_zone, none]
    default: single
  interface_endpoints:
    description:
      - Services of AWS that nodes reach without the internet, by the last part of their names, such as V(ssm),
        V(ssmmessages), V(ec2), V(autoscaling), V(elasticfilesystem), V(fsx), V(logs), V(sts) and V(monitoring).
        Each gets an interface endpoint in the private subnet of every zone. S3 has a gateway endpoint in any case.
      - Changed in place.
    type: list
    elements: str
    default: []
  kms_key_id:
    description:
      - Id or ARN of the KMS key that encrypts new file systems; those of SCRATCH_2 have a key of Amazon's.
      - By default AWS's own key for the service.
      - It cannot be changed. Copy the data to another file system and adopt that.
    type: str
  delete_data:
    description:
      - Whether O(state=absent) deletes the cluster's file systems and all data on them.
      - A file system that nodes of other clusters use is not deleted.
      - It counts for one run and is not stored.
    type: bool
    default: false
  efs:
    description:
      - Whether the nodes share an EFS file system.
      - It cannot be changed while nodes run that mount it. Delete the cluster, which keeps the data, and create
        it again.
    type: bool
    default: true
  file_system_id:
    description:
      - An existing EFS file system to use. It is never changed or deleted. Mount targets that it lacks in the cluster's
        zones are added, and deleted with the cluster. One that has its mount targets in another VPC is mounted
        by address if there is a route to it.
      - By default the cluster gets one of its own.
      - M(deeplearning.cluster.node_group) finds it by the cluster's mount targets, and has to be told where it
        has others.
      - It cannot be changed while nodes run that mount another one. Delete the cluster, which keeps the data, and
        create it again.
    type: str
  encrypted:
    description:
      - Whether a new EFS file system is encrypted at rest.
      - It cannot be changed. Copy the data to another file system and adopt that.
    type: bool
    default: true
  performance_mode:
    description:
      - Performance mode of a new EFS file system.
      - It cannot be changed. Copy the data to another file system and adopt that.
    type: str
    choices: [generalPurpose, maxIO]
    default: generalPurpose
  throughput_mode:
    description:
      - Throughput of the EFS file system. V(bursting) grows with the amount of data, V(elastic) follows the load
        and costs by the gigabyte, V(provisioned) is what O(provisioned_throughput) says.
      - Changed in place, and AWS lets a day pass before it is lowered again.
    type: str
    choices: [bursting, elastic, provisioned]
    default: bursting
  provisioned_throughput:
    description:
      - Throughput in MiB/s. Required with O(throughput_mode=provisioned), and only possible with it.
      - Changed in place, and AWS lets a day pass before it is lowered again.
    type: float
  file_system_directory:
    description:
      - Directory of the file system O(file_system_id) that the nodes see in place of the whole, such as V(/teams/bert).
        It has up to four names. They mount it through an access point that the cluster makes and deletes with itself.
        The directory stays.
      - EFS makes the directory if it is missing, and gives it to the user with the id 1000. It needs TLS.
      - Changing it replaces the nodes, which happens only with O(replace_nodes). The old access point goes once
        no node uses it.
    type: str
  encrypt_in_transit:
    description:
      - Whether the nodes mount EFS through TLS. They need C(amazon-efs-utils), which is installed where the distribution
        has it.
      - Left out, each node does whose image has that package, and the others use plain NFS. A cluster that was
        launched for plain NFS keeps that.
      - With V(true), the policy of a file system of the cluster's own refuses plain NFS, as soon as no node of
        any cluster is without TLS.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: bool
  mount_point:
    description:
      - Where the nodes mount the cluster's EFS file system at boot, and where jobs are. Without EFS, set it to
        the mount point of the storage that jobs are on.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    default: /efs
  lustre:
    description:
      - Whether the nodes share a file system of FSx for Lustre. Security groups let its ports in only then, or
        with O(lustre_file_system_id).
      - Switching it on makes the file system at once, and nodes mount it from their launch on.
      - Changing it replaces the nodes, which happens only with O(replace_nodes). Delete the cluster, which keeps
        the data, and create it again to switch it off while nodes run that mount it.
    type: bool
    default: false
  lustre_file_system_id:
    description:
      - An existing file system of FSx for Lustre to use, which is never changed or deleted. It is mounted by address
        if it is in another VPC and there is a route to it.
      - It cannot be changed while nodes run that mount another one. Delete the cluster, which keeps the data, and
        create it again.
    type: str
  lustre_capacity:
    description:
      - Size of a new Lustre file system in GiB, 1200 or a multiple of 2400.
      - Changed in place, at most once in six hours, and only upwards. Copy the data to a smaller file system and
        adopt that.
    type: int
    default: 1200
  lustre_deployment:
    description:
      - V(PERSISTENT_2) keeps several copies of the data, V(SCRATCH_2) one that is lost with a disk.
      - It cannot be changed. Copy the data to another file system and adopt that.
    type: str
    choices: [SCRATCH_2, PERSISTENT_2]
    default: PERSISTENT_2
  lustre_throughput:
    description:
      - Throughput in MB/s for every TiB of a PERSISTENT_2 file system. One of SCRATCH_2 has 200.
      - Changed in place.
    type: int
    choices: [125, 250, 500, 1000]
    default: 250
  lustre_compression:
    description:
      - How data on the Lustre file system is compressed.
      - Changed in place, for what is written from then on.
    type: str
    choices: [NONE, LZ4]
    default: LZ4
  lustre_data_repositories:
    description:
      - Prefixes in S3 that appear as directories of a new Lustre file system.
      - Changed in place, and what was imported stays on the file system. Take a path away first, and give it another
        prefix in the next run.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description:
          - The directory on the file system, which must not lie in another one that is linked.
        type: str
        default: /
      s3:
        description:
          - The bucket or prefix, such as C(s3://bucket/prefix). For another one, take the path away first.
        type: str
        required: true
      import_changes:
        description:
          - Whether objects appear as files, those that are there and those that come, change or go. It changes
            in place.
        type: bool
        default: true
      export_changes:
        description:
          - Whether files that come, change or go are written back to S3. It changes in place.
        type: bool
        default: false
  lustre_mount_point:
    description:
      - Where the nodes mount the Lustre file system at boot.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    default: /fsx
  bucket_mount:
    description:
      - S3 bucket or prefix whose objects the nodes see as files that they can read, such as C(s3://bucket/prefix).
        Mountpoint for Amazon S3 mounts it at O(bucket_mount_point) with the credentials of the nodes' role, which
        may read what is there.
      - By default no bucket is mounted.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  bucket_mount_point:
    description:
      - Where the nodes mount O(bucket_mount) at boot.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    default: /bucket
  instance_profile:
    description:
      - Name of an existing instance profile for the nodes, which has to hold a role. It is never changed or deleted,
        and what its role allows is up to its owner.
      - By default the cluster gets one of its own.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  read_buckets:
    description:
      - S3 buckets that the nodes may read.
      - Changed in place.
    type: list
    elements: str
    default: []
  write_buckets:
    description:
      - S3 buckets that the nodes may read and write. Writing also replaces and deletes objects, so that jobs can
        remove old checkpoints, but no versions of them. Switch on the versioning of a bucket in which nothing may
        be lost.
      - Changed in place.
    type: list
    elements: str
    default: []
  permissions_boundary:
    description:
      - ARN of the IAM policy that bounds what the nodes' role can be allowed.
      - By default a new role has no boundary, and an existing one keeps its own.
      - Changed in place, and a role keeps the boundary that it has when the option is left out. Delete the boundary
        with C(aws iam delete-role-permissions-boundary).
    type: str
  session_manager:
    description:
      - Whether the role lets nodes be reached by Session Manager.
      - Needs the SSM agent on the image, and a way out to C(ssm) and C(ssmmessages) from every node.
      - Changed in place.
    type: bool
    default: false
  instance_type:
    description:
      - Instance type of the master and the workers. Required when O(state=present).
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  worker_count:
    description:
      - Number of workers beside the master, at least 1. The master trains too, so a job has one host more.
      - Required when O(state=present).
      - It is C(playbooks/provision.yml) that asks the nodes for jobs.
      - Changed in place, and nodes with the highest numbers go when there are to be fewer, unless a job runs on
        them. Wait for the end of the job, or stop it with C(deeplearning.cluster.stop).
    type: int
  worker_minimum:
    description:
      - The number of workers that a job can do with, at least 1.
      - When AWS has fewer than O(worker_count) after O(capacity_timeout), but as many as this, the cluster goes
        on with what was launched, and says so. By default the full number is required.
      - A cluster that was accepted with fewer workers stays so until O(grow) or another O(worker_count) is given.
      - It counts for one run and is not stored.
    type: int
  market:
    description:
      - 'How nodes are purchased: on demand, as spot instances, from a capacity reservation, or from a Capacity
        Block for ML.'
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    choices: [on-demand, spot, capacity-reservation, capacity-block]
    default: on-demand
  spot_max_price:
    description:
      - The most to pay for a spot instance, in US dollars per hour. By default the on-demand price.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  capacity_reservation_id:
    description:
      - The reservation or block that the nodes are launched into, in its zone; required with O(market=capacity-block).
      - Without it O(market=capacity-reservation) takes any open reservation that matches, and nothing else.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  alternatives:
    description:
      - What else to try, in this order, when AWS has no capacity for O(worker_minimum) workers and the master with
        O(instance_type) and O(market). An alternative inherits every setting that it does not override.
      - Each is tried with all nodes for O(capacity_timeout), because a job runs at the speed of its slowest host.
        Requires O(wait).
      - It counts for one run and is not stored. A cluster with nodes keeps the alternative that they have. A zone
        that an alternative names is added in place.
    type: list
    elements: dict
    default: []
    suboptions:
      instance_type:
        description:
          - Instance type.
        type: str
      zone:
        description:
          - Availability zone for all nodes.
        type: str
      market:
        description:
          - How nodes are purchased.
        type: str
        choices: [on-demand, spot, capacity-reservation, capacity-block]
      spot_max_price:
        description:
          - The most to pay for a spot instance, in US dollars per hour.
        type: str
      capacity_reservation_id:
        description:
          - The reservation or block to launch into.
        type: str
  capacity_timeout:
    description:
      - How long to wait for the nodes of one alternative, in seconds. A reason that does not pass by itself ends
        the wait earlier.
      - When none of them has enough, the groups are restored.
      - It counts for one run and is not stored.
    type: int
    default: 600
  grow:
    description:
      - Whether a cluster that was accepted with fewer workers than O(worker_count) tries for the rest.
      - It counts for one run and is not stored.
    type: bool
    default: false
  replace_nodes:
    description:
      - Whether a run replaces nodes whose launch template has changed or changes, or whose EC2 status checks have
        failed. It replaces one by one, workers before the master.
      - Without it, such changes are only listed in RV(ignore:deferred) while there are nodes, and new nodes are
        like the others.
      - Never use it while a job runs; C(playbooks/provision.yml) asks the hosts first.
      - It counts for one run and is not stored.
    type: bool
    default: false
  progress_file:
    description:
      - File to which the module appends a line for each progress in the wait for nodes. M(deeplearning.cluster.cluster)
        shows them where this is left out.
      - It counts for one run and is not stored.
    type: path
  image_id:
    description:
      - Machine image of the nodes.
      - Exactly one of O(image_id), O(image_parameter) and O(image_framework) is required when O(state=present).
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  image_parameter:
    description:
      - Public SSM parameter that names a machine image, such as those of the deep learning AMIs.
      - It is looked up once. Later runs keep the image until this option changes, so that a new release does not
        replace the nodes.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  image_framework:
    description:
      - Framework of a deep learning AMI, such as V(pytorch), V(pytorch-2.7), V(tensorflow-2.18), or V(base) for
        drivers alone. The newest version if none is given, for O(image_os) and the architecture of the instance
        type. A run says which that is.
      - It is looked up once, like O(image_parameter).
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  image_os:
    description:
      - Operating system of O(image_framework), such as V(ubuntu-22.04) or V(amazon-linux-2023). O(login_user) has
        to fit.
      - By default the newest Ubuntu that has the newest version of the framework.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  image_update:
    description:
      - Whether O(image_parameter) or O(image_framework) is looked up again, for the newest image.
      - It counts for one run and is not stored. A newer image than that of the nodes replaces them, which happens
        only with O(replace_nodes).
    type: bool
    default: false
  key_name:
    description:
      - EC2 key pair for the first login. Required when O(state=present).
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  root_volume_size:
    description:
      - Size of the encrypted root volume, in GiB.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: int
    default: 100
  root_volume_type:
    description:
      - Type of the root volume.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    choices: [gp3, gp2, io1, io2]
    default: gp3
  root_volume_iops:
    description:
      - Operations per second of a root volume of type V(gp3), V(io1) or V(io2). Required for the latter two.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: int
  root_volume_throughput:
    description:
      - Throughput of a root volume of type V(gp3), in MiB per second.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: int
  root_volume_kms_key:
    description:
      - KMS key of the root volume, by its id, ARN or alias. By default the account's key for EBS.
      - The role C(AWSServiceRoleForAutoScaling) must be allowed to use it.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  metadata_hop_limit:
    description:
      - How many network hops answers of the instance metadata service take, from 1 to 64. With V(1) only processes
        of the host itself, and containers that share its network, get the credentials of the nodes' role; V(2)
        is for containers behind a bridge.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: int
    default: 1
  efa:
    description:
      - Whether nodes get an Elastic Fabric Adapter on every network card that takes one. The instance type has
        to support it.
      - A master with several network cards is reached through an elastic IP address, as AWS gives such instances
        no other public one.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: bool
    default: false
  placement:
    description:
      - Whether nodes are close to each other, in a placement group with the strategy C(cluster). V(auto) means
        with O(efa), unless they go into the reservation or block of O(capacity_reservation_id), which decides where
        they are.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    choices: [auto, cluster, none]
    default: auto
  placement_group:
    description:
      - Name of an existing placement group with the strategy C(cluster) to use. It is never changed or deleted.
      - By default the cluster creates one if O(placement) requires it.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  login_user:
    description:
      - The image's login user, to whom the mount point belongs.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    default: ubuntu
"""

    NETWORK = r"""
options:
  vpc_id:
    description:
      - An existing VPC for the cluster, with existing subnets. It is checked, and never changed or deleted.
      - By default the cluster gets a VPC of its own.
      - Modules of one component need this and the other options of the network, too, because nothing in AWS says
        that the cluster has adopted it.
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well.
    type: str
  public_subnet_ids:
    description:
      - Subnets of O(vpc_id) with a route to an internet gateway, one for each zone. Required with O(vpc_id) unless
        O(master_public_address=false).
      - Changed in place, for a master that is launched from then on.
    type: list
    elements: str
    default: []
  private_subnet_ids:
    description:
      - Subnets of O(vpc_id) for the workers and the shared storage, one for each zone. Required with O(vpc_id).
      - Changed in place, to add zones, or to remove zones without nodes. Delete the cluster, which keeps the data,
        and create it again for another subnet of the same zone.
    type: list
    elements: str
    default: []
  security_group_ids:
    description:
      - Existing security groups of O(vpc_id) to use in place of the cluster's own. They are checked, and never
        changed or deleted.
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well. Or change the rules of the groups.
    type: dict
    suboptions:
      nodes:
        description:
          - Of all nodes; it must let in all TCP from itself, and with EFA all protocols from and to itself.
        type: str
      ssh:
        description:
          - Of the master, and of all nodes with O(master_public_address=false); it must let in TCP port 22.
        type: str
      storage:
        description:
          - Of mount targets and file systems; it must let in TCP port 2049 from the nodes.
        type: str
  master_public_address:
    description:
      - Whether the master has a public address, in a public subnet. Without one it is beside the workers, and all
        nodes are reached alike from inside the VPC or by Session Manager.
      - Changing it replaces the nodes, which happens only with O(ignore:replace_nodes). Keep O(nat) for that run;
        it can become V(none) afterwards.
    type: bool
    default: true
  network_cidr:
    description:
      - Address range of the cluster's own VPC, with a mask from /16 to /27. It has to hold all nodes.
      - Not used with O(vpc_id).
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well.
    type: str
    default: 10.0.0.0/16
  zones:
    description:
      - Availability zones that get a public and a private subnet, four at most.
      - By default the zones that the network or the adopted subnets have, or else one that offers the instance
        type.
      - Changed in place, as long as no node runs in a zone to be removed.
    type: list
    elements: str
    default: []
  ssh_cidrs:
    description:
      - Address ranges that may reach the master by SSH, or all nodes if the master has no public address.
      - Required when O(state=present), unless the master has no public address or the security group for SSH is
        adopted.
      - Changed in place.
    type: list
    elements: str
    default: []
  allow_ssh_from_anywhere:
    description:
      - Whether O(ssh_cidrs) may cover the internet, or more of it than an IPv4 /8 or an IPv6 /32. Private ranges
        do not count.
      - It counts for one run and is not stored.
    type: bool
    default: false
  nat:
    description:
      - NAT gateways of the cluster's own VPC. V(single) serves all zones, and other zones pay for traffic to it.
        V(per_zone) costs one gateway for each zone and outlives the loss of a zone. With V(none), nodes without
        a public address do not reach the internet.
      - Not used with O(vpc_id).
      - Changed in place, without interrupting the nodes' route out.
    type: str
    choices: [single, per_zone, none]
    default: single
  interface_endpoints:
    description:
      - Services of AWS that nodes reach without the internet, by the last part of their names, such as V(ssm),
        V(ssmmessages), V(ec2), V(autoscaling), V(elasticfilesystem), V(fsx), V(logs), V(sts) and V(monitoring).
        Each gets an interface endpoint in the private subnet of every zone. S3 has a gateway endpoint in any case.
      - Changed in place.
    type: list
    elements: str
    default: []
  lustre:
    description:
      - Whether the nodes share a file system of FSx for Lustre. Security groups let its ports in only then, or
        with O(lustre_file_system_id).
      - Switching it on makes the file system at once, and nodes mount it from their launch on.
      - Changing it replaces the nodes, which happens only with O(ignore:replace_nodes). Delete the cluster, which
        keeps the data, and create it again to switch it off while nodes run that mount it.
    type: bool
    default: false
  lustre_file_system_id:
    description:
      - An existing file system of FSx for Lustre to use, which is never changed or deleted. It is mounted by address
        if it is in another VPC and there is a route to it.
      - It cannot be changed while nodes run that mount another one. Delete the cluster, which keeps the data, and
        create it again.
    type: str
"""

    FILE_SYSTEM = r"""
options:
  vpc_id:
    description:
      - An existing VPC for the cluster, with existing subnets. It is checked, and never changed or deleted.
      - By default the cluster gets a VPC of its own.
      - Modules of one component need this and the other options of the network, too, because nothing in AWS says
        that the cluster has adopted it.
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well.
    type: str
  public_subnet_ids:
    description:
      - Subnets of O(vpc_id) with a route to an internet gateway, one for each zone. Required with O(vpc_id) unless
        O(master_public_address=false).
      - Changed in place, for a master that is launched from then on.
    type: list
    elements: str
    default: []
  private_subnet_ids:
    description:
      - Subnets of O(vpc_id) for the workers and the shared storage, one for each zone. Required with O(vpc_id).
      - Changed in place, to add zones, or to remove zones without nodes. Delete the cluster, which keeps the data,
        and create it again for another subnet of the same zone.
    type: list
    elements: str
    default: []
  security_group_ids:
    description:
      - Existing security groups of O(vpc_id) to use in place of the cluster's own. They are checked, and never
        changed or deleted.
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well. Or change the rules of the groups.
    type: dict
    suboptions:
      nodes:
        description:
          - Of all nodes; it must let in all TCP from itself, and with EFA all protocols from and to itself.
        type: str
      ssh:
        description:
          - Of the master, and of all nodes with O(master_public_address=false); it must let in TCP port 22.
        type: str
      storage:
        description:
          - Of mount targets and file systems; it must let in TCP port 2049 from the nodes.
        type: str
  master_public_address:
    description:
      - Whether the master has a public address, in a public subnet. Without one it is beside the workers, and all
        nodes are reached alike from inside the VPC or by Session Manager.
      - Changing it replaces the nodes, which happens only with O(ignore:replace_nodes). Keep O(ignore:nat) for
        that run; it can become V(none) afterwards.
    type: bool
    default: true
  kms_key_id:
    description:
      - Id or ARN of the KMS key that encrypts new file systems; those of SCRATCH_2 have a key of Amazon's.
      - By default AWS's own key for the service.
      - It cannot be changed. Copy the data to another file system and adopt that.
    type: str
  delete_data:
    description:
      - Whether O(state=absent) deletes the cluster's file systems and all data on them.
      - A file system that nodes of other clusters use is not deleted.
      - It counts for one run and is not stored.
    type: bool
    default: false
  efs:
    description:
      - Whether the nodes share an EFS file system.
      - It cannot be changed while nodes run that mount it. Delete the cluster, which keeps the data, and create
        it again.
    type: bool
    default: true
  file_system_id:
    description:
      - An existing EFS file system to use. It is never changed or deleted. Mount targets that it lacks in the cluster's
        zones are added, and deleted with the cluster. One that has its mount targets in another VPC is mounted
        by address if there is a route to it.
      - By default the cluster gets one of its own.
      - M(deeplearning.cluster.node_group) finds it by the cluster's mount targets, and has to be told where it
        has others.
      - It cannot be changed while nodes run that mount another one. Delete the cluster, which keeps the data, and
        create it again.
    type: str
  encrypted:
    description:
      - Whether a new EFS file system is encrypted at rest.
      - It cannot be changed. Copy the data to another file system and adopt that.
    type: bool
    default: true
  performance_mode:
    description:
      - Performance mode of a new EFS file system.
      - It cannot be changed. Copy the data to another file system and adopt that.
    type: str
    choices: [generalPurpose, maxIO]
    default: generalPurpose
  throughput_mode:
    description:
      - Throughput of the EFS file system. V(bursting) grows with the amount of data, V(elastic) follows the load
        and costs by the gigabyte, V(provisioned) is what O(provisioned_throughput) says.
      - Changed in place, and AWS lets a day pass before it is lowered again.
    type: str
    choices: [bursting, elastic, provisioned]
    default: bursting
  provisioned_throughput:
    description:
      - Throughput in MiB/s. Required with O(throughput_mode=provisioned), and only possible with it.
      - Changed in place, and AWS lets a day pass before it is lowered again.
    type: float
  file_system_directory:
    description:
      - Directory of the file system O(file_system_id) that the nodes see in place of the whole, such as V(/teams/bert).
        It has up to four names. They mount it through an access point that the cluster makes and deletes with itself.
        The directory stays.
      - EFS makes the directory if it is missing, and gives it to the user with the id 1000. It needs TLS.
      - Changing it replaces the nodes, which happens only with O(ignore:replace_nodes). The old access point goes
        once no node uses it.
    type: str
  encrypt_in_transit:
    description:
      - Whether the nodes mount EFS through TLS. They need C(amazon-efs-utils), which is installed where the distribution
        has it.
      - Left out, each node does whose image has that package, and the others use plain NFS. A cluster that was
        launched for plain NFS keeps that.
      - With V(true), the policy of a file system of the cluster's own refuses plain NFS, as soon as no node of
        any cluster is without TLS.
      - Changing it replaces the nodes, which happens only with O(ignore:replace_nodes).
    type: bool
"""

    LUSTRE_FILE_SYSTEM = r"""
options:
  vpc_id:
    description:
      - An existing VPC for the cluster, with existing subnets. It is checked, and never changed or deleted.
      - By default the cluster gets a VPC of its own.
      - Modules of one component need this and the other options of the network, too, because nothing in AWS says
        that the cluster has adopted it.
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well.
    type: str
  public_subnet_ids:
    description:
      - Subnets of O(vpc_id) with a route to an internet gateway, one for each zone. Required with O(vpc_id) unless
        O(master_public_address=false).
      - Changed in place, for a master that is launched from then on.
    type: list
    elements: str
    default: []
  private_subnet_ids:
    description:
      - Subnets of O(vpc_id) for the workers and the shared storage, one for each zone. Required with O(vpc_id).
      - Changed in place, to add zones, or to remove zones without nodes. Delete the cluster, which keeps the data,
        and create it again for another subnet of the same zone.
    type: list
    elements: str
    default: []
  security_group_ids:
    description:
      - Existing security groups of O(vpc_id) to use in place of the cluster's own. They are checked, and never
        changed or deleted.
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well. Or change the rules of the groups.
    type: dict
    suboptions:
      nodes:
        description:
          - Of all nodes; it must let in all TCP from itself, and with EFA all protocols from and to itself.
        type: str
      ssh:
        description:
          - Of the master, and of all nodes with O(master_public_address=false); it must let in TCP port 22.
        type: str
      storage:
        description:
          - Of mount targets and file systems; it must let in TCP port 2049 from the nodes.
        type: str
  master_public_address:
    description:
      - Whether the master has a public address, in a public subnet. Without one it is beside the workers, and all
        nodes are reached alike from inside the VPC or by Session Manager.
      - Changing it replaces the nodes, which happens only with O(ignore:replace_nodes). Keep O(ignore:nat) for
        that run; it can become V(none) afterwards.
    type: bool
    default: true
  kms_key_id:
    description:
      - Id or ARN of the KMS key that encrypts new file systems; those of SCRATCH_2 have a key of Amazon's.
      - By default AWS's own key for the service.
      - It cannot be changed. Copy the data to another file system and adopt that.
    type: str
  delete_data:
    description:
      - Whether O(state=absent) deletes the cluster's file systems and all data on them.
      - A file system that nodes of other clusters use is not deleted.
      - It counts for one run and is not stored.
    type: bool
    default: false
  lustre:
    description:
      - Whether the nodes share a file system of FSx for Lustre. Security groups let its ports in only then, or
        with O(lustre_file_system_id).
      - Switching it on makes the file system at once, and nodes mount it from their launch on.
      - Changing it replaces the nodes, which happens only with O(ignore:replace_nodes). Delete the cluster, which
        keeps the data, and create it again to switch it off while nodes run that mount it.
    type: bool
    default: false
  lustre_file_system_id:
    description:
      - An existing file system of FSx for Lustre to use, which is never changed or deleted. It is mounted by address
        if it is in another VPC and there is a route to it.
      - It cannot be changed while nodes run that mount another one. Delete the cluster, which keeps the data, and
        create it again.
    type: str
  lustre_capacity:
    description:
      - Size of a new Lustre file system in GiB, 1200 or a multiple of 2400.
      - Changed in place, at most once in six hours, and only upwards. Copy the data to a smaller file system and
        adopt that.
    type: int
    default: 1200
  lustre_deployment:
    description:
      - V(PERSISTENT_2) keeps several copies of the data, V(SCRATCH_2) one that is lost with a disk.
      - It cannot be changed. Copy the data to another file system and adopt that.
    type: str
    choices: [SCRATCH_2, PERSISTENT_2]
    default: PERSISTENT_2
  lustre_throughput:
    description:
      - Throughput in MB/s for every TiB of a PERSISTENT_2 file system. One of SCRATCH_2 has 200.
      - Changed in place.
    type: int
    choices: [125, 250, 500, 1000]
    default: 250
  lustre_compression:
    description:
      - How data on the Lustre file system is compressed.
      - Changed in place, for what is written from then on.
    type: str
    choices: [NONE, LZ4]
    default: LZ4
  lustre_data_repositories:
    description:
      - Prefixes in S3 that appear as directories of a new Lustre file system.
      - Changed in place, and what was imported stays on the file system. Take a path away first, and give it another
        prefix in the next run.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description:
          - The directory on the file system, which must not lie in another one that is linked.
        type: str
        default: /
      s3:
        description:
          - The bucket or prefix, such as C(s3://bucket/prefix). For another one, take the path away first.
        type: str
        required: true
      import_changes:
        description:
          - Whether objects appear as files, those that are there and those that come, change or go. It changes
            in place.
        type: bool
        default: true
      export_changes:
        description:
          - Whether files that come, change or go are written back to S3. It changes in place.
        type: bool
        default: false
"""

    INSTANCE_ROLE = r"""
options:
  bucket_mount:
    description:
      - S3 bucket or prefix whose objects the nodes see as files that they can read, such as C(s3://bucket/prefix).
        Mountpoint for Amazon S3 mounts it at O(ignore:bucket_mount_point) with the credentials of the nodes' role,
        which may read what is there.
      - By default no bucket is mounted.
      - Changing it replaces the nodes, which happens only with O(ignore:replace_nodes).
    type: str
  instance_profile:
    description:
      - Name of an existing instance profile for the nodes, which has to hold a role. It is never changed or deleted,
        and what its role allows is up to its owner.
      - By default the cluster gets one of its own.
      - Changing it replaces the nodes, which happens only with O(ignore:replace_nodes).
    type: str
  read_buckets:
    description:
      - S3 buckets that the nodes may read.
      - Changed in place.
    type: list
    elements: str
    default: []
  write_buckets:
    description:
      - S3 buckets that the nodes may read and write. Writing also replaces and deletes objects, so that jobs can
        remove old checkpoints, but no versions of them. Switch on the versioning of a bucket in which nothing may
        be lost.
      - Changed in place.
    type: list
    elements: str
    default: []
  permissions_boundary:
    description:
      - ARN of the IAM policy that bounds what the nodes' role can be allowed.
      - By default a new role has no boundary, and an existing one keeps its own.
      - Changed in place, and a role keeps the boundary that it has when the option is left out. Delete the boundary
        with C(aws iam delete-role-permissions-boundary).
    type: str
  session_manager:
    description:
      - Whether the role lets nodes be reached by Session Manager.
      - Needs the SSM agent on the image, and a way out to C(ssm) and C(ssmmessages) from every node.
      - Changed in place.
    type: bool
    default: false
"""

    NODE_GROUP = r"""
options:
  vpc_id:
    description:
      - An existing VPC for the cluster, with existing subnets. It is checked, and never changed or deleted.
      - By default the cluster gets a VPC of its own.
      - Modules of one component need this and the other options of the network, too, because nothing in AWS says
        that the cluster has adopted it.
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well.
    type: str
  public_subnet_ids:
    description:
      - Subnets of O(vpc_id) with a route to an internet gateway, one for each zone. Required with O(vpc_id) unless
        O(master_public_address=false).
      - Changed in place, for a master that is launched from then on.
    type: list
    elements: str
    default: []
  private_subnet_ids:
    description:
      - Subnets of O(vpc_id) for the workers and the shared storage, one for each zone. Required with O(vpc_id).
      - Changed in place, to add zones, or to remove zones without nodes. Delete the cluster, which keeps the data,
        and create it again for another subnet of the same zone.
    type: list
    elements: str
    default: []
  security_group_ids:
    description:
      - Existing security groups of O(vpc_id) to use in place of the cluster's own. They are checked, and never
        changed or deleted.
      - It cannot be changed. Delete the cluster, which keeps the data, and create it again. A Lustre file system
        keeps its network, so copy its data and delete it as well. Or change the rules of the groups.
    type: dict
    suboptions:
      nodes:
        description:
          - Of all nodes; it must let in all TCP from itself, and with EFA all protocols from and to itself.
        type: str
      ssh:
        description:
          - Of the master, and of all nodes with O(master_public_address=false); it must let in TCP port 22.
        type: str
      storage:
        description:
          - Of mount targets and file systems; it must let in TCP port 2049 from the nodes.
        type: str
  master_public_address:
    description:
      - Whether the master has a public address, in a public subnet. Without one it is beside the workers, and all
        nodes are reached alike from inside the VPC or by Session Manager.
      - Changing it replaces the nodes, which happens only with O(replace_nodes). Keep O(ignore:nat) for that run;
        it can become V(none) afterwards.
    type: bool
    default: true
  file_system_id:
    description:
      - An existing EFS file system to use. It is never changed or deleted. Mount targets that it lacks in the cluster's
        zones are added, and deleted with the cluster. One that has its mount targets in another VPC is mounted
        by address if there is a route to it.
      - By default the cluster gets one of its own.
      - M(deeplearning.cluster.node_group) finds it by the cluster's mount targets, and has to be told where it
        has others.
      - It cannot be changed while nodes run that mount another one. Delete the cluster, which keeps the data, and
        create it again.
    type: str
  file_system_directory:
    description:
      - Directory of the file system O(file_system_id) that the nodes see in place of the whole, such as V(/teams/bert).
        It has up to four names. They mount it through an access point that the cluster makes and deletes with itself.
        The directory stays.
      - EFS makes the directory if it is missing, and gives it to the user with the id 1000. It needs TLS.
      - Changing it replaces the nodes, which happens only with O(replace_nodes). The old access point goes once
        no node uses it.
    type: str
  encrypt_in_transit:
    description:
      - Whether the nodes mount EFS through TLS. They need C(amazon-efs-utils), which is installed where the distribution
        has it.
      - Left out, each node does whose image has that package, and the others use plain NFS. A cluster that was
        launched for plain NFS keeps that.
      - With V(true), the policy of a file system of the cluster's own refuses plain NFS, as soon as no node of
        any cluster is without TLS.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: bool
  mount_point:
    description:
      - Where the nodes mount the cluster's EFS file system at boot, and where jobs are. Without EFS, set it to
        the mount point of the storage that jobs are on.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    default: /efs
  lustre_file_system_id:
    description:
      - An existing file system of FSx for Lustre to use, which is never changed or deleted. It is mounted by address
        if it is in another VPC and there is a route to it.
      - It cannot be changed while nodes run that mount another one. Delete the cluster, which keeps the data, and
        create it again.
    type: str
  lustre_mount_point:
    description:
      - Where the nodes mount the Lustre file system at boot.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    default: /fsx
  bucket_mount:
    description:
      - S3 bucket or prefix whose objects the nodes see as files that they can read, such as C(s3://bucket/prefix).
        Mountpoint for Amazon S3 mounts it at O(bucket_mount_point) with the credentials of the nodes' role, which
        may read what is there.
      - By default no bucket is mounted.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  bucket_mount_point:
    description:
      - Where the nodes mount O(bucket_mount) at boot.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    default: /bucket
  instance_profile:
    description:
      - Name of an existing instance profile for the nodes, which has to hold a role. It is never changed or deleted,
        and what its role allows is up to its owner.
      - By default the cluster gets one of its own.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  group:
    description:
      - Which group of nodes.
    type: str
    choices: [master, workers]
    required: true
  instance_type:
    description:
      - Instance type of the master and the workers. Required when O(state=present).
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  worker_count:
    description:
      - Number of workers beside the master, at least 1. The master trains too, so a job has one host more.
      - Required when O(state=present).
      - It is C(playbooks/provision.yml) that asks the nodes for jobs.
      - Changed in place, and nodes with the highest numbers go when there are to be fewer, unless a job runs on
        them. Wait for the end of the job, or stop it with C(deeplearning.cluster.stop).
    type: int
  worker_minimum:
    description:
      - The number of workers that a job can do with, at least 1.
      - When AWS has fewer than O(worker_count) after O(capacity_timeout), but as many as this, the cluster goes
        on with what was launched, and says so. By default the full number is required.
      - A cluster that was accepted with fewer workers stays so until O(grow) or another O(worker_count) is given.
      - It counts for one run and is not stored.
    type: int
  market:
    description:
      - 'How nodes are purchased: on demand, as spot instances, from a capacity reservation, or from a Capacity
        Block for ML.'
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    choices: [on-demand, spot, capacity-reservation, capacity-block]
    default: on-demand
  spot_max_price:
    description:
      - The most to pay for a spot instance, in US dollars per hour. By default the on-demand price.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  capacity_reservation_id:
    description:
      - The reservation or block that the nodes are launched into, in its zone; required with O(market=capacity-block).
      - Without it O(market=capacity-reservation) takes any open reservation that matches, and nothing else.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  alternatives:
    description:
      - What else to try, in this order, when AWS has no capacity for O(worker_minimum) workers and the master with
        O(instance_type) and O(market). An alternative inherits every setting that it does not override.
      - Each is tried with all nodes for O(capacity_timeout), because a job runs at the speed of its slowest host.
        Requires O(wait).
      - It counts for one run and is not stored. A cluster with nodes keeps the alternative that they have. A zone
        that an alternative names is added in place.
    type: list
    elements: dict
    default: []
    suboptions:
      instance_type:
        description:
          - Instance type.
        type: str
      zone:
        description:
          - Availability zone for all nodes.
        type: str
      market:
        description:
          - How nodes are purchased.
        type: str
        choices: [on-demand, spot, capacity-reservation, capacity-block]
      spot_max_price:
        description:
          - The most to pay for a spot instance, in US dollars per hour.
        type: str
      capacity_reservation_id:
        description:
          - The reservation or block to launch into.
        type: str
  capacity_timeout:
    description:
      - How long to wait for the nodes of one alternative, in seconds. A reason that does not pass by itself ends
        the wait earlier.
      - When none of them has enough, the groups are restored.
      - It counts for one run and is not stored.
    type: int
    default: 600
  grow:
    description:
      - Whether a cluster that was accepted with fewer workers than O(worker_count) tries for the rest.
      - It counts for one run and is not stored.
    type: bool
    default: false
  replace_nodes:
    description:
      - Whether a run replaces nodes whose launch template has changed or changes, or whose EC2 status checks have
        failed. It replaces one by one, workers before the master.
      - Without it, such changes are only listed in RV(ignore:deferred) while there are nodes, and new nodes are
        like the others.
      - Never use it while a job runs; C(playbooks/provision.yml) asks the hosts first.
      - It counts for one run and is not stored.
    type: bool
    default: false
  progress_file:
    description:
      - File to which the module appends a line for each progress in the wait for nodes. M(deeplearning.cluster.cluster)
        shows them where this is left out.
      - It counts for one run and is not stored.
    type: path
  image_id:
    description:
      - Machine image of the nodes.
      - Exactly one of O(image_id), O(image_parameter) and O(image_framework) is required when O(state=present).
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  image_parameter:
    description:
      - Public SSM parameter that names a machine image, such as those of the deep learning AMIs.
      - It is looked up once. Later runs keep the image until this option changes, so that a new release does not
        replace the nodes.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  image_framework:
    description:
      - Framework of a deep learning AMI, such as V(pytorch), V(pytorch-2.7), V(tensorflow-2.18), or V(base) for
        drivers alone. The newest version if none is given, for O(image_os) and the architecture of the instance
        type. A run says which that is.
      - It is looked up once, like O(image_parameter).
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  image_os:
    description:
      - Operating system of O(image_framework), such as V(ubuntu-22.04) or V(amazon-linux-2023). O(login_user) has
        to fit.
      - By default the newest Ubuntu that has the newest version of the framework.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  image_update:
    description:
      - Whether O(image_parameter) or O(image_framework) is looked up again, for the newest image.
      - It counts for one run and is not stored. A newer image than that of the nodes replaces them, which happens
        only with O(replace_nodes).
    type: bool
    default: false
  key_name:
    description:
      - EC2 key pair for the first login. Required when O(state=present).
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  root_volume_size:
    description:
      - Size of the encrypted root volume, in GiB.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: int
    default: 100
  root_volume_type:
    description:
      - Type of the root volume.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    choices: [gp3, gp2, io1, io2]
    default: gp3
  root_volume_iops:
    description:
      - Operations per second of a root volume of type V(gp3), V(io1) or V(io2). Required for the latter two.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: int
  root_volume_throughput:
    description:
      - Throughput of a root volume of type V(gp3), in MiB per second.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: int
  root_volume_kms_key:
    description:
      - KMS key of the root volume, by its id, ARN or alias. By default the account's key for EBS.
      - The role C(AWSServiceRoleForAutoScaling) must be allowed to use it.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  metadata_hop_limit:
    description:
      - How many network hops answers of the instance metadata service take, from 1 to 64. With V(1) only processes
        of the host itself, and containers that share its network, get the credentials of the nodes' role; V(2)
        is for containers behind a bridge.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: int
    default: 1
  efa:
    description:
      - Whether nodes get an Elastic Fabric Adapter on every network card that takes one. The instance type has
        to support it.
      - A master with several network cards is reached through an elastic IP address, as AWS gives such instances
        no other public one.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: bool
    default: false
  placement:
    description:
      - Whether nodes are close to each other, in a placement group with the strategy C(cluster). V(auto) means
        with O(efa), unless they go into the reservation or block of O(capacity_reservation_id), which decides where
        they are.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    choices: [auto, cluster, none]
    default: auto
  placement_group:
    description:
      - Name of an existing placement group with the strategy C(cluster) to use. It is never changed or deleted.
      - By default the cluster creates one if O(placement) requires it.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
  login_user:
    description:
      - The image's login user, to whom the mount point belongs.
      - Changing it replaces the nodes, which happens only with O(replace_nodes).
    type: str
    default: ubuntu
"""
