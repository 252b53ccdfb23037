"""Tests that types, the schemas of files and the documentation of modules describe a job's documents in the same way."""

from __future__ import annotations

import types
import typing

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import document_schemas, documents, job_status
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.storage_problems import StorageProblem
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import documented_values

CHECKED = [
    (documents.CauseRecord, document_schemas.CAUSE),
    (documents.Checkpoint, document_schemas.CHECKPOINT),
    (documents.Code, document_schemas.CODE),
    (documents.CostRecord, document_schemas.COST),
    (documents.Export, document_schemas.EXPORT),
    (documents.Following, document_schemas.FOLLOWING),
    (documents.Hang, document_schemas.HANG),
    (documents.JobDescription, document_schemas.DESCRIPTION),
    (documents.ProcessRecord, document_schemas.RECORD),
    (documents.Queued, document_schemas.ENTRY),
    (documents.Stuck, document_schemas.STUCK),
    (documents.Unfit, document_schemas.UNFIT),
    (documents.Verdict, document_schemas.VERDICT),
    (StorageProblem, document_schemas.STORAGE_PROBLEM),
]
# What the module adds to the contents of status/queue.
ADDED = {documents.Queued: {"reason", "before", "problem", "held"}}
EXAMPLES = {"int": 1, "float": 0.5, "bool": True, "list": [], "dict": {}}


def kind_of(hint):
    """Return the name, in Ansible's documentation, of a type."""
    if isinstance(hint, types.UnionType):
        (hint,) = set(typing.get_args(hint)) - {types.NoneType}
    plain = typing.get_origin(hint) or hint
    return "dict" if typing.is_typeddict(plain) else plain.__name__


def accepted_kind(field):
    """Return the type of the values that a field accepts. Numbers that are not integers may also be integers."""
    found = [kind for kind, example in EXAMPLES.items() if field.accepts(example)]
    return found[-1] if found else "dict" if "object" in field.words else "str"


@pytest.mark.parametrize(("document", "schema"), CHECKED)
def test_a_type_is_that_of_its_schema(document, schema):
    hints = {name: hint for name, hint in typing.get_type_hints(document).items() if name not in ADDED.get(document, ())}
    assert {name: kind_of(hint) for name, hint in hints.items()} == {name: accepted_kind(field) for name, field in schema.items()}
    may_be_missing = {name for name, hint in hints.items() if name in getattr(document, "__optional_keys__", ()) or "None" in str(hint)}
    assert may_be_missing == {name for name, field in schema.items() if field.is_optional}


def members(documented, document):
    """Yield each documented value of a document and of the documents in it, as the document, the name and the documentation."""
    hints = typing.get_type_hints(document)
    for name, description in documented.items():
        yield document, name, description
        inner = typing.get_args(hints[name])[0] if typing.get_origin(hints[name]) is list else hints[name]
        if typing.is_typeddict(inner):
            yield from members(description["contains"], inner)


JOBS = documented_values.returned_values("deeplearning.cluster.training_job_info")["jobs"]["contains"]
RETURNED = list(members(JOBS, job_status.JobStatus))
SCHEMAS = {**dict(CHECKED), job_status.ProcessStatus: document_schemas.RECORD, job_status.Failure: document_schemas.RECORD}
IN_FILES = [(SCHEMAS[document][name], one) for document, name, one in RETURNED if name in SCHEMAS.get(document, ())]


@pytest.mark.parametrize(("document", "name", "description"), RETURNED)
def test_what_the_module_returns_is_documented_with_its_type(document, name, description):
    hint = typing.get_type_hints(document)[name]
    assert description["type"] == kind_of(hint)
    if description["type"] == "list":
        assert description["elements"] == kind_of(typing.get_args(hint)[0])
    assert "returned" in description or name in document.__required_keys__


def test_the_status_of_a_job_is_documented():
    assert JOBS.keys() == job_status.JobStatus.__annotations__.keys() - {"problems"}


@pytest.mark.parametrize(("field", "description"), IN_FILES)
def test_a_file_cannot_contain_what_the_filter_of_results_refuses(field, description):
    """The filter would refuse the whole result, so one job's user could hide the status of all jobs."""
    assert "returned" in description or not field.is_optional
    if "choices" in description:
        assert set(field.words[len("one of ") :].split(", ")) <= set(description["choices"])
    assert not field.accepts(documented_values.INTEGER_LIMIT + 1)
