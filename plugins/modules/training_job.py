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
  key:
    description:
      - Random string with which the processes of a job authenticate to each other. The key is needed if the launcher starts commands on
        other hosts (V(mpi) and V(horovod)), and with O(queue=yarn), so that the hosts recognize the job's application. The key must be the
        same on all hosts, and different for each job.
    type: str
  hosts:
    description:
      - The job's hosts. Each entry is the RV(host) that O(state=prepared) returned on that host.
      - Required with O(state=printed), O(state=queued), O(state=started) and O(state=submitted).
  queue_hosts:
    description: Names of the hosts that must belong to the queue. The action plugin sets this option on the first host.
    type: list
    elements: str
  on_first_host:
    description:
      - Whether the job runs only on the first host of the cluster, where playbooks read the records of jobs. Only such a job can have its
        O(directory) on the host's own disk. The action plugin sets this option.
    type: bool
    default: false
  printed:
    description:
      - Whether O(state=printed) follows, and no start of the job. Used only with O(state=prepared). Playbooks that remove nodes ignore such
        a job. See P(deeplearning.cluster.jobs_on#filter).
    type: bool
    default: false
  setup_steps:
    description:
      - Steps of M(deeplearning.cluster.node_setup). With O(state=prepared), the module fails on a host if one of the host's steps has not
        succeeded there.
    type: list
    elements: dict
    default: []
  setup_digests:
    description: Descriptions of the host's own steps in O(setup_steps), keyed by the steps' digests. The action plugin sets this option.
    type: dict
    default: {}
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
  instance_type:
    description:
      - Instance type of the host, from which O(health_check) derives the number of GPUs that the host should have. The action plugin sets
        this option to the type that the inventory reports.
    type: str
    default: ""
  efa_devices:
    description:
      - Number of Elastic Fabric Adapters that O(health_check) expects. The action plugin sets this option to the value of
        C(deeplearning_efa_devices) in the inventory, or to V(0) if O(efa) is V(false).
    type: int
    default: 0
  cost_limit:
    description:
      - The C(amount) of O(max_cost), how much of it C(earlier) attempts have cost, the C(hourly) price of the job's nodes, and their
        C(currency), if O(time_limit) follows from them. The action plugin sets this option, so that the job can tell what it has cost when
        it reaches the limit.
    type: dict
    default: {}
  earlier_node_seconds:
    description: The result RV(earlier_node_seconds) of the first host, which the action plugin subtracts from O(max_cost).
    type: float
    default: 0
  planned_hosts:
    description:
      - The number of hosts with which the action plugin turns O(max_cost) into a time limit, if they are others than the hosts of the
        play, as in check mode before nodes are launched. C(0) means the hosts of the play.
    type: int
    default: 0
  cluster:
    description:
      - Name of the cluster, which is a label of the metrics in O(metrics_directory).
      - The default is the value of C(deeplearning_cluster) in the inventory.
    type: str
    default: ""
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
  attempt:
    description:
      - Number of the attempt that O(state=started) starts. To continue a job that has ended, use the RV(attempt) that O(state=prepared)
        returned.
    type: int
    default: 1
  dest:
    description:
      - Directory on the controller to which O(state=printed) writes a script for each host, C(<host>.sh). If omitted, no files are written.
    type: path
  archive:
    description: Path, on the host, of a tar file with the code. The action plugin sets this option.
    type: path
  code:
    description: Commit of the code and other information from Git. The action plugin sets this option.
    type: dict
    default: {}
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
  - deeplearning.cluster.job.hosts
  - deeplearning.cluster.training_job
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
earlier_node_seconds:
  description: For how many seconds hosts have run earlier attempts of the job and the jobs that it continues, added up over the hosts.
  returned: when O(state=prepared) and the job has a O(max_cost), on the first host
  type: float
  sample: 7200.5
excluded:
  description: Why jobs must not use this host, or an empty string if they may. See M(deeplearning.cluster.node_health).
  returned: when O(state=prepared)
  type: str
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

from ..module_utils._hosts.training_job.queue import submission
from ..module_utils._hosts.training_job.start.start_and_stop import start, stop
from ..module_utils._hosts.training_job.units import systemd, users
from ..module_utils._job import directories, naming
from ..module_utils._job.definition.job_parameters import SPECIFICATION, check
from ..module_utils._job.definition.refusal import EXPECTED
from ..module_utils._queues.base import QueueError


def main() -> None:
    os.umask(0o022)  # with a hardened host's umask, the jobs' user could not read these files
    module = AnsibleModule(**SPECIFICATION, supports_check_mode=True)
    state = module.params["state"]
    try:
        if state == "stopped":
            naming.check_name(module.params["name"])
            module.exit_json(**stop(module))
        check(module.params)
        if state == "checked":
            module.exit_json(changed=False)
        paths = directories.Paths(os.path.join(module.params["directory"], module.params["name"]))
        if state == "prepared":
            # The health checks are imported only if they run, because each host compiles all imported modules in each task.
            from ..module_utils._hosts.training_job.start.prepare import prepare  # pylint: disable=import-outside-toplevel

            module.exit_json(**prepare(module, paths))
        actions = {"queued": submission.install, "submitted": submission.submit}
        module.exit_json(**actions.get(state, start)(module, paths))
    except (*EXPECTED, QueueError, systemd.UnitError, users.UserError, users.FailedWorkError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
