# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Exports a job's files to S3: once, or repeatedly until the job is over.

`run SPEC` exports the files as described in the JSON file SPEC, and writes the state of the export to the job's directory. `plan SPEC`
prints what `run` would upload. This program runs on hosts without Ansible, as the job's user, and needs only the standard library.

The file `status/export.files` records the size and the modification time of each exported file. A file is uploaded if it differs from this
record or if its object is missing. Comparing the file only with its object would not be sufficient: a checkpoint that replaces an older one
of the same size may have been written before the older one was uploaded.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import threading
import time
from typing import Any, Dict, Iterable, Iterator, NamedTuple, Sequence, Tuple, TypedDict, cast

from ..._common.dataset.source import DataError, DeniedError, listed, parse
from ..._files import replacing
from ..._job import schema, state_names
from ..._job.directories import Paths, delete, is_held, runtime_directories
from ..._job.documents import Export, ProcessRecord
from ..._job.job_states import attempt_state, read_export, with_state
from ..._job.records import newest_attempt, read_queued, read_records, read_verdict, write_json
from ..._job.state_names import FAILED, LOST, RUNNING, SUCCEEDED, WAITING
from ..dataset import s3
from ..training_job.files import checkpoint_files
from .selection import FILES_LIMIT, GONE, KEY_LIMIT, ExportFile, Root, Selection, SelectionError, open_file, select

GRANT = "Add the destination to deeplearning_export_destinations"
# In seconds.
HEARTBEAT_INTERVAL = 5.0
POLL_INTERVAL = 2.0
# Seconds without a sign of life (see Exporter._lives) after which a job is over, whatever its files say. The job's processes start within
# this time.
LIFE_TIMEOUT = 600.0
# Seconds between the times at which two hosts on standby take over an export.
STANDBY_SECONDS = 10.0
# In seconds. After a change to the role's policy, S3 may still deny access for a few seconds.
GRANT_TIMEOUT = 30.0
# Maximum number of times that the last pass uploads a file that changes during the upload.
ROUNDS = 3
# Maximum number of files and bytes per run of the AWS CLI. After each run, the exported files are recorded.
BATCH_FILES, BATCH_SIZE = 1000, 16 << 30
# Maximum number of bytes in a line of the record of exported files: a size, a time and a key.
LINE_LIMIT = KEY_LIMIT + 64
# Maximum number of problems to name in a message, of files to name in a plan, and of entries to name that are left out.
NAMED = 5
PLAN_FILES = 1000
OMITTED_NAMED = 20
# Maximum number of characters to show of such a name.
OMITTED_LENGTH = 200

ERRORS = (DataError, SelectionError, OSError)

# The size in bytes and the modification time in nanoseconds of files, by key.
KnownFiles = Dict[str, Tuple[int, int]]


class ExportSpec(TypedDict):
    """What to export. `destination` is the job's own prefix, with a trailing slash.

    If `follow` is true, the job has just started: the export ends when the job is over. Until then, the export uploads files every
    `interval` seconds, or only at the start and at the end if `interval` is 0. `checkpoints` is the directory of the job's checkpoints.
    Of these, only the newest `checkpoint_count` are exported, or all if the number is 0.

    If the job continues under its own name, `attempt` is the number of the attempt that is about to begin, otherwise 1.

    If `standby` is not 0, another host follows the job. The host on standby with the lowest number takes over if that host is lost.
    """

    directory: str
    checkpoints: str
    destination: str
    region: str
    include: list[str]
    exclude: list[str]
    checkpoint_count: int
    follow: bool
    attempt: int
    standby: int
    interval: int
    heartbeat_timeout: int


class Batch(NamedTuple):
    """A batch of open files: each file and its descriptor, keyed by S3 key, and the total size of the files in bytes."""

    files: dict[str, tuple[ExportFile, int]]
    size: int


class State:
    """Writes the state of the export to the job's directory.

    As a heartbeat, a thread writes the state again periodically, even if earlier writes failed because the storage was full.
    """

    def __init__(self, paths: Paths, destination: str) -> None:
        self._path, self._lock = paths.export, threading.Lock()
        self._export = first_state(destination)
        write_json(self._path, self._export)
        threading.Thread(target=self._beat, daemon=True).start()

    def begin(self) -> None:
        self._write(first_state(self._export["destination"]))

    def end(self, state: str, **result: Any) -> None:
        self._write(cast(Export, {**self._export, "state": state, "finished": time.time(), **result}))

    def note(self, uploaded_size: int) -> None:
        """Record how many bytes the pass has uploaded. The next heartbeat writes the number."""
        self._export["uploaded_size"] = uploaded_size

    def _beat(self) -> None:
        while True:
            time.sleep(HEARTBEAT_INTERVAL)
            self._write(self._export)

    def _write(self, export: Export) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._export = export
            self._export["heartbeat"] = time.time()
            write_json(self._path, self._export)


