# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reports the progress of a Hugging Face Trainer: `Trainer(callbacks=[ReportProgress()])`."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class ReportProgress(TrainerCallback):
    """Appends the step and the logged metrics to `$DEEPLEARNING_PROGRESS` whenever the Trainer logs, every `logging_steps` steps."""

    def on_log(
        self, _arguments: TrainingArguments, state: TrainerState, _control: TrainerControl, logs: dict[str, Any], **_others: Any
    ) -> None:
        path = os.environ.get("DEEPLEARNING_PROGRESS")
        if not path or not state.is_world_process_zero:
            return
        metrics = {name: value for name, value in logs.items() if isinstance(value, (int, float))}
        entry = {"step": state.global_step, "steps": state.max_steps, "time": time.time(), "epoch": state.epoch}
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({**metrics, **entry}) + "\n")
