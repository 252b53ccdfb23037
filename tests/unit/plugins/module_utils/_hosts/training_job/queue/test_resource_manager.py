"""Tests of requests to the ResourceManager, which tests/yarn_cluster.py simulates."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.queue import resource_manager
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues import yarn
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.base import QueueError
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
    identity = json.loads(resource_manager.send(*yarn.QUEUE.reservations.questions[2])[1])["application-id"]
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


@pytest.fixture
def respond(configure):
    """Return a function that answers the next request with the given bytes: all at once, or one by one if a pause is given."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        configure(**{"webapp.address": address})
        ended, threads = threading.Event(), []

        def answer(content, pause):
            with server.accept()[0] as connection:
                connection.recv(1 << 16)
                try:
                    for part in [content[at : at + 1] for at in range(len(content))] if pause else [content]:
                        connection.sendall(part)
                        if pause and ended.wait(pause):
                            return
                except OSError:
                    return

        def start(content, pause=0.0):
            threads.append(threading.Thread(target=answer, args=(content, pause)))
            threads[-1].start()
            return address

        yield start
        ended.set()
        for thread in threads:
            thread.join()


def http(status, *headers, body=b""):
    head = "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close"])
    return head.encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (http("200 OK", body=b"<html>standby</html>"), "Expecting value: line 1 column 1 (char 0)"),
        (http("200 OK", body=b"[" * 100000), "maximum recursion depth exceeded"),
        (http("200 OK"), "the response is empty"),
        (http("200 OK", "Location: http://rm/x/application_1_1"), "the response is empty"),
        (http("500 Server Error"), "HTTP 500: Server Error"),
        (http("500 "), "HTTP 500: no reason given"),
        (http("500 Server Error", body=b"[" * 100000), "HTTP 500: Server Error"),
        (http("500 Server Error", body=b'{"RemoteException": {"message": "a\\n\\u001b[2Jb"}}'), "HTTP 500: a b"),
        (http("500 Server Error", body=b'{"RemoteException": {"message": "%s"}}' % (b"x" * 999)), f"HTTP 500: {'x' * 200}"),
        (b"", "Remote end closed connection without response"),
        (b"SSH-2.0-OpenSSH\r\n", "SSH-2.0-OpenSSH"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", "IncompleteRead("),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "got more than 100 headers"),
    ],
)
def test_responses_that_are_not_valid(respond, content, message):
    """The messages of some errors depend on the version of Python."""
    address = respond(content)
    status, output, error = resource_manager.send("GET", "/x")
    assert (status, output) == (1, "")
    assert error.startswith(message)
    assert error.endswith(f" (GET http://{address}/x)")
    assert error.isprintable()


def test_redirects_are_not_followed(cluster, respond):
    address = respond(http("307 Temporary Redirect", f"Location: {cluster.url}{yarn.SHOW_NODES[1]}"))
    assert resource_manager.send(*yarn.SHOW_NODES) == (1, "", f"HTTP 307: Temporary Redirect (GET http://{address}{yarn.SHOW_NODES[1]})")


def test_long_responses_are_rejected(respond, monkeypatch):
    monkeypatch.setattr(resource_manager, "LIMIT", 1 << 20)
    assert respond(http("200 OK", body=b" " * ((1 << 20) - 2) + b"{}"))
    assert resource_manager.send("GET", "/x")[0] == 0
    address = respond(http("200 OK", body=b" " * ((1 << 20) - 1) + b"{}"))
    assert resource_manager.send("GET", "/x") == (1, "", f"the response is longer than 1 MiB (GET http://{address}/x)")


@pytest.mark.parametrize("content", [http("200 OK", body=b"{" * 1000), b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 99, b""])
def test_a_response_that_comes_byte_by_byte_has_a_time_limit(respond, monkeypatch, content):
    monkeypatch.setattr(resource_manager, "TIMEOUT", 0.5)
    address = respond(content or b"H" * 1000, 0.1)
    began = time.monotonic()
    assert resource_manager.send("GET", "/x") == (1, "", f"timed out after 0 s (GET http://{address}/x)")
    assert time.monotonic() < began + 10
    assert not any(isinstance(thread, threading.Timer) for thread in threading.enumerate())


def test_nodes_have_the_names_of_the_cluster(monkeypatch):
    workers = [{"name": "bert-worker3", "address": "10.0.0.3", "number": 3}]
    addresses = {"ip-10-0-0-3.ec2.internal": "10.0.0.3", "ip-10-0-0-9.ec2.internal": "10.0.0.9"}
    monkeypatch.setattr(socket, "gethostbyname", addresses.get)
    assert resource_manager.cluster_names(addresses, workers) == ["bert-worker3", "ip-10-0-0-9.ec2.internal"]


@pytest.mark.parametrize(
    "error",
    [socket.gaierror(-3, "Temporary failure in name resolution"), UnicodeError("label too long"), OSError(24, "Too many open files")],
)
def test_a_look_up_that_fails_is_an_error_of_the_queue(monkeypatch, error):
    def fail(_name):
        raise error

    monkeypatch.setattr(socket, "gethostbyname", fail)
    with pytest.raises(QueueError) as raised:
        resource_manager.cluster_names(["ip-10-0-0-3"], [])
    assert str(raised.value) == f"The name of YARN's node ip-10-0-0-3 cannot be looked up: {error}. Check the cluster's DNS."


@pytest.mark.parametrize("name", ["", "a b", "-a", "a\0", "a\n", "\x1b[2J", "x" * 254])
def test_names_that_are_not_valid_are_not_looked_up(monkeypatch, name):
    monkeypatch.setattr(socket, "gethostbyname", lambda _name: pytest.fail("looked up"))
    with pytest.raises(
        QueueError, match=r"^YARN's node '[ -~]*' has a name that is not valid\. Check the nodes with `yarn node -list -all`\.$"
    ):
        resource_manager.cluster_names([name], [])
