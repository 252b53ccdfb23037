"""How parts of moto are replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def override(owner: object) -> Callable[[Function], Function]:
    """Make the decorated function the attribute of the same name of `owner`, a class or module of moto."""

    def install(function: Function) -> Function:
        setattr(owner, function.__name__, function)
        return function

    return install
