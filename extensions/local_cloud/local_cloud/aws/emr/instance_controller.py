"""The instance controller of EMR, which runs on each node, prepares the node, and executes the bootstrap actions.

The instance controller gets its task from the local cloud through the socket of the host, reports the outcome through the same socket, and
exits. The controller uses the credentials of the node's role to read scripts from S3 and to write logs to S3. Source of paths: Amazon EMR
Management Guide, "Create bootstrap actions to install additional software" and "View log files".
"""

from __future__ import annotations

import gzip
import json
import os
import pwd
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TASK = "http://127.0.0.2/_emr/node"
USER = "hadoop"
INFO, LOGS = Path("/mnt/var/lib/info"), Path("/mnt/var/log/bootstrap-actions")
CONTROLLER = Path("/emr/instance-controller")
ACTIONS = CONTROLLER / "lib/bootstrap-actions"
# The folder in which the file `isbusy` shows that the cluster is not idle.
METRICS_COLLECTOR = Path("/emr/metricscollector")
# The longest duration of a bootstrap action in seconds.
LIMIT = 3600
# Folders of the user `hadoop`.
OWN_FOLDERS = ("/mnt/s3", "/mnt/var/log/hadoop", "/mnt/yarn", "/mnt/hdfs")
APPLICATION_FOLDERS = ("/etc/{}/conf", "/usr/lib/{}")
S3_SCHEMES = ("s3://", "s3a://", "s3n://")
S3 = ["--s3-provider=Other", "--s3-env-auth", "--s3-endpoint=http://127.0.0.2", "--s3-force-path-style", "--s3-no-check-bucket"]
S3 += ["--config=/dev/null", "--retries=1", "--low-level-retries=3"]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PAUSE = 0.5


def get_task() -> dict[str, Any]:
    """Return the task of this node. Waits until the local cloud responds."""
    while True:
        try:
            with urllib.request.urlopen(TASK, timeout=30) as response:
                return dict(json.load(response))
        except (OSError, ValueError):
            time.sleep(PAUSE)


def report(failure: dict[str, Any] | None) -> None:
    """Report the outcome. Waits until the local cloud responds."""
    request = urllib.request.Request(TASK, json.dumps({"failure": failure}).encode(), {"Content-Type": "application/json"})
    while True:
        try:
            urllib.request.urlopen(request, timeout=30).close()
            return
        except urllib.error.HTTPError:
            return  # the node has been terminated
        except OSError:
            time.sleep(PAUSE)


def prepare(task: dict[str, Any], region: str) -> None:
    """Create the folders of EMR and the files that describe the node and its cluster."""
    for folder in (INFO, LOGS, ACTIONS, METRICS_COLLECTOR, Path("/mnt/var/log/instance-controller"), *map(Path, OWN_FOLDERS)):
        folder.mkdir(parents=True, exist_ok=True)
    Path("/mnt/tmp").mkdir(exist_ok=True)
    os.chmod("/mnt/tmp", 0o1777)
    log = CONTROLLER / "log"
    if not log.exists():
        log.symlink_to("/mnt/var/log/instance-controller")
    for folder in OWN_FOLDERS:
        shutil.chown(folder, USER, USER)
    for name in ("instance", "job-flow"):
        (INFO / f"{name}.json").write_text(json.dumps(task[name], indent=2) + "\n")
    configuration = Path(home(), ".aws/config")
    configuration.parent.mkdir(exist_ok=True)
    configuration.write_text(Path("/usr/local/lib/local-cloud/aws-config").read_text() + f"region = {region}\n")
    for path in (configuration.parent, configuration):
        shutil.chown(path, USER, USER)


def home() -> str:
    return pwd.getpwnam(USER).pw_dir


def run_actions(task: dict[str, Any]) -> dict[str, Any] | None:
    """Execute the bootstrap actions in order, and return the failure of the first one that fails, or None."""
    for number, action in enumerate(task["bootstrap_actions"], start=1):
        logs = LOGS / str(number)
        logs.mkdir(exist_ok=True)
        reason = run_action(number, action["path"], action["args"], logs)
        save_logs(task["log_uri"], number, logs)
        if reason:
            return {"action": number, "reason": reason}
    return None


