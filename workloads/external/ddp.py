"""A PyTorch DDP training script under torchrun, as one writes it.

A decoder of the size of recoverybench's `transformer:tiny`: two layers, width 64, 4 heads, SwiGLU
of 128, bytes in and out, a batch of 12 windows of 32 bytes over all processes; AdamW. It knows
nothing of recoverybench: rank 0 prints a line a step, which is all that is read of it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

VOCABULARY, LAYERS, DIM, HEADS, HIDDEN, BATCH, LENGTH = 256, 2, 64, 4, 128, 12, 32
TEXT = torch.tensor(list(Path(__file__).read_bytes()))


class Block(nn.Module):
    """Attention and SwiGLU, each on the normed residual."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)
        self.gate_up = nn.Linear(DIM, 2 * HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(F.rms_norm(x, (DIM,))).chunk(3, -1)
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(F.rms_norm(x, (DIM,))).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    """Tied input and output embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, DIM)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.embed(tokens) * DIM**-0.5)
        return F.rms_norm(x, (DIM,)) @ self.embed.weight.T


def batch(seed: int, number: int) -> torch.Tensor:
    """The windows of one step, the same for every process."""
    random = torch.Generator().manual_seed(seed * 1_000_003 + number)
    starts = torch.randint(len(TEXT) - LENGTH - 1, (BATCH,), generator=random).tolist()
    return torch.stack([TEXT[i : i + LENGTH + 1] for i in starts])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    for name in ("steps", "interval", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = Decoder()
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=3e-3)
    path, done = args.directory / "state.pt", 0
    if path.exists():
        print(f"rank {rank}: restoring", flush=True)
        kept = torch.load(path)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        done = kept["step"]
        print(f"rank {rank}: restored step {done}", flush=True)
    for number in range(done + 1, args.steps + 1):
        windows = batch(args.seed, number).chunk(world)[rank]
        logits = parallel(windows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"rank 0: step {number} loss {total.item() / world!r}", flush=True)
        if rank == 0 and number % args.interval == 0:
            state = {
                "step": number,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            torch.save(state, path.with_suffix(".new"))
            os.replace(path.with_suffix(".new"), path)
            print(f"rank 0: saved step {number}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
