# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sends a job's code to the first host in one transfer, then runs the module of the same name."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Mapping, Sequence

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..module_utils._common.worker_metadata.metadata import generation
from ..module_utils._job.definition import job_parameters
from ..module_utils._job.definition.options import OPTIONS
from ..plugin_utils import cost_limit, job_scripts
from ..plugin_utils._output import prices
from ..plugin_utils.answers import NodeAction, checked_identity
from ..plugin_utils.command_lines import UNCHANGED, is_one_string, list_error
from ..plugin_utils.git_repositories import without_credentials
from ..plugin_utils.inventory_nodes import cluster_of, instance_arguments, known_nodes, node_table
from ..plugin_utils.job_code import SelectedCode, code_to_send, job_code, patterns, write_archive
from ..plugin_utils.node_prices import price_of_nodes
from ..plugin_utils.option_names import of_host_role
from ..plugin_utils.output import show
from ..plugin_utils.setup_steps import described, read_steps, steps_of_node
from ..plugin_utils.variable_names import check_names
from ..plugin_utils.yaml_text import refuse_changed_text

# The role whose tasks get the options of the job from the role's variables, unless a task specifies them.
ROLE = "deeplearning.cluster.training_job"
# The options whose values are environment variables.
VARIABLES = ("environment", "environment_by_task", "secrets")


