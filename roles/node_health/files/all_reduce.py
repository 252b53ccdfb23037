"""Measures the bandwidth of all-reduce across all nodes, and in pairs of nodes. Fails if nodes are slow, and names them.

playbooks/all_reduce.yml runs this script as a job: torchrun starts one rank for each GPU, or one rank on each node without GPUs. The
bandwidth of a node is that of its fastest pair. Each partner of a slow node is also in a pair with another node, so only the slow node has
no fast pair.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Mapping, Sequence

# Number of rounds. In each round, each node is in at most one pair, and all pairs measure at the same time.
ROUNDS = 4

# Number of measurements in each pair. The fastest one counts, because the first one also establishes the connections, and other processes
# delay the others.
REPEATS = 10

# Seconds after which an all-reduce has failed, and after which measurements in a pair are not repeated.
TIMEOUT = 120

# Seconds for which ranks wait for the results of other ranks. A pair measures for up to TIMEOUT. After that, it can still agree to repeat
# the measurement, repeat it, and agree to stop. Each of these steps can take up to TIMEOUT.
SHARE_TIMEOUT = 5 * TIMEOUT


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Return the pairs of `count` nodes for each round. Two nodes are in the same pair only once (round-robin tournament)."""
    nodes = list(range(count + count % 2))
    found = []
    for _number in range(min(ROUNDS, len(nodes) - 1)):
        half = len(nodes) // 2
        found.append([(min(pair), max(pair)) for pair in zip(nodes[:half], reversed(nodes[half:])) if max(pair) < count])
        nodes[1:] = [nodes[-1], *nodes[1:-1]]
    return found


def bandwidths(pairs: Mapping[tuple[int, int], float], count: int) -> list[float]:
    """Return the bandwidth of each node, from the bandwidths of the pairs. The bandwidth of a node without a pair is infinite."""
    return [max((rate for pair, rate in pairs.items() if node in pair), default=float("inf")) for node in range(count)]


def complaints(names: Sequence[str], pairs: Mapping[tuple[int, int], float], total: float, minimum: float, share: float) -> list[str]:
    """Return a sentence about each slow node, and about the all-reduce across all nodes if it failed. Bandwidths are in Gbit/s.

    A node is slow if its bandwidth is 0, less than `minimum`, or less than a `share` of the median of all nodes. `total` is the bandwidth
    across all nodes.
    """
    found = bandwidths(pairs, len(names))
    usual = statistics.median(found)
    failed = f"failed or took longer than {TIMEOUT} s"
    sentences = [] if total else [f"all {len(names)} nodes: all-reduce {failed}."]
    for name, rate in zip(names, found):
        if not rate:
            sentences.append(f"{name}: all-reduce with each other node {failed}.")
        elif rate < share * usual:
            sentences.append(f"{name}: all-reduce reaches {rate:.3g} Gbit/s, but the median of all nodes is {usual:.3g} Gbit/s.")
        elif rate < minimum:
            sentences.append(f"{name}: all-reduce reaches {rate:.3g} Gbit/s, less than the minimum of {minimum:g} Gbit/s.")
    return sentences


def bus_bandwidth(size: int, ranks: int, seconds: float) -> float:
    """Return the bus bandwidth of an all-reduce of `size` bytes in Gbit/s, which can be compared across numbers of ranks.

    Source: the definition of `busbw` in the documentation of nccl-tests.
    """
    return 2 * (ranks - 1) / ranks * size * 8 / seconds / 1e9


