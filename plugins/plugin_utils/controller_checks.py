# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks everything that the controller can check without AWS and without hosts: the names, values and files that a playbook run uses.

The hosts check values that are not known on the controller, such as a template that refers to host variables.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from ansible.errors import AnsibleError
from ansible.inventory.manager import split_host_pattern
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from ..module_utils._aws.instances import MASTER, WORKERS, node_name
from ..module_utils._aws.node_group.private_key import read_public_key
from ..module_utils._aws.option import PREFIX
from ..module_utils._aws.options.registry import options_of
from ..module_utils._aws.storage import kinds
from ..module_utils._aws.validator import Finding, Level
from ..module_utils._hosts.dataset.source import PATH, SHARED, DataError, check_options, check_sources, name_of, name_of_set, parse
from ..module_utils._hosts.python_environment.definition import check_name, read_sources
from ..module_utils._hosts.shared_storage.mounts import bucket_and_prefix, check_bucket_source
from ..module_utils._job import naming
from ..module_utils._job.definition.specification import RefusalError, check_queue, check_tasks, find_launcher
from . import setup_steps
from ._output.failures import TYPES
from .command_lines import UNCHANGED, is_one_string, list_error
from .confusable_characters import problem_in_shell_words, problem_in_word
from .job_code import code_to_send, patterns
from .node_variables import UNKNOWN, NodeVariables, node_variables
from .nodes import node_table
from .notifications import Notifications
from .python_requirements import read_requirements
from .unused_variables import of_definition, of_job
from .variable_names import argument_specs, name_findings
from .yaml_text import text_errors

JOB, DATASET, EXPORT, NAMES = "job", "dataset", "export", "names"
NOTIFY, PRIVATE_KEY, UNUSED_VARIABLES, VALUE_TYPE = "notify", "private_key", "unused_variables", "value_type"
# The roles whose variables a playbook run uses, for each purpose of a run.
ROLES = {
    JOB: ("node_setup", "python_environment", "shared_storage", "ssh_trust", "training_job", "worker_metadata"),
    DATASET: ("dataset",),
    EXPORT: ("training_job",),
}
# The minimum number of seconds between two exports of a running job.
LEAST_INTERVAL = 60
# The variables of jobs whose elements are passed to a process unchanged.
ARGUMENTS = tuple(f"training_job_{option}" for option in UNCHANGED)
# The variables whose texts become words of commands or environment variables.
WORDS = (
    *ARGUMENTS,
    "node_setup_steps",
    "python_environment_build_variables",
    "training_job_environment",
    "training_job_environment_by_task",
    "training_job_launcher_options",
)
# The dictionary whose values have the types that the launcher defines.
OF_LAUNCHER = "training_job_launcher_options"
# The maximum number of nodes that a message lists.
SHOWN_NODES = 5
# The value of `image_framework` for images with drivers, but without a framework.
WITHOUT_FRAMEWORK = "base"
# The end of a host pattern that selects hosts by position, such as `workers[0:3]`.
POSITIONS = re.compile(r"\[(?:-?\d+|\d+[:-]\d*)\]$")
# What a shell would expand in the value of a variable.
EXPANSION = re.compile(r"\$(?:[A-Za-z_]\w*|\{\w+\})|^~(?=/|$)")
# The words that messages use for the elements of lists.
ELEMENTS = {"dict": "dictionaries", "int": "integers", "path": "paths", "str": "strings"}
# The values of `training_job_then`, which say what happens to the nodes after a job.
THEN = ("keep", "scale_in", "destroy")
REFUSALS = (AnsibleError, DataError, RefusalError, ValueError)


def errors_of_run(kind: str, nodes: NodeVariables, bases: Sequence[str], *, needs_job: bool) -> Iterator[str]:
    """Return error messages about the variables of a job or a data set. Paths are relative to one of `bases`.

    If `needs_job` is true, a job without a script and without a command is an error.
    """
    given, wrong = known_values(ROLES[kind], nodes)
    yield from wrong
    if kind == DATASET:
        yield from dataset_errors(given)
        return
    yield from export_errors(given)
    if kind == EXPORT:
        return
    yield from setup_errors(given, bases)
    yield from environment_errors(given, bases)
    yield from job_errors(given, bases, needs_job=needs_job)
    yield from report_errors(given)


