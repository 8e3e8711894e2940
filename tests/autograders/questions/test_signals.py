"""03d: the references against PyTorch and torchvision, on drawn cases and all over the domains."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from torchvision.transforms import v2

from autograders.questions.descriptions import (
    activations,
    averages,
    dropout,
    gradients,
    initialisation,
    mixup,
    nan,
    norms,
)
from lecture_lib.notebook.questions.activations import built_layer
from lecture_lib.notebook.questions.averages import built_layer as layer_of_averages

each_seed = pytest.mark.parametrize("seed", range(3))


def cases_of(description, seed, count=20):
    rng = np.random.default_rng(seed)
    return [
        *description.QUESTION.visible_cases,
        *description.draw(rng),
        *(description.domain(rng) for _ in range(count)),
    ]


def tensors(inputs, *names):
    return [torch.tensor(inputs[name]) for name in names]


def close(got, wanted, name=""):
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9, err_msg=name)


@each_seed
def test_norms_agree_with_pytorch(seed):
    for case in cases_of(norms, seed):
        inputs, reference = case.inputs, norms.outcome(case)
        x, rows, weight, bias = tensors(inputs, "batch", "rows", "weight", "bias")
        for name, training in ((norms.TRAIN, True), (norms.EVAL, False)):
            mean, variance = tensors(inputs, "running_mean", "running_var")
            output = F.batch_norm(x, mean, variance, weight, bias, training, inputs["momentum"], inputs["eps"])
            for field, wanted in (("output", output), ("mean", mean), ("variance", variance)):
                close(reference[f"{name}.{field}"], wanted, name)
        size = [rows.shape[-1]]
        close(reference["layer.output"], F.layer_norm(rows, size, weight, bias, inputs["eps"]))
        close(reference["group.output"], F.group_norm(x, inputs["groups"], weight, bias, inputs["eps"]))
        close(reference["rms.output"], F.rms_norm(rows, size, weight, inputs["eps"]))


@each_seed
def test_fans_and_scales_agree_with_pytorch(seed):
    for case in cases_of(initialisation, seed):
        reference, shape, gain = initialisation.reference(case), case.inputs["shape"], case.inputs["gain"]
        weight = torch.empty(shape)
        assert reference[initialisation.FANS] == list(nn.init._calculate_fan_in_and_fan_out(weight))
        # PyTorch draws; the bound of a uniform distribution with its own deviation is what the formulas give.
        fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))
        close(reference[initialisation.XAVIER] * 3**0.5, gain * (6 / (fan_in + fan_out)) ** 0.5)
        close(
            reference[initialisation.HE] * 3**0.5,
            gain * 3**0.5 / nn.init._calculate_correct_fan(torch.empty(shape), "fan_in") ** 0.5,
        )


def test_the_mean_squares_are_those_of_random_networks():
    torch.manual_seed(0)
    layers = [([300, 200], 0.09), ([250, 300], 0.05), ([400, 250], 0.11)]
    case = initialisation.made("three", [2, 2], 1.0, [[1.0]], *map(list, zip(*layers, strict=True)), True, 2.0)
    x, measured = 2**0.5 * torch.randn(2000, 200), []
    for shape, deviation in layers:
        x = x @ (deviation * torch.randn(shape)).T
        measured.append(x.square().mean().item())
        x = x.relu()
    np.testing.assert_allclose(initialisation.moments(case), measured, rtol=0.15)


@each_seed
def test_activations_are_those_of_the_model(seed):
    for case in cases_of(activations, seed):
        model = nn.Sequential(*[built_layer(layer) for layer in case.inputs["layers"]]).train(case.inputs["training"])
        x, outputs = torch.tensor(case.inputs["x"]), []
        for layer in model:
            x = layer(x)
            if isinstance(layer, nn.ReLU | nn.Tanh):
                outputs.append((layer, x.detach()))
        reference = activations.statistics(case)
        close(reference[activations.MEAN], [output.mean() for _, output in outputs])
        close(reference[activations.STD], [output.std(correction=0) for _, output in outputs])
        dead = [
            (output.abs().amax([0, *range(2, output.ndim)]) == 0).double().mean()
            for layer, output in outputs
            if isinstance(layer, nn.ReLU)
        ]
        close(reference[activations.DEAD], dead)


@each_seed
def test_gradients_agree_with_pytorch_and_numpy(seed):
    for case in cases_of(gradients, seed):
        inputs, reference = case.inputs, gradients.reference(case)
        parameters = [nn.Parameter(torch.zeros(1 if g is None else g.shape).double()) for g in inputs["gradients"]]
        for parameter, gradient in zip(parameters, inputs["gradients"], strict=True):
            parameter.grad = None if gradient is None else torch.tensor(gradient)
        total = nn.utils.clip_grad_norm_(parameters, inputs["limit"])
        close(reference[gradients.NORM], total)
        close(reference[gradients.BEFORE], total)
        for parameter, wanted in zip(parameters, reference[gradients.CLIPPED], strict=True):
            if wanted is not None:
                np.testing.assert_allclose(parameter.grad, wanted, rtol=1e-5, atol=1e-5)
        finite = torch.tensor(inputs["norms"], dtype=torch.float64)
        close(reference[gradients.THRESHOLD], torch.quantile(finite[finite.isfinite()], inputs["percent"] / 100))


@each_seed
def test_values_and_gradients_that_stay_finite_agree_with_differences(seed):
    """At places where nothing is degenerate, PyTorch's own functions say what is right."""
    rng = np.random.default_rng(seed)
    for case in nan.draw(rng)[:2]:
        inputs, reference = case.inputs, nan.reference(case)
        a, b, logits, slopes = tensors(inputs, "a", "b", "logits", "slopes")
        for name, function in (("distance", F.pairwise_distance), ("cosine", F.cosine_similarity)):
            first, second = a.clone().requires_grad_(), b.clone().requires_grad_()
            settings = {"eps": 0.0} if name == "distance" else {}
            value = function(first, second, **settings)
            (value * slopes).sum().backward()
            usual = ((a != b).any(1) & (a != 0).any(1) & (b != 0).any(1)).numpy()
            close(reference[nan.VALUE[name]], value.detach())
            for leaf, wanted in zip((first, second), reference[nan.GRADIENT[name]], strict=True):
                close(wanted[usual], leaf.grad[usual])
        logits.requires_grad_()
        value = torch.special.entr(torch.softmax(logits, 1)).sum(1)
        close(reference[nan.VALUE["entropy"]], value.detach())
        (value * slopes).sum().backward()
        fine = logits.grad.isfinite().all(1).numpy()
        assert fine.any()
        close(reference[nan.GRADIENT["entropy"]][0][fine], logits.grad[fine])


