"""Tests of the mounts that the inventory and the definition give to a host."""

from __future__ import annotations

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.deeplearning.cluster.plugins.lookup.storage_mounts import LookupModule, storage_mounts

SOURCE = "fs-2.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh"
TOLD = {"kind": "efs", "source": "fs-1"}
EFS = {**TOLD, "path": "/efs", "adopted": False}
LUSTRE = {"kind": "lustre", "source": SOURCE, "path": "/fsx", "adopted": False}
BUCKET = {"kind": "bucket", "source": "s3://sets", "path": "/data", "adopted": False}
ID = {"deeplearning_file_system_id": "fs-1"}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ({}, []),
        ({"deeplearning_mounts": []}, []),
        ({"deeplearning_file_system_id": ""}, []),
        ({"deeplearning_mounts": [TOLD]}, [EFS]),
        (ID, [EFS]),
        ({**ID, "deeplearning_mounts": [TOLD]}, [EFS]),
        ({"deeplearning_mounts": [TOLD], "deeplearning_mount_point": "/shared"}, [{**EFS, "path": "/shared"}]),
        ({"deeplearning_mounts": [TOLD], "deeplearning_mount_point": ""}, [EFS]),
        ({"deeplearning_mounts": [{**TOLD, "path": "/own"}], "deeplearning_mount_point": "/shared"}, [{**EFS, "path": "/own"}]),
        ({**ID, "deeplearning_file_system_access_point": "fsap-1"}, [{**EFS, "access_point": "fsap-1"}]),
        ({**ID, "deeplearning_file_system_access_point": ""}, [EFS]),
        ({**ID, "deeplearning_file_system_directory": "/team"}, [{**EFS, "directory": "/team"}]),
        ({**ID, "deeplearning_file_system_directory": ""}, [EFS]),
        ({"deeplearning_lustre_source": SOURCE}, [LUSTRE]),
        (
            {"deeplearning_mounts": [{"kind": "lustre", "source": SOURCE}], "deeplearning_lustre_mount_point": "/fast"},
            [{**LUSTRE, "path": "/fast"}],
        ),
        ({**ID, "deeplearning_mounts": [BUCKET, {**BUCKET, "path": "/more"}]}, [BUCKET, {**BUCKET, "path": "/more"}, EFS]),
        ({"deeplearning_mounts": [{"kind": "tape", "source": "t"}]}, [{"kind": "tape", "source": "t"}]),
    ],
)
def test_the_definition_adds_what_the_inventory_does_not_say(host, expected):
    assert storage_mounts(host, {}) == expected


@pytest.mark.parametrize(
    ("told", "definition", "expected"),
    [
        ({}, None, {}),
        ({}, True, {"encrypt_in_transit": True}),
        ({"encrypt_in_transit": False}, True, {"encrypt_in_transit": False}),
        ({"encrypt_in_transit": None}, True, {"encrypt_in_transit": None}),
    ],
)
def test_hosts_keep_the_setting_of_their_launch(told, definition, expected):
    host = {"deeplearning_mounts": [{**TOLD, **told}], "deeplearning_encrypt_in_transit": definition}
    assert storage_mounts(host, {}) == [{**EFS, **expected}]
    of_inventory = {"deeplearning_file_system_tls": told["encrypt_in_transit"]} if told else {}
    assert storage_mounts({**ID, **of_inventory, "deeplearning_encrypt_in_transit": definition}, {}) == [{**EFS, **expected}]


@pytest.mark.parametrize(
    ("mount", "variable"),
    [(EFS, "deeplearning_file_system_id"), (LUSTRE, "deeplearning_lustre_file_system_id")],
)
def test_what_the_definition_names_is_adopted(mount, variable):
    """The inventory names the cluster's own file systems too, so only the controller's variables count."""
    host = {"deeplearning_mounts": [mount | {}], variable: "fs-1"}
    del host["deeplearning_mounts"][0]["adopted"]
    assert storage_mounts(host, {variable: "fs-0123456789abcdef0"})[0]["adopted"] is True
    assert storage_mounts(host, {variable: ""})[0]["adopted"] is storage_mounts(host, {})[0]["adopted"] is False


def test_the_values_of_templates_are_those_of_the_host():
    variables = {
        "hostvars": {"localhost": ID},
        "root": "/shared",
        "deeplearning_mounts": [trust_as_template("{{ {'kind': 'efs', 'source': 'fs-1'} }}")],
        "deeplearning_mount_point": trust_as_template("{{ root }}/efs"),
    }
    templar = Templar(loader=DataLoader(), variables=variables)
    assert LookupModule(templar=templar).run([], variables) == [{**EFS, "path": "/shared/efs", "adopted": True}]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ({}, [{"kind": "efs", "path": "/efs", "adopted": False}, {"kind": "lustre", "path": "/fsx", "adopted": False}]),
        ({**ID, "deeplearning_lustre_mount_point": "/fast"}, [EFS, {"kind": "lustre", "path": "/fast", "adopted": False}]),
        ({"deeplearning_mounts": [BUCKET, TOLD, LUSTRE]}, [BUCKET, EFS, LUSTRE]),
    ],
)
def test_former_mounts_can_be_removed_although_nothing_names_their_source(host, expected):
    variables = {"hostvars": {"localhost": {}}, **host}
    templar = Templar(loader=DataLoader(), variables=variables)
    assert LookupModule(templar=templar).run([], variables, unused=True) == expected
