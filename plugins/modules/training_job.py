#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs one host's part of a training job: checks the host, unpacks the code, and starts and stops the job's processes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job
version_added: 0.1.0
short_description: Runs a distributed training job on the hosts of a cluster
description:
  - A job consists of processes on one or more hosts. The processes are transient systemd services in the job's own slice. They run as
    an ordinary user, and continue to run after Ansible disconnects. Stopping a job stops all of its processes, and no other processes.
  - By default, jobs run as a separate user, who cannot become root, cannot log in, and cannot see the home directories of other users.
  - Run the task on every host of the job. Run it with O(state=prepared) first, so that no process starts before all hosts have been
    checked. Then run it with O(state=started), and pass the hosts' results in O(hosts). M(deeplearning.cluster.training_job_wait) waits
    until the job ends.
  - Each job has a directory on the shared storage for its code, logs, records, checkpoints and progress. The module never deletes
    this directory.
  - The role P(deeplearning.cluster.training_job#role) runs all of these tasks.
notes:
  - Hosts need the files that the role C(deeplearning.cluster.worker_metadata) writes, and systemd 240 or later.
  - The action plugin of the same name sends the code in one transfer.
options:
  name:
    description:
      - Name of the job, with at most 63 lowercase letters, digits and hyphens. The name must not begin or end with a hyphen.
    type: str
    required: true
  state:
    description:
      - V(checked) checks the job's options on the controller, without connecting to a host.
      - V(prepared) checks the host and, on the first host, copies the code to the job's directory, but starts no processes. The task fails
        if a job with this name has already run, unless the job can be continued. A job can be continued if an operator, the
        infrastructure or a lack of hosts has ended it, and if its code and its definition are the same.
      - V(printed) returns the processes on all hosts, and one script per host with their commands. It also writes the scripts to O(dest).
        With this state, the module runs on the controller and starts no processes. The scripts contain the names of the O(secrets), but not
        the values.
      - V(queued) keeps the job's parameters on this host, in a directory that only root can read, until O(queue) starts the job there.
      - V(started) starts this host's processes. A running job is not changed.
      - V(stopped) stops this host's processes, first with SIGTERM, and after O(stop_timeout) seconds with SIGKILL. The task fails if a
        process is still running after that. A job in a queue is cancelled.
      - V(submitted) submits the job to O(queue). Run the task on one of the hosts, after O(state=queued) on all of them.
    type: str
    choices: [checked, prepared, printed, queued, started, stopped, submitted]
    default: started
  directory:
    description:
      - Parent directory of the job directories, on storage that all hosts share.
      - Required except with O(state=checked) and O(state=stopped).
    type: path
  script:
    description:
      - The training script. With O(source) or O(repository), it is a relative path in that directory or repository. Otherwise, the script
        is a path on the controller.
      - Required unless O(command) is specified or O(state=stopped) is set.
    type: str
  command:
    description:
      - Command that each training process runs instead of a Python O(script), such as V([bash, run.sh]). O(arguments) are appended.
      - The program is looked up in the directory of O(python), then in C(PATH). The working directory is the code directory.
    type: list
    elements: str
    default: []
  source:
    description:
      - Directory on the controller with the job's code, for code that consists of more than one file. Its contents are copied to the
        job's directory.
      - If it is a Git working tree, the job's record contains the commit, and states whether files differ from the commit.
    type: str
  repository:
    description:
      - Git repository that the controller clones and copies to the job's directory, instead of O(source).
      - Git runs on the controller with the controller's keys and credentials. Git cannot prompt for credentials.
    type: str
  version:
    description:
      - Branch, tag or commit of O(repository). The default is the repository's default branch.
      - 40 or 64 hexadecimal digits are always the ID of a commit. If a branch and a tag have the same name, specify C(refs/heads/NAME) or
        C(refs/tags/NAME).
    type: str
  exclude:
    description:
      - Patterns of files and directories in O(source) or O(repository) that are not copied. A pattern such as V(*.ckpt) matches names at
        any depth. A pattern with a slash, such as V(data/raw) or V(/venv), matches paths relative to the top directory. V(*) matches no
        slash, and V(**) matches any number of directories.
      - The default is V(.git), V(__pycache__), V(.venv), V(/venv), V(.ipynb_checkpoints), V(.mypy_cache), V(.pytest_cache), V(.ruff_cache).
    type: list
    elements: str
  sync_directory:
    description:
      - Directory on each host's local disk to which the job's code is copied. The processes run in this directory. Without this option,
        they run in the job's code directory on the shared storage.
      - Files of an earlier job in this directory are replaced. The module fails if the directory contains other files, or if another
        running job on the host uses it.
    type: str
  resume:
    description:
      - Name of an earlier job that this job continues from a checkpoint. C(DEEPLEARNING_CHECKPOINT_DIRECTORY) is then set to the directory
        of the earlier job's checkpoints. The script loads the newest checkpoint from this directory, and writes new checkpoints to it.
      - The earlier job must have ended, and its checkpoint directory must contain a complete checkpoint. Hidden files, and files and
        directories whose names end in C(.tmp), count as partial checkpoints.
    type: str
  arguments:
    description:
      - Arguments that are passed to the script unchanged, without a shell.
    type: list
    elements: str
    default: []
  environment:
    description:
      - Environment variables for the processes, in addition to the variables of the user's login shell.
    type: dict
    default: {}
  environment_by_task:
    description:
      - Environment variables for the processes of one task type. Each key is a task type, and each value is a dictionary of variables,
        which override variables in O(environment) and O(secrets).
      - With the launcher V(mxnet), the types are V(worker), V(server) and V(scheduler). With the launcher V(tensorflow), they are
        V(worker), V(ps) and V(chief), depending on the strategy. Other launchers have no task types.
    type: dict
    default: {}
  secrets:
    description:
      - Environment variables with secret values. The values never appear in a command line, a unit, or a file that other users can read.
    type: dict
    default: {}
  key:
    description:
      - Random string with which the processes of a job authenticate to each other. The key is needed if the launcher starts commands on
        other hosts (V(mpi) and V(horovod)), and with O(queue=yarn), so that the hosts recognize the job's application. The key must be the
        same on all hosts, and different for each job.
    type: str
  launcher:
    description:
      - The launcher, which determines the processes that run on the hosts. For example, V(torchrun) starts one agent per host. The page
        C(docs/launchers.md) lists all launchers.
    type: str
    default: torchrun
  launcher_options:
    description:
      - Options of the launcher.
    type: dict
    default: {}
  python:
    description:
      - Path, on the hosts, of the Python interpreter that has the framework installed. Launchers need it even if O(command) is specified.
    type: path
    default: /opt/pytorch/bin/python
  user:
    description:
      - User account that runs the processes. The account must exist on all hosts with the same user ID.
      - If the default user does not exist on a host, it is created with UID and GID 61000. This user has no password, belongs only to its
        own group, and cannot log in.
    type: str
    default: deeplearning
  sandbox:
    description:
      - Whether to prevent the processes from gaining privileges (C(NoNewPrivileges)), and to hide C(/home), C(/root) and C(/run/user)
        from them. The processes can still access the home directory of O(user), O(sync_directory), the environment of O(python), and
        shared storage that is mounted in these directories.
    type: bool
    default: true
  hosts:
    description:
      - The job's hosts. Each entry is the RV(host) that O(state=prepared) returned on that host.
      - Required with O(state=printed), O(state=queued), O(state=started) and O(state=submitted).
  queue:
    description:
      - Name of the queue that decides when the job runs and, with O(host_count), on which hosts. The job does not share its hosts.
      - Required with O(state=queued) and O(state=submitted). With O(state=prepared), the module checks the queue.
    type: str
    choices: [sge, slurm, yarn]
    version_added: 0.2.0
  queue_hosts:
    description:
      - Names of the hosts that must belong to the queue. The action plugin sets this option on the first host.
    type: list
    elements: str
    version_added: 0.2.0
  on_first_host:
    description:
      - Whether the job runs only on the first host of the cluster, where playbooks read the records of jobs. Only such a job can have its
        O(directory) on the host's own disk. The action plugin sets this option.
    type: bool
    default: false
    version_added: 0.2.0
  printed:
    description:
      - Whether O(state=printed) follows, and no start of the job. Used only with O(state=prepared). Playbooks that remove nodes ignore such
        a job. See P(deeplearning.cluster.jobs_on#filter).
    type: bool
    default: false
    version_added: 0.2.0
  host_count:
    description:
      - Number of hosts on which the job runs. The queue chooses these hosts from O(hosts). V(0) means all hosts.
    type: int
    default: 0
    version_added: 0.2.0
  gpus:
    description:
      - Indices of the GPUs that the job may use on each host, as C(nvidia-smi) numbers them. Use this for jobs that share hosts.
      - By default, the job may use all GPUs. A job does not start if another job on the same host uses one of its GPUs.
    type: list
    elements: int
  processes_per_host:
    description:
      - Number of training processes on each host. V(0) means one per GPU, or one on a host without GPUs.
    type: int
    default: 0
  time_limit:
    description:
      - Maximum duration of the job in seconds. After this time, the hosts stop the job, even without the controller, and the job counts as
        failed.
      - V(0) means no limit.
    type: int
    default: 0
  stop_timeout:
    description:
      - Seconds between SIGTERM and SIGKILL when the job is stopped. O(state=stopped) uses the value with which the job was started.
    type: int
    default: 30
  heartbeat_timeout:
    description:
      - Seconds without a heartbeat after which a process counts as lost.
    type: int
    default: 60
  hang_timeout:
    description:
      - Seconds without any activity after which the job counts as hanging. Activity is output of a process, an entry in the progress file,
        or a change in the checkpoint directory.
      - The hosts collect the stacks of all processes before they end the attempt. See C(docs/recovery.md).
      - The default V(0) disables this check, because a script may be silent for hours.
    type: int
    default: 0
    version_added: 0.2.0
  hang_steps:
    description:
      - The job counts as hanging if the progress file shows no new step for this multiple of the median step time, plus up to 10 s.
      - The entries of the progress file need C(step) and C(steps). An entry without C(step) suspends the check until the next step, for
        example during an evaluation.
      - V(0) disables this check. The check also requires the time without activity that O(hang_minimum) sets.
    type: int
    default: 3
    version_added: 0.2.0
  hang_minimum:
    description:
      - The check O(hang_steps) ends an attempt only after this number of seconds without any activity, so that it does not end an
        evaluation or a checkpoint that the script has not announced. Activity is defined as for O(hang_timeout).
      - With V(0), only steps count. A hang is then found within 3 times the median step time plus 10 s.
    type: int
    default: 300
    version_added: 0.2.0
  restarts:
    description:
      - Maximum number of consecutive restarts without a new checkpoint. A new checkpoint resets the count, so that a long job is not ended
        by faults that are days apart.
      - If an attempt of the job fails, the hosts start the job again, unless it is certain to fail again. The hosts do this without the
        controller. The page C(docs/recovery.md) describes when a job is restarted.
      - With V(0), the job ends at its first failure.
    type: int
    default: 3
    version_added: 0.2.0
  min_hosts:
    description:
      - Minimum number of hosts with which the job is restarted if hosts are lost. With fewer hosts, the job has fewer training processes.
      - V(0) means all of the job's hosts, excluding the O(spares).
    type: int
    default: 0
    version_added: 0.2.0
  spares:
    description:
      - Number of O(hosts) that wait on standby instead of running the job. These are the hosts with the highest numbers. If the job is
        restarted because another host is lost, a spare takes its place, so the number of training processes does not change.
      - The loss of a spare does not affect the job.
      - Cannot be combined with O(queue).
    type: int
    default: 0
    version_added: 0.2.0
  stop_exit_codes:
    description:
      - Exit statuses of the script after which the job is not restarted.
    type: list
    elements: int
    default: []
    version_added: 0.2.0
  restart_exit_codes:
    description:
      - Exit statuses of the script after which the job is restarted, up to O(restarts) times, even if the same error occurs again.
    type: list
    elements: int
    default: []
    version_added: 0.2.0
  setup_steps:
    description:
      - Steps of M(deeplearning.cluster.node_setup). With O(state=prepared), the module fails on a host if one of the host's steps has not
        succeeded there.
    type: list
    elements: dict
    default: []
    version_added: 0.2.0
  setup_digests:
    description:
      - Descriptions of the host's own steps in O(setup_steps), keyed by the steps' digests. The action plugin sets this option.
    type: dict
    default: {}
    version_added: 0.2.0
  generation:
    description:
      - Generation of the cluster's metadata that the hosts must have.
      - By default, the generation is computed from all hosts in the inventory with the same C(deeplearning_cluster).
    type: str
  efa:
    description:
      - Whether the host has Elastic Fabric Adapters. With V(true), O(state=prepared) verifies that the adapters can be used. If a job runs
        on several hosts with adapters, its processes either use the adapters or fail, and never fall back to TCP. Variables in
        O(environment) can override this behavior.
      - The default is the value of C(deeplearning_has_efa) in the inventory.
    type: bool
  health_check:
    description:
      - Whether O(state=prepared) fails on an unhealthy host, and whether hosts are checked after a failure of the job, before it is
        restarted. See M(deeplearning.cluster.node_health).
    type: bool
    default: true
    version_added: 0.2.0
  health_interval:
    description:
      - Seconds between two health checks of a host while jobs run on it. A finding with a severity other than V(monitor) ends the attempt.
        O(state=prepared) sets the interval for all jobs on the host.
      - With V(0), no health checks run while jobs run. The findings of checks for other jobs do not affect the job.
    type: int
    default: 300
    version_added: 0.2.0
  reboot:
    description:
      - Whether hosts reboot themselves if a health check after a failure requires a reboot. A host reboots when no job and no export runs
        on it, and at most once per hour. See C(docs/recovery.md).
      - O(state=prepared) sets this for all jobs on the host. Cannot be combined with O(queue).
    type: bool
    default: false
    version_added: 0.2.0
  instance_type:
    description:
      - Instance type of the host, from which O(health_check) derives the number of GPUs that the host should have. The action plugin sets
        this option to the type that the inventory reports.
    type: str
    default: ""
    version_added: 0.2.0
  efa_devices:
    description:
      - Number of Elastic Fabric Adapters that O(health_check) expects. The action plugin sets this option to the value of
        C(deeplearning_efa_devices) in the inventory, or to V(0) if O(efa) is V(false).
    type: int
    default: 0
    version_added: 0.2.0
  metrics_directory:
    description:
      - Directory on the hosts for the file C(deeplearning-<name>.prom), which contains the job's metrics, for example for the textfile
        collector of node_exporter. The host of the job's first process writes the file every minute and when the job ends.
      - If the directory does not exist, the module creates it, and makes O(user) its owner. Otherwise, this user must be able to write to
        it. The processes of all jobs of this user can change the files in the directory. A path through a symbolic link is rejected.
    type: path
    version_added: 0.2.0
  cluster:
    description:
      - Name of the cluster, which is a label of the metrics in O(metrics_directory).
      - The default is the value of C(deeplearning_cluster) in the inventory.
    type: str
    default: ""
    version_added: 0.2.0
  instance_id:
    description:
      - ID of the host's instance, for the records of its processes and for its exclusions. Messages about hosts that have left the cluster
        are based on this ID.
      - The default is the value of C(deeplearning_instance_id) in the inventory.
    type: str
  capacity_end:
    description:
      - Time at which the Capacity Block of the host's instance ends, in seconds since 1970. EC2 begins to terminate the instances of a
        block 30 minutes before this time. The job leaves the host 10 minutes before that.
      - The default is the value of C(deeplearning_capacity_end) in the inventory.
    type: float
    version_added: 0.2.0
  attempt:
    description:
      - Number of the attempt that O(state=started) starts. To continue a job that has ended, use the RV(attempt) that O(state=prepared)
        returned.
    type: int
    default: 1
    version_added: 0.2.0
  dest:
    description:
      - Directory on the controller to which O(state=printed) writes a script for each host, C(<host>.sh). If omitted, no files are written.
    type: path
  archive:
    description:
      - Path, on the host, of a tar file with the code. The action plugin sets this option.
    type: path
  code:
    description:
      - Commit of the code and other information from Git. The action plugin sets this option.
    type: dict
    default: {}
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
  - deeplearning.cluster.job.hosts
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Check the hosts and copy the code
  deeplearning.cluster.training_job:
    name: digits-1
    state: prepared
    directory: /efs/jobs
    script: examples/digits/train.py
  register: prepared
  become: true
  any_errors_fatal: true

- name: Start the job
  deeplearning.cluster.training_job:
    name: digits-1
    state: started
    directory: /efs/jobs
    script: examples/digits/train.py
    arguments: ["--epochs", "20"]
    hosts: "{{ ansible_play_hosts_all | map('extract', hostvars, ['prepared', 'host']) }}"
  become: true

- name: Check the hosts and copy a tagged version of the code from a Git repository
  deeplearning.cluster.training_job:
    name: bert-1
    state: prepared
    directory: /efs/jobs
    repository: git@git.example.com:research/bert.git
    version: v1.2
    script: src/train.py
    exclude: [.git, "*.ipynb"]
  register: prepared
  become: true
  any_errors_fatal: true

- name: Check the hosts and copy the code for a job whose commands are only printed
  deeplearning.cluster.training_job:
    name: digits-1
    state: prepared
    printed: true
    directory: /efs/jobs
    script: examples/digits/train.py
  register: prepared
  become: true
  any_errors_fatal: true

- name: Write the commands of the job to shell scripts, and start nothing
  deeplearning.cluster.training_job:
    name: digits-1
    state: printed
    directory: /efs/jobs
    script: examples/digits/train.py
    hosts: "{{ ansible_play_hosts_all | map('extract', hostvars, ['prepared', 'host']) }}"
    dest: scripts
  run_once: true

- name: Keep the parameters of the job on all hosts until Slurm starts it
  deeplearning.cluster.training_job:
    name: digits-1
    state: queued
    queue: slurm
    directory: /efs/jobs
    script: examples/digits/train.py
    hosts: "{{ ansible_play_hosts_all | map('extract', hostvars, ['prepared', 'host']) }}"
  become: true
  any_errors_fatal: true

- name: Submit the job to Slurm
  deeplearning.cluster.training_job:
    name: digits-1
    state: submitted
    queue: slurm
    directory: /efs/jobs
    script: examples/digits/train.py
    hosts: "{{ ansible_play_hosts_all | map('extract', hostvars, ['prepared', 'host']) }}"
  become: true
  run_once: true

- name: Stop the job on every host
  deeplearning.cluster.training_job:
    name: digits-1
    state: stopped
  become: true
"""

RETURN = r"""
running:
  description: Names of the other jobs that run on this host, according to systemd.
  returned: when O(state=stopped)
  type: list
  elements: str
host:
  description: Description of this host, in the format of an entry in O(hosts).
  returned: when O(state=prepared)
  type: dict
  contains:
    name:
      description: Name of the host in the cluster's metadata.
      type: str
      sample: demo-master
    address:
      description: Private address of the host.
      type: str
      sample: 10.0.0.10
    number:
      description: Worker number of the host.
      type: int
    gpus:
      description: Indices of the GPUs that the job may use.
      type: list
      elements: int
      sample: [0, 1, 2, 3]
    interface:
      description: Network interface that has the address.
      type: str
      sample: ens5
    efa:
      description: Whether the host has Elastic Fabric Adapters.
      type: bool
job_state:
  description:
    - V(running) if the job was started earlier and is still running. V(ended) if the job has ended and can be continued. Otherwise, V(new).
  returned: when O(state=prepared)
  type: str
  choices: [ended, new, running]
  sample: new
attempt:
  description: Number of the attempt with which the job continues.
  returned: when O(state=prepared) and RV(job_state) is V(ended)
  type: int
  sample: 2
checkpoint_directory:
  description: Directory of the job's checkpoints, which another job may have created. Not returned for a job that is running.
  returned: when O(state=prepared)
  type: str
  sample: /efs/jobs/digits-1/checkpoints
excluded:
  description: Why jobs must not use this host, or an empty string if they may. See M(deeplearning.cluster.node_health).
  returned: when O(state=prepared)
  type: str
  version_added: 0.2.0
other_jobs:
  description: Names of the other jobs that are running on this host.
  returned: when O(state=prepared)
  type: list
  elements: str
  sample: [digits-0]
queues:
  description: Names of the queues that can start other jobs on this host while this job runs there without a queue.
  returned: when O(state=prepared)
  type: list
  elements: str
  sample: [slurm]
job_directory:
  description: The job's directory on the shared storage.
  returned: when O(state=prepared) or O(state=started)
  type: str
  sample: /efs/jobs/digits-1
scripts:
  description: The scripts that start the processes, by host name.
  returned: when O(state=printed)
  type: dict
lines:
  description: One line for each process of the job, with its name, its host and its command.
  returned: when O(state=printed)
  type: list
  elements: str
queue_id:
  description: ID of the job in the queue.
  returned: when O(state=submitted), except in check mode for a new job
  type: str
  sample: "12"
processes:
  description: The processes on this host, or on all hosts with O(state=printed).
  returned: when O(state=started) or O(state=printed)
  type: list
  elements: dict
  contains:
    host:
      description: Name of the host.
      returned: when O(state=printed)
      type: str
    rank:
      description: Index of the process in the job.
      type: int
    name:
      description: Name of the process, which is also the name of its log and of its record.
      type: str
      sample: rank0
    argv:
      description: Command line of the process.
      type: list
      elements: str
    unit:
      description: Name of the process's systemd service. Not returned with O(state=printed).
      type: str
    log:
      description: The file with the output of the process.
      type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.training_job import queue, systemd, users
from ..module_utils._hosts.training_job.lifecycle import start, stop
from ..module_utils._hosts.training_job.refusal import EXPECTED
from ..module_utils._hosts.training_job.specification import SPECIFICATION, check
from ..module_utils._job import records
from ..module_utils._queues.base import QueueError


def main() -> None:
    os.umask(0o022)  # with a hardened host's umask, the jobs' user could not read these files
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    state = module.params["state"]
    try:
        if state == "stopped":
            records.check_name(module.params["name"])
            module.exit_json(**stop(module))
        check(module.params)
        if state == "checked":
            module.exit_json(changed=False)
        paths = records.Paths(os.path.join(module.params["directory"], module.params["name"]))
        if state == "prepared":
            # The health checks are imported only if they run, because each host compiles all imported modules in each task.
            from ..module_utils._hosts.training_job.prepare import prepare  # pylint: disable=import-outside-toplevel

            module.exit_json(**prepare(module, paths))
        actions = {"queued": queue.install, "submitted": queue.submit}
        module.exit_json(**actions.get(state, start)(module, paths))
    except (*EXPECTED, QueueError, systemd.UnitError, users.UserError, users.FailedWorkError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
