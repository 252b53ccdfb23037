# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""All launchers, keyed by name. To add a launcher, create its Python file in this folder and add it to `LAUNCHERS`."""

from __future__ import annotations

from . import command, deepspeed, horovod, jax, mpi, mxnet, tensorflow, torchrun
from .base import Launcher

LAUNCHERS: dict[str, Launcher] = {
    "command": command.LAUNCHER,
    "deepspeed": deepspeed.LAUNCHER,
    "horovod": horovod.LAUNCHER,
    "jax": jax.LAUNCHER,
    "mpi": mpi.LAUNCHER,
    "mxnet": mxnet.LAUNCHER,
    "tensorflow": tensorflow.LAUNCHER,
    "torchrun": torchrun.LAUNCHER,
}
