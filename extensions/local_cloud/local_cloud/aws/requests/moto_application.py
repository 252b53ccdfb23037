"""moto as a WSGI application."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from botocore.exceptions import ClientError
from moto.core.request import Request
from moto.moto_server import werkzeug_app
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from .calls import Environ, request

# Pages in a browser must not read responses.
werkzeug_app.DISABLE_GLOBAL_CORS = True


class MotoApplication(werkzeug_app.DomainDispatcherApplication):
    """moto's server application, and a faster way to the services in which one function responds to all requests.

    For each request, moto compares the name of the service with the names of all services, and then executes a Flask application. This
    takes as long as most actions.
    """

    def __init__(self) -> None:
        super().__init__(werkzeug_app.create_backend_app)
        self._functions: dict[tuple[str, str], Callable[[Request], tuple[int, dict[str, Any], Any]] | None] = {}

    def respond(self, environ: Environ, start: Callable[..., Any], service: str) -> Iterable[bytes]:
        """Return the response to a request for an action that the service has."""
        function = self._only_function(environ, service)
        if function is None:
            return self(environ, start)
        try:
            status, headers, content = function(request(environ))
        except ClientError as error:
            status, headers, content = 400, {}, error.response["Error"]["Message"]
        except HTTPException as error:
            return error(environ, start)
        return Response(content, status, headers)(environ, start)

    def _only_function(self, environ: Environ, service: str) -> Callable[[Request], tuple[int, dict[str, Any], Any]] | None:
        place = (service, environ.get("HTTP_X_AMZ_TARGET", "").partition(".")[0])
        if place not in self._functions:
            functions = {view.callback for view in self.get_application(environ).view_functions.values()}
            self._functions[place] = functions.pop() if len(functions) == 1 else None
        return self._functions[place]
