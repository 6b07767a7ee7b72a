"""The peer: a small data-parallel PyTorch job under torchrun, as its users write it.

Every step is logged as a JSON line, so that the harness sees when the first step of the
next attempt is done. Run by `peers.py`, in an environment of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist


def main(directory: Path, steps: int, hold: int, interval: int) -> None:
    """Train; attempt 0 of rank 1 waits before step `hold` to be killed."""
    dist.init_process_group("gloo")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    log = (directory / f"{rank}.{attempt}.jsonl").open("a", buffering=1)
    torch.manual_seed(0)
    # As large as `mlp:tiny` of recoverybench: 70,000 parameters, and Adam's two moments.
    model = torch.nn.Sequential(
        torch.nn.Linear(128, 256), torch.nn.SiLU(), torch.nn.Linear(256, 144)
    )
    optimizer = torch.optim.Adam(model.parameters())
    first, checkpoint = 1, directory / "checkpoint.pt"
    if checkpoint.exists():
        kept = torch.load(checkpoint)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        first = kept["step"] + 1
    for step in range(first, steps + 1):
        if step == hold and attempt == 0 and rank == 1:
            print(json.dumps({"hold": step, "pid": os.getpid()}), file=log)
            time.sleep(3600)
        loss = model(torch.randn(4, 128)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        print(json.dumps({"step": step, "t": time.monotonic_ns()}), file=log)
        if rank == 0 and step % interval == 0:
            state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
