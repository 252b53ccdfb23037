# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of every module that provisions."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import (
    DEFAULT_WAIT_TIMEOUT,
    INSTANCE_ROLE,
    NETWORK,
    NODE_GROUP,
    NOT_STORED,
    SUBJECT,
    Option,
    in_place,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage import kinds

#: All modules of one component, in the order of the documentation.
COMPONENTS = (NETWORK, *kinds.MODULES, INSTANCE_ROLE, NODE_GROUP)

OPTIONS = (
    Option(
        "cluster",
        {"type": "str", "required": True},
        COMPONENTS,
        SUBJECT,
        (
            "Name of the cluster.",
            "Stands in the tag C(deeplearning:cluster) of everything that belongs to it, and in host names.",
            "Lower case letters, digits and dashes, 30 characters at most.",
        ),
        former_variables=("deeplearning_cluster_name", "provision_cluster_name"),
    ),
    Option(
        "state",
        {"type": "str", "choices": ["present", "absent"], "default": "present"},
        COMPONENTS,
        SUBJECT,
        (
            "V(present) creates what is missing and changes what is different.",
            "V(absent) deletes what belongs to the cluster. What was adopted stays, and so do the file systems unless O(delete_data) is"
            " set.",
        ),
    ),
    Option(
        "tags",
        {"type": "dict", "default": {}},
        COMPONENTS,
        in_place(
            "except for root volumes, network interfaces and spot requests, which have new ones from their launch on",
            "A tag that is left out stays where it is; take it off yourself",
        ),
        (
            "Tags for every resource, beside the collection's own. Letters, digits, spaces and C(_.:/=+-@) are possible.",
            "Other tags that a resource carries are left alone.",
        ),
    ),
    Option(
        "suppress_validators",
        {"type": "list", "elements": "str", "default": []},
        COMPONENTS,
        NOT_STORED,
        ("Names of validators that are not to be asked. A finding tells the name of the one that made it.",),
    ),
    Option(
        "wait",
        {"type": "bool", "default": True},
        COMPONENTS,
        NOT_STORED,
        (
            "Whether to wait until everything can be used.",
            "Without it only that is waited for which something else needs, and nodes are not numbered.",
        ),
    ),
    Option(
        "wait_timeout",
        {"type": "int", "default": DEFAULT_WAIT_TIMEOUT},
        COMPONENTS,
        NOT_STORED,
        ("How long to wait for one resource, in seconds. The end of instances is waited for at least 3600 seconds.",),
    ),
)