def findings_of_task(action: ActionBase, variables: Mapping[str, Any], kind: str, *, needs_job: bool = False) -> list[Finding]:
    """Return the findings about the variables of a playbook run, errors first. The task runs on the controller.

    The values of the definition are always known, because the controller itself uses them.
    """
    nodes = node_variables(variables, action._templar)
    controller = NodeVariables(variables, action._templar.template, of_host=False)
    found = [*name_findings(variables), *(Finding(PRIVATE_KEY, Level.ERROR, message) for message in key_errors(controller))]
    if nodes is not None:
        bases = [os.getcwd(), action._loader.get_basedir()]
        found += [Finding(kind, Level.ERROR, message) for message in errors_of_run(kind, nodes, bases, needs_job=needs_job)]
        found += [Finding(UNUSED_VARIABLES, Level.WARNING, message) for message in (of_job(nodes) if kind == JOB else ())]
        found += [Finding(kind, Level.WARNING, message) for message in (variable_warnings(nodes) if kind == JOB else ())]
    if kind == JOB:
        found += [Finding(VALUE_TYPE, Level.ERROR, message) for message in definition_errors(controller)]
        found += [Finding(kind, Level.ERROR, message) for message in _errors_of_job_run(controller, nodes, variables)]
        found += [Finding(NOTIFY, Level.ERROR, message) for message in Notifications(action, variables).errors()]
    found += [Finding(UNUSED_VARIABLES, Level.WARNING, message) for message in of_definition(controller)]
    return sorted(found, key=lambda finding: finding.level is not Level.ERROR)


def value_findings(action: ActionBase, variables: Mapping[str, Any], roles: Collection[str]) -> list[Finding]:
    """Return an error for each variable of these roles that has a value of the wrong type on the nodes, as far as the controller knows."""
    nodes = node_variables(variables, action._templar) if roles else None
    return [Finding(VALUE_TYPE, Level.ERROR, message) for message in (known_values(roles, nodes)[1] if nodes else ())]


def _errors_of_job_run(controller: NodeVariables, nodes: NodeVariables | None, variables: Mapping[str, Any]) -> Iterator[str]:
    """Return error messages about a run that provisions the cluster of a job. `nodes` is None if the nodes' variables are not known."""
    yield from then_errors(controller)
    yield from host_errors(controller, variables)
    yield from spare_errors(controller)
    yield from own_disk_errors(controller)
    if nodes is not None:
        yield from permission_errors(nodes, controller)
        yield from image_errors(nodes, controller)


def definition_errors(controller: NodeVariables) -> Iterator[str]:
    """Return an error message for each variable of the definition whose value has the wrong type or is not one of the choices.

    The modules themselves report invalid keys in dictionaries.
    """
    for name, spec in argument_spec("provision").items():
        value = controller.get(name)
        if value not in (None, "", UNKNOWN):
            wrong = value_errors(name, {key: part for key, part in spec.items() if key != "options"}, value, unchanged=False)
            yield from wrong or text_errors(name, spec, value)


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
    if not controller.get("training_job_hosts") and count is not None and count > 1:
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


def known_values(roles: Iterable[str], nodes: NodeVariables) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the roles' variables, and messages about values of the wrong type.

    Unset and empty variables are left out. A value is UNKNOWN if it has the wrong type, or if the controller
    cannot know it.
    """
    given, wrong = {}, []
    for name, spec in {name: spec for role in roles for name, spec in argument_spec(role).items()}.items():
        value = nodes.get(name)
        if value is UNKNOWN:
            given[name] = value
        elif value is not None:
            errors = value_errors(name, spec, value, unchanged=name in ARGUMENTS)
            errors = errors or ([] if name == OF_LAUNCHER else list(text_errors(name, spec, value)))
            checked = UNKNOWN if errors else ArgumentSpecValidator({name: spec}).validate({name: value}).validated_parameters[name]
            wrong += errors
            if checked or isinstance(checked, (bool, int)):
                given[name] = checked
    return given, wrong


def value_errors(name: str, spec: Mapping[str, Any], value: Any, *, unchanged: bool) -> list[str]:
    """Return an error message if a variable's value has the wrong type or is not one of the choices in its argument spec."""
    if spec.get("elements") == "str" and is_one_string(value, unchanged=unchanged):
        return [list_error(name, value)]
    if not ArgumentSpecValidator({name: dict(spec)}).validate({name: value}).error_messages:
        return []
    return [f"{name}: {type_error(spec, value)}"]


def type_error(spec: Mapping[str, Any], value: Any) -> str:
    shown = "the value" if spec.get("no_log") else f"{value!r:.100}"
    if spec.get("choices"):
        return f"{shown} is not supported. Use one of {', '.join(map(str, spec['choices']))}."
    kind = TYPES.get(spec["type"], spec["type"]) + (f" of {ELEMENTS.get(spec['elements'], 'values')}" if spec.get("elements") else "")
    return f"{shown} has the wrong type. Specify {kind}."


@lru_cache(maxsize=None)
def argument_spec(role: str) -> dict[str, dict[str, Any]]:
    """Return the argument spec of a role, with every variable optional."""
    keys = ("type", "elements", "choices", "options", "no_log")
    options = argument_specs()[role]["main"]["options"]
    return {name: {key: option[key] for key in keys if key in option} for name, option in options.items()}


