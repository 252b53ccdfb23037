# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""YARN: the requests to the ResourceManager's REST API that submit, show and cancel jobs.

YARN cannot start programs as root. Therefore, a job is an application of YARN's distributed shell. Its containers only keep the hosts
allocated: each container lives as long as the unit that holds its host (see reservation.py in `_hosts/training_job`).

Sources: Hadoop's pages "ResourceManager REST API's" and "YARN: The REST APIs"; ApplicationMaster.java of the distributed shell;
ContainerLaunch.java of the NodeManager, which runs commands as `bash -c "COMMAND"`; WebServices.java, which lists containers.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import Any, Callable, Mapping, Sequence

from .._job.naming import JOB_NAME
from .._text import clean_line
from .base import (
    ALLOCATED,
    APPLICATION_ID,
    CANCELLED,
    ENDED,
    HOSTS,
    REASON_LIMIT,
    WAITING,
    Command,
    Queue,
    QueueEntry,
    QueueError,
    QueueRequest,
    Reservations,
    unit_name,
)

API = "/ws/v1/cluster"

# Matches the ID of a container: the numbers of the application and the attempt, and the container's own number.
CONTAINER_ID = r"container_(?:e[0-9]{1,9}_)?[0-9]{1,18}_[0-9]{1,18}_[0-9]{1,9}_[0-9]{1,18}"

# The type and the user of applications that hold hosts for training jobs.
TYPE, OWNER = "training_job", "deeplearning"

# Matches the number of hosts in the tags of an application.
HOST_COUNT = re.compile(r"(?:^|,)hosts=([1-9][0-9]{0,5})(?:,|$)")

# A function, created by `is_proven` or `has_id`, that returns whether an application belongs to one of the given jobs.
Filter = Callable[[Mapping[str, Any]], bool]

MASTER = "org.apache.hadoop.yarn.applications.distributedshell.ApplicationMaster"
# The resources of the ApplicationMaster: memory and heap in MB, and cores.
#
# A container leaves these resources free, because the ApplicationMaster runs on one of the hosts. 1024 MB is YARN's default minimum.
MASTER_MEMORY, MASTER_HEAP, MASTER_CORES = 1024, 512, 1

# The variable with the application's ID in the environment of the unit that holds a host.
IDENTITY = "DEEPLEARNING_QUEUE_ID"

# The states of an application that has ended. All other states precede these states.
FINAL = {"FINISHED": ENDED, "FAILED": ENDED, "KILLED": CANCELLED}


def read_nodes(output: str) -> list[dict[str, Any]]:
    """Return the nodes on which containers can start."""
    return [node for node in entries(output, "nodes", "node") if node.get("state") == "RUNNING"]


def entries(output: str, wrapper: str, name: str) -> list[dict[str, Any]]:
    """Return the objects in a response.

    YARN may return the object itself instead of a list with one object, and null instead of an empty list. Raises QueueError.
    """
    try:
        document = json.loads(output)
    except (ValueError, RecursionError) as error:
        raise QueueError(f"YARN's response is not valid: {str(error)[:REASON_LIMIT]}. Check the version of YARN.") from error
    found = document.get(wrapper, document) if isinstance(document, dict) else None
    each = (found.get(name) if isinstance(found, dict) else None) or []
    return [item for item in (each if isinstance(each, list) else [each]) if isinstance(item, dict)]


def read_hosts(output: str) -> list[str]:
    return [str(node.get("nodeHostName")) for node in read_nodes(output)]


def submit(request: QueueRequest) -> Command:
    """Return the request that submits a job. Raises QueueError if YARN could not start the job on entire hosts."""
    nodes, applications, new = request.answers
    if request.excluded:
        raise QueueError(
            f"queue: YARN chooses from all of its hosts, but the job excludes {', '.join(request.excluded)}."
            " Add these hosts to training_job_hosts, and set training_job_host_count to the number of hosts that the job needs."
        )
    waiting = [name for name, entry in read_entries(applications, "").items() if entry.stage == WAITING]
    if waiting:
        raise QueueError(
            f"queue: job {waiting[0]} already waits in YARN. Two jobs that wait for entire hosts could wait for each other forever."
            f" Submit this job when {waiting[0]} has started, or stop {waiting[0]}."
        )
    try:
        application = json.loads(new)
        identity = str(application["application-id"])
        if not re.fullmatch(APPLICATION_ID, identity):
            raise ValueError(f"application-id: {identity[:REASON_LIMIT]!r}")
        memory, cores = container_size(read_nodes(nodes), application["maximum-resource-capability"])
        return ["POST", f"{API}/apps", json.dumps(submission(request, identity, memory, cores))]
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise QueueError(f"queue: YARN's response is not valid: {repr(error)[:REASON_LIMIT]}. Check the version of YARN.") from error


