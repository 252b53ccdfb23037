#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the records of jobs on the shared storage. Tasks that wait for a job run this module for each poll."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_info
version_added: 0.1.0
short_description: Lists training jobs and the state of each of their processes
description:
  - Reads the records that the processes of jobs write to the shared storage. Run the task on a single host, which can read all records.
options:
  name:
    description: Name of a single job to return. The job must exist, unless O(missing_ok=true).
    type: str
  missing_ok:
    description: Whether a job that does not exist gives an empty list instead of an error. Used only with O(name).
    type: bool
    default: false
  attempt:
    description:
      - Number of the attempt whose processes and logs are returned. Used only with O(name). By default, this is the newest attempt.
    type: int
  progress_offset:
    description:
      - Byte offset in the progress file at which the returned progress begins. Used only with O(name). See RV(jobs[].progress_offset).
    type: int
    default: 0
  log_lines:
    description:
      - Number of lines to return from the end of the log of each process. Used only with O(name).
      - If omitted, logs are not read.
    type: int
  log_process:
    description:
      - Name or rank of the only process whose log is read, such as V(ps0) or V(3). If omitted, the logs of all processes are read.
      - If several ranks share a log and the launcher marks their lines, only the lines of this rank are returned.
    type: str
  log_offsets:
    description:
      - Byte offsets by process name and, after the first attempt, by attempt and process name. For these processes, the module returns
        the log from the offset onwards instead of the last lines. See RV(jobs[].log_offsets).
    type: dict
    default: {}
  goodput:
    description:
      - When to return RV(jobs[].goodput) and RV(jobs[].step_times). With V(ended), they are returned if the job has ended. Used
        only with O(name).
      - To compute these values, the module reads the whole progress file, which takes some seconds if the file has millions of lines.
    type: str
    choices: [never, ended, always]
    default: never
  wait:
    description:
      - Maximum time to wait, in seconds. The wait ends early if there is new progress or a new log line, or if the job ends. Used only
        with O(name).
    type: int
    default: 0
  hold:
    description:
      - Time to collect new progress and new log lines before they are returned, in seconds. O(wait) limits this time. The wait still ends
        early if the job ends, or if a new attempt begins. Used only with O(name).
    type: int
    default: 0
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - deeplearning.cluster.job
"""

EXAMPLES = r"""
- name: List the jobs
  deeplearning.cluster.training_job_info:
    directory: /efs/jobs
  register: result

- name: Show the jobs
  ansible.builtin.debug:
    msg: "{{ item.name }} {{ item.state }}"
  loop: "{{ result.jobs }}"
  loop_control:
    label: "{{ item.name }}"
"""

RETURN = r"""
problems:
  description: Messages about job files that were skipped because they are invalid or too large.
  returned: when files were skipped
  type: list
  elements: str
