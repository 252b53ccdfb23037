"""Which requests are let in at all, whoever signed them: those of programs on this machine that mean this cloud, and no browser's.

A page in a browser can send requests to loopback addresses, and have its own name lead there. Browsers say so: by the headers
Origin and Sec-Fetch-Site, and by a Host that is not the cloud's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
NAMES = ("127.0.0.1", "localhost")
MOTO = ("/moto-api", "/latest/meta-data", "/latest/api", "/favicon.ico")
"""What moto serves beside the API of AWS, such as a dashboard and a call that forgets everything."""


def refuse_foreign_origins(application: Application, hosts: Collection[str] | None = None) -> Application:
    """The application for those who may ask. `hosts` are the values of Host that are let in, by default the server's own."""

    def application_behind(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        allowed = hosts or [f"{name}:{environ['SERVER_PORT']}" for name in NAMES]
        if environ.get("HTTP_HOST", "") not in allowed:
            return _refuse(start, "403 Forbidden", f"Host: {environ.get('HTTP_HOST', '')!r} is not this cloud. Ask {allowed[0]}.")
        if "HTTP_ORIGIN" in environ or environ.get("HTTP_SEC_FETCH_SITE", "none") != "none":
            return _refuse(start, "403 Forbidden", "Web pages may not ask this cloud.")
        environ.pop("HTTP_X_MOTO_ACCOUNT_ID", None)
        return application(environ, lambda status, headers, *more: start(status, _without_cors(headers), *more))

    return application_behind


def is_moto_path(path: str) -> bool:
    """Whether moto would answer this path by itself."""
    return path.startswith(MOTO)


def _without_cors(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [each for each in headers if not each[0].lower().startswith("access-control-")]


def _refuse(start: Callable[..., Any], status: str, reason: str) -> Iterable[bytes]:
    content = f"{reason}\n".encode(errors="replace")
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(content)))])
    return [content]
