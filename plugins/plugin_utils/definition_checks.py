# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks what a job needs of the definition of the cluster: hosts, spares, storage, permissions and the image."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.inventory.manager import split_host_pattern
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils._aws.node_names import MASTER, WORKERS, node_name
from ..module_utils._aws.option import PREFIX
from ..module_utils._aws.options.registry import options_of
from ..module_utils._aws.storage import kinds
from ..module_utils._common.shared_storage.mounts import bucket_and_prefix, check_bucket_source
from . import setup_steps
from .inventory_nodes import node_table
from .node_variables import UNKNOWN, NodeVariables
from .value_checks import argument_spec, refusal, value_errors
from .yaml_text import text_errors

# The maximum number of nodes that a message lists.
SHOWN_NODES = 5
# The value of `image_framework` for images with drivers, but without a framework.
WITHOUT_FRAMEWORK = "base"
# The end of a host pattern that selects hosts by position, such as `workers[0:3]`.
POSITIONS = re.compile(r"\[(?:-?\d+|\d+[:-]\d*)\]$")
# The values of `training_job_then`, which say what happens to the nodes after a job.
THEN = ("keep", "scale_in", "destroy")


def definition_errors(controller: NodeVariables) -> Iterator[str]:
    """Return an error message for each variable of the definition whose value has the wrong type or is not one of the choices."""
    for name, spec in argument_spec("provision").items():
        value = controller.get(name)
        if value not in (None, "", UNKNOWN):
            wrong = value_errors(name, {key: part for key, part in spec.items() if key != "options"}, value, unchanged=False)
            yield from wrong or nested_errors(name, spec, value) or text_errors(name, spec, value)


def nested_errors(name: str, spec: Mapping[str, Any], value: Any) -> list[str]:
    """Return an error message for each key in dictionaries of a variable that is unknown or missing, or has a value of the wrong type."""
    if not spec.get("options"):
        return []
    found = ArgumentSpecValidator({name: dict(spec)}).validate({name: value}).error_messages
    return [each if each.startswith(name) else f"{name}: {each}" for each in found]


def host_errors(controller: NodeVariables, variables: Mapping[str, Any]) -> Iterator[str]:
    """Return an error message for each part of `training_job_hosts` that will match no group or host once the cluster is provisioned.

    Regular expressions and parts that exclude hosts are not checked. `variables` are the variables of the task.
    """
    name = "training_job_hosts"
    pattern, cluster, count = controller.get(name), controller.get(f"{PREFIX}cluster"), node_count(controller)
    if not pattern or UNKNOWN in (pattern, cluster) or not cluster or count is None:
        return
    nodes = [node_name(cluster, MASTER, 1), *(node_name(cluster, WORKERS, number) for number in range(2, count + 1))]
    others = set(variables["groups"].get("all", ())) - node_table(variables).keys()
    known = {*nodes, *others, *variables["groups"], "all"}
    for part in split_host_pattern(pattern):
        wanted = POSITIONS.sub("", part.removeprefix("&"))
        if wanted and not wanted.startswith(("!", "~")) and not fnmatch.filter(known, wanted):
            shown = nodes if len(nodes) <= SHOWN_NODES else [*nodes[:2], "...", nodes[-1]]
            yield (
                f"{name}: {part!r} matches no host. According to the definition, the nodes are {', '.join(shown)}. Use these names,"
                " a group such as workers, or a higher worker count."
            )


def node_count(controller: NodeVariables) -> int | None:
    """Return the number of nodes in the definition, or None if the controller does not know it."""
    counts = [definition_count(controller, name) for name in ("worker_count", "spares")]
    return None if None in counts else 1 + sum(filter(None, counts))


def definition_count(controller: NodeVariables, name: str) -> int | None:
    """Return the value of a numeric option of the definition, or None if the controller does not know it."""
    count = str(definition_value(controller, name))
    return int(count) if count.isdecimal() else None


def definition_value(controller: NodeVariables, name: str) -> Any:
    """Return the value of an option of the definition, its default, or UNKNOWN if the controller does not know the value."""
    option = next(option for option in options_of() if option.name == name)
    value = controller.get(option.variable)
    return option.spec.get("default") if value is None else value


