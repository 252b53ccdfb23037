"""A stand-in for YARN: the ResourceManager's REST API, a scheduler, and nodes that execute the containers' commands.

The following details match Hadoop's page "ResourceManager REST API's" and Hadoop's sources: states, IDs, RemoteException, users in the
query, lists that are objects if they contain one object, and commands that NodeManagers run as `bash -c "COMMAND"`. The scheduler considers
only memory. The distributed shell's ApplicationMaster is the program `MASTER`, which the command runs in place of Java.

As a program on a host, the stand-in reads its nodes from a JSON file, and runs containers as another user over SSH.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

FINAL = ("FINISHED", "FAILED", "KILLED")
TICK = 0.1

MASTER = '''#!/usr/bin/python3
"""Does what the distributed shell's ApplicationMaster does. The real one talks to the ResourceManager in a different protocol."""
import argparse, json, os, sys, time, urllib.request

assert sys.argv[1:3] == ["-Xmx512m", "-cp"], sys.argv
assert "*" in sys.argv[3] and sys.argv[4] == "org.apache.hadoop.yarn.applications.distributedshell.ApplicationMaster", sys.argv
options = argparse.ArgumentParser(allow_abbrev=False)
for name in ("num_containers", "container_memory", "container_vcores", "priority"):
    options.add_argument("-" + name, type=int, required=True)
found = vars(options.parse_args(sys.argv[5:]))
with open("shellCommands", "rb") as file:
    content = file.read()
size = int.from_bytes(content[:2], "big")
assert len(content) == size + 2, content

def send(body):
    url = os.environ["STANDIN"] + "/standin/" + os.environ["CONTAINER_ID"]
    with urllib.request.urlopen(url, json.dumps(body).encode()) as response:
        return json.load(response)

send({**found, "command": content[2:].decode()})
print("registered", flush=True)
while True:
    answer = send({})
    if answer["done"]:
        sys.exit(0 if answer["success"] else 2)
    time.sleep(0.1)
