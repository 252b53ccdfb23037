# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds variables whose names are former names of the collection's variables, are misspelled, or lack the prefix.

Ansible accepts misspelled variables, but they have no effect. This collection reports misspelled variables and variables without the
prefix as errors, or as warnings if `deeplearning_allow_unknown_variables` is true.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Collection, Iterable, Mapping

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.yaml import yaml_load
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.dataloader import DataLoader
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import FORMER_PREFIX, PREFIX
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import options_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.kinds import TAGS
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validator import Finding, Level

COLLECTION = Path(__file__).parents[2]
# Minimum similarity of names without their prefix. With 0.75, a four-letter name with two letters swapped still matches.
CUTOFF = 0.75
# Minimum similarity of whole names that do not begin with a prefix of the collection.
WHOLE_CUTOFF = 0.92
# The same for short names of options of a playbook, which are compared only with the variables on the command line.
OPTION_CUTOFF = 0.7
# The variable that turns errors about misspelled names into warnings.
ALLOWED = "deeplearning_allow_unknown_variables"

# The variables that the inventory plugin sets for a cluster and its nodes, without the prefix.
INVENTORY = (
    "account",
    "capacity_end",
    "cluster",
    "efa_devices",
    "has_efa",
    "hostname",
    "instance_id",
    "instance_type",
    "inventory_error",
    "inventory_file",
    "mounts",
    "node_service",
    "number",
    "other_regions",
    "private_ip",
    "proxy_command",
    "public_ip",
    "region",
    "ssh_directory",
    "zone",
    *(tag.variable for tag in TAGS if tag.variable),
)
# Variables that several roles or playbooks use, and variables that roles return.
FURTHER = (
    "cleanup_days",
    "cleanup_keep",
    "dataset_host",
    "dataset_kms_key_id",
    "dataset_result",
    ALLOWED,
    "deeplearning_answer_timeout",
    "deeplearning_confirm",
    "deeplearning_ignore_running_jobs",
    "deeplearning_ssh_authority_create_kms_key",
    "deeplearning_ssh_authority_kms_key_id",
    "node_health_exclusions",
    "node_health_findings",
    "node_logs_destination",
    "emr_cluster_result",
    "policies_adopt",
    "policies_cluster",
    "policies_directory",
    "policies_partition",
    "policies_permissions_boundary",
    "policies_region",
    "provision_result",
    "provision_validation",
    "python_environment_result",
    "training_job_hosts",
    "training_job_then",
    "training_job_then_always",
    "training_job_then_delay",
)
# Names without the prefix that users' inventories often contain for other purposes, such as option names in `amazon.aws`.
COMMON = (
    "capacity_reservation_id",
    "file_system_id",
    "image_id",
    "instance_profile",
    "instance_type",
    "key_name",
    "kms_key_id",
    "login_user",
    "mount_point",
    "performance_mode",
    "permissions_boundary",
    "placement_group",
    "private_key_file",
    "private_subnet_ids",
    "progress_file",
    "provisioned_throughput",
    "public_subnet_ids",
    "root_volume_size",
    "root_volume_type",
    "security_group_ids",
    "throughput_mode",
    "vpc_id",
    "wait_timeout",
)


def check_names(variables: Mapping[str, Any]) -> None:
    """Show a warning for each variable that is set under its former name. Raises AnsibleActionFail for misspelled names."""
    findings = name_findings(variables)
    for finding in findings:
        if finding.level is Level.WARNING:
            Display().warning(finding.message)
    errors = [finding.message for finding in findings if finding.level is Level.ERROR]
    if errors:
        raise AnsibleActionFail("\n".join(errors))


def name_findings(variables: Mapping[str, Any], options: Collection[str] = ()) -> list[Finding]:
    """Return a finding for each variable with a wrong name, and show a warning for each variable that is set under its former name.

    `options` contains the variables of the playbook that have no prefix.
    """
    for name, meant in former(variables).items():
        message = f"Variable '{name}' is deprecated. Use '{meant}'."
        Display().deprecated(message, version="0.3.0", collection_name="deeplearning.cluster")
    allowed = boolean(variables.get(ALLOWED) or False, strict=False)
    level, advice = (Level.WARNING, "") if allowed else (Level.ERROR, f" If the variable is your own, set {ALLOWED}: true.")
    extra = load_extra_vars(DataLoader())
    wrong = {
        **misspelled_options(extra, options),
        **misspellings(variables),
        **without_prefix(variables, extra, inventory_variables(variables)),
    }
    found = [
        Finding("variable_names", level, f"Unknown variable '{name}'. Did you mean '{meant}'?{advice}")
        for name, meant in sorted(wrong.items())
    ]
    unused = [] if allowed else without_effect(variables, set(extra) - wrong.keys())
    return found + [
        Finding(
            "variable_names",
            Level.WARNING,
            f"'{name}' is not a variable of this collection and has no effect. Correct the name, or remove it.",
        )
        for name in unused
    ]


