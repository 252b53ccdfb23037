"""Tests of the Jinja expressions in roles and playbooks: they are short, and do not compose sentences. Python code does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
import yaml
from jinja2 import nodes

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = sorted(file for folder in ("playbooks", "roles") for suffix in ("yml", "j2") for file in (REPOSITORY / folder).rglob(f"*.{suffix}"))
LIMIT = 160
# The keys whose values are expressions without braces.
CONDITIONS = {"when", "that", "until", "failed_when", "changed_when"}
# The keys whose values people read.
MESSAGES = {"msg", "fail_msg", "success_msg", "question", "note"}
ENDS = {"variable_begin": "variable_end", "block_begin": "block_end"}


def values(data: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each string in the data with the last key that leads to it. Conditions get braces."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from values(value, name)
    elif isinstance(data, list):
        for value in data:
            yield from values(value, key)
    elif isinstance(data, str):
        yield key, f"{{{{ {data} }}}}" if key in CONDITIONS else data


def templates(file: Path) -> list[tuple[str, str]]:
    """Return all strings in a file, each with its key. Templates and the `block` of a task contain lines of a file."""
    return [("block", file.read_text())] if file.suffix == ".j2" else list(values(yaml.safe_load(file.read_text())))


def expressions(template: str) -> Iterator[str]:
    """Yield the expressions and statements of a template, each as one line."""
    parts: list[str] = []
    end = ""
    for _line, kind, part in jinja2.Environment().lex(template):
        if kind in ENDS:
            parts, end = [], ENDS[kind]
        parts.append(part)
        if kind == end:
            yield " ".join("".join(parts).split())


def strings(node: nodes.Node | None) -> list[str]:
    found = [node, *node.find_all((nodes.Const, nodes.TemplateData))] if node else []
    return [text for each in found if isinstance(text := getattr(each, "value", getattr(each, "data", None)), str)]


def is_prose(*branches: nodes.Node | None) -> bool:
    return any(re.search("[A-Za-z],? | [A-Za-z]", text) for branch in branches for text in strings(branch))


def is_plural(choice: nodes.CondExpr) -> bool:
    """Return whether a condition chooses between the forms of a word, such as `'job' if number == 1 else 'jobs'`."""
    forms = [branch.value for branch in (choice.expr1, choice.expr2) if isinstance(branch, nodes.Const) and isinstance(branch.value, str)]
    counts = [each for each in choice.test.find_all(nodes.Operand) if isinstance(each.expr, nodes.Const) and each.expr.value == 1]
    if len(forms) == 2 and all(form.isalpha() for form in forms) and (forms[0].startswith(forms[1]) or forms[1].startswith(forms[0])):
        return True
    return bool(forms and counts)


def parts_of(template: str) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Return the text of a template, and the expressions in it."""
    parts = [part for output in jinja2.Environment().parse(template).find_all(nodes.Output) for part in output.nodes]
    words = [part for part in parts if isinstance(part, nodes.TemplateData)]
    return words, [part for part in parts if part not in words]


def composed_sentences(key: str, template: str) -> Iterator[str]:
    """Yield the template if it is a sentence about several facts, and the words in it that replace a missing fact."""
    words, facts = parts_of(template)
    if key != "block" and len({repr(fact) for fact in facts}) > 1 and is_prose(*words):
        yield template
    parsed = jinja2.Environment().parse(template)
    alternatives = [(each.left, each.right) for each in parsed.find_all(nodes.Or)]
    alternatives += [tuple(each.args) for each in parsed.find_all(nodes.Filter) if each.name in ("default", "d")]
    for found in alternatives:
        if is_prose(*(each for each in found if isinstance(each, nodes.Const))):
            yield " / ".join(text for each in found for text in strings(each))


def chosen_words(key: str, template: str) -> Iterator[str]:
    """Yield the conditions of a template that choose words of a sentence."""
    parsed = jinja2.Environment().parse(re.sub(r"\| *[\w.]+", "| x", template))
    for choice in parsed.find_all(nodes.CondExpr):
        if is_prose(choice.expr1, choice.expr2) or is_plural(choice):
            yield " / ".join(strings(choice))
    for block in parsed.find_all(nodes.If):
        if key != "block" and is_prose(*block.body, *block.else_):
            yield " / ".join(strings(block))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_expressions_are_short_and_compose_no_sentences(file):
    found = templates(file)
    assert [expression for _key, text in found for expression in expressions(text) if len(expression) > LIMIT] == []
    assert [words for key, text in found for words in chosen_words(key, text)] == []
    assert [words for key, text in found for words in composed_sentences(key, text)] == []


def test_no_message_stands_twice():
    told = [text for file in FILES for key, text in templates(file) if key in MESSAGES and is_prose(*parts_of(text)[0])]
    assert len(told) > 10
    assert [text for text in sorted(set(told)) if told.count(text) > 1] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_ansible_escapes_backslashes_itself(file):
    """In the templates of values, `'\\\\1'` is a backslash and `\\1`. Only conditions need it for a reference to a group."""
    found = [expression for key, text in templates(file) if key not in CONDITIONS for expression in expressions(text)]
    assert [expression for expression in found if "\\\\" in expression] == []


@pytest.mark.parametrize(
    ("template", "count"),
    [
        ("{{ jobs | length }} {{ 'job' if jobs | length == 1 else 'jobs' }}", 1),
        ("{{ jobs | length }} job{{ '' if jobs | length == 1 else 's' }}", 1),
        ("which {{ 'does' if is_one else 'do' }} not answer", 1),
        ("{{ 'no job has ended' if jobs else none }}", 1),
        ("{% if jobs %}no job has ended{% endif %}", 1),
        ("{{ 'queued' if queue | length > 1 else 'started' }}", 1),
        ("{{ 'absent' if then == 'destroy' else 'present' }}", 0),
        ("{{ ['deeplearning-master'] if number == 1 else [] }}", 0),
        ("{{ a | team.net.words('no job has ended') if b else '' }}", 1),
        ("{{ jobs | join(', ') or 'none' }}", 0),
    ],
)
def test_conditions_that_choose_words_are_found(template, count):
    assert len(list(chosen_words("msg", template))) == count


@pytest.mark.parametrize(
    ("template", "count"),
    [
        ("Job {{ name }} runs in {{ directory }}.", 1),
        ("Job {{ name }} runs. To stop it, run {{ 'stop' | team.net.command }}", 1),
        ("Job {{ name }} runs. To stop it, set stop={{ name }}", 0),
        ("There are no jobs in {{ directory }}.", 0),
        ("{{ result.msg | default('no reason given') }}", 1),
        ("{{ master or 'no host has this number' }}", 1),
        ("{{ name }}: {{ result.msg }}", 0),
        ("{{ a | default('') }}/{{ b or 'none' }}", 0),
        ("{{ facts | team.net.message('jobs') }} {{ running }}", 0),
    ],
)
def test_composed_sentences_are_found(template, count):
    assert len(list(composed_sentences("msg", template))) == count


def test_the_content_of_a_file_may_depend_on_conditions():
    assert list(chosen_words("block", "{% if hosts %}Host *{% endif %}")) == []


def test_long_expressions_are_found():
    assert [len(each) for each in expressions("a {{ b }} c {% if d\n   and e %} {{ '}}' ~ f }} {% endif %}")] == [7, 16, 14, 11]
    assert list(values({"a": [{"when": ["b", "c"]}, {"d": "e"}]})) == [("when", "{{ b }}"), ("when", "{{ c }}"), ("d", "e")]
