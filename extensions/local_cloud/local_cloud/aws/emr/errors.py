"""Errors of EMR."""

from __future__ import annotations

from moto.emr.exceptions import InvalidRequestException, ValidationException


def invalid(message: str) -> ValidationException:
    """Return the error for a request that is not valid."""
    return ValidationException(message)


def unknown(message: str) -> InvalidRequestException:
    """Return the error for a resource that does not exist."""
    return InvalidRequestException(message)
