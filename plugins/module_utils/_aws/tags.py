# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The tags that every resource of a cluster has. Pure."""

from __future__ import annotations

CLUSTER_TAG = "deeplearning:cluster"
COMPONENT_TAG = "deeplearning:component"
KEY_TAG = "deeplearning:key"
IMAGE_TAG = "deeplearning:image"

# Values of the tag `deeplearning:component`, which are the names of the components. Each kind of storage has its own in its package.
NETWORK_COMPONENT = "network"
INSTANCE_ROLE_COMPONENT = "instance_role"
NODES_COMPONENT = "nodes"