jobs:
  description: The jobs, newest first.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The job's name.
      type: str
    state:
      description:
        - The state of the job. A job that was removed from its queue before it started has the state V(stopped).
        - V(lost) means that a process without heartbeats has caused the end of the job, for example on a host that has disappeared. With
          V(failed), the cause is known from a record. The order in which other processes fail as a result does not matter.
      type: str
      choices: [pending, queued, running, succeeded, failed, stopped, lost]
    over:
      description: Whether the job has ended.
      type: bool
    directory:
      description: The job's directory.
      type: str
    checkpoint_directory:
      description: Directory of the job's checkpoints. If the job continues an earlier job, this is the earlier job's
        checkpoint directory.
      returned: success
      type: str
    quiet:
      description: Number of seconds since the last output, reported step, or change in the checkpoint directory. C(0) if this
        is less than 600. Lines in which the job says that it waits do not count as output.
      returned: when the job is not over
      type: float
    has_checkpoint:
      description: Whether the checkpoint directory contains a complete checkpoint.
      returned: when a job specified with O(name) did not succeed, and its checkpoint directory is a path
      type: bool
    resume:
      description: Name of the earlier job that the job continues.
      returned: when the job continues an earlier job
      type: str
    printed:
      description: Whether the commands of the job were only printed.
      returned: always
      type: bool
    queue:
      description: The queue to which the job was submitted.
      returned: when the job was submitted to a queue
      type: dict
      contains:
        queue:
          description: Name of the queue.
          type: str
          sample: slurm
        id:
          description: ID that the queue has assigned to the job.
          type: str
          sample: "12"
        submitted:
          description: Time at which the job was submitted, in seconds since 1970.
          type: float
        failure:
          description: Why the job did not start after the queue had allocated its hosts.
          returned: when it did not start
          type: str
        reason:
          description: Why the job waits, according to the queue.
          returned: while the job waits
          type: str
          sample: Resources
        before:
          description: Number of waiting jobs with a higher priority.
          returned: while the job waits
          type: int
        problem:
          description: Why the queue could not be queried.
          returned: when it could not be queried
          type: str
        held:
          description: Whether root keeps the job's parameters on this host, as on each host of a job that waits.
          returned: while the job waits
          type: bool
    export:
      description: State of the job's export to S3. See M(deeplearning.cluster.training_job_export).
      returned: when the job is or was exported
      type: dict
      contains:
        destination:
          description: Prefix of the job's objects.
          type: str
          sample: s3://my-results/jobs/digits-1/
        state:
          description:
            - V(running) during an upload, V(waiting) between two uploads, or V(lost) if the export has sent no heartbeat within the
              timeout. Otherwise, the result of the last upload.
          type: str
          choices: [running, waiting, succeeded, failed, lost]
        began:
          description: When the last upload began, in seconds since 1970.
          type: float
        heartbeat:
          description: Time of the last heartbeat, in seconds since 1970.
          type: float
        finished:
          description: When the last upload ended, in seconds since 1970.
          returned: when it has ended
          type: float
        files:
          description: Number of files at the destination.
          returned: when the last upload has succeeded
          type: int
        size:
          description: Total size of these files in bytes.
          returned: when the last upload has succeeded
          type: int
        omitted:
          description: The first 20 entries that are not exported. See RV(deeplearning.cluster.training_job_export#module:omitted).
          returned: when the last upload has succeeded
          type: list
          elements: str
        omitted_count:
          description: Number of all entries that are not exported.
          returned: when the last upload has succeeded
          type: int
        error:
          description: Why the last upload failed.
          returned: when it has failed
          type: str
    script:
      description: The training script.
      returned: when the job runs a script
      type: str
    command:
      description: The command that the job runs instead of a script. The value is empty if the job runs a script.
      type: list
      elements: str
    launcher:
      description: The launcher.
      type: str
    created:
      description: When the job was prepared, in seconds since 1970.
      type: float
    code:
      description: Git commit of the code. The value is empty if the code was not in a Git working tree.
      type: dict
      contains:
        commit:
          description: The commit.
          returned: when the code came from Git
          type: str
        changed:
          description: Whether files differed from the commit.
          returned: when the code came from Git
          type: bool
        repository:
          description: The repository from which the job's code was fetched.
          returned: when the code was fetched from a repository
          type: str
        version:
          description: The branch, tag or commit that was requested.
          returned: when the code was fetched from a repository
          type: str
    metrics:
      description: The last progress values that the script reported.
      type: dict
      sample: {step: 20, steps: 100, loss: 0.31}
    process_count:
      description: Number of processes in the job, excluding standby processes. The number is V(0) until a process has started.
      type: int
    hosts:
      description: Number of hosts on which processes have started, excluding standby processes.
      type: int
    spares:
      description: Number of hosts that have only standby processes.
      type: int
    began:
      description: When the first process of the first attempt started, in seconds since 1970, or V(0) if none has started.
      type: float
    ended:
      description: When the last process ended or sent a heartbeat, in seconds since 1970, or V(0) if none has started.
      type: float
    read:
      description: When the host read these values, in seconds since 1970.
      type: float
    processes:
      description:
        - Records of the processes that have started, sorted by rank, each with its RV(jobs[].processes[].state).
        - Without O(name), the value is empty for jobs that have ended, except the newest job.
      type: list
      elements: dict
      contains: &process
        rank:
          description: The index of the process in the job.
          type: int
        ranks:
          description: Rank of this training process, or ranks of the training processes that it starts. Some ranks are left out if all
            processes together have more than 8192.
          returned: with O(name)
          type: list
          elements: int
        tag:
          description: Prefix of the log lines of each rank, with C({}) in place of the rank. The value is empty if the lines have no such
            prefix.
          type: str
        name:
          description: Name of the process, which is also the name of its log and of its record.
          type: str
          sample: rank0
        part:
          description:
            - V(worker) if the job waits for the process to end. V(service) if the process, such as a parameter server, ends with the job.
              V(spare) if an elastic job can continue without the process.
              V(standby) if the process waits to take the place of another process in a later attempt.
          type: str
        host:
          description: Name of the host that runs the process.
          type: str
        instance:
          description: ID of the EC2 instance that runs the process.
          returned: when the host is an EC2 instance
          type: str
        state:
          description: The state of the process.
          type: str
          choices: [running, succeeded, failed, stopped, lost]
        processes:
          description: Number of processes in the attempt, excluding standby processes.
          type: int
        started:
          description: When the process started, in seconds since 1970.
          type: float
        heartbeat:
          description: Time of the last heartbeat of the process, in seconds since 1970.
          type: float
        finished:
          description: When the process ended, in seconds since 1970.
          returned: when the process has ended
          type: float
        exit_code:
          description: The exit status of the process.
          returned: when the process has an exit status
          type: int
        signal:
          description: The signal that killed the process.
          returned: when a signal killed the process
          type: str
        oom_kills:
          description: Number of processes of this process that the kernel's OOM killer has killed.
          returned: when the process has ended by itself, and the number is known
          type: int
        stopped_for:
          description: Name of the process that had failed, so that this process was stopped. Without it, an operator stopped the process.
          returned: when the process was stopped because another one had failed
          type: str
          sample: rank1
        still_connected:
          description: Name of a host to which the process still had connections after all processes there had ended.
          returned: when there was such a host
          type: str
        raised:
          description: The exception for which other processes have waited, because this process had raised it and did not end. The value
            has the keys of RV(jobs[].processes[].cause).
          returned: when there was such an exception
          type: dict
          contains: &cause
            kind:
              description: Kind of the cause.
              type: str
              choices: [operator, time_limit, host_lost, host_shut_down, spot_interruption, capacity_block_end, lease_end, not_started,
                        out_of_memory, disk_full, gpu_memory, hardware, script_error, exit_status, signal, killed, hang, network, health]
            what:
              description: The error and its place, or the finding. Two causes with the same C(kind) and C(what) are the same error.
              returned: when it is known
              type: str
              sample: ValueError at train.py, line 42
            name:
              description: Name of the exception, the signal, the program that could not be started, the rank that makes the job hang, or
                what the host needs according to a health finding.
              returned: when it is known
              type: str
              sample: ValueError
            message:
              description: Message of the exception.
              returned: when there is one
              type: str
            exit_code:
              description: The exit status of the script.
              returned: when it is known
              type: int
            storage:
              description: Directories to which the job could not write.
              returned: when there were any
              type: list
              elements: dict
              contains:
                path:
                  description: The directory.
                  type: str
                problem:
                  description: Why the job could not write to it.
                  type: str
                  choices: [space, inodes, quota, read_only]
                free:
                  description: Free bytes of its file system.
                  type: int
                size:
                  description: Size of its file system in bytes.
                  type: int
                shared:
                  description: Whether it is on shared storage.
                  type: bool
            limit:
              description: The time limit in seconds.
              returned: when the job has reached it
              type: float
            cost:
              description: What the job had cost when it reached its maximum cost.
              returned: when the job reached C(limit)
              type: dict
              contains:
                limit:
                  description: The maximum cost of the job.
                  type: float
                  sample: 5.0
                spent:
                  description: What the job had cost.
                  type: float
                  sample: 5.02
                earlier:
                  description: The part of C(spent) for earlier attempts and for the jobs that it continues.
                  returned: when the host has recorded it
                  type: float
                  sample: 1.5
                currency:
                  description: The currency of these amounts.
                  type: str
                  choices: [USD, CNY, EUR]
                seconds:
                  description: For how long the job had run.
                  type: float
                  sample: 7800.0
            deadline:
              description: When AWS terminates the host, in seconds since 1970.
              returned: when AWS has announced it
              type: float
            port:
              description: The port on which the process could not listen.
              returned: when another process was found there
              type: int
            listener:
              description: The process that listens on C(port).
              returned: when another process was found there
              type: str
              sample: process 4711 'python3'
            hang:
              description: For how long the job has hung, and where its ranks are.
              returned: when the job has hung
              type: dict
              contains:
                seconds:
                  description: Seconds without progress.
                  type: float
                median:
                  description: The median step time in seconds.
                  returned: when the job has hung because a step took too long
                  type: float
                lock:
                  description: A lock file that no process has open.
                  returned: when there is one
                  type: str
                stuck:
                  description: The rank that is shown.
                  returned: when the ranks are known
                  type: dict
                  contains:
                    rank:
                      description: The rank.
                      type: int
                    where:
                      description: A line of the script or a kernel function, or an empty string if the place is unknown.
                      type: str
                    suspended:
                      description: Whether a signal has stopped the rank.
                      type: bool
                    silent_peers:
                      description: Percentage of the connected hosts that do not acknowledge the data of the rank.
                      returned: when there are any
                      type: int
                    error:
                      description: The exception with which the log of the rank ends.
                      returned: when there is one
                      type: str
                others:
                  description: Number of other ranks.
                  returned: when it is known
                  type: int
                there:
                  description: Number of them that are at the place C(most).
                  returned: when it is known
                  type: int
                most:
                  description: The place at which most of them are.
                  returned: when it is known
                  type: str
        cause:
          description: Why the process failed, or why it is about to be stopped.
          returned: when it is known
          type: dict
          contains: *cause
        log:
          description: The file with the output of the process.
          type: str
    attempt:
      description: Number of the attempt that RV(jobs[].processes) and RV(jobs[].failure) describe, beginning with V(1).
      returned: success
      type: int
    attempts:
      description: The attempts of the job, oldest first. A job that was restarted has more than one attempt.
      returned: success
      type: list
      elements: dict
      contains:
        attempt:
          description: Number of the attempt.
          type: int
        state:
          description: How the attempt ended. For the newest attempt, the state of the job.
          type: str
          choices: [pending, queued, running, succeeded, failed, stopped, lost]
        started:
          description: When the attempt started, in seconds since 1970.
          type: float
        ended:
          description: When the hosts decided whether to restart the job, in seconds since 1970.
          returned: when the hosts have decided
          type: float
        hosts:
          description: Number of hosts.
          type: int
        logs:
          description: Directory of the logs of the attempt.
          type: str
        failure:
          description: The process that ended the attempt.
          returned: when it failed
          type: dict
          contains: *process
        cause:
          description: Why the attempt ended.
          returned: when it failed
          type: dict
          contains: *cause
        action:
          description: The action that followed the attempt.
          returned: when the hosts have decided
          type: str
          choices: [restart, stop]
        rule:
          description: The rule in the table of C(docs/recovery.md) that determined the action.
          returned: when the hosts have decided
          type: str
          sample: same_hosts
        missing:
          description: Names of the hosts that could not be used.
          returned: when there were any
          type: list
          elements: str
        excluded:
          description: Names of the hosts that were excluded from jobs.
          returned: when there were any
          type: list
          elements: str
        replacements:
          description: Names of the hosts that were on standby, and run the next attempt.
          returned: when there were any
          type: list
          elements: str
        restarts:
          description: The maximum number of consecutive restarts without a new checkpoint.
          returned: when the hosts have decided, and the number is not 0
          type: int
        min_hosts:
          description: The minimum number of hosts.
          returned: when the hosts have decided, and the number is not 0
          type: int
        reboots:
          description: Whether the host of the process that failed reboots itself.
          returned: when it does
          type: bool
        refusal:
          description: Why the launcher cannot run the job on the remaining hosts.
          returned: when it cannot
          type: str
        set_aside:
          description: Name of the checkpoint that was set aside, so that the job continues from an older one.
          returned: when there was one
          type: str
        damaged:
          description: Names of checkpoints that were set aside because their contents are damaged.
          returned: when there were any
          type: list
          elements: str
        without_checkpoint:
          description: Whether no complete checkpoint was left.
          returned: when none was left
          type: bool
    failure:
      description: The process that caused the job to fail, with the last C(lines) of its log. C(lines) is empty if the process was stopped.
      returned: when the job did not succeed
      type: dict
      contains:
        <<: *process
        lines:
          description: The last lines of the output.
          type: list
          elements: str
        culprit:
          description: How the rank ended that failed first among those of the process.
          returned: when the log shows it
          type: dict
          contains:
            rank:
              description: The rank.
              type: str
            exit_code:
              description: The exit status of the rank.
              returned: when it has one
              type: int
            signal:
              description: The signal that killed the rank.
              returned: when a signal killed it
              type: str
    goodput:
      description: What the hosts of the job spent their time on. The page C(docs/watching.md) defines the buckets.
      returned: as specified by O(goodput)
      type: dict
      contains:
        nodes:
          description: Number of hosts that the job uses or has used.
          type: int
        seconds:
          description: Time from the creation of the job to its end, or until now.
          type: float
        ratio:
          description: The goodput, which is the share of RV(jobs[].goodput.buckets.training) in all buckets.
          type: float
          sample: 0.93
        buckets:
          description: Node-seconds by bucket. Their sum is RV(jobs[].goodput.seconds) times RV(jobs[].goodput.nodes).
          type: dict
          contains: &buckets
            training:
              description: Time spent on training.
              type: float
            recomputed:
              description: Time for steps that an earlier attempt had already reported.
              type: float
            checkpoint:
              description: Time in which checkpoints were written, if the script reports this.
              type: float
            start:
              description: Time from the start of an attempt to its first progress entry.
              type: float
            end:
              description: Time after the last step, for example for an evaluation.
              type: float
            waiting:
              description: Time from the creation of the job to the start of its first process.
              type: float
            detection:
              description: Time from a failure to the decision about whether to restart the job.
              type: float
            restart:
              description: Time from the decision to restart the job to the start of the next attempt.
              type: float
            idle:
              description: Time in which a host took no part in the job.
              type: float
        hosts:
          description: Time of each host by bucket, in seconds.
          type: list
          elements: dict
          contains:
            host:
              description: Name of the host.
              type: str
            buckets:
              description: Seconds by bucket. Their sum is RV(jobs[].goodput.seconds).
              type: dict
              contains: *buckets
    step_times:
      description: The time that each host needs for a step, slowest host first. The list is empty if the script does not report
        C(rank_seconds).
      returned: as specified by O(goodput)
      type: list
      elements: dict
      contains:
        name:
          description: Name of the host, or the rank if its host is not known.
          type: str
        seconds:
          description: Step time of the host's slowest rank in seconds, which is the median of the rank's last 101 reported times.
          type: float
        slow:
          description: Whether the host's step time is more than 1.2 times the median of all hosts.
          type: bool
    progress:
      description: Progress that the script reported.
      returned: with O(name)
      type: list
      elements: dict
    progress_offset:
      description: Value of O(progress_offset) for the next task.
      returned: with O(name)
      type: int
    logs:
      description:
        - Output that the processes have written since the previous read (see O(log_offsets)). The first read returns the last
          O(log_lines) lines of each log. Processes without new output are omitted.
      returned: with O(log_lines)
      type: list
      elements: dict
      contains:
        name:
          description: Name of the process.
          type: str
          sample: rank0
        path:
          description: Path of the log.
          type: str
        lines:
          description: Lines of the log, without control characters.
          type: list
          elements: str
        left_out:
          description: Number of bytes that were omitted before these lines, because the size of a result is limited.
          type: int
    log_offsets:
      description: Value of O(log_offsets) for the next task.
      returned: with O(log_lines)
      type: dict
"""

import functools
import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.training_job.jobs.listing import list_jobs, no_job, some
from ..module_utils._hosts.training_job.jobs.watch import NoProcessError, watch
from ..module_utils._hosts.training_job.queue import queries
from ..module_utils._job import directories, naming, records
from ..module_utils._job.goodput import ALWAYS, ENDED, NEVER
from ..module_utils._job.job_status import STATUS_COMMAND


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str"},
            "missing_ok": {"type": "bool", "default": False},
            "heartbeat_timeout": {"type": "int", "default": 60},
            "attempt": {"type": "int"},
            "progress_offset": {"type": "int", "default": 0},
            "log_lines": {"type": "int"},
            "log_process": {"type": "str"},
            "log_offsets": {"type": "dict", "default": {}},
            "goodput": {"type": "str", "choices": [NEVER, ENDED, ALWAYS], "default": NEVER},
            "wait": {"type": "int", "default": 0},
            "hold": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    params, complete = module.params, functools.partial(queries.complete, module.run_command)
    if not params["name"]:
        jobs, problems = list_jobs(params, complete)
        module.exit_json(changed=False, jobs=jobs, problems=some(problems))
    try:
        paths = directories.Paths(os.path.join(params["directory"], naming.check_name(params["name"])))
        if params["attempt"] is not None and not 1 <= params["attempt"] <= records.newest_attempt(paths).attempt:
            message = "attempt: job {name} has no attempt {attempt}. To list its attempts, run: {0} -e training_job_name={name}"
            raise NoProcessError(message.format(STATUS_COMMAND, **params))
        found = watch(paths, params, complete)
        problems = found.pop("problems")
        module.exit_json(changed=False, jobs=[found], problems=some(problems))
    except NoProcessError as error:
        module.fail_json(msg=str(error))
    except FileNotFoundError:
        if params["missing_ok"]:
            module.exit_json(changed=False, jobs=[], problems=[])
        module.fail_json(msg=no_job(params["name"], params["directory"]))
    except (OSError, ValueError) as error:
        module.fail_json(msg="job {!r} in {} cannot be read: {}".format(params["name"], params["directory"], error))


if __name__ == "__main__":
    main()
