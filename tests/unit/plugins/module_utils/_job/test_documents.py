"""Tests that the types of a job's documents match the schemas of its files and the documentation of the modules."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import document_schemas, documents
from ansible_collections.deeplearning.cluster.plugins.modules import training_job_info

CHECKED = [(documents.ProcessRecord, document_schemas.RECORD), (documents.JobDescription, document_schemas.DESCRIPTION)]


@pytest.mark.parametrize(("document", "schema"), [*CHECKED, (documents.Verdict, document_schemas.VERDICT)])
def test_a_type_has_the_keys_of_its_schema(document, schema):
    assert document.__annotations__.keys() == schema.keys()


@pytest.mark.parametrize(("document", "schema"), CHECKED)
def test_what_may_be_missing_in_a_file_is_optional(document, schema):
    assert document.__optional_keys__ == {name for name, field in schema.items() if field.is_optional}


def test_a_job_has_the_documented_keys():
    documented = yaml.safe_load(training_job_info.RETURN)["jobs"]["contains"]
    assert documents.JobStatus.__annotations__.keys() - {"problems"} == documented.keys()
    assert documents.Log.__annotations__.keys() == documented["logs"]["contains"].keys()
    assert documents.ProcessStatus.__annotations__.keys() >= documented["processes"]["contains"].keys()
    assert documents.Failure.__annotations__.keys() >= documented["failure"]["contains"].keys()
