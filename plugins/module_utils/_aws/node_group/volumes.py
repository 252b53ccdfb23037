# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The EBS limits for root volumes. Performs no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..message_parts import P


class Limits(NamedTuple):
    """The limits of a volume type: maximum size in GiB, range of IOPS, maximum IOPS per GiB, and range of throughput in MiB/s."""

    most_size: int
    iops: tuple[int, int] | None = None
    iops_per_gib: int = 0
    throughput: tuple[int, int] | None = None


# https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
LIMITS: Mapping[str, Limits] = {
    "gp3": Limits(65536, (3000, 80000), 500, (125, 2000)),
    "gp2": Limits(16384),
    "io1": Limits(16384, (100, 64000), 50),
    "io2": Limits(65536, (100, 256000), 1000),
}
THROUGHPUT_SHARE = 4  # the minimum number of IOPS per MiB/s of throughput


def findings(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each problem with the root_volume options.

    Another validator checks the minimum size, which depends on the image.
    """
    kind, size = options["root_volume_type"], options["root_volume_size"]
    iops, throughput = options["root_volume_iops"], options["root_volume_throughput"]
    limits = LIMITS[kind]
    if size > limits.most_size:
        yield f"{P}root_volume_size: {size} GiB is too large for {kind} volumes. Specify at most {limits.most_size} GiB."
    yield from _out_of_range("root_volume_iops", iops, kind, limits.iops)
    yield from _out_of_range("root_volume_throughput", throughput, kind, limits.throughput)
    if iops is None:
        if limits.iops and kind != "gp3":
            yield f"{P}root_volume_iops: missing. Specify a number from {limits.iops[0]} to {limits.iops[1]} for {kind} volumes."
    elif limits.iops and iops > max(size * limits.iops_per_gib, limits.iops[0]):
        yield (
            f"{P}root_volume_iops: {iops} is too high for a volume of {size} GiB. "
            f"Specify at most {limits.iops_per_gib} IOPS per GiB for {kind} volumes."
        )
    if throughput and limits.throughput and limits.iops and throughput * THROUGHPUT_SHARE > (iops or limits.iops[0]):
        yield (
            f"{P}root_volume_throughput: {throughput} MiB/s requires at least {throughput * THROUGHPUT_SHARE} IOPS. "
            f"Set {P}root_volume_iops to that number or higher."
        )


def _out_of_range(option: str, value: int | None, kind: str, limits: tuple[int, int] | None) -> Iterator[str]:
    if value is None:
        return
    if limits is None:
        yield f"{P}{option}: {value} is not supported for {kind} volumes. Remove this option, or use gp3."
    elif not limits[0] <= value <= limits[1]:
        yield f"{P}{option}: {value} is out of range. Specify a number from {limits[0]} to {limits[1]} for {kind} volumes."
