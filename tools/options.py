"""Writes what depends on the provisioning options from their declarations.

`python tools/options.py` writes the roles `provision` and `emr_cluster`, the table of docs/changes.md, and the tables of docs/variables.md,
which also contain what the argument specs of the other roles declare. The documentation of the modules' options is computed when it is
read (plugins/doc_fragments/provisioning.py). The options are declared in the list in `plugins/module_utils/_aws/options/registry.py`. The
program prints the names of the files that it has changed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import PREFIX, Option
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import OPTIONS, options_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.tags import EMR_COMPONENT, END_TAGS
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.option_documentation import documentation
from generated_tables import with_tables, write

ROOT = Path(__file__).resolve().parents[1]
ROLE = ROOT / "roles" / "provision"
EMR_ROLE = ROOT / "roles" / "emr_cluster"
CHANGES, VARIABLES = ROOT / "docs" / "changes.md", ROOT / "docs" / "variables.md"
GENERATED = "Written by tools/options.py from the list in plugins/module_utils/_aws/options/registry.py."
WIDTH = 110  # a line ends after the first word that crosses this column
WIDTH_OF_TASKS = 140
BY_NAME = {option.name: option for option in OPTIONS}
SET_BY_PLAYBOOKS = ("worker_count", "spares", "worker_minimum", "allow_outdated_nodes", "known_instances", "lease_minimum")

REGION = {
    "type": "str",
    "description": ["Region of the cluster. Required. The inventory sets this variable."],
}
VALIDATED = "V(validated) only reports problems with the definition and the account, and changes nothing."
REQUIRED = "Required. The inventory sets this variable."


class Flow(list[Any]):
    """A list that is written on one line."""


class Dumper(yaml.SafeDumper):
    """Writes YAML with indented lists, like the rest of the repository."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


Dumper.add_representer(Flow, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True))


def to_yaml(content: Any) -> str:
    """Return YAML with the choices of each option on one line."""

    def flowing(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: Flow(each) if key == "choices" else flowing(each) for key, each in value.items()}
        return [flowing(each) for each in value] if isinstance(value, list) else value

    return yaml.dump(flowing(content), Dumper=Dumper, sort_keys=False, width=WIDTH, allow_unicode=True)


def markdown(text: str) -> str:
    """Return Ansible's markup as Markdown."""
    return re.sub(r"\b[OVCM]\(([^)]+)\)", r"`\1`", text)


def phrase(description: str) -> str:
    """Return what the first sentence of a description says before it says more after a colon."""
    return markdown(re.split(r"(?:\.|: .*?\.)(?:\s|$)", description, maxsplit=1)[0])


def argument_specs() -> str:
    """Return the argument specs of the role `provision`."""
    main = {
        "short_description": "Creates, updates and deletes a cluster in AWS according to its definition",
        "version_added": "0.1.0",
        "author": ["The deeplearning.cluster contributors"],
        "description": [
            "Creates, changes or deletes the network, the file systems, the instance role and the nodes in a single plan.",
            "The role runs on the controller. Check mode shows all changes without making them.",
            "Each option of the module M(deeplearning.cluster.cluster) corresponds to the variable C(deeplearning_<option>)."
            " An empty string has the same effect as an omitted variable.",
        ],
        "options": role_options(options_of(), validates=True),
    }
    return f"---\n# {GENERATED}\n{to_yaml({'argument_specs': {'main': main}})}"


def emr_argument_specs() -> str:
    """Return the argument specs of the role `emr_cluster`."""
    main = {
        "short_description": "Creates, resizes, replaces and terminates an Amazon EMR cluster",
        "version_added": "0.1.0",
        "author": ["The deeplearning.cluster contributors"],
        "description": [
            "Makes an EMR cluster with uniform instance groups match its definition.",
            "The role runs on the controller. Check mode shows all changes without making them.",
            "Each option of the module M(deeplearning.cluster.emr_cluster) corresponds to the variable C(deeplearning_<option>)."
            " An empty string has the same effect as an omitted variable.",
        ],
        "options": role_options(options_of(EMR_COMPONENT), validates=False),
    }
    return f"---\n# {GENERATED}\n{to_yaml({'argument_specs': {'main': main}})}"


def role_options(listed: Collection[Option], *, validates: bool) -> dict[str, Any]:
    """Return the options of a role. `validates` is true if the role has the state `validated`."""
    listed = [option for option in listed if option.has_variable]
    known, options = {option.name for option in listed}, dict[str, Any]()
    for option in listed:
        entry = documentation(option, prefix=PREFIX, known=known, nested="options")
        if option.name == "state" and validates:
            entry["choices"] = [*entry["choices"], "validated"]
            entry["description"].append(VALIDATED)
        if entry.pop("required", False):  # the module reports a missing or empty value
            entry["description"].append(REQUIRED)
        options[option.variable] = entry
        if option.name == "cluster":
            options[f"{PREFIX}region"] = REGION
    return options


