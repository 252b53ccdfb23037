# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Downloads files with curl."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import threading
from typing import NamedTuple

from ansible.module_utils.urls import open_url

from ..._common.dataset.source import DataError, Source
from ..node_setup.runner import curl_configuration
from .free_space import check_space
from .s3 import Report, start

ASK_SECONDS = 60
POLL_SECONDS = 1.0
RETRIES = 5
CURL_CANNOT_RESUME, CURL_CANNOT_WRITE = (33, 36), 23
RANGE_NOT_SATISFIABLE = "416"


class Remote(NamedTuple):
    """What a server reports about a file: its size (None if unknown), and a version that changes with the file's contents.

    The version is empty if the server reports none. A size is not a version: other contents may have the same size.
    """

    size: int | None
    version: str


def ask(source: Source) -> Remote:
    """Return what the server reports about the file at a URL. Raises DataError."""
    # Some servers and all presigned S3 URLs reject HEAD requests. Therefore, request only the first byte, and do not read it.
    asked = {"Range": "bytes=0-0", "Accept-Encoding": "identity"}
    try:
        with open_url(source.text, headers=asked, timeout=ASK_SECONDS) as answer:
            headers, partial = answer.headers, answer.status == 206
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(
            f"dataset_source: {source.shown}: download failed: {getattr(reason, 'strerror', None) or reason}. Correct the URL. To test the "
            f"download, run on the host: curl --location --range 0-0 --output /dev/null {shlex.quote(source.shown)}"
        ) from error
    length = headers.get("Content-Range", "").rpartition("/")[2] if partial else headers.get("Content-Length", "")
    version = headers.get("ETag") or headers.get("Last-Modified") or ""
    return Remote(int(length) if length.isdigit() else None, version)


def download(source: Source, path: str, size: int | None, report: Report, *, is_resumable: bool = True) -> None:
    """Download the file at a URL, continuing where an earlier attempt stopped. Raises DataError.

    `is_resumable` tells whether the next run continues this download, for the message.
    """
    if _size(path) == size:
        return
    is_restarted = False
    while True:
        before = _size(path)
        code, status, error = _curl(source, path, size, report)
        if before and not is_restarted and (code in CURL_CANNOT_RESUME or status == RANGE_NOT_SATISFIABLE):
            os.unlink(path)
            is_restarted = True
        elif not code or _size(path) <= before:  # if the connection was lost after some bytes had arrived, try again
            break
    if code:
        advice = "The next run continues where this download stopped." if is_resumable else "Run the playbook again."
        raise DataError(f"dataset_source: {source.shown}: download failed: {error}. {advice}")
    if size not in (None, _size(path)):
        raise DataError(f"dataset_source: {source.shown} has {size} bytes, but {_size(path)} were downloaded. Run the playbook again.")


def _curl(source: Source, path: str, size: int | None, report: Report) -> tuple[int, str, str]:
    """Run curl and return its exit status, the server's last HTTP status, and curl's last error message.

    Raises DataError if the file system is full or almost full. A download without a correct size is then deleted.
    """
    configuration = curl_configuration(source.text)
    command = ["curl", "--fail", "--location", "--silent", "--show-error", "--retry", str(RETRIES), "--retry-connrefused"]
    command += ["--continue-at", "-", "--output", path, "--write-out", "%{http_code}", "--config", "-"]
    try:
        process = start(command, stdin=subprocess.PIPE)
    except FileNotFoundError as error:
        raise DataError("curl is not installed on this host, but is needed to download from URLs. Install the package curl.") from error
    over = threading.Event()
    problems: list[DataError] = []

    def watch() -> None:
        while not (problems or over.wait(POLL_SECONDS)):
            report(_size(path), size or 0)
            try:
                check_space(os.path.dirname(path), f"dataset_source: {source.shown}: download failed")
            except DataError as error:
                problems.append(error)
                process.kill()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    status, errors = process.communicate(configuration)
    over.set()
    watching.join()
    if process.returncode == CURL_CANNOT_WRITE:
        problems.append(
            DataError(
                f"dataset_source: {source.shown}: download failed: cannot write to {path}. Check that the file system works and has free "
                "space, or choose another directory."
            )
        )
    if problems:
        if _size(path) > (size or 0):  # nobody knows how much space the rest needs
            os.unlink(path)
        raise problems[0]
    lines = errors.strip().splitlines()
    return process.returncode, status.strip(), lines[-1] if lines else f"curl ended with exit status {process.returncode}"


def digest(path: str, algorithm: str) -> str:
    total = hashlib.new(algorithm)
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 22), b""):
            total.update(block)
    return total.hexdigest()


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
