# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of the network. Components in an adopted network need some of these options."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import (
    DELETE_AND_CREATE,
    IN_PLACE,
    NETWORK,
    NODE_GROUP,
    NOT_STORED,
    Option,
    Policy,
    Suboption,
    Update,
    forbidden,
    in_place,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage import kinds

IN_THE_NETWORK = (NETWORK, *kinds.MODULES, NODE_GROUP)
MOVING = forbidden(". ".join((DELETE_AND_CREATE, *kinds.BOUND_TO_NETWORK)))

OPTIONS = (
    Option(
        "vpc_id",
        {"type": "str"},
        IN_THE_NETWORK,
        MOVING,
        (
            "An existing VPC for the cluster, with existing subnets. The VPC is checked, but never changed or deleted.",
            "By default, the cluster creates its own VPC.",
            "Modules of one component also need this option and the other options of the network, because no tag in AWS shows that"
            " the cluster uses an adopted network.",
        ),
    ),
    Option(
        "public_subnet_ids",
        {"type": "list", "elements": "str", "default": []},
        IN_THE_NETWORK,
        in_place("but only for a master that is launched after the change"),
        (
            "Subnets of O(vpc_id) with a route to an internet gateway, one for each zone. Required with O(vpc_id), unless"
            " O(master_public_address=false).",
        ),
    ),
    Option(
        "private_subnet_ids",
        {"type": "list", "elements": "str", "default": []},
        IN_THE_NETWORK,
        in_place(
            "if you add zones, or remove zones without nodes",
            f"{DELETE_AND_CREATE} to use another subnet of the same zone",
        ),
        ("Subnets of O(vpc_id) for the workers and the shared storage, one for each zone. Required with O(vpc_id).",),
    ),
    Option(
        "security_group_ids",
        {"type": "dict"},
        IN_THE_NETWORK,
        forbidden(f"{MOVING.advice}. Alternatively, change the rules of the groups"),
        ("Existing security groups of O(vpc_id) to use instead of the cluster's own. These are checked, but never changed or deleted.",),
        (
            Suboption(
                "nodes",
                {"type": "str"},
                "Group of all nodes. It must allow all TCP traffic from itself. With EFA, it must allow all protocols from and to itself.",
            ),
            Suboption(
                "ssh",
                {"type": "str"},
                "Group of the master, or of all nodes with O(master_public_address=false). It must allow traffic to TCP port 22.",
            ),
            Suboption(
                "storage",
                {"type": "str"},
                "Group of mount targets and file systems. It must allow traffic from the nodes to TCP port 2049.",
            ),
        ),
    ),
    Option(
        "master_public_address",
        {"type": "bool", "default": True},
        IN_THE_NETWORK,
        Update(Policy.REPLACES_NODES, advice="Do not change O(nat) in the same run; you can set it to V(none) afterwards"),
        (
            "Whether the master is in a public subnet and has a public address. With V(false), the master is in a private subnet like the"
            " workers, and SSH reaches all nodes from inside the VPC or through Session Manager.",
        ),
    ),
    Option(
        "network_cidr",
        {"type": "str", "default": "10.0.0.0/16"},
        (NETWORK,),
        MOVING,
        (
            "Address range of the cluster's own VPC, with a mask from /16 to /27. The range must contain enough addresses for all nodes.",
            "This option is not used with O(vpc_id).",
        ),
    ),
    Option(
        "zones",
        {"type": "list", "elements": "str", "default": []},
        (NETWORK,),
        in_place("if no node is running in a zone that you remove"),
        (
            "Availability zones of the cluster, at most four. Each zone gets a public and a private subnet.",
            "The default is the zones of the existing network or of the adopted subnets. A new network gets one zone that offers the"
            " instance type.",
        ),
    ),
    Option(
        "ssh_cidrs",
        {"type": "list", "elements": "str", "default": []},
        (NETWORK,),
        IN_PLACE,
        (
            "Address ranges from which SSH can reach the master, or all nodes if the master has no public address.",
            "Required with O(state=present), unless the master has no public address or the security group for SSH is adopted.",
        ),
    ),
    Option(
        "allow_ssh_from_anywhere",
        {"type": "bool", "default": False},
        (NETWORK,),
        NOT_STORED,
        ("Whether O(ssh_cidrs) may contain public ranges larger than an IPv4 /8 or an IPv6 /32, such as the whole internet.",),
    ),
    Option(
        "nat",
        {"type": "str", "choices": ["single", "per_zone", "none"], "default": "single"},
        (NETWORK,),
        in_place("without interrupting the nodes' internet access"),
        (
            "NAT gateways of the cluster's own VPC. V(single) creates one gateway for all zones, and traffic from other zones to this"
            " gateway costs extra. V(per_zone) creates a gateway in each zone, so that other zones keep working if a zone fails. With"
            " V(none), nodes without a public address cannot reach the internet.",
            "This option is not used with O(vpc_id).",
        ),
    ),
    Option(
        "interface_endpoints",
        {"type": "list", "elements": "str", "default": []},
        (NETWORK,),
        IN_PLACE,
        (
            "AWS services that nodes reach without the internet. Specify the last part of each service's name, such as V(ssm),"
            " V(ssmmessages), V(ec2), V(autoscaling), V(elasticfilesystem), V(fsx), V(logs), V(sts) or V(monitoring). Each service gets"
            " an interface endpoint in the private subnet of every zone. S3 always has a gateway endpoint.",
        ),
    ),
)
