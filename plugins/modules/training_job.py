#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The part of a training job that happens on one host: check and unpack, start its processes, stop them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job
version_added: 0.1.0
short_description: Runs a distributed training job on the hosts of a cluster
description:
  - A job is one or more processes on every host. They are transient systemd services in the job's own slice, run as an ordinary user and
    outlive Ansible's connection. Stopping a job ends all of its processes, and no others.
  - Jobs run as a user of their own, who cannot become root, cannot log in, and sees no other home directory.
  - The task runs on every host that trains; O(state=prepared) first, so that nothing starts before all hosts have been checked,
    then O(state=started) with the hosts' results in O(hosts). M(deeplearning.cluster.training_job_wait) waits for the end.
  - Each job has a directory on the shared storage with its code, logs, records, checkpoints and progress. It is never deleted.
  - The role P(deeplearning.cluster.training_job#role) does all this.
notes:
  - Hosts need the files of the role C(deeplearning.cluster.worker_metadata) and systemd 240 or later.
  - The code is sent by the action plugin of the same name, in one transfer.
options:
  name:
    description:
      - The job's name. At most 63 lower-case letters, digits and dashes.
    type: str
    required: true
  state:
    description:
      - V(checked) checks the job's description on the controller, without any host.
      - V(prepared) checks the host and, on the first one, copies the code to the job's directory. Nothing runs yet.
        A job that has run is refused.
      - V(started) starts this host's processes. A running job is not changed.
      - V(stopped) ends this host's processes, first with SIGTERM and after O(stop_timeout) with SIGKILL, and fails if one is left.
    type: str
    choices: [checked, prepared, started, stopped]
    default: started
  directory:
    description:
      - Where the jobs' directories are, on storage that all hosts share.
      - Required with O(state=prepared) and O(state=started).
    type: path
  script:
    description:
      - The training script. With O(source) its path in that directory, otherwise its path on the controller.
      - Required unless O(state=stopped) or there is a O(command).
    type: str
  command:
    description:
      - What each training process runs instead of a Python O(script), for example V([bash, run.sh]). O(arguments) follow.
      - It is searched for beside O(python) and then in C(PATH). The working directory is the code's.
    type: list
    elements: str
    default: []
  source:
    description:
      - A directory on the controller that is copied, for scripts that consist of more than one file.
      - Where it is a git work tree, the job's description has the commit, and whether files differ from it.
    type: str
  repository:
    description:
      - A git repository that is fetched on the controller and copied, instead of a O(source).
      - The controller's own git fetches it, with the keys and credentials that it has there. It cannot prompt for any.
    type: str
  version:
    description:
      - The branch, tag or commit of the O(repository). When omitted, its default branch.
    type: str
  exclude:
    description:
      - What is not copied of a O(source) or O(repository), as patterns such as V(*.ckpt) for the names of files and directories anywhere
        in it; one with a slash, such as V(data/raw), is for paths from its top.
      - When omitted, V(.git), V(__pycache__), V(.venv), V(venv), V(.ipynb_checkpoints), V(.mypy_cache), V(.pytest_cache), V(.ruff_cache).
    type: list
    elements: str
  sync_directory:
    description:
      - A directory on each host's own disk into which the job's code is copied, and where its processes run. When omitted they run in
        the job's directory on the shared storage.
      - Files of an earlier job there are replaced. A directory with other files is refused, and so is one that another running job uses
        on the host.
    type: str
  arguments:
    description:
      - The script's arguments. They are passed as given, without a shell.
    type: list
    elements: str
    default: []
  environment:
    description:
      - Environment variables of the processes, in addition to those of the user's login shell.
    type: dict
    default: {}
  secrets:
    description:
      - Environment variables with secret values, which are never in a command line, a unit or a readable file.
    type: dict
    default: {}
  key:
    description:
      - A random text with which the processes of a job authenticate each other, where a launcher starts commands on other hosts
        (V(mpi) and V(horovod)). The same on all hosts, and different for each job.
    type: str
  launcher:
    description:
      - Which processes run on the hosts. V(torchrun), for example, starts one agent per host. The page C(docs/launchers.md) lists all.
    type: str
    default: torchrun
  launcher_options:
    description:
      - Options of the launcher.
    type: dict
    default: {}
  python:
    description:
      - The Python of the environment that has the framework, on the hosts. Launchers need it too when there is a O(command).
    type: path
    default: /opt/pytorch/bin/python
  user:
    description:
      - The user who runs the processes. All hosts must have this user with the same id.
      - The default one is created on hosts that lack it, with the uid and gid 61000. It has no password, is in no group but its own, and
        cannot log in.
    type: str
    default: deeplearning
  sandbox:
    description:
      - Whether the processes are kept from gaining privileges (C(NoNewPrivileges)), and see of C(/home), C(/root) and C(/run/user) only
        the home of O(user), O(sync_directory), the environment of O(python), and shared storage that is mounted there.
    type: bool
    default: true
  hosts:
    description:
      - The job's hosts, each with the RV(host) that O(state=prepared) returned there.
      - Required with O(state=started).
    type: list
    elements: dict
    suboptions:
      name:
        description: The name that the hosts use among themselves.
        type: str
        required: true
      address:
        description: The address in the cluster.
        type: str
        required: true
      number:
        description: The worker number. The lowest is the first.
        type: int
        required: true
      gpus:
        description: The indices of the GPUs that the job uses.
        type: list
        elements: int
        required: true
      interface:
        description: The network interface that carries the address.
        type: str
        required: true
      efa:
        description: Whether it has Elastic Fabric Adapters.
        type: bool
        default: false
  gpus:
    description:
      - The indices of the GPUs that the job may use on each host, as C(nvidia-smi) counts them, for jobs that share hosts.
      - When omitted, all. A job whose GPUs another one uses on the same host is refused.
    type: list
    elements: int
  processes_per_host:
    description:
      - How many training processes a host runs. V(0) means one for each GPU, or one where there is none.
    type: int
    default: 0
  time_limit:
    description:
      - Seconds after which the hosts stop the job, which then has failed. They do so without the controller.
      - V(0) means no limit.
    type: int
    default: 0
  stop_timeout:
    description:
      - Seconds between SIGTERM and SIGKILL when the job is stopped. O(state=stopped) uses what the job was started with.
    type: int
    default: 30
  heartbeat_timeout:
    description:
      - Seconds after which a process without a heartbeat is lost.
    type: int
    default: 60
  generation:
    description:
      - The generation of the cluster's metadata that the hosts must have.
      - When omitted it is what the inventory says, that is all its hosts with the same C(deeplearning_cluster).
    type: str
  efa:
    description:
      - Whether the host has Elastic Fabric Adapters. O(state=prepared) then makes sure that they can be used, and processes on more
        than one such host use them or fail, instead of falling back to TCP. O(environment) can override that.
      - When omitted it is what the inventory says in C(deeplearning_has_efa).
    type: bool
  archive:
    description:
      - A tar file of the code on the host. The action plugin sets it.
    type: path
  code:
    description:
      - What git knows of the code. The action plugin sets it.
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
  description: The other jobs that run on this host, as systemd has them.
  returned: when O(state=stopped)
  type: list
  elements: str
host:
  description: This host, as O(hosts) wants it.
  returned: when O(state=prepared)
  type: dict
  contains:
    name:
      description: The name that hosts use among themselves.
      type: str
      sample: deeplearning-worker1
    address:
      description: Its private address.
      type: str
      sample: 10.0.0.10
    number:
      description: Its number.
      type: int
    gpus:
      description: The indices of the GPUs that the job may use.
      type: list
      elements: int
      sample: [0, 1, 2, 3]
    interface:
      description: The network interface with the address.
      type: str
      sample: ens5
    efa:
      description: Whether the host has EFA.
      type: bool
job_state:
  description: V(new), or V(running) when the job has been started before and can be waited for.
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
      description: What its log and record are called.
      type: str
      sample: rank0
    argv:
      description: Its command line.
      type: list
      elements: str
    unit:
      description: Its systemd service.
      type: str
    log:
      description: The file with its output.
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
    os.umask(0o022)  # on hardened hosts it would hide from the jobs' user what is made here
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
