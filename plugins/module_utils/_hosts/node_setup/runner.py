# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs set-up steps in order, as the main process of a systemd unit, until one of them fails.

The program reads and deletes the JSON file that its argument names, which contains secrets, and runs the steps in it. When the unit ends,
systemd kills all processes that the steps have left behind.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import hashlib
import json
import os
import pwd
import re
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from typing import Any, BinaryIO, Callable, Iterable, Mapping, NamedTuple, NoReturn, Sequence

from ..._files import replacing

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Directories where installers put the AWS CLI, in addition to PATH.
AWS_PATH = PATH + ":/opt/aws-cli/bin:/snap/bin"

# Seconds between SIGTERM and SIGKILL for a step that has timed out.
GRACE = 10.0
POLL = 0.2
# Number of lines from the end of the output that a record contains, and the maximum number of characters in each line.
TAIL_LINES, LINE_LIMIT = 10, 300
# Maximum size of a log in bytes.
LOG_LIMIT = 64 << 20
CHUNK = 1 << 16
MASK = b"********"

# Another process, such as unattended-upgrades at boot, may hold apt's locks.
APT_LOCKED = re.compile(r"Could not get lock|Unable to lock")
APT_PAUSE = 5.0
APT = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=-1", "-o", "Acquire::Retries=3", "-o", "DPkg::Options::=--force-confold"]
APT_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1"}

# Arguments: the URL of a repository, a version and the path of the clone. The script can be run again after an interruption. A version can
# be a branch, a tag, a commit, or any other ref that can be fetched. 40 or 64 hexadecimal digits are always the ID of a commit, because
# whoever may push can create a branch or tag with any name.
CHECK_OUT = r"""
set -eu
url=$1 version=$2 path=$3
# With a relative core.hooksPath in the configuration of the host, files of a repository would be hooks.
git() { command git -c core.hooksPath=/dev/null "$@"; }
mkdir -p -- "$path"
cd -- "$path"
if ! [ -e .git ]; then
  [ -z "$(ls -A)" ] || { echo "$path is not empty and not a clone. Remove its contents, or choose another path."; exit 1; }
  git init --quiet
fi
origin=$(git remote get-url origin 2>/dev/null) || { git remote add origin "$url"; origin=$url; }
[ "$origin" = "$url" ] || { echo "$path is a clone of $origin. Remove it, or choose another path."; exit 1; }
git fetch --quiet --force --tags origin "+refs/heads/*:refs/remotes/origin/*"
commit_of() { git rev-parse --quiet --verify "$1^{commit}" || :; }
commit= id=
if [ -z "$version" ]; then
  git remote set-head origin --auto >/dev/null
  commit=$(commit_of refs/remotes/origin/HEAD)
elif [[ $version =~ ^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$ ]]; then
  id=${version,,}
  commit=$(commit_of "$id")
elif [[ $version != refs/* ]]; then
  branch=$(commit_of "refs/remotes/origin/$version") tag=$(commit_of "refs/tags/$version")
  if [ -n "$branch" ] && [ -n "$tag" ] && [ "$branch" != "$tag" ]; then
    echo "$version is a branch and a tag. Specify refs/heads/$version or refs/tags/$version as the version."
    exit 1
  fi
  commit=${branch:-${tag:-$(commit_of "$version")}}
fi
if [ -z "$commit" ]; then
  git fetch --quiet origin "$version"
  commit=$(git rev-parse --verify "FETCH_HEAD^{commit}")
fi
[ "${id:-$commit}" = "$commit" ] || { echo "$version is not the ID of a commit."; exit 1; }
git checkout --quiet --detach "$commit"
if [ -e .gitmodules ]; then
  GIT_ALLOW_PROTOCOL=git:http:https:ssh git submodule --quiet update --init --recursive
fi
echo "Checked out $commit."
"""
GIT_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}

SetupStep = Mapping[str, Any]


