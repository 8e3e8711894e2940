"""03a-backward and 03a-register: references against PyTorch, visible cases against the references."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from autograders.questions.cases import Case
from autograders.questions.descriptions import backward, register
from autograders.questions.question import QUESTIONS
from lecture_lib.notebook import check_result
from lecture_lib.notebook.observe import is_stub
from lecture_lib.notebook.registry import find_question


def drawn(question: str) -> list[Case]:
    return [case for seed in range(20) for case in QUESTIONS[question].draw(b"test", str(seed), seed)]


def leaves(case: Case, *names: str) -> list[torch.Tensor]:
    return [torch.tensor(case.inputs[name], dtype=torch.float64, requires_grad=True) for name in names]


def test_the_backward_reference_agrees_with_pytorch() -> None:
    for case in drawn("03a-backward"):
        right = backward.reference(case)
        (z,) = leaves(case, "z")
        torch.relu(z).backward(torch.tensor(case.inputs["relu_gradient"]))
        np.testing.assert_array_equal(right["relu.x"], z.grad.numpy())
        names = ("x", "weight", "bias", "weight2", "bias2")
        x, weight, bias, weight2, bias2 = tensors = leaves(case, *names)
        hidden = x @ weight + bias
        linear = torch.autograd.grad(hidden, (x, weight, bias), torch.tensor(case.inputs["linear_gradient"]))
        for name, gradient in zip(("x", "weight", "bias"), linear, strict=True):
            np.testing.assert_allclose(right[f"linear.{name}"], gradient.numpy(), rtol=0, atol=1e-12)
        (torch.relu(x @ weight + bias) @ weight2 + bias2).square().sum().backward()
        for name, tensor in zip(names[1:], tensors[1:], strict=True):
            np.testing.assert_allclose(right[f"network.{name}"], tensor.grad.numpy(), atol=1e-10)


def module_of(inputs) -> nn.Module:
    layers: list[nn.Module] = []
    for weight, bias in zip(inputs["weights"], inputs["biases"], strict=True):
        layers += [nn.ReLU(), nn.Linear(*weight.T.shape)]
        layers[-1].load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return nn.Sequential(*layers[1:])


def test_the_register_reference_agrees_with_pytorch() -> None:
    for case in drawn("03a-register"):
        inputs = case.inputs
        x, mean = torch.tensor(inputs["x"]), torch.tensor(inputs["mean"])
        found = register.reference(case)
        norm = nn.BatchNorm1d(len(mean), momentum=0.1)
        norm.running_mean.copy_(mean)
        if len(x) > 1:  # PyTorch's BatchNorm refuses a batch of one
            norm(x)
            centre = norm.running_mean
            assert any(np.allclose(buffer, centre, atol=1e-6) for buffer in found["registered.buffers"])
            with torch.no_grad():
                output = module_of(inputs)(x - centre + sum(map(torch.tensor, inputs["shifts"])))
            np.testing.assert_allclose(found["state.restored"], output / inputs["temperature"], rtol=1e-4, atol=1e-4)
        assert found["registered.parameter_tensors"] == len(list(module_of(inputs).parameters())) + 1


def test_the_lectures_numbers_are_the_first_visible_case() -> None:
    worked = find_question("03a-graph").cases[0].expected
    assert worked["square"] == {"values": [6.0, 7.0, 49.0], "gradients": [28.0, 42.0, 14.0]}
    assert worked["relu"] == {"values": [1.0, 0.5, 0.25], "gradients": [-1.0, -1.0]}


def test_a_rule_that_writes_into_the_gradient_is_told_so() -> None:
    def relu_rule(x, gradient):
        gradient[x <= 0] = 0
        return gradient

    def linear_rule(x, weight, bias, gradient):
        return gradient @ weight.T, x.T @ gradient, gradient.sum(axis=0)

    lines = check_result("03a-backward", relu_rule, linear_rule).lines
    told = {line.part for line in lines if "read-only (line" in line.what and "gradient[x <= 0] = 0" in line.what}
    assert told == {"relu", "network"}


def test_the_tapes_own_rules_are_switched_off_while_checked() -> None:
    from lecture_lib import tape

    def relu_rule(x, gradient):
        leaf = tape.Tensor(x, requires_grad=True)
        tape.relu(leaf).backward(gradient)
        return leaf.grad

    text = repr(check_result("03a-backward", relu_rule, lambda *arrays: arrays[:3]))
    assert "lecture_lib.tape.relu does what this question asks for" in text


class Open(nn.Module):
    def __init__(self, layers): ...

    def forward(self, x):
        return x


class Written(nn.Module):
    size = max

    def __init__(self, layers):
        super().__init__()


def test_a_class_with_an_empty_method_is_not_answered_yet() -> None:
    assert is_stub(Open)
    assert not is_stub(Written)
    assert check_result("03a-register", Open).state == "not answered yet"


def test_an_exception_in_a_method_is_told_with_its_line() -> None:
    class Scaled(nn.Module):
        def __init__(self, layers, mean, temperature):
            self.layers = nn.ModuleList(layers)

    text = repr(check_result("03a-register", Scaled))
    assert "cannot assign module before Module.__init__() call" in text
    assert "self.layers = nn.ModuleList(layers)" in text


def test_what_is_no_module_is_told_so() -> None:
    assert "is a list, not an nn.Module" in repr(check_result("03a-register", lambda layers, mean, temperature: layers))
