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
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Mapping, NoReturn, Sequence

# Number of rounds. In each round, each node is in at most one pair, and all pairs measure at the same time.
ROUNDS = 4

# Number of measurements in each pair. The fastest one counts, because the first one also establishes the connections, and other processes
# delay the others.
REPEATS = 10

# Ranks wait for the results of other ranks for this many times the time limit of an all-reduce. A pair measures for up to the time limit.
# After that, it can still agree to repeat the measurement, repeat it, and agree to stop. Each of these steps can take up to the time limit.
SHARE_TIMEOUTS = 5

# Seconds that an all-reduce may exceed its time limit before it counts as blocked.
PATIENCE = 5


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


def complaints(names: Sequence[str], pairs: Mapping[tuple[int, int], float], total: float, options: argparse.Namespace) -> list[str]:
    """Return a sentence about each slow node, and about the all-reduce across all nodes if it failed. Bandwidths are in Gbit/s.

    A node is slow if its bandwidth is 0, less than `options.minimum`, or less than `options.share` of the median of all nodes. `total` is
    the bandwidth across all nodes.
    """
    found = bandwidths(pairs, len(names))
    usual = statistics.median(found)
    failed = f"failed or took longer than {options.timeout:g} s"
    sentences = [] if total else [f"all {len(names)} nodes: all-reduce {failed}."]
    for name, rate in zip(names, found):
        if not rate:
            sentences.append(f"{name}: all-reduce with each other node {failed}.")
        elif rate < options.share * usual:
            sentences.append(f"{name}: all-reduce reaches {rate:.3g} Gbit/s, but the median of all nodes is {usual:.3g} Gbit/s.")
        elif rate < options.minimum:
            sentences.append(f"{name}: all-reduce reaches {rate:.3g} Gbit/s, less than the minimum of {options.minimum:g} Gbit/s.")
    return sentences


def bus_bandwidth(size: int, ranks: int, seconds: float) -> float:
    """Return the bus bandwidth of an all-reduce of `size` bytes in Gbit/s, which can be compared across numbers of ranks.

    Source: the definition of `busbw` in the documentation of nccl-tests.
    """
    return 2 * (ranks - 1) / ranks * size * 8 / seconds / 1e9


class Measurement:
    """The ranks of this job, and all-reduces between them.

    The ranks share their results over TCP with gloo, so that a rank whose NCCL or adapter fails can report this.
    """

    def __init__(self, megabytes: float, timeout: float) -> None:
        import torch  # the functions above do not need it

        self.torch, self.distributed = torch, torch.distributed
        # An NCCL operation that exceeds the timeout raises an exception in this process, and does not end this process.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        os.environ.setdefault("TORCH_NCCL_ENABLE_MONITORING", "0")
        self.timeout = timedelta(seconds=timeout)
        self.device = torch.device("cpu")
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)
        self.backend = "nccl" if torch.cuda.is_available() else "gloo"
        self.distributed.init_process_group("gloo", timeout=SHARE_TIMEOUTS * self.timeout)
        self.rank, self.size = self.distributed.get_rank(), self.distributed.get_world_size()
        self.local = int(os.environ["LOCAL_WORLD_SIZE"])
        self.bytes = int(megabytes * (1 << 20))
        # When the current measurement last began or ended an operation, and whether a measurement is blocked.
        self.moved, self.is_blocked = 0.0, False

    def group(self, ranks: Sequence[int]) -> Any:
        """Return a group of these ranks. All ranks of the job must take part in the creation of each group."""
        return self.distributed.new_group(ranks, timeout=self.timeout, backend=self.backend)

    def reduce(self, ranks: int, group: Any) -> float:
        """Return the bandwidth in Gbit/s of an all-reduce between the ranks of a group, or 0 if the all-reduce fails or blocks.

        NCCL waits without a time limit for a rank that does not connect. A thread that is blocked in NCCL is abandoned.
        """
        found: list[float] = []
        self.moved = time.perf_counter()
        thread = threading.Thread(target=lambda: found.append(self.measure(ranks, group)), daemon=True)
        thread.start()
        while thread.is_alive() and time.perf_counter() - self.moved < self.timeout.total_seconds() + PATIENCE:
            thread.join(0.1)
        if thread.is_alive():
            self.is_blocked = True
            print("all-reduce failed: it is blocked", flush=True)
        return found[0] if found else 0.0

    def measure(self, ranks: int, group: Any) -> float:
        """Return the bandwidth in Gbit/s of an all-reduce between the ranks of a group, or 0 if the all-reduce fails."""
        tensor = self.torch.zeros(self.bytes // 4, device=self.device)
        fastest, begin = float("inf"), time.perf_counter()
        try:
            for _number in range(REPEATS):
                # The ranks start each measurement together, and stop after the same measurement.
                spent = self.torch.tensor([time.perf_counter() - begin], device=self.device)
                self.wait(self.distributed.all_reduce(spent, op=self.distributed.ReduceOp.MAX, group=group, async_op=True))
                if spent.item() > self.timeout.total_seconds():
                    break
                start = time.perf_counter()
                self.wait(self.distributed.all_reduce(tensor, group=group, async_op=True))
                tensor[0].item()  # waits for the GPU
                fastest = min(fastest, time.perf_counter() - start)
        except RuntimeError as error:
            print(f"all-reduce failed: {error}", flush=True)
            return 0.0
        return bus_bandwidth(self.bytes, ranks, fastest)

    def wait(self, operation: Any) -> None:
        """Wait for an operation. Raises RuntimeError after the time limit. gloo itself does so only if no data arrives during this time."""
        operation.wait(self.timeout)
        self.moved = time.perf_counter()

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

    def end(self, message: str = "") -> NoReturn:
        """End the process, with an error if there is a message. The groups of a blocked process cannot be destroyed."""
        if not self.is_blocked:
            self.distributed.destroy_process_group()
            sys.exit(message or None)
        if message:
            print(message, file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1 if message else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=64, help="size of the all-reduce (default: %(default)s MiB)")
    parser.add_argument("--minimum", type=float, default=0, help="minimum bandwidth of a node, in Gbit/s (default: %(default)s)")
    parser.add_argument("--share", type=float, default=0.5, help="minimum share of the median bandwidth (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=120, help="time limit of an all-reduce, in seconds (default: %(default)s)")
    options = parser.parse_args()
    names = [line.split()[0] for line in Path(os.environ["DEEPLEARNING_HOSTFILE"]).read_text().splitlines()]
    measurement = Measurement(options.megabytes, options.timeout)
    total, found = measurement.total(), measurement.pairs(len(names))
    if measurement.rank:
        measurement.end()
    if 0 < total < float("inf"):
        print(f"all {len(names)} nodes: {total:.3g} Gbit/s")
    for (first, second), rate in sorted(found.items()):
        print(f"{names[first]} and {names[second]}: {rate:.3g} Gbit/s")
    measurement.end("\n".join(complaints(names, found, total, options)))


if __name__ == "__main__":
    main()
