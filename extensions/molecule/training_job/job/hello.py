"""The smallest job: every process says who it is."""

from __future__ import annotations

import os

print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}")
