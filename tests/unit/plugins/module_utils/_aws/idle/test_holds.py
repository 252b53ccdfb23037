"""Tests of holds, which keep nodes that look idle."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle import holds


@pytest.mark.parametrize(("option", "given", "most"), [("seconds", None, "604800"), ("duration", "8d", "7d")])
def test_a_hold_that_is_too_long_is_refused_by_the_name_of_its_option(option, given, most):
    cloud = SimpleNamespace(module=SimpleNamespace(params={"duration": given}))
    with pytest.raises(ClusterError, match=rf"^{option}: a hold lasts at most 7 days\. Specify up to {most}\.$"):
        holds.hold(cloud, None, "study", timedelta(days=8))
