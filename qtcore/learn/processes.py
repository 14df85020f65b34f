"""Several processes that train one model together."""

import importlib
import os

import torch
import torch.distributed as dist


def start_processes(device: torch.device) -> torch.device:
    """Join the other processes when torchrun started several; returns this process's device."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return device
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    # DistributedDataParallel would import this module later, and default arguments in it would then hold the group for ever:
    # gloo's threads would outlive destroy_process_group, and may abort the interpreter's exit. So import it before.
    importlib.import_module("torch.distributed.nn")
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device