def container_size(nodes: Sequence[Mapping[str, Any]], maximum: Mapping[str, Any]) -> tuple[int, int]:
    """Return the size of a container that reserves an entire host: its memory in MB and its number of cores. Raises QueueError."""
    totals = [int(node["usedMemoryMB"]) + int(node["availMemoryMB"]) for node in nodes]
    memory = min(totals) - MASTER_MEMORY
    if memory <= 0 or 2 * memory <= max(totals):
        raise QueueError(
            f"queue: YARN's hosts have between {min(totals)} MB and {max(totals)} MB of memory, so no container can reserve an entire host."
            f" Use hosts of the same instance type, with more than {2 * MASTER_MEMORY} MB of memory for YARN."
        )
    if memory > int(maximum["memory"]):
        raise QueueError(
            f"queue: an entire host needs a container of {memory} MB, but YARN's containers have at most {maximum['memory']} MB."
            " Increase yarn.scheduler.maximum-allocation-mb."
        )
    cores = min(int(node["usedVirtualCores"]) + int(node["availableVirtualCores"]) for node in nodes) - MASTER_CORES
    return memory, max(1, min(cores, int(maximum["vCores"])))


def submission(request: QueueRequest, identity: str, memory: int, cores: int) -> dict[str, Any]:
    return {
        "application-id": identity,
        "application-name": request.job,
        "application-type": TYPE,
        "application-tags": {"tag": [f"hosts={request.host_count}", proof(request.nonce, identity, request.job, request.host_count)]},
        "am-container-spec": {"commands": {"command": master_command(request.job, request.host_count, memory, cores)}},
        "resource": {"memory": MASTER_MEMORY, "vCores": MASTER_CORES},
        "keep-containers-across-application-attempts": True,
    }


def proof(nonce: str, identity: str, job: str, count: int) -> str:
    """Return the tag of a job's application, which depends on the nonce, the application's ID, the job's name and number of hosts.

    Every user can read the tag, but only root on the job's hosts can read the nonce. Therefore, no other user can create such a tag for an
    ID that YARN assigns to another application. YARN limits tags to 100 ASCII characters, and converts them to lowercase.
    """
    digest = hmac.new(nonce.encode(), f"{identity} {job} {count}".encode(), hashlib.sha256).hexdigest()
    return f"job={digest}"


def is_proven(nonces: Mapping[str, str]) -> Filter:
    """Return a function that returns whether an application was submitted for one of these jobs. `nonces` contains the jobs' nonces."""

    def check(application: Mapping[str, Any]) -> bool:
        tags, job = str(application.get("applicationTags")), str(application.get("name"))
        nonce, count = nonces.get(job), HOST_COUNT.search(tags)
        expected = proof(nonce, str(application.get("id")), job, int(count[1])) if nonce and count else ""
        return any(expected and hmac.compare_digest(tag.encode(errors="replace"), expected.encode()) for tag in tags.split(","))

    return check


def has_id(ids: Mapping[str, str]) -> Filter:
    """Return a function that returns whether an application has the ID that was recorded for its job."""
    return lambda application: application.get("id") is not None and application.get("id") == ids.get(str(application.get("name")))


def master_command(job: str, count: int, memory: int, cores: int) -> str:
    """Return the command of the ApplicationMaster.

    The ApplicationMaster reads the containers' command from a file in the format of Java's DataInput.readUTF: the length in two bytes,
    followed by the text. YARN runs this command between double quotes, and replaces {{NAME}} and <LOG_DIR>.
    """
    text = container_command(job)
    high, low = divmod(len(text), 256)
    java = f"{{{{JAVA_HOME}}}}/bin/java -Xmx{MASTER_HEAP}m -cp '$({{{{HADOOP_YARN_HOME}}}}/bin/yarn classpath)' {MASTER}"
    options = f"-num_containers {count} -container_memory {memory} -container_vcores {cores} -priority 0"
    logs = "1><LOG_DIR>/AppMaster.stdout 2><LOG_DIR>/AppMaster.stderr"
    return f"printf '\\{high:03o}\\{low:03o}{text}' >shellCommands && exec {java} {options} {logs}"


def container_command(job: str) -> str:
    """Return the command of a container, which lives as long as the unit that holds its host, and fails if there is no such unit."""
    is_held = f"systemctl is-active --quiet {unit_name(job)}"
    return f"{is_held} && while {is_held}; do sleep 2; done"


def read_entries(own: str, waiting: str, is_own: Filter | None = None) -> dict[str, QueueEntry]:
    """Return the training jobs in the queue, keyed by name, from the responses to the two requests that show applications.

    Every user of YARN can submit applications that look like training jobs, so only applications for which `is_own` returns true are
    returned. Without `is_own`, all of them are returned. If several applications have the same name, only the newest is returned. Raises
    QueueError.
    """
    order = sorted(number(str(each.get("id"))) for each in (entries(waiting, "apps", "app") if waiting else []))
    found: dict[str, QueueEntry] = {}
    for application in filter(is_own, entries(own, "apps", "app")):
        identity, job = str(application.get("id")), str(application.get("name"))
        tag = HOST_COUNT.search(str(application.get("applicationTags")))
        if (application.get("applicationType"), application.get("user")) != (TYPE, OWNER) or not tag or not JOB_NAME.fullmatch(job):
            continue
        if not re.fullmatch(APPLICATION_ID, identity) or (job in found and number(found[job].id) > number(identity)):
            continue
        reached = stage(application, int(tag[1]))
        before = order.index(number(identity)) if number(identity) in order else 0
        found[job] = QueueEntry(identity, reached, reason(application, int(tag[1]))[:REASON_LIMIT] if reached == WAITING else "", before)
    return found