def misspelled_options(extra: Iterable[str], options: Collection[str]) -> dict[str, str]:
    """Return the command-line variables that are similar to options of the playbook, each with the option."""
    near = {name: difflib.get_close_matches(name, options, 1, OPTION_CUTOFF) for name in extra if name not in options}
    return {name: found[0] for name, found in near.items() if found}


def without_effect(variables: Mapping[str, Any], extra: Iterable[str]) -> list[str]:
    """Return the command-line variables that look like variables of this collection but have no effect."""
    known = known_variables() | former_names().keys()
    suspects = sorted(name for name in extra if name.startswith((PREFIX, "training_job_")) and name not in known)
    return [name for name in suspects if not _is_referred_to(name, variables)]


def without_prefix(variables: Mapping[str, Any], extra: Iterable[str], inventory: Iterable[str]) -> dict[str, str]:
    """Return the names that lack the prefix of one of the collection's variables, each with the name of that variable.

    `extra` contains the names of the variables from the command line. All names in `extra` are checked. The names in `inventory` are
    checked only if they are specific enough: they have an underscore and are not in COMMON. A name is the user's own if a template in one
    of the collection's variables refers to it.
    """
    settable = {name[len(PREFIX) :]: name for name in (*FURTHER, *role_variables()) if name.startswith(PREFIX)}
    specific = {name for name in inventory if "_" in name and name not in COMMON}
    suspects = sorted(settable.keys() & {*extra, *specific})
    return {name: settable[name] for name in suspects if not _is_referred_to(name, variables)}


def _is_referred_to(name: str, variables: Mapping[str, Any]) -> bool:
    """Return whether a template in one of the collection's variables contains a name."""
    values = (str(variables[known]) for known in known_variables() & variables.keys())
    return any(re.search(rf"(?<![\w.]){name}\b", value) for value in values if "{{" in value or "{%" in value)


def inventory_variables(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the variables that the inventory and its group_vars and host_vars set for the host of a task."""
    if "hostvars" not in variables:
        return {}
    found = variables["hostvars"].raw_get(variables["inventory_hostname"])
    return found if isinstance(found, Mapping) else {}


def former(variables: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables with former names, each with its new name.

    A former variable that has the same value as the new variable is omitted.
    """
    missing = object()
    return {
        name: new for name, new in sorted(former_names().items()) if name in variables and variables[name] != variables.get(new, missing)
    }


def misspellings(names: Iterable[str]) -> dict[str, str]:
    """Return the names that are similar to variables of the collection, each with the name of the most similar variable.

    A name with a prefix of the collection counts as the user's own if it is not similar to any variable of the collection. A name
    without a prefix of the collection counts as the user's own unless the whole name is very similar to a variable of the collection.
    """
    old, found = former_names(), {}
    known = known_variables() | old.keys()
    unknown = sorted(set(names) - known)
    for prefix in prefixes():
        rests = sorted(name[len(prefix) :] for name in known if name.startswith(prefix))
        for name in unknown:
            if name.startswith(prefix):
                for rest in difflib.get_close_matches(name[len(prefix) :], rests, n=1, cutoff=CUTOFF):
                    found[name] = old.get(prefix + rest, prefix + rest)
    for name in unknown:
        if not name.startswith((*prefixes(), "_", "ansible_")):
            for meant in difflib.get_close_matches(name, known, n=1, cutoff=WHOLE_CUTOFF):
                found[name] = old.get(meant, meant)
    return dict(sorted(found.items()))


@lru_cache(maxsize=None)
def known_variables() -> frozenset[str]:
    """Return every variable of the roles, the inventory and the playbooks."""
    return frozenset((*(f"{PREFIX}{name}" for name in INVENTORY), *FURTHER, *role_variables()))


@lru_cache(maxsize=None)
def role_variables() -> frozenset[str]:
    """Return every variable of the roles."""
    return frozenset(
        variable
        for file in COLLECTION.glob("roles/*/meta/argument_specs.yml")
        for entry_point in yaml_load(file.read_text(encoding="utf-8"))["argument_specs"].values()
        for variable in entry_point["options"]
    )


def former_names() -> dict[str, str]:
    """Return the former names of variables, each with the current name."""
    return {
        **{f"{prefix}end_unasked_nodes": f"{PREFIX}ignore_running_jobs" for prefix in (PREFIX, FORMER_PREFIX)},
        **{name: option.variable for option in options_of() for name in option.former_names},
    }


def prefixes() -> list[str]:
    """Return the prefixes of the collection's variables: a common prefix, and one prefix for each role."""
    return [PREFIX, *sorted(f"{path.name}_" for path in COLLECTION.glob("roles/*") if path.is_dir())]