class StepError(Exception):
    """A step failed. The message is a clause without a full stop. `code` is the exit status, if a command failed."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class StoppedError(BaseException):
    """systemd is stopping the unit. This class is not a subclass of Exception, so that no step handles it."""


class SetupSpec(NamedTuple):
    """The steps to run and the paths of the files to write."""

    steps: Sequence[SetupStep]
    attempt: str
    region: str
    records: str
    logs: str
    work: str
    progress: str


class Output:
    """The output of a step: a log without secrets, and the last lines."""

    def __init__(self, log: BinaryIO, hidden: Iterable[str]) -> None:
        """`hidden` are the texts to mask, the longest ones first."""
        self._log, self._size, self._rest = log, 0, b""
        pieces = [each.encode() for each in hidden if "\n" not in each]  # lines come one by one
        self._secrets = re.compile(b"|".join(map(re.escape, pieces))) if pieces else None
        self._longest = max(map(len, pieces), default=0)
        self._tail: collections.deque[bytes] = collections.deque(maxlen=TAIL_LINES)

    def add(self, data: bytes) -> None:
        """Add a part of the output. An incomplete line is withheld, because it may end inside a secret."""
        complete, end, self._rest = (self._rest + data).rpartition(b"\n")
        self._write(self._masked(complete + end))
        if len(self._rest) > CHUNK:
            text = self._masked(self._rest)
            cut = len(text) - self._longest
            self._rest = text[cut:]
            self._write(text[:cut])

    def end(self) -> None:
        """Add the incomplete last line that was withheld."""
        text, self._rest = self._masked(self._rest), b""
        self._write(text + b"\n" if text else b"")

    def tail(self) -> list[str]:
        return [line.decode("utf-8", "replace")[:LINE_LIMIT] for line in self._tail]

    def _masked(self, data: bytes) -> bytes:
        return self._secrets.sub(MASK, data) if self._secrets else data

    def _write(self, data: bytes) -> None:
        self._tail.extend(line for line in data.replace(b"\r", b"\n").split(b"\n") if line.strip())
        if self._size < LOG_LIMIT <= self._size + len(data):
            data = data[: LOG_LIMIT - self._size] + b"\n(The log is full. Later output is not in it.)\n"
        elif self._size >= LOG_LIMIT:
            data = b""
        self._size += len(data)
        self._log.write(data)
        self._log.flush()


class Execution:
    """Runs the commands of one step, and ends them if the step times out. `folder` is an empty directory for the step's files."""

    def __init__(self, step: SetupStep, output: Output, folder: str, region: str) -> None:
        self.step, self.output, self.folder, self.region = step, output, folder, region
        self.account = account_of(step["user"])
        self._end = time.monotonic() + step["timeout"]

    def say(self, line: str) -> None:
        self.output.add(line.encode() + b"\n")

    def check(self, argv: Sequence[str], *, subject: str, **options: Any) -> None:
        """Run a command. Raises StepError if the command fails. The error message begins with `subject`."""
        status = self.run(argv, **options)
        if status:
            how = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
            raise StepError(f"{subject} {how}", status)

    def run(
        self, argv: Sequence[str], *, user: str = "", environment: Mapping[str, str] | None = None, stdin: str = "", quiet: bool = False
    ) -> int:
        """Run a command as a user, by default the step's user, and return its exit status. Raises StepError if the command cannot be
        run.
        """
        account = account_of(user) if user else self.account
        variables = {**_login(account), **(environment or {}), **self.step["environment"], **self.step["secrets"]}
        reader, writer = os.pipe()
        try:
            try:
                process = _start(argv, account, variables, subprocess.DEVNULL if quiet else writer)
            finally:
                os.close(writer)
            return self._follow(process, reader, stdin)
        finally:
            os.close(reader)

    def _follow(self, process: subprocess.Popen[bytes], pipe: int, stdin: str) -> int:
        over = threading.Event()
        pump = threading.Thread(target=_pump, args=(pipe, self.output, over), daemon=True)
        pump.start()
        try:
            process.communicate(stdin.encode(), timeout=max(0.0, self._end - time.monotonic()))
            return process.returncode
        except subprocess.TimeoutExpired:
            raise StepError(f"timed out after {self.step['timeout']} s") from None
        finally:
            _kill(process)
            over.set()
            pump.join()

    def sleep(self, seconds: float) -> None:
        """Sleep. Raises StepError if the step would time out before the sleep ends."""
        if time.monotonic() + seconds > self._end:
            raise StepError(f"timed out after {self.step['timeout']} s")
        time.sleep(seconds)


