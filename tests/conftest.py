"""Makes every process that a test starts, in any folder, use this checkout and no collections from the home directory."""

from __future__ import annotations

import os
from pathlib import Path

# The same settings as in ansible.cfg, which applies only in the checkout's folder. Ansible always finds the collections of the virtual
# environment.
os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(Path(__file__).parents[1] / ".cache" / "collections")
os.environ["ANSIBLE_INJECT_FACT_VARS"] = "false"
os.environ["ANSIBLE_PIPELINING"] = "true"
# Tests read the results of individual tasks, which the callback in ansible.cfg combines. Tests of that callback enable it themselves.
os.environ["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"
# Seconds to wait for a connection to a host. This timeout is long enough for a busy machine.
os.environ["ANSIBLE_TIMEOUT"] = "60"
