# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Unpacks archives, with tar or, in the case of zip archives, without another program."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
import zipfile
from collections import deque

from ..._common.dataset.source import DataError, human
from . import unpacked
from .free_space import check_space
from .s3 import start

# A small archive can contain petabytes of zeros. An archive may have contents of this many bytes, or of this many times its own size.
ALWAYS_UNPACKED, RATIO = 4 << 30, 200
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
                check_space(folder, f"dataset_unpack: {shown} cannot be unpacked", size, len(file.infolist()))
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
    check_space(folder, f"dataset_unpack: {shown} cannot be unpacked")
