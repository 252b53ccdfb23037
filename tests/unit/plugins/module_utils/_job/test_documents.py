"""Tests that the types of a job's documents match the schemas of its files."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import document_schemas, documents

CHECKED = [(documents.ProcessRecord, document_schemas.RECORD), (documents.JobDescription, document_schemas.DESCRIPTION)]


@pytest.mark.parametrize(("document", "schema"), [*CHECKED, (documents.Verdict, document_schemas.VERDICT)])
def test_a_type_has_the_keys_of_its_schema(document, schema):
    assert document.__annotations__.keys() == schema.keys()


@pytest.mark.parametrize(("document", "schema"), CHECKED)
def test_what_may_be_missing_in_a_file_is_optional(document, schema):
    assert document.__optional_keys__ == {name for name, field in schema.items() if field.is_optional}
