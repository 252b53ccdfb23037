# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Gives new hosts the parameters of the jobs that wait in a queue, so that waiting jobs survive the replacement of their hosts.

The parameters come from another host of the job, through the controller. Each host of the job gets the addresses of the new hosts.
"""

from __future__ import annotations

import base64
import contextlib
import grp
import json
import os
import pwd
from typing import Any, Iterable, Iterator, Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ...._files import replace_file
from ...._job import naming
from ...._job.definition import job_parameters
from ...._job.definition.refusal import EXPECTED, RefusalError
from ...._launchers.base import LaunchError
from ...._queues.base import WAITING, QueueError
from ...._queues.registry import QUEUES
from ..units import host
from . import hold, queries, submission

# The parameters that differ between the hosts of a job.
OWN = ("instance_id", "capacity_end")

# The parameters with which a host could make another host start a job with more rights than a sandboxed job of the default user, or make
# root create a directory there, and the values that do neither. For other values, two hosts must return the same value. A directory that
# exists needs a second host, too, because another host may change links in its path later.
HARMLESS = {"user": (naming.DEFAULT_USER,), "sandbox": (True,), "sync_directory": (None, ""), "metrics_directory": (None, "")}

# The groups whose members can use sudo by default, and the first ID that useradd gives to users that are not system users.
ADMINISTRATORS, FIRST_ID = ("root", "sudo", "wheel", "admin"), 1000

ERRORS = (*EXPECTED, LaunchError)


def waiting(module: AnsibleModule) -> list[str]:
    """Return the names of the training jobs that wait in the queue. Raises QueueError.

    In check mode, a queue that does not respond contains no jobs, because check mode neither installs nor configures it.
    """
    found = QUEUES[module.params["queue"]]
    try:
        entries = queries.entries(module.run_command, found)
    except QueueError:
        if module.check_mode:
            return []
        raise
    return sorted(job for job, entry in entries.items() if entry.stage == WAITING)


def held(queue_name: str, names: Iterable[str]) -> list[hold.QueuedJob]:
    """Return the jobs with these names whose parameters this host has. Raises ValueError if a name is not valid."""
    for name in names:
        naming.check_name(name)
    found = (hold.read_job(hold.directory(name)) for name in names)
    return [job for job in found if job and job.queue == queue_name]


def examine(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the jobs whose parameters this host has, with the jobs' hosts, and a description of this host.

    Raises one of ERRORS.
    """
    jobs = [
        {"name": job.name, "hosts": [each["name"] for each in job.parameters["hosts"]]} for job in held(params["queue"], params["names"])
    ]
    metadata = host.read_metadata(params["metadata_directory"], "")
    return {"jobs": jobs, "host": host.describe_host(metadata, None, bool(params["efa"]))._asdict()}


def read(params: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the parameters of jobs as text that `read_document` accepts. Raises ValueError if a name is not valid."""
    found = []
    for job in held(params["queue"], params["names"]):
        shared = {key: value for key, value in job.parameters.items() if key not in OWN}
        found.append({"name": job.name, "document": base64.b64encode(json.dumps(shared).encode()).decode()})
    return found


def read_document(name: str, queue_name: str, document: str) -> dict[str, Any]:
    """Return the parameters of a job from the text that another host has returned. Raises one of ERRORS.

    The other host is not trusted to return valid parameters.
    """
    try:
        found = json.loads(base64.b64decode(document, validate=True))
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"the parameters are not valid: {error}") from error
    if not isinstance(found, dict) or set(found) != set(submission.KEPT) - set(OWN):
        raise RefusalError("the parameters are not those of a job in a queue")
    given = {**{key: value for key, value in found.items() if value is not None}, "state": "queued", "queue": queue_name}
    validation = ArgumentSpecValidator(**job_parameters.SPECIFICATION).validate(given)
    if validation.error_messages:
        raise RefusalError("; ".join(validation.error_messages))
    valid = validation.validated_parameters
    job_parameters.check(valid)
    if valid["name"] != name:
        raise RefusalError("the parameters are those of job {!r}".format(valid["name"]))
    with contextlib.suppress(KeyError):  # the run that starts the job creates a missing account
        check_account(pwd.getpwnam(valid["user"]))
    return {key: valid[key] for key in submission.KEPT}


def check_account(account: pwd.struct_passwd) -> None:
    """Raise RefusalError if the account is a system account or can use sudo. The default user of jobs is accepted."""
    if account.pw_name == naming.DEFAULT_USER:
        return
    if account.pw_uid < FIRST_ID:
        raise RefusalError(f"the job would run as the system user {account.pw_name!r}")
    for name in ADMINISTRATORS:
        with contextlib.suppress(KeyError):
            group = grp.getgrnam(name)
            if account.pw_name in group.gr_mem or account.pw_gid == group.gr_gid:
                raise RefusalError(f"the job would run as user {account.pw_name!r}, who belongs to the group {name!r}")


def check_confirmed(found: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> None:
    """Raise RefusalError if a value of a parameter in HARMLESS is neither harmless nor the value that another host has returned."""
    for key, harmless in HARMLESS.items():
        if found[key] not in harmless and all(other[key] != found[key] for other in others):
            raise RefusalError(f"{key}: no second host of the job has confirmed the value {found[key]!r}")


def described(former: Sequence[Mapping[str, Any]], current: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the descriptions of a job's hosts with the current values. A job continues to use only the GPUs that it was submitted for."""
    known = {each["name"]: each for each in current}
    found = []
    for each in former:
        now = known.get(each["name"], each)
        found.append({**now, "gpus": [gpu for gpu in each["gpus"] if gpu in now["gpus"]]})
    return found


def first_valid(module: AnsibleModule, name: str) -> dict[str, Any] | None:
    """Return the first valid parameters of the job that another host has returned, or None. Warn about other parameters."""
    own, valid = {key: module.params[key] for key in OWN}, []
    for each in module.params["parameters"]:
        if each["name"] == name:
            with warnings(module, name):
                valid.append(read_document(name, module.params["queue"], each["document"]))
    for index, found in enumerate(valid):
        with warnings(module, name):
            check_confirmed(found, [*valid[:index], *valid[index + 1 :]])
            return {**found, **own}
    return None


@contextlib.contextmanager
def warnings(module: AnsibleModule, name: str) -> Iterator[None]:
    try:
        yield
    except ERRORS as error:
        module.warn(f"parameters: the parameters of job {name} from another host were ignored: {error}. Check the cluster's hosts.")


def ensure(module: AnsibleModule) -> list[str]:
    """Keep the current parameters of the named jobs on this host. Return the names of the jobs whose parameters change.

    A job's own parameters on this host take precedence. Raises OSError or ValueError.
    """
    params = module.params
    own = {job.name: job.parameters for job in held(params["queue"], params["names"])}
    changed = []
    for name in params["names"]:
        before = own.get(name)
        found = before or first_valid(module, name)
        after = found and {**found, "hosts": described(found["hosts"], params["hosts"])}
        if not after or after == before:
            continue
        changed.append(name)
        if not module.check_mode:
            document = {"queue": params["queue"], "parameters": after}
            if before:
                replace_file(os.path.join(hold.directory(name), hold.PARAMETERS), json.dumps(document).encode())
            else:
                submission.keep(name, document)
    return changed
