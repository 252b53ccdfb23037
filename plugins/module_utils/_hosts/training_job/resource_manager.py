# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sends requests to the REST API of YARN's ResourceManager. This code also runs on hosts without Ansible.

The address is in Hadoop's configuration on each node. Source of the properties and their defaults: Hadoop's yarn-default.xml.
"""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
import urllib.response
from xml.etree import ElementTree

from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.yarn import OWNER

CONFIGURATION = "/etc/hadoop/conf/yarn-site.xml"
PORT = 8088

# Time limit in seconds for a request.
TIMEOUT = 30.0

# Maximum size of a response in bytes. The ResourceManager remembers 1000 applications by default.
LIMIT = 64 << 20


def send(method: str, path: str, body: str = "") -> tuple[int, str, str]:
    """Send a request. Return an exit status, the response and the reason for a failure, as for a command.

    If the response has no body but a location, the response is the last part of the location.
    """
    try:
        url = f"http://{address()}{path}"
    except (OSError, ValueError) as error:
        return 1, "", f"{CONFIGURATION}: {error}"
    try:
        with open_url(method, url, body) as response:
            content = response.read(LIMIT).decode(errors="replace")
            if not content.strip():
                return 0, str(response.headers.get("Location") or "").rpartition("/")[2], ""
        json.loads(content)
        return 0, content, ""
    except urllib.error.HTTPError as error:
        return 1, "", f"{refusal(error)} ({method} {url})"
    except (OSError, ValueError) as error:
        return 1, "", f"{getattr(error, 'reason', error)} ({method} {url})"


def open_url(method: str, url: str, body: str) -> urllib.response.addinfourl:
    """Send a request without a proxy, and return the response. Without Kerberos, YARN takes the user's name from the request."""
    query = "&" if "?" in url else "?"
    headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body else {})}
    data = body.encode() if method != "GET" else None
    request = urllib.request.Request(f"{url}{query}user.name={OWNER}", data, headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    response: urllib.response.addinfourl = opener.open(request, timeout=TIMEOUT)
    return response


def refusal(error: urllib.error.HTTPError) -> str:
    """Return the message of the ResourceManager's response, and otherwise the HTTP status."""
    try:
        found = json.loads(error.read(LIMIT).decode(errors="replace"))["RemoteException"]
        text = str(found.get("message") or found["exception"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        text = str(error.reason or "no reason given")
    return f"HTTP {error.code}: {text}"


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


def cluster_name(node: str) -> str:
    """Return the name that a node of YARN has in this cluster, or its own name if it has none."""
    try:
        return socket.gethostbyaddr(socket.gethostbyname(node))[0].partition(".")[0]
    except OSError:
        return node
