# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The features of Slurm nodes, which jobs can request with `--constraint`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FEATURES = ("deeplearning_instance_type", "deeplearning_zone")


def features_of(host: Mapping[str, Any]) -> list[str]:
    return [str(host[name]) for name in FEATURES if host.get(name)]