def number(identity: str) -> tuple[int, ...]:
    """Return the numbers in an application's ID. Applications are sorted by these numbers."""
    return tuple(int(each) for each in identity.split("_")[1:] if each.isdigit())


def held(application: Mapping[str, Any]) -> int:
    """Return the number of the application's containers, excluding the ApplicationMaster's container."""
    return max(0, integer(application.get("runningContainers")) - 1)


def integer(value: Any) -> int:
    """Return a number in a response, or 0 if it is missing or not valid."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0


def stage(application: Mapping[str, Any], count: int) -> str:
    state = str(application.get("state"))
    return FINAL.get(state) or (ALLOCATED if state == "RUNNING" and held(application) >= count else WAITING)


def reason(application: Mapping[str, Any], count: int) -> str:
    if application.get("state") == "RUNNING":
        return f"it has {held(application)} of {count} hosts"
    return diagnostics(application) or "its ApplicationMaster has not started"


def diagnostics(application: Mapping[str, Any]) -> str:
    return clean_line(str(application.get("diagnostics") or "")[: 4 * REASON_LIMIT]).strip()[:REASON_LIMIT]


def cancel(ids: Sequence[str]) -> Command:
    return ["PUT", f"{API}/apps/{ids[0]}/state", json.dumps({"state": "KILLED"})]


def show(identity: str) -> Command:
    return ["GET", f"{API}/apps/{identity}"]


def read_application(output: str) -> dict[str, Any]:
    return next(iter(entries(output, "", "app")), {})


def has_progress(application: Mapping[str, Any]) -> bool:
    """Return whether one of the containers of a running application has ended. An application that has ended shows full progress."""
    progress = application.get("progress")
    return isinstance(progress, (int, float)) and progress > 0 and str(application.get("state")) not in FINAL


def final_status(application: Mapping[str, Any]) -> str:
    """Return how an application ended, as one short line."""
    return clean_line(str(application.get("finalStatus"))[:REASON_LIMIT])


def show_attempts(identity: str) -> Command:
    return ["GET", f"{API}/apps/{identity}/appattempts"]


def show_containers(identity: str, attempts: str) -> Command:
    last = max((integer(attempt.get("id")) or 1 for attempt in entries(attempts, "appAttempts", "appAttempt")), default=1)
    return ["GET", f"{API}/apps/{identity}/appattempts/{identity.replace('application', 'appattempt')}_{last:06d}/containers"]


def read_containers(output: str) -> list[str]:
    """Return the names of the nodes on which containers are running, ordered by the containers' numbers. Raises QueueError.

    The container with the number 1 belongs to the ApplicationMaster, and is left out.
    """
    rows = [(str(each.get("containerId")), str(each.get("assignedNodeId"))) for each in entries(output, "containers", "container")]
    found = [(number(identity), node.partition(":")[0]) for identity, node in rows if re.fullmatch(CONTAINER_ID, identity)]
    return [node for place, node in sorted(found) if place[-1] != 1]


def allocation(environment: Mapping[str, str]) -> Command:
    """Return the command that shows the names of the allocated hosts, one per line."""
    return ["printf", r"%s\n", *environment.get(HOSTS, "").split(":")]


def identity(environment: Mapping[str, str]) -> str:
    return environment.get(IDENTITY, "")


SHOW_NODES = ["GET", f"{API}/nodes"]
SHOW_OWN = ["GET", f"{API}/apps?applicationTypes={TYPE}"]

QUEUE = Queue(
    title="YARN",
    setup=(
        "Run the job on nodes of an EMR cluster on which YARN starts containers (training_job_hosts: workers; `yarn node -list -all` shows"
        " their states)"
    ),
    programs=("printf", "yarn"),
    service="hadoop-yarn-nodemanager.service",
    show_host=lambda _name: SHOW_NODES,
    is_open=lambda output: bool(read_nodes(output)),
    show_hosts=SHOW_NODES,
    submit=submit,
    show_own=SHOW_OWN,
    show_waiting=["GET", f"{API}/apps?states=ACCEPTED"],
    read_entries=read_entries,
    cancel=cancel,
    allocation=allocation,
    identity=identity,
    reservations=Reservations(is_proven, has_id, questions=(SHOW_NODES, SHOW_OWN, ["POST", f"{API}/apps/new-application"])),
    read_hosts=read_hosts,
)
