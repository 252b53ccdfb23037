# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of the network. If the cluster uses an adopted network, some of these options also apply to components other than the network."""

from ..option import (
    DELETE_AND_CREATE,
    IN_PLACE,
    NOT_STORED,
    Option,
    Suboption,
    Update,
    UpdatePolicy,
    forbidden,
    in_place,
)
from ..storage import kinds
from ..tags import NETWORK_COMPONENT, NODES_COMPONENT

IN_THE_NETWORK = (NETWORK_COMPONENT, *kinds.COMPONENTS, NODES_COMPONENT)
MOVING = forbidden(". ".join((DELETE_AND_CREATE, *kinds.BOUND_TO_NETWORK)))
OF_SUBNETS = forbidden(". ".join((DELETE_AND_CREATE, *kinds.BOUND_TO_NETWORK)), details="for existing subnets")

OPTIONS = (
    Option(
        "vpc_id",
        {"type": "str"},
        IN_THE_NETWORK,
        MOVING,
        (
            "ID of an existing VPC for the cluster. The VPC must already contain subnets. A run checks the VPC, but never changes or"
            " deletes it.",
            "By default, a run creates a VPC for the cluster.",
            "Modules that manage a single component also need this option and the related network options, because no tag in AWS shows"
            " that the cluster uses an adopted network.",
        ),
    ),
    Option(
        "public_subnet_ids",
        {"type": "list", "elements": "str", "default": []},
        IN_THE_NETWORK,
        in_place("but the change applies only to a master that is launched afterwards"),
        (
            "Subnets of O(vpc_id) with a route to an internet gateway, one for each Availability Zone. Required with O(vpc_id), unless you"
            " set O(master_public_address=false).",
        ),
    ),
    Option(
        "private_subnet_ids",
        {"type": "list", "elements": "str", "default": []},
        IN_THE_NETWORK,
        in_place(
            "but only to add zones, or to remove zones that have no nodes",
            "To use a different subnet in the same zone, delete the cluster (the data is kept) and create it again",
        ),
        ("Subnets of O(vpc_id) for the workers and the shared storage, one for each Availability Zone. Required with O(vpc_id).",),
    ),
    Option(
        "security_group_ids",
        {"type": "dict"},
        IN_THE_NETWORK,
        forbidden(f"{MOVING.advice}. Alternatively, change the rules of the security groups"),
        (
            "Existing security groups of O(vpc_id) to use instead of new groups. A run checks the existing groups, but never"
            " changes or deletes them.",
        ),
        (
            Suboption(
                "nodes",
                {"type": "str"},
                "Security group of all nodes. The group must allow all TCP traffic from itself. With EFA, the group must allow all traffic"
                " to and from itself.",
            ),
            Suboption(
                "ssh",
                {"type": "str"},
                "Security group of the master or, if O(master_public_address=false), of all nodes. The group must allow inbound traffic on"
                " TCP port 22.",
            ),
            Suboption(
                "storage",
                {"type": "str"},
                " ".join(("Security group for mount targets and file systems.", *kinds.GROUP_RULES)),
            ),
        ),
    ),
    Option(
        "master_public_address",
        {"type": "bool", "default": True},
        IN_THE_NETWORK,
        Update(UpdatePolicy.REPLACES_NODES, advice="Do not change O(nat) in the same run. You can set O(nat) to V(none) in a later run"),
        (
            "Whether the master is in a public subnet and has a public address. With V(false), the master is in a private subnet like the"
            " workers. SSH can then reach the nodes only from inside the VPC or through Session Manager.",
        ),
    ),
    Option(
        "network_cidr",
        {"type": "str", "default": "10.0.0.0/16"},
        (NETWORK_COMPONENT,),
        MOVING,
        (
            "CIDR block of the cluster's own VPC, with a prefix length from /16 to /27. The block must contain enough addresses for all"
            " nodes.",
            "This option is not used if O(vpc_id) is set.",
        ),
    ),
    Option(
        "private_subnet_cidrs",
        {"type": "dict", "default": {}},
        (NETWORK_COMPONENT,),
        OF_SUBNETS,
        (
            "CIDR blocks of the private subnets in the cluster's own VPC, by zone. Each block must be part of O(network_cidr) and have a"
            " prefix length from /16 to /28.",
            "A zone without a block gets a free block of O(network_cidr). This option is not used if O(vpc_id) is set.",
        ),
    ),
    Option(
        "public_subnet_cidrs",
        {"type": "dict", "default": {}},
        (NETWORK_COMPONENT,),
        OF_SUBNETS,
        ("CIDR blocks of the public subnets in the cluster's own VPC, by zone, in the same format as O(private_subnet_cidrs).",),
    ),
    Option(
        "zones",
        {"type": "list", "elements": "str", "default": []},
        (NETWORK_COMPONENT,),
        in_place("but you can remove only zones in which no node is running"),
        (
            "Availability Zones of the cluster, at most four. Each zone gets a public and a private subnet.",
            "By default, the cluster uses the zones of the existing network or of the adopted subnets. A new network gets one zone in"
            " which the instance type is offered.",
        ),
    ),
    Option(
        "ssh_cidrs",
        {"type": "list", "elements": "str", "default": []},
        (NETWORK_COMPONENT,),
        IN_PLACE,
        (
            "CIDR blocks from which SSH can reach the master, or all nodes if the master has no public address.",
            "Required with O(state=present), unless the master has no public address or the SSH security group is adopted.",
        ),
    ),
    Option(
        "allow_ssh_from_anywhere",
        {"type": "bool", "default": False},
        (NETWORK_COMPONENT,),
        NOT_STORED,
        (
            "Whether O(ssh_cidrs) may contain public ranges that together are larger than an IPv4 /8 or an IPv6 /32, such as the whole"
            " internet.",
        ),
    ),
    Option(
        "nat",
        {"type": "str", "choices": ["single", "per_zone", "none"], "default": "single"},
        (NETWORK_COMPONENT,),
        in_place("without interrupting the nodes' internet access"),
        (
            "NAT gateways in the cluster's own VPC. V(single) creates one gateway for all zones. Traffic from other zones to this gateway"
            " costs extra. V(per_zone) creates a gateway in each zone, so that the other zones keep their internet access if one zone"
            " fails. With V(none), nodes without a public address cannot reach the internet.",
            "This option is not used if O(vpc_id) is set.",
        ),
    ),
    Option(
        "interface_endpoints",
        {"type": "list", "elements": "str", "default": []},
        (NETWORK_COMPONENT,),
        IN_PLACE,
        (
            "AWS services that nodes can reach without internet access. Specify the last part of each service name, such as V(ssm),"
            " V(ssmmessages), V(ec2), V(autoscaling), V(elasticfilesystem), V(fsx), V(logs), V(sts) or V(monitoring). Each service gets"
            " an interface endpoint in the private subnet of every zone. The cluster's own VPC always has a"
            " gateway endpoint for S3.",
        ),
    ),
)
