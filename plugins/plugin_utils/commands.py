# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the commands that messages suggest. They select the same inventory and the same cluster as this run."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator

from ansible import constants, context
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.splitter import parse_kv

COMMAND = re.compile(r"\bansible-playbook (?=deeplearning\.cluster\.\w)")
#: The variables that select a cluster, with their former names.
CLUSTER = ("deeplearning_cluster", "deeplearning_cluster_name", "deeplearning_region", "provision_cluster_name", "provision_region")


def playbook_command(playbook: str) -> str:
    """Return the command that runs a playbook of this collection, such as `logs`, with the options from `run_options`."""
    return f"ansible-playbook {run_options()}deeplearning.cluster.{playbook}"


def with_run_options(text: str) -> str:
    """Return a message in which the commands that run playbooks of this collection have the options from `run_options`."""
    return COMMAND.sub(lambda command: command.group() + run_options(), text)


def run_options() -> str:
    """Return the options of this run that select the inventory and the cluster, each followed by a space.

    These are the options `-i`, the variable files (`-e @file`), and the variables that specify the cluster and the region. An inventory
    from the configuration is omitted, because it is the default of all commands. So are other variables, which may be secret.
    """
    options = [*_inventories(), *_variables(context.CLIARGS.get("extra_vars") or ())]
    return "".join(f"{name} {shlex.quote(value)} " for name, value in options)


def _inventories() -> Iterator[tuple[str, str]]:
    sources = context.CLIARGS.get("inventory") or ()
    if list(sources) != list(constants.DEFAULT_HOST_LIST):
        yield from (("-i", source if "," in source else _path(source)) for source in sources)


def _variables(given: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for text in given:
        if text.startswith("@"):
            yield "-e", f"@{_path(text[1:])}"
            continue
        values = yaml_load(str(text)) if text[:1] == "{" else parse_kv(text)  # like Ansible, which refuses everything else
        for name in CLUSTER:
            if name in values:
                value = str(values[name])
                yield "-e", f"{name}={value}" if re.fullmatch(r"[\w.-]+", value) else json.dumps({name: value})


def _path(path: str) -> str:
    """Return the relative or the absolute path, whichever is shorter."""
    return min(os.path.relpath(path), os.path.abspath(path), key=len)
