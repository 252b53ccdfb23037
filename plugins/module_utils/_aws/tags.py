# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The keys of the tags on a cluster's resources."""

import re

CLUSTER_TAG = "deeplearning:cluster"
CLUSTER_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,28}[a-z0-9])?")
COMPONENT_TAG = "deeplearning:component"
KEY_TAG = "deeplearning:key"
IMAGE_TAG = "deeplearning:image"
LEASE_TAG = "deeplearning:lease"  # on groups: AWS deletes them at the end of a lease
IDLE_TAG = "deeplearning:idle"  # on groups: AWS deletes them if the nodes are idle
TOPIC_TAG = "deeplearning:notify-topic"  # on groups: the ARN of the SNS topic to which Auto Scaling sends notifications

# Component names, which are the values of the tag `deeplearning:component`. Those of the lease and of idle nodes
# are also names of options. Each storage package declares its own component name.
NETWORK_COMPONENT = "network"
INSTANCE_ROLE_COMPONENT = "instance_role"
NODES_COMPONENT = "nodes"
LEASE_COMPONENT = "lease"
IDLE_COMPONENT = "idle_after"
EMR_COMPONENT = "emr"

# The tags of groups that AWS ends by itself, by the component and option.
END_TAGS = {LEASE_COMPONENT: LEASE_TAG, IDLE_COMPONENT: IDLE_TAG}
