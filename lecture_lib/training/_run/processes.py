"""Several processes that train one model: who they are, and what they tell each other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parallel import DistributedDataParallel

from .checks import warn_caller

_AT_ONCE = nullcontext()


class ProcessLostError(RuntimeError):
    """Another process of the run has ended, so this one cannot go on."""


@dataclass(frozen=True)
class Processes:
    """This process among those of a run. All of them must call the same methods in the same order.

    Attributes:
        rank: of this process, from 0.
        count: how many there are.

    """

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and prints."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """Each number added up over the processes, in float64."""
        if self.count == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64, device=_device())
        dist.all_reduce(total)
        return total.tolist()

    def any(self, flag: bool) -> bool:
        """Whether it is so in any process."""
        return flag if self.count == 1 else self.sum(flag)[0] > 0

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, by rank."""
        if self.count == 1:
            return [value]
        values = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def from_first(self, value: Any) -> Any:
        """The first process's value."""
        if self.count == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def require_same(self, settings: Mapping[str, Any]) -> None:
        """ValueError in every process when one was started with other settings."""
        for rank, remote in enumerate(self.gather(dict(settings))):
            for name, own in settings.items():
                if remote[name] != own:
                    raise ValueError(
                        f"{name} is {own!r} in process {self.rank} and {remote[name]!r} in process {rank}. Call train "
                        "with the same arguments in every process."
                    )

    def replicate(self, model: nn.Module) -> nn.Module:
        """The model whose backward pass averages gradients over the processes; they begin with the first one's weights.

        A parameter that a batch does not use is allowed, as it is in one process.
        """
        if self.count == 1:
            return model
        return DistributedDataParallel(model, find_unused_parameters=True)

    def exchange(self, replica: nn.Module, now: bool) -> AbstractContextManager[Any]:
        """A context for forward and backward passes: gradients are exchanged at once, or wait for a later pass."""
        return _AT_ONCE if now or not isinstance(replica, DistributedDataParallel) else replica.no_sync()

    def share_buffers(self, model: nn.Module) -> None:
        """Give every process the first one's buffers, such as the running statistics of batch normalisation."""
        for buffer in model.buffers() if self.count > 1 else ():
            dist.broadcast(buffer, src=0)

    def agree(self, flag: Tensor) -> Tensor:
        """Whether a flag is set in all processes, found on the device."""
        if self.count == 1:
            return flag
        everywhere = flag.to(torch.int32)
        dist.all_reduce(everywhere, op=dist.ReduceOp.MIN)
        return everywhere.bool()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say what it means when a message to another process fails.

        Raises:
            ProcessLostError: another process has ended.

        """
        try:
            yield
        except RuntimeError as error:
            if self.count == 1 or not _is_of_the_network(error):
                raise
            raise ProcessLostError(
                f"process {self.rank} of {self.count} waited for another one that has ended. Look at that one's "
                "message, mend it, and start all of them again (resume=True goes on from the last checkpoint). The "
                f"weights here are those after the last complete step. [{str(error).splitlines()[0][:200]}]"
            ) from error


ALONE = Processes()


def join_processes(device: torch.device | str = "cpu") -> Processes:
    """The processes that `torchrun` started, or that the caller joined; else this one alone.

    Joins on the first call, over NCCL for what lies on GPUs, over Gloo for the rest, and for as long as the program
    runs: joining a second time in one program is not reliable. A program on GPUs ends with `leave_processes`.
    Source: torch.distributed; lecture 006.

    Args:
        device: where this process's model is; on GPUs, one for each process.

    Raises:
        RuntimeError: the other processes cannot be reached.

    """
    if not dist.is_available():
        return ALONE
    if not dist.is_initialized():
        if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return ALONE
        device = torch.device(device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    return Processes(dist.get_rank(), dist.get_world_size())


def warn_about_equal_noise(model: nn.Module, processes: Processes) -> None:
    """Say when all processes would draw the same dropout masks for different examples."""
    noisy = any(isinstance(module, _DropoutNd) and module.p > 0 for module in model.modules())
    states = processes.gather(torch.get_rng_state().numpy().tobytes())
    if noisy and processes.first and len(set(states)) < processes.count:
        warn_caller(
            "the processes have the same random stream: dropout would draw the same masks in each, for different "
            "examples. After making the model call set_seed(seed + rank) in each."
        )


def leave_processes() -> None:
    """End what `join_processes` began, before the program ends; waits until all processes have come to it."""
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def _device() -> torch.device:
    """Where small messages lie: on the CPU wherever the group has a way for it."""
    return torch.device("cpu" if "gloo" in dist.get_backend_config() else "cuda")


def _is_of_the_network(error: RuntimeError) -> bool:
    if isinstance(error, ProcessLostError):
        return False
    # A lost connection is a plain RuntimeError too; only the text names the backend.
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(name in text for name in ("gloo", "nccl", "connection"))
