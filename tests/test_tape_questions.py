"""03a-graph, 03a-backward and 03a-register: references against PyTorch, visible cases against the references."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from autograders.judges import backward, graph, register
from autograders.judges.common import HiddenCase
from autograders.questions import QUESTIONS
from lecture_lib.notebook import check_result
from lecture_lib.notebook.compare import difference
from lecture_lib.notebook.observe import is_stub
from lecture_lib.notebook.questions import find_question


def drawn(question: str) -> list[HiddenCase]:
    return [case for seed in range(20) for case in QUESTIONS[question].draw(b"test", str(seed), seed)]


def leaves(case: HiddenCase, *names: str) -> list[torch.Tensor]:
    return [torch.tensor(case.inputs[name], dtype=torch.float64, requires_grad=True) for name in names]


def numbers(tensors) -> list[float]:
    return [tensor.item() for tensor in tensors]


def test_the_graph_reference_agrees_with_pytorch() -> None:
    for case in drawn("03a-graph"):
        w, x, b = leaves(case, "w", "x", "b")
        u = w * x
        v = u + b
        assert graph.square_values(case) == pytest.approx(numbers((u, v, v**2)), abs=1e-9)
        assert graph.square_gradients(case) == pytest.approx(numbers(torch.autograd.grad(v**2, (w, x, b))), abs=1e-9)
        w1, w2, x, y = leaves(case, "w1", "w2", "x", "y")
        h = torch.relu(w1 * x)
        p = torch.relu(w2 * h)
        loss = (p - y) ** 2
        assert graph.relu_values(case) == pytest.approx(numbers((h, p, loss)), abs=1e-9)
        assert graph.relu_gradients(case) == pytest.approx(numbers(torch.autograd.grad(loss, (w1, w2))), abs=1e-9)


def test_the_backward_reference_agrees_with_pytorch() -> None:
    for case in drawn("03a-backward"):
        (z,) = leaves(case, "z")
        torch.relu(z).backward(torch.tensor(case.inputs["relu_gradient"]))
        np.testing.assert_array_equal(backward.relu_gradient(case)["x"], z.grad.numpy())
        names = ("x", "weight", "bias", "weight2", "bias2")
        x, weight, bias, weight2, bias2 = tensors = leaves(case, *names)
        hidden = x @ weight + bias
        one = torch.autograd.grad(hidden, (x, weight, bias), torch.tensor(case.inputs["linear_gradient"]))
        found = backward.linear_gradients(*(case.inputs[name] for name in ("x", "weight", "linear_gradient")))
        for name, gradient in zip(("x", "weight", "bias"), one, strict=True):
            np.testing.assert_allclose(found[name], gradient.numpy(), rtol=0, atol=1e-12)
        (torch.relu(x @ weight + bias) @ weight2 + bias2).square().sum().backward()
        for name, tensor in zip(names[1:], tensors[1:], strict=True):
            np.testing.assert_allclose(backward.network_gradients(case)[name], tensor.grad.numpy(), atol=1e-10)


def test_the_backward_cases_have_the_kink_and_unequal_lengths() -> None:
    for case in drawn("03a-backward"):
        z, gradient = case.inputs["z"], case.inputs["relu_gradient"]
        assert (z == 0).sum() == 2
        gates = set(zip((z > 0).flat, (gradient > 0).flat, strict=True))
        assert len(gates) == 4, "an open or a closed gate never meets a gradient of one sign"
        assert len({*case.inputs["x"].shape, case.inputs["weight"].shape[1]}) == 3
        hidden = case.inputs["x"] @ case.inputs["weight"] + case.inputs["bias"]
        assert (hidden == 0).any() or case.kind == "one example"


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
        found = register.expected(case)
        with torch.no_grad():
            output = module_of(inputs)(x - mean) / inputs["temperature"]
        np.testing.assert_allclose(found["state_dict"]["restored"], output.numpy(), atol=1e-4)
        norm = nn.BatchNorm1d(len(mean), momentum=0.1)
        norm.running_mean.copy_(mean)
        norm(x)
        np.testing.assert_allclose(found["buffers"]["buffers"][0], norm.running_mean.numpy(), atol=1e-6)
        assert found["parameters"]["parameter_tensors"] == len(list(module_of(inputs).parameters())) + 1


FIELDS = {
    "03a-graph": lambda case: {
        "square": {"values": graph.square_values(case), "gradients": graph.square_gradients(case)},
        "relu": {"values": graph.relu_values(case), "gradients": graph.relu_gradients(case)},
    },
    "03a-backward": lambda case: {
        "relu": backward.relu_gradient(case),
        "linear": backward._linear(case),
        "network": backward.network_gradients(case),
    },
    "03a-register": lambda case: {
        "registered": register.expected(case)["parameters"] | register.expected(case)["buffers"],
        "state": register.expected(case)["state_dict"],
        "moves": register.expected(case)["moves"],
    },
}


@pytest.mark.parametrize("question", FIELDS)
def test_the_visible_cases_expect_what_the_judge_computes(question: str) -> None:
    for public in find_question(question).cases:
        found = FIELDS[question](HiddenCase("public", public.inputs))
        assert set(found) == set(public.expected)
        for part, fields in found.items():
            assert difference(public.expected[part], fields, 1e-5) is None, f"{public.name}: {part}"


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