def first_state(destination: str) -> Export:
    now = time.time()
    return {"destination": destination, "state": RUNNING, "began": now, "heartbeat": now}


class Exporter:
    def __init__(self, spec: ExportSpec, links: str) -> None:
        self.spec, self.paths = spec, Paths(spec["directory"])
        self._links, self._passed = links, 0.0
        self._alive = time.monotonic()
        self._heartbeats: dict[str, float] = {}
        self._access = s3.Access(spec["region"], grant=GRANT)
        self._request, self._record = self.paths.export + ".request", self.paths.export + ".files"

    def run(self) -> int:
        """Export once, or repeatedly until the job is over.

        Return the exit status, which is 0 even if a pass failed, because the state contains the error.
        """
        if self.spec["standby"] and not self._wait_for_loss():
            return 0
        state = State(self.paths, self.spec["destination"])
        self.attempt(state, last=not self.spec["follow"], patience=GRANT_TIMEOUT)
        if self.spec["follow"]:
            while not self._is_over():
                if self._is_due():
                    self.attempt(state, last=False)
                time.sleep(POLL_INTERVAL)
            self.attempt(state, last=True)
        while os.path.lexists(self._request):
            self.attempt(state, last=True)
        return 0

    def _wait_for_loss(self) -> bool:
        """Wait while another host exports the job. Return whether that host is lost, or return False if the export is complete."""
        patience = self.spec["heartbeat_timeout"] + self.spec["standby"] * STANDBY_SECONDS
        while True:
            with contextlib.suppress(OSError):
                os.utime(self.paths.status)  # makes an NFS client fetch the directory again
            export = read_export(self.paths, patience)
            if export and export["state"] == LOST:
                return True
            if self._is_over() and (export is None or export["state"] in (SUCCEEDED, FAILED)):
                return False
            time.sleep(HEARTBEAT_INTERVAL)

    def attempt(self, state: State, *, last: bool, patience: float = 0.0) -> None:
        """Upload new and changed files, and record the result in the export's state. If S3 denies access, retry for `patience` seconds."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._request)
        self._passed = time.monotonic()
        state.begin()
        try:
            state.end(SUCCEEDED if last else WAITING, **self._upload_patiently(state, ROUNDS if last else 1, patience))
        except ERRORS as error:
            state.end(FAILED if last else WAITING, error=message(error, self.spec["directory"]))

    def _upload_patiently(self, state: State, rounds: int, patience: float) -> dict[str, Any]:
        while True:
            try:
                return self.upload(state, rounds)
            except DeniedError:
                if time.monotonic() >= self._passed + patience:
                    raise
            time.sleep(POLL_INTERVAL)

    def _is_due(self) -> bool:
        interval = self.spec["interval"]
        return os.path.lexists(self._request) or bool(interval and time.monotonic() >= self._passed + interval)

    def _is_over(self) -> bool:
        """Return whether the job is over, or has not started in time.

        The job's files can end the export, but cannot keep it running for longer than LIFE_TIMEOUT.
        """
        newest = newest_attempt(self.paths)
        processes = read_records(newest)
        if newest.attempt >= self.spec["attempt"] and is_attempt_over(newest, processes, self.spec["heartbeat_timeout"]):
            return True
        if self._lives(processes):
            self._alive = time.monotonic()
        return time.monotonic() >= self._alive + LIFE_TIMEOUT

    def _lives(self, processes: Sequence[ProcessRecord]) -> bool:
        """Return whether the job waits or runs on this host, which only root can record, or whether another host has sent a heartbeat.

        A job that has ended can leave any heartbeats in its records, but can no longer change them.
        """
        heartbeats = {record["name"]: record["heartbeat"] for record in processes}
        has_changed, self._heartbeats = heartbeats != self._heartbeats, heartbeats
        job = os.path.basename(self.paths.directory)
        return has_changed or bool(runtime_directories(job)) or is_held(job)

    def upload(self, state: State, rounds: int) -> dict[str, Any]:
        """Upload new and changed files. Return the number of files, their total size in bytes, and what was left out. Raises DataError,
        SelectionError or OSError.
        """
        objects = self._objects()
        known = {key: facts for key, facts in self._read_known().items() if objects.get(key) == facts[0]}
        uploaded, uploaded_size = 0, 0
        for _round in range(rounds):
            selection, changing, failure = self.select(), 0, None
            for batch in batches(self._differing(selection, known), selection.problems):
                done, failure = self._upload_batch(batch, state, uploaded_size)
                known.update(done)
                uploaded, changing = uploaded + len(done), changing + len(batch.files) - len(done)
                uploaded_size += sum(size for size, _modified in done.values())
                self._write_known(known)
                if failure:
                    break
            if not changing:
                break
        if failure:
            raise failure
        if selection.problems:
            raise SelectionError(describe(selection.problems))
        size = sum(file.size for file in selection.files.values())
        numbers = {"uploaded": uploaded, "uploaded_size": uploaded_size, "changing": changing}
        return {"files": len(selection.files), "size": size, **numbers, **omitted(selection)}

    def plan(self) -> dict[str, Any]:
        """Return what an export pass would upload. Raises DataError, SelectionError or OSError."""
        objects = self._objects()
        known = {key: facts for key, facts in self._read_known().items() if objects.get(key) == facts[0]}
        selection = self.select()
        if selection.problems:
            raise SelectionError(describe(selection.problems))
        differing = self._differing(selection, known)
        return {
            "files": len(selection.files),
            "size": sum(file.size for file in selection.files.values()),
            "uploaded": len(differing),
            "uploaded_size": sum(file.size for file in differing),
            "keys": sorted(file.key for file in differing)[:PLAN_FILES],
            **omitted(selection),
        }

    def select(self) -> Selection:
        """Return the files to export. Raises SelectionError."""
        roots = [Root(self.paths.directory, "")]
        checkpoints = self.spec["checkpoints"]
        if checkpoints != self.paths.checkpoints and os.path.isdir(checkpoints):
            roots.append(Root(checkpoints, "checkpoints/"))
        prefix = parse(self.spec["destination"]).key
        selection = select(roots, self.spec["include"], self.spec["exclude"], KEY_LIMIT - len(prefix))
        older = self._older_checkpoints()
        is_older = {key: not older.isdisjoint(itertools.accumulate(key.split("/"), "{}/{}".format)) for key in selection.files}
        files = {key: file for key, file in selection.files.items() if not is_older[key]}
        return selection._replace(files=files)

    def _older_checkpoints(self) -> set[str]:
        count = self.spec["checkpoint_count"]
        saved = checkpoint_files.complete(self.spec["checkpoints"])[count:] if count else []
        return {f"checkpoints/{entry}" for each in saved for entry in each.entries}

    @staticmethod
    def _differing(selection: Selection, known: KnownFiles) -> list[ExportFile]:
        return [file for key, file in selection.files.items() if known.get(key) != (file.size, file.modified)]

    def _objects(self) -> dict[str, int]:
        """Return the sizes of the objects at the destination. Raises DataError."""
        destination = parse(self.spec["destination"])
        objects, _single = listed(s3.list_objects(self._access, destination), destination, [])
        return {key: size for key, size, _tag in objects}

    def _read_known(self) -> KnownFiles:
        """Return the files that were exported to this destination. Invalid lines, and lines after as many as there can be, are ignored."""
        known: KnownFiles = {}
        with contextlib.suppress(FileNotFoundError), schema.open_regular(self._record) as file:
            found = itertools.islice(iter(lambda: file.readline(LINE_LIMIT), b""), 1 + FILES_LIMIT)
            lines = (line.decode("utf-8", "replace").rstrip("\n") for line in found)
            if next(lines, "") == self.spec["destination"]:
                for line in lines:
                    size, _tab, rest = line.partition("\t")
                    modified, _tab, key = rest.partition("\t")
                    if size.isdigit() and modified.lstrip("-").isdigit():
                        known[key] = int(size), int(modified)
        return known

    def _write_known(self, known: KnownFiles) -> None:
        with replacing(self._record, 0o644) as file:
            file.write(self.spec["destination"].encode() + b"\n")
            file.writelines(f"{size}\t{modified}\t{key}\n".encode() for key, (size, modified) in known.items())

    def _upload_batch(self, batch: Batch, state: State, before: int) -> tuple[KnownFiles, DataError | None]:
        """Upload open files, close them, and return those that did not change. `before` is the number of bytes that the pass has already
        uploaded.

        If the AWS CLI fails and a file has changed, that file may be the cause and a second upload may succeed. In this case, return an
        empty dictionary and the exception. If no file has changed, raise the DataError. Raises OSError.

        The AWS CLI uploads a directory of links to the open files. The AWS CLI therefore reads exactly these files, even if a script
        replaces, renames or deletes them in the meantime.
        """
        try:
            delete([self._links])
            for key, (_file, descriptor) in batch.files.items():
                link = os.path.join(self._links, key)
                os.makedirs(os.path.dirname(link), exist_ok=True)
                os.set_inheritable(descriptor, True)
                os.symlink(f"/proc/self/fd/{descriptor}", link)
            failure = None
            try:
                report: s3.Report = lambda done, _total: state.note(before + done)  # noqa: E731
                s3.copy(self._access, self._links, self.spec["destination"], report, "--recursive", tree=False)
            except DataError as error:
                failure = error
            unchanged = {key: (file.size, file.modified) for key, (file, descriptor) in batch.files.items() if is_same(file, descriptor)}
            if failure and len(unchanged) == len(batch.files):
                raise failure
            return ({} if failure else unchanged), failure
        finally:
            for _file, descriptor in batch.files.values():
                os.close(descriptor)


def is_over(paths: Paths, heartbeat_timeout: float) -> bool:
    newest = newest_attempt(paths)
    return is_attempt_over(newest, read_records(newest), heartbeat_timeout)


def is_attempt_over(newest: Paths, found: Sequence[ProcessRecord], heartbeat_timeout: float) -> bool:
    """Return whether the newest attempt of a job with these records is over and all of its processes have ended.

    A job without records may start at any time, unless its queue could not start it.
    """
    now = time.time()
    processes = [with_state(record, now, heartbeat_timeout) for record in found]
    if not processes and newest.attempt == 1:
        return "failure" in (read_queued(newest) or {})
    if any(process["state"] == RUNNING for process in processes):
        return False
    return state_names.is_over(attempt_state(newest, processes, heartbeat_timeout, read_verdict(newest)))


def batches(files: Iterable[ExportFile], problems: list[str]) -> Iterator[Batch]:
    """Open the files and yield them in batches.

    Files that were removed in the meantime are left out. If an existing file cannot be opened, a message is added to `problems`.
    """
    opened: dict[str, tuple[ExportFile, int]] = {}
    size = 0
    for file in files:
        try:
            descriptor = open_file(file)
        except OSError as error:
            if error.errno not in GONE:
                problems.append(f"{os.path.join(file.root.directory, file.path)!a} cannot be read: {error.strerror}")
            continue
        opened[file.key] = file, descriptor
        size += file.size
        if len(opened) >= BATCH_FILES or size >= BATCH_SIZE:
            yield Batch(opened, size)
            opened, size = {}, 0
    if opened:
        yield Batch(opened, size)


def is_same(file: ExportFile, descriptor: int) -> bool:
    """Return whether an open file still has the size and the modification time that it had when it was selected."""
    status = os.fstat(descriptor)
    return (status.st_size, status.st_mtime_ns) == (file.size, file.modified)


def omitted(selection: Selection) -> dict[str, Any]:
    """Return what an export leaves out: the first keys, as printable ASCII text, and the number of all."""
    names = [ascii(key)[1:-1][:OMITTED_LENGTH] for key in sorted(selection.omitted)[:OMITTED_NAMED]]
    return {"omitted": names, "omitted_count": len(selection.omitted)}


def message(error: Exception, directory: str) -> str:
    return f"{error.filename or directory}: {error.strerror or error}." if isinstance(error, OSError) else str(error)


def describe(problems: list[str]) -> str:
    more = f", and {len(problems) - NAMED} more" if len(problems) > NAMED else ""
    return (
        f"These files cannot be exported: {', '.join(problems[:NAMED])}{more}. Rename the files, change their permissions, or exclude them "
        "with training_job_export_exclude. All other files were exported."
    )


def main(arguments: list[str]) -> int:
    action, path = arguments
    with open(path, encoding="utf-8") as file:
        spec: ExportSpec = json.load(file)
    exporter = Exporter(spec, os.path.join(os.path.dirname(path), "links"))
    if action == "run":
        return exporter.run()
    try:
        found = exporter.plan()
    except ERRORS as error:
        found = {"error": message(error, spec["directory"])}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
