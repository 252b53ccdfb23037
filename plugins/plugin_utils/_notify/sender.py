# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sends one notification to one URL with Apprise, as a program of its own. It reads a JSON document from standard input.

A program of its own can be left behind or killed if it never answers. Nothing that Apprise logs leaves this program, because
Apprise logs URLs. This folder contains no other programs, because Python searches it for imports.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Any

# Seconds after which the program ends, whatever it does.
LIMIT_SECONDS = 30
# Maximum memory in bytes. A receiver can send an answer without end.
MEMORY_LIMIT = 1 << 30
INVALID = (
    "is not a valid Apprise URL. Correct its service and its parts. Write special characters in passwords and tokens as codes, such as "
    "%40 for @"
)
NOT_SENT = "did not receive a notification: "
UNKNOWN_REASON = "it did not accept it"
# Why a notification was not sent, by the name of an exception's class.
REASONS = {
    "SSLCertVerificationError": "its certificate is not trusted",
    "SSLError": "TLS failed",
    "gaierror": "the name of its host cannot be resolved",
    "ConnectionRefusedError": "it refused the connection",
    "TimeoutError": "it did not answer in time",
    "ReadTimeout": "it did not answer in time",
    "ConnectTimeout": "it did not answer in time",
    "SMTPServerDisconnected": "it closed the connection",
    "RemoteDisconnected": "it closed the connection",
    "ConnectionResetError": "it closed the connection",
    "IncompleteRead": "it closed the connection",
    "MemoryError": "it answered with too much data",
    "BadStatusLine": "it does not speak the protocol of the URL",
    "SMTPException": "it does not speak the protocol of the URL, or rejects its settings",
}
HTTP_STATUS = re.compile(r"\berror=(\d{3})\b")


class Reason(logging.Handler):
    """Finds out why a notification was not sent from what Apprise logs. Apprise logs exceptions while it handles them.

    The text in `text` never contains a part of what was logged, except for the number of a status.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text = UNKNOWN_REASON

    def emit(self, record: logging.LogRecord) -> None:
        # Less important records contain the notification.
        status = HTTP_STATUS.search(record.getMessage()) if record.levelno >= logging.WARNING else None
        found = f"it answered with status {status[1]}" if status else reason_of(sys.exc_info()[1])
        if found and self.text == UNKNOWN_REASON:
            self.text = found


def reason_of(error: BaseException | None) -> str:
    """Return what an exception says about a receiver, or an empty string."""
    for each in causes(error):
        refusals = getattr(each, "recipients", None)
        code = next((reply[0] for reply in refusals.values()), None) if isinstance(refusals, dict) else getattr(each, "smtp_code", None)
        if isinstance(code, int) and code > 0:
            return f"it answered with status {code}"
    names = [kind.__name__ for each in causes(error) for kind in type(each).__mro__]
    return next((reason for name, reason in REASONS.items() if name in names), "")


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and what has caused it, including the exceptions that other exceptions contain."""
    while error is not None:
        yield error
        yield from (each for each in error.args if isinstance(each, BaseException))
        error = error.__cause__ or error.__context__


def problem_of(task: Mapping[str, Any]) -> str:
    """Send the notification and return why this failed, or an empty string. Without a `body`, only check the URL."""
    import apprise
    import requests

    reason = Reason()
    logger = logging.getLogger("apprise")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(reason)
    # After a redirect, a POST request would become a GET request without the notification.
    requests.Session.get_redirect_target = lambda *_: None  # type: ignore[method-assign]
    asset = apprise.AppriseAsset(app_id="deeplearning.cluster", app_desc="deeplearning.cluster", async_mode=False)
    service = None
    with contextlib.suppress(Exception):  # some invalid URLs raise exceptions
        service = apprise.Apprise.instantiate(task["url"], asset=asset)
    if service is None:
        return INVALID
    if "body" not in task:
        return ""
    reason.text = UNKNOWN_REASON
    sender = apprise.Apprise(asset=asset)
    sender.add(service)
    sent = sender.notify(body=task["body"], title=task["title"], notify_type=task["severity"], body_format=apprise.NotifyFormat.TEXT)
    return "" if sent else NOT_SENT + reason.text


def main() -> None:
    """Write the problem, or an empty string, as JSON to standard output."""
    signal.alarm(LIMIT_SECONDS)
    with contextlib.suppress(OSError, ValueError):  # not all systems have this limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    output, sys.stdout = sys.stdout, sys.stderr
    try:
        problem = problem_of(json.load(sys.stdin))
    except ImportError:
        problem = "cannot be used, because the Python package apprise is not installed on the controller. Run pip install apprise"
    except Exception as error:  # a plugin of Apprise can raise anything
        problem = NOT_SENT + (reason_of(error) or UNKNOWN_REASON)
    output.write(json.dumps(problem))


if __name__ == "__main__":
    main()
