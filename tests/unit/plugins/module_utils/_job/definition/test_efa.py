"""Tests that check which jobs use EFA."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.efa import fabric_environment
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError

FABRIC = {"FI_PROVIDER": "efa", "NCCL_NET": "AWS Libfabric"}


def hosts(*efa):
    return [Host(f"worker{number}", f"10.0.0.{number}", number, 8, "ens5", has) for number, has in enumerate(efa, start=1)]


@pytest.mark.parametrize(("efa", "expected"), [((True, True), FABRIC), ((True,), {}), ((False, False), {}), ((), {})])
def test_the_environment_forbids_tcp_where_all_have_efa(efa, expected):
    assert fabric_environment(hosts(*efa)) == expected


def test_a_host_without_efa_among_others_is_refused():
    with pytest.raises(LaunchError) as refused:
        fabric_environment(hosts(True, False, True, False))
    assert str(refused.value) == (
        "EFA is available on worker1, worker3 but not on worker2, worker4, so all of the job's hosts would communicate over TCP. Replace "
        "the nodes without EFA (replace_nodes), or run the job without these nodes."
    )
