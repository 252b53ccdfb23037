# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""First stage: read the existing resources."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from ..component import Component, Request
from ..plan.resources import Found
from .components import components_to_read


def read_all(request: Request) -> list[Found]:
    """Return all existing resources of the cluster, including adopted ones."""
    components = components_to_read(request.components)
    results: dict[str, Future[list[Found]]] = {}

    def read(component: Component) -> list[Found]:
        return component.read(request, [item for name in component.reads_after for item in results[name].result()])

    with ThreadPoolExecutor(len(components)) as pool:
        for component in components:
            results[component.name] = pool.submit(read, component)
        return [item for result in results.values() for item in result.result()]
