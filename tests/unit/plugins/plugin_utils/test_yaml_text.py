"""Tests of values that YAML does not read as the text that the user wrote: which are refused, and which pass unchanged."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import yaml_text
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.yaml_text import refuse_changed_text, text_errors

VARIABLES, SECRETS = {"type": "dict"}, {"type": "dict", "no_log": True}
ARGUMENTS, TEXT = {"type": "list", "elements": "str"}, {"type": "str"}


@pytest.fixture
def read(tmp_path):
    def load(text):
        (tmp_path / "vars.yml").write_text(text)
        return DataLoader().load_from_file(str(tmp_path / "vars.yml"))["v"]

    return load


@pytest.mark.parametrize(
    ("spec", "text", "message"),
    [
        (VARIABLES, "v: {A: yes}", "o: A: YAML reads the value as true, not as text. Put the value in quotes, or leave it empty."),
        (VARIABLES, "v: {A: }", "o: A: YAML reads the value as null, not as text. Put the value in quotes, or leave it empty."),
        (VARIABLES, "v: {A: 3.10, B: x}", "o: A: YAML reads 3.10 as 3.1. Put the value in quotes: '3.10'."),
        (VARIABLES, "v:\n  A: 0022  # the umask", "o: A: YAML reads 0022 as 18. Put the value in quotes: '0022'."),
        (VARIABLES, "v: {A: 12:30:00}", "o: A: YAML reads 12:30:00 as 45000. Put the value in quotes: '12:30:00'."),
        (VARIABLES, "v: {A: 1_000}", "o: A: YAML reads 1_000 as 1000. Put the value in quotes: '1_000'."),
        (VARIABLES, "v: {A: 1.0e-8}", "o: A: YAML reads 1.0e-8 as 1e-08. Put the value in quotes: '1.0e-8'."),
        (VARIABLES, "v: {A: {B: no}}", "o: A: B: YAML reads the value as false, not as text. Put the value in quotes, or leave it empty."),
        (VARIABLES, "v: {A: [1]}", "o: A: the value is a list or a dictionary, not text. Use text, for example JSON in quotes."),
        (VARIABLES, "v: {on: x}", "o: the name True: YAML reads the value as true, not as text. Put the value in quotes, or"),
        (SECRETS, "v: {A: 0123}", "o: A: YAML reads the value as something else. Put the value in quotes."),
        (SECRETS, "v: {A: no}", "o: A: YAML reads the value as something else, not as text. Put the value in quotes, or leave it empty."),
        (ARGUMENTS, "v:\n- --torch\n- 2.10\n", "o: element 2: YAML reads 2.10 as 2.1. Put the value in quotes: '2.10'."),
        (ARGUMENTS, "v: [--flag, true]", "o: element 2: YAML reads the value as true, not as text. Put the value in quotes, or"),
        (TEXT, "v: 3.10", "o: YAML reads 3.10 as 3.1. Put the value in quotes: '3.10'."),
        ({"type": "dict", "options": {"mpirun": TEXT}}, "v: {mpirun: no, x: 1}", "o: mpirun: YAML reads the value as false, not as text."),
    ],
)
def test_a_value_that_is_not_the_text_in_the_file_is_refused(read, spec, text, message):
    (found,) = text_errors("o", spec, read(text))
    assert found.startswith(message)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (VARIABLES, "v: {A: 8, B: 0.1, C: 1e5, D: '3.10', E: '', F: 2024-01-01, G: 9.0, H: -1}"),
        (ARGUMENTS, "v: [--lr, 0.1, --epochs, 3, 'yes']"),
        ({"type": "str", "choices": ["no"]}, "v: no"),
        ({"type": "int"}, "v: 1_000"),
        ({"type": "list", "elements": "dict"}, "v: [{a: yes}]"),
        ({"type": "dict", "options": {"count": {"type": "int"}}}, "v: {count: 0x10}"),
    ],
)
def test_other_values_pass(read, spec, text):
    assert not list(text_errors("o", spec, read(text)))


def test_a_number_whose_spelling_is_unknown_passes(read, monkeypatch):
    assert not list(text_errors("o", VARIABLES, {"A": 3.1}))
    value = read("v: {A: 3.10}")
    monkeypatch.setattr(yaml_text, "Origin", None)
    assert not list(text_errors("o", VARIABLES, value))


def test_a_file_that_has_changed_since_it_was_read_says_nothing(read, tmp_path):
    value = read("v: {A: 3.10}")
    for text in ("v: {A: 7.50}", "", "v: {A: \udce9}"):
        (tmp_path / "vars.yml").write_text(text, errors="surrogateescape")
        assert not list(text_errors("o", VARIABLES, value))


@pytest.mark.parametrize(
    ("role", "args", "message"),
    [
        ("slurm", {"parameters": {"A": True}}, "slurm_parameters: A: YAML reads the value as true"),
        ("emr_cluster", {"parameters": "", "tags": {"A": None}}, "deeplearning_tags: A: YAML reads the value as null"),
    ],
)
def test_a_tasks_message_names_the_variable(role, args, message):
    task = SimpleNamespace(args=args, _role=SimpleNamespace(get_name=lambda: f"deeplearning.cluster.{role}"))
    with pytest.raises(AnsibleActionFail, match=f"^{message}"):
        refuse_changed_text(task, {"parameters": VARIABLES, "tags": VARIABLES})
