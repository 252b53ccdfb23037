"""How many instances of a type a zone can hold, in each market."""

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
Limits = Mapping[str, Mapping[str, int | Mapping[str, int | None] | None]]
"""{type: {zone: limit}} for On-Demand Instances, or {type: {zone: {market: limit}}}; None lifts a limit."""


class Capacity:
    """Limits per instance type, zone and market. What has no limit is unlimited; changing a limit touches no running instance."""

    def __init__(self) -> None:
        self._limits: dict[tuple[str, str, str], int] = {}

    def set(self, instance_type: str, zone: str, market: str, limit: int | None) -> None:
        """Let the zone hold this many live instances of the type; None for any number."""
        if market not in LIMITED_MARKETS:
            raise ValueError(f"the capacity for {instance_type} in {zone} is for {market!r}, not for {' or '.join(LIMITED_MARKETS)}")
        if limit is None:
            self._limits.pop((instance_type, zone, market), None)
        elif isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise ValueError(f"the capacity for {instance_type} in {zone} is {limit!r}, not a number from 0 up or null")
        else:
            self._limits[instance_type, zone, market] = limit

    def update(self, limits: Limits) -> None:
        """Set many limits."""
        for instance_type, zones in limits.items():
            for zone, limit in zones.items():
                for market, value in (limit if isinstance(limit, Mapping) else {ON_DEMAND: limit}).items():
                    self.set(instance_type, zone, market, value)

    def clear(self) -> None:
        self._limits.clear()

    def as_dict(self) -> dict[str, dict[str, dict[str, int]]]:
        """The limits as {type: {zone: {market: limit}}}."""
        result: dict[str, dict[str, dict[str, int]]] = {}
        for (instance_type, zone, market), limit in sorted(self._limits.items()):
            result.setdefault(instance_type, {}).setdefault(zone, {})[market] = limit
        return result

    def has_room(self, instance_type: str, zone: str, market: str, count: int, live: Iterable[tuple[str, str, str]]) -> bool:
        """Whether the zone takes `count` more of the type, `live` being (type, zone, market) of every live instance."""
        wanted = (instance_type, zone, market)
        limit = self._limits.get(wanted)
        return limit is None or sum(1 for each in live if each == wanted) + count <= limit
