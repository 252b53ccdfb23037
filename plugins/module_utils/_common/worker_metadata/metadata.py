# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the contents of the files that describe the cluster on every host, and the digest that identifies the cluster's members."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from typing import Any, Callable, Dict, Iterable

Worker = Dict[str, Any]

BLOCK_BEGIN = "# BEGIN deeplearning.cluster"
BLOCK_END = "# END deeplearning.cluster"
BLOCK = re.compile(rf"^{re.escape(BLOCK_BEGIN)}\n.*?^{re.escape(BLOCK_END)}(\n|\Z)", re.DOTALL | re.MULTILINE)
MASTER_NAME = "deeplearning-master"
ALIAS = re.compile(r"deeplearning-worker\d+")


def ordered(workers: Iterable[Worker]) -> list[Worker]:
    """Return the workers as `{number, name, address}`, sorted by number.

    Raises ValueError if worker 1 (the master) is missing, or if a number, name or address occurs twice.
    """
    result: list[Worker] = [
        {"number": int(worker["number"]), "name": str(worker["name"]), "address": str(worker["address"])} for worker in workers
    ]
    result.sort(key=lambda worker: worker["number"])
    if not result or result[0]["number"] != 1:
        raise ValueError("workers: the master is missing. Add an entry with number 1.")
    for field in ("number", "name", "address"):
        seen = set()
        for worker in result:
            if worker[field] in seen:
                raise ValueError(f"workers: the {field} {worker[field]} occurs twice. Specify a different {field} for each worker.")
            seen.add(worker[field])
    return result


def generation(cluster: str, workers: Iterable[Worker]) -> str:
    """Return twelve hexadecimal digits that identify a cluster by its name and the numbers and addresses of its workers.

    The result does not depend on the order of the workers.
    """
    members = sorted((int(worker["number"]), str(worker["address"])) for worker in workers)
    return hashlib.sha256(json.dumps([cluster, members]).encode()).hexdigest()[:12]


def alias(number: int) -> str:
    """Return a worker's alias. Aliases are the same in all clusters, so scripts do not depend on the name of a cluster."""
    return f"deeplearning-worker{number}"


def workers_file(workers: Iterable[Worker]) -> str:
    """Return the contents of the file at $DEEPLEARNING_WORKERS_PATH: one alias per line."""
    return "".join(alias(worker["number"]) + "\n" for worker in workers)


def address_file(workers: Iterable[Worker]) -> str:
    """Return the contents of the worker_ip_file of EMR-based clusters: one address per line, in numeric order."""
    addresses = sorted((worker["address"] for worker in workers), key=_address_key)
    return "".join(address + "\n" for address in addresses)


def _address_key(address: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", address))


def metadata_file(cluster: str, number: int, workers: list[Worker], gpu_count: int) -> str:
    document = {
        "cluster": cluster,
        "generation": generation(cluster, workers),
        "number": number,
        "workers": workers,
        "gpu_count": gpu_count,
    }
    return json.dumps(document, indent=2) + "\n"


def parse_metadata(text: str) -> dict[str, Any]:
    """Return the parsed contents of metadata.json. Raises ValueError if the text is not valid worker metadata."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("invalid worker metadata: not a dictionary")
    missing = {"cluster", "generation", "number", "workers", "gpu_count"} - set(document)
    if missing:
        raise ValueError("invalid worker metadata: {} missing".format(", ".join(sorted(missing))))
    return document


def variables(workers_count: int, workers_path: str, gpu_count: int, efs_mount: str | None) -> dict[str, str]:
    """Return the environment variables for users' scripts. EFS_MOUNT is set only if the cluster has shared storage."""
    found = {
        "DEEPLEARNING_WORKERS_COUNT": str(workers_count),
        "DEEPLEARNING_WORKERS_PATH": workers_path,
        "DEEPLEARNING_WORKER_GPU_COUNT": str(gpu_count),
        "EFS_MOUNT": efs_mount,
    }
    return {name: value for name, value in found.items() if value is not None}


def profile_file(exports: dict[str, str]) -> str:
    """Return the contents of the shell file that exports the variables in login shells."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in exports.items())


def environment_block(exports: dict[str, str]) -> str:
    """Return the marked block of /etc/environment, which sets the variables for commands that run without a login shell."""
    return "\n".join([BLOCK_BEGIN, *(f"{name}={value}" for name, value in exports.items()), BLOCK_END]) + "\n"


def hosts_block(workers: list[Worker]) -> str:
    """Return the marked block of /etc/hosts, with one line per worker: its address, its name and its aliases."""
    lines = []
    for worker in workers:
        names = [worker["name"], alias(worker["number"]), *([MASTER_NAME] if worker is workers[0] else [])]
        lines.append(" ".join([worker["address"], *dict.fromkeys(names)]))
    return "\n".join([BLOCK_BEGIN, *lines, BLOCK_END]) + "\n"


def without_names(text: str, workers: list[Worker], own: Iterable[str] = ()) -> tuple[str, list[str]]:
    """Return the text of /etc/hosts without the names of the cluster's hosts outside the marked block, and the lines that had them.

    Of two entries for a name, programs use the first, such as the entry for 127.0.1.1 that the installation of Debian writes. `own`
    contains further names of this host.
    """
    names = {worker["name"].lower() for worker in workers} | {MASTER_NAME, *own}

    def without(line: str) -> str:
        entry, hash_, comment = line.rstrip("\n").partition("#")
        address, *listed = entry.split() or [""]
        rest = [name for name in listed if name.lower() not in names and not ALIAS.fullmatch(name)]
        if rest == listed:
            return line
        return " ".join([address, *rest, *([hash_ + comment] if hash_ else [])]) + "\n" if rest else ""

    return _change_others(text, without)


def without_variables(text: str, names: Iterable[str]) -> tuple[str, list[str]]:
    """Return the text of /etc/environment without these variables outside the marked block, and the lines that set them.

    Of two lines for a variable, PAM uses the last.
    """
    older = re.compile(rf"\s*(export\s+)?({'|'.join(map(re.escape, names))})\s*=")
    return _change_others(text, lambda line: "" if older.match(line) else line)


def _change_others(text: str, change: Callable[[str], str]) -> tuple[str, list[str]]:
    """Return the text with each line outside the marked block changed, and the lines that `change` has changed."""
    lines, changed, is_own = [], [], False
    for line in text.splitlines(True):
        is_own = line.strip() == BLOCK_BEGIN or (is_own and line.strip() != BLOCK_END)
        new = line if is_own else change(line)
        changed += [line.strip()] if new != line else []
        lines.append(new)
    return "".join(lines), changed


def replace_block(text: str, block: str) -> str:
    """Return `text` with its marked block replaced by `block`, or with `block` appended if `text` has no marked block.

    An empty `block` removes the marked block.
    """
    if BLOCK.search(text):
        first, rest = BLOCK.split(text, maxsplit=1)[::2]
        return first + block + BLOCK.sub("", rest)
    if block and text and not text.endswith("\n"):
        text += "\n"
    return text + block


def own_block(text: str) -> str:
    return "".join(found[0] for found in BLOCK.finditer(text))
