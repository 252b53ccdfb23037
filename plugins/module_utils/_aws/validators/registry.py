# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The validators of all modules. The module for EMR clusters adds its own validators."""

from __future__ import annotations

from ..storage.registry import VALIDATORS as STORAGE_VALIDATORS
from ..validator import Validator
from . import account, addresses, capacity, definition, exports, iam, images, lease, network, node_ends, nodes, storage

VALIDATORS: tuple[Validator, ...] = (
    account.QuotasReadable(),
    *account.QUOTA_VALIDATORS,
    definition.TagNames(),
    definition.EnforcedPrice(),
    definition.NetworkCidr(),
    definition.SshCidrs(),
    definition.Buckets(),
    definition.Nodes(),
    network.Zones(),
    network.NetworkKept(),
    network.AdoptedNetwork(),
    network.AdoptedSubnets(),
    network.AdoptedDns(),
    network.AdoptedGroups(),
    network.PublicRoutes(),
    network.BlockPublicAccess(),
    network.PrivateRoutes(),
    network.InterfaceEndpoints(),
    network.SessionManagerReach(),
    addresses.SubnetRanges(),
    addresses.EnoughAddresses(),
    iam.InstanceProfile(),
    iam.IgnoredRights(),
    iam.PolicyStatements(),
    iam.AuthorityReadable(),
    *exports.VALIDATORS,
    nodes.KeyPair(),
    nodes.PrivateKey(),
    nodes.InstanceTypeOffered(),
    images.ImageFits(),
    images.ImageAccelerators(),
    images.ImageFamilies(),
    images.StorageClients(),
    nodes.RootVolumeSize(),
    nodes.RootVolumeKey(),
    nodes.NotifyTopic(),
    nodes.Efa(),
    nodes.EfaUnused(),
    nodes.SuspendedProcesses(),
    nodes.Placement(),
    nodes.PlacementGroup(),
    nodes.AdditionalGroups(),
    capacity.WorkerMinimum(),
    capacity.AlternativesOffered(),
    capacity.Market(),
    capacity.SpotMaxPrice(),
    capacity.CapacityReservation(),
    capacity.ReservedInstances(),
    capacity.BlockEnd(),
    *lease.VALIDATORS,
    *node_ends.VALIDATORS,
    *storage.VALIDATORS,
    *STORAGE_VALIDATORS,
)
