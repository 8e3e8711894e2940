"""Processes that save a checkpoint again and again and are killed at random moments.

python tests/helpers/checkpoint_crashes.py FOLDER KILLS SEED prints one line of JSON for each kill: the last save that
was complete, and what the file held afterwards.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
from pathlib import Path

import torch

from lecture_lib.training import save_atomically
from lecture_lib.training.checkpoint import load_checkpoint


def write_for_ever(path: Path, first: int, pipe: int) -> None:
    """Save step after step, and report each save after it is complete."""
    step = first
    while True:
        weights = torch.full((40_000,), float(step))
        save_atomically({"step": step, "weights": weights, "more": [weights[:10].clone(), "text"]}, path)
        os.write(pipe, step.to_bytes(4, "little"))
        step += 1


def main(folder: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)
    draw = random.Random(seed)
    path = folder / "last.pt"
    complete = 0
    for _ in range(kills):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            write_for_ever(path, complete + 1, writing)
        os.close(writing)
        # Wait for a first save, so that there is something to lose; then for a random moment.
        reports = os.read(reading, 4)
        select.select([], [], [], draw.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while chunk := os.read(reading, 4096):
            reports += chunk
        os.close(reading)
        complete = int.from_bytes(reports[-4:], "little")
        state = load_checkpoint(path)
        whole = bool((state["weights"] == state["step"]).all()) and state["more"][1] == "text"
        print(json.dumps({"complete": complete, "step": state["step"], "whole": whole}), flush=True)
        complete = state["step"]
    save_atomically({"step": -1}, path)
    print(json.dumps(sorted(file.name for file in folder.iterdir())))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
