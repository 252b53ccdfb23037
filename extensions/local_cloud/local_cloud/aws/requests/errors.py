"""Turns exceptions and HTML pages of moto into AWS errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

from . import calls
from .calls import Application

LOG = logging.getLogger(__name__)
FILTER = re.compile(r"filter.* '([^']+)'|for '([^']+)'", re.IGNORECASE | re.DOTALL)


def with_clean_errors(application: Application, environ: dict[str, Any], start: Callable[..., Any], call: calls.Call) -> Iterable[bytes]:
    """Return the response of `application`, with its exceptions and HTML pages turned into AWS errors."""
    answer: dict[str, Any] = {}

    def remember(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
        answer.update(status=status, headers=headers)

    try:
        body = b"".join(application(environ, remember))
    except Exception as error:
        return send(start, environ, call, *_explained(error, call))
    if int(answer["status"][:3]) >= 400 and _is_page(answer["headers"], body):
        return send(start, environ, call, "InvalidAction", f"The action {call.action} is not valid for this web service.", 400)
    start(answer["status"], answer["headers"])
    return [body]


def _explained(error: Exception, call: calls.Call) -> tuple[str, str, int]:
    if isinstance(error, NotImplementedError):
        found = FILTER.search(str(error))
        if found:
            # The API reference lists this filter, because `validation` accepted it.
            return "UnsupportedOperation", f"The filter '{found.group(1) or found.group(2)}' is not available in the local cloud.", 400
        return "InvalidAction", f"The action {call.action} is not valid for this web service.", 400
    LOG.error("%s %s failed", call.service, call.action, exc_info=error)
    return "InternalError", f"An internal error has occurred: {type(error).__name__}: {error}", 500


def _is_page(headers: list[tuple[str, str]], body: bytes) -> bool:
    content = next((value for name, value in headers if name.lower() == "content-type"), "")
    return ("html" in content and body.lstrip()[:9].lower() in (b"<!doctype", b"<html>\n<h")) or not content


def send(start: Callable[..., Any], environ: dict[str, Any], call: calls.Call, code: str, message: str, status: int) -> Iterable[bytes]:
    """Respond with an error in the format of the service."""
    line, headers, body = calls.error(environ, call.service, code, message, status)
    start(line, headers)
    return [body]
