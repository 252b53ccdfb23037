# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the programs that move and unpack data: the AWS CLI, curl and tar."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import threading
import zipfile
import zlib
from typing import Any, Callable, Iterator, NamedTuple

from ansible.module_utils.urls import open_url
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset.source import S3, DataError, Source

Report = Callable[[int, int], None]
"""A function to call with the number of bytes moved so far and the total number of bytes."""

# The directories where distributions and the AWS installer put the AWS CLI. In non-login shells, PATH may not contain them.
PATHS = ("/usr/local/bin", "/usr/bin", "/opt/aws-cli/bin", "/snap/bin")
ASK_SECONDS = 60
POLL_SECONDS = 1.0
RETRIES = 5
# A progress line of the AWS CLI: Completed 1.5 MiB/~20.0 MiB (2.1 MiB/s) with ~12 file(s) remaining
COMPLETED = re.compile(r"Completed ([\d.]+) (Bytes|[KMGTP]iB)/~?([\d.]+) (Bytes|[KMGTP]iB)")
UNITS = {"Bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}
CURL_CANNOT_RESUME = (33, 36)
RANGE_NOT_SATISFIABLE = "416"

ADVICE = "Check that the file is a complete archive, or set unpack: false."


class Access(NamedTuple):
    """How to access S3."""

    region: str = ""
    anonymous: bool = False


class Remote(NamedTuple):
    """What a server reports about a file: its size (None if unknown), and a version that changes with the file's contents."""

    size: int | None
    version: str


def aws(access: Access, *arguments: str) -> list[str]:
    """Return the command line of the AWS CLI. Raises DataError if the host has no AWS CLI."""
    program = shutil.which("aws", path=os.pathsep.join((os.environ.get("PATH", ""), *PATHS)))
    if program is None:
        raise DataError(
            "AWS CLI: is not installed on this host, but is needed to access S3. Use an image that contains it, such as a Deep Learning "
            "AMI, or install it: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"
        )
    options = [*(["--region", access.region] if access.region else []), *(["--no-sign-request"] if access.anonymous else [])]
    return [program, *arguments, *options]


def list_objects(access: Access, source: Source) -> Iterator[str]:
    """Yield a line for each object whose key begins with the source's key. Raises DataError."""
    command = aws(access, "s3api", "list-objects-v2", "--bucket", source.bucket, "--output", "text")
    command += ["--prefix", source.key, "--query", "Contents[].[Size,ETag,Key]"]
    with _start(command) as process:
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
        reader.start()
        yield from process.stdout or ()
        reader.join()
    if process.returncode:
        raise DataError(explain_s3(source, "".join(errors)))


def read_object(access: Access, place: str) -> str | None:
    """Return the text of a small S3 object, or None if the object does not exist. Raises DataError for other errors."""
    done = subprocess.run(aws(access, "s3", "cp", place, "-"), capture_output=True, text=True, check=False)
    if done.returncode and not re.search(r"\b(404|NoSuchKey)\b", done.stderr):
        raise DataError(explain_s3(Source(S3, place), done.stderr))
    return None if done.returncode else done.stdout


def copy_s3(access: Access, source: str, target: str, report: Report, *options: str, tree: bool = True) -> None:
    """Copy files from `source` to `target` if they are missing there or differ. `source`, `target` or both are on S3. Raises DataError."""
    command = aws(access, "s3", "sync" if tree else "cp", source, target, *options)
    # The AWS CLI separates progress lines with carriage returns.
    with _start(command) as process:
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
        reader.start()
        for line in process.stdout or ():
            completed = completed_bytes(line)
            if completed:
                report(*completed)
        reader.join()
    if process.returncode:
        raise DataError(explain_s3(Source(S3, source if source.startswith("s3://") else target), "".join(errors)))


def completed_bytes(text: str) -> tuple[int, int] | None:
    """Return the number of bytes moved and the total from a progress line of the AWS CLI, or None for any other line."""
    found = COMPLETED.search(text)
    if not found:
        return None
    done, unit, total, of_unit = found.groups()
    return int(float(done) * UNITS[unit]), int(float(total) * UNITS[of_unit])


def explain_s3(source: Source, errors: str) -> str:
    """Return a message that says what went wrong with S3 and, if known, what to do about it."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    said = lines[-1] if lines else "the AWS CLI failed without a message"
    if re.search(r"AccessDenied|Forbidden|\b403\b", errors):
        return (
            f"{source.shown}: S3 denies this host access: {said}. Add the bucket to deeplearning_read_buckets, or to "
            "deeplearning_write_buckets if data is written to it, and run deeplearning.cluster.provision."
        )
    if re.search("Unable to locate credentials|NoCredentials", errors):
        return f"{source.shown}: this host has no AWS credentials. On a node, check the instance profile. The AWS CLI reports: {said}"
    return f"{source.shown}: {said}"


def ask(source: Source) -> Remote:
    """Return what the server reports about the file at a URL. Raises DataError."""
    # Some servers and all presigned S3 URLs reject HEAD requests. So request only the first byte, and do not read it.
    asked = {"Range": "bytes=0-0", "Accept-Encoding": "identity"}
    try:
        with open_url(source.text, headers=asked, timeout=ASK_SECONDS) as answer:
            headers, partial = answer.headers, answer.status == 206
    except (OSError, ValueError) as error:
        raise DataError(f"dataset_source {source.shown}: download failed: {error}. Check the URL and the host's network access.") from error
    length = headers.get("Content-Range", "").rpartition("/")[2] if partial else headers.get("Content-Length", "")
    version = headers.get("ETag") or headers.get("Last-Modified") or ""
    return Remote(int(length) if length.isdigit() else None, version)


def download(source: Source, path: str, size: int | None, report: Report) -> None:
    """Download the file at a URL, continuing where an earlier attempt stopped. Raises DataError."""
    if size is not None and _size(path) == size:
        return
    while True:
        before = _size(path)
        code, status, error = _curl(source, path, size, report)
        if before and (code in CURL_CANNOT_RESUME or status == RANGE_NOT_SATISFIABLE):
            os.unlink(path)
        elif not code or _size(path) <= before:  # if the connection broke after some progress, try again
            break
    if code:
        raise DataError(f"dataset_source {source.shown}: download failed: {error}. The next run continues where this download stopped.")
    if size is not None and _size(path) != size:
        raise DataError(f"dataset_source {source.shown}: the file has {size} bytes, but {_size(path)} were downloaded. Run again.")


def _curl(source: Source, path: str, size: int | None, report: Report) -> tuple[int, str, str]:
    """Run curl and return its exit status, the server's last HTTP status, and curl's last error message."""
    command = ["curl", "--fail", "--location", "--silent", "--show-error", "--retry", str(RETRIES), "--retry-connrefused"]
    command += ["--continue-at", "-", "--output", path, "--write-out", "%{http_code}", "--config", "-"]
    try:
        process = _start(command, stdin=subprocess.PIPE)
    except FileNotFoundError as error:
        raise DataError("curl: is not installed on this host, but is needed to download from URLs. Install the package curl.") from error
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_SECONDS):
            report(_size(path), size or 0)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    # Every user of the host can see command lines, and the URL's query string may contain a signature. So pass the URL on stdin.
    status, errors = process.communicate('url = "{}"\n'.format(source.text.replace("\\", "\\\\").replace('"', '\\"')))
    over.set()
    watching.join()
    lines = errors.strip().splitlines()
    return process.returncode, status.strip(), lines[-1] if lines else f"curl ended with exit status {process.returncode}"


def digest(path: str, algorithm: str) -> str:
    """Return a file's digest in hexadecimal."""
    total = hashlib.new(algorithm)
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 22), b""):
            total.update(block)
    return total.hexdigest()