def _start(argv: Sequence[str], account: pwd.struct_passwd, variables: dict[str, str], output: int) -> subprocess.Popen[bytes]:
    """Start a command as a user, in a separate process group. Raises StepError if the command cannot be run."""
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=account.pw_dir if os.path.isdir(account.pw_dir) else "/",
            env=variables,
            start_new_session=True,
            preexec_fn=None if account.pw_uid == os.geteuid() else lambda: _become(account),
        )
    except OSError as error:
        raise StepError(f"cannot run {argv[0]!r}: {error.strerror}") from error


def _login(account: pwd.struct_passwd) -> dict[str, str]:
    return {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell,
    }


def _become(account: pwd.struct_passwd) -> None:
    os.initgroups(account.pw_name, account.pw_gid)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)


def _pump(pipe: int, output: Output, over: threading.Event) -> None:
    """Copy a command's output until the command has ended.

    Processes that the command has left in the background may still have the pipe open.
    """
    ended = False
    while not ended:
        # The capacity of the pipe is CHUNK bytes, so after the command has ended, one more read returns the rest of its output.
        ended = over.is_set()
        if select.select([pipe], [], [], 0 if ended else POLL)[0]:
            data = os.read(pipe, CHUNK)
            output.add(data)
            ended = ended or not data
    output.end()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Terminate all processes of the command's process group unless the command has ended."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def account_of(user: str) -> pwd.struct_passwd:
    """Return a user's account. Raises StepError if the user does not exist."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise StepError(f"user {user!r} does not exist on this host") from None


def install_packages(run: Execution) -> None:
    """Install the distribution's packages unless all of them are already installed."""
    packages = run.step["packages"]
    if shutil.which("apt-get", path=PATH):
        _install_with_apt(run, packages)
    elif shutil.which("dnf", path=PATH):
        if run.run(["rpm", "--query", *packages], quiet=True):
            run.check(["dnf", "install", "--assumeyes", *packages], subject="dnf install")
        else:
            run.say("All packages are installed.")
    else:
        raise StepError("this host has neither apt-get nor dnf")


def _install_with_apt(run: Execution, packages: Sequence[str]) -> None:
    if all(_is_installed(run, package) for package in packages):
        run.say("All packages are installed.")
        return
    while run.run([*APT, "update"], environment=APT_ENVIRONMENT):
        if not any(APT_LOCKED.search(line) for line in run.output.tail()):
            raise StepError("apt-get update failed")
        run.sleep(APT_PAUSE)
    run.check([*APT, "install", *packages], subject="apt-get install", environment=APT_ENVIRONMENT)


