# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The tags that every resource of a cluster has. Pure."""

from __future__ import annotations

CLUSTER_TAG = "deeplearning:cluster"
COMPONENT_TAG = "deeplearning:component"
KEY_TAG = "deeplearning:key"
IMAGE_TAG = "deeplearning:image"
