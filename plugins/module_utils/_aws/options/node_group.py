# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of the nodes, such as instance type, worker count, market and image."""

from ..option import (
    IN_PLACE,
    NOT_STORED,
    REPLACES_NODES,
    Option,
    Suboption,
    Update,
    UpdatePolicy,
    in_place,
)
from ..tags import EMR_COMPONENT, NODES_COMPONENT

MARKETS = ["on-demand", "spot", "capacity-reservation", "capacity-block"]

OPTIONS = (
    Option(
        "instance_type",
        {"type": "str"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("Instance type of the master and the workers. Required with O(state=present).",),
    ),
    Option(
        "worker_count",
        {"type": "int"},
        (NODES_COMPONENT,),
        in_place(
            "but a lower value, which removes the nodes with the highest numbers, is refused while a job is running on these nodes",
            "If a job is running on a node to be removed, wait until the job ends, or stop it with C(deeplearning.cluster.stop)",
        ),
        (
            "Number of workers in addition to the master. The master also takes part in training, so a job can use one more host than this"
            " number. With V(0), the cluster is a single node.",
            "Required with O(state=present).",
            "The module does not check whether jobs are running on the nodes, but C(playbooks/provision.yml) does.",
        ),
    ),
    Option(
        "worker_minimum",
        {"type": "int"},
        (NODES_COMPONENT,),
        NOT_STORED,
        (
            "The minimum number of workers that the cluster needs, from 1 to O(worker_count). This option has no effect with"
            " O(worker_count=0).",
            "If AWS has launched at least this many workers after O(capacity_timeout), but fewer than O(worker_count), the run accepts and"
            " reports the smaller cluster. By default, all O(worker_count) workers are required.",
            "A cluster that was accepted with fewer workers keeps its size until you set O(grow) or change O(worker_count).",
        ),
    ),
    Option(
        "spares",
        {"type": "int", "default": 0},
        (NODES_COMPONENT,),
        in_place("in the same way as the number of workers"),
        (
            "Number of spare nodes, in addition to the master and the O(worker_count) workers. Spares are launched, numbered, configured"
            " and checked in the same way as workers, and cost the same.",
            "A job on all nodes keeps the spares on standby. If the job loses a node, it continues on a spare.",
            "Spares count toward O(worker_minimum). By default, all spares are required.",
        ),
    ),
    Option(
        "market",
        {"type": "str", "choices": MARKETS, "default": "on-demand"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("Whether the nodes are On-Demand Instances, Spot Instances, or instances in a capacity reservation or a Capacity Block for ML.",),
    ),
    Option(
        "master_market",
        {"type": "str", "choices": ["on-demand"]},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "With V(on-demand), the master is an On-Demand Instance, and only the workers use O(market) and the markets in O(alternatives)."
            " By default, all nodes use the same market.",
        ),
    ),
    Option(
        "spot_max_price",
        {"type": "str"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("Maximum price for a Spot Instance, in US dollars per hour. The default is the On-Demand price.",),
    ),
    Option(
        "capacity_reservation_id",
        {"type": "str"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "The capacity reservation or Capacity Block for the nodes. This reservation or block determines the zone of the nodes."
            " Required with O(market=capacity-block).",
            "Without this option, O(market=capacity-reservation) uses any matching open reservation, but no capacity outside reservations.",
        ),
    ),
    Option(
        "alternatives",
        {"type": "list", "elements": "dict", "default": []},
        (NODES_COMPONENT,),
        Update(
            UpdatePolicy.NOT_STORED,
            advice="A cluster that has nodes keeps its current alternative. The zones of new alternatives are added in place",
        ),
        (
            "Alternatives to try in the given order if AWS has insufficient capacity for the master and O(worker_minimum) workers with"
            " O(instance_type) and O(market). An alternative inherits every setting that it does not override.",
            "A run waits up to O(capacity_timeout) for each alternative. All nodes use the same alternative, because a job runs at the"
            " speed of its slowest host. This option requires O(wait).",
        ),
        (
            Suboption("instance_type", {"type": "str"}, "Instance type of the nodes."),
            Suboption("zone", {"type": "str"}, "Availability Zone for all nodes."),
            Suboption("market", {"type": "str", "choices": MARKETS}, "Purchasing option of the nodes."),
            Suboption("spot_max_price", {"type": "str"}, "Maximum price for a Spot Instance, in US dollars per hour."),
            Suboption("capacity_reservation_id", {"type": "str"}, "The capacity reservation or Capacity Block for the nodes."),
        ),
    ),
    Option(
        "capacity_timeout",
        {"type": "int", "default": 600},
        (NODES_COMPONENT,),
        NOT_STORED,
        (
            "Maximum time to wait for the nodes of one alternative, in seconds. The wait ends early if launches fail permanently.",
            "If AWS has insufficient capacity for every alternative, the run restores the previous state of the Auto Scaling groups.",
        ),
    ),
    Option(
        "grow",
        {"type": "bool", "default": False},
        (NODES_COMPONENT,),
        NOT_STORED,
        ("Whether the run tries to launch the missing workers of a cluster that was accepted with fewer than O(worker_count) workers.",),
    ),
    Option(
        "replace_nodes",
        {"type": "bool", "default": False},
        (NODES_COMPONENT,),
        NOT_STORED,
        (
            "Whether the run replaces outdated nodes and nodes whose EC2 status checks have failed. A node is outdated if its launch"
            " template has changed, changes in this run, or was deleted. The nodes are replaced one by one, workers before the master.",
            "By default, if the cluster has nodes, the run defers changes that require new nodes. RV(ignore:deferred) lists these changes."
            " Until these changes are applied, new nodes get the same settings as the existing nodes.",
            "Do not use this option while a job is running. C(playbooks/provision.yml) first checks the hosts for running jobs.",
        ),
    ),
    Option(
        "allow_outdated_nodes",
        {"type": "bool", "default": True},
        (NODES_COMPONENT,),
        NOT_STORED,
        (
            "Whether the run accepts outdated nodes that it does not replace. With V(false), the run fails before it changes anything if"
            " nodes differ from the definition and O(replace_nodes) is V(false).",
            "C(playbooks/train.yml) changes the default to V(false), so that no job starts on nodes that differ from the definition.",
        ),
    ),
    Option(
        "known_instances",
        {"type": "list", "elements": "str"},
        (NODES_COMPONENT,),
        NOT_STORED,
        (
            "IDs of the instances that the caller has checked for running jobs. The run fails before it changes anything if it would"
            " terminate another node of the cluster.",
            "Playbooks set this option to the nodes of the inventory. A copy of an inventory, as in AWX, can be older than some nodes.",
        ),
        has_variable=False,
    ),
    Option(
        "progress_file",
        {"type": "path"},
        (NODES_COMPONENT, EMR_COMPONENT),
        NOT_STORED,
        (
            "File to which the module appends progress messages while it waits for nodes. If this option is not set,"
            " M(deeplearning.cluster.cluster) and M(deeplearning.cluster.emr_cluster) show these messages.",
        ),
        has_variable=False,
    ),
    Option(
        "image_id",
        {"type": "str"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "ID of the AMI for the nodes.",
            "O(image_id), O(image_parameter) and O(image_framework) are mutually exclusive.",
        ),
    ),
    Option(
        "image_parameter",
        {"type": "str"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "Public SSM parameter that contains the ID of an AMI, such as a parameter of the Deep Learning AMIs.",
            "The first run looks up the image. Later runs keep this image until the option changes, so that a new release of the image does"
            " not cause the nodes to be replaced.",
        ),
        yields_to=("image_id", "image_framework"),
    ),
    Option(
        "image_framework",
        {"type": "str"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "Framework of a Deep Learning AMI, such as V(pytorch) or V(pytorch-2.7), or V(base) for drivers only."
            " Without a version, the run uses and reports the newest version that is available for O(image_os) and the architecture of"
            " the instance type.",
            "Later runs keep the image that the first run looked up.",
            "The default is V(pytorch) if neither O(image_id) nor O(image_parameter) is set.",
        ),
    ),
    Option(
        "image_os",
        {"type": "str"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "Operating system of the image for O(image_framework), such as V(ubuntu-22.04) or V(amazon-linux-2023). O(login_user) must"
            " match the operating system.",
            "The default is the newest Ubuntu release up to V(ubuntu-24.04) that is available with the newest version of the framework.",
        ),
    ),
    Option(
        "image_update",
        {"type": "bool", "default": False},
        (NODES_COMPONENT,),
        Update(UpdatePolicy.NOT_STORED, advice="Changing to a newer image replaces the nodes, which requires O(replace_nodes)"),
        ("Whether to look up O(image_parameter) or O(image_framework) again to get the newest image.",),
    ),
    Option(
        "key_name",
        {"type": "str"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("EC2 key pair for the first login. Required with O(state=present).",),
    ),
    Option(
        "private_key_file",
        {"type": "path", "no_log": False},
        (NODES_COMPONENT,),
        NOT_STORED,
        (
            "File on the controller with the private key of O(key_name). The module compares the key with the key pair, but does not copy"
            " the file.",
            "The inventory sets this option to the value of its own option C(private_key_file), which is the file that SSH uses.",
        ),
    ),
    Option(
        "root_volume_size",
        {"type": "int", "default": 100},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("Size of the encrypted root volume, in GiB.",),
    ),
    Option(
        "root_volume_type",
        {"type": "str", "choices": ["gp3", "gp2", "io1", "io2"], "default": "gp3"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("Type of the root volume.",),
    ),
    Option(
        "root_volume_iops",
        {"type": "int"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("Provisioned IOPS of a root volume of type V(gp3), V(io1) or V(io2). Required for V(io1) and V(io2).",),
    ),
    Option(
        "root_volume_throughput",
        {"type": "int"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("Throughput of a root volume of type V(gp3), in MiB per second.",),
    ),
    Option(
        "root_volume_kms_key",
        {"type": "str", "no_log": False},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "ID, ARN or alias of the KMS key for the root volume. The default is the account's default KMS key for EBS encryption.",
            "The service-linked role C(AWSServiceRoleForAutoScaling) must be allowed to use the key.",
        ),
    ),
    Option(
        "metadata_hop_limit",
        {"type": "int", "default": 1},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "Hop limit for responses from the instance metadata service, from 1 to 64. With V(1), only processes on the host and containers"
            " that use the host network can get the credentials of the nodes' role. Containers on a bridge network need V(2).",
        ),
    ),
    Option(
        "notify_topic",
        {"type": "str"},
        (NODES_COMPONENT,),
        IN_PLACE,
        (
            "ARN of an existing SNS topic, which AWS notifies, even without a controller, when a launch fails and when a node is terminated"
            " through its Auto Scaling group, and before and at the end of a lease.",
            "The topic must be a standard topic in the region of the cluster. A run never changes the topic or its subscriptions.",
        ),
    ),
    Option(
        "efa",
        {"type": "bool", "default": False},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "Whether nodes get an Elastic Fabric Adapter on every network card that supports EFA. The instance type must support EFA.",
            "A master with several network interfaces gets an Elastic IP address, because AWS does not automatically assign a public"
            " address to such instances.",
        ),
    ),
    Option(
        "placement",
        {"type": "str", "choices": ["auto", "cluster", "none"], "default": "auto"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "Whether to launch the nodes close to each other in a placement group with the strategy C(cluster).",
            "V(auto) uses a placement group for a new cluster that has workers and only one zone, if the instance type supports it, and"
            " always with O(efa). Nodes in a capacity reservation or Capacity Block are in no placement group, because the reservation"
            " determines their placement. A cluster that has nodes keeps its placement.",
        ),
    ),
    Option(
        "placement_group",
        {"type": "str"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "Name of an existing placement group with the strategy C(cluster). A run never changes or deletes the group.",
            "By default, a run creates a placement group if O(placement) requires one.",
        ),
    ),
    Option(
        "additional_security_group_ids",
        {"type": "list", "elements": "str", "default": []},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "Existing security groups that all nodes belong to, in addition to the cluster's own security groups. For example, a database"
            " can then allow connections from these groups. A run never changes or deletes these groups.",
            "This option requires O(vpc_id), and these groups must be in that VPC. By default, AWS allows 5 security groups per network"
            " interface. The cluster's own groups use up to 2 of them.",
        ),
    ),
    Option(
        "login_user",
        {"type": "str", "default": "ubuntu"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("The login user of the image, who also owns the mount point.",),
    ),
)
