"""The tape as a graph: what is recorded, how long it lives, and what is refused."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ROOT
from helpers.code_lines import code_lines

from lecture_lib import tape
from lecture_lib.tape import Tensor, no_grad, record


def leaf(values: Any, **options: Any) -> Tensor:
    return Tensor(values, requires_grad=True, **options)


# The lecture's worked numbers.


def test_graph_by_hand() -> None:
    a, x, b = leaf(2.0), leaf(3.0), leaf(1.0)
    loss = a * x + b
    loss.backward()
    assert (loss.item(), a.grad, x.grad, b.grad) == (7, 3, 2, 1)


def test_dynamic_tape() -> None:
    x, w, b = leaf(2.0), leaf(3.0), leaf(1.0)
    product = w * x
    total = product + b
    loss = total**2
    loss.backward()
    assert (product.item(), total.item(), loss.item()) == (6, 7, 49)
    assert (w.grad, x.grad, b.grad) == (28, 42, 14)


def test_one_step() -> None:
    w, b = leaf(2.0), leaf(1.0)
    optimizer = tape.SGD([w, b], learning_rate=0.01)
    loss = (w * 3.0 + b - 10.0) ** 2
    loss.backward()
    assert (loss.item(), w.grad, b.grad) == (9, -18, -6)
    optimizer.step()
    assert w.item() == pytest.approx(2.18, abs=1e-15)
    assert b.item() == pytest.approx(1.06, abs=1e-15)
    assert ((w * 3.0 + b - 10.0) ** 2).item() == pytest.approx(5.76, abs=1e-14)


def test_two_layers() -> None:
    w1, w2 = leaf(0.5), leaf(0.5)
    loss = (tape.relu(w2 * tape.relu(w1 * 2.0)) - 1.0) ** 2
    loss.backward()
    assert (loss.item(), w1.grad, w2.grad) == (0.25, -1, -1)


def test_accumulation() -> None:
    w = leaf(0.0)
    gradients = []
    for x, y in [(2.0, 1.0), (3.0, 2.0)]:
        ((w * x - y) ** 2 / 2).backward()
        assert w.grad is not None
        gradients.append(float(w.grad))
    assert gradients == [-2, -8]
    tape.SGD([w], learning_rate=0.1).step()
    assert w.item() == pytest.approx(0.8)


def test_initial_loss_of_equal_logits_is_ln_10() -> None:
    assert tape.cross_entropy(Tensor(np.zeros((3, 10))), [0, 4, 9]).item() == pytest.approx(2.3026, abs=5e-5)


def test_double_softmax_has_a_floor() -> None:
    for classes, floor in [(2, 0.3133), (3, 0.5514), (10, 1.4612)]:
        probabilities = np.eye(classes)[:1]
        assert tape.cross_entropy(Tensor(probabilities), [0]).item() == pytest.approx(floor, abs=5e-5)


# How long the graph lives.


def test_a_second_backward_without_retain_graph_is_an_error_that_names_the_operation() -> None:
    x = leaf(2.0)
    loss = x**3
    loss.backward()
    with pytest.raises(RuntimeError, match=r"operation 'power' was freed .*retain_graph=True"):
        loss.backward()
    assert x.grad == 12  # micrograd says 24


def test_with_retain_graph_gradients_accumulate_as_in_pytorch() -> None:
    x = leaf(2.0)
    y = torch.tensor(2.0, requires_grad=True)
    for _ in range(2):
        ours, theirs = x**3, y**3
        ours.backward(retain_graph=True)
        theirs.backward(retain_graph=True)
        ours.backward()
        theirs.backward()
    assert x.grad == y.grad.item() == 48  # type: ignore[union-attr]


def test_two_losses_that_share_a_part_need_retain_graph() -> None:
    x = leaf(2.0)
    shared = x * x
    first, second = shared + 1, shared * 3
    first.backward()
    with pytest.raises(RuntimeError, match="'multiply' was freed"):
        second.backward()
    assert x.grad == 4  # the refused one changed nothing


def test_zero_grad_forgets_and_gradients_are_copies() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x + y).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    x.grad[0] = 9
    np.testing.assert_array_equal(y.grad, [1, 1])
    x.zero_grad()
    assert x.grad is None


def test_no_grad_and_detach_cut_the_graph() -> None:
    x = leaf(2.0)
    with no_grad():
        constant = x * 3
    assert not constant.requires_grad
    loss = x * constant + (x * x).detach() * x
    loss.backward()
    assert x.grad == 6 + 4
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        constant.backward()


def test_no_grad_ends_with_its_block_also_after_an_error_and_holds_for_its_thread_only() -> None:
    x = leaf(1.0)
    with pytest.raises(ZeroDivisionError), no_grad():
        1 / 0  # noqa: B018
    assert (x * 2).requires_grad
    recorded = []
    with no_grad():
        with no_grad():
            pass
        assert not (x * 2).requires_grad
        thread = threading.Thread(target=lambda: recorded.append((x * 2).requires_grad))
        thread.start()
        thread.join()
    assert recorded == [True]


def test_constants_get_no_gradient_and_only_leaves_keep_one() -> None:
    x, constant = leaf([1.0]), Tensor([2.0])
    middle = x * constant
    middle.sum().backward()
    assert middle.grad is None
    assert constant.grad is None
    assert middle.is_leaf is False
    assert constant.is_leaf is True


def test_backward_of_many_numbers_wants_a_gradient() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"shape \(2,\).*x\.sum\(\)\.backward\(\)"):
        (x * 2).backward()
    (x * 2).backward([1.0, 10.0])
    np.testing.assert_array_equal(x.grad, [2, 20])
    with pytest.raises(ValueError, match=r"shape \(3,\) and dtype float64, the tensor \(2,\)|shape \(3,\)"):
        (x * 2).backward([1.0, 10.0, 1.0])
    with pytest.raises(ValueError, match="float32"):
        (x * 2).backward(np.ones(2, np.float32))


# Long and wide graphs.


def test_a_chain_of_100000_operations() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(100_000):  # micrograd's recursion ends at about a thousand
        y = y + 1e-5
    y.backward()
    assert y.item() == pytest.approx(2)
    assert x.grad == 1


def test_a_chain_that_is_dropped_without_backward() -> None:
    """Freeing a long chain must not recurse either: in a process of its own, where a crash of the interpreter shows."""
    script = (
        "from lecture_lib.tape import Tensor\n"
        "y = Tensor(1.0, requires_grad=True)\n"
        "for _ in range(100_000): y = y.tanh() if _ % 2 else y.sum()\n"
        "del y\nprint('done')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_one_node_used_10000_times() -> None:
    x = leaf(3.0)
    square = x * x
    total = square
    for _ in range(9_999):
        total = total + square
    total.backward()
    assert x.grad == 10_000 * 6


def test_the_order_is_that_of_recording_and_the_same_in_every_run() -> None:
    """micrograd keeps parents in a set: its order, and so its rounding, changes from run to run."""
    names = []

    def named(name: str, x: Tensor, y: Tensor) -> Tensor:
        def rule(gradient: np.ndarray) -> np.ndarray:
            names.append(name)
            return gradient

        return record(name, x._array + y._array, (x, rule), (y, rule))

    x = leaf(1.0)
    a = named("a", x, x)
    b = named("b", x, a)
    c = named("c", a, x)
    named("d", b, c).backward()
    assert names == ["d", "d", "c", "c", "b", "b", "a", "a"]


# Values that change.


def test_inputs_are_copied() -> None:
    values = np.array([1.0, 2.0])
    x = leaf(values)
    loss = (x * x).sum()
    values[0] = 100  # HIPS autograd: a silently wrong gradient
    loss.backward()
    np.testing.assert_array_equal(x.grad, [2, 4])


def test_keys_and_labels_are_copied() -> None:
    x, key, labels = leaf([[1.0, 2.0], [3.0, 4.0]]), [0, 0], np.array([0, 1])
    loss = x[key].sum() + tape.cross_entropy(x, labels)
    expected = torch.tensor(x.data.tolist(), dtype=torch.float64, requires_grad=True)
    (expected[[0, 0]].sum() + torch.nn.functional.cross_entropy(expected, torch.tensor([0, 1]))).backward()
    key[0] = 1
    labels[0] = 1
    loss.backward()
    np.testing.assert_allclose(x.grad, expected.grad.numpy(), rtol=1e-12)  # type: ignore[union-attr, arg-type]


WRITES: dict[str, Callable[[np.ndarray], Any]] = {
    "item": lambda values: values.__setitem__(0, 5.0),
    "slice": lambda values: values[:1].__setitem__(0, 5.0),
    "augmented": lambda values: values.__iadd__(1.0),
    "out": lambda values: np.exp(values, out=values),
    "ufunc at": lambda values: np.add.at(values, [0], 1.0),
    "copyto": lambda values: np.copyto(values, 0.0),
    "fill": lambda values: values.fill(0.0),
    "sort": lambda values: values.sort(),
    "put": lambda values: values.put(0, 1.0),
    "putmask": lambda values: np.putmask(values, [True, True], 0.0),
    "reshaped": lambda values: values.reshape(2, 1).__setitem__(0, 5.0),
    "flat": lambda values: values.flat.__setitem__(0, 5.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_into_recorded_values_is_refused_and_nothing_is_lost(name: str) -> None:
    x = leaf([1.0, 2.0])
    loss = (x.exp() * x).sum()
    with pytest.raises(ValueError, match="read-only" if name == "flat" else "read-only: operation 'multiply' recorded"):
        WRITES[name](x.data)
    loss.backward()
    np.testing.assert_allclose(x.grad, np.exp([1, 2]) * np.array([2, 3]))


CHANGES: dict[str, Callable[[Tensor], Any]] = {
    "setitem": lambda x: x.__setitem__(0, 5.0),
    "-=": lambda x: x.__isub__(0.1),
    "data": lambda x: setattr(x, "data", [3.0, 4.0]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_leaf_changed_between_forward_and_backward_is_an_error(name: str) -> None:
    x = leaf([1.0, 2.0])
    loss = x.exp().sum()
    with no_grad():
        CHANGES[name](x)
    with pytest.raises(RuntimeError, match=r"operation 'exp' used a value of shape \(2,\) that was changed"):
        loss.backward()
    assert x.grad is None
    x.exp().sum().backward()
    np.testing.assert_allclose(x.grad, np.exp(x.data))


def test_a_parameter_is_changed_under_no_grad_only() -> None:
    x = same = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="with no_grad"):
        x -= 1.0
    with pytest.raises(RuntimeError, match="with no_grad"):
        x[0] = 1.0
    with no_grad():
        x -= 1.0
        x *= 4.0
        x /= 2.0
        x += 0.5
        x[0] = 7.0
    assert x is same
    np.testing.assert_array_equal(x.data, [7.0, 2.5])
    result = x * 2
    with pytest.raises(RuntimeError, match="result of operation 'multiply'"), no_grad():
        result[0] = 1.0
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        x.data = np.zeros(3)


def test_results_and_constants_may_be_rebound_while_recording() -> None:
    x = leaf(2.0)
    total = x * 3
    total += x
    total *= 2.0
    total.backward()
    assert x.grad == 8
    start = total = Tensor(1.0)
    total += x
    total.backward()
    assert (x.grad, start.item()) == (9, 1)


def test_data_behaves_like_an_array() -> None:
    x = leaf([[3.0, 1.0], [2.0, 4.0]])
    assert type(x.data + 1) is np.ndarray
    assert x.data.max() == 4
    copied = x.data.copy()
    copied[0, 0] = 9
    copied += 1
    np.testing.assert_array_equal(np.sort(x.data, axis=None), [1, 2, 3, 4])
    np.testing.assert_array_equal(x.data, [[3, 1], [2, 4]])


# Rules of one's own.


def test_a_rule_of_ones_own_and_its_mistakes() -> None:
    def cube(x: Tensor, rule: Callable[[np.ndarray], Any]) -> Tensor:
        return record("cube", x._array**3, (x, rule))

    x = leaf([1.0, 2.0])
    cube(x, lambda gradient: 3 * x._array**2 * gradient).sum().backward()
    np.testing.assert_array_equal(x.grad, [3, 12])
    for wrong in (lambda gradient: gradient[:1], lambda gradient: np.float32(1) * np.float32(gradient), lambda _: 1.0):
        with pytest.raises(ValueError, match="backward rule of operation 'cube'"):
            cube(x, wrong).sum().backward()
    with pytest.raises(ValueError, match="read-only"):
        (cube(x, lambda gradient: gradient.__imul__(2)) * 3.0).sum().backward()


def test_a_product_of_vectors_is_one_operation() -> None:
    x, matrix = leaf([1.0, 2.0]), leaf([[1.0, 0.0], [3.0, 1.0]])
    assert [row.operation for row in tape.trace(x @ matrix @ x) if row.operation] == ["matmul", "matmul"]


def test_what_is_not_a_tensor_becomes_a_constant_of_the_same_dtype() -> None:
    weight, bias = leaf([[1.0], [2.0]], dtype=np.float32), leaf([0.5], dtype=np.float32)
    result = tape.linear(np.array([[3, 4]]), weight, bias)  # type: ignore[arg-type]
    assert (result.item(), result.dtype) == (11.5, np.float32)
    with pytest.raises(TypeError, match=r"relu: got ndarray.*must be a Tensor"):
        tape.relu(np.ones(2))  # type: ignore[arg-type]


# What is refused: the value, the limit and the remedy.


def shapes_do_not_fit(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Any]:
    return lambda: function(*(leaf(np.ones(shape)) for shape in shapes))


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "ragged": (lambda: Tensor([[1.0, 2.0], [3.0]]), ValueError, r"ragged.*\(2,\).*pad or cut"),
    "text": (lambda: Tensor("many"), TypeError, "dtype <U4.*float64"),
    "none": (lambda: Tensor(None), TypeError, "dtype object"),
    "complex": (lambda: Tensor([1j]), TypeError, "complex128"),
    "half": (lambda: Tensor(np.ones(2, np.float16)), TypeError, "float16.*float32"),
    "integers": (lambda: leaf([1, 2]), TypeError, r"int64 cannot require gradients.*Write 2\.0"),
    "booleans": (lambda: leaf([True]), TypeError, "bool cannot require gradients"),
    "mixed dtypes": (
        lambda: leaf([1.0]) + leaf([1.0], dtype=np.float32),
        TypeError,
        "add: an input has dtype float32, the result float64",
    ),
    "integer operand": (lambda: leaf([1.0]) * Tensor([2]), TypeError, "multiply: an input has dtype int64"),
    "float32 array": (lambda: leaf([1.0]) + np.ones(1, np.float32), TypeError, "float32"),
    "operand": (lambda: leaf([1.0]) + "a", TypeError, "add: a Tensor and a str"),
    "torch operand": (lambda: leaf([1.0]) + torch.ones(1), TypeError, "a Tensor and a Tensor|torch"),
    "add": (shapes_do_not_fit(lambda x, y: x + y, (2, 3), (2,)), ValueError, r"add: shapes \(2, 3\) and \(2,\)"),
    "matmul": (
        shapes_do_not_fit(lambda x, y: x @ y, (2, 3), (2, 3)),
        ValueError,
        r"matmul: shapes \(2, 3\) and \(2, 3\) do not fit",
    ),
    "matmul of a number": (shapes_do_not_fit(lambda x, y: x @ y, (), (2,)), ValueError, r"matmul: shapes \(\)"),
    "linear": (shapes_do_not_fit(tape.linear, (4, 3), (2, 5), (5,)), ValueError, r"linear: shapes \(4, 3\), \(2, 5\)"),
    "linear bias": (shapes_do_not_fit(tape.linear, (4, 3), (3, 5), (1,)), ValueError, r"\(1,\); it wants"),
    "sum": (shapes_do_not_fit(lambda x: x.sum(axis=2), (2, 3)), ValueError, r"sum: shape \(2, 3\), axis=2"),
    "twice": (shapes_do_not_fit(lambda x: x.mean(axis=(0, 0)), (2, 3)), ValueError, "mean: .*duplicate"),
    "empty max": (
        shapes_do_not_fit(lambda x: x.max(axis=0), (0, 2)),
        ValueError,
        r"^max: shape \(0, 2\), axis=0: there are no entries to reduce\. "
        r"Every reduced axis needs a length of at least 1(?!.*at most once)",
    ),
    "empty log_softmax": (
        shapes_do_not_fit(lambda x: x.log_softmax(), (2, 0)),
        ValueError,
        r"^log_softmax: shape \(2, 0\), axis=-1: there are no entries to reduce",
    ),
    "axis of an empty max": (shapes_do_not_fit(lambda x: x.max(axis=2), (0, 2)), ValueError, "2 axes at most once"),
    "reshape": (
        shapes_do_not_fit(lambda x: x.reshape(4, -1), (2, 3)),
        ValueError,
        r"reshape: 6 entries of shape \(2, 3\) do not fit \(4, -1\)",
    ),
    "transpose": (shapes_do_not_fit(lambda x: x.transpose(0, 0), (2, 3)), ValueError, "transpose: axes .*repeated"),
    "transpose out": (shapes_do_not_fit(lambda x: x.transpose(5, 0), (2, 3)), ValueError, "transpose: axes"),
    "index": (shapes_do_not_fit(lambda x: x[5], (2, 3)), IndexError, r"index: \(5,\) of shape \(2, 3\)"),
    "float index": (shapes_do_not_fit(lambda x: x[1.0], (2, 3)), IndexError, "integers"),
    "concatenate": (
        shapes_do_not_fit(lambda x, y: tape.concatenate([x, y]), (2, 3), (2, 2)),
        ValueError,
        r"concatenate: shapes \[\(2, 3\), \(2, 2\)\] along axis 0",
    ),
    "concatenate nothing": (
        lambda: tape.concatenate([]),
        ValueError,
        "^concatenate: got no tensors. Pass at least one(?!.*must be equal)",
    ),
    "as array": (lambda: np.asarray(leaf([1.0])), TypeError, r"lose its history.*x\.data"),
    "length": (lambda: len(leaf(1.0)), TypeError, "unsized"),
    "item": (lambda: leaf([1.0, 2.0]).item(), ValueError, "size 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    attempt, error, text = REFUSED[name]
    with pytest.raises(error, match=re.compile(text, re.DOTALL)):
        attempt()


LABELS: dict[str, tuple[Any, type[Exception], str]] = {
    "too large": ([0, 3], ValueError, r"labels\[1\] is 3; with 3 classes labels are 0 to 2"),
    "negative": ([-1, 0], ValueError, r"labels\[0\] is -1"),
    "floats": ([0.0, 1.0], TypeError, r"dtype float64.*labels\.astype\(int\)"),
    "one-hot": (np.eye(3)[:2], TypeError, r"argmax\(axis=1\)"),
    "too few": ([0], ValueError, r"logits of shape \(2, 3\) and labels of shape \(1,\)"),
    "column": ([[0], [1]], ValueError, r"labels of shape \(2, 1\)"),
    "booleans": ([True, False], TypeError, "dtype bool"),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_that_cannot_be_meant_are_refused(name: str) -> None:
    labels, error, text = LABELS[name]
    with pytest.raises(error, match=text):
        tape.cross_entropy(leaf(np.zeros((2, 3))), labels)


def test_a_tensor_reads_like_what_it_is() -> None:
    x = leaf([[1.0, 2.0]])
    assert repr(x) == "Tensor([[1., 2.]], dtype=float64, requires_grad=True)"
    assert repr(x * 2).endswith("requires_grad=True, operation='multiply')")
    assert float(leaf(2.5)) == 2.5
    assert [row.shape for row in x] == [(2,)]
    with pytest.raises(TypeError, match="unsized"):
        iter(list(leaf(1.0)))
    assert (np.array([1.0, 2.0]) * x).shape == (1, 2)
    np.testing.assert_array_equal(np.asarray(Tensor([1, 2])), [1, 2])


def test_truth_is_that_of_the_number_and_of_nothing_longer() -> None:
    assert not leaf(0.0)
    assert leaf([0.5])
    with pytest.raises(ValueError, match="ambiguous"):
        bool(leaf([1.0, 2.0]))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_a_new_leaf(how: Callable[[Tensor], Tensor]) -> None:
    x = leaf([1.0, 2.0], dtype=np.float32)
    for original in (x, x * 2.0):
        new = how(original)
        (new * new).sum().backward()
        np.testing.assert_array_equal(new.grad, 2 * original.data)
        assert new.dtype == np.float32
        assert original.grad is None


def test_a_pickle_of_another_process_can_be_used() -> None:
    """Its number here, far on in the count, says nothing there."""
    for _ in range(10_000):
        x = leaf([1.0])
    script = "import pickle, sys; x = pickle.load(sys.stdin.buffer)\n(x * 3.0).sum().backward(); print(x.grad.item())"
    done = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(x), capture_output=True, cwd=ROOT, check=True
    )
    assert done.stdout == b"3.0\n"


# The house.


def test_the_tape_stands_alone() -> None:
    script = "import sys, lecture_lib.tape; print({'torch', 'matplotlib', 'sklearn', 'IPython'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "set()\n"


def test_the_core_stays_small_enough_to_read_in_one_sitting() -> None:
    """Tensor, graph and operations: 350 lines of code, docstrings and comments not counted."""
    folder = ROOT / "lecture_lib" / "tape"
    files = [folder / "tensor.py", folder / "graph.py", *(folder / "operations").glob("*.py")]
    assert sum(map(code_lines, files)) <= 350


def test_second_derivatives_are_refused_in_a_sentence():
    w = Tensor(2.0, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"no second derivatives.*torch\.autograd\.grad"):
        (w**3).backward(create_graph=True)
    assert w.grad is None
    (w**3).backward(create_graph=False)
    assert w.grad == 12.0
