# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sends requests to the REST API of YARN's ResourceManager. This code also runs on hosts without Ansible.

The address is in Hadoop's configuration on each node. Source of the properties and their defaults: Hadoop's yarn-default.xml.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from typing import Any, Iterable, Mapping
from xml.etree import ElementTree

from ...._queues.base import REASON_LIMIT, QueueError
from ...._queues.yarn import OWNER
from ...._text import clean_line

CONFIGURATION = "/etc/hadoop/conf/yarn-site.xml"
PORT = 8088

# Time limit in seconds for a request, including the response.
TIMEOUT = 30.0

# Maximum size of a response in bytes. Longer responses are rejected. A node or an application takes about 1 kB.
LIMIT = 8 << 20

# The names that YARN's nodes can have.
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def send(method: str, path: str, body: str = "") -> tuple[int, str, str]:
    """Send a request, and return the result in the form of a command's result: exit status, output and error message.

    The output is JSON or, if the response has a location but no body, the last part of the location.
    """
    try:
        host = address()
    except (OSError, ValueError) as error:
        return 1, "", f"{CONFIGURATION}: {error}"
    request = f"({method} http://{host}{path})"
    try:
        status, phrase, location, content = exchange(host, method, path, body)
        if not 200 <= status < 300:
            return 1, "", f"HTTP {status}: {reason(refusal(content) or phrase or 'no reason given')} {request}"
        if not content.strip():
            return (0, location, "") if location and method != "GET" else (1, "", f"the response is empty {request}")
        json.loads(content)
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        return 1, "", f"{reason(str(error) or type(error).__name__)} {request}"
    return 0, content, ""


def exchange(host: str, method: str, path: str, body: str) -> tuple[int, str, str, str]:
    """Send a request, and return the status, its phrase, the last part of the location, and the body of the response.

    No proxy is used, and no redirect is followed. Without Kerberos, YARN takes the user's name from the request. Raises OSError, ValueError
    or HTTPException.
    """
    headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body else {})}
    end = time.monotonic() + TIMEOUT
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
    with contextlib.closing(connection):
        connection.connect()
        # A socket's timeout limits the duration of each read, but not the number of reads.
        timer = threading.Timer(max(0.0, end - time.monotonic()), shut_down, [connection.sock])
        timer.daemon = True
        timer.start()
        try:
            connection.request(method, f"{path}{'&' if '?' in path else '?'}user.name={OWNER}", body.encode() or None, headers)
            with connection.getresponse() as response:
                content = response.read(LIMIT + 1)
        finally:
            timer.cancel()
            timer.join()  # callers may fork, so leave no thread running
            if time.monotonic() >= end:
                raise TimeoutError(f"timed out after {TIMEOUT:.0f} s")
    if len(content) > LIMIT:
        raise ValueError(f"the response is longer than {LIMIT >> 20} MiB")
    location = str(response.headers.get("Location") or "").rpartition("/")[2]
    return response.status, response.reason, location, content.decode(errors="replace")


def shut_down(connection: socket.socket) -> None:
    """Shut down a connection, so that all reads from it end."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def refusal(content: str) -> str:
    """Return the message in a response of the ResourceManager that reports an error, or an empty string if there is none."""
    try:
        found = json.loads(content)["RemoteException"]
        return str(found.get("message") or found["exception"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""


def reason(text: str) -> str:
    """Return text from the ResourceManager as one short line without control characters, for use in messages."""
    return clean_line(text[: 4 * REASON_LIMIT]).strip()[:REASON_LIMIT]


def address() -> str:
    """Return the host and the port of the ResourceManager's API. Raises OSError, or ValueError if they are not configured."""
    try:
        root = ElementTree.parse(CONFIGURATION).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(f"not a valid XML file: {error}") from error
    values = {item.findtext("name", "").strip(): item.findtext("value", "").strip() for item in root.iter("property")}
    found = values.get("yarn.resourcemanager.webapp.address") or "${yarn.resourcemanager.hostname}"
    found = re.sub(r"\$\{([^}]+)\}", lambda name: values.get(name[1], ""), found)
    if not found or found.startswith(":"):
        raise ValueError("neither yarn.resourcemanager.webapp.address nor yarn.resourcemanager.hostname is set")
    return found if ":" in found else f"{found}:{PORT}"


def cluster_names(nodes: Iterable[str], workers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of YARN's nodes in this cluster.

    A node that is not a worker of the cluster keeps its name. The function looks up YARN's names, and compares their addresses with the
    workers' addresses. Raises QueueError if a look-up fails.
    """
    names = {str(worker["address"]): str(worker["name"]) for worker in workers}
    return [names.get(node_address(node), node) for node in nodes]


def node_address(node: str) -> str:
    """Return the address of a YARN node. Raises QueueError."""
    if not NODE_NAME.fullmatch(node):
        raise QueueError(f"YARN's node {reason(node)!r} has a name that is not valid. Check the nodes with `yarn node -list -all`.")
    try:
        return socket.gethostbyname(node)
    except (OSError, UnicodeError) as error:
        raise QueueError(f"The name of YARN's node {node} cannot be looked up: {reason(str(error))}. Check the cluster's DNS.") from error