def unpack(archive: str, folder: str) -> None:
    """Unpack an archive into a folder, without setuid and setgid bits. Raises DataError."""
    os.makedirs(folder, exist_ok=True)
    try:
        _unpack(archive, folder)
    finally:
        drop_privileges(folder)


def _unpack(archive: str, folder: str) -> None:
    if archive.lower().endswith(".zip"):
        try:
            with zipfile.ZipFile(archive) as file:
                file.extractall(folder)
        except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise DataError(f"{os.path.basename(archive)} cannot be unpacked: {error}. {ADVICE}") from error
        return
    command = ["tar", "--extract", "--file", archive, "--directory", folder, "--no-same-owner"]
    with _start(command) as process:
        _output, errors = process.communicate()
    if process.returncode:
        lines = [line for line in errors.splitlines() if "Exiting" not in line] or [f"tar ended with exit status {process.returncode}"]
        raise DataError(f"{os.path.basename(archive)} cannot be unpacked: {lines[-1].rstrip('.')}. {ADVICE}")


def drop_privileges(folder: str) -> None:
    """Remove the setuid and setgid bits of all files below a folder.

    Setuid and setgid programs from an archive would run with the privileges of the user who unpacks the archive.
    """
    for place, _folders, names in os.walk(folder):
        for path in (os.path.join(place, name) for name in names):
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                os.chmod(path, stat.S_IMODE(mode) & ~(stat.S_ISUID | stat.S_ISGID))


def _start(command: list[str], **options: Any) -> subprocess.Popen[str]:
    # The new process inherits the lock, so that no other run moves the same data while this process is running.
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", close_fds=False, **options
    )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
