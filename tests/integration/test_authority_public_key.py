"""The published public keys of the SSH certificate authority, which controllers without the policy `configure` read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.ssh_authority import authority
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.ssh_authority import published_key as parameter
from local_cloud.testing import LocalCloud
from permissions import Operators, operators

__all__ = ["operators"]


@pytest.fixture(params=["fresh reads", "stale reads"], autouse=True)
def reads(cloud: LocalCloud, request: pytest.FixtureRequest) -> None:
    """With stale reads, the first read of a parameter after each change returns the previous state."""
    if request.param == "stale reads":
        cloud.control.read_stale_parameters()


Run = Callable[..., dict[str, Any]]


def published(cloud: LocalCloud, name: str) -> list[str]:
    parameter = cloud.client("ssm").get_parameter(Name=f"/deeplearning/{name}/ssh-authority-public-key")["Parameter"]
    assert parameter["Type"] == "String"
    return str(parameter["Value"]).splitlines()


def test_the_public_key_is_published_and_deleted_with_the_authority(cloud: LocalCloud, run: Run, name: str) -> None:
    missing = run("ssh_authority_info", cluster=name)
    assert (missing["exists"], missing["public_keys"]) == (False, [])
    made = run("ssh_authority", cluster=name)
    assert published(cloud, name) == [made["public_key"]]
    found = run("ssh_authority_info", cluster=name)
    assert (found["exists"], found["public_keys"]) == (True, [made["public_key"]])
    tags = cloud.client("ssm").list_tags_for_resource(ResourceType="Parameter", ResourceId=found["parameter"])["TagList"]
    assert {"Key": "deeplearning:cluster", "Value": name} in tags
    assert run("ssh_authority", cluster=name, state="absent")["changed"]
    assert run("ssh_authority_info", cluster=name)["public_keys"] == []


def test_both_keys_are_published_during_a_rotation(cloud: LocalCloud, run: Run, name: str) -> None:
    keys = [run("ssh_authority", cluster=name)["public_key"]]
    for _rotation in range(2):
        keys.insert(0, run("ssh_authority", cluster=name, rotate=True)["public_key"])
        assert published(cloud, name) == keys[:2], "nodes still have certificates of the previous authority"
        assert not run("ssh_authority", cluster=name)["changed"]
        assert run("ssh_authority", cluster=name, purge_previous=True, check=True)["changed"]
        assert run("ssh_authority", cluster=name, purge_previous=True)["changed"]
        assert published(cloud, name) == keys[:1]
        assert not run("ssh_authority", cluster=name)["changed"], "the previous key does not come back"


@pytest.mark.parametrize("change", ["another key", "a key in addition", "no key", "deleted"])
def test_only_the_key_that_belongs_to_the_private_key_is_right(cloud: LocalCloud, run: Run, name: str, change: str) -> None:
    other = run("ssh_authority", cluster=f"{name}-other")["public_key"]
    own = run("ssh_authority", cluster=name)["public_key"]
    ssm, parameter = cloud.client("ssm"), f"/deeplearning/{name}/ssh-authority-public-key"
    if change == "deleted":
        ssm.delete_parameter(Name=parameter)
    else:
        value = {"another key": other, "a key in addition": f"{own}\n{other}", "no key": "x"}[change]
        ssm.put_parameter(Name=parameter, Value=value, Type="String", Overwrite=True)
        ssm.get_parameter(Name=parameter)  # later reads are not stale
    assert run("ssh_authority", cluster=name, check=True)["changed"]
    assert run("ssh_authority", cluster=name)["changed"]
    assert published(cloud, name) == [own]
    assert not run("ssh_authority", cluster=name)["changed"]


def test_a_key_that_another_run_replaces_meanwhile_is_the_one_that_is_published(
    cloud: LocalCloud, run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run("ssh_authority", cluster=name)["public_key"]
    cloud.client("ssm").delete_parameter(Name=f"/deeplearning/{name}/ssh-authority-public-key")
    write, rotated = parameter.write, []

    def after_a_rotation(client: Any, keys: list[str]) -> int:
        if not rotated:
            rotated.append(authority.public_key(authority.replace(client, None, "Standard").private_key, name))
            authority.read(client)  # the other run publishes the key
        return write(client, keys)

    monkeypatch.setattr(parameter, "write", after_a_rotation)
    run("ssh_authority", cluster=name)
    assert published(cloud, name) == [*rotated, first]


def test_a_person_with_the_policy_status_reads_only_the_public_key(cloud: LocalCloud, run: Run, name: str, operators: Operators) -> None:
    own = run("ssh_authority", cluster=name)["public_key"]
    for policy in ("status", "stop", "dataset", "provision", "validate", "destroy", "emr_status"):
        operators.be(policy)
        assert run("ssh_authority_info", cluster=name)["public_keys"] == [own], policy
        with pytest.raises(Exception, match=r"is not authorized to perform: ssm:GetParameter on resource: .*/ssh-authority because"):
            run("ssh_authority", cluster=name)
    operators.be("status")
    nothing = run("ssh_authority_info", cluster=f"{name}-none")
    assert nothing["public_keys"] == []
    assert "exists" not in nothing, "only the tags of the private key's parameter can tell"
