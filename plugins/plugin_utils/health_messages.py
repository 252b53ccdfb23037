# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes what health checks have found on each node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..module_utils._common.node_health.check import SEVERITIES, HealthFinding, is_unhealthy, shortened
from ..module_utils._job.exclusions import PERSON, RECOVERY
from ..module_utils._words import form
from ._output.hosts import host_names
from .suggested_commands import playbook_command, run_options

# Maximum number of findings per node.
FINDINGS_LIMIT = 100


def findings_of(result: Mapping[str, Any]) -> list[HealthFinding]:
    """Return the findings in a result of the module.

    The number and length of the findings are limited, because a node can forge the result.
    """
    found = (result.get("findings") or [])[:FINDINGS_LIMIT]
    return [HealthFinding(each["check"][:64], each["severity"], shortened(each["message"])) for each in found]


def report(findings: Mapping[str, Sequence[HealthFinding]], unreachable: Collection[str] = (), jobs: str = "") -> str:
    """Return the findings on all nodes as lines, worst first. If several nodes have the same finding, the finding is shown once.

    `unreachable` contains the names of nodes that could not be checked, and `jobs` is a sentence about the jobs that run there.
    """
    nodes: dict[HealthFinding, list[str]] = {}
    for name, own in findings.items():
        for finding in dict.fromkeys(own):
            nodes.setdefault(finding, []).append(name)
    worst_first = sorted(nodes, key=lambda finding: -SEVERITIES.index(finding.severity))
    lines = [
        f"{finding.severity:8} {host_names(nodes[finding], {*findings, *unreachable})}: {finding.check}: {finding.message}"
        for finding in worst_first
    ]
    if unreachable:
        lines.append(f"{', '.join(unreachable)}: not checked, because of the error above. {jobs}".rstrip())
    healthy, total = sum(not worst(own) for own in findings.values()), len(findings) + len(unreachable)
    everybody = form(total, "The node is healthy.", f"All {total} nodes are healthy.")
    return "\n".join([*lines, everybody if healthy == total else f"{healthy} of {total} nodes are healthy."])


def exclusion_lines(exclusions: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return a line for each exclusion, and how to end the exclusions. `exclusions` contains results of the module, keyed by node."""
    lines = [f"excluded {name}: {shortened(str(each['text']))}" for name, own in exclusions.items() for each in own[:FINDINGS_LIMIT]]
    by = {name: {str(each["by"]) for each in own} for name, own in exclusions.items() if own}
    persons = ",".join(name for name, makers in by.items() if makers & {PERSON, RECOVERY})
    if persons:
        lines.append(f"To let jobs use {persons} again, run: {playbook_command('health')} -e node_health_include={persons}")
    checks = ", ".join(name for name, makers in by.items() if makers - {PERSON, RECOVERY})
    if checks:
        lines.append(
            f"Jobs use {checks} again when the check that has excluded the node passes. After an Xid error, this requires a reboot."
        )
    return lines


def worst(findings: Iterable[HealthFinding]) -> str:
    """Return the worst severity that makes a node unhealthy, or an empty string for a healthy node."""
    found = [finding.severity for finding in findings if is_unhealthy(finding.severity)]
    return max(found, key=SEVERITIES.index, default="")


def jobs_on_nodes(jobs: Sequence[Mapping[str, str]] | None) -> str:
    """Return a sentence about the jobs that run on unreachable nodes. `jobs` is the result of the filter `jobs_on`, or None if unknown."""
    if jobs is None:
        return "It is not known which jobs run there."
    return " and ".join(f"Job {job['words']}" for job in jobs) + "." if jobs else "No job runs there."


def advice(
    findings: Mapping[str, Sequence[HealthFinding]],
    nodes: Mapping[str, Mapping[str, Any]],
    region: str,
    unreachable: Collection[str] = (),
) -> str:
    """Return what to do about the unhealthy and the unreachable nodes, or an empty string if there are none.

    `nodes` contains the nodes in the inventory, keyed by name.
    """
    by_severity = {severity: [name for name, own in findings.items() if worst(own) == severity] for severity in SEVERITIES}
    lines = [_replacement(by_severity["replace"], nodes, region)] if by_severity["replace"] else []
    if by_severity["reboot"]:
        names = by_severity["reboot"]
        lines.append(f"To reboot {', '.join(names)}, run: ansible {run_options()}{','.join(names)} --become -m ansible.builtin.reboot")
    if by_severity["restart"]:
        lines.append(f"Correct the cause on {', '.join(by_severity['restart'])}, and then restart the jobs there.")
    if unreachable:
        them = form(len(unreachable), "it", "them")
        lines.append(
            f"A job can run on an unreachable node. If you cannot reach {', '.join(unreachable)} again, replace {them}. "
            + _replacement(list(unreachable), nodes, region)
        )
    return "\n".join(lines)


def _replacement(names: Sequence[str], nodes: Mapping[str, Mapping[str, Any]], region: str) -> str:
    ids = [str(nodes[name]["instance_id"]) for name in names if name in nodes]
    if not ids:  # hosts in a hand-written inventory
        return f"Replace {', '.join(names)}, or run jobs without {form(len(names), 'it', 'them')} (training_job_hosts)."
    return (
        f"To replace {', '.join(names)}, run the following commands. Data on the disks of terminated nodes is lost.\n"
        f"  aws ec2 terminate-instances --region {region} --instance-ids {' '.join(ids)}\n"
        f"  {playbook_command('provision')}\n  {playbook_command('configure')}"
    )
