# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""All validators."""

from __future__ import annotations

from . import definition, network, nodes
from .base import Validator

VALIDATORS: tuple[Validator, ...] = (
    definition.Tags(),
    definition.NetworkCidr(),
    definition.SshCidrs(),
    definition.Buckets(),
    definition.Nodes(),
    network.Zones(),
    nodes.KeyPair(),
    nodes.InstanceTypeOffered(),
    nodes.ImageFits(),
)
