"""A torchft training script, as one writes it: replicas that go on when one of them is lost.

The model and the data of `ddp.py`, here with one process a replica group. Who survives goes on
with the rows of the batch shared out anew; who comes back gets the state from one of them.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from ddp import Decoder, batch
from torchft import Manager, Optimizer, ProcessGroupGloo


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    for name in ("replicas", "steps", "interval", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    replica = os.environ["REPLICA_GROUP_ID"]
    model = Decoder()
    inner = torch.optim.AdamW(model.parameters(), lr=3e-3)
    path = args.directory / "state.pt"

    def load(kept: dict[str, Any]) -> None:
        model.load_state_dict(kept["model"])
        inner.load_state_dict(kept["optimizer"])

    def state() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": inner.state_dict()}

    # At first all of them: it would begin with two, and the third would be a recovery.
    (args.directory / f"ready.{replica}").touch()
    while len(list(args.directory.glob("ready.*"))) < args.replicas:
        time.sleep(0.02)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=5)),
        load_state_dict=load,
        state_dict=state,
        min_replica_size=2,
        # Who comes back has the state before its first step, and so has a part in it.
        use_async_quorum=False,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        hostname="127.0.0.1",
        replica_id=f"replica_{replica}_",
        timeout=timedelta(seconds=10),
    )
    if path.exists():
        kept = torch.load(path)
        load(kept)
        manager.load_state_dict(kept["manager"])
    optimizer = Optimizer(manager, inner)
    while manager.current_step() < args.steps:
        optimizer.zero_grad()
        number = manager.current_step() + 1  # the quorum may have brought a newer state
        share, shares = manager.participating_rank(), manager.num_participants()
        windows = batch(args.seed, number).tensor_split(shares)[share or 0]
        logits = model(windows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        # Not torchft's DistributedDataParallel: of version 0.2.0 its hook fails an assertion in
        # the survivors when a replica is lost in the midst of an all-reduce.
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        vector = torch.cat([*(g.flatten() for g in grads), loss.detach().reshape(1)])
        manager.allreduce(vector).wait()
        for grad, mean in zip(grads, vector[:-1].split([g.numel() for g in grads]), strict=True):
            grad.copy_(mean.view_as(grad))
        total = vector[-1]
        optimizer.step()
        if manager.current_step() < number:
            continue  # somebody was lost in the midst of it
        print(f"rank {replica}: step {number} loss {total.item()!r}", flush=True)
        if share == 0 and number % args.interval == 0:
            torch.save({**state(), "manager": manager.state_dict()}, path.with_suffix(".new"))
            os.replace(path.with_suffix(".new"), path)
            print(f"rank {replica}: saved step {number}", flush=True)
    manager.shutdown(wait=False)
    os._exit(0)


if __name__ == "__main__":
    main()
