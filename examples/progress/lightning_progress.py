# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reports the progress of a Lightning Trainer: `Trainer(callbacks=[ReportProgress()])`."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Callback


class ReportProgress(Callback):
    """Appends the step and the logged metrics to `$DEEPLEARNING_PROGRESS` after every `every` steps."""

    def __init__(self, every: int = 10) -> None:
        self.every = every

    def on_train_batch_end(self, trainer: Trainer, *_others: Any) -> None:
        path = os.environ.get("DEEPLEARNING_PROGRESS")
        if not path or not trainer.is_global_zero or trainer.global_step % self.every:
            return
        metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
        entry = {
            "step": trainer.global_step,
            "steps": trainer.estimated_stepping_batches,
            "time": time.time(),
            "epoch": trainer.current_epoch,
        }
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({**metrics, **entry}) + "\n")
