# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The valid contents of a job's documents. documents.py contains their types."""

from __future__ import annotations

from . import failure_causes, recovery, schema, storage_problems
from .naming import INSTANCE_ID, JOB_NAME, PROCESS_NAME, SERVICE, SPARE, STANDBY, WORKER
from .schema import optional
from .state_names import FAILED, FINAL, OF_PROCESSES, RUNNING, SUCCEEDED, WAITING

# The maximum number of records to read. No job has so many records, but reading this many would still be fast.
RECORDS_LIMIT = 1 << 13

# Maximum number of ranks in one record. The record of mpirun or of an elastic agent contains all ranks of the job.
RANKS_LIMIT = 1 << 13

# Maximum number of characters in a sentence about a failure. Parts of the sentence come from the job.
SENTENCE_LIMIT = 1000
HOST_NAME = schema.text(253, r"[A-Za-z0-9._-]+", "the name of a host")

# A part of the path of a checkpoint. It is not the name of a hidden file, and contains no lone surrogates except those with which Python
# represents bytes that are not UTF-8.
CHECKPOINT_NAME = r"(?!\.)[^/\0\ud800-\udc7f\udd00-\udfff]+"

STORAGE_PROBLEM: schema.Schema = {
    "path": schema.text(4096),
    "problem": schema.one_of(*storage_problems.KINDS),
    "free": schema.integer(0, 1 << 62),
    "size": schema.integer(0, 1 << 62),
    "shared": schema.flag(),
}

# What a job may cost, and what it had cost when it reached this amount.
COST: schema.Schema = {
    "limit": schema.number(),
    "spent": schema.number(),
    "currency": schema.one_of("USD", "CNY", "EUR"),
    "seconds": schema.seconds(),
    "earlier": optional(schema.number()),
}

# Maximum number of ranks of one process on its own host.
RANKS_PER_HOST_LIMIT = 1 << 10

# The place at which a rank of a hanging job is stuck.
STUCK: schema.Schema = {
    "rank": schema.integer(0, 1 << 20),
    "where": schema.text(400),
    "waits": schema.flag(),
    "suspended": schema.flag(),
    "silent_peers": optional(schema.integer(0, 100)),
    "error": optional(schema.text(400)),
}

# For how long a job has hung, and where its ranks are.
HANG: schema.Schema = {
    "seconds": schema.seconds(),
    "median": optional(schema.seconds()),
    "lock": optional(schema.text(4096)),
    "stuck": optional(schema.mapping(STUCK)),
    "others": optional(schema.integer(0, 1 << 20)),
    "there": optional(schema.integer(0, 1 << 20)),
    "most": optional(schema.text(400)),
}

# Why a process failed.
CAUSE: schema.Schema = {
    "kind": schema.one_of(*failure_causes.KINDS),
    "what": optional(schema.text(failure_causes.WHAT_LIMIT)),
    "exit_code": optional(schema.integer(0, 255)),
    "name": optional(schema.text(failure_causes.NAME_LIMIT)),
    "message": optional(schema.text(1000)),
    "storage": optional(schema.list_of(schema.mapping(STORAGE_PROBLEM), storage_problems.LIMIT)),
    "alone": optional(schema.flag()),
    "limit": optional(schema.seconds()),
    "cost": optional(schema.mapping(COST)),
    "deadline": optional(schema.seconds()),
    "port": optional(schema.integer(0, 65535)),
    "listener": optional(schema.text(100)),
    "hang": optional(schema.mapping(HANG)),
}

# Why a host must not run the next attempt.
UNFIT: schema.Schema = {
    "why": schema.one_of(failure_causes.REBOOT, failure_causes.REPLACE, failure_causes.EXCLUDED),
    "what": schema.text(failure_causes.WHAT_LIMIT),
    "reboots": optional(schema.flag()),
}

RECORD: schema.Schema = {
    "name": schema.text(40, PROCESS_NAME.pattern, "the name of a process"),
    "rank": schema.integer(0, 1 << 20),
    "ranks": schema.list_of(schema.integer(0, 1 << 20), RANKS_LIMIT),
    "tagged": optional(schema.flag()),
    "part": schema.one_of(WORKER, SERVICE, SPARE, STANDBY),
    "host": HOST_NAME,
    "instance": optional(schema.text(19, INSTANCE_ID.pattern, "the ID of an instance")),
    "processes": schema.integer(1, 1 << 20),
    "pid": optional(schema.integer(1, 1 << 31)),
    "state": schema.one_of(*OF_PROCESSES),
    "started": schema.seconds(),
    "heartbeat": schema.seconds(),
    "finished": optional(schema.seconds()),
    "exit_code": optional(schema.integer(0, 255)),
    "signal": optional(schema.text(20, r"[A-Z0-9+-]+", "the name of a signal")),
    "cause": schema.lenient(schema.mapping(CAUSE)),
    "stopped_for": optional(schema.text(40, PROCESS_NAME.pattern, "the name of a process")),
    "oom_kills": optional(schema.integer(0, 1 << 31)),
    "restartable": optional(schema.flag()),
    "available": optional(schema.flag()),
    "unfit": schema.lenient(schema.mapping(UNFIT)),
    "rebooted": optional(schema.flag()),
    "active": optional(schema.seconds()),
    "suspects_hang": optional(schema.flag()),
    "hang": optional(schema.mapping(HANG)),
    "stuck": optional(schema.list_of(schema.mapping(STUCK), RANKS_PER_HOST_LIMIT)),
    "still_connected": optional(HOST_NAME),
    "raised": schema.lenient(schema.mapping(CAUSE)),
}

