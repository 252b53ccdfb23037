# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""All queues, keyed by name. To add a queue, create its Python file in this folder, and add the queue to `QUEUES`."""

from __future__ import annotations

from . import sge, slurm, yarn
from .base import Queue

QUEUES: dict[str, Queue] = {
    "sge": sge.QUEUE,
    "slurm": slurm.QUEUE,
    "yarn": yarn.QUEUE,
}
