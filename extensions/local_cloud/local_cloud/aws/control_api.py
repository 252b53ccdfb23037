"""The control API below `/_local_cloud/`, which configures the local cloud and shows its state to tests and people. The header
`Authorization` of each request contains a signature (`local_cloud.control_signature`). Bodies have `Content-Type: application/json`.

GET    health                            {"status": "ok", "instances": {state: count}}
GET    calls     DELETE calls            all API calls so far that had a valid signature: [{"service", "region", "action",
                                         "read_only", "parameters"}]; only calls that change something and that were executed have
                                         parameters
GET    decisions DELETE decisions        authorization decisions for calls by users and roles: [{"caller", "call", "action", "resource",
                                         "effect", "statements"}]
PUT    parameters                        start recording which parameters requests contain, and which parameters are never read
GET    parameters                        the record, as "service:Action Parameter": {"sent": [...], "ignored": [...]}
GET    invocations                       invocations of functions that have ended: [{"function", "request_id", "time", "event", "failed",
                                         "value", "log"}]. `value` is what the function has returned, or describes its error
GET    faults    PUT faults  [rule ...]  DELETE faults     rules as in requests.faults.Rule; they replace all others
GET    paused                            held calls: [{"service", "action", "stage"}]
POST   resume    {"execute": true}       resume held calls; with false, drop calls held before execution
GET    capacity  PUT capacity {type: {zone: limit}}        DELETE capacity     limits on live instances; {"on-demand": n, "spot": n}
                                                                               for both markets; null removes a limit
GET    prices    PUT prices {type: dollars per hour}       DELETE prices       prices of Spot Instances; null restores the default
POST   cost      {"region": name}                          the cost of what exists, in dollars per hour by kind
GET    quotas    PUT quotas {code: value}                  DELETE quotas       null restores the default, which is unlimited
GET    failing   PUT failing {type: count}                 DELETE failing      the next `count` launches fail while pending
POST   kill      {"instance": id}                          terminate an instance as if its hardware had failed
POST   interrupt {"instance": id, "notice": seconds}       interrupt a Spot Instance. With `notice`, the instance's metadata announces
                                                           the interruption, which follows after this number of seconds
POST   suspend   {"group": name, "process": name}          suspend a process as AWS does after a day of failed launches
POST   capacity_block {"type", "zone", "count", "start", "duration", "tags"}   create a Capacity Block that starts in `start` seconds (0)
                                                           and lasts `duration` seconds (a day): {"id"}
POST   console   {"instance": id, "text": text}            without hosts: let an instance print the text on its console
PUT    guardduty true                    let GuardDuty add an endpoint and a security group to the VPCs of new instances; false: no longer
PUT    stale_parameters true              let the first GetParameter after each PutParameter return the previous state; false: no longer
PUT    lookup_rate 2                     the number of LookupEvents requests allowed per second; null for any number
GET    delays    PUT delays {name: seconds}                DELETE delays       names as in settings.Delays
POST   advance   {"seconds": n}          let this time pass for delayed changes and schedules (see clock.Clock), and wait for the calls of
                                         schedules and the invocations of functions: {"now": seconds since the epoch}
POST   reset                             clear calls, faults, limits, prices, quotas, GuardDuty, changed delays, and advances of the clock;
                                         resources are kept
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from moto.ec2.models import ec2_backends

from ..control_signature import is_signed
from ..host_interface import NoHosts
from .autoscaling.groups import all_groups, retry_all
from .capacity import SPOT
from .context import ACCOUNT, CLOUD, instances
from .ec2 import capacity_reservations, spot
from .ec2.availability_zones import region_of
from .pricing import meter
from .requests.calls import BODY_LIMIT, is_too_large
from .requests.parameter_usage import RECORD
from .servicequotas import quotas

if TYPE_CHECKING:
    from .app import AwsApi

PREFIX = "/_local_cloud/"
JSON = "application/json"


class UnknownRequest(Exception):
    """An unknown method or path of the control API."""


def answer(cloud: AwsApi, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Respond to a request with JSON."""
    method, name = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix(PREFIX)
    if is_too_large(environ):
        return _send(start, "413 Content Too Large", {"error": f"The control API accepts at most {BODY_LIMIT} bytes."})
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    if not is_signed(CLOUD.settings.control_token, method, name, body, environ.get("HTTP_AUTHORIZATION", "")):
        return _send(start, "401 Unauthorized", {"error": "Requests to the control API need a signature with this local cloud's token."})
    if method in ("POST", "PUT") and environ.get("CONTENT_TYPE", "").partition(";")[0].strip() != JSON:
        return _send(start, "415 Unsupported Media Type", {"error": f"The control API accepts only {JSON}."})
    try:
        status, result = "200 OK", _handle(cloud, method, name, json.loads(body) if body else None)
    except UnknownRequest:
        status, result = "404 Not Found", {"error": f"Unknown request {method} {name}."}
    except KeyError as error:
        status, result = "400 Bad Request", {"error": f"The request lacks {error}."}
    except (ValueError, TypeError, AttributeError) as error:
        status, result = "400 Bad Request", {"error": str(error)}
    return _send(start, status, result)


