"""The control API below /_local_cloud/: what a test or a person sets and reads about the cloud itself.

GET    health                            {"status": "ok", "instances": {state: count}}
GET    calls     DELETE calls            every call so far: [{"service", "region", "action", "read_only"}]
GET    faults    PUT faults  [rule ...]  DELETE faults     rules as in faults.Rule, which replace those in force
GET    capacity  PUT capacity {type: {zone: limit}}        DELETE capacity     null lifts a limit; others stay
GET    delays    PUT delays {name: seconds}                DELETE delays       names as in settings.Delays
POST   reset                             forget calls, faults, limits and changed delays; the account stays
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .context import CLOUD, instances
from .groups import retry_all

if TYPE_CHECKING:
    from .app import LocalCloud

PREFIX = "/_local_cloud/"


def answer(cloud: LocalCloud, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request to the control API with JSON."""
    method, name = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix(PREFIX)
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    try:
        status, result = "200 OK", _handle(cloud, method, name, json.loads(body) if body else None)
    except KeyError:
        status, result = "404 Not Found", {"error": f"there is no {method} {name}"}
    except (ValueError, TypeError, AttributeError) as error:
        status, result = "400 Bad Request", {"error": str(error)}
    content = json.dumps(result, default=str).encode()
    start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
    return [content]


def _handle(cloud: LocalCloud, method: str, name: str, data: Any) -> Any:
    handlers: dict[tuple[str, str], Callable[[], Any]] = {
        ("GET", "health"): _health,
        ("GET", "capacity"): CLOUD.capacity.as_dict,
        ("PUT", "capacity"): lambda: _set_capacity(data),
        ("DELETE", "capacity"): lambda: _set_capacity({}, clear=True),
        ("GET", "faults"): cloud.faults.as_list,
        ("PUT", "faults"): lambda: cloud.faults.set(data),
        ("DELETE", "faults"): lambda: cloud.faults.set([]),
        ("GET", "delays"): lambda: asdict(CLOUD.delays),
        ("PUT", "delays"): lambda: _set_delays(data),
        ("DELETE", "delays"): lambda: _set_delays({}, clear=True),
        ("GET", "calls"): cloud.recorded_calls,
        ("DELETE", "calls"): cloud.forget_calls,
        ("POST", "reset"): cloud.restore,
    }
    return handlers[method, name]()


def _health() -> dict[str, Any]:
    with CLOUD.lock:
        states = [each.state for each in instances()]
    return {"status": "ok", "instances": {state: states.count(state) for state in sorted(set(states))}}


def _set_capacity(limits: dict[str, dict[str, int | None]], clear: bool = False) -> None:
    with CLOUD.lock:
        if clear:
            CLOUD.capacity.clear()
        CLOUD.capacity.update(limits)
        retry_all()


def _set_delays(changes: dict[str, float], clear: bool = False) -> None:
    with CLOUD.lock:
        CLOUD.delays = (CLOUD.settings.delays if clear else CLOUD.delays).changed(changes)
