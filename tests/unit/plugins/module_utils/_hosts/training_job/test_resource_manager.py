"""Tests of requests to the ResourceManager, which tests/yarn_cluster.py stands in for."""

from __future__ import annotations

import json
import socket

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import resource_manager
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues import yarn
from yarn_cluster import YarnCluster, local_node


@pytest.fixture
def configure(tmp_path, monkeypatch):
    """Return a function that writes Hadoop's configuration."""
    path = tmp_path / "yarn-site.xml"
    monkeypatch.setattr(resource_manager, "CONFIGURATION", str(path))

    def write(**values):
        rows = "".join(
            f"<property>\n <name>yarn.resourcemanager.{name}</name> <value> {value} </value></property>" for name, value in values.items()
        )
        path.write_text(f"<?xml version='1.0'?>\n<configuration>{rows}<property/></configuration>\n")

    return write


@pytest.fixture
def cluster(tmp_path, configure):
    with YarnCluster([local_node("h1", tmp_path / "h1")]) as cluster:
        configure(**{"webapp.address": cluster.url.removeprefix("http://")})
        yield cluster


@pytest.mark.parametrize(
    ("values", "address"),
    [
        ({"hostname": "ip-10-0-0-1.ec2.internal"}, "ip-10-0-0-1.ec2.internal:8088"),
        ({"webapp.address": "rm:9088", "hostname": "other"}, "rm:9088"),
        ({"webapp.address": "${yarn.resourcemanager.hostname}:8090", "hostname": "rm"}, "rm:8090"),
        ({"webapp.address": "rm"}, "rm:8088"),
    ],
)
def test_the_address_is_in_hadoops_configuration(configure, values, address):
    configure(**values)
    assert resource_manager.address() == address


def test_without_an_address_no_request_is_sent(configure, tmp_path):
    path = tmp_path / "yarn-site.xml"
    assert resource_manager.send("GET", "/") == (1, "", f"{path}: [Errno 2] No such file or directory: '{path}'")
    configure(**{"webapp.address": "${yarn.resourcemanager.hostname}:8088"})
    unset = "neither yarn.resourcemanager.webapp.address nor yarn.resourcemanager.hostname is set"
    assert resource_manager.send("GET", "/") == (1, "", f"{path}: {unset}")
    path.write_text("<configuration>")
    assert resource_manager.send("GET", "/")[2].startswith(f"{path}: not a valid XML file: ")


def test_responses_and_locations(cluster, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    status, output, error = resource_manager.send(*yarn.SHOW_NODES)
    assert (status, error) == (0, "")
    assert yarn.read_hosts(output) == ["h1"]
    identity = json.loads(resource_manager.send(*yarn.QUEUE.questions[2])[1])["application-id"]
    context = {"application-id": identity, "application-name": "x", "application-type": "y", "resource": {"memory": 4096}}
    context["am-container-spec"] = {"commands": {"command": "sleep 60"}}
    assert resource_manager.send("POST", "/ws/v1/cluster/apps", json.dumps(context)) == (0, identity, "")
    assert cluster.applications[identity].user == "deeplearning"
    assert resource_manager.send(*yarn.cancel([identity])) == (0, '{"state": "ACCEPTED"}', "")
    assert resource_manager.send(*yarn.cancel([identity])) == (0, '{"state": "KILLED"}', "")


def test_the_reason_of_a_refusal(cluster):
    path = "/ws/v1/cluster/apps/application_1_0001"
    text = "HTTP 404: java.lang.Exception: app with id: application_1_0001 not found"
    assert resource_manager.send("GET", path) == (1, "", f"{text} (GET {cluster.url}{path})")
    cluster.refused_users.add("deeplearning")
    context = {"application-id": "application_1_0001", "resource": {"memory": 1}}
    error = resource_manager.send("POST", "/ws/v1/cluster/apps", json.dumps(context))[2]
    assert error.startswith("HTTP 400: User deeplearning does not have permission to submit application_1_0001 to queue default (POST ")


def test_a_resource_manager_that_does_not_respond(configure):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        configure(**{"webapp.address": address})
        assert resource_manager.send("GET", "/x") == (1, "", f"[Errno 111] Connection refused (GET http://{address}/x)")


@pytest.mark.parametrize(
    ("content", "message"), [(b"<html>standby</html>", "Expecting value: line 1 column 1 (char 0)"), (b"", "HTTP 500: Server Error")]
)
def test_other_responses(cluster, monkeypatch, content, message):
    def respond(handler):
        handler.send_response(200 if content else 500, "Server Error")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    monkeypatch.setattr(cluster.server.RequestHandlerClass, "do_GET", respond)
    assert resource_manager.send("GET", "/x") == (1, "", f"{message} (GET {cluster.url}/x)")


def test_nodes_have_the_names_of_the_cluster(monkeypatch):
    addresses = {"ip-10-0-0-3.ec2.internal": "10.0.0.3", "ip-10-0-0-9.ec2.internal": "10.0.0.9"}

    def by_name(name):
        if name not in addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return addresses[name]

    def by_address(address):
        if address != "10.0.0.3":
            raise socket.herror(1, "Unknown host")
        return "bert-worker3", ["worker3"], [address]

    monkeypatch.setattr(socket, "gethostbyname", by_name)
    monkeypatch.setattr(socket, "gethostbyaddr", by_address)
    assert resource_manager.cluster_name("ip-10-0-0-3.ec2.internal") == "bert-worker3"
    for name in ("ip-10-0-0-9.ec2.internal", "unknown"):
        assert resource_manager.cluster_name(name) == name
