# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Accesses S3 with the AWS CLI. Needs only the standard library, because hosts also run this code without Ansible."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from typing import Any, Callable, Iterator, NamedTuple

from ..._common.dataset.source import DataError, DeniedError, Source, parse

# A function to call with the number of bytes moved so far and the total number of bytes.
Report = Callable[[int, int], None]

# The directories where distributions and the AWS installer put the AWS CLI. In non-login shells, PATH may not contain these directories.
PATHS = ("/usr/local/bin", "/usr/bin", "/opt/aws-cli/bin", "/snap/bin")
# A progress line of the AWS CLI: Completed 1.5 MiB/~20.0 MiB (2.1 MiB/s) with ~12 file(s) remaining
COMPLETED = re.compile(r"Completed ([\d.]+) (Bytes|[KMGTP]iB)/~?([\d.]+) (Bytes|[KMGTP]iB)")
# The error message from S3, without the path of the file, which may be the path of a temporary link.
ANSWER = re.compile(r"An error occurred \([\w.]+\).*")
# A line about a failure. The AWS CLI also writes warnings to standard error, before and after such lines.
FAILURE = re.compile(r"^(?:(?:\w+ failed|fatal error): |.*An error occurred \().*\S", re.MULTILINE)
# Failures that can pass. The AWS CLI reports them after it has repeated the request itself.
PASSING = re.compile(
    r"Connection broken|Connection reset|Connection was closed|timed out|[Tt]imeout|\((?:SlowDown|InternalError|ServiceUnavailable)\)"
)
PAUSES = (10, 60)  # seconds before a download that failed in this way is repeated
# The object in a line about a failed copy, which is the source or the target.
OBJECT = re.compile("s3://.+?(?= to | An error occurred)")
# The JMESPath query that list_objects() uses. A key may contain tabs and line breaks, so each line of the text output is one JSON list.
OBJECTS = "Contents[].[to_string([Size,ETag,Key,StorageClass])]"
OBJECT_LIMIT = 1 << 20  # characters of an object that is read into memory
UNITS = {"Bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}


# What to do if S3 denies access to a data set.
GRANT = "Add the bucket to deeplearning_read_buckets, or to deeplearning_write_buckets if data is written to it"


class Access(NamedTuple):
    """The settings for access to S3. `grant` is the part of a message that says how to grant access if S3 denies access."""

    region: str = ""
    anonymous: bool = False
    grant: str = GRANT


def aws(access: Access, *arguments: str) -> list[str]:
    """Return an AWS CLI command with these arguments. Raises DataError if the host has no AWS CLI."""
    program = shutil.which("aws", path=os.pathsep.join((os.environ.get("PATH", ""), *PATHS)))
    if program is None:
        raise DataError(
            "The AWS CLI is not installed on this host, but is needed to access S3. Use an image that contains the AWS CLI, such as a Deep "
            "Learning AMI, or install the AWS CLI: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"
        )
    options = [*(["--region", access.region] if access.region else []), *(["--no-sign-request"] if access.anonymous else [])]
    return [program, *arguments, *options]


def list_objects(access: Access, source: Source) -> Iterator[str]:
    """Yield a line for each object whose key begins with the source's key. Raises DataError."""
    command = aws(access, "s3api", "list-objects-v2", "--bucket", source.bucket, "--output", "text")
    command += ["--prefix", source.key, "--query", OBJECTS]
    with start(command) as process:
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
        reader.start()
        yield from process.stdout or ()
        reader.join()
    if process.returncode:
        raise failure(access, source, "".join(errors))


def is_restored(access: Access, source: Source, key: str) -> bool:
    """Return whether an archived object has been restored. Raises DataError."""
    with start(
        [*aws(access, "s3api", "head-object", "--bucket", source.bucket, "--key", key, "--query", "Restore"), "--output", "text"]
    ) as process:
        output, errors = process.communicate()
    if process.returncode:
        raise failure(access, source, errors)
    return 'ongoing-request="false"' in output


def read_object(access: Access, place: str) -> str | None:
    """Return the text of a small S3 object, or None if the object does not exist. Raises DataError if S3 reports any other error."""
    with start(aws(access, "s3", "cp", place, "-")) as process:
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
        reader.start()
        text = process.stdout.read(OBJECT_LIMIT + 1) if process.stdout else ""
        if len(text) > OBJECT_LIMIT:
            process.kill()
        reader.join()
    if len(text) > OBJECT_LIMIT:
        raise DataError(f"{place}: the object is larger than {OBJECT_LIMIT >> 20} MiB. Delete it, or choose another location.")
    if process.returncode and not re.search(r"\((404|NoSuchKey)\)", "".join(errors)):
        raise failure(access, parse(place), "".join(errors))
    return None if process.returncode else text


def copy(access: Access, source: str, target: str, report: Report, *options: str, tree: bool = True) -> None:
    """Copy files from `source` to `target` if they are missing there or differ. `source`, `target` or both are on S3. Raises DataError."""
    command = aws(access, "s3", "sync" if tree else "cp", source, target, *options)
    download = source.startswith("s3://")
    if download:
        # The AWS CLI skips objects of archived storage classes, because lists of objects do not say whether they are restored.
        command.append("--force-glacier-transfer")
    for pause in (*(PAUSES if download else ()), None):
        errors = _errors_of_copy(command, report)
        if errors is None:
            return
        failures = FAILURE.findall(errors)
        if pause is None or not failures or not all(PASSING.search(line) for line in failures):
            raise failure(access, parse(source if download else target), errors)
        time.sleep(pause)


def _errors_of_copy(command: list[str], report: Report) -> str | None:
    """Run a command that copies files, and return what it wrote to standard error if it failed."""
    # The AWS CLI separates progress lines with carriage returns.
    with start(command) as process:
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
        reader.start()
        for line in process.stdout or ():
            completed = completed_bytes(line)
            if completed:
                report(*completed)
        reader.join()
    return "".join(errors) if process.returncode else None


def completed_bytes(text: str) -> tuple[int, int] | None:
    """For a progress line of the AWS CLI, return the number of bytes moved and the total number. For any other line, return None."""
    found = COMPLETED.search(text)
    if not found:
        return None
    done, unit, total, of_unit = found.groups()
    return int(float(done) * UNITS[unit]), int(float(total) * UNITS[of_unit])


def failure(access: Access, source: Source, errors: str) -> DataError:
    """Return an exception whose message says what went wrong with S3 and, if known, what to do about it.

    If several copies failed, the message describes the first failure.
    """
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    failures = FAILURE.findall(errors)
    others = [line for line in lines if not line.startswith("warning: ")] or lines or ["the AWS CLI failed without a message"]
    line = next(iter(failures), others[-1])
    answer, place = ANSWER.search(line), OBJECT.search(line)
    said = (answer[0] if answer else line).rstrip(".") + (f" (first of {len(failures)} failures)" if len(failures) > 1 else "")
    shown = place[0] if answer and place else source.shown
    if re.search(r"AccessDenied|Forbidden|\(403\)", said):
        return DeniedError(f"{shown}: {_denial(access, said)}")
    return DataError(f"{shown}: {_advice(source, said)}")


def _denial(access: Access, said: str) -> str:
    if re.search("kms:|customer master key|KMS key", said):
        return (
            f"this host's role is not allowed to use the KMS key: {said}. Allow kms:Decrypt and kms:GenerateDataKey for the role in the "
            "key policy and, if the key belongs to another account, also in a policy of the role."
        )
    return f"S3 denies this host access: {said}. {access.grant}, and run deeplearning.cluster.provision."


def _advice(source: Source, said: str) -> str:
    if "NoSuchBucket" in said:
        return f"there is no bucket {source.bucket}. Check the name, or create the bucket."
    if re.search("PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint", said):
        return f"the bucket is in another region: {said}. Use a bucket in the cluster's region."
    if re.search("Unable to locate credentials|NoCredentials", said):
        return f"this host has no AWS credentials. On a node, check the instance profile. The AWS CLI reports: {said}"
    if "(KMS." in said:
        return f"the KMS key of the bucket or object cannot be used: {said}. Check that the key exists and is enabled."
    return said


def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
    """Start a program whose output is read through pipes. The program inherits all inheritable file descriptors."""
    # The new process inherits the lock, so that no other run moves the same data while this process is running.
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", close_fds=False, **options
    )