# The origin of a job's code.
CODE: schema.Schema = {
    "commit": optional(schema.text(64, r"[0-9a-f]*", "a commit")),
    "changed": optional(schema.flag()),
    "repository": optional(schema.text()),
    "version": optional(schema.text()),
}

# The description of a job, `job.json`. The job's name is the name of its directory.
DESCRIPTION: schema.Schema = {
    "script": optional(schema.text()),
    "command": optional(schema.list_of(schema.text(1 << 17))),
    "arguments": optional(schema.list_of(schema.text(1 << 17))),
    "launcher": schema.text(40, r"[a-z0-9_]+", "the name of a launcher"),
    "launcher_options": optional(schema.mapping()),
    "python": optional(schema.text()),
    "time_limit": optional(schema.seconds()),
    "resume": optional(schema.text(63, JOB_NAME.pattern, "the name of a job")),
    "printed": optional(schema.flag()),
    "checkpoint_directory": optional(schema.text(4096, r"[^\0]*", "a path or an address")),
    "created": schema.seconds(),
    "digest": optional(schema.text(64, r"[0-9a-f]{64}", "a digest")),
    "code": optional(schema.mapping(CODE)),
}

# The verdict, which tells the processes that the attempt is over.
VERDICT: schema.Schema = {
    "state": schema.one_of(*FINAL),
    "failure": optional(schema.mapping()),
    "restartable": optional(schema.flag()),
}

CHECKPOINT: schema.Schema = {
    "name": schema.text(1024, f"{CHECKPOINT_NAME}(/{CHECKPOINT_NAME})*", "the path of a file"),
    "changed": schema.seconds(),
}
# How many damaged checkpoints are set aside at once.
DAMAGED_LIMIT = 8

# What follows an attempt, `status/next`.
FOLLOWING: schema.Schema = {
    "action": schema.one_of(recovery.RESTART, recovery.STOP),
    "rule": schema.text(40, r"[a-z_]+", "the name of a rule"),
    "decided": schema.seconds(),
    "started": optional(schema.seconds()),
    "ran_on": optional(schema.integer(1, RECORDS_LIMIT)),
    "failure": optional(schema.mapping()),
    "cause": schema.lenient(schema.mapping(CAUSE)),
    "progress": optional(schema.flag()),
    "hosts": optional(schema.list_of(HOST_NAME, RECORDS_LIMIT)),
    "set_aside": optional(schema.mapping(CHECKPOINT)),
    "damaged": optional(schema.list_of(schema.mapping(CHECKPOINT), DAMAGED_LIMIT)),
    "without_checkpoint": optional(schema.flag()),
    "standby": optional(schema.list_of(HOST_NAME, RECORDS_LIMIT)),
    "replacements": optional(schema.list_of(HOST_NAME, RECORDS_LIMIT)),
    "missing": optional(schema.list_of(HOST_NAME, RECORDS_LIMIT)),
    "excluded": optional(schema.list_of(HOST_NAME, RECORDS_LIMIT)),
    "restarts": optional(schema.integer(0, 1 << 31)),
    "min_hosts": optional(schema.integer(0, 1 << 31)),
    "reboots": optional(schema.flag()),
    "refusal": optional(schema.text(failure_causes.WHAT_LIMIT)),
}

# The state of a job's export to S3, `status/export`.
EXPORT: schema.Schema = {
    "destination": schema.text(1200, r"s3://[A-Za-z0-9._=+@/-]+", "a location on S3"),
    "state": schema.one_of(RUNNING, WAITING, SUCCEEDED, FAILED),
    "began": schema.seconds(),
    "heartbeat": schema.seconds(),
    "finished": optional(schema.seconds()),
    **{key: optional(schema.integer(0, 1 << 53)) for key in ("files", "size", "uploaded", "uploaded_size", "changing", "omitted_count")},
    "omitted": optional(schema.list_of(schema.text(200), 20)),
    "error": optional(schema.text()),
}

# The entry of a job in a queue, `status/queue`.
ENTRY: schema.Schema = {
    "queue": schema.text(40, r"[a-z0-9_]+", "the name of a queue"),
    "id": schema.text(60, r"[0-9.]+|application_[0-9]+_[0-9]+", "the ID of a job"),
    "submitted": schema.seconds(),
    "failure": optional(schema.text(SENTENCE_LIMIT)),
}