def spare_errors(controller: NodeVariables) -> Iterator[str]:
    """Return an error message if all nodes of the definition would be spares of the job. A job with `training_job_hosts` is not checked."""
    name = "training_job_spares"
    spares, count = str(controller.get(name)), node_count(controller)
    if not controller.get("training_job_hosts") and spares.isdecimal() and count is not None and int(spares) >= count:
        yield f"{name}: {spares} is too many for the {count} nodes of the definition. Use a smaller number, or more nodes."


def own_disk_errors(controller: NodeVariables) -> Iterator[str]:
    """Return error messages about a job that needs shared storage, if the definition has none.

    Without shared storage, jobs are stored on the master's own disk. If `training_job_hosts` is set, the hosts themselves check whether the
    job needs shared storage.
    """
    switches, ids = ([definition_value(controller, name) for name in names] for names in (kinds.SWITCHES, kinds.ADOPTED))
    if UNKNOWN in (*switches, *ids) or any(boolean(switch, strict=False) for switch in switches) or any(ids):
        return
    count, off = node_count(controller), f"{PREFIX}{kinds.SWITCHES[0]}: false"
    if not controller.get("training_job_hosts") and count not in (None, 1):
        remedy = " or ".join(f"{PREFIX}{switch}: true" for switch in kinds.SWITCHES)
        yield (
            f"{off} leaves the cluster without shared storage, which a job on {count} hosts needs. Set {remedy}."
            " To run the job on the master alone, set training_job_hosts: master."
        )
    if controller.get("training_job_then") == THEN[2] and not controller.get("training_job_export"):
        yield (
            f"training_job_then: '{THEN[2]}' would delete the results of the job, because {off} leaves the cluster without shared"
            " storage. Set training_job_export, or remove training_job_then."
        )


def then_errors(controller: NodeVariables) -> Iterator[str]:
    """Return error messages about the variables that specify what happens after the job."""
    then, waits = controller.get("training_job_then"), controller.get("training_job_wait", True)
    if then in (None, "", UNKNOWN, THEN[0]):
        return
    if then not in THEN:
        yield f"training_job_then: {then!r:.100} is not a valid value. Use one of {', '.join(THEN)}."
        return
    delay = controller.get("training_job_then_delay", 60)
    if delay is not UNKNOWN and not re.fullmatch(r"\d+(\.\d+)?", str(delay)):
        yield f"training_job_then_delay: {delay!r:.100} is not a number of minutes. Specify a number, such as 60."
    if waits is not UNKNOWN and not boolean(waits, strict=False):
        yield (
            f"training_job_then: {then!r} cannot be combined with training_job_wait: false, because the run ends before the job."
            " Remove one of the two."
        )


def permission_errors(nodes: NodeVariables, controller: NodeVariables) -> Iterator[str]:
    """Return an error message if the definition does not allow the nodes to export to the destination."""
    destination = nodes.get("training_job_export")
    allowed = [controller.get(f"deeplearning_{name}") for name in ("export_destinations", "write_buckets", "instance_profile")]
    if not destination or UNKNOWN in (destination, *allowed) or allowed[2] or refusal("", lambda: check_bucket_source(destination)):
        return
    bucket, prefix = bucket_and_prefix(destination)
    writable = map(bucket_and_prefix, allowed[0] or ())
    if bucket not in (allowed[1] or ()) and not any(bucket == each and prefix.startswith(start) for each, start in writable):
        yield (
            f"training_job_export: the nodes are not allowed to write to {destination!r}. Add it to deeplearning_export_destinations, or"
            " its bucket to deeplearning_write_buckets."
        )


def image_errors(nodes: NodeVariables, controller: NodeVariables) -> Iterator[str]:
    """Return an error message if the job needs a Python environment from an image that has none, unless set-up steps may create one."""
    name = nodes.get("python_environment_name")
    others = [nodes.get("python_environment_requirements"), nodes.get(setup_steps.OPTION)]
    if name and name is not UNKNOWN and not any(others) and controller.get(f"{PREFIX}image_framework") == WITHOUT_FRAMEWORK:
        yield (
            f"python_environment_name: {name!r} is not set up, because images of {PREFIX}image_framework: {WITHOUT_FRAMEWORK} contain no "
            "Python environments. Set python_environment_requirements, or use an image with a framework."
        )