def _is_installed(run: Execution, package: str) -> bool:
    name, _equals, version = package.partition("=")
    test = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", name]
    done = subprocess.run(test, env={"PATH": PATH}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    status, _space, installed = done.stdout.strip().partition(" ")
    return done.returncode == 0 and status == "installed" and version in ("", installed)


def run_script(run: Execution) -> None:
    """Write or download the script, and run it. A file without #! is a bash script."""
    path = os.path.join(run.folder, "script")
    if run.step["content"] is None:
        _download(run, run.step["script"], path)
    else:
        with open(path, "wb") as file:
            file.write(base64.b64decode(run.step["content"]))
    with open(path, "rb") as file:
        content = file.read()
    found = hashlib.sha256(content).hexdigest()
    if run.step["sha256"] and found != run.step["sha256"]:
        raise StepError(f"the SHA-256 digest of the downloaded file is {found}, not {run.step['sha256']}")
    os.chown(path, os.geteuid(), run.account.pw_gid)
    os.chmod(path, 0o750)
    os.chmod(run.folder, 0o711)
    run.check([*([] if content.startswith(b"#!") else ["/bin/bash"]), path, *run.step["arguments"]], subject="the script")


def _download(run: Execution, url: str, path: str) -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    if url.startswith("s3://"):
        aws = shutil.which("aws", path=AWS_PATH)
        if aws is None:
            raise StepError("the AWS CLI, which downloads from S3, is not installed on this host")
        region = ["--region", run.region] if run.region else []
        run.check([aws, "s3", "cp", "--only-show-errors", *region, url, path], user=own, subject="aws s3 cp")
        return
    curl = ["curl", "--fail", "--location", "--silent", "--show-error", "--retry", "5", "--proto", "=https", "--proto-redir", "=https"]
    run.check([*curl, "--output", path, "--config", "-"], user=own, subject="curl", stdin=curl_configuration(url))


def curl_configuration(url: str) -> str:
    """Return the configuration that makes curl use a URL. Raises StepError if the URL contains control characters.

    curl reads the configuration from stdin, because every user of the host can see command lines, and a URL's query may contain a
    signature. A line break in the URL would add options to the configuration.
    """
    if re.search(r"[\x00-\x1f\x7f-\x9f]", url):
        raise StepError("the URL contains control characters")
    return 'url = "{}"\n'.format(url.replace("\\", "\\\\").replace('"', '\\"'))


def run_command(run: Execution) -> None:
    """Run a command. If the command is a string, bash interprets it."""
    command = run.step["command"]
    run.check(["/bin/bash", "-c", command] if isinstance(command, str) else command, subject="the command")


def check_out(run: Execution) -> None:
    path = run.step["path"]
    if run.account.pw_uid == 0:
        folder = changeable(path)
        if folder:
            raise StepError(f"root would run git below {folder}, which other users can change")
    arguments = [run.step["repository"], run.step["version"], path]
    run.check(["/bin/bash", "-c", CHECK_OUT, "bash", *arguments], subject="git", environment=GIT_ENVIRONMENT)


def changeable(path: str) -> str:
    """Return the first part of a path (directory or link) that users other than root can change, or an empty string if there is none."""
    for end in (path, os.path.realpath(path)):
        folder = "/"
        for name in ["", *end.split("/")]:
            folder = os.path.join(folder, name)
            try:
                status = os.lstat(folder)
            except FileNotFoundError:
                break
            shared = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid)
            if status.st_uid or (shared and not stat.S_ISLNK(status.st_mode)):
                return folder
    return ""


ACTIONS: Mapping[str, Callable[[Execution], None]] = {
    "packages": install_packages,
    "script": run_script,
    "command": run_command,
    "repository": check_out,
}


def run_step(spec: SetupSpec, step: SetupStep) -> bool:
    log = os.path.join(spec.logs, f"{step['digest']}.log")
    path = os.path.join(spec.records, f"{step['digest']}.json")
    record = {"name": step["name"], "state": "running", "started": time.time(), "exit_code": None, "log": log}
    write_json(path, record)
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        output = Output(file, step["hidden"])
        try:
            with tempfile.TemporaryDirectory(dir=spec.work) as folder:
                ACTIONS[step["kind"]](Execution(step, output, folder, spec.region))
            record.update(state="succeeded", exit_code=0)
        except StepError as error:
            record.update(state="failed", reason=str(error), exit_code=error.code)
        except StoppedError:
            record.update(state="failed", reason="systemd stopped it")
        except OSError as error:
            record.update(state="failed", reason=str(error))
    write_json(path, {**record, "ended": time.time(), "tail": output.tail()})
    return record["state"] == "succeeded"


def write_json(path: str, content: Any) -> None:
    """Replace a file atomically, and wait until it is on the disk, because a step may restart the host."""
    with replacing(path) as file:
        file.write(json.dumps(content).encode())
        file.flush()
        os.fsync(file.fileno())


def write_progress(spec: SetupSpec, step: SetupStep) -> None:
    """Write the number of the running step, and the digests of all steps of the attempt, to the progress file."""
    digests = [each["digest"] for each in spec.steps]
    write_json(spec.progress, {"attempt": spec.attempt, "digests": digests, "number": step["number"], "started": time.time()})


def _stop(_number: int, _frame: Any) -> NoReturn:
    raise StoppedError


def main(argv: Sequence[str]) -> int:
    os.umask(0o022)
    signal.signal(signal.SIGTERM, _stop)
    with open(argv[0], encoding="utf-8") as file:
        spec = SetupSpec(**json.load(file))
    os.unlink(argv[0])
    for step in spec.steps:
        write_progress(spec, step)
        if not run_step(spec, step):
            return 1
    return 0