def variables(option: Option) -> list[str]:
    """Return the variables of an option, or an empty list if no role sets the option. The first defined one determines the value.

    The playbooks set their own variables for SET_BY_PLAYBOOKS. For example, a playbook can then remove workers even if the definition is
    passed with `-e`.
    """
    of_playbooks = [f"__provision_{option.name}"] if option.name in SET_BY_PLAYBOOKS else []
    return [*of_playbooks, *([option.variable] if option.has_variable else [])]


def expression(names: Iterable[str], default: str, *, of_string: bool) -> str:
    """Return an expression for the first defined variable. An empty string counts as undefined."""
    first, *rest = names
    chain = "".join(f" | default({name})" for name in rest)
    return f"{first}{chain} | default({default}{', true' if of_string else ''})"


def value(option: Option) -> str:
    """Return the Jinja template for an option's argument."""
    own = expression(variables(option), "omit", of_string=option.spec["type"] in ("str", "path"))
    if option.name in END_TAGS:  # the module refuses 0 and false, which must not silently mean none
        own = f"omit if {option.variable} | default('') == '' else {option.variable}"
    others = [expression(variables(BY_NAME[name]), repr(""), of_string=False) for name in option.yields_to]
    return f"omit if {' or '.join(others)} else {own}" if others else own


def argument(name: str, template: str) -> str:
    """Return one line of a task, or a folded block if it is too long for one line."""
    line = f'    {name}: "{{{{ {template} }}}}"\n'
    if len(line) <= WIDTH_OF_TASKS:
        return line
    return f"    {name}: >-\n" + textwrap.indent(textwrap.fill(f"{{{{ {template} }}}}", WIDTH_OF_TASKS - 6), " " * 6) + "\n"


def tasks() -> str:
    """Return the tasks of the role `provision`, which pass each variable as the option with the corresponding name."""
    state = expression(variables(BY_NAME["state"]), "'present'", of_string=True)
    region = expression((f"{PREFIX}region",), "omit", of_string=True)
    arguments = {option.name: value(option) for option in options_of() if variables(option) and option.name != "state"}
    lines = "".join(argument(name, template) for name, template in {**arguments, "region": region}.items())
    return f"""\
---
# {GENERATED}
- name: Validate the definition and the account
  deeplearning.cluster.cluster_validation: &definition
{lines}\
  register: provision_validation
  when: ({state}) == 'validated'

- name: Reconcile the resources in AWS
  deeplearning.cluster.cluster:
    <<: *definition
    state: "{{{{ {state} }}}}"
  register: provision_result
  when: ({state}) != 'validated'
"""


def emr_tasks() -> str:
    """Return the tasks of the role `emr_cluster`."""
    region = expression((f"{PREFIX}region",), "omit", of_string=True)
    arguments = {option.name: value(option) for option in options_of(EMR_COMPONENT) if variables(option)}
    lines = "".join(argument(name, template) for name, template in {**arguments, "region": region}.items())
    return f"""\
---
# {GENERATED}
- name: Manage the EMR cluster
  deeplearning.cluster.emr_cluster:
{lines}\
  register: emr_cluster_result
"""


def table() -> str:
    """Return the table of the effects of changing each option."""
    rows = "".join(
        f"| `{option.name}` | {markdown(option.update.summary)} | {markdown(option.update.advice)}{' ' if option.update.advice else ''}|\n"
        for option in OPTIONS
    )
    return f"| option | effect of a change | alternative or additional steps |\n|---|---|---|\n{rows}"


def variable_tables() -> str:
    """Return a table for each role: its variables, and what each one is for. A variable is in the table of the first role that has it."""
    paths = {path.parts[-3]: path for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))}
    specs = {"provision": argument_specs(), "emr_cluster": emr_argument_specs()}
    specs |= {role: path.read_text(encoding="utf-8") for role, path in paths.items() if role not in specs}
    tables, listed = [], set[str]()
    for role, text in specs.items():
        options = yaml.safe_load(text)["argument_specs"]["main"]["options"]
        rows = [f"| `{name}` | {phrase(option['description'][0])} |\n" for name, option in options.items() if name not in listed]
        listed |= options.keys()
        tables += [f"### {role}\n\n| variable | what it is for |\n|---|---|\n{''.join(rows)}"] if rows else []
    return "\n".join(tables)


def files() -> dict[Path, str]:
    """Return the contents of each generated file."""
    return {
        ROLE / "meta" / "argument_specs.yml": argument_specs(),
        ROLE / "tasks" / "main.yml": tasks(),
        EMR_ROLE / "meta" / "argument_specs.yml": emr_argument_specs(),
        EMR_ROLE / "tasks" / "main.yml": emr_tasks(),
        CHANGES: with_tables(CHANGES, "options", {"effects of changes": table()}),
        VARIABLES: with_tables(VARIABLES, "options", {"variables of the roles": variable_tables()}),
    }


def main() -> None:
    for path, content in files().items():
        write(path, content)


if __name__ == "__main__":
    main()
