"""Idempotent requests: a repeated request with the same client token gets the first response."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from .calls import Application, Call, Environ, read_body
from .parameter_usage import mark_read

TOKEN = re.compile(rb"(?:^|&)ClientToken=([^&]+)")
Answer = tuple[str, list[tuple[str, str]], bytes]


class ClientTokens:
    """Responses to requests with a client token, kept while the server is running."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, str], Answer] = {}

    def answer(self, application: Application, environ: Environ, start: Callable[..., Any], call: Call) -> Iterable[bytes]:
        """Return the stored response. If there is no stored response, return the response of `application`, and store that response if it
        is successful.
        """
        token = _token(environ)
        if not token:
            return application(environ, start)
        mark_read("ClientToken")
        key = (call.region, call.action, token)
        if key not in self._answers:
            seen: list[Any] = []
            body = b"".join(application(environ, lambda *line: seen.extend(line)))
            answer: Answer = (seen[0], seen[1], body)
            if not answer[0].startswith("200"):
                start(*answer[:2])
                return [body]
            self._answers[key] = answer
        status, headers, body = self._answers[key]
        start(status, headers)
        return [body]


def _token(environ: Environ) -> str:
    if "urlencoded" not in environ.get("CONTENT_TYPE", ""):
        return ""
    found = TOKEN.search(read_body(environ))
    return found[1].decode(errors="replace") if found else ""
