# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Lets what the tests start, in whatever folder, find this checkout and no collection installed in the home directory."""

from __future__ import annotations

import os
from pathlib import Path

# As in ansible.cfg, which applies in the checkout's own folder only. The virtual environment's collections are always found.
os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(Path(__file__).parents[1] / ".cache" / "collections")
os.environ["ANSIBLE_INJECT_FACT_VARS"] = "false"
# Tests read tasks and results, which the checkout's own callback folds. Those of the callback set it themselves.
os.environ["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"
# Seconds to connect to a host, also on a machine that other work slows down.
os.environ["ANSIBLE_TIMEOUT"] = "60"
