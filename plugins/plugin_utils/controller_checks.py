# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks everything that the controller can check without AWS and without hosts: the names, values and files that a playbook run uses.

The hosts check values that are not known on the controller, such as a template that refers to host variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._aws.node_group.private_key import read_public_key
from ..module_utils._aws.validator import Finding, Level
from ..module_utils._common.dataset.source import PATH, SHARED, check_options, check_sources, name_of, name_of_set, parse
from ..module_utils._common.python_environment.definition import check_name, read_sources
from ..module_utils._common.shared_storage.mounts import check_bucket_source
from ..module_utils._job import naming
from ..module_utils._job.definition.job_parameters import check_queue, check_tasks, find_launcher
from . import cost_limit, custom_health_checks, setup_steps
from .confusable_characters import problem_in_shell_words, problem_in_word
from .definition_checks import definition_errors, host_errors, image_errors, own_disk_errors, permission_errors, spare_errors, then_errors
from .job_code import code_to_send, patterns
from .node_variables import UNKNOWN, NodeVariables, node_variables
from .notifications import Notifications
from .python_requirements import read_requirements
from .unused_variables import of_definition, of_job
from .value_checks import ARGUMENTS, OF_LAUNCHER, known_values, refusal
from .variable_names import name_findings
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
# The variables whose texts become words of commands or environment variables.
WORDS = (
    *ARGUMENTS,
    "node_setup_steps",
    "python_environment_build_variables",
    "training_job_environment",
    "training_job_environment_by_task",
    "training_job_launcher_options",
)
# What a shell would expand in the value of a variable.
EXPANSION = re.compile(r"\$(?:[A-Za-z_]\w*|\{\w+\})|^~(?=/|$)")


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
    if are_known(given, "training_job_max_cost"):
        yield from refusal("training_job_", lambda: cost_limit.read(given.get("training_job_max_cost")))
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
        if kind == JOB:
            found += [Finding(UNUSED_VARIABLES, Level.WARNING, message) for message in of_job(nodes)]
            found += [Finding(kind, Level.WARNING, message) for message in variable_warnings(nodes)]
    if kind == JOB:
        found += [Finding(VALUE_TYPE, Level.ERROR, message) for message in definition_errors(controller)]
        found += [Finding(kind, Level.ERROR, message) for message in _errors_of_job_run(controller, nodes, variables)]
        found += [Finding(NOTIFY, Level.ERROR, message) for message in Notifications(action, variables).errors()]
    found += [Finding(UNUSED_VARIABLES, Level.WARNING, message) for message in of_definition(controller)]
    return sorted(found, key=lambda finding: finding.level is not Level.ERROR)


def value_findings(action: ActionBase, variables: Mapping[str, Any], roles: Collection[str]) -> list[Finding]:
    """Return an error for each variable of these roles that has a wrong value on the nodes, as far as the controller knows."""
    nodes = node_variables(variables, action._templar) if roles else None
    if nodes is None:
        return []
    given, wrong = known_values(roles, nodes)
    wrong += health_check_errors(given, [os.getcwd(), action._loader.get_basedir()])
    return [Finding(VALUE_TYPE, Level.ERROR, message) for message in wrong]


def health_check_errors(given: Mapping[str, Any], bases: Sequence[str]) -> list[str]:
    """Return an error message if a file in the folder of the user's own health checks cannot be one."""
    folder = given.get("node_health_checks", "")
    return [] if folder is UNKNOWN else refusal("node_health_", lambda: custom_health_checks.programs(folder, bases))


def _errors_of_job_run(controller: NodeVariables, nodes: NodeVariables | None, variables: Mapping[str, Any]) -> Iterator[str]:
    """Return error messages about a run that provisions the cluster of a job. `nodes` is None if the nodes' variables are not known."""
    yield from then_errors(controller)
    yield from host_errors(controller, variables)
    yield from spare_errors(controller)
    yield from own_disk_errors(controller)
    if nodes is not None:
        yield from permission_errors(nodes, controller)
        yield from image_errors(nodes, controller)


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
        if options.get(option) not in (None, "", UNKNOWN):
            yield from refusal(prefix, partial(naming.check_name, options[option], option))
    if are_known(options, "launcher", "launcher_options"):
        yield from _launcher_errors(prefix, options)
    if are_known(options, "queue", "host_count", "spares", "reboot"):
        counts = int(options.get("host_count", 0)), int(options.get("spares", 0))
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
    prefix, options = "training_job_export", of_role("training_job_export", given)
    if options.get("") and are_known(options, ""):
        yield from refusal(f"{prefix}: ", lambda: check_bucket_source(options[""]))
    interval = options.get("_interval", 0)
    if interval is not UNKNOWN and interval != 0 and interval < LEAST_INTERVAL:
        yield (
            f"{prefix}_interval: {interval} s is not valid. Specify at least {LEAST_INTERVAL} s, or 0 to upload only at the start and"
            " at the end."
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
