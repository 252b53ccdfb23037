#!/bin/sh
# DeepSpeed with the one operator that training without GPUs needs. Hosts have no compiler to build it when a job starts.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -q=2
apt-get install -q=2 --no-install-recommends g++ python3-dev >/dev/null
# The requirements are already installed, so the operator is built for the installed PyTorch.
DS_ACCELERATOR=cpu DS_BUILD_SHM_COMM=1 pip install --quiet --no-build-isolation deepspeed==0.19.8