'''


@dataclasses.dataclass
class Node:
    """The name and resources of a node, and functions that start and kill a container on it."""

    name: str
    memory: int
    cores: int
    start: Callable[[str, str, dict[str, str]], subprocess.Popen[bytes]]
    kill: Callable[[str, subprocess.Popen[bytes]], None]
    state: str = "RUNNING"


@dataclasses.dataclass
class Container:
    """A container. Container number 1 runs the ApplicationMaster."""

    identity: str
    node: Node
    memory: int
    process: subprocess.Popen[bytes]
    status: int | None = None

    @property
    def is_master(self) -> bool:
        return self.identity.endswith("_000001")


@dataclasses.dataclass
class Application:
    """An application: the request that submitted it, its containers, and its outcome."""

    identity: str
    user: str
    context: dict[str, Any]
    state: str = "ACCEPTED"
    final: str = "UNDEFINED"
    diagnostics: str = ""
    asked: dict[str, Any] | None = None
    containers: list[Container] = dataclasses.field(default_factory=list)

    @property
    def live(self) -> list[Container]:
        return [each for each in self.containers if each.status is None]

    @property
    def completed(self) -> list[Container]:
        return [each for each in self.containers if each.status is not None and not each.is_master]

    def shown(self) -> dict[str, Any]:
        count = int((self.asked or {}).get("num_containers", 1))
        return {
            "id": self.identity,
            "user": self.user,
            "name": self.context["application-name"],
            "applicationType": self.context["application-type"],
            "applicationTags": ",".join(self.context.get("application-tags", {}).get("tag", [])),
            "state": self.state,
            "finalStatus": self.final,
            "diagnostics": self.diagnostics,
            "progress": 100.0 * len(self.completed) / count,
            "runningContainers": len(self.live) if self.state not in FINAL else -1,
        }


class RemoteError(Exception):
    """A response of the API that reports an error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class YarnCluster:
    """The ResourceManager and its nodes."""

    def __init__(self, nodes: list[Node], maximum: int | None = None, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.nodes, self.maximum = nodes, maximum or max(node.memory for node in nodes)
        self.timestamp, self.issued = int(time.time() * 1000), 0
        self.applications: dict[str, Application] = {}
        self.refused_users: set[str] = set()
        self.lock = threading.RLock()
        self.server = ThreadingHTTPServer(address, type("Handler", (Handler,), {"cluster": self}))
        self.url = f"http://{address[0]}:{self.server.server_address[1]}"
        self.closed = threading.Event()
        self.threads = [threading.Thread(target=self.server.serve_forever, args=(0.05,)), threading.Thread(target=self.schedule)]

    def __enter__(self) -> YarnCluster:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self.server.shutdown()
        for thread in self.threads:
            thread.join()
        self.server.server_close()
        with self.lock:
            for application in self.applications.values():
                self.end(application, "KILLED", "KILLED", "the stand-in ended")

    def schedule(self) -> None:
        while not self.closed.wait(TICK):
            with self.lock:
                for application in self.applications.values():
                    if application.state not in FINAL:
                        self.advance(application)

    def free(self, node: Node) -> int:
        used = sum(each.memory for application in self.applications.values() for each in application.live if each.node is node)
        return node.memory - used if node.state == "RUNNING" else 0

    def advance(self, application: Application) -> None:
        """Start containers for which there is space, and record which containers and applications have ended."""
        for each in application.live:
            each.status = each.process.poll()
        if not application.containers:
            memory = int(application.context["resource"]["memory"])
            self.allocate(application, memory, str(application.context["am-container-spec"]["commands"]["command"]))
        elif application.containers[0].status is not None:
            master = application.containers[0]
            is_good = application.asked is not None and not master.status
            text = "" if is_good else f"AM Container for {application.identity} exited with exitCode: {master.status}"
            state = "FINISHED" if application.asked else "FAILED"
            self.end(application, state, "SUCCEEDED" if is_good else "FAILED", text)
        elif application.asked and len(application.containers) - 1 < application.asked["num_containers"]:
            command = application.asked["command"] + "  1><LOG_DIR>/stdout 2><LOG_DIR>/stderr "
            self.allocate(application, application.asked["container_memory"], command)

    def allocate(self, application: Application, memory: int, command: str) -> None:
        node = max(self.nodes, key=self.free)
        if self.free(node) < memory:
            return
        number = f"{application.identity.replace('application', 'container')}_01_{len(application.containers) + 1:06d}"
        environment = {"CONTAINER_ID": number, "NM_HOST": node.name, "USER": application.user, "STANDIN": self.url}
        application.containers.append(Container(number, node, memory, node.start(number, command, environment)))

    def end(self, application: Application, state: str, final: str, diagnostics: str) -> None:
        if application.state in FINAL:
            return
        application.state, application.final, application.diagnostics = state, final, diagnostics
        for each in application.live:
            each.node.kill(each.identity, each.process)
            each.status = -105

    def kill(self, identity: str, user: str = "somebody") -> None:
        with self.lock:
            self.end(self.applications[identity], "KILLED", "KILLED", f"Application {identity} was killed by user {user} at 127.0.0.1")

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the document, or the location, of a response. Raises RemoteError."""
        parts = path.strip("/").split("/")
        if parts[0] == "standin":
            return 200, self.answer_master(parts[1], body)
        if parts[:3] != ["ws", "v1", "cluster"]:
            raise RemoteError(404, "NotFoundException", "java.lang.Exception: no such resource")
        if method == "GET":
            return 200, self.read(parts[3:], query)
        user = (query.get("user.name") or [""])[0]
        if not user:
            raise RemoteError(401, "AuthorizationException", "Unable to obtain user name, user not authenticated")
        return self.change(method, parts[3:], user, body)

    def answer_master(self, container: str, body: dict[str, Any]) -> dict[str, bool]:
        identity = "application_" + "_".join(container.split("_")[1:3])
        application = self.applications[identity]
        if body:
            application.asked, application.state = body, "RUNNING"
        assert application.asked
        done = len(application.completed) == application.asked["num_containers"]
        return {"done": done, "success": not any(each.status for each in application.completed)}

    def read(self, parts: list[str], query: dict[str, list[str]]) -> Any:
        if parts == ["nodes"]:
            return {"nodes": {"node": [self.shown(node) for node in self.nodes]}}
        if parts == ["apps"]:
            words = {name: [word for value in values for word in value.split(",")] for name, values in query.items()}
            shown = [
                each
                for each in (application.shown() for application in self.applications.values())
                if each["applicationType"] in words.get("applicationTypes", [each["applicationType"]])
                and each["state"] in words.get("states", [each["state"]])
            ]
            return {"apps": {"app": shown} if shown else None}
        application = self.find(parts[1])
        if parts[2:] == []:
            return {"app": application.shown()}
        if parts[2:] == ["state"]:
            return {"state": application.state}
        if parts[2:] == ["appattempts"]:
            return {"appAttempts": {"appAttempt": [{"id": 1}]}}
        if parts[2:] == ["appattempts", application.identity.replace("application", "appattempt") + "_000001", "containers"]:
            rows = [{"containerId": each.identity, "assignedNodeId": f"{each.node.name}:8041"} for each in application.live]
            return {"container": rows[0] if len(rows) == 1 else rows}
        raise RemoteError(404, "NotFoundException", "java.lang.Exception: no such resource")

    def change(self, method: str, parts: list[str], user: str, body: dict[str, Any]) -> tuple[int, Any]:
        if (method, parts) == ("POST", ["apps", "new-application"]):
            self.issued += 1
            identity = f"application_{self.timestamp}_{self.issued:04d}"
            return 200, {"application-id": identity, "maximum-resource-capability": {"memory": self.maximum, "vCores": 32}}
        if (method, parts) == ("POST", ["apps"]):
            return 202, self.submit(user, body)
        if method == "PUT" and parts[2:] == ["state"]:
            application = self.find(parts[1])
            if body.get("state") != "KILLED":
                raise RemoteError(400, "BadRequestException", "java.lang.Exception: Only 'KILLED' is allowed as a target state.")
            was = application.state
            self.kill(application.identity, user)
            return 202 if was != "KILLED" else 200, {"state": was}
        raise RemoteError(404, "NotFoundException", "java.lang.Exception: no such resource")

    def submit(self, user: str, body: dict[str, Any]) -> str:
        identity = str(body["application-id"])
        if user in self.refused_users:
            text = f"User {user} does not have permission to submit {identity} to queue default"
            raise RemoteError(400, "BadRequestException", text)
        if int(body["resource"]["memory"]) > self.maximum:
            raise RemoteError(400, "BadRequestException", "Requested more memory than configured max")
        self.applications[identity] = Application(identity, user, body)
        return f"{self.url}/ws/v1/cluster/apps/{identity}"

    def find(self, identity: str) -> Application:
        if identity not in self.applications:
            raise RemoteError(404, "NotFoundException", f"java.lang.Exception: app with id: {identity} not found")
        return self.applications[identity]

    def shown(self, node: Node) -> dict[str, Any]:
        free = self.free(node)
        return {
            "id": f"{node.name}:8041",
            "nodeHostName": node.name,
            "state": node.state,
            "usedMemoryMB": node.memory - free,
            "availMemoryMB": free,
            "usedVirtualCores": 0,
            "availableVirtualCores": node.cores,
        }


class Handler(BaseHTTPRequestHandler):
    cluster: YarnCluster

    def respond(self) -> None:
        address = urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers: dict[str, str] = {}
        try:
            with self.cluster.lock:
                status, found = self.cluster.answer(self.command, address.path, parse_qs(address.query), json.loads(content or b"{}"))
        except RemoteError as error:
            status = error.status
            found = {"RemoteException": {"exception": error.kind, "message": str(error), "javaClassName": f"org.apache.{error.kind}"}}
        if isinstance(found, str):
            headers["Location"], body = found, b""
        else:
            headers["Content-Type"], body = "application/json", json.dumps(found).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = respond  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Do not log requests."""


def launch_script(command: str, environment: dict[str, str], logs: str) -> str:
    """Return the script that a NodeManager writes for a command.

    In the script, the placeholders of the command are replaced with their values.
    """
    for word, value in {"<LOG_DIR>": logs, "{{JAVA_HOME}}": "$JAVA_HOME", "{{HADOOP_YARN_HOME}}": "$HADOOP_YARN_HOME"}.items():
        command = command.replace(word, value)
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
    return f'#!/bin/bash\n{exports}exec /bin/bash -c "{command}"\n'


def local_node(name: str, folder: Path, memory: int = 12288, cores: int = 4) -> Node:
    """Return a node whose containers run on this machine, in a folder with `java`, `yarn` and the programs in `path`."""
    for program, text in (("bin/java", MASTER), ("bin/yarn", "#!/bin/sh\necho '/etc/hadoop/conf:/usr/lib/hadoop-yarn/*'\n")):
        place = folder / program
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(0o755)

    def start(identity: str, command: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        directory = folder / identity
        directory.mkdir()
        variables = {**environment, "JAVA_HOME": str(folder), "HADOOP_YARN_HOME": str(folder)}
        (directory / "launch.sh").write_text(launch_script(command, variables, str(directory)))
        return subprocess.Popen(["bash", "launch.sh"], cwd=directory, start_new_session=True)

    def kill(_identity: str, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.wait()

    return Node(name, memory, cores, start, kill)


def remote_node(name: str, host: str, user: str, memory: int = 12288, cores: int = 4) -> Node:
    """Return a node whose containers run as a user on another host, each in its own unit. `/opt/hadoop` contains `java` and `yarn`."""

    def start(identity: str, command: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        variables = {**environment, "JAVA_HOME": "/opt/hadoop", "HADOOP_YARN_HOME": "/opt/hadoop"}
        directory = f"/tmp/{identity}"
        run = ["sudo", "systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--unit={identity}", f"--property=User={user}"]
        run += [f"--property=WorkingDirectory={directory}", "bash", "-s"]
        words = f"sudo install -d -o {user} {directory} && {shlex.join(run)}"
        process = subprocess.Popen(["ssh", "-oBatchMode=yes", host, words], stdin=subprocess.PIPE)
        assert process.stdin
        process.stdin.write(launch_script(command, variables, directory).encode())
        process.stdin.close()
        return process

    def kill(identity: str, _process: subprocess.Popen[bytes]) -> None:
        subprocess.Popen(["ssh", "-oBatchMode=yes", host, f"sudo systemctl kill --signal=SIGKILL {identity}.service"])

    return Node(name, memory, cores, start, kill)


def main(path: str) -> None:
    """Run the stand-in on a host until it is killed.

    The JSON file contains `address`, `user` and `nodes`. `nodes` maps the names of nodes to hosts.
    """
    settings = json.loads(Path(path).read_text())
    nodes = [remote_node(name, host, settings["user"]) for name, host in settings["nodes"].items()]
    with YarnCluster(nodes, address=(settings["address"], 8088)):
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
