# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The options of a training job, each declared once.

The module `training_job` and the role of the same name have all of these options. The module's documentation is computed from this list,
and `python tools/job_options.py` writes the role's argument specs and default values. The module also has options that
only the role and the action plugin set. They are declared in job_parameters.py.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from ..._queues.registry import QUEUES
from ..naming import DEFAULT_USER

# Parts of a working directory that are not code: history, caches, and environments. Virtual environments work only in the directory in
# which they were created. Below the top, `venv` may be a package of the code.
LEFT_OUT = (".git", "__pycache__", ".venv", "/venv", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache")

TEXT: Mapping[str, Any] = {"type": "str"}
TEXTS: Mapping[str, Any] = {"type": "list", "elements": "str", "default": []}
NUMBERS: Mapping[str, Any] = {"type": "list", "elements": "int", "default": []}
DICTIONARY: Mapping[str, Any] = {"type": "dict", "default": {}}


class Option(NamedTuple):
    """An option of the module `training_job`, and a variable of the role.

    `spec` is the option's part of the argument spec. Each string in `description`, `of_module` and `of_role` is a paragraph. Those of
    `of_module` and `of_role` follow the others, each only in the documentation of the module or of the role. `O(x)` refers to another
    option.

    `variable` is the name of the role's variable without its prefix, if it differs from the option's name. `default` is the default value
    of this variable if it differs from the one in `spec`.
    """

    name: str
    spec: Mapping[str, Any]
    description: Sequence[str]
    of_module: Sequence[str] = ()
    of_role: Sequence[str] = ()
    variable: str = ""
    default: str = ""


def number(default: int) -> dict[str, Any]:
    return {"type": "int", "default": default}


def switch(default: bool) -> dict[str, Any]:
    return {"type": "bool", "default": default}


OPTIONS = (
    Option(
        "name",
        {"type": "str", "required": True},
        ["Name of the job, with at most 63 lowercase letters, digits and hyphens. The name must not begin or end with a hyphen."],
        of_role=[
            "Each job needs a unique name. If the variable is empty, the job's name consists of the script's name and the time. Set a"
            " name if you might want to wait for the job again."
        ],
    ),
    Option(
        "directory",
        {"type": "path"},
        ["Parent directory of the job directories, on storage that all hosts share."],
        of_module=["Required except with O(state=checked) and O(state=stopped)."],
        of_role=["The default is the directory C(jobs) below C(deeplearning_mount_point), which is V(/efs) by default."],
        default="{{ deeplearning_mount_point | default('/efs') }}/jobs",
    ),
    Option(
        "script",
        TEXT,
        [
            "The training script. With O(source) or O(repository), it is a relative path in that directory or repository. Otherwise, the"
            " script is a path on the controller."
        ],
        of_module=["Required unless O(command) is specified or O(state=stopped) is set."],
    ),
    Option(
        "command",
        TEXTS,
        [
            "Command that each training process runs instead of a Python O(script), such as V([bash, run.sh]). O(arguments) are appended.",
            "The program is looked up in the directory of O(python), then in C(PATH). The working directory is the code directory.",
        ],
    ),
    Option(
        "source",
        TEXT,
        [
            "Directory on the controller with the job's code, for code that consists of more than one file. Its contents are copied to"
            " the job's directory.",
            "If it is a Git working tree, the job's record contains the commit, and states whether files differ from the commit.",
        ],
    ),
    Option(
        "repository",
        TEXT,
        [
            "Git repository that the controller clones and copies to the job's directory, instead of O(source).",
            "Git runs on the controller with the controller's keys and credentials. Git cannot prompt for credentials.",
        ],
    ),
    Option(
        "version",
        TEXT,
        [
            "Branch, tag or commit of O(repository). The default is the repository's default branch.",
            "40 or 64 hexadecimal digits are always the ID of a commit. If a branch and a tag have the same name, specify"
            " C(refs/heads/NAME) or C(refs/tags/NAME).",
        ],
    ),
    Option(
        "exclude",
        {**TEXTS, "default": list(LEFT_OUT)},
        [
            "Patterns of files and directories in O(source) or O(repository) that are not copied. A pattern such as V(*.ckpt) matches"
            " names at any depth. A pattern with a slash, such as V(data/raw) or V(/venv), matches paths relative to the top directory."
            " V(*) matches no slash, and V(**) matches any number of directories."
        ],
    ),
    Option(
        "sync_directory",
        TEXT,
        [
            "Directory on each host's local disk to which the job's code is copied. The processes run in this directory. Without this"
            " option, they run in the job's code directory on the shared storage.",
            "Files of an earlier job in this directory are replaced. The job does not start if the directory contains other files, or if"
            " another running job on the host uses it.",
        ],
    ),
    Option(
        "resume",
        TEXT,
        [
            "Name of an earlier job that this job continues from a checkpoint. C(DEEPLEARNING_CHECKPOINT_DIRECTORY) is then set to the"
            " directory of the earlier job's checkpoints. The script loads the newest checkpoint from this directory, and writes new"
            " checkpoints to it.",
            "The earlier job must have ended, and its checkpoint directory must contain a complete checkpoint. Hidden files, and files and"
            " directories whose names end in C(.tmp), count as partial checkpoints.",
        ],
        of_role=["With V(newest), the newest job that has ended is continued."],
    ),
    Option("arguments", TEXTS, ["Arguments that are passed to the script unchanged, without a shell."]),
    Option(
        "environment",
        DICTIONARY,
        ["Environment variables for the processes, in addition to the variables of the user's login shell."],
    ),
    Option(
        "environment_by_task",
        DICTIONARY,
        [
            "Environment variables for the processes of one task type. Each key is a task type, and each value is a dictionary of"
            " variables, which override variables in O(environment) and O(secrets).",
            "With the launcher V(mxnet), the types are V(worker), V(server) and V(scheduler). With the launcher V(tensorflow), they are"
            " V(worker), V(ps) and V(chief), depending on the strategy. Other launchers have no task types.",
        ],
    ),
    Option(
        "secrets",
        {**DICTIONARY, "no_log": True},
        [
            "Environment variables with secret values. The values never appear in a command line, a unit, or a file that other users can"
            " read.",
        ],
    ),
    Option(
        "launcher",
        {"type": "str", "default": "torchrun"},
        [
            "The launcher, which determines the processes that run on the hosts. For example, V(torchrun) starts one agent per host. The"
            " page C(docs/launchers.md) lists all launchers."
        ],
    ),
    Option("launcher_options", DICTIONARY, ["Options of the launcher. See C(docs/launchers.md)."]),
    Option(
        "python",
        {"type": "path", "default": "/opt/pytorch/bin/python"},
        [
            "Path, on the hosts, of the Python interpreter that has the framework installed. Launchers need it even if O(command) is"
            " specified.",
        ],
        of_role=[
            "The default is the interpreter that the role C(python_environment) provides, if that role has already run, or otherwise"
            " C(/opt/pytorch/bin/python), as in the AWS Deep Learning AMIs."
        ],
        default="{{ python_environment_result.python | default('/opt/pytorch/bin/python') }}",
    ),
    Option(
        "user",
        {"type": "str", "default": DEFAULT_USER},
        [
            "User account that runs the processes. The account must exist on all hosts with the same user ID.",
            "If the default user does not exist on a host, it is created with UID and GID 61000. This user has no password, belongs only"
            " to its own group, and cannot log in.",
        ],
        of_role=["The login user is C(ansible_user)."],
    ),
    Option(
        "sandbox",
        switch(True),
        [
            "Whether to prevent the processes from gaining privileges (C(NoNewPrivileges)), and to hide C(/home), C(/root) and C(/run/user)"
            " from them. The processes can still access the home directory of O(user), O(sync_directory), the environment of O(python), and"
            " shared storage that is mounted in these directories."
        ],
        of_role=["The default is V(true) unless O(user) is the login user."],
        default="{{ training_job_user != ansible_user | default('') }}",
    ),
    Option(
        "queue",
        {"type": "str", "choices": sorted(QUEUES)},
        [
            "Name of the queue that decides when the job runs and, with O(host_count), on which hosts. The job does not share its hosts."
            " Without a queue, the job starts immediately."
        ],
        of_module=["Required with O(state=queued) and O(state=submitted). With O(state=prepared), the module checks the queue."],
        of_role=[
            "V(slurm) needs the role P(deeplearning.cluster.slurm#role), V(sge) the role P(deeplearning.cluster.sge#role), and V(yarn)"
            " an EMR cluster."
        ],
    ),
    Option(
        "host_count",
        number(0),
        ["Number of hosts on which the job runs. The queue chooses these hosts from the job's hosts. V(0) means all hosts."],
    ),
    Option(
        "gpus",
        {"type": "list", "elements": "int"},
        [
            "Indices of the GPUs that the job may use on each host, as C(nvidia-smi) numbers them. Use this for jobs that share hosts.",
            "By default, the job may use all GPUs. A job does not start if another job on the same host uses one of its GPUs.",
        ],
    ),
    Option(
        "processes_per_host",
        number(0),
        ["Number of training processes on each host. V(0) means one per GPU, or one on a host without GPUs."],
    ),
    Option(
        "time_limit",
        number(0),
        [
            "Maximum duration of the job in seconds. After this time, the hosts stop the job, even without the controller, and the job"
            " counts as failed.",
            "V(0) means no limit.",
        ],
    ),
    Option(
        "max_cost",
        {"type": "float", "default": 0},
        [
            "Maximum cost of the job's nodes while the job runs, in the currency of the cluster's price. The action plugin turns it into"
            " a time limit: O(time_limit) or the time that this amount pays for, whichever is shorter. The hosts enforce the limit without"
            " the controller.",
            "The price is that of the nodes at the start of the job, with their volumes and addresses, which this run must have read. On"
            " EMR, it is the price that another run on this controller has kept. If the master has another price than a"
            " worker, the higher one counts for each node.",
            "What earlier attempts of the job have cost counts, and what the jobs have cost that it continues, all at this price.",
            "V(0) means no limit.",
        ],
    ),
    Option(
        "stop_timeout",
        number(30),
        ["Seconds between SIGTERM and SIGKILL when the job is stopped. Processes can use this time to write a checkpoint."],
        of_module=["O(state=stopped) uses the value with which the job was started."],
    ),
    Option("heartbeat_timeout", number(60), ["Seconds without a heartbeat after which a process, and therefore its host, counts as lost."]),
    Option(
        "hang_timeout",
        number(0),
        [
            "Seconds without any activity after which the job counts as hanging. Activity is output of a process, an entry in the"
            " progress file, or a change in the checkpoint directory.",
            "The hosts collect the stacks of all processes, identify the rank that differs from the others, and end the attempt. See"
            " C(docs/recovery.md).",
            "The default V(0) disables this check, because a script may be silent for hours.",
        ],
    ),
    Option(
        "hang_steps",
        number(3),
        [
            "The job counts as hanging if the progress file shows no new step for this multiple of the median step time, plus up to 10 s.",
            "The entries of the progress file need C(step) and C(steps). An entry without C(step) suspends the check until the next"
            " step, for example during an evaluation.",
            "V(0) disables this check. The check also requires the time without activity that O(hang_minimum) sets.",
        ],
    ),
    Option(
        "hang_minimum",
        number(300),
        [
            "The check O(hang_steps) ends an attempt only after this number of seconds without any activity, so that it does not end an"
            " evaluation or a checkpoint that the script has not announced. Activity is defined as for O(hang_timeout).",
            "With V(0), only steps count. A hang is then found within 3 times the median step time plus 10 s.",
        ],
    ),
    Option(
        "restarts",
        number(3),
        [
            "Maximum number of consecutive restarts without a new checkpoint. A new checkpoint resets the count, so that a long job is"
            " not ended by faults that are days apart.",
            "If an attempt of the job fails, the hosts start the job again, unless it is certain to fail again. The hosts do this"
            " without the controller. The page C(docs/recovery.md) describes when a job is restarted.",
            "With V(0), the job ends at its first failure.",
        ],
    ),
    Option(
        "min_hosts",
        number(0),
        [
            "Minimum number of hosts with which the job is restarted if hosts are lost. With fewer hosts, the job has fewer training"
            " processes.",
            "V(0) means all of the job's hosts, excluding the O(spares).",
        ],
    ),
    Option(
        "spares",
        number(0),
        [
            "Number of the job's hosts that wait on standby instead of running the job. These are the hosts with the highest numbers. If"
            " the job is restarted because another host is lost, a spare takes its place, so the number of training processes does not"
            " change.",
            "The loss of a spare does not affect the job.",
            "Cannot be combined with O(queue).",
        ],
        of_role=[
            "The default is the number of hosts beyond the master and C(deeplearning_worker_count) workers, but at most"
            " C(deeplearning_spares). Without C(deeplearning_spares), and with a queue, the default is V(0)."
        ],
        # A job on all nodes of the definition keeps the spares on standby. A job on fewer nodes has fewer spares, or none.
        default="{{ 0 if training_job_queue"
        " else [0, [deeplearning_spares | default(0) | int, __training_job_surplus | int] | min] | max }}",
    ),
    Option("stop_exit_codes", NUMBERS, ["Exit statuses of the script after which the job is not restarted."]),
    Option(
        "restart_exit_codes",
        NUMBERS,
        [
            "Exit statuses of the script after which the job is restarted, up to O(restarts) times, even if the same error occurs again.",
        ],
    ),
    Option(
        "health_check",
        switch(True),
        [
            "Whether the health of all hosts is checked before the job starts, and after a failure of the job, before it is restarted."
            " The job does not start on an unhealthy host. See M(deeplearning.cluster.node_health)."
        ],
    ),
    Option(
        "health_interval",
        number(300),
        [
            "Seconds between two health checks of a host while jobs run on it. A finding with a severity other than V(monitor) ends the"
            " attempt. The job is then restarted as after any failure.",
            "With V(0), no health checks run while jobs run. They do not run either if O(restarts) is V(0) or O(health_check) is V(false).",
            "The interval of the last job that was started on a host applies to all jobs on this host. The findings of checks for other"
            " jobs do not affect a job with V(0).",
        ],
    ),
    Option(
        "reboot",
        switch(False),
        [
            "Whether hosts reboot themselves if a health check after a failure of the job requires a reboot. A host reboots when it has"
            " left the job and no other job and no export runs on it, and at most once per hour. It does not reboot if the same check"
            " already had a finding after the last boot. A job that cannot continue without the host waits at most 10 minutes for it.",
            "The default is V(false), because a reboot ends everything else that runs on the host.",
            "The value of the last job that was started on a host decides whether this host reboots. Only jobs with V(true) wait for the"
            " host. Cannot be combined with O(queue).",
        ],
    ),
    Option(
        "metrics_directory",
        {"type": "path"},
        [
            "Directory on the hosts for the file C(deeplearning-<name>.prom), which contains the job's metrics, for example for the"
            " textfile collector of node_exporter. The host of the job's first process writes the file every minute and when the job"
            " ends, even without the controller.",
            "If the directory does not exist, it is created, and O(user) becomes its owner. Otherwise, this user must be able to write"
            " to it. The processes of all jobs of this user can change the files in the directory. A path through a symbolic link is"
            " rejected.",
            "Without a directory, the hosts write no metrics.",
        ],
        variable="host_metrics_directory",
    ),
)
