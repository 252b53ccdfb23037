#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The part of a training job that happens on one host: checks the host, unpacks the code, and starts and stops the job's processes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job
version_added: 0.1.0
short_description: Runs a distributed training job on the hosts of a cluster
description:
  - A job has one or more processes on every host. The processes are transient systemd services in the job's own slice, run as an
    ordinary user, and continue to run after Ansible disconnects. Stopping a job stops all of its processes, and no others.
  - By default, jobs run as a separate user, who cannot become root, cannot log in, and cannot see other home directories.
  - The task runs on every host of the job. Run it with O(state=prepared) first, so that nothing starts before all hosts have been
    checked. Then run it with O(state=started), and pass the hosts' results in O(hosts). M(deeplearning.cluster.training_job_wait) waits
    until the job ends.
  - Each job has a directory on the shared storage with its code, logs, records, checkpoints and progress. The module never deletes
    this directory.
  - The role P(deeplearning.cluster.training_job#role) runs all of these tasks.
notes:
  - Hosts need the files that the role C(deeplearning.cluster.worker_metadata) writes, and systemd 240 or later.
  - The action plugin of the same name sends the code in one transfer.
options:
  name:
    description:
      - Name of the job, with at most 63 lower-case letters, digits and dashes.
    type: str
    required: true
  state:
    description:
      - V(checked) checks the job's options on the controller, without connecting to a host.
      - V(prepared) checks the host and, on the first host, copies the code to the job's directory. It starts no processes, and
        refuses the name of a job that has already run.
      - V(started) starts this host's processes. A running job is not changed.
      - V(stopped) stops this host's processes, first with SIGTERM, and after O(stop_timeout) seconds with SIGKILL. It fails if a
        process remains.
    type: str
    choices: [checked, prepared, started, stopped]
    default: started
  directory:
    description:
      - Parent of the jobs' directories, on storage that all hosts share.
      - Required with O(state=prepared) and O(state=started).
    type: path
  script:
    description:
      - The training script. With O(source), it is a path in that directory. Otherwise, it is a path on the controller.
      - Required unless O(command) is specified or O(state=stopped) is set.
    type: str
  command:
    description:
      - Command that each training process runs instead of a Python O(script), such as V([bash, run.sh]). The O(arguments) follow it.
      - The program is searched for in the folder of O(python), then in C(PATH). The working directory is the directory of the code.
    type: list
    elements: str
    default: []
  source:
    description:
      - A directory on the controller that is copied, for scripts that consist of more than one file.
      - If it is a git work tree, the job's record contains the commit, and whether files differ from it.
    type: str
  repository:
    description:
      - A git repository that is fetched on the controller and copied, instead of a O(source).
      - The controller's own git fetches it, with the keys and credentials of the controller. It cannot prompt for credentials.
    type: str
  version:
    description:
      - Branch, tag or commit of the O(repository). When omitted, the repository's default branch is used.
    type: str
  exclude:
    description:
      - Patterns of files and directories of the O(source) or O(repository) that are not copied. A pattern such as V(*.ckpt) matches
        names at any depth. A pattern with a slash, such as V(data/raw), matches paths from the top directory.
      - The default is V(.git), V(__pycache__), V(.venv), V(venv), V(.ipynb_checkpoints), V(.mypy_cache), V(.pytest_cache), V(.ruff_cache).
    type: list
    elements: str
  sync_directory:
    description:
      - A directory on each host's own disk, to which the job's code is copied and where its processes run. When omitted, the processes
        run in the job's directory on the shared storage.
      - Files of an earlier job in this directory are replaced. A directory with other files is refused, as is one that another running
        job uses on the host.
    type: str
  resume:
    description:
      - Name of an earlier job, whose checkpoints this job continues. C(DEEPLEARNING_CHECKPOINT_DIRECTORY) of the processes is then the
        directory of the earlier job's checkpoints, in which the script finds its newest checkpoint and writes further ones.
      - The earlier job must have ended, and its directory must contain a checkpoint. Hidden files, and files and directories whose names
        end in C(.tmp), are incomplete and do not count.
    type: str
  arguments:
    description:
      - Arguments of the script. They are passed unchanged, without a shell.
    type: list
    elements: str
    default: []
  environment:
    description:
      - Environment variables of the processes, in addition to the variables of the user's login shell.
    type: dict
    default: {}
  secrets:
    description:
      - Environment variables with secret values, which never appear in a command line, a unit or a readable file.
    type: dict
    default: {}
  key:
    description:
      - A random text with which the processes of a job authenticate each other, if the launcher starts commands on other hosts
        (V(mpi) and V(horovod)). It must be the same on all hosts, and different for each job.
    type: str
  launcher:
    description:
      - The launcher, which determines the processes on the hosts. For example, V(torchrun) starts one agent per host. The page
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
      - Path, on the hosts, of the Python whose environment contains the framework. Launchers also need it if O(command) is specified.
    type: path
    default: /opt/pytorch/bin/python
  user:
    description:
      - The user who runs the processes. All hosts must have this user with the same id.
      - The default user is created on hosts that do not have it, with the uid and gid 61000. It has no password, belongs only to its
        own group, and cannot log in.
    type: str
    default: deeplearning
  sandbox:
    description:
      - Whether to prevent the processes from gaining privileges (C(NoNewPrivileges)), and to hide C(/home), C(/root) and C(/run/user)
        from them. The processes still see the home of O(user), O(sync_directory), the environment of O(python), and shared storage
        that is mounted in these directories.
    type: bool
    default: true
  hosts:
    description:
      - The job's hosts. Each entry is the RV(host) that O(state=prepared) returned on that host.
      - Required with O(state=started).
    type: list
    elements: dict
    suboptions:
      name:
        description: The name that the hosts use among themselves.
        type: str
        required: true
      address:
        description: The private address of the host.
        type: str
        required: true
      number:
        description: The worker number. The host with the lowest number is the first host of the job.
        type: int
        required: true
      gpus:
        description: The indices of the GPUs that the job uses.
        type: list
        elements: int
        required: true
      interface:
        description: The network interface that has the address.
        type: str
        required: true
      efa:
        description: Whether the host has Elastic Fabric Adapters.
        type: bool
        default: false
  gpus:
    description:
      - Indices of the GPUs that the job may use on each host, as C(nvidia-smi) numbers them. Use this for jobs that share hosts.
      - By default, the job may use all GPUs. A job is refused if another job on the same host uses one of its GPUs.
    type: list
    elements: int
  processes_per_host:
    description:
      - Number of training processes on each host. V(0) means one per GPU, or one on a host without GPUs.
    type: int
    default: 0
  time_limit:
    description:
      - Seconds after which the hosts stop the job, which then counts as failed. The controller is not needed for this.
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
  metadata_directory:
    description:
      - Directory on the hosts that holds C(metadata.json), as in M(deeplearning.cluster.worker_metadata).
    type: path
    default: /opt/deeplearning
  generation:
    description:
      - The generation of the cluster's metadata that the hosts must have.
      - When omitted, it is computed from all hosts of the inventory that have the same C(deeplearning_cluster).
    type: str
  efa:
    description:
      - Whether the host has Elastic Fabric Adapters. If so, O(state=prepared) verifies that they can be used. If a job runs on several
        such hosts, its processes use the adapters or fail, and do not fall back to TCP. O(environment) can override this.
      - When omitted, the value of C(deeplearning_has_efa) in the inventory is used.
    type: bool
  instance_id:
    description:
      - Id of the host's instance, for the records of its processes. By it, messages tell whether a host is gone.
      - When omitted, it is the inventory's C(deeplearning_instance_id).
    type: str
  archive:
    description:
      - Path, on the host, of a tar file with the code. The action plugin sets it.
    type: path
  code:
    description:
      - Commit and other information of git about the code. The action plugin sets it.
    type: dict
    default: {}
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
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

- name: Check the hosts and copy a tagged version of the code
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
  description: Description of this host, as an entry for O(hosts).
  returned: when O(state=prepared)
  type: dict
  contains:
    name:
      description: The name that hosts use among themselves.
      type: str
      sample: demo-master
    address:
      description: The private address of the host.
      type: str
      sample: 10.0.0.10
    number:
      description: The worker number of the host.
      type: int
    gpus:
      description: The indices of the GPUs that the job may use.
      type: list
      elements: int
      sample: [0, 1, 2, 3]
    interface:
      description: The network interface that has the address.
      type: str
      sample: ens5
    efa:
      description: Whether the host has EFA.
      type: bool
job_state:
  description: V(new), or V(running) if the job was started before and is still running. You can wait for a running job.
  returned: when O(state=prepared)
  type: str
  choices: [new, running]
  sample: new
job_directory:
  description: The job's directory on the shared storage.
  returned: unless O(state=stopped)
  type: str
  sample: /efs/jobs/digits-1
processes:
  description: The processes on this host.
  returned: when O(state=started)
  type: list
  elements: dict
  contains:
    rank:
      description: The index of the process in the job.
      type: int
    name:
      description: Name of the process, its log and its record.
      type: str
      sample: rank0
    argv:
      description: Command line of the process.
      type: list
      elements: str
    unit:
      description: Name of the process's systemd service.
      type: str
    log:
      description: The file with the output of the process.
      type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import users
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.lifecycle import start, stop
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.prepare import prepare
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.specification import EXPECTED, SPECIFICATION, check
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records


def main() -> None:
    os.umask(0o022)  # the umask of hardened hosts would hide these files from the jobs' user
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
        module.exit_json(**(prepare(module, paths) if state == "prepared" else start(module, paths)))
    except (*EXPECTED, users.UserError, users.FailedWorkError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
