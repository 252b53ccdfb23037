# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of the network. Every component in an adopted network needs some of them."""

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
            "An existing VPC for the cluster, with existing subnets. It is checked, and never changed or deleted.",
            "By default the cluster gets a VPC of its own.",
            "Modules of one component need this and the other options of the network, too, because nothing in AWS says that"
            " the cluster has adopted it.",
        ),
    ),
    Option(
        "public_subnet_ids",
        {"type": "list", "elements": "str", "default": []},
        IN_THE_NETWORK,
        in_place("for a master that is launched from then on"),
        (
            "Subnets of O(vpc_id) with a route to an internet gateway, one for each zone. Required with O(vpc_id) unless"
            " O(master_public_address=false).",
        ),
    ),
    Option(
        "private_subnet_ids",
        {"type": "list", "elements": "str", "default": []},
        IN_THE_NETWORK,
        in_place(
            "to add zones, or to remove zones without nodes",
            f"{DELETE_AND_CREATE} for another subnet of the same zone",
        ),
        ("Subnets of O(vpc_id) for the workers and the shared storage, one for each zone. Required with O(vpc_id).",),
    ),
    Option(
        "security_group_ids",
        {"type": "dict"},
        IN_THE_NETWORK,
        forbidden(f"{MOVING.advice}. Or change the rules of the groups"),
        ("Existing security groups of O(vpc_id) to use in place of the cluster's own. They are checked, and never changed or deleted.",),
        (
            Suboption(
                "nodes", {"type": "str"}, "Of all nodes; it must let in all TCP from itself, and with EFA all protocols from and to itself."
            ),
            Suboption(
                "ssh",
                {"type": "str"},
                "Of the master, and of all nodes with O(master_public_address=false); it must let in TCP port 22.",
            ),
            Suboption("storage", {"type": "str"}, "Of mount targets and file systems; it must let in TCP port 2049 from the nodes."),
        ),
    ),
    Option(
        "master_public_address",
        {"type": "bool", "default": True},
        IN_THE_NETWORK,
        Update(Policy.REPLACES_NODES, advice="Keep O(nat) for that run; it can become V(none) afterwards"),
        (
            "Whether the master has a public address, in a public subnet. Without one it is beside the workers, and all nodes are reached"
            " alike from inside the VPC or by Session Manager.",
        ),
    ),
    Option(
        "network_cidr",
        {"type": "str", "default": "10.0.0.0/16"},
        (NETWORK,),
        MOVING,
        (
            "Address range of the cluster's own VPC, with a mask from /16 to /27. It has to hold all nodes.",
            "Not used with O(vpc_id).",
        ),
    ),
    Option(
        "zones",
        {"type": "list", "elements": "str", "default": []},
        (NETWORK,),
        in_place("as long as no node runs in a zone to be removed"),
        (
            "Availability zones that get a public and a private subnet, four at most.",
            "By default the zones that the network or the adopted subnets have, or else one that offers the instance type.",
        ),
    ),
    Option(
        "ssh_cidrs",
        {"type": "list", "elements": "str", "default": []},
        (NETWORK,),
        IN_PLACE,
        (
            "Address ranges that may reach the master by SSH, or all nodes if the master has no public address.",
            "Required when O(state=present), unless the master has no public address or the security group for SSH is adopted.",
        ),
    ),
    Option(
        "allow_ssh_from_anywhere",
        {"type": "bool", "default": False},
        (NETWORK,),
        NOT_STORED,
        ("Whether O(ssh_cidrs) may cover the internet, or more of it than an IPv4 /8 or an IPv6 /32. Private ranges do not count.",),
    ),
    Option(
        "nat",
        {"type": "str", "choices": ["single", "per_zone", "none"], "default": "single"},
        (NETWORK,),
        in_place("without interrupting the nodes' route out"),
        (
            "NAT gateways of the cluster's own VPC. V(single) serves all zones, and other zones pay for traffic to it. V(per_zone) costs"
            " one gateway for each zone and outlives the loss of a zone. With V(none), nodes without a public address do not"
            " reach the internet.",
            "Not used with O(vpc_id).",
        ),
    ),
    Option(
        "interface_endpoints",
        {"type": "list", "elements": "str", "default": []},
        (NETWORK,),
        IN_PLACE,
        (
            "Services of AWS that nodes reach without the internet, by the last part of their names, such as V(ssm), V(ssmmessages),"
            " V(ec2), V(autoscaling), V(elasticfilesystem), V(fsx), V(logs), V(sts) and V(monitoring). Each gets an interface endpoint in"
            " the private subnet of every zone. S3 has a gateway endpoint in any case.",
        ),
    ),
)
