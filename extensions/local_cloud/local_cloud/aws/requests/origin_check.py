"""Refuses requests from web pages in a browser, and requests for other host names.

A web page can send requests to loopback addresses, even through a DNS name that the page's owner controls. Such requests contain the
browser headers `Origin` or `Sec-Fetch-Site`, or a `Host` that is not the local cloud's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .calls import Application

NAMES = ("127.0.0.1", "localhost")
# Paths that moto serves in addition to the AWS API, such as a dashboard and an endpoint for a reset.
MOTO = ("/moto-api", "/latest/meta-data", "/latest/api", "/favicon.ico")


def refuse_foreign_origins(application: Application, hosts: Sequence[str] | None = None) -> Application:
    """Return the application, protected by the check. `hosts` contains the accepted values of `Host` (default: the server's names)."""

    def application_behind(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        allowed = hosts or [f"{name}:{environ['SERVER_PORT']}" for name in NAMES]
        if environ.get("HTTP_HOST", "") not in allowed:
            return _refuse(start, "403 Forbidden", f"Host: {environ.get('HTTP_HOST', '')!r} is not this local cloud. Use {allowed[0]}.")
        if "HTTP_ORIGIN" in environ or environ.get("HTTP_SEC_FETCH_SITE", "none") != "none":
            return _refuse(start, "403 Forbidden", "Requests from web pages are refused.")
        environ.pop("HTTP_X_MOTO_ACCOUNT_ID", None)
        return application(environ, start)

    return application_behind


def is_moto_path(path: str) -> bool:
    """Return whether moto serves this path in addition to the AWS API."""
    return path.startswith(MOTO)


def _refuse(start: Callable[..., Any], status: str, reason: str) -> Iterable[bytes]:
    content = f"{reason}\n".encode(errors="replace")
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(content)))])
    return [content]