def run_action(number: int, path: str, arguments: list[str], logs: Path) -> str:
    """Execute a bootstrap action as `hadoop`. Return '' on success, otherwise the kind of failure: `download`, `status`, or `timeout`."""
    folder = ACTIONS / str(number)
    folder.mkdir(exist_ok=True)
    shutil.chown(folder, USER, USER)
    script = folder / Path(path).name
    with (logs / "controller").open("w") as controller:
        fetched = fetch(path, script)
        if fetched:
            controller.write(f"Failed to download {path}: {fetched}\n")
            return "download"
        script.chmod(0o755)
        controller.write(f"startExec '{' '.join([str(script), *arguments])}'\n")
        outcome = execute([str(script), *arguments], folder, logs)
        controller.write(f"waitProcessCompletion ended with {outcome or 'exit code 0'}\n")
    return "timeout" if outcome == "timeout" else "status" if outcome else ""


def execute(command: list[str], folder: Path, logs: Path) -> str:
    """Run a command as `hadoop`. Return '' on success, otherwise the kind of failure."""
    account = pwd.getpwnam(USER)
    environment = {"HOME": account.pw_dir, "USER": USER, "LOGNAME": USER, "SHELL": account.pw_shell, "PATH": PATH, "LANG": "C.UTF-8"}
    with (logs / "stdout").open("wb") as stdout, (logs / "stderr").open("wb") as stderr:
        try:
            done = subprocess.run(
                command,
                check=False,
                cwd=folder,
                env={**environment, "AWS_ENDPOINT_URL": os.environ.get("AWS_ENDPOINT_URL", "")},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                timeout=LIMIT,
                user=account.pw_uid,
                group=account.pw_gid,
                extra_groups=os.getgrouplist(USER, account.pw_gid),
            )
        except subprocess.TimeoutExpired:
            return "timeout"
        except OSError as error:
            stderr.write(f"{error}\n".encode())
            return str(error)
    return f"exit code {done.returncode}" if done.returncode else ""


def fetch(path: str, destination: Path) -> str:
    """Copy a script from S3 or from this node. Return '' on success, otherwise the error."""
    if not path.startswith(S3_SCHEMES):
        try:
            shutil.copyfile(path.removeprefix("file://"), destination)
        except OSError as error:
            return str(error)
        return ""
    error = copy_object(f":s3:{path.partition('://')[2]}", str(destination))
    # rclone treats a missing object as an empty folder
    return error or ("" if destination.exists() else "The object does not exist")


def copy_object(source: str, destination: str) -> str:
    """Copy an object from or to S3. Return '' on success, otherwise the error."""
    done = subprocess.run(["rclone", "copyto", *S3, source, destination], check=False, capture_output=True, text=True)
    return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""


def save_logs(log_uri: str, number: int, logs: Path) -> None:
    """Copy the logs of a bootstrap action to S3.

    As on EMR, the logs are lost if the role is not allowed to write to this location.
    """
    for path in sorted(logs.iterdir()) if log_uri else ():
        packed = CONTROLLER / f"{path.name}.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        copy_object(str(packed), f":s3:{log_uri.partition('://')[2]}bootstrap-actions/{number}/{path.name}.gz")
        packed.unlink()


def install(applications: list[str], master: str) -> None:
    """Create the folders of the applications, and the Hadoop settings that contain the master's name.

    EMR creates these folders and settings after the bootstrap actions.
    """
    for name in applications:
        for folder in APPLICATION_FOLDERS:
            Path(folder.format(name)).mkdir(parents=True, exist_ok=True)
    settings = {"core-site": {"fs.defaultFS": f"hdfs://{master}:8020"}, "yarn-site": {"yarn.resourcemanager.hostname": master}}
    for name, values in settings.items():
        entries = "".join(f"  <property><name>{key}</name><value>{value}</value></property>\n" for key, value in values.items())
        Path(f"/etc/hadoop/conf/{name}.xml").write_text(f'<?xml version="1.0"?>\n<configuration>\n{entries}</configuration>\n')


def main() -> None:
    task = get_task()
    prepare(task, task["region"])
    failure = run_actions(task)
    if failure is None:
        install(task["applications"], task["job-flow"]["masterPrivateDnsName"])
    report(failure)


if __name__ == "__main__":
    main()
