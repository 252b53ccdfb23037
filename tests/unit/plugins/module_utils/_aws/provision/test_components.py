# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests that check which components a module reads."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.component import EMR
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision.components import (
    ALL_COMPONENTS,
    components_to_read,
    register,
)


def test_a_module_reads_its_own_component_or_those_of_the_cluster():
    register(EMR)
    assert components_to_read(frozenset({EMR.name})) == (EMR,)
    assert components_to_read(frozenset({ALL_COMPONENTS[0].name})) == ALL_COMPONENTS
    assert components_to_read(frozenset()) == ALL_COMPONENTS, "cluster_info manages nothing and reads everything"