def _send(start: Callable[..., Any], status: str, result: Any) -> Iterable[bytes]:
    content = json.dumps(result, default=str).encode()
    start(status, [("Content-Type", JSON), ("Content-Length", str(len(content)))])
    return [content]


def _handle(cloud: AwsApi, method: str, name: str, data: Any) -> Any:
    handlers: dict[tuple[str, str], Callable[[], Any]] = {
        ("GET", "health"): _health,
        ("GET", "faults"): cloud.faults.as_list,
        ("PUT", "faults"): lambda: cloud.faults.set(data),
        ("DELETE", "faults"): lambda: cloud.faults.set([]),
        ("GET", "paused"): cloud.held_calls.as_list,
        ("POST", "resume"): lambda: cloud.held_calls.resume(**(data or {})),
        ("GET", "capacity"): CLOUD.capacity.as_dict,
        ("PUT", "capacity"): lambda: _change(CLOUD.capacity.update, data),
        ("DELETE", "capacity"): lambda: _change(CLOUD.capacity.clear),
        ("GET", "prices"): lambda: dict(CLOUD.spot_prices),
        ("PUT", "prices"): lambda: _change(spot.set_prices, data),
        ("DELETE", "prices"): lambda: _change(CLOUD.spot_prices.clear),
        ("POST", "cost"): lambda: _do(meter.cost, data["region"]),
        ("GET", "quotas"): quotas.values,
        ("PUT", "quotas"): lambda: _change(quotas.set_values, data),
        ("DELETE", "quotas"): lambda: _change(CLOUD.quotas.clear),
        ("GET", "failing"): lambda: dict(+CLOUD.failing_launches),
        ("PUT", "failing"): lambda: _do(_set_failing, data),
        ("DELETE", "failing"): lambda: _do(CLOUD.failing_launches.clear),
        ("POST", "kill"): lambda: _do(_kill, data["instance"]),
        ("POST", "interrupt"): lambda: _do(_interrupt, data["instance"], data.get("notice", 0)),
        ("POST", "suspend"): lambda: _do(_suspend, data["group"], data["process"]),
        ("POST", "capacity_block"): lambda: _change(_reserve_block, data),
        ("POST", "console"): lambda: _do(_print, data["instance"], data["text"]),
        ("PUT", "guardduty"): lambda: _do(_monitor, data),
        ("PUT", "stale_parameters"): lambda: _do(_read_stale_parameters, data),
        ("PUT", "lookup_rate"): lambda: _do(_set_lookup_rate, data),
        ("GET", "delays"): lambda: asdict(CLOUD.delays),
        ("PUT", "delays"): lambda: _do(_set_delays, data),
        ("DELETE", "delays"): lambda: _do(_forget_delays),
        ("GET", "decisions"): lambda: list(CLOUD.decisions),
        ("DELETE", "decisions"): lambda: _do(CLOUD.decisions.clear),
        ("GET", "invocations"): lambda: _do(lambda: list(CLOUD.function_invocations)),
        ("GET", "parameters"): lambda: _do(RECORD.as_dict),
        ("PUT", "parameters"): lambda: _do(RECORD.start),
        ("GET", "calls"): cloud.recorded_calls,
        ("DELETE", "calls"): cloud.forget_calls,
        ("POST", "advance"): lambda: {"now": cloud.advance(_seconds("seconds", data["seconds"]))},
        ("POST", "reset"): cloud.restore,
    }
    if (method, name) not in handlers:
        raise UnknownRequest
    return handlers[method, name]()


