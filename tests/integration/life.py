"""The life of one cluster, in phases that several tests of a file share."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from .clusters import steps
from .conftest import run_module


class Life:
    """The phases of a cluster's life. A phase runs when a test needs its result, and each phase runs once.

    A fixture of a whole file cannot run the phases, because it would run before the fixtures that reset the account for each test. Tests
    are in the order of the phases. A test may change `options`, the options of the cluster.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.options, self.name = options, options["cluster"]

    @cached_property
    def predicted(self) -> dict[str, Any]:
        """The result of check mode before the cluster exists."""
        return run_module("cluster", **self.options, check=True)

    @cached_property
    def created(self) -> dict[str, Any]:
        assert self.predicted["changed"]
        return run_module("cluster", **self.options)

    @cached_property
    def deleted(self) -> dict[str, Any]:
        """The result of the deletion. Check mode predicts the deletion, and a second deletion changes nothing."""
        assert self.created["changed"]
        predicted = run_module("cluster", cluster=self.name, state="absent", check=True)
        result = run_module("cluster", cluster=self.name, state="absent")
        assert (steps(result), result["kept"]) == (steps(predicted), predicted["kept"])
        assert not run_module("cluster", cluster=self.name, state="absent")["changed"]
        return result

    @cached_property
    def created_again(self) -> dict[str, Any]:
        assert self.deleted["changed"]
        return run_module("cluster", **self.options)

    @cached_property
    def deleted_with_data(self) -> dict[str, Any]:
        assert self.created_again["changed"]
        return run_module("cluster", cluster=self.name, state="absent", delete_data=True)
