"""The number of instances for which each Availability Zone has capacity, by instance type and market."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ON_DEMAND = "on-demand"
SPOT = "spot"
CAPACITY_BLOCK = "capacity-block"
LIMITED_MARKETS = (ON_DEMAND, SPOT)
MESSAGES = {
    ON_DEMAND: (
        "We currently do not have sufficient {type} capacity in the Availability Zone you requested ({zone}). "
        "Our system will be working on provisioning additional capacity. You can currently get {type} capacity by "
        "not specifying an Availability Zone in your request or choosing another Availability Zone."
    ),
    SPOT: "There is no Spot capacity available that matches your request.",
}
# `{type: {zone: limit}}` for On-Demand Instances, or `{type: {zone: {market: limit}}}`. None removes a limit.
Limits = Mapping[str, Mapping[str, int | Mapping[str, int | None] | None]]


class Capacity:
    """Limits by instance type, zone, and market. Without a limit, capacity is unlimited. A new limit does not affect running instances."""

    def __init__(self) -> None:
        self._limits: dict[tuple[str, str, str], int] = {}

    def set(self, instance_type: str, zone: str, market: str, limit: int | None) -> None:
        """Limit the number of live instances of the type in the zone. None removes the limit."""
        if market not in LIMITED_MARKETS:
            raise ValueError(f"Capacity of {instance_type} in {zone}: unknown market {market!r}. Use {' or '.join(LIMITED_MARKETS)}.")
        if limit is None:
            self._limits.pop((instance_type, zone, market), None)
        elif isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise ValueError(
                f"Capacity of {instance_type} in {zone}: {limit!r} is not a whole number of at least 0. Use null for no limit."
            )
        else:
            self._limits[instance_type, zone, market] = limit

    def update(self, limits: Limits) -> None:
        """Set several limits."""
        for instance_type, zones in limits.items():
            for zone, limit in zones.items():
                for market, value in (limit if isinstance(limit, Mapping) else {ON_DEMAND: limit}).items():
                    self.set(instance_type, zone, market, value)

    def clear(self) -> None:
        self._limits.clear()

    def as_dict(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return the limits as `{type: {zone: {market: limit}}}`."""
        result: dict[str, dict[str, dict[str, int]]] = {}
        for (instance_type, zone, market), limit in sorted(self._limits.items()):
            result.setdefault(instance_type, {}).setdefault(zone, {})[market] = limit
        return result

    def has_room(self, instance_type: str, zone: str, market: str, count: int, live: Iterable[tuple[str, str, str]]) -> bool:
        """Return whether the zone has capacity for `count` more instances. `live` contains (type, zone, market) for every live instance."""
        wanted = (instance_type, zone, market)
        limit = self._limits.get(wanted)
        return limit is None or sum(1 for each in live if each == wanted) + count <= limit
