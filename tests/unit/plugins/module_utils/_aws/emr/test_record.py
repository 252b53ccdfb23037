"""Tests of the parameter that records which EMR cluster belongs to a cluster."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import record


class Store:
    """A stub of Parameter Store with one parameter. `values` lists the parameter's values from oldest to newest."""

    cluster = "bert"

    def __init__(self, *values):
        self.values = list(values)
        self.repeats = 1

    @property
    def ssm(self):
        return self

    def client(self, _service):
        return self

    def get_parameters(self, **arguments):
        _name, _colon, version = arguments["Names"][0].partition(":")
        number = int(version or len(self.values))
        found = [{"Value": self.values[number - 1], "Version": number}] if 0 < number <= len(self.values) else []
        return {"Parameters": found}

    def put_parameter(self, **arguments):
        assert (arguments["Name"], arguments["Overwrite"]) == ("/deeplearning/bert/emr-cluster", True)
        self.values += [arguments["Value"]] * self.repeats
        return {"Version": len(self.values)}


def test_a_run_that_continues_another_one_uses_its_token():
    store = Store()
    assert record.read(store) is None
    begun = record.begin(store)
    assert (len(begun.token), begun.cluster_id) == (32, "")
    assert record.begin(store) == begun
    record.complete(store, begun, "j-1")
    assert (record.read(store).cluster_id, record.read(store).token) == ("j-1", "")
    assert record.begin(store).token not in ("", begun.token)


@pytest.mark.parametrize("value", ["", "creating-", "creating-x", "j-1 j-2", "j-", "i-0123", "j-1\n"])
def test_other_values_name_no_cluster(value):
    assert (record.ClusterRecord(value, 1).cluster_id, record.ClusterRecord(value, 1).token) == ("", "")


def test_a_write_whose_response_was_lost_is_no_other_run():
    """The SDK repeats the API call, and the parameter gets two new versions."""
    store = Store()
    begun = record.begin(store)
    store.repeats = 2
    record.complete(store, begun, "j-1")
    assert store.values[1:] == ["j-1", "j-1"]


def test_another_run_at_the_same_time_is_an_error():
    store = Store()
    begun = record.begin(store)
    store.values.append("j-2")
    with pytest.raises(ClusterError, match=r"at the same time\. From now on, runs use j-1"):
        record.complete(store, begun, "j-1")
