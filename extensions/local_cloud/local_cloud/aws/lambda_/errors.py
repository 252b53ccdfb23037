"""Errors of Lambda."""

from __future__ import annotations

from moto.core.exceptions import JsonRESTError


class LambdaError(JsonRESTError):
    """An error with a code and an HTTP status."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(code, message)
        self.code = status


def invalid(message: str) -> LambdaError:
    """Return the error for a request that is not valid."""
    return LambdaError("InvalidParameterValueException", message, 400)


def unavailable(feature: str) -> LambdaError:
    """Return the error for a feature that the local cloud lacks."""
    return LambdaError("UnsupportedOperation", f"Lambda of the local cloud does not implement {feature}.", 400)


def conflict(message: str) -> LambdaError:
    """Return the error for a name that is taken, and for a function that is not ready for the request."""
    return LambdaError("ResourceConflictException", message, 409)


def unknown(message: str) -> LambdaError:
    """Return the error for a function that does not exist."""
    return LambdaError("ResourceNotFoundException", message, 404)
