# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Implements one run of the `dataset` module on a host: examines the source, or starts the staging and waits for the result."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule

from ..._common.dataset.source import DIRECT, S3, SHARED, DataError, fingerprint, name_of_set
from . import background, examination, file_lists, stager, staging_progress
from .shares import patterns

ARGUMENTS = {
    "source": {"type": "str", "default": ""},
    "sources": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "source": {"type": "str", "required": True},
            "folder": {"type": "str", "default": ""},
            "checksum": {"type": "str", "default": ""},
            "unpack": {"type": "bool", "default": False},
        },
    },
    "destination": {"type": "str", "default": "shared"},
    "name": {"type": "str"},
    "directory": {"type": "path", "required": True},
    "checksum": {"type": "str", "default": ""},
    "unpack": {"type": "bool", "default": False},
    "region": {"type": "str"},
    "anonymous": {"type": "bool", "default": False},
    "shards": {"type": "list", "elements": "int", "default": []},
    "state": {"type": "str", "choices": ["examined", "fetched", "present"], "default": "present"},
    "hosts": {"type": "int", "default": 1},
    "share": {
        "type": "dict",
        "options": {"version": {"type": "str", "required": True}, "patterns": {"type": "list", "elements": "str", "required": True}},
    },
    "upload": {
        "type": "dict",
        "options": {
            "version": {"type": "str", "required": True},
            "size": {"type": "int", "required": True},
            "single": {"type": "bool", "required": True},
        },
    },
    "attempt": {"type": "str", "default": ""},
    "wait": {"type": "int", "default": 5},
}

# Parameters that apply to a single run of the module and do not describe the data set.
OF_THE_CALL = {"state", "hosts", "attempt", "wait"}


def refuse_own_disk(destination: str, directory: str) -> None:
    """Raise DataError if the destination requires shared storage but the directory is on the host's own disk."""
    if destination not in (SHARED, DIRECT):
        return
    existing = os.path.abspath(directory)
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    if os.stat(existing).st_dev == os.stat("/").st_dev:
        raise DataError(
            f"dataset_destination: '{destination}' requires shared storage, but {directory} is on the host's own disk. Mount the shared "
            "storage with the playbook deeplearning.cluster.configure, or set dataset_destination to local."
        )


def examine(module: AnsibleModule, spec: examination.DatasetSpec) -> None:
    """Report what is already staged and what a run would change, and exit the module."""
    plan = examination.examine(spec)
    where, current = examination.places(spec, plan), plan.current and not file_lists.missing_shards(spec, plan)
    divided = plan.source.kind == S3 and not (plan.single or plan.markers) and module.params["hosts"] > 1
    module.exit_json(
        changed=not current and module.params["state"] != "examined",
        finished=True,
        name=plan.name,
        path=where.final,
        version=plan.version,
        current=current,
        download=where.download,
        single=plan.single,
        shares=patterns(plan.files, module.params["hosts"]) if divided and not plan.current else [],
        **examination.warnings(plan),
    )


def work_on(module: AnsibleModule, spec: examination.DatasetSpec) -> None:
    """Start the staging if it is not running, wait up to `wait` seconds, and exit the module with its progress or result."""
    what = fingerprint(name_of_set(spec), spec["directory"], spec["destination"])
    work, attempt = background.work(what), {"attempt": module.params["attempt"], "spec": fingerprint(*sorted(spec.items()))}
    known = work.attempt() or {}
    if not work.is_running():
        if known != attempt:
            work.start(attempt, lambda: stager.run(spec, staging_progress.StagingProgress(work.progress)))
    elif known.get("spec") != attempt["spec"]:
        source = spec["source"].partition("?")[0] or spec["name"]
        raise DataError(
            f"{source}: another run is staging this source on this host with different options. Run the playbook again after that run has "
            "ended."
        )
    ended = work.wait(module.params["wait"])
    state = work.state()
    if not ended or work.attempt() != attempt:
        module.exit_json(changed=False, finished=False, progress={**state, "seconds": work.seconds()})
    if state.get("stage") != "ended":
        raise DataError(
            f"Staging ended before the data set was complete. See {work.log} on the host, and run the playbook again to continue."
        )
    if "error" in state:
        raise DataError(state["error"])
    module.exit_json(finished=True, **state["result"])