@each_seed
def test_loss_scales_are_those_of_grad_scaler(seed):
    rng = np.random.default_rng(seed)
    for case in [*nan.QUESTION.visible_cases, *nan.draw(rng)]:
        inputs = case.inputs
        scaler = torch.amp.GradScaler(
            "cpu", inputs["scale"], inputs["growth"], inputs["backoff"], int(inputs["interval"])
        )
        parameter = nn.Parameter(torch.zeros(1))
        optimizer, used = torch.optim.SGD([parameter], lr=0.1), []
        for finite in inputs["finite"]:
            used.append(scaler.get_scale())
            scaler.scale((parameter * (1.0 if finite else np.inf)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        close(nan.scales(case)[nan.SCALES], used)


@each_seed
def test_dropout_is_pytorchs_with_the_same_mask(seed):
    for case in cases_of(dropout, seed):
        inputs = case.inputs
        x, uniform, gradient = (torch.tensor(inputs[name]) for name in ("x", "uniform", "gradient"))
        x.requires_grad_()
        module = nn.Dropout(inputs["p"]).train(inputs["training"])
        scale = module(torch.ones(20_000, dtype=torch.float64)).max()
        output = x * (uniform >= inputs["p"]) * scale if inputs["training"] else module(x)
        close(dropout.value(case, dropout.OUTPUT), output.detach())
        output.backward(gradient)
        close(dropout.value(case, dropout.GRADIENT), x.grad)


@each_seed
def test_boxes_and_targets_are_torchvisions(seed):
    for case in cases_of(mixup, seed):
        inputs, rows = case.inputs, len(case.inputs["labels"])
        if not inputs["training"]:
            continue
        # torchvision's partner is the row before; both transforms mix with `roll(1, 0)`.
        order = np.roll(np.arange(rows), 1)
        rolled = mixup.Case(case.kind, {**inputs, "order": order})
        images, labels = tensors(inputs, "images", "labels")
        height, width = inputs["images"].shape[-2:]
        cut = v2.CutMix(num_classes=inputs["classes"])
        half = 0.5 * (1 - inputs["share"]) ** 0.5
        row, column = inputs["centre"]
        top, bottom = max(row - int(half * height), 0), min(row + int(half * height), height)
        left, right = max(column - int(half * width), 0), min(column + int(half * width), width)
        kept = 1 - (bottom - top) * (right - left) / (height * width)
        params = {
            "lam": kept,
            "labels": labels,
            "batch_size": rows,
            "box": (left, top, right, bottom),
            "lam_adjusted": kept,
        }
        reference = mixup.cutmix(rolled)
        close(reference[mixup.CUT], cut.transform(images, params))
        np.testing.assert_allclose(reference[mixup.CUT_TARGETS], cut._mixup_label(labels, lam=kept), atol=1e-6)
        blend = v2.MixUp(num_classes=inputs["classes"])
        reference = mixup.mixup(rolled)
        close(reference[mixup.MIXED], blend.transform(images, {**params, "lam": inputs["share"]}))
        np.testing.assert_allclose(reference[mixup.TARGETS], blend._mixup_label(labels, lam=inputs["share"]), atol=1e-6)


@each_seed
def test_averages_are_those_of_swa_utils(seed):
    for case in cases_of(averages, seed):
        inputs = case.inputs
        live = nn.Module()
        live.weight = nn.Parameter(torch.tensor(inputs["weights"][0]))
        ema = AveragedModel(live, multi_avg_fn=get_ema_multi_avg_fn(inputs["decay"]))
        swa = AveragedModel(live)
        reference = averages.reference(case)
        for weight, wanted in zip(inputs["weights"], reference[averages.EMA], strict=True):
            with torch.no_grad():
                live.weight.copy_(torch.tensor(weight))
            ema.update_parameters(live)
            swa.update_parameters(live)
            close(ema.module.weight.detach(), wanted)
        close(swa.module.weight.detach(), reference[averages.SWA])
        model = nn.Sequential(*[layer_of_averages(layer) for layer in inputs["layers"]])
        update_bn([torch.tensor(batch) for batch in inputs["batches"]], model)
        statistics = [module for module in model if isinstance(module, nn.BatchNorm1d)]
        for module, mean, variance in zip(
            statistics, reference[averages.MEANS], reference[averages.VARIANCES], strict=True
        ):
            close(module.running_mean, mean)
            close(module.running_var, variance)
