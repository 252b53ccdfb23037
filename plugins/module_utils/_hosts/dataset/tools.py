# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the programs that download and unpack data: curl and tar."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import threading
import zipfile
from collections import deque
from typing import NamedTuple

from ansible.module_utils.urls import open_url

from ..node_setup.runner import curl_configuration
from . import unpacked
from .s3 import Report, start
from .source import DataError, Source, human

ASK_SECONDS = 60
POLL_SECONDS = 1.0
RETRIES = 5
CURL_CANNOT_RESUME, CURL_CANNOT_WRITE = (33, 36), 23
RANGE_NOT_SATISFIABLE = "416"

# A small archive can contain petabytes of zeros. An archive may have contents of this many bytes, or of this many times its own size.
ALWAYS_UNPACKED, RATIO = 4 << 30, 200
# The fraction of a file system's space and inodes that must stay free after a download or an unpacking.
RESERVE = 0.02
# tar reports its progress after this many records, and at the start of the line.
RECORDS, RECORD = 1000, 10240
CHECKPOINT = re.compile(r"tar: deeplearning checkpoint (\d+)\n")
ENTRY = 512  # the size of an entry without content in a tar archive

# Lines in which tar says that a previous error, such as one of gzip, has consequences.
CONSEQUENCE = re.compile(r"[Ee]xiting|Child (returned|died)")
# The flag of names in UTF-8, the systems that write an archive, and the folder of macOS for what other systems cannot store
# (PKWARE's APPNOTE.TXT, sections 4.4.2 and 4.4.4). The maximum length of a link's target in bytes (PATH_MAX).
ZIP_UTF8, ZIP_DOS, ZIP_UNIX, MAC_FOLDER, LINK_LIMIT = 0x800, 0, 3, "__MACOSX/", 4096

ADVICE = "Check that the file is a complete archive, or set dataset_unpack: false."


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
    if size is not None and _size(path) == size:
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
    if size is not None and _size(path) != size:
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
                _check_space(os.path.dirname(path), f"dataset_source: {source.shown}: download failed")
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
    """Return a file's digest in hexadecimal."""
    total = hashlib.new(algorithm)
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 22), b""):
            total.update(block)
    return total.hexdigest()


def unpack(archive: str, folder: str, shown: str) -> None:
    """Unpack an archive into a new folder that replaces any existing one, and check the contents. Raises DataError or OSError.

    `shown` is the name of the archive in messages. The unpacked files are neither setuid nor setgid, and links stay inside the folder.
    If the archive is rejected, the folder is deleted.
    """
    _delete(folder)
    os.makedirs(folder)
    try:
        _unpack(archive, folder, shown)
        # An archive contains neither the holes of sparse files nor what links refer to, but an upload to S3 does.
        _check_size(unpacked.check(folder, os.path.basename(archive)), archive, folder, shown)
    except BaseException:
        _delete(folder)
        raise


def _delete(folder: str) -> None:
    """Delete a folder if it exists, including subfolders that deny access."""
    if os.path.isdir(folder):
        # An archive may give folders permissions that prevent the current user from listing them.
        subprocess.run(["chmod", "--recursive", "u+rwX", folder], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(folder)


def _unpack(archive: str, folder: str, shown: str) -> None:
    _check_size(0, archive, folder, shown)
    if archive.lower().endswith(".zip"):
        try:
            with zipfile.ZipFile(archive) as file:
                # zipfile reads no more than the size that the archive states.
                size = sum(max(entry.file_size, ENTRY) for entry in file.infolist())
                _check_size(size, archive, folder, shown)
                _check_space(folder, f"dataset_unpack: {shown} cannot be unpacked", size, len(file.infolist()))
                _unzip(file, folder)
        except DataError:
            raise
        except Exception as error:  # the errors of each compression method differ
            raise DataError(f"dataset_unpack: {shown} cannot be unpacked: {error}. {ADVICE}") from error
        return
    command = ["tar", "--extract", "--file", archive, "--directory", folder, "--no-same-owner"]
    command += [f"--checkpoint={RECORDS}", "--checkpoint-action=echo=deeplearning checkpoint %u"]
    errors: deque[str] = deque(maxlen=1)
    with start(command) as process:
        try:
            for line in process.stderr or ():
                checkpoint = CHECKPOINT.fullmatch(line)
                if checkpoint:
                    _check_size(int(checkpoint[1]) * RECORD, archive, folder, shown)
                elif not CONSEQUENCE.search(line):
                    errors.append(line.strip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        reason = errors[0] if errors else f"tar ended with exit status {process.returncode}"
        raise DataError(f"dataset_unpack: {shown} cannot be unpacked: {reason.rstrip('.')}. {ADVICE}")


def _unzip(archive: zipfile.ZipFile, folder: str) -> None:
    """Extract a zip archive with its links and permissions, which zipfile ignores. Raises OSError, ValueError and others."""
    targets: dict[str, str] = {}
    for entry in archive.infolist():
        entry.filename = _name_in_zip(entry)
        if entry.filename.startswith(MAC_FOLDER):
            continue
        path = archive.extract(entry, folder)
        targets.pop(path, None)
        mode = entry.external_attr >> 16 if entry.create_system == ZIP_UNIX else 0
        if stat.S_ISLNK(mode):
            if entry.file_size > LINK_LIMIT:
                raise ValueError(f"the target of the link {entry.filename[: unpacked.SHOWN]!a} is longer than {LINK_LIMIT} bytes")
            targets[path] = os.fsdecode(archive.read(entry))
        elif stat.S_ISREG(mode):
            os.chmod(path, stat.S_IMODE(mode))
    # Only now, no entry of the archive can be extracted through a link.
    for path, target in targets.items():
        os.unlink(path)
        os.symlink(target, path)


def _name_in_zip(entry: zipfile.ZipInfo) -> str:
    """Return the name of an entry as the program that wrote the archive meant it.

    Some programs for Windows separate folders with backslashes. Programs for macOS write UTF-8 without saying so, which zipfile reads as
    the code page 437 of DOS.
    """
    name = entry.filename
    if not entry.flag_bits & ZIP_UTF8:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return name.replace("\\", "/") if entry.create_system == ZIP_DOS else name


def _check_size(size: int, archive: str, folder: str, shown: str) -> None:
    """Raise DataError if contents of this size are out of proportion to the archive, or if the file system is almost full."""
    limit = max(ALWAYS_UNPACKED, RATIO * os.stat(archive).st_size)
    if size > limit:
        raise DataError(
            f"dataset_unpack: {shown} contains more than {human(limit)}, which is more than {RATIO} times its size. If this is correct, "
            "unpack the archive yourself, and set dataset_unpack: false."
        )
    _check_space(folder, f"dataset_unpack: {shown} cannot be unpacked")


def _check_space(folder: str, failure: str, size: int = 0, files: int = 0) -> None:
    """Raise DataError if the file system would be almost full with this many more bytes and files. The message begins with `failure`."""
    disk = os.statvfs(folder)
    too_many = disk.f_files > 0 and disk.f_favail - files < RESERVE * disk.f_files  # some file systems have no fixed number of inodes
    if too_many or disk.f_bavail - size / disk.f_frsize < RESERVE * disk.f_blocks:
        raise DataError(
            f"{failure}: the file system of {folder} is almost full. Delete files to free space or inodes, or choose another directory."
        )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