def _health() -> dict[str, Any]:
    with CLOUD.lock:
        states = [each.state for each in instances()]
    return {"status": "ok", "instances": {state: states.count(state) for state in sorted(set(states))}}


def _change(change: Callable[..., Any], *arguments: Any) -> Any:
    """Change capacity, prices, or quotas, and let groups retry failed launches."""
    with CLOUD.lock:
        result = change(*arguments)
        retry_all()
    return result


def _do(action: Callable[..., Any], *arguments: Any) -> Any:
    with CLOUD.lock:
        return action(*arguments)


def _print(instance_id: str, text: str) -> None:
    if not isinstance(CLOUD.hosts, NoHosts):
        raise ValueError("console: the instance has a host, which prints on its console itself.")
    CLOUD.hosts.consoles[instance_id] = CLOUD.hosts.console_output(instance_id) + text


def _set_delays(changes: dict[str, float]) -> None:
    CLOUD.delays = CLOUD.delays.changed(changes)


def _forget_delays() -> None:
    CLOUD.delays = CLOUD.settings.delays


def _set_failing(counts: dict[str, int]) -> None:
    if any(isinstance(count, bool) or not isinstance(count, int) or count < 0 for count in counts.values()):
        raise ValueError("failing: the number of launches is not a whole number of at least 0.")
    CLOUD.failing_launches.update({each: count - CLOUD.failing_launches[each] for each, count in counts.items()})


def _kill(identifier: str) -> None:
    instance = _instance(identifier)
    if instance.state == "pending":
        instance.fail()
    else:
        instance.lose("The hardware of the instance has failed")


def _suspend(name: str, process: str) -> None:
    group = next((each for each in all_groups() if each.name == name), None)
    if group is None:
        raise ValueError(f"Unknown Auto Scaling group {name!r}.")
    group.suspension_reasons[process] = "Administrative suspension: launches have failed for more than 24 hours"


def _monitor(enabled: bool) -> None:
    CLOUD.monitored_by_guardduty = enabled


def _read_stale_parameters(enabled: bool) -> None:
    CLOUD.reads_stale_parameters = enabled


def _set_lookup_rate(rate: float | None) -> None:
    CLOUD.lookup_rate = None if rate is None else _seconds("lookup_rate", rate)


def _interrupt(identifier: str, notice: float) -> None:
    instance = _instance(identifier)
    if instance.market != SPOT:
        raise ValueError(f"{identifier} is not a Spot Instance.")
    instance.announce_interruption(_seconds("notice", notice))


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise ValueError(f"{name}: the value is not a number of seconds of at least 0.")
    return value


def _instance(identifier: str) -> Any:
    for instance in instances():
        if instance.id == identifier:
            return instance
    raise ValueError(f"Unknown instance {identifier!r}.")


def _reserve_block(wanted: dict[str, Any]) -> dict[str, str]:
    zone, day = wanted["zone"], timedelta(days=1).total_seconds()
    backend = ec2_backends[ACCOUNT][region_of(zone)]
    block = capacity_reservations.reserve_block(
        backend,
        wanted["type"],
        zone,
        wanted["count"],
        CLOUD.utcnow() + timedelta(seconds=wanted.get("start", 0)),
        timedelta(seconds=wanted.get("duration", day)),
    )
    block.add_tags(wanted.get("tags", {}))
    return {"id": block.id}
