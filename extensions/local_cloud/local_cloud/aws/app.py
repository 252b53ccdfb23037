"""The AWS API as a WSGI application, and the thread that runs delayed changes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from moto.core.base_backend import BackendDict
from moto.ec2.models import ec2_backends
from werkzeug.serving import BaseWSGIServer, make_server

from ..host_interface import HostInterface
from . import apply_overrides, control_api, persistence  # noqa: F401
from .access.authorization import authorize
from .access.check import authenticate
from .access.identities import Identity
from .autoscaling.groups import reconcile_all, retry_all
from .capacity import Capacity
from .cloudtrail import events
from .context import ACCOUNT, CLOUD
from .ec2.instance_lifecycle import InstanceLifecycle
from .emr import clusters as emr_clusters
from .pricing import api as price_list
from .requests import calls, errors, origin_check
from .requests.client_tokens import ClientTokens
from .requests.connections import RequestHandler
from .requests.faults import Faults, Rule
from .requests.held_calls import HeldCalls
from .requests.moto_application import MotoApplication
from .requests.refusal import Refusal
from .requests.throttling import Throttling
from .scheduler.invoker import Invoker
from .settings import Settings
from .validation import validate

LOG = logging.getLogger(__name__)
HOST = "127.0.0.1"
KEPT_CALLS = 100_000
# Actions that wait for a host or for a function, and therefore run without the local cloud's lock.
WITHOUT_LOCK = {"GetConsoleOutput", "Invoke"}


class AwsApi:
    """The WSGI application, and the threads that poll hosts, run delayed changes, reconcile groups and clusters, and invoke targets."""

    def __init__(self, hosts: HostInterface, settings: Settings) -> None:
        BackendDict.reset()
        CLOUD.use(hosts, settings)
        CLOUD.lifecycle = InstanceLifecycle()
        self.faults = Faults()
        self._throttling = Throttling()
        self.held_calls = HeldCalls()
        self._moto = MotoApplication()
        self._regions = {"aws-global", *ec2_backends[ACCOUNT].regions}
        self._tokens = ClientTokens()
        self._calls: list[dict[str, Any]] = []
        self._closing = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="ticker", daemon=True)
        self._ticker.start()
        self._invoker = Invoker(self)

    @property
    def capacity(self) -> Capacity:
        """Return the capacity limits for instance types and zones."""
        return CLOUD.capacity

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith(control_api.PREFIX):
            return control_api.answer(self, environ, start)
        if origin_check.is_moto_path(environ["PATH_INFO"]):
            start("404 Not Found", [("Content-Length", "0")])
            return []
        call = calls.identify(environ)
        if call.region and call.region not in self._regions:
            message = f"Credential should be scoped to a valid region, not '{call.region}'."
            return errors.send(start, environ, call, "SignatureDoesNotMatch", message, 403)
        identity = authenticate(environ, call)
        if isinstance(identity, Refusal):
            return errors.send(start, environ, call, *identity)
        record, answer = self._record(call), list[Any]()
        body = b"".join(self._answer(environ, lambda *line: answer.extend(line), call, identity, record))
        # CloudTrail has the parameters of calls that EC2 has refused, too
        refused = calls.parameters(environ, call) if call.service == "ec2" and not (call.read_only or record["parameters"]) else None
        events.record(environ, call, identity, refused[1] if refused else record["parameters"], answer[0], body)
        start(*answer)
        return [body]

    def _answer(
        self, environ: dict[str, Any], start: Callable[..., Any], call: calls.Call, identity: Identity, record: dict[str, Any]
    ) -> Iterable[bytes]:
        """Respond to a call with a valid signature."""
        refusal = authorize(environ, call, identity)
        if refusal:
            return errors.send(start, environ, call, *refusal)
        if self._throttling.refuses(call):
            return errors.send(start, environ, call, "RequestLimitExceeded", "Request limit exceeded.", 503)
        application = self._application(call, record)
        fault = self.faults.find(call)
        if fault:
            return self._answer_with(fault, application, environ, start, call)
        return errors.with_clean_errors(application, environ, start, call)

    def recorded_calls(self) -> list[dict[str, Any]]:
        """Return the latest `KEPT_CALLS` API calls, including calls with faults: service, region, action, `read_only`, and parameters.

        Only calls that change something and that were executed have parameters. Calls to S3 have none.
        """
        return list(self._calls)

    def forget_calls(self) -> None:
        self._calls.clear()

    def restore(self) -> None:
        """Clear recorded calls, faults, limits, prices, quotas and changed delays, set the clock, and resume held calls.

        Resources are kept.
        """
        self.forget_calls()
        self.faults.set([])
        self.held_calls.resume()
        with CLOUD.lock:
            CLOUD.function_invocations.clear()
            CLOUD.delays = CLOUD.settings.delays
            CLOUD.capacity.clear()
            CLOUD.monitored_by_guardduty = CLOUD.reads_stale_parameters = False
            CLOUD.lookup_rate = None
            CLOUD.clock.reset()
            for settings in (CLOUD.spot_prices, CLOUD.quotas, CLOUD.failing_launches, CLOUD.unread_parameters):
                settings.clear()
            retry_all()

    def advance(self, seconds: float) -> float:
        """Advance the clock, make the delayed calls that become due, the calls of schedules and the invocations of functions, in order.

        Return the clock's time. Waits until these calls are done, but not for what follows from them, such as the termination of instances.
        """
        with CLOUD.lock:
            end = CLOUD.clock.now() + seconds
        self._invoker.make_calls()
        while True:
            with CLOUD.lock:
                has_next = CLOUD.clock.step(end)
            self._invoker.make_calls()
            if not has_next:
                return end

    def save(self, path: Path) -> None:
        """Save the state to a file."""
        persistence.save(path)

    def load(self, path: Path) -> None:
        """Replace the state with the contents of a file that `save` wrote, then reconcile hosts."""
        persistence.load(path)
        self.reconcile()

    def reconcile(self) -> None:
        """Make hosts match their instances: start hosts that are down. Finish interrupted actions, and repeat calls of schedules."""
        CLOUD.lifecycle.recover()
        CLOUD.invoke.set()

    def close(self) -> None:
        """Stop the thread and drop held calls. Hosts keep running."""
        self._closing.set()
        self.held_calls.resume(execute=False)
        CLOUD.wake.set()
        self._ticker.join()
        self._invoker.close()
        CLOUD.lifecycle.close()

    def _answer_with(
        self, fault: Rule, application: calls.Application, environ: dict[str, Any], start: Callable[..., Any], call: calls.Call
    ) -> Iterable[bytes]:
        """Respond to a call to which a fault applies."""
        time.sleep(fault.latency)
        if fault.pause == "before" and not self.held_calls.hold(call, fault.pause, environ):
            return errors.send(start, environ, call, "InternalError", "The request was lost before it was executed.", 500)
        answer: list[Any] = []
        body: Iterable[bytes] = []
        if fault.after or not fault.code:
            body = errors.with_clean_errors(application, environ, lambda *line: answer.extend(line), call)
        if fault.pause == "after":
            self.held_calls.hold(call, fault.pause, environ)
        if fault.code:
            return errors.send(start, environ, call, fault.code, fault.message, fault.status)
        start(*answer)
        return body

    def _application(self, call: calls.Call, record: dict[str, Any]) -> calls.Application:
        """Return the application that executes a call, and adds the call's parameters to its record."""

        def checked(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            parsed = calls.parameters(environ, call)
            if parsed and not call.read_only:
                record["parameters"] = parsed[1]
            refusal = validate.validate(call, *parsed) if parsed else None
            if refusal:
                return errors.send(start, environ, call, *refusal)
            if call.service == price_list.SERVICE:
                return price_list.answer(environ, start)
            moto = partial(self._moto.respond, service=call.service) if parsed else self._moto
            if call.action in WITHOUT_LOCK:
                return moto(environ, start)
            with CLOUD.lock:
                return [b"".join(self._tokens.answer(moto, environ, start, call))]

        return checked

    def _record(self, call: calls.Call) -> dict[str, Any]:
        """Record a call, and return the record."""
        record = {**asdict(call), "read_only": call.read_only, "parameters": None}
        self._calls.append(record)
        del self._calls[:-KEPT_CALLS]
        return record

    def _tick(self) -> None:
        while not self._closing.is_set():
            CLOUD.wake.wait(CLOUD.settings.tick)
            CLOUD.wake.clear()
            try:
                CLOUD.lifecycle.poll()
                with CLOUD.lock:
                    CLOUD.clock.run_due()
                    reconcile_all()
                    emr_clusters.reconcile_all()
            except Exception:
                LOG.exception("An iteration of the background thread failed")


def create(hosts: HostInterface, settings: Settings | None = None) -> AwsApi:
    """Return an empty local cloud. A process has one local cloud at a time, because moto keeps its state in globals."""
    return AwsApi(hosts, settings or Settings())


def serve(cloud: calls.Application, port: int = 0) -> BaseWSGIServer:
    """Return a server on 127.0.0.1, bound and ready for `serve_forever()`. Port 0 selects a free port: see `server_port`."""
    server = make_server(HOST, port, origin_check.refuse_foreign_origins(cloud), threaded=True, request_handler=RequestHandler)
    CLOUD.endpoint = f"http://{HOST}:{server.server_port}"
    return server
