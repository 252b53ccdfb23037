# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options that all provisioning modules share."""

from ..option import DEFAULT_WAIT_TIMEOUT, IN_PLACE, NOT_STORED, SUBJECT, Option, in_place
from ..storage import kinds
from ..tags import EMR_COMPONENT, IDLE_COMPONENT, INSTANCE_ROLE_COMPONENT, LEASE_COMPONENT, NETWORK_COMPONENT, NODES_COMPONENT

# The components that have options of their own, in the order of the documentation.
COMPONENTS = (NETWORK_COMPONENT, *kinds.COMPONENTS, INSTANCE_ROLE_COMPONENT, NODES_COMPONENT, EMR_COMPONENT)

OPTIONS = (
    Option(
        "cluster",
        {"type": "str", "required": True},
        COMPONENTS,
        SUBJECT,
        (
            "Name of the cluster.",
            "The name is part of the host names and is the value of the tag C(deeplearning:cluster) on every resource of the cluster.",
            "Use 1 to 30 lowercase letters, digits and hyphens.",
        ),
    ),
    Option(
        "state",
        {"type": "str", "choices": ["present", "absent"], "default": "present"},
        COMPONENTS,
        SUBJECT,
        (
            "V(present) creates missing resources and updates resources that differ from the definition.",
            "V(absent) deletes the cluster's resources. Adopted resources are never deleted. The cluster's file systems are deleted only"
            " if O(delete_data) is set.",
        ),
    ),
    Option(
        "tags",
        {"type": "dict", "default": {}},
        COMPONENTS,
        in_place(
            "but root volumes, network interfaces and Spot requests are tagged only at launch",
            "If you remove a tag from this option, existing resources keep the tag. Remove the tag from those resources yourself",
        ),
        (
            "Tags for every resource, in addition to the tags that the collection sets. Use only letters, digits, spaces and C(_.:/=+-@).",
            "A run does not change tags that were added to a resource outside the collection.",
        ),
    ),
    Option(
        "lease",
        {"type": "str"},
        (LEASE_COMPONENT,),
        in_place("and a new lease begins with the run"),
        (
            "When AWS terminates the nodes, whatever else is still running: a duration such as V(8h) or V(1d12h) that begins with the run"
            " that launches the nodes, or a time such as V(2026-12-01T18:00Z). The data is kept.",
            "EventBridge Scheduler deletes the Auto Scaling groups at this time. Runs prolong a lease with a duration when less than half"
            " of it is left. After the end, no run launches nodes until you set O(start_again) or a later time.",
        ),
    ),
    Option(
        "idle_after",
        {"type": "str"},
        (IDLE_COMPONENT,),
        IN_PLACE,
        (
            "When AWS terminates the nodes because nobody uses them: the time for which all of them must have been idle, from V(15m) to"
            " V(1d), such as V(30m). Data on shared storage is kept."
            " Files on the nodes' own disks, such as home directories, are deleted.",
            "Nodes report on their consoles when nothing runs on them, and AWS Lambda reads these reports every 5 minutes. A node that"
            " reports nothing counts as in use. Afterwards, no run launches nodes until you set O(start_again).",
        ),
    ),
    Option(
        "idle_then",
        {"type": "str", "choices": ["terminate", "notify"], "default": "terminate"},
        (IDLE_COMPONENT,),
        IN_PLACE,
        (
            "What AWS does if the nodes are idle: V(terminate) terminates them, and tells O(notify_topic) if it is set. V(notify) only"
            " tells O(notify_topic), to try O(idle_after).",
        ),
    ),
    Option(
        "start_again",
        {"type": "bool", "default": False},
        (IDLE_COMPONENT, LEASE_COMPONENT),
        NOT_STORED,
        ("Whether this run launches nodes again after AWS has terminated them, at the end of O(lease) or because of O(idle_after).",),
    ),
    Option(
        "keep_ends",
        {"type": "bool", "default": False},
        (NODES_COMPONENT,),
        NOT_STORED,
        (
            "Whether a run fails before it changes anything if it would remove the lease, the end of idle nodes or the messages to a topic,"
            " because O(lease), O(idle_after) or O(notify_topic) is not set. C(--check) and validations then fail, too."
            " Without this option, the playbooks ask on a terminal.",
        ),
    ),
    Option(
        "lease_minimum",
        {"type": "int", "default": 0},
        (LEASE_COMPONENT,),
        NOT_STORED,
        ("Number of seconds that a lease with a duration must last after this run. The playbook C(train) sets the time limit of its job.",),
        has_variable=False,
    ),
    Option(
        "suppress_validators",
        {"type": "list", "elements": "str", "default": []},
        COMPONENTS,
        NOT_STORED,
        ("Names of validators to skip. Each finding includes the name of its validator.",),
    ),
    Option(
        "prices",
        {"type": "bool", "default": True},
        COMPONENTS,
        NOT_STORED,
        (
            "Whether to show what the cluster costs per hour. The prices come from the AWS Price List. The controller keeps them a week,"
            " and prices of Spot Instances for an hour.",
            "If AWS cannot be asked, the run uses published prices, and shows their date.",
        ),
    ),
    Option(
        "price_warning",
        {"type": "float"},
        COMPONENTS,
        NOT_STORED,
        (
            "Price per day, in the currency of O(prices). A run or a validation warns if the cluster costs more after the run, or if the"
            " price of something that it adds is not known.",
            "The price does not include data, traffic, requests, taxes and discounts.",
        ),
    ),
    Option(
        "enforce_price_warning",
        {"type": "bool", "default": False},
        COMPONENTS,
        NOT_STORED,
        (
            "Whether a run fails before it changes anything if its changes make the cluster cost more than O(price_warning), or add"
            " something whose price is not known. C(--check) and validations then fail, too. Without this option, the playbooks ask"
            " on a terminal.",
            "Requires O(price_warning).",
        ),
    ),
    Option(
        "wait",
        {"type": "bool", "default": True},
        COMPONENTS,
        NOT_STORED,
        (
            "Whether to wait until all resources are ready.",
            "With V(false), a run waits only for resources that other resources depend on, and does not assign numbers to the nodes.",
        ),
    ),
    Option(
        "wait_timeout",
        {"type": "int", "default": DEFAULT_WAIT_TIMEOUT},
        COMPONENTS,
        NOT_STORED,
        ("Maximum time to wait for one resource, in seconds. The timeout for terminating instances is always at least 3600 seconds.",),
    ),
)
