"""Tests that check which mounts the arguments of the module shared_storage describe."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage import converge

from .described import LUSTRE_SOURCE


@pytest.mark.parametrize(
    ("older", "kind", "source"),
    [("file_system_id", "efs", "fs-1"), ("lustre_source", "lustre", LUSTRE_SOURCE)],
)
def test_older_arguments_of_the_module_say_the_same(older, kind, source):
    arguments = {"path": "/data", "owner": "ubuntu", "region": "us-east-1", "adopted": True}
    both = [{older: source, **arguments}, {"kind": kind, "source": source, **arguments}]
    parsed = [ArgumentSpecValidator(**converge.SPECIFICATION).validate(each) for each in both]
    assert [each.error_messages for each in parsed] == [[], []]
    first, second = (converge.described(each.validated_parameters) for each in parsed)
    assert first == second
    assert (second.mount_point, second.adopted) == ("/data", True)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"source": "fs-1"}, {"kind": "efs", "source": "fs-1"}, {"kind": "efs", "source": "fs-1", "file_system_id": "fs-1", "region": "a"}],
)
def test_the_module_needs_to_know_what_to_mount(arguments):
    parsed = ArgumentSpecValidator(**converge.SPECIFICATION).validate({"owner": "ubuntu", **arguments})
    assert parsed.error_messages
