"""The table of replacements: for each part of a program, what can be put in its place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode

from ...training._run.preserve import evaluating, preserved_modes
from ..program import Program, Spec
from .assumptions import NotAskedError
from .changes import Change, initialised_anew, learning_rate_times, replacing
from .observed import Examples
from .reference_parts import matches, reference_model, reference_optimizer, reference_step, standard_loss

DROPOUT = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_dropout",
    "feature_alpha_dropout",
)
LAST = ("softmax", "log_softmax", "sigmoid", "tanh", "relu", "logsigmoid", "softplus")
SETTINGS = (
    "eps",
    "momentum",
    "negative_slope",
    "alpha",
    "beta",
    "threshold",
    "track_running_stats",
    "sparse",
    "max_norm",
)
WITHOUT_DEFAULT = {"lr", "params", "foreach", "fused", "capturable", "differentiable"}
STANDARD = (nn.CrossEntropyLoss, nn.MSELoss, nn.BCEWithLogitsLoss)


@dataclass(frozen=True)
class Replacement:
    """One part of a program replaced by a good one.

    Attributes:
        part: one of PARTS.
        what: what is put there, in words: "trained with ...".
        change: replaces it for a while, and raises NotInUseError at its end if the program went around it. What it
            gives as a context, if anything, is called between training and evaluation.
        general: it changes much at once, so that a gain does not say that the part is faulty.

    """

    part: str
    what: str
    change: Change
    general: bool = False


class NotInUseError(NotAskedError):
    """What was put into a program was never used: the program keeps its own elsewhere."""


@dataclass(frozen=True)
class Watched:
    """What a run of the program as it is has shown.

    Attributes:
        program: new, untrained.
        spec: of it.
        train, val: its examples; None where they cannot be read.
        outputs: the model's, for some training examples.
        rates: largest rate of each parameter group of each optimizer, and whether rates changed within the run.
        called: names of PyTorch's functions that were called in training.

    """

    program: Program
    spec: Spec
    train: Examples | None
    val: Examples | None
    outputs: Tensor | None
    rates: list[list[float]]
    rates_changed: bool
    called: frozenset[str]


def replacements(watched: Watched) -> list[Replacement]:
    """What can be replaced in this program and differs from its own part, the smallest replacements first."""
    tables = (_step, _loss, _schedule, _inputs, _layers, _initialisation, _optimizer, _everything)
    return [one for table in tables for one in table(watched)]


# ------------------------------------------------------------------------------------------------ step and loss


def own_loop(program: Program) -> bool:
    """Whether the program brings a loop or a step of its own."""
    return program.step is not None or program.train_epoch is not None


def _own_loss(program: Program, spec: Spec) -> Callable[[Any, Any], Tensor]:
    return program.loss_fn or (lambda outputs, targets: standard_loss(outputs, targets, spec))


def plain_loop(spec: Spec) -> Change:
    """The reference step in the place of the program's own step and epoch."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        if program.train_loader is None:
            raise NotAskedError("the program has no train_loader")
        by_batch = program.scheduler if spec.scheduler_steps == "batch" else None
        if isinstance(program.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            program.scheduler = _Judged(program)
        program.train_epoch, program.step = None, reference_step(spec, _own_loss(program, spec), by_batch)
        if by_batch is not None:
            program.scheduler = None
        yield

    return change


class _Judged:
    """A schedule that waits for a plateau is given the mean validation loss."""

    def __init__(self, program: Program) -> None:
        self._program, self._scheduler = program, program.scheduler

    def step(self) -> None:
        """One step of it."""
        program = self._program
        if program.loss_fn is None:
            raise NotAskedError("the schedule waits for a plateau of a loss that is not known")
        with evaluating(program.model):
            pairs = [program.parts(batch) for batch in program.val_loader or ()]
            losses = [float(program.loss_fn(program.outputs(x), y)) for x, y in pairs]
        self._scheduler.step(sum(losses) / max(len(losses), 1))


def _step(watched: Watched) -> Iterator[Replacement]:
    spec = watched.spec
    if own_loop(watched.program) and watched.program.train_loader is not None:
        yield Replacement("step", "the plain step: zero_grad, forward, loss, backward, step", plain_loop(spec))
    elif spec.accumulate > 1 or spec.max_norm is not None or spec.eval_modules or spec.frozen:
        yield Replacement("step", "the step as it is declared", plain_loop(spec))


def _is_standard(loss: Any) -> bool:
    if loss in (nn.functional.cross_entropy, nn.functional.mse_loss, nn.functional.binary_cross_entropy_with_logits):
        return True
    return isinstance(loss, STANDARD) and getattr(loss, "reduction", "mean") == "mean"


def _loss(watched: Watched) -> Iterator[Replacement]:
    program, spec = watched.program, watched.spec
    if program.loss_fn is None or _is_standard(program.loss_fn):
        return

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        used: list[bool] = []

        def loss(outputs: Any, targets: Any, *others: Any, **more: Any) -> Tensor:
            used.append(True)
            return standard_loss(outputs, targets, spec)

        program.loss_fn = loss
        yield
        if not used:
            raise NotInUseError("the program's step never calls loss_fn")

    yield Replacement("loss", "the standard loss of the task", change)


# --------------------------------------------------------------------------------------- optimizer and schedule


def _before_steps(act: Callable[[Program, Optimizer, int], None]) -> Change:
    """Something is done before each step of each optimizer, which is numbered."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        used: list[bool] = []
        with ExitStack() as hooks:
            for number, optimizer in enumerate(program.optimizers):

                def before(optimizer: Optimizer, args: Any, kwargs: Any, number: int = number) -> None:
                    used.append(True)
                    act(program, optimizer, number)

                hooks.callback(optimizer.register_step_pre_hook(before).remove)
            yield
        if not used:
            raise NotInUseError("the program's optimizer never takes a step")

    return change


def _optimizer(watched: Watched) -> Iterator[Replacement]:
    program, spec = watched.program, watched.spec
    held = {id(p) for one in program.optimizers for group in one.param_groups for p in group["params"]}
    named = [(name, p) for name, p in program.model.named_parameters() if not matches(name, spec.frozen)]
    if held and any(id(p) not in held or not p.requires_grad for _, p in named):
        yield Replacement("optimizer", "all parameters trained", _all_trained(spec))
    settings: dict[str, Any] = {}
    for one in program.optimizers:
        usual = {name: p.default for name, p in inspect.signature(type(one)).parameters.items()}
        for name in set(one.param_groups[0]) & set(usual) - WITHOUT_DEFAULT:
            if usual[name] is not None and any(group[name] != usual[name] for group in one.param_groups):
                settings[name] = usual[name]
    for name, value in settings.items():
        if name == "momentum":
            value = 0.9
            if all(g.get(name) == value for one in program.optimizers for g in one.param_groups):
                continue
        yield Replacement("optimizer", f"{name} of {value!r}", _with_setting(name, value))
    rates = {rate for group in watched.rates for rate in group}
    if len(rates) > 1 and not len(program.optimizers) > 1:
        yield Replacement("optimizer", "one learning rate for all parameters", _rates_of(lambda own: max(own)))
    for factor in (0.1, 10.0):
        yield Replacement("optimizer", f"{factor:g} times the learning rate", learning_rate_times(factor), general=True)


def _with_setting(name: str, value: Any) -> Change:
    def act(program: Program, optimizer: Optimizer, number: int) -> None:
        for group in optimizer.param_groups:
            if name in group:
                group[name] = value

    return _before_steps(act)


def _all_trained(spec: Spec) -> Change:
    @contextmanager
    def change(program: Program) -> Iterator[None]:
        optimizer = program.optimizers[0]
        held = {id(p) for one in program.optimizers for group in one.param_groups for p in group["params"]}
        missing = []
        for name, parameter in program.model.named_parameters():
            if not matches(name, spec.frozen):
                parameter.requires_grad_(True)
                if id(parameter) not in held:
                    missing.append(parameter)
        if missing:
            optimizer.add_param_group({"params": missing})
        try:
            yield
        finally:
            if missing:
                optimizer.param_groups.pop()

    return change


def _rates_of(choose: Callable[[list[float]], float]) -> Change:
    def act(program: Program, optimizer: Optimizer, number: int) -> None:
        rate = choose([group["lr"] for group in optimizer.param_groups])
        for group in optimizer.param_groups:
            group["lr"] = rate

    return _before_steps(act)


def _schedule(watched: Watched) -> Iterator[Replacement]:
    if not watched.rates_changed:
        return
    yield Replacement("schedule", "a constant learning rate", constant_rates(watched.rates))


def constant_rates(rates: list[list[float]]) -> Change:
    """Each parameter group learns at one rate, whatever schedule sets it."""

    def act(program: Program, optimizer: Optimizer, number: int) -> None:
        for group, rate in zip(optimizer.param_groups, rates[number], strict=False):
            group["lr"] = rate

    return _before_steps(act)


# ----------------------------------------------------------------------------------------------------- the model


def _initialisation(watched: Watched) -> Iterator[Replacement]:
    yield Replacement("initialisation", "weights drawn as PyTorch draws them", initialised_anew)


def _layers(watched: Watched) -> Iterator[Replacement]:
    model = watched.program.model
    for kind, name, value in _unusual_settings(model):
        yield Replacement("layers", f"{name} of {value!r} in {kind.__name__}", _module_setting(kind, name, value))
    if watched.called & set(DROPOUT) or any(isinstance(m, nn.RNNBase) and m.dropout for m in model.modules()):
        yield Replacement("layers", "dropout off", _without_dropout)
    if watched.called & {"detach", "detach_"}:
        same = replacing(detach=lambda function, x: x, detach_=lambda function, x: x)
        yield Replacement("model", "no detach", same)
    if watched.called & set(LAST):
        yield Replacement("layers", "the last activation left out", _without_last)
    bent = watched.called & {"sigmoid", "tanh", "sigmoid_", "tanh_"}
    if bent:
        straight = replacing(**dict.fromkeys(sorted(bent), lambda function, x: x.relu()))
        yield Replacement("layers", "ReLU in the place of sigmoid and tanh", straight)
    normalised = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if normalised:
        yield Replacement("layers", "batch normalisation by the statistics of training", _statistics_anew)
    yield Replacement("layers", "signals of the same size after each layer", _signals_of_one_size, general=True)
    if watched.called & {"relu", "relu_"}:
        around = replacing(
            relu=lambda f, x, *a, **k: x + x.clamp(min=0), relu_=lambda f, x, *a, **k: x + x.clamp(min=0)
        )
        yield Replacement("layers", "a way around each activation", around, general=True)


def _unusual_settings(model: nn.Module) -> list[tuple[type[nn.Module], str, Any]]:
    """Settings of PyTorch's layers that are not what their constructors take by default."""
    found: dict[tuple[type[nn.Module], str], Any] = {}
    for module in model.modules():
        kind = type(module)
        if not kind.__module__.startswith("torch.nn"):
            continue
        for name, parameter in inspect.signature(kind.__init__).parameters.items():
            known = name in SETTINGS and parameter.default is not inspect.Parameter.empty
            if known and getattr(module, name, parameter.default) != parameter.default:
                found[kind, name] = parameter.default
    return [(kind, name, value) for (kind, name), value in found.items()]


def _module_setting(kind: type[nn.Module], name: str, value: Any) -> Change:
    @contextmanager
    def change(program: Program) -> Iterator[None]:
        modules = [m for m in program.model.modules() if type(m) is kind]
        kept = [getattr(m, name) for m in modules]
        for module in modules:
            setattr(module, name, value)
        try:
            yield
        finally:
            for module, old in zip(modules, kept, strict=True):
                setattr(module, name, old)

    return change


@contextmanager
def _without_dropout(program: Program) -> Iterator[None]:
    gates = [m for m in program.model.modules() if isinstance(m, nn.RNNBase)]
    kept = [m.dropout for m in gates]
    for module in gates:
        module.dropout = 0.0
    try:
        with replacing(**dict.fromkeys(DROPOUT, lambda function, x, *args, **kwargs: x))(program):
            yield
    finally:
        for module, old in zip(gates, kept, strict=True):
            module.dropout = old


class _LastActivation(TorchFunctionMode):
    """Remembers the last activation's input and output."""

    def __init__(self) -> None:
        super().__init__()
        self.given: Tensor | None = None
        self.gave: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note and go on."""
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "").rstrip("_") in LAST and args:
            self.given, self.gave = args[0], result
        return result


@contextmanager
def _without_last(program: Program) -> Iterator[None]:
    """The model's output is what its last activation was given, where the activation is the last thing."""
    used: list[bool] = []
    with _LastActivation() as seen:

        def hook(module: nn.Module, args: Any, output: Any) -> Any:
            given, gave, seen.given, seen.gave = seen.given, seen.gave, None, None
            if given is None or not isinstance(output, Tensor):
                return output
            if output is not gave and not (output._base is gave and output.numel() == given.numel()):
                return output
            used.append(True)
            return given.reshape(output.shape)

        handle = program.model.register_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()
    if not used:
        raise NotInUseError("the model's output is not an activation's")


@contextmanager
def _statistics_anew(program: Program) -> Iterator[Callable[[], None]]:
    """After training each batch normalisation counts training examples anew, under the weights as they are."""
    layers = [m for m in program.model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]

    def restate() -> None:
        if program.train_loader is None:
            raise NotAskedError("the program has no train_loader")
        with preserved_modes(program.model), torch.no_grad():
            program.model.eval()
            for layer in layers:
                if layer.running_mean is not None:
                    layer.reset_running_stats()
                    layer.momentum = None
                    layer.train()
            for batch in islice(program.train_loader, 20):
                program.outputs(program.parts(batch)[0])

    kept = [m.momentum for m in layers]
    try:
        yield restate
    finally:
        for module, momentum in zip(layers, kept, strict=True):
            module.momentum = momentum


@contextmanager
def _signals_of_one_size(program: Program) -> Iterator[None]:
    """Every affine layer but the last gives outputs of mean 0 and variance 1 over the batch."""

    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return (output - output.mean()) / (output.std() + 1e-6)

    affine = [m for m in program.model.modules() if isinstance(m, (nn.Linear, nn.Conv2d, nn.Conv1d))]
    handles = [module.register_forward_hook(hook) for module in affine[:-1]]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


# -------------------------------------------------------------------------------------------------------- the data


def _inputs(watched: Watched) -> Iterator[Replacement]:
    train, val, program = watched.train, watched.val, watched.program
    if train is None:
        return
    if program.plain_loader is not None:

        @contextmanager
        def plain(program: Program) -> Iterator[None]:
            program.train_loader = program.plain_loader
            yield

        yield Replacement("inputs", "training examples without augmentation", plain)
    yield Replacement(
        "inputs", "training examples in a new order each epoch, in batches of the same size", _shuffled(train)
    )
    if train.batch_size > 64 or train.batch_size < 8:
        yield Replacement("step", "batches of 32", _shuffled(train, 32), general=True)
    if train.x.is_floating_point() and train.x.ndim > 1:
        mean, deviation = _statistics(train.x)
        if val is not None and val.x.shape[1:] == train.x.shape[1:]:
            own_mean, own_deviation = _statistics(val.x)
            change = _before_model(
                lambda x: (x - own_mean.to(x)) / own_deviation.to(x) * deviation.to(x) + mean.to(x), training=False
            )
            yield Replacement("inputs", "validation inputs with mean and spread of training", change)
        standard = _before_model(lambda x: (x - mean.to(x)) / deviation.to(x))
        yield Replacement("inputs", "standardised inputs", standard, general=True)


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each feature, or of each channel; those that hardly vary share the overall deviation."""
    over = [0] if x.ndim == 2 else [0, *range(2, x.ndim)] if x.ndim == 4 else list(range(x.ndim - 1))
    x = x.double()
    mean, deviation = x.mean(dim=over, keepdim=True), x.std(dim=over, keepdim=True)
    deviation = torch.where(deviation > 0.05 * deviation.max(), deviation, deviation.max().clamp(min=1e-12))
    return mean.float(), deviation.float()


def _before_model(transform: Callable[[Tensor], Tensor], training: bool = True) -> Change:
    """The model gets transformed inputs; with `training=False` in evaluation only."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        used: list[bool] = []

        def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            used.append(True)
            if not args or (module.training and not training):
                return args
            return (transform(args[0]), *args[1:])

        handle = program.model.register_forward_pre_hook(hook)
        try:
            yield
        finally:
            handle.remove()
        if not used:
            raise NotInUseError("the program calls parts of its model and never the model")

    return change


def _shuffled(train: Examples, batch_size: int = 0) -> Change:
    @contextmanager
    def change(program: Program) -> Iterator[None]:
        program.train_loader = train.loader(int(torch.randint(2**31, ())), batch_size)
        yield

    return change


# ---------------------------------------------------------------------------------------------------- everything


def _everything(watched: Watched) -> Iterator[Replacement]:
    program, train, outputs, spec = watched.program, watched.train, watched.outputs, watched.spec
    if train is None or outputs is None or program.train_loader is None:
        return

    @contextmanager
    def settings(program: Program) -> Iterator[None]:
        program.optimizer, program.scheduler = reference_optimizer(program.model, spec), None
        program.train_epoch, program.step = None, reference_step(spec, _own_loss(program, spec))
        yield

    yield Replacement("optimizer", "Adam at 0.002 with the plain step", settings, general=True)
    try:
        reference_model(train.x, outputs, spec.causal)
    except NotAskedError:
        return

    @contextmanager
    def model(program: Program) -> Iterator[None]:
        program.model = reference_model(train.x, outputs, spec.causal)
        program.forward = None
        program.optimizer, program.scheduler = reference_optimizer(program.model, spec), None
        program.train_epoch = None
        program.step = reference_step(spec, lambda given, wanted: standard_loss(given, wanted, spec))
        yield

    yield Replacement("model", "a plain network, the standard loss and Adam", model, general=True)
