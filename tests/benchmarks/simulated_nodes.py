"""Answers the requests of the inventory for clusters of any size, with the answers of the local cloud for a small cluster.

The local cloud takes minutes to launch thousands of instances. The server repeats the description of one worker instead, with another
instance ID, address and number each time. As on AWS, a page contains at most 1000 instances.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

PAGE = 1000
OPERATIONS = {"ec2": "DescribeInstances", "autoscaling": "DescribeAutoScalingGroups", "sts": "GetCallerIdentity"}
RESERVATION = re.compile(r"<item><reservationId>.*?</item></instancesSet></item>", re.DOTALL)
GROUP = re.compile(r"<Instances>(.*?)</Instances>", re.DOTALL)
# What differs between the descriptions of two workers.
INSTANCE_ID = re.compile(r"\bi-[0-9a-f]{17}\b")
ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
NUMBER = re.compile(r"(<key>deeplearning:number</key><value>)\d+")


def recorded(cloud: Any, cluster: str) -> dict[str, str]:
    """Return the local cloud's answers about the instances and Auto Scaling groups of a cluster, and about the caller, by operation."""
    answers: dict[str, str] = {}
    arguments: dict[str, dict[str, Any]] = {
        "DescribeInstances": {"Filters": [{"Name": "tag:deeplearning:cluster", "Values": [cluster]}]},
        "DescribeAutoScalingGroups": {"AutoScalingGroupNames": [f"{cluster}-master", f"{cluster}-workers"]},
        "GetCallerIdentity": {},
    }
    for service, operation in OPERATIONS.items():
        client = cloud.client(service)

        def keep(response_dict: Mapping[str, Any], operation: str = operation, **_others: Any) -> None:
            answers[operation] = response_dict["body"].decode()

        client.meta.events.register(f"before-parse.{service}.{operation}", keep)
        client._make_api_call(operation, arguments[operation])
    return answers


def pages_of(answers: Mapping[str, str], count: int) -> dict[str, list[str]]:
    """Return the pages of each answer for a cluster of `count` nodes. `answers` describe a master and at least one worker."""
    instances, groups = answers["DescribeInstances"], answers["DescribeAutoScalingGroups"]
    master, worker = sorted(RESERVATION.findall(instances), key=lambda text: "<value>Master</value>" not in text)[:2]
    nodes = [master, *(_numbered(worker, number) for number in range(2, count + 1))][:count]
    rest = RESERVATION.sub("", instances)
    pages = [nodes[first : first + PAGE] for first in range(0, count, PAGE)] or [[]]
    tokens = [*(f"<nextToken>{number}</nextToken>" for number in range(1, len(pages))), ""]
    found = [
        rest.replace("<reservationSet>", f"<reservationSet>{''.join(page)}").replace("</reservationSet>", f"</reservationSet>{token}")
        for page, token in zip(pages, tokens, strict=True)
    ]
    member = next(iter(GROUP.findall(groups)), "").partition("</member>")[0] + "</member>"
    members = "".join(_numbered(member, number) for number in range(2, count + 1))
    all_members = GROUP.sub(f"<Instances>{members}</Instances>", groups, count=1)
    return {
        **{operation: [answer] for operation, answer in answers.items()},
        "DescribeInstances": found,
        "DescribeAutoScalingGroups": [all_members],
    }


def _numbered(text: str, number: int) -> str:
    text = ADDRESS.sub(f"10.0.{number // 250}.{number % 250 + 1}", INSTANCE_ID.sub(f"i-{number:017x}", text))
    return NUMBER.sub(rf"\g<1>{number}", text)


@contextmanager
def simulated_nodes(answers: Mapping[str, str], count: int) -> Iterator[tuple[str, list[str]]]:
    """Serve the answers for a cluster of `count` nodes. Yield the endpoint's URL, and the operations of the requests so far."""
    pages, requests = pages_of(answers, count), list[str]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            given = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            operation = given["Action"][0]
            requests.append(operation)
            body = pages[operation][int(given.get("NextToken", ["0"])[0])].encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_arguments: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
