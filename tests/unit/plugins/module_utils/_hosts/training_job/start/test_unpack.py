"""Tests of the description of a job that is unpacked with its code."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import unpack
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, document_schemas, schema

from unit.plugins.module_utils._job.definition.parameters import parameters


@pytest.mark.parametrize("more", [{}, {"resume": "digits-1", "printed": True, "sync_directory": "/nvme/code"}])
def test_the_description_contains_the_parameters_that_its_schema_defines(tmp_path, more):
    archive, paths = io.BytesIO(), directories.Paths(str(tmp_path / "jobs/digits"))
    with tarfile.open(fileobj=archive, mode="w"):
        archive.seek(0)
    params = parameters(code={"commit": "0" * 40}, **{"printed": False, **more})
    params["environment"] = {"DEEPLEARNING_CHECKPOINT_DIRECTORY": "/efs/checkpoints"}
    unpack.unpack_code(params, paths, archive, shared=False)
    found = json.loads(Path(paths.description).read_text())
    schema.conform(found, document_schemas.DESCRIPTION)
    assert (len(found.pop("digest")), found.pop("created") > 0) == (64, True)
    assert found == {
        "name": "digits",
        "script": "/home/me/train.py",
        "arguments": ["a b"],
        "launcher": "torchrun",
        "python": "/p",
        "time_limit": 9,
        "code": {"commit": "0" * 40},
        "checkpoint_directory": "/efs/checkpoints",
        **more,
    }
