"""Writes what depends on the declarations of a job's options: parts of the role `training_job`, and the table in docs/jobs.md.

`python tools/job_options.py` writes the table, and the argument specs and default values of the role. The options are declared in
`plugins/module_utils/_job/definition/options.py`. The program prints the names of the files that it has changed.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.options import OPTIONS, Option
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.option_documentation import marked
from generated_tables import with_tables, write
from options import WIDTH_OF_TASKS, markdown, to_yaml

ROOT = Path(__file__).resolve().parents[1]
ROLE = ROOT / "roles" / "training_job"
JOBS = ROOT / "docs" / "jobs.md"
PREFIX = "training_job_"
NAMES = {option.name for option in OPTIONS}


def variable(option: Option) -> str:
    return PREFIX + (option.variable or option.name)


def default(option: Option) -> Any:
    """Return the default value of an option's variable. Options without a value are empty."""
    return option.default or option.spec.get("default", [] if option.spec["type"] == "list" else "")


def of_role(text: str) -> str:
    """Return a paragraph with the names of the role's variables."""
    return marked(text, PREFIX, NAMES)


def argument_specs() -> str:
    """Return the options in the argument specs of the role. Templates among the default values are described in words."""
    specs = {}
    for option in OPTIONS:
        spec = {key: option.spec[key] for key in ("type", "elements", "no_log") if key in option.spec}
        value = {} if option.default else {"default": default(option)}
        specs[variable(option)] = {**spec, **value, "description": [of_role(text) for text in (*option.description, *option.of_role)]}
    return textwrap.indent(to_yaml(specs), " " * 6)


def defaults() -> str:
    return "".join(entry(variable(option), json.dumps(default(option))) for option in OPTIONS)


def entry(key: str, value: str, indent: str = "") -> str:
    """Return one line, or a folded block if it is too long for one line. The value is in the syntax of JSON."""
    line = f"{indent}{key}: {value}\n"
    if len(line) <= WIDTH_OF_TASKS:
        return line
    return f"{indent}{key}: >-\n{textwrap.indent(textwrap.fill(json.loads(value), WIDTH_OF_TASKS), indent + '  ')}\n"


def table() -> str:
    """Return the table of the variables of a job. Templates among the default values are left out."""
    rows = ["| variable | default | meaning |\n|---|---|---|\n"]
    for option in OPTIONS:
        value = "" if option.default or default(option) == "" else f"`{json.dumps(default(option))}` "
        rows.append(f"| `{variable(option)}` | {value}| {markdown(of_role(option.description[0]))} |\n")
    return "".join(rows)


def files() -> dict[Path, str]:
    """Return the contents of each generated file."""
    parts = {
        ROLE / "meta" / "argument_specs.yml": ("options of the job", argument_specs()),
        ROLE / "defaults" / "main.yml": ("variables of the job", defaults()),
        JOBS: ("variables of a job", table()),
    }
    return {path: with_tables(path, "job_options", {name: text}) for path, (name, text) in parts.items()}


def main() -> None:
    for path, content in files().items():
        write(path, content)


if __name__ == "__main__":
    main()
