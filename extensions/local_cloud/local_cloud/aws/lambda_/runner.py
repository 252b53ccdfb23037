"""Runs one invocation of a function, in a process of its own without the packages of the local cloud: runner.py FOLDER.

FOLDER contains the code (`task/`) and the request (`request.json`). The result is written to `result.json`. The process ends when its
standard input ends, so that it does not outlive the server.
"""

from __future__ import annotations

import datetime
import importlib
import json
import logging
import os
import sys
import threading
import time
import traceback
import types
from pathlib import Path
from typing import Any


class Context:
    """The context object of Lambda."""

    function_version = "$LATEST"
    identity = client_context = None

    def __init__(self, request: dict[str, Any]) -> None:
        self.function_name: str = request["name"]
        self.invoked_function_arn: str = request["arn"]
        self.memory_limit_in_mb: str = request["memory"]
        self.aws_request_id: str = request["id"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self._end = time.monotonic() + request["timeout"]

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int(1000 * (self._end - time.monotonic())))


def show_time(advanced: float) -> None:
    """Let modules that are imported from now on see a clock that has been advanced. Signatures need this machine's time."""
    importlib.import_module("boto3")
    importlib.import_module("botocore.auth")
    clock, dates = types.ModuleType("time"), types.ModuleType("datetime")
    clock.__dict__.update(vars(time))
    dates.__dict__.update(vars(datetime))

    def now() -> float:
        return time.time() + advanced

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, datetime.datetime)

    class Shown(datetime.datetime, metaclass=Kind):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Shown:
            return cls.fromtimestamp(now(), tz)

        @classmethod
        def today(cls) -> Shown:
            return cls.fromtimestamp(now())

        @classmethod
        def utcnow(cls) -> Shown:
            return cls.fromtimestamp(now(), datetime.UTC).replace(tzinfo=None)

    dates.__dict__["datetime"] = Shown
    clock.__dict__.update(
        time=now,
        time_ns=lambda: int(now() * 1e9),
        gmtime=lambda seconds=None: time.gmtime(now() if seconds is None else seconds),
        localtime=lambda seconds=None: time.localtime(now() if seconds is None else seconds),
        strftime=lambda text, moment=None: time.strftime(text, time.localtime(now()) if moment is None else moment),
    )
    sys.modules.update(time=clock, datetime=dates)


class Runtime(Exception):
    """A function that cannot be called. The arguments are the type and the message of the error."""


def load(handler: str) -> Any:
    """Return the handler of the function. Raises `Runtime`."""
    module, dot, name = handler.rpartition(".")
    if not dot:
        raise Runtime("Runtime.MalformedHandlerName", f"Bad handler '{handler}': not enough values to unpack (expected 2, got 1)")
    try:
        found = importlib.import_module(module.replace("/", "."))
    except ImportError as error:
        raise Runtime("Runtime.ImportModuleError", f"Unable to import module '{module}': {error}") from None
    except SyntaxError as error:
        raise Runtime("Runtime.UserCodeSyntaxError", f"Syntax error in module '{module}': {error}") from None
    if not hasattr(found, name):
        raise Runtime("Runtime.HandlerNotFound", f"Handler '{name}' missing on module '{module}'")
    return getattr(found, name)


def call(request: dict[str, Any]) -> tuple[bool, Any]:
    """Call the handler. Return whether it failed, and its result or the description of the error."""
    try:
        handler = load(request["handler"])
        limit(request)
        result = handler(request["event"], Context(request))
        try:
            json.dumps(result)
        except (TypeError, ValueError) as error:
            raise Runtime("Runtime.MarshalError", f"Unable to marshal response: {error}") from None
        return False, result
    except Runtime as error:
        kind, message = error.args
        lines = []
    except Exception as error:
        kind, message, lines = type(error).__name__, str(error), traceback.format_tb(error.__traceback__)[1:]
    print(f"[ERROR] {kind}: {message}", *(["Traceback (most recent call last):\n" + "".join(lines)] if lines else []), sep="\n")
    return True, {"errorMessage": message, "errorType": kind, "requestId": request["id"], "stackTrace": lines}


def limit(request: dict[str, Any]) -> None:
    """End the process when the timeout of the function has passed."""

    def end() -> None:
        message = f"RequestId: {request['id']} Error: Task timed out after {request['timeout']:.2f} seconds"
        print(message, flush=True)
        finish(True, {"errorType": "Sandbox.Timedout", "errorMessage": message})

    timer = threading.Timer(request["timeout"], end)
    timer.daemon = True
    timer.start()


def finish(failed: bool, result: Any) -> None:
    """Write the result, and end the process at once, whatever its threads do."""
    with _FINISHING:
        Path(sys.argv[1], "result.json").write_text(json.dumps({"failed": failed, "result": result}))
        sys.stdout.flush()
        os._exit(0)


def end_with_server() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> None:
    threading.Thread(target=end_with_server, daemon=True).start()
    request = json.loads(Path(sys.argv[1], "request.json").read_text())
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("[%(levelname)s]\t%(asctime)s\t%(message)s"))
    logging.getLogger().addHandler(handler)
    sys.path[0] = str(Path(sys.argv[1], "task"))
    if request["advanced"]:
        show_time(request["advanced"])
    finish(*call(request))


_FINISHING = threading.Lock()
if __name__ == "__main__":
    main()
