# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of the nodes: their type, their number, and what they are launched from."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import (
    NODE_GROUP,
    NOT_STORED,
    REPLACES_NODES,
    SUBJECT,
    Option,
    Policy,
    Suboption,
    Update,
    in_place,
)

MARKETS = ["on-demand", "spot", "capacity-reservation", "capacity-block"]

OPTIONS = (
    Option(
        "group",
        {"type": "str", "choices": ["master", "workers"], "required": True},
        (NODE_GROUP,),
        SUBJECT,
        ("Which group of nodes.",),
        whole=False,
    ),
    Option(
        "instance_type",
        {"type": "str"},
        (NODE_GROUP,),
        REPLACES_NODES,
        ("Instance type of the master and the workers. Required when O(state=present).",),
    ),
    Option(
        "worker_count",
        {"type": "int"},
        (NODE_GROUP,),
        in_place(
            "and nodes with the highest numbers go when there are to be fewer, unless a job runs on them",
            "Wait for the end of the job, or stop it with C(deeplearning.cluster.stop)",
        ),
        (
            "Number of workers beside the master, at least 1. The master trains too, so a job has one host more.",
            "Required when O(state=present).",
            "It is C(playbooks/provision.yml) that asks the nodes for jobs.",
        ),
    ),
    Option(
        "worker_minimum",
        {"type": "int"},
        (NODE_GROUP,),
        NOT_STORED,
        (
            "The number of workers that a job can do with, at least 1.",
            "When AWS has fewer than O(worker_count) after O(capacity_timeout), but as many as this, the cluster goes on with what was"
            " launched, and says so. By default the full number is required.",
            "A cluster that was accepted with fewer workers stays so until O(grow) or another O(worker_count) is given.",
        ),
    ),
    Option(
        "market",
        {"type": "str", "choices": MARKETS, "default": "on-demand"},
        (NODE_GROUP,),
        REPLACES_NODES,
        ("How nodes are purchased: on demand, as spot instances, from a capacity reservation, or from a Capacity Block for ML.",),
    ),
    Option(
        "spot_max_price",
        {"type": "str"},
        (NODE_GROUP,),
        REPLACES_NODES,
        ("The most to pay for a spot instance, in US dollars per hour. By default the on-demand price.",),
    ),
    Option(
        "capacity_reservation_id",
        {"type": "str"},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "The reservation or block that the nodes are launched into, in its zone; required with O(market=capacity-block).",
            "Without it O(market=capacity-reservation) takes any open reservation that matches, and nothing else.",
        ),
    ),
    Option(
        "alternatives",
        {"type": "list", "elements": "dict", "default": []},
        (NODE_GROUP,),
        Update(
            Policy.NOT_STORED,
            advice="A cluster with nodes keeps the alternative that they have. A zone that an alternative names is added in place",
        ),
        (
            "What else to try, in this order, when AWS has no capacity for O(worker_minimum) workers and the master with O(instance_type)"
            " and O(market). An alternative inherits every setting that it does not override.",
            "Each is tried with all nodes for O(capacity_timeout), because a job runs at the speed of its slowest host. Requires O(wait).",
        ),
        (
            Suboption("instance_type", {"type": "str"}, "Instance type."),
            Suboption("zone", {"type": "str"}, "Availability zone for all nodes."),
            Suboption("market", {"type": "str", "choices": MARKETS}, "How nodes are purchased."),
            Suboption("spot_max_price", {"type": "str"}, "The most to pay for a spot instance, in US dollars per hour."),
            Suboption("capacity_reservation_id", {"type": "str"}, "The reservation or block to launch into."),
        ),
    ),
    Option(
        "capacity_timeout",
        {"type": "int", "default": 600},
        (NODE_GROUP,),
        NOT_STORED,
        (
            "How long to wait for the nodes of one alternative, in seconds. A reason that does not pass by itself ends the wait earlier.",
            "When none of them has enough, the groups are restored.",
        ),
    ),
    Option(
        "grow",
        {"type": "bool", "default": False},
        (NODE_GROUP,),
        NOT_STORED,
        ("Whether a cluster that was accepted with fewer workers than O(worker_count) tries for the rest.",),
    ),
    Option(
        "replace_nodes",
        {"type": "bool", "default": False},
        (NODE_GROUP,),
        NOT_STORED,
        (
            "Whether a run replaces nodes whose launch template has changed or changes, or whose EC2 status checks have failed."
            " It replaces one by one, workers before the master.",
            "Without it, such changes are only listed in RV(ignore:deferred) while there are nodes, and new nodes are like the others.",
            "Never use it while a job runs; C(playbooks/provision.yml) asks the hosts first.",
        ),
    ),
    Option(
        "progress_file",
        {"type": "path"},
        (NODE_GROUP,),
        NOT_STORED,
        (
            "File to which the module appends a line for each progress in the wait for nodes. M(deeplearning.cluster.cluster) shows them"
            " where this is left out.",
        ),
    ),
    Option(
        "image_id",
        {"type": "str"},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "Machine image of the nodes.",
            "Exactly one of O(image_id), O(image_parameter) and O(image_framework) is required when O(state=present).",
        ),
    ),
    Option(
        "image_parameter",
        {"type": "str"},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "Public SSM parameter that names a machine image, such as those of the deep learning AMIs.",
            "It is looked up once. Later runs keep the image until this option changes, so that a new release does not replace the nodes.",
        ),
        yields_to=("image_id", "image_framework"),
    ),
    Option(
        "image_framework",
        {"type": "str"},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "Framework of a deep learning AMI, such as V(pytorch), V(pytorch-2.7), V(tensorflow-2.18), or V(base) for drivers alone. The"
            " newest version if none is given, for O(image_os) and the architecture of the instance type. A run says which that is.",
            "It is looked up once, like O(image_parameter).",
        ),
    ),
    Option(
        "image_os",
        {"type": "str"},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "Operating system of O(image_framework), such as V(ubuntu-22.04) or V(amazon-linux-2023). O(login_user) has to fit.",
            "By default the newest Ubuntu that has the newest version of the framework.",
        ),
    ),
    Option(
        "image_update",
        {"type": "bool", "default": False},
        (NODE_GROUP,),
        Update(Policy.NOT_STORED, advice="A newer image than that of the nodes replaces them, which happens only with O(replace_nodes)"),
        ("Whether O(image_parameter) or O(image_framework) is looked up again, for the newest image.",),
    ),
    Option(
        "key_name",
        {"type": "str"},
        (NODE_GROUP,),
        REPLACES_NODES,
        ("EC2 key pair for the first login. Required when O(state=present).",),
    ),
    Option(
        "root_volume_size",
        {"type": "int", "default": 100},
        (NODE_GROUP,),
        REPLACES_NODES,
        ("Size of the encrypted root volume, in GiB.",),
    ),
    Option(
        "root_volume_type",
        {"type": "str", "choices": ["gp3", "gp2", "io1", "io2"], "default": "gp3"},
        (NODE_GROUP,),
        REPLACES_NODES,
        ("Type of the root volume.",),
    ),
    Option(
        "root_volume_iops",
        {"type": "int"},
        (NODE_GROUP,),
        REPLACES_NODES,
        ("Operations per second of a root volume of type V(gp3), V(io1) or V(io2). Required for the latter two.",),
    ),
    Option(
        "root_volume_throughput",
        {"type": "int"},
        (NODE_GROUP,),
        REPLACES_NODES,
        ("Throughput of a root volume of type V(gp3), in MiB per second.",),
    ),
    Option(
        "root_volume_kms_key",
        {"type": "str", "no_log": False},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "KMS key of the root volume, by its id, ARN or alias. By default the account's key for EBS.",
            "The role C(AWSServiceRoleForAutoScaling) must be allowed to use it.",
        ),
    ),
    Option(
        "metadata_hop_limit",
        {"type": "int", "default": 1},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "How many network hops answers of the instance metadata service take, from 1 to 64. With V(1) only processes of the host"
            " itself, and containers that share its network, get the credentials of the nodes' role; V(2) is for containers behind a"
            " bridge.",
        ),
    ),
    Option(
        "efa",
        {"type": "bool", "default": False},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "Whether nodes get an Elastic Fabric Adapter on every network card that takes one. The instance type has to support it.",
            "A master with several network cards is reached through an elastic IP address, as AWS gives such instances no other public"
            " one.",
        ),
    ),
    Option(
        "placement",
        {"type": "str", "choices": ["auto", "cluster", "none"], "default": "auto"},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "Whether nodes are close to each other, in a placement group with the strategy C(cluster). V(auto) means with O(efa), unless"
            " they go into the reservation or block of O(capacity_reservation_id), which decides where they are.",
        ),
    ),
    Option(
        "placement_group",
        {"type": "str"},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "Name of an existing placement group with the strategy C(cluster) to use. It is never changed or deleted.",
            "By default the cluster creates one if O(placement) requires it.",
        ),
    ),
    Option(
        "login_user",
        {"type": "str", "default": "ubuntu"},
        (NODE_GROUP,),
        REPLACES_NODES,
        ("The image's login user, to whom the mount point belongs.",),
    ),
)
