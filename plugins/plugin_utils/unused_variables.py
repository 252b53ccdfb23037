# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds variables that are set but have no effect because of another variable.

A variable that is empty or has its default value counts as unset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils._aws.node_services import DEFAULT
from ..module_utils._aws.option import UnusedRule
from ..module_utils._aws.options.registry import options_of
from ..module_utils._aws.storage import kinds
from .node_variables import UNKNOWN


class Variables(Protocol):
    """The values of variables. A value that the controller cannot know is UNKNOWN."""

    def get(self, name: str, default: Any = None) -> Any: ...


Get = Callable[[str], Any]


ENVIRONMENT = ("location", "directory", "installer", "python", "index_url", "find_links", "login", "timeout")
# The variables of the role python_environment that apply only if it builds an environment from requirements.
BUILD = ("system_packages", "build_variables", "no_build_isolation")

OF_JOB = (
    UnusedRule(
        ("training_job_script",),
        lambda get: bool(get("training_job_command")),
        "training_job_command is set and takes precedence. Remove one of the two.",
    ),
    UnusedRule(
        ("training_job_version",),
        lambda get: not get("training_job_repository"),
        "training_job_repository is empty. Set training_job_repository, or remove this variable.",
    ),
    UnusedRule(
        ("training_job_exclude",),
        lambda get: not get("training_job_repository") and not get("training_job_source"),
        "neither training_job_source nor training_job_repository is set. Set one of them, or remove this variable.",
    ),
    UnusedRule(
        ("training_job_then_always", "training_job_then_delay"),
        lambda get: get("training_job_then") in (None, "", "keep"),
        "the value of training_job_then keeps the nodes. Set training_job_then to scale_in or destroy, or remove this variable.",
    ),
    UnusedRule(
        tuple(f"training_job_export_{name}" for name in ("interval", "include", "exclude")),
        lambda get: not get("training_job_export"),
        "training_job_export is empty. Set training_job_export, or remove this variable.",
    ),
    UnusedRule(
        ("training_job_report_directory",),
        lambda get: get("training_job_report") is False,
        "training_job_report is false. Set training_job_report to true, or remove this variable.",
    ),
    UnusedRule(
        ("training_job_scripts_directory",),
        lambda get: get("training_job_state") != "printed",
        "training_job_state is not 'printed'. Set training_job_state to 'printed', or remove this variable.",
    ),
    UnusedRule(
        tuple(f"python_environment_{name}" for name in (*ENVIRONMENT, *BUILD)),
        lambda get: not get("python_environment_name"),
        "python_environment_name is empty. Set python_environment_name, or remove this variable.",
    ),
    UnusedRule(
        tuple(f"python_environment_{name}" for name in BUILD),
        lambda get: bool(get("python_environment_name")) and not get("python_environment_requirements"),
        "python_environment_requirements is empty. Set python_environment_requirements, or remove this variable.",
    ),
    UnusedRule(
        ("python_environment_name",),
        lambda get: bool(get("training_job_python")),
        "the job uses training_job_python. Remove one of the two.",
    ),
)

OF_DEFINITION = (
    *kinds.UNUSED_RULES,
    UnusedRule(
        ("network_cidr", "private_subnet_cidrs", "public_subnet_cidrs", "nat"),
        lambda get: bool(get("vpc_id")),
        "deeplearning_vpc_id is set, and a run does not change an adopted VPC. Remove this variable.",
    ),
    UnusedRule(
        ("public_subnet_ids", "private_subnet_ids", "security_group_ids"),
        lambda get: not get("vpc_id"),
        "deeplearning_vpc_id is not set. Set deeplearning_vpc_id, or remove this variable.",
    ),
    UnusedRule(
        ("image_os",),
        lambda get: bool(get("image_id") or get("image_parameter")),
        "deeplearning_image_id or deeplearning_image_parameter specifies the image. Set deeplearning_image_framework instead, or "
        "remove this variable.",
    ),
    UnusedRule(
        ("image_update",), lambda get: bool(get("image_id")), "deeplearning_image_id specifies a fixed image. Remove one of the two."
    ),
    UnusedRule(
        ("permissions_boundary",),
        lambda get: bool(get("instance_profile")),
        "the role of the instance profile in deeplearning_instance_profile is not changed. Remove this variable.",
    ),
    UnusedRule(
        ("master_market",),
        lambda get: {item.get("market") or get("market") for item in ({}, *(get("alternatives") or []))} <= {None, "on-demand"},
        "the workers are On-Demand Instances too. Set deeplearning_market, or remove this variable.",
    ),
    UnusedRule(
        ("spot_max_price",),
        lambda get: get("market") != "spot" and "spot" not in [item.get("market") for item in get("alternatives") or []],
        "no nodes are launched as Spot Instances. Set deeplearning_market: spot, or remove this variable.",
    ),
)


def of_job(nodes: Variables) -> Iterator[str]:
    """Return a message for each variable of a job that is set but has no effect."""

    def get(name: str) -> Any:
        value = nodes.get(name)
        return _as_boolean(value) if name == "training_job_report" else value

    for name, because in _without_effect(OF_JOB, get):
        yield f"{name}: this variable has no effect because {because}"


def of_definition(controller: Variables) -> Iterator[str]:
    """Return a message for each option of the definition that is set to a non-default value but has no effect."""
    options = {option.name: option for option in options_of()}

    def get(name: str) -> Any:
        option = options[name]
        value = controller.get(option.variable)
        if value is UNKNOWN:
            return value
        value = _as_boolean(value) if option.spec["type"] == "bool" else value
        return None if value == option.spec.get("default") or value == "" else value

    for name, because in _without_effect(OF_DEFINITION, get):
        yield f"{options[name].variable}: this variable has no effect because {because}"
    if controller.get("deeplearning_emr_idle_after") and controller.get("deeplearning_node_service", DEFAULT) == DEFAULT:
        yield (
            "deeplearning_emr_idle_after: this variable has no effect because it ends only EMR clusters. Set deeplearning_idle_after, or "
            "remove this variable."
        )


def _as_boolean(value: Any) -> Any:
    return boolean(value, strict=False) if isinstance(value, (str, int)) and value != "" else value


class _UnknownError(Exception):
    """A rule depends on a value that the controller does not know."""


def _without_effect(rules: tuple[UnusedRule, ...], get: Get) -> Iterator[tuple[str, str]]:
    told: dict[str, str] = {}

    def known(name: str) -> Any:
        value = get(name)
        if value is UNKNOWN:
            raise _UnknownError
        return value

    for rule in rules:
        for name in rule.names:
            value = get(name)
            if name in told or (value is not UNKNOWN and _is_unset(value)):
                continue
            try:
                if rule.applies(known):
                    told[name] = rule.because
            except _UnknownError:
                continue
    yield from told.items()


def _is_unset(value: Any) -> bool:
    return value is None or value in ("", [], {}, ())
