"""Trains with FSDP, and saves with torch.distributed.checkpoint, which writes one file per rank and their index last."""

import os
import re
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

STEPS = 100

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
fully_shard(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
folder, step = os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"], 0
saved = [int(found[1]) for found in map(re.compile(r"step-(\d+)").fullmatch, os.listdir(folder)) if found]
if saved:
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state, "step": torch.tensor(0)}
    dcp.load(state, checkpoint_id=f"{folder}/step-{max(saved)}")
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    step = int(state["step"])
print(f"begins at step {step}", flush=True)
while step < STEPS:
    rows = torch.randn(8, 16, generator=torch.Generator().manual_seed(step))
    torch.nn.functional.mse_loss(model(rows), rows).backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    time.sleep(0.1)
    if step % 10 == 0:
        model_state, optimizer_state = get_state_dict(model, optimizer)
        dcp.save({"model": model_state, "optimizer": optimizer_state, "step": torch.tensor(step)}, checkpoint_id=f"{folder}/step-{step}")
rows = torch.randn(8, 16, generator=torch.Generator().manual_seed(STEPS))
with torch.no_grad():
    print(f"final loss {torch.nn.functional.mse_loss(model(rows), rows).item():.6f}", flush=True)
dist.destroy_process_group()
