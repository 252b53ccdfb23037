"""A minimal job: every process prints its rank."""

from __future__ import annotations

import os

print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}")
