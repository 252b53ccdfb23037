# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Shows the results of `training_job_info`: one line for each job, or one job with its processes."""

from __future__ import annotations

from typing import Any, Mapping

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display

from ..module_utils._job.goodput import ALWAYS
from ..module_utils._job.job_status import JobStatus
from ..module_utils._job.state_names import RUNNING
from ..module_utils._text import clean_line
from ..plugin_utils import job_formatting
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.budget import Budget
from ..plugin_utils.gone_nodes import gone_hosts, with_gone_hosts
from ..plugin_utils.inventory_nodes import node_table, place_of
from ..plugin_utils.job_metrics import JobMetrics
from ..plugin_utils.job_watch import job_info
from ..plugin_utils.output import show
from ..plugin_utils.suggested_commands import playbook_command

display = Display()

# Maximum number of processes that a job list shows for the newest job.
TABLE_LIMIT = 32


class ActionModule(NodeAction, module="training_job_info"):
    """Passes the task's arguments to the module and shows the module result."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        arguments = dict(self._task.args)
        directory = arguments.pop("metrics_directory", None)
        if arguments.get("name"):
            arguments["goodput"] = ALWAYS
        elif directory:
            raise AnsibleActionFail("metrics_directory: the option 'name' is also required. Specify the name of a job.")
        result = job_info(self, arguments, variables)
        if not result.get("failed"):
            with self.reading(variables):
                gone = gone_hosts(result["jobs"][0], node_table(variables)) if result["jobs"] else {}
                result["jobs"][:1] = [with_gone_hosts(job, gone) for job in result["jobs"][:1]]
                lines = shown(result["jobs"], arguments, gone)
                if directory and not self._task.check_mode:
                    write_metrics(directory, result["jobs"][0], variables)
            for problem in Budget().messages(result.get("problems") or [], "problems"):
                display.warning(problem)
            show(Budget().lines(lines))
        return result


def write_metrics(directory: str, job: JobStatus, variables: Mapping[str, Any]) -> None:
    """Write the metrics of a job to a file in a directory on the controller. Raises AnsibleActionFail."""
    file = JobMetrics(directory, job["name"], place_of(variables))
    try:
        file.write(job)
    except OSError as error:
        raise AnsibleActionFail(f"metrics_directory: {str(file.path)!r} cannot be written: {error}. Use another directory.") from error


def shown(jobs: list[JobStatus], arguments: Mapping[str, Any], gone: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines that describe the jobs. `gone` maps each lost host of the first job to a sentence about the host."""
    if not jobs:
        return [f"There are no jobs in {arguments['directory']}."]
    lines = [job_formatting.job_line(job) for job in jobs]
    newest = jobs[0]["processes"]
    if arguments.get("name"):
        lines += job_formatting.tables(jobs[0])
    elif 0 < len(newest) <= TABLE_LIMIT:
        lines += [f"processes of {jobs[0]['name']}, the newest job:", *job_formatting.process_table(newest)]
    # The other hosts of a job notice the loss of a host only after the heartbeat timeout.
    if jobs[0].get("state") == RUNNING:
        lines += [clean_line(f"{jobs[0]['name']}: {text}") for text in (gone or {}).values()]
    if arguments.get("name"):
        if "failure" in jobs[0] or "failure" in jobs[0].get("queue", {}):
            lines.append(job_formatting.failure_message(jobs[0], playbook_command))
    elif "failure" in jobs[0]:
        more = f"{playbook_command('status')} -e training_job_name={jobs[0]['name']}"
        lines.append(f"{job_formatting.failure_cause(jobs[0])} For details, run: {more}")
    return lines
