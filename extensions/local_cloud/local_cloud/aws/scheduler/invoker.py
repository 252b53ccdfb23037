"""Makes the calls of schedules, as the schedule's role and through the same checks as calls from outside, and invokes functions."""

from __future__ import annotations

import json
import logging
import threading
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session
from moto.core.botocore_stubber import MockRawResponse
from werkzeug.test import create_environ, run_wsgi_app

from ..context import CLOUD
from ..iam.role_sessions import role_session
from ..lambda_ import invocations
from . import targets
from .errors import SchedulerError
from .schedules import Occurrence, check_role

LOG = logging.getLogger(__name__)
ENDPOINT = "http://127.0.0.1"
SESSION_SECONDS = 900


@cache
def _session() -> Session:
    """Return the session whose clients share the models of services, which take long to load, and the credentials of the present call."""
    session = Session()
    session.set_credentials("", "", "")
    return session


class Invoker:
    """A thread that makes the calls and invocations that are due, one after the other. One that takes long holds back only these."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="invoker", daemon=True)
        self._thread.start()

    def make_calls(self) -> None:
        """Make the calls that are due, and wait until they are done."""
        with self._lock:
            while CLOUD.invocations and not self._closing.is_set():
                # While the call is made, it is still listed: a server that starts from a snapshot makes it again
                queue = CLOUD.invocations  # loading a snapshot replaces it
                occurrence = queue[0]
                failure = occurrence.run() if isinstance(occurrence, invocations.Event) else self._invoke(occurrence)
                with CLOUD.lock:
                    queue.popleft()
                    occurrence.conclude(failure)

    def close(self) -> None:
        """Stop the thread after its current call, and end the invocations of functions."""
        self._closing.set()
        invocations.stop_all()
        CLOUD.invoke.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            CLOUD.invoke.wait()
            CLOUD.invoke.clear()
            if self._closing.is_set():
                return
            self.make_calls()

    def _invoke(self, occurrence: Occurrence) -> str:
        """Make one call. Return '' if it succeeds, or the reason for its failure."""
        schedule = occurrence.schedule
        backend, target = schedule.backend, occurrence.definition["Target"]
        try:
            with CLOUD.lock:
                check_role(backend, schedule.group_name, target["RoleArn"])
            service, operation, parameters = targets.call(target["Arn"], _text(occurrence))
            with role_session(backend, target["RoleArn"], f"schedule-{schedule.name}", SESSION_SECONDS) as session:
                keys = _session().get_credentials()
                keys.access_key, keys.secret_key, keys.token = session.access_key_id, session.secret_access_key, session.session_token
                self._client(service, backend.region_name)._make_api_call(operation, parameters)
        except (BotoCoreError, ClientError, SchedulerError) as error:
            return str(error)
        except Exception as error:  # an error in one call must not prevent the calls of other schedules
            LOG.exception("The call of %s could not be made", schedule.arn)
            return f"{type(error).__name__}: {error}"
        return ""

    def _client(self, service: str, region: str) -> Any:
        if (service, region) not in self._clients:
            client = _session().create_client(service, region, endpoint_url=ENDPOINT, config=Config(retries={"total_max_attempts": 1}))
            client.meta.events.register("before-send", partial(_send, self._api))
            self._clients[service, region] = client
        return self._clients[service, region]


def _text(occurrence: Occurrence) -> str:
    """Return the input of the target with its context attributes. A function without an input gets a notification."""
    due, backend = f"{datetime.fromtimestamp(occurrence.due, UTC):%Y-%m-%dT%H:%M:%SZ}", occurrence.schedule.backend
    notification = {
        "version": "0",
        "id": str(uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": backend.account_id,
        "time": due,
        "region": backend.region_name,
        "resources": [occurrence.schedule.arn],
        "detail": "{}",
    }
    text = str(occurrence.definition["Target"].get("Input") or json.dumps(notification))
    values = {
        "schedule-arn": occurrence.schedule.arn,
        "scheduled-time": due,
        "execution-id": uuid4().hex[:16],
        "attempt-number": str(occurrence.attempts + 1),
    }
    for name, value in values.items():
        text = text.replace(f"<aws.scheduler.{name}>", value)
    return text


def _send(api: Any, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
    """Let the WSGI application respond to a signed request."""
    parts = urlsplit(request.url)
    uri = parts.path + (f"?{parts.query}" if parts.query else "")
    headers = {name: value.decode() if isinstance(value, bytes) else str(value) for name, value in request.headers.items()}
    environ = create_environ(parts.path, ENDPOINT, query_string=parts.query, method=request.method, headers=headers, data=request.body)
    content, status, answered = run_wsgi_app(api, {**environ, "REQUEST_URI": uri}, buffered=True)
    return AWSResponse(request.url, int(status[:3]), dict(answered), MockRawResponse(b"".join(content)))