def refusal(prefix: str, check: Callable[[], Any]) -> list[str]:
    """Return a list with one error message, which is the prefix and the text of the check's exception, or an empty list."""
    try:
        check()
    except REFUSALS as error:
        return [prefix + str(error)]
    return []


def of_role(prefix: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of one role's variables, keyed by the variables' names without the role's prefix."""
    return {name[len(prefix) :]: value for name, value in given.items() if name.startswith(prefix)}


def are_known(given: Mapping[str, Any], *names: str) -> bool:
    return not any(given.get(name) is UNKNOWN for name in names)


def job_errors(given: Mapping[str, Any], bases: Sequence[str], *, needs_job: bool) -> Iterator[str]:
    """Return error messages about the options of a training job. If neither a script nor a command is set, there is no job to check."""
    prefix, options = "training_job_", of_role("training_job_", given)
    if not (options.get("script") or options.get("command")):
        if needs_job:
            yield f"{prefix}script: no script is set. Specify the path of the training script, or set {prefix}command."
        return
    for option in ("name", "resume"):
        if options.get(option) and are_known(options, option):
            yield from refusal(prefix, partial(naming.check_name, options[option], option))
    if are_known(options, "launcher", "launcher_options"):
        yield from _launcher_errors(prefix, options)
    if are_known(options, "queue", "host_count", "spares", "reboot"):
        counts = [int(options.get(name, 0)) for name in ("host_count", "spares")]
        yield from refusal(prefix, lambda: check_queue(options.get("queue"), *counts, reboot=bool(options.get("reboot"))))
    if options.get("source") and options.get("repository"):
        yield f"{prefix}source: a source cannot be combined with {prefix}repository. Remove one of the two."
    elif not options.get("repository") and are_known(options, "script", "source", "exclude"):
        yield from refusal(prefix, lambda: code_to_send(options, bases, patterns(options)))


def _launcher_errors(prefix: str, options: Mapping[str, Any]) -> Iterator[str]:
    launcher = {"launcher": options.get("launcher", "torchrun"), "launcher_options": options.get("launcher_options", {})}
    wrong = refusal(prefix, lambda: find_launcher(launcher))
    yield from wrong
    if not wrong:
        spec = {"type": "dict", "options": find_launcher(launcher).options}
        yield from text_errors(OF_LAUNCHER, spec, options.get("launcher_options", {}))
    if not wrong and are_known(options, "environment_by_task"):
        environments = options.get("environment_by_task", {})
        yield from refusal(prefix, lambda: check_tasks(environments, launcher, find_launcher(launcher)))


def setup_errors(given: Mapping[str, Any], bases: Sequence[str]) -> Iterator[str]:
    """Return error messages about the set-up steps of the nodes."""
    if are_known(given, setup_steps.OPTION):
        yield from setup_steps.read_steps(given.get(setup_steps.OPTION, []), bases)[1]


def environment_errors(given: Mapping[str, Any], bases: Sequence[str]) -> Iterator[str]:
    """Return error messages about the Python environment of a job."""
    prefix, options = "python_environment_", of_role("python_environment_", given)
    name, requirements = options.get("name"), options.get("requirements")
    if not name:
        if requirements:
            shown = "the value" if requirements is UNKNOWN else repr(requirements)
            yield (
                f"{prefix}requirements: {shown} has no effect, because {prefix}name is empty. Specify a name for the environment with "
                f"{prefix}name, for example {prefix}name: training, or remove {prefix}requirements."
            )
        return
    if name is not UNKNOWN:
        yield from refusal(f"{prefix}name: {name!r}: ", lambda: check_name(name))
    if requirements and requirements is not UNKNOWN:
        yield from _build_errors(prefix, options, bases)


def _build_errors(prefix: str, options: Mapping[str, Any], bases: Sequence[str]) -> Iterator[str]:
    """Return error messages about the options of an environment that is built from requirements."""
    file, installer = options["requirements"], options.get("installer")
    wrong = refusal(prefix, lambda: read_requirements(file, bases, "uv" if installer == "uv" else "pip"))
    yield from wrong
    variables, last = options.get("build_variables", {}), options.get("no_build_isolation", [])
    if not wrong and isinstance(variables, Mapping) and isinstance(last, list):
        yield from refusal(prefix, lambda: read_sources(variables, last, read_requirements(file, bases).contents))
    packages = options.get("system_packages", [])
    for package in packages if isinstance(packages, list) else []:
        if not setup_steps.PACKAGE.fullmatch(str(package)):
            advice = "Use names of packages that apt-get or dnf can install."
            yield f"{prefix}system_packages: {package!r} is not a valid package name. {advice}"


def variable_warnings(nodes: NodeVariables) -> Iterator[str]:
    """Return warnings about variables of a job that probably do not have the effect that the user expects."""
    for option in WORDS:
        yield from _confusable_characters(option, nodes.get(option))
    name = "training_job_environment"
    variables = nodes.get(name)
    for variable, value in variables.items() if isinstance(variables, Mapping) else ():
        expansion = EXPANSION.search(str(value))
        if expansion:
            yield f"{name}: {variable}: {expansion[0]!r} is passed to the job unchanged, because no shell expands it. Use the full value."
        if variable == "CUDA_VISIBLE_DEVICES" and str(value):
            yield f"{name}: {variable} replaces the GPUs that the launcher assigns to each process. To select GPUs, use training_job_gpus."


def _confusable_characters(place: str, value: Any) -> Iterator[str]:
    """Yield a message about each text in a value that contains a confusable character. A string `command` is split by a shell."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _confusable_characters(f"{place}: the name {name!r}", name)
            yield from _confusable_characters(f"{place}: {name}", part)
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value, 1):
            yield from _confusable_characters(f"{place}: element {number}", part)
    elif isinstance(value, str):
        problem = (problem_in_shell_words if place.endswith(": command") else problem_in_word)(value)
        if problem:
            yield f"{place}: {problem}"


def report_errors(given: Mapping[str, Any]) -> Iterator[str]:
    """Return an error message if the controller cannot write the report on a job."""
    name = "training_job_report_directory"
    directory = given.get(name, "reports")
    if directory is UNKNOWN or given.get("training_job_report") is False:
        return
    existing = path = os.path.abspath(os.path.expanduser(directory))
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    if not os.path.isdir(existing):
        yield f"{name}: {existing!r} is not a directory. Choose another directory, or set training_job_report: false."
    elif not os.access(existing, os.W_OK | os.X_OK):
        yield f"{name}: {path!r} cannot be written, because you have no write permission for {existing!r}. Choose another directory."


def export_errors(given: Mapping[str, Any]) -> Iterator[str]:
    """Return error messages about the options for exporting a job."""
    prefix, options = "training_job_export", of_role("training_job_export", given)
    if options.get("") and are_known(options, ""):
        yield from refusal(f"{prefix}: ", lambda: check_bucket_source(options[""]))
    interval = options.get("_interval", 0)
    if interval is not UNKNOWN and interval != 0 and interval < LEAST_INTERVAL:
        yield (
            f"{prefix}_interval: {interval} s is not valid. Specify at least {LEAST_INTERVAL} s, or 0 to upload only at the start and"
            " at the end."
        )


def permission_errors(nodes: NodeVariables, controller: NodeVariables) -> Iterator[str]:
    """Return an error message if the definition does not allow the nodes to export to the destination."""
    destination = nodes.get("training_job_export")
    allowed = [controller.get(f"deeplearning_{name}") for name in ("export_destinations", "write_buckets", "instance_profile")]
    if not destination or UNKNOWN in (destination, *allowed) or allowed[2] or refusal("", lambda: check_bucket_source(destination)):
        return
    bucket, prefix = bucket_and_prefix(destination)
    writable = [bucket_and_prefix(each) for each in allowed[0] or ()]
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


def dataset_errors(given: Mapping[str, Any]) -> Iterator[str]:
    """Return error messages about the options of a data set."""
    default = {"source": "", "sources": [], "name": "", "destination": SHARED, "checksum": "", "unpack": False}
    options = {**default, **of_role("dataset_", given)}
    if options["sources"]:
        yield from several_sources_errors(options)
        return
    if not options.get("source") or not are_known(options, "source"):
        return
    wrong = refusal("", lambda: parse(options["source"]))
    if wrong:
        yield from wrong
        return
    source = parse(options["source"])
    if are_known(options, "destination", "checksum", "unpack"):
        yield from refusal("", lambda: check_options(options, source))
    if are_known(options, "name"):
        yield from refusal("", lambda: name_of(source, options.get("name")))
    if source.kind == PATH and not os.path.exists(source.text):
        yield f"dataset_source: {source.text!r} does not exist on the controller. Specify an existing path, a URL or s3://bucket/prefix."


def several_sources_errors(options: Mapping[str, Any]) -> Iterator[str]:
    """Return error messages about a data set with several sources."""
    if not are_known(options, *options):
        return
    default = {"source": "", "folder": "", "checksum": "", "unpack": False}
    given = [{name: value for name, value in each.items() if value is not None} for each in options["sources"]]
    spec = {**options, "sources": [{**default, **each} for each in given]}
    wrong = refusal("", lambda: check_sources(spec))
    yield from wrong or refusal("", lambda: name_of_set(spec))


def key_errors(controller: NodeVariables) -> Iterator[str]:
    """Return an error message if SSH cannot use the private key file that the inventory specifies."""
    path = controller.get("deeplearning_private_key_file")
    if path and path is not UNKNOWN:
        yield from refusal("private_key_file: ", lambda: read_public_key(path))
