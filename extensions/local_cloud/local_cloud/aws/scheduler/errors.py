"""Errors of EventBridge Scheduler."""

from __future__ import annotations

from moto.core.exceptions import JsonRESTError


class SchedulerError(JsonRESTError):
    """An error with a code and an HTTP status."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(code, message)
        self.code = status


def invalid(message: str) -> SchedulerError:
    """Return the error for a request that is not valid."""
    return SchedulerError("ValidationException", message, 400)


def unavailable(feature: str) -> SchedulerError:
    """Return the error for a feature that the local cloud lacks."""
    return SchedulerError("UnsupportedOperation", f"EventBridge Scheduler of the local cloud does not implement {feature}.", 400)


def conflict(message: str) -> SchedulerError:
    """Return the error for a name that is taken, and for a resource that is being deleted."""
    return SchedulerError("ConflictException", message, 409)


def unknown(message: str) -> SchedulerError:
    """Return the error for a resource that does not exist."""
    return SchedulerError("ResourceNotFoundException", message, 404)
