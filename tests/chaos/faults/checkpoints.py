"""Faults in the checkpoints from which a job continues."""

from __future__ import annotations

KINDS = {
    "garbage": "printf nonsense >{path}",
    "truncated": "truncate --size=1000 {path}",
    "empty": "truncate --size=0 {path}",
    "poisoned": """printf "{{\\"step\\": {step}, \\"parameters\\": [NaN, NaN]}}" >{path}""",
    "directory": "rm {path} && mkdir {path} && touch {path}/part",
    "unfinished": "printf nonsense >{folder}/{next}.json.tmp",
}


def damage(job, kind, everything=False):
    """Damage the newest checkpoint, or all checkpoints, and then kill the rank that writes checkpoints."""
    job.wait_for_step()
    job.target = 0
    job.host.ssh(f"sudo pkill -STOP -f '/jobs/{job.name}/[c]ode/workload.py rank'")
    folder = f"{job.directory}/checkpoints"
    steps = sorted(int(name[: -len(".json")]) for name in job.host.ssh(f"cd {folder} && ls -d *.json").stdout.split())
    for step in steps if everything else steps[-1:]:
        command = KINDS[kind].format(path=f"{folder}/{step}.json", step=step, folder=folder, next=step + 10)
        # The damaged checkpoint gets the owner and group that it would have if the job itself had written it.
        job.host.ssh(f"sudo sh -c '{command}' && sudo chown --reference={folder} {folder}/*")
    job.signal(0, "KILL")
