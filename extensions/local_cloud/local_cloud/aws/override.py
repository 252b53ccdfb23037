"""Replaces parts of moto."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def override(owner: object) -> Callable[[Function], Function]:
    """In `owner`, a class or module of moto, replace the attribute with the name of the decorated function."""

    def install(function: Function) -> Function:
        setattr(owner, function.__name__, function)
        return function

    return install


def check_before(owner: type, action: str, check: Callable[[Any], None]) -> None:
    """Call `check(response)` before the method `action` of `owner`, a response class of moto. `check` raises the service's error."""
    moto_call = getattr(owner, action)

    def call(self: Any) -> Any:
        check(self)
        return moto_call(self)

    call.__name__ = action
    override(owner)(call)
