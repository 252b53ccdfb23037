"""Invocations of functions: the function's code runs in a process of its own, with the credentials of its role.

Sources: AWS Lambda Developer Guide, "Defined runtime environment variables", "Building Lambda functions with Python" and "How Lambda
handles errors and retries with asynchronous invocation".
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from ..context import CLOUD
from ..iam.role_sessions import role_session
from . import runner
from .errors import LambdaError
from .functions import Function, check_environment, check_role, functions

LOG = logging.getLogger(__name__)
# Seconds from the start of the process until the function must be called: a busy machine takes long to import boto3.
LONGEST_START = 60
SESSION_SECONDS = 3600
LARGEST_LOG = 64 << 10
# Seconds until an asynchronous invocation that has failed is repeated.
RETRIES = (60, 120)
_running: set[subprocess.Popen[bytes]] = set()


class Result(NamedTuple):
    """The result of an invocation: what the function has returned, or the description of its error."""

    failed: bool
    value: Any
    log: str


class Event:
    """An asynchronous invocation, which is repeated if it fails."""

    def __init__(self, function: Function, event: Any) -> None:
        self._function, self._event = function, event
        self._id = str(uuid4())
        self._attempts = 0

    def attempt(self) -> None:
        """Let the thread that makes the calls of schedules invoke the function."""
        CLOUD.invocations.append(self)
        CLOUD.invoke.set()

    def run(self) -> str:
        """Invoke the function. Return '' if it succeeds, or the reason for its failure."""
        if functions(self._function.backend).get(self._function.name) is not self._function or self._function.concurrency == 0:
            return ""  # such an event is discarded, and not repeated
        try:
            result = invoke(self._function, self._event, self._id)
        except LambdaError as error:
            return str(error.message)
        except Exception as error:  # an error in one invocation must not prevent others
            LOG.exception("%s could not be invoked", self._function.arn)
            return f"{type(error).__name__}: {error}"
        return str(result.value) if result.failed else ""

    def conclude(self, failure: str) -> None:
        """Record the result of an attempt."""
        if failure:
            LOG.info("Attempt %d of the invocation of %s has failed: %s", self._attempts + 1, self._function.arn, failure)
        if failure and self._attempts < len(RETRIES):
            CLOUD.clock.after(RETRIES[self._attempts], self.attempt)
        self._attempts += 1


def invoke(function: Function, event: Any, request_id: str) -> Result:
    """Run a function, and record the invocation. Raises `LambdaError` if the function cannot run. The caller must not hold the lock."""
    with CLOUD.lock:
        if function.version is None:
            raise function.not_active()
        if function.concurrency == 0:
            raise LambdaError("TooManyRequestsException", "Rate Exceeded.", 429)
        version, moment = function.version, CLOUD.clock.now()
        check_role(function.backend, version.configuration["Role"])
        check_environment(function, version.configuration)
    with (
        role_session(function.backend, version.configuration["Role"], function.name, SESSION_SECONDS) as session,
        tempfile.TemporaryDirectory(prefix="function-") as name,
    ):
        folder = Path(name)
        with zipfile.ZipFile(io.BytesIO(version.code)) as archive:
            archive.extractall(folder / "task")
        request = {
            "advanced": moment - time.time() if moment - time.time() > 1 else 0,
            "arn": function.arn,
            "event": event,
            "handler": version.configuration["Handler"],
            "id": request_id,
            "memory": str(version.configuration["MemorySize"]),
            "name": function.name,
            "timeout": version.configuration["Timeout"],
        }
        (folder / "request.json").write_text(json.dumps(request))
        result = _run(folder, request, _environment(function, version.configuration, session, folder))
    record = {"function": function.arn, "request_id": request_id, "time": moment, "event": event, **result._asdict()}
    CLOUD.function_invocations.append(record)
    LOG.info("%s\n%s", function.arn, result.log)
    return result


def stop_all() -> None:
    """End all invocations that are running."""
    for process in list(_running):
        _kill(process)


def _run(folder: Path, request: dict[str, Any], environment: dict[str, str]) -> Result:
    started = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", runner.__file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder / "task",
            env=environment,
            start_new_session=True,
        )
    _running.add(process)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LONGEST_START + request["timeout"])
    finally:
        _kill(process)
        process.communicate()
        _running.discard(process)
    with (folder / "log").open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LARGEST_LOG))
        output = file.read().decode(errors="replace")
    identifier = request["id"]
    log_text = f"START RequestId: {identifier} Version: $LATEST\n{output}END RequestId: {identifier}\nREPORT RequestId: {identifier}"
    log_text += f"\tDuration: {1000 * (time.monotonic() - started):.2f} ms\n"
    try:
        found = json.loads((folder / "result.json").read_text())
    except (OSError, ValueError):
        message = f"RequestId: {identifier} Error: Runtime exited with error: exit status {process.returncode}"
        return Result(True, {"errorType": "Runtime.ExitError", "errorMessage": message}, log_text)
    return Result(found["failed"], found["result"], log_text)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End an invocation with all processes that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _environment(function: Function, configuration: dict[str, Any], session: Any, folder: Path) -> dict[str, str]:
    region = function.backend.region_name
    return {
        **(configuration.get("Environment") or {}).get("Variables", {}),
        "AWS_ACCESS_KEY_ID": session.access_key_id,
        "AWS_SECRET_ACCESS_KEY": session.secret_access_key,
        "AWS_SESSION_TOKEN": session.session_token,
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": region,
        "AWS_ENDPOINT_URL": CLOUD.endpoint,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{configuration['Runtime']}",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(configuration["MemorySize"]),
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local-cloud",
        "_HANDLER": configuration["Handler"],
        "HOME": str(folder),  # without this user's AWS configuration
        "LAMBDA_TASK_ROOT": str(folder / "task"),
        "LANG": "en_US.UTF-8",
        "PATH": os.defpath,
        "TZ": ":UTC",
    }
