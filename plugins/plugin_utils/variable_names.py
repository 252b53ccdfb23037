# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds variables whose names are misspelled, or lack the prefix of the collection's variables.

Ansible accepts misspelled variables, but they have no effect. This collection reports misspelled variables and variables without the
prefix as errors, or as warnings if `deeplearning_allow_unknown_variables` is true.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Collection, Iterable, Mapping

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.yaml import yaml_load
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.dataloader import DataLoader
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars

from ..module_utils._aws.option import PREFIX
from ..module_utils._aws.storage.kinds import TAGS
from ..module_utils._aws.validator import Finding, Level

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
    "launched_at",
    "market",
    "volumes",
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
    "deeplearning_events_file",
    "deeplearning_events_since",
    "deeplearning_ignore_running_jobs",
    "deeplearning_notify",
    "deeplearning_notify_test",
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
    """Raise AnsibleActionFail for misspelled names, and show a warning for names that have no effect."""
    findings = name_findings(variables)
    for message in messages_of(findings, Level.WARNING):
        Display().warning(message)
    if errors := messages_of(findings, Level.ERROR):
        raise AnsibleActionFail("\n".join(errors))


def messages_of(findings: Iterable[Finding], level: Level) -> list[str]:
    return [finding.message for finding in findings if finding.level is level]


def name_findings(variables: Mapping[str, Any], options: Collection[str] = ()) -> list[Finding]:
    """Return a finding for each variable with a wrong name. `options` contains the variables of the playbook that have no prefix."""
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
    suspects = sorted(name for name in set(extra) - known_variables() if name.startswith((PREFIX, "training_job_")))
    return [name for name in suspects if not _is_referred_to(name, variables)]


def without_prefix(variables: Mapping[str, Any], extra: Iterable[str], inventory: Iterable[str]) -> dict[str, str]:
    """Return the names that lack the prefix of one of the collection's variables, each with the name of that variable.

    `extra` contains the names of the variables from the command line. All names in `extra` are checked. The names in `inventory` are
    checked only if they are specific enough: they have an underscore and are not in COMMON. A name is the user's own if a template in one
    of the collection's variables refers to it.
    """
    settable = {name[len(PREFIX) :]: name for name in (*FURTHER, *chain(*role_variables().values())) if name.startswith(PREFIX)}
    specific = {name for name in inventory if "_" in name and name not in COMMON}
    suspects = sorted(settable.keys() & {*extra, *specific})
    return {name: settable[name] for name in suspects if not _is_referred_to(name, variables)}


def _is_referred_to(name: str, variables: Mapping[str, Any]) -> bool:
    values = (str(variables[known]) for known in known_variables() & variables.keys())
    return any(re.search(rf"(?<![\w.]){name}\b", value) for value in values if "{{" in value or "{%" in value)


def inventory_variables(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the variables that the inventory and its group_vars and host_vars set for the host of a task."""
    if "hostvars" not in variables:
        return {}
    found = variables["hostvars"].raw_get(variables["inventory_hostname"])
    return found if isinstance(found, Mapping) else {}


def misspellings(names: Iterable[str]) -> dict[str, str]:
    """Return the names that are similar to variables of the collection, each with the name of the most similar variable.

    A name with a prefix of the collection counts as the user's own if it is not similar to any variable of the collection. A name
    without a prefix of the collection counts as the user's own unless the whole name is very similar to a variable of the collection.
    """
    found = {}
    known = known_variables()
    unknown = sorted(set(names) - known)
    for prefix in prefixes():
        rests = rests_of_names(prefix)
        for name in unknown:
            if name.startswith(prefix):
                for rest in difflib.get_close_matches(name[len(prefix) :], sorted(rests), n=1, cutoff=CUTOFF):
                    found[name] = rests[rest]
    for name in unknown:
        if not name.startswith((*prefixes(), "_", "ansible_")):
            for meant in difflib.get_close_matches(name, known, n=1, cutoff=WHOLE_CUTOFF):
                found[name] = meant
    return dict(sorted(found.items()))


def rests_of_names(prefix: str) -> dict[str, str]:
    """Return the variables that a name with this prefix can mean, by their names without a prefix.

    A role's prefix can also be meant as the common prefix, which a role may have in its variables instead of its own.
    """
    of_role = ((PREFIX, name) for name in role_variables().get(prefix, ()))
    own = ((prefix, name) for name in known_variables())
    return {name[len(begin) :]: name for begin, name in (*of_role, *own) if name.startswith(begin)}


@lru_cache(maxsize=None)
def known_variables() -> frozenset[str]:
    return frozenset((*(f"{PREFIX}{name}" for name in INVENTORY), *FURTHER, *chain(*role_variables().values())))


@lru_cache(maxsize=None)
def role_variables() -> dict[str, list[str]]:
    """Return the variables of each role, by the prefix of the role's name."""
    return {f"{role}_": [*chain(*(each["options"] for each in specs.values()))] for role, specs in argument_specs().items()}


@lru_cache(maxsize=None)
def argument_specs() -> dict[str, dict[str, Any]]:
    """Return the argument specs of each role, by the role's name."""
    paths = COLLECTION.glob("roles/*/meta/argument_specs.yml")
    return {path.parts[-3]: yaml_load(path.read_text(encoding="utf-8"))["argument_specs"] for path in paths}


def prefixes() -> list[str]:
    """Return the prefixes of the collection's variables: a common prefix, and one prefix for each role."""
    return [PREFIX, *sorted(role_variables())]