class ActionModule(NodeAction):
    """Adds the job's code and inventory values, which are available only on the controller, to the task's arguments."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        self._task.args = {**self._arguments_of_role(variables), **self._task.args}
        arguments = dict(self._task.args)
        state = arguments.get("state", "started")
        refuse_strings(arguments)
        refuse_changed_text(self._task, {name: job_parameters.SPECIFICATION["argument_spec"][name] for name in (*UNCHANGED, *VARIABLES)})
        if state in ("checked", "printed", "stopped"):
            arguments.pop("max_cost", None)
        if state == "checked":
            check_names(variables)
            return self._check(arguments)
        if state == "printed":
            return self._print(arguments)
        arguments = self._with_inventory(state, self._with_cost_limit(state, arguments, variables), variables)
        try:
            if state == "prepared" and is_first(variables):
                check_names(variables)
                arguments["on_first_host"] = is_on_first_host(variables)
                if arguments.get("queue"):
                    arguments["queue_hosts"] = play_hosts(variables)
                arguments.update(self._code(arguments))
            if arguments.get("repository"):
                arguments["repository"] = without_credentials(arguments["repository"])
            answer = self._execute_module(self._module, module_args=arguments, task_vars=variables)
            return answer if state != "prepared" or answer.get("failed") else self._prepared(answer, variables)
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _arguments_of_role(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of the job, except secrets, with the values of the role's variables, for a task of the role.

        An empty variable of an option without a default is as if it were not set. Ansible would compile each template in the task's own
        arguments again for each host, although most of these variables contain none.
        """
        if self._task._role is None or self._task._role.get_name() != ROLE:
            return {}
        options = {option.name: option for option in OPTIONS if not option.spec.get("no_log")}
        # Ansible leaves out the members of a dictionary that are omitted
        given = self._templar.template({name: variables[f"training_job_{each.variable or name}"] for name, each in options.items()})
        return {name: value for name, value in given.items() if value or "default" in options[name].spec or options[name].default}

    def _prepared(self, answer: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a host that can run the job. The first host knows what the job has cost, so it tells the limit.

        It does not know how much of it a job that is already running has left.
        """
        if is_first(variables) and answer.get("job_state") != "running":
            earlier = answer.get("earlier_node_seconds", 0.0)
            try:
                self._with_cost_limit("told", {**self._task.args, "earlier_node_seconds": earlier}, variables)
            except AnsibleActionFail as error:
                return {**answer, "failed": True, "msg": error.message}  # what the host has unpacked is still to be deleted
        return checked_identity(answer, variables, "training_job")

    def _with_cost_limit(self, state: str, arguments: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return with_cost_limit(state, arguments, variables)
        except AnsibleActionFail as error:
            raise AnsibleActionFail(of_host_role(self._task, error.message)) from error

    def _with_inventory(self, state: str, arguments: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with the values from the inventory. The task's own arguments take precedence."""
        if state != "stopped" and not arguments.get("generation"):
            arguments["generation"] = inventory_generation(variables)
        if state in ("prepared", "queued", "started"):
            arguments = {"cluster": variables.get("deeplearning_cluster", ""), **instance_arguments(variables), **arguments}
        steps = arguments.pop("setup_steps", None)
        if state == "prepared":
            if steps:
                arguments["setup_digests"] = self._setup_digests(steps, variables)
            add_hardware(arguments, variables)
        return arguments

    def _check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run the checks that the controller can make without connecting to a host."""
        parameters = checked_parameters(arguments)
        if not parameters["repository"]:
            code_to_send(parameters, self._bases(), patterns(parameters))
        return {"changed": False}

    def _setup_digests(self, given: Any, variables: Mapping[str, Any]) -> dict[str, str]:
        """Return the descriptions of this host's set-up steps, keyed by digest."""
        steps, errors = read_steps(given, self._bases())
        if errors:
            raise AnsibleActionFail("\n".join(errors))
        return {step["digest"]: described(step) for step in steps_of_node(steps, variables)}

    def _print(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the job's processes on all hosts with their scripts, and write the scripts to `dest`. The method starts no process."""
        parameters = checked_parameters(arguments)
        try:
            specs = job_scripts.specs_of_job(parameters)
        except (job_parameters.RefusalError, ValueError) as error:
            raise AnsibleActionFail(str(error)) from error
        scripts = job_scripts.scripts(specs, parameters)
        changed: list[str] = []
        if parameters["dest"]:
            folder = Path(parameters["dest"]).absolute()
            try:
                changed = job_scripts.write(folder, scripts, check_mode=self._task.check_mode)
            except OSError as error:
                raise AnsibleActionFail(f"dest: {str(folder)!r} cannot be written: {error}. Use another path.") from error
        return {
            "changed": bool(changed),
            "processes": job_scripts.processes(specs),
            "lines": job_scripts.lines(specs),
            "scripts": scripts,
        }

    def _bases(self) -> list[str]:
        """Return the base directories for relative paths on the controller."""
        return [os.getcwd(), self._loader.get_basedir()]

    def _code(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that describe the job's code. Except in check mode, also send the code to the host."""
        try:
            with job_code(arguments, self._bases()) as code:
                archive = {} if self._task.check_mode else {"archive": self._send(code, patterns(arguments))}
                return {"code": code.origin, **archive}
        except AnsibleActionFail as error:
            raise AnsibleActionFail(of_host_role(self._task, error.message)) from None

    def _send(self, code: SelectedCode, exclude: Sequence[str]) -> str:
        """Copy the code to the host as one archive and return the path of the archive on the host."""
        if self._connection._shell.tmpdir is None:
            self._make_tmp_path()
        remote = self._connection._shell.join_path(self._connection._shell.tmpdir, "code.tar.gz")
        with tempfile.NamedTemporaryFile(suffix=".tar.gz") as local:
            write_archive(local.name, code, exclude)
            self._transfer_file(local.name, remote)
        self._fixup_perms2((self._connection._shell.tmpdir, remote))
        return remote


def refuse_strings(arguments: Mapping[str, Any]) -> None:
    """Raise AnsibleActionFail if a command line is a string. Ansible would split the string into a list at its commas."""
    for option in UNCHANGED:
        if is_one_string(arguments.get(option), unchanged=True):
            raise AnsibleActionFail(list_error(option, arguments[option]))


def with_cost_limit(state: str, arguments: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with the time limit that follows from the maximum cost, and this cost if it is the shorter limit.

    The argument `earlier_node_seconds` says what the job has used up, and `planned_hosts` how many hosts it will have, if these are others
    than those of the play. With the state `told`, tell the limit.
    """
    given, earlier = arguments.pop("max_cost", None), float(arguments.pop("earlier_node_seconds", 0.0))
    counts = (arguments.get("host_count"), arguments.pop("planned_hosts", 0), len(variables["ansible_play_hosts_all"]))
    hosts = next(filter(None, (int(each or 0) for each in counts)))
    try:
        max_cost = cost_limit.read(given)
        if not max_cost:
            return arguments
        price = price_of_job(variables)
        time_limit = int(arguments.get("time_limit") or 0)
        spent = cost_limit.spent(max_cost, earlier, price, hosts)
        seconds = cost_limit.limited_seconds(max_cost - spent, time_limit, price, hosts)
    except ValueError as error:
        raise AnsibleActionFail(str(error)) from error
    if state == "told":
        if spent:
            used, limit = (prices.amount(each, price["currency"]) for each in (spent, max_cost))
            show(f"training_job_max_cost: earlier attempts have cost about {used} of {limit}, at the present price")
        show(cost_limit.told(max_cost - spent, seconds, time_limit, price, hosts))
    # The first host says what the job has used up
    if seconds == time_limit and not (state == "prepared" and is_first(variables)):
        return arguments
    facts = {"amount": max_cost, "earlier": spent, "hourly": cost_limit.hourly(price, hosts), "currency": price["currency"]}
    return {**arguments, "time_limit": seconds, "cost_limit": facts}


def price_of_job(variables: Mapping[str, Any]) -> Any:
    """Return the price for the maximum cost of a job, or None. On EMR, another run has kept it, with all volumes."""
    return price_of_nodes(variables) if variables.get("deeplearning_node_service") == "emr" else prices.of_run(variables)


def checked_parameters(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the module's parameters with their defaults. Raises AnsibleActionFail if the module would reject the arguments."""
    validation = ArgumentSpecValidator(**job_parameters.SPECIFICATION).validate(arguments)
    if validation.error_messages:
        raise AnsibleActionFail("; ".join(validation.error_messages))
    parameters: dict[str, Any] = validation.validated_parameters
    try:
        job_parameters.check(parameters)
    except (job_parameters.RefusalError, ValueError) as error:
        raise AnsibleActionFail(str(error)) from error
    return parameters


def inventory_generation(variables: Mapping[str, Any]) -> str:
    """Return the generation ID of the cluster metadata that describes the nodes in the inventory."""
    cluster = cluster_of(variables)
    if not cluster:
        raise AnsibleActionFail(
            "deeplearning_cluster: the variable is not set for this host. Use the deeplearning.cluster.nodes inventory, or set generation."
        )
    return generation(cluster, [{"number": node["number"], "address": node["private_ip"]} for node in known_nodes(variables).values()])


def add_hardware(arguments: dict[str, Any], variables: Mapping[str, Any]) -> None:
    """Add the missing arguments that say which GPUs and adapters the host should have. Jobs without EFA need no adapters."""
    name = variables.get("inventory_hostname", "")
    node = node_table(variables, [name]).get(name, {})
    if arguments.get("efa") is None:
        arguments["efa"] = variables.get("deeplearning_has_efa", False)
    arguments.setdefault("efa_devices", variables.get("deeplearning_efa_devices", 0) if arguments["efa"] else 0)
    arguments.setdefault("instance_type", node.get("instance_type") or variables.get("deeplearning_instance_type", ""))


def play_hosts(variables: Mapping[str, Any]) -> list[str]:
    """Return the host names of the play's hosts, as they appear in the cluster metadata."""
    nodes = known_nodes(variables, variables["ansible_play_hosts_all"])
    return [str(nodes[host].get("hostname", host)) for host in variables["ansible_play_hosts_all"]]


def is_on_first_host(variables: Mapping[str, Any]) -> bool:
    """Return whether the play has only one host, and this host has the lowest node number in the cluster."""
    nodes = known_nodes(variables)
    first = min(nodes, key=lambda name: int(nodes[name]["number"]), default="")
    return list(variables["ansible_play_hosts_all"]) == [first]


def is_first(variables: Mapping[str, Any]) -> bool:
    """Return whether this task runs on the host with the lowest node number in the play."""
    nodes = known_nodes(variables, variables["ansible_play_hosts_all"])
    numbers = [int(nodes[host]["number"]) for host in variables["ansible_play_hosts_all"]]
    return int(variables["deeplearning_number"]) == min(numbers)
