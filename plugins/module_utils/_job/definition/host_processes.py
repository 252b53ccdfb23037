# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Plans the processes of a job on one host from the parameters of the `training_job` module."""

from __future__ import annotations

from typing import Any

from .. import directories
from ..documents import ProcessSpec
from .attempt_processes import plan_specs
from .job_parameters import find_launcher
from .refusal import RefusalError


def plan(params: dict[str, Any], paths: directories.Paths, own_number: int | None = None) -> list[ProcessSpec]:
    """Return the supervisors' specs for the processes on host number `own_number`, or on all hosts. Raises LaunchError or RefusalError."""
    hosts = sorted(params["hosts"], key=lambda host: int(host["number"]))
    own = [host["name"] for host in hosts if own_number in (None, host["number"])]
    if not own:
        raise RefusalError(f"hosts: this host is number {own_number}, which is not in the list. Add this host to the list.")
    find_launcher(params)
    check_spares(params)
    check_min_hosts(params)
    if params["spares"]:
        plan_specs({**params, "spares": 0}, paths, [])  # the launcher must be able to use the spares
    specs = plan_specs({**params, "min_hosts": params["min_hosts"] or len(hosts) - params["spares"]}, paths, own)
    if any(spec["daemons"] for spec in specs) and not params["key"]:
        raise RefusalError("key: missing. Launcher {!r} needs the same random string on all hosts.".format(params["launcher"]))
    return specs


def check_spares(params: dict[str, Any]) -> None:
    if params["spares"] >= len(params["hosts"]):
        raise RefusalError(
            "spares: {} is too many for the {} hosts of the job. Use a smaller number, or more hosts.".format(
                params["spares"], len(params["hosts"])
            )
        )


def check_min_hosts(params: dict[str, Any]) -> None:
    """Raise RefusalError if the job has fewer hosts than it needs. Spares do not count."""
    count = len(params["hosts"]) - params["spares"]
    if params["min_hosts"] > count:
        besides = " that are not spares" if params["spares"] else ""
        raise RefusalError(
            "min_hosts: {} is more than the {} hosts of the job{}. Use a smaller number, or 0 for all hosts.".format(
                params["min_hosts"], count, besides
            )
        )
