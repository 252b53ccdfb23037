"""Trains with Lightning, as its documentation describes a run that continues from its last checkpoint."""

import os
import time

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning_progress import ReportProgress

STEPS = 8


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 2 * STEPS

    def __getitem__(self, index):
        return torch.randn(16, generator=torch.Generator().manual_seed(index))


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(16, 16)

    def training_step(self, batch, index):
        time.sleep(0.1)
        return torch.nn.functional.mse_loss(self.layer(batch), batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)

    def on_train_start(self):
        print(f"begins at step {self.global_step}", flush=True)


torch.set_num_threads(1)
model = Model()
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=1,
    num_nodes=int(os.environ["WORLD_SIZE"]),
    strategy="ddp",
    max_epochs=10,
    enable_progress_bar=False,
    enable_model_summary=False,
    logger=lightning.pytorch.loggers.TensorBoardLogger(os.environ["DEEPLEARNING_TENSORBOARD_DIRECTORY"]),
    callbacks=[
        ReportProgress(),
        ModelCheckpoint(dirpath=os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"], save_last=True, save_top_k=2, monitor="step", mode="max"),
    ],
)
trainer.fit(model, torch.utils.data.DataLoader(Rows(), batch_size=1), ckpt_path="last")
with torch.no_grad():
    rows = torch.stack([Rows()[index] for index in range(8)])
    print(f"final loss {torch.nn.functional.mse_loss(model.layer(rows), rows).item():.6f}", flush=True)
