"""Trains with the Trainer of Hugging Face, which writes checkpoints to their final names and other files beside them."""

import os
import time

import torch
from hugging_face_progress import ReportProgress
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        row = torch.randint(0, 32, (8,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": row, "labels": row}


class Slow(TrainerCallback):
    def on_train_begin(self, arguments, state, control, **_others):
        print(f"begins at step {state.global_step}", flush=True)

    def on_step_end(self, arguments, state, control, **_others):
        time.sleep(0.1)


torch.set_num_threads(1)
torch.manual_seed(0)
output = os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"]
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
arguments = TrainingArguments(
    output_dir=output,
    per_device_train_batch_size=4,
    num_train_epochs=8,
    save_steps=10,
    save_total_limit=3,
    logging_steps=10,
    report_to=["tensorboard"],
    use_cpu=True,
    disable_tqdm=True,
)
trainer = Trainer(model=model, args=arguments, train_dataset=Rows(), callbacks=[Slow(), ReportProgress()])
trainer.train(resume_from_checkpoint=get_last_checkpoint(output))
trainer.save_model()
with torch.no_grad():
    rows = torch.stack([Rows()[index]["input_ids"] for index in range(8)])
    print(f"final loss {model(input_ids=rows, labels=rows).loss.item():.6f}", flush=True)