class Measurement:
    """The ranks of this job, and all-reduces between them."""

    def __init__(self, megabytes: float) -> None:
        import torch  # the functions above do not need it

        self.torch, self.distributed = torch, torch.distributed
        # An NCCL operation that exceeds the timeout raises an exception in this process.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        self.device = torch.device("cpu")
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        self.distributed.init_process_group(backend, timeout=timedelta(seconds=SHARE_TIMEOUT))
        self.rank, self.size = self.distributed.get_rank(), self.distributed.get_world_size()
        self.local = int(os.environ["LOCAL_WORLD_SIZE"])
        self.bytes = int(megabytes * (1 << 20))

    def group(self, ranks: Sequence[int]) -> Any:
        """Return a group of these ranks. All ranks of the job must take part in the creation of each group."""
        return self.distributed.new_group(ranks, timeout=timedelta(seconds=TIMEOUT))

    def reduce(self, ranks: int, group: Any) -> float:
        """Return the bandwidth in Gbit/s of an all-reduce between the ranks of a group, or 0 if the all-reduce fails."""
        tensor = self.torch.zeros(self.bytes // 4, device=self.device)
        fastest, begin = float("inf"), time.perf_counter()
        try:
            for _number in range(REPEATS):
                # The ranks start each measurement together, and stop after the same measurement.
                spent = self.torch.tensor([time.perf_counter() - begin], device=self.device)
                self.wait(self.distributed.all_reduce(spent, op=self.distributed.ReduceOp.MAX, group=group, async_op=True))
                if spent.item() > TIMEOUT:
                    break
                start = time.perf_counter()
                self.wait(self.distributed.all_reduce(tensor, group=group, async_op=True))
                tensor[0].item()  # waits for the GPU
                fastest = min(fastest, time.perf_counter() - start)
        except RuntimeError as error:
            print(f"all-reduce failed: {error}", flush=True)
            return 0.0
        return bus_bandwidth(self.bytes, ranks, fastest)

    @staticmethod
    def wait(operation: Any) -> None:
        """Wait for an operation. Raises RuntimeError after TIMEOUT. gloo itself does so only if no data arrives during this time."""
        operation.wait(timedelta(seconds=TIMEOUT))

    def share(self, found: Any) -> list[Any]:
        """Send `found` to all ranks, and return the values from all ranks, in the order of the ranks."""
        everything: list[Any] = [None] * self.size
        self.distributed.all_gather_object(everything, found)
        return everything

    def of_node(self, node: int) -> list[int]:
        """Return the ranks of a node."""
        return list(range(node * self.local, (node + 1) * self.local))

    def total(self) -> float:
        """Return the bandwidth across all ranks, which is that of the slowest rank. The bandwidth of a single rank is infinite."""
        group = self.group(range(self.size))
        return float(min(self.share(self.reduce(self.size, group)))) if self.size > 1 else float("inf")

    def pairs(self, count: int) -> dict[tuple[int, int], float]:
        """Return the bandwidth of each pair of nodes. The bandwidth of a pair is that of its slowest rank."""
        found: dict[tuple[int, int], float] = {}
        for chosen in rounds(count):
            own = {}
            groups = {pair: self.group([*self.of_node(pair[0]), *self.of_node(pair[1])]) for pair in chosen}
            for pair, group in groups.items():
                if self.rank // self.local in pair:
                    own[pair] = self.reduce(2 * self.local, group)
            for pair, rate in itertools.chain.from_iterable(each.items() for each in self.share(own)):
                found[pair] = min(rate, found.get(pair, rate))
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=64, help="size of the all-reduce (default: %(default)s MiB)")
    parser.add_argument("--minimum", type=float, default=0, help="minimum bandwidth of a node, in Gbit/s (default: %(default)s)")
    parser.add_argument("--share", type=float, default=0.5, help="minimum share of the median bandwidth (default: %(default)s)")
    options = parser.parse_args()
    names = [line.split()[0] for line in Path(os.environ["DEEPLEARNING_HOSTFILE"]).read_text().splitlines()]
    measurement = Measurement(options.megabytes)
    total, found = measurement.total(), measurement.pairs(len(names))
    measurement.distributed.destroy_process_group()
    if measurement.rank:
        return
    if 0 < total < float("inf"):
        print(f"all {len(names)} nodes: {total:.3g} Gbit/s")
    for (first, second), rate in sorted(found.items()):
        print(f"{names[first]} and {names[second]}: {rate:.3g} Gbit/s")
    slow = complaints(names, found, total, options.minimum, options.share)
    if slow:
        sys.exit("\n".join(slow))


if __name__ == "__main__":
    main()
