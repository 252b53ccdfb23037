"""The user data of EMR nodes, and the tasks of the instance controller on each node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moto.emr.models import emr_backends

from ..context import CLOUD
from . import instance_controller
from .nodes import CORE, MASTER, TASK, Node

if TYPE_CHECKING:
    from .clusters import Cluster

PREFIX = "/_emr/"
PROGRAM, UNIT = "/usr/lib/instance-controller/instance-controller", "/etc/systemd/system/instance-controller.service"
SERVICE = f"""[Unit]
Description=Instance controller of EMR

[Service]
ExecStart=/usr/bin/python3 {PROGRAM}
"""
WORDS = {MASTER: "Master", CORE: "Core", TASK: "Task"}
LONGEST_REPORT = 10_000
Answer = tuple[HTTPStatus, dict[str, Any]]


def user_data(public_key: str | None) -> str:
    """Return the user data of nodes: the user `hadoop`, and the instance controller, which starts at the first boot."""
    files = [(PROGRAM, Path(instance_controller.__file__).read_text()), (UNIT, SERVICE)]
    user = {
        "name": instance_controller.USER,
        "shell": "/bin/bash",
        "lock_passwd": True,
        "sudo": "ALL=(ALL) NOPASSWD:ALL",
        "ssh_authorized_keys": [public_key.strip()] if public_key else [],
    }
    configuration = {
        "users": ["default", user],
        "write_files": [{"path": path, "content": content, "permissions": "0644"} for path, content in files],
        "runcmd": [["systemctl", "start", "--no-block", Path(UNIT).name]],
    }
    return "#cloud-config\n" + json.dumps(configuration)


class NodeTasks:
    """A WSGI application on the socket of one host that returns the task of the instance controller and records the reported outcome."""

    def __init__(self, instance_id: str) -> None:
        self._instance_id = instance_id

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with CLOUD.lock:
            status, content = self._answer(environ)
        body = json.dumps(content).encode()
        start(f"{status.value} {status.phrase}", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    def _answer(self, environ: dict[str, Any]) -> Answer:
        found = _find(self._instance_id)
        if found is None:
            return HTTPStatus.NOT_FOUND, {}
        cluster, node = found
        if environ["REQUEST_METHOD"] == "GET":
            return (HTTPStatus.OK, task(cluster, node)) if cluster.master else (HTTPStatus.NOT_FOUND, {})
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length > LONGEST_REPORT:
            return HTTPStatus.BAD_REQUEST, {}
        node.report = json.loads(environ["wsgi.input"].read(length))
        CLOUD.wake.set()
        return HTTPStatus.OK, {}


def _find(instance_id: str) -> tuple[Cluster, Node] | None:
    """Return the live node that runs on this instance, and the cluster of the node."""
    for _account, _region, backend in list(emr_backends.iter_backends()):
        for cluster in backend.clusters.values():
            for node in cluster.nodes:
                if node.instance.id == instance_id and node.is_live:
                    return cluster, node
    return None


def task(cluster: Cluster, node: Node) -> dict[str, Any]:
    """Return the task of a node's instance controller, including the contents of the files that describe the node and its cluster."""
    described = cluster.describe()
    log_uri = described["LogUri"]
    return {
        "region": cluster.backend.region_name,
        "log_uri": log_uri and f"{log_uri}{cluster.id}/node/{node.instance.id}/",
        "bootstrap_actions": [
            {"path": each["ScriptBootstrapAction"]["Path"], "args": each["ScriptBootstrapAction"].get("Args", [])}
            for each in cluster.request.get("BootstrapActions", [])
        ],
        "applications": sorted({"hadoop", *(each["Name"].lower() for each in described["Applications"])}),
        "instance": _describe_node(node),
        "job-flow": _describe_cluster(cluster),
    }


def _describe_node(node: Node) -> dict[str, Any]:
    """Return the content of /mnt/var/lib/info/instance.json."""
    role = node.group.role
    return {
        "isMaster": role == MASTER,
        "isRunningNameNode": role == MASTER,
        "isRunningDataNode": role == CORE,
        "isRunningJobTracker": role == MASTER,
        "isRunningTaskTracker": role != MASTER,
        "instanceGroupId": node.group.id,
        "instanceRole": WORDS[role],
    }


def _describe_cluster(cluster: Cluster) -> dict[str, Any]:
    """Return the content of /mnt/var/lib/info/job-flow.json. The cluster must have a master."""
    master: Any = cluster.master
    groups = {group.role: group for group in cluster.groups}
    workers = groups.get(CORE)
    return {
        "jobFlowId": cluster.id,
        "jobFlowCreationInstant": int(cluster.created.timestamp() * 1000),
        "instanceCount": sum(group.requested for group in cluster.groups),
        "masterInstanceId": master.instance.id,
        "masterPrivateDnsName": master.addresses["PrivateDnsName"],
        "masterInstanceType": groups[MASTER].instance_type,
        "slaveInstanceType": workers.instance_type if workers else None,
        "instanceGroups": [
            {
                "instanceGroupId": group.id,
                "instanceGroupName": group.name,
                "instanceRole": WORDS[group.role],
                "marketType": "OnDemand",
                "instanceType": group.instance_type,
                "requestedInstanceCount": group.requested,
            }
            for group in cluster.groups
        ],
    }


def failure_message(node: Node, failure: dict[str, Any]) -> str:
    """Return EMR's message about a bootstrap action that failed."""
    action, name = failure["action"], node.instance.id
    if failure["reason"] == "download":
        return f"{WORDS[node.group.role]} instance ({name}) failed attempting to download bootstrap action {action} file from S3"
    where = f"On the master instance ({name})" if node.group.role == MASTER else f"On 1 slave instance ({name})"
    what = "timed out executing" if failure["reason"] == "timeout" else "returned a non-zero return code"
    return f"{where}, bootstrap action {action} {what}"
