"""`trace` and `draw`: the worked numbers, the walk in parts, PyTorch's gradients, and pictures that can be read."""

from __future__ import annotations

import base64
import re
import tracemalloc
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from lecture_lib.tape import Tensor, concatenate, cross_entropy, no_grad, relu, tanh
from lecture_lib.tape._layout import arrange
from lecture_lib.tape._rows import SHOWN_ROWS, written
from lecture_lib.tape.draw import LARGEST, draw
from lecture_lib.tape.graph import newest_first
from lecture_lib.tape.trace import trace

SVG = "{http://www.w3.org/2000/svg}"
Rectangle = tuple[float, float, float, float]


def leaf(values: object) -> Tensor:
    return Tensor(values, requires_grad=True)


def square_of_a_line() -> tuple[Tensor, dict[str, Tensor]]:
    """The lecture's L = (w·x + b)²."""
    w, x, b = leaf(3.0), leaf(2.0), leaf(1.0)
    product = w * x
    total = product + b
    loss = total**2
    return loss, {"w": w, "x": x, "b": b, "product": product, "total": total, "L": loss}


def two_layers() -> tuple[Tensor, dict[str, Tensor]]:
    """The lecture's L = (relu(w2·relu(w1·x)) − y)²."""
    w1, w2, x, y = leaf(0.5), leaf(0.5), Tensor(2.0), Tensor(1.0)
    loss = (relu(w2 * relu(w1 * x)) - y) ** 2
    return loss, {"w1": w1, "w2": w2, "x": x, "y": y, "L": loss}


def polynomial() -> tuple[Tensor, dict[str, Tensor]]:
    """A tree but for x, which is used at every depth."""
    x = leaf(0.7)
    result, power = leaf(0.0), x * 1.0
    for coefficient in range(1, 5):
        result = result + leaf(float(coefficient)) * power
        power = power * x
    return result, {"x": x}


def dense() -> tuple[Tensor, dict[str, Tensor]]:
    """Three inputs, each used by three units, and a shortcut from the first to the end."""
    inputs = [leaf(0.4), leaf(1.0), leaf(-0.1)]
    units = []
    for _ in range(3):
        units.append(tanh(inputs[0] * 0.5 + inputs[1] * 0.3 + inputs[2] * 0.3))
    return units[0] * units[1] + units[2] * inputs[0], {}


def small_arrays() -> tuple[Tensor, dict[str, Tensor]]:
    draws = np.random.default_rng(0)
    x, weight, bias = Tensor(draws.normal(size=(3, 2))), leaf(draws.normal(size=(2, 3))), leaf(np.zeros(3))
    loss = cross_entropy(tanh(x @ weight + bias), [0, 1, 2])
    return loss, {"x": x, "weight": weight, "bias": bias}


def residual() -> tuple[Tensor, dict[str, Tensor]]:
    value = leaf(0.3)
    for _ in range(8):
        value = tanh(value * 1.5) + value
    return value, {}


def many_inputs() -> tuple[Tensor, dict[str, Tensor]]:
    return concatenate([leaf([float(number)]) for number in range(20)]).sum(), {}


GRAPHS = [square_of_a_line, two_layers, polynomial, dense, small_arrays, residual, many_inputs]
graphs = pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
Graph = Callable[[], tuple[Tensor, dict[str, Tensor]]]


# The table


def test_worked_example_of_the_dynamic_tape() -> None:
    loss, names = square_of_a_line()
    rows = trace(loss, **names)
    assert {name: float(rows[name].value) for name in names} == {
        "w": 3,
        "x": 2,
        "b": 1,
        "product": 6,
        "total": 7,
        "L": 49,
    }
    gradients = {name: float(rows[name].gradient) for name in names}
    assert gradients == {"w": 28, "x": 42, "b": 14, "product": 14, "total": 14, "L": 1}
    assert [row.name for row in rows] == ["w", "x", "b", "product", "total", "c1", "L"]
    assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert len(rows) == 7
    assert (rows["product"].operation, rows["product"].inputs) == ("multiply", ("w", "x"))
    assert [float(share) for share in rows["product"].shares] == [28, 42]


def test_worked_example_of_two_layers() -> None:
    loss, names = two_layers()
    rows = trace(loss, **names)
    assert float(rows["L"].value) == 0.25
    assert (float(rows["w1"].gradient), float(rows["w2"].gradient)) == (-1, -1)
    assert [row.operation for row in rows if row.operation] == [
        "multiply", "relu", "multiply", "relu", "subtract", "power",
    ]  # fmt: skip


def test_constants_are_rows_without_gradient() -> None:
    loss, names = two_layers()
    rows = trace(loss, **names)
    assert {row.name for row in rows if row.kind == "constant"} == {"x", "y", "c1"}
    assert {row.name for row in rows if row.kind == "leaf"} == {"w1", "w2"}
    assert rows["x"].gradient is None
    assert rows["L"].inputs == ("v5", "c1")
    assert [share is None for share in rows["L"].shares] == [False, True]
    assert "x" not in rows.at(rows.last_position).gradients
    assert rows.at(0).values.keys() == {"w1", "w2", "x", "y", "c1"}


@pytest.mark.parametrize("seed", range(20))
def test_gradients_are_those_of_pytorch(seed: int) -> None:
    """A random graph of matrices, vectors and numbers that broadcast; every row, intermediate ones included."""
    draws = np.random.default_rng(seed)
    arrays = [draws.normal(size=shape) for shape in [(3, 3), (3,), (3, 1), ()]]
    ours: list[Tensor] = [leaf(array) for array in arrays]
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    for _ in range(12):
        kind, first, second = draws.integers(3), *draws.integers(len(ours), size=2)
        for values in (ours, theirs):
            x, y = values[first], values[second]
            values.append(x + y if kind == 0 else x * y if kind == 1 else (x - y).tanh())
        theirs[-1].retain_grad()
    result, expected = ours[-1].sum(), theirs[-1].sum()
    expected.backward()
    used = {f"t{number}": tensor for number, tensor in enumerate(ours) if tensor in newest_first(result)}
    rows = trace(result, **used)
    assert len(used) >= 2
    for name in used:
        expected_value, row = theirs[int(name[1:])], rows[name]
        assert row.shape == row.gradient.shape == tuple(expected_value.shape)
        np.testing.assert_allclose(row.value, expected_value.detach().numpy(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(row.gradient, expected_value.grad.numpy(), rtol=1e-10, atol=1e-12)


@graphs
def test_the_shares_add_up_to_the_gradient(graph: Graph) -> None:
    result, names = graph()
    rows = trace(result, **names)
    received: dict[str, list[np.ndarray]] = {row.name: [] for row in rows}
    for row in rows:
        assert len(row.shares) == len(row.inputs)
        for name, share in zip(row.inputs, row.shares, strict=True):
            if share is not None:
                assert share.shape == rows[name].shape
                received[name].append(share)
    for row in rows:
        if row.gradient is not None and row.name != rows.rows[-1].name:
            np.testing.assert_allclose(sum(received[row.name]), row.gradient, rtol=1e-12, atol=1e-15)


def test_a_given_gradient_starts_the_walk() -> None:
    x = leaf([1.0, 2.0])
    rows = trace(x * [3.0, 4.0], np.array([1.0, 10.0]), x=x)
    assert rows["x"].gradient.tolist() == [3, 40]
    with pytest.raises(RuntimeError, match="only a single number"):
        trace(x * 2.0)


def test_grad_and_graph_stay_as_they_are() -> None:
    loss, names = square_of_a_line()
    names["w"].grad = np.array(5.0)
    trace(loss, **names)
    draw(loss, **names)
    assert [tensor.grad for tensor in names.values()] == [5.0, None, None, None, None, None]
    loss.backward(retain_graph=True)
    assert float(names["w"].grad) == 33
    assert float(trace(loss, **names)["w"].gradient) == 28
    loss.backward()
    assert float(names["w"].grad) == 61


def test_no_grad_does_not_hide_the_graph() -> None:
    loss, names = square_of_a_line()
    with no_grad():
        rows = trace(loss, **names)
    assert [float(share) for share in rows["product"].shares] == [28, 42]


def test_rows_cannot_be_changed_and_are_arrays() -> None:
    x = leaf(2.0)
    y = x + x + x
    rows = trace(y, x=x, y=y)
    for row in rows:
        for array in (row.value, row.gradient, *row.shares):
            assert type(array) is np.ndarray
            assert not array.flags.writeable
    assert type(rows.at(rows.last_position).gradients["x"]) is np.ndarray
    assert float(rows["x"].gradient) == 3


def after_backward() -> Tensor:
    loss, _ = square_of_a_line()
    loss.backward()
    return loss


def partly_freed() -> Tensor:
    shared = leaf(2.0) * 3.0
    (shared * 2.0).backward()
    return shared * 4.0


def changed_in_place() -> Tensor:
    x = leaf(2.0)
    y = x * x
    with no_grad():
        x[...] = 3.0
    return y


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (after_backward, "'power' was freed by an earlier backward"),
        (partly_freed, "'multiply' was freed by an earlier backward"),
        (changed_in_place, "changed in place"),
        (lambda: Tensor(2.0) * 3.0, "does not require gradients"),
    ],
    ids=["freed", "partly freed", "changed", "constant"],
)
@pytest.mark.parametrize("show", [trace, draw], ids=["trace", "draw"])
def test_a_graph_that_is_no_more_is_the_tapes_own_error(
    make: Callable[[], Tensor], message: str, show: Callable[[Tensor], object]
) -> None:
    with pytest.raises(RuntimeError, match=message):
        show(make())


def test_names_are_given_or_numbered_and_never_shared() -> None:
    a, b = leaf(1.0), leaf(2.0)
    total = (a + b) * 3.0 + b
    rows = trace(total, x1=b, result=total)
    assert [row.name for row in rows] == ["x2", "x1", "v1", "c1", "v2", "result"]


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (lambda a, b: {"w": 2.0}, TypeError, "w= is a float"),
        (lambda a, b: {"w": b}, ValueError, "w is not in the graph.*shape \\(2,\\)"),
        (lambda a, b: {"w": a, "v": a}, ValueError, "w and v name the same tensor"),
    ],
    ids=["number", "elsewhere", "twice"],
)
def test_names_that_cannot_be_are_errors(names: Callable, error: type[Exception], message: str) -> None:
    a, b = leaf(1.0), leaf([1.0, 2.0])
    with pytest.raises(error, match=message):
        trace(a * 2.0, **names(a, b))


# The walk


def test_the_walk_shows_values_then_the_seed_then_gradients() -> None:
    loss, names = square_of_a_line()
    rows = trace(loss, **names)
    moments = [rows.at(position) for position in range(rows.last_position + 1)]
    assert [moment.phase for moment in moments] == ["start", *["forward"] * 3, "seed", *["backward"] * 3]
    assert [moment.active for moment in moments] == [None, "product", "total", "L", "L", "L", "total", "product"]
    assert [len(moment.values) for moment in moments] == [4, 5, 6, 7, 7, 7, 7, 7]
    assert [moment.gradients.keys() - {"c1"} for moment in moments[:5]] == [set()] * 4 + [{"L"}]
    so_far = [{name: float(gradient) for name, gradient in moment.gradients.items()} for moment in moments[5:]]
    assert so_far[0].items() >= {"L": 1, "total": 14}.items()
    assert so_far[1].items() >= {"L": 1, "total": 14, "product": 14, "b": 14}.items()
    assert so_far[2].items() >= {"w": 28, "x": 42, "b": 14}.items()
    assert moments[1].sentence == "multiply computes product from w, x: 6."
    assert moments[4].sentence == "The backward pass starts: L has the gradient 1."
    assert moments[7].sentence == "multiply passes on the gradient of product, 14: w gets 28; x gets 42."


def test_what_is_used_twice_gets_its_gradient_in_parts() -> None:
    x = leaf(3.0)
    square = x * x
    y = square + x
    rows = trace(y, x=x, square=square, y=y)
    last = rows.last_position
    assert float(rows.at(last - 1).gradients["x"]) == 1
    assert float(rows.at(last).gradients["x"]) == 7
    assert rows.at(last - 1).sentence == "add passes on the gradient of y, 1: square gets 1; x gets 1."
    assert rows.at(last).sentence == (
        "multiply passes on the gradient of square, 1: x gets 3 more, together 4; x gets 3 more, together 7."
    )


def test_sentences_hold_for_arrays_and_constants() -> None:
    x, weight = Tensor(np.ones((4, 3))), leaf(np.ones((3, 2)))
    rows = trace((x @ weight).sum(), x=x, weight=weight)
    assert rows.at(1).sentence == "matmul computes v1 from x, weight: an array of shape (4, 2)."
    assert rows.at(rows.last_position).sentence == (
        "matmul passes on the gradient of v1, an array of shape (4, 2): "
        "x is a constant and gets none; weight gets [[4, 4], [4, 4], [4, 4]]."
    )


@graphs
def test_the_walk_ends_at_the_gradients_of_the_rows(graph: Graph) -> None:
    result, names = graph()
    rows = trace(result, **names)
    end = rows.at(rows.last_position)
    assert end.values.keys() == {row.name for row in rows}
    assert end.gradients.keys() == {row.name for row in rows if row.gradient is not None}
    for name, gradient in end.gradients.items():
        np.testing.assert_allclose(gradient, rows[name].gradient, rtol=1e-12)


def test_a_leaf_alone_has_two_positions() -> None:
    rows = trace(leaf(2.0))
    assert rows.last_position == 1
    assert rows.at(1).gradients == {"x1": 1}


def test_what_is_not_there_is_an_error() -> None:
    loss, names = square_of_a_line()
    rows = trace(loss, **names)
    for position in (-1, 8):
        with pytest.raises(IndexError, match=f"position {position}: this walk has the positions 0 to 7"):
            rows.at(position)
    with pytest.raises(KeyError, match="no row is called 'q'; there are: w, x, b, product, … 2 more …, L"):
        rows["q"]


def chain(length: int) -> Tensor:
    value = leaf(np.ones(100))
    for _ in range(length):
        value = -value
    return value.sum()


def test_memory_grows_with_the_graph_not_with_its_square() -> None:
    peaks = []
    for length in (500, 2000):
        result = chain(length)
        tracemalloc.start()
        rows = trace(result)
        rows.at(rows.last_position)
        str(rows)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 6 * peaks[0]


def test_a_deep_graph_is_no_recursion() -> None:
    rows = trace(chain(5_000))
    assert len(rows) == 5_002
    assert rows.at(rows.last_position).gradients["x1"].tolist() == [1] * 100


# Tables


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array(1234.5678), "1235"),
        (np.array(-0.0), "0"),
        (np.array(1 / 3, np.float32), "0.3333"),
        (np.array(12345), "12345"),
        (np.array([[1.0, 2.5], [-3e-9, np.nan]]), "[[1, 2.5], [-3e-09, nan]]"),
        (np.ones((7,)), "shape (7,)"),
        (np.ones((0, 3)), "[]"),
    ],
    ids=["four digits", "minus zero", "float32", "integer", "matrix", "large", "empty"],
)
def test_values_are_written_short(array: np.ndarray, text: str) -> None:
    assert written(array) == text


def test_the_text_table() -> None:
    loss, names = two_layers()
    assert str(trace(loss, **names)).splitlines()[:8] == [
        "The tape of L: 11 rows in the order of recording. "
        "The backward pass starts from the gradient of L, which is 1.",
        "",
        "row  name  operation  inputs  shape  value  gradient  passes back",
        "---  ----  ---------  ------  -----  -----  --------  ----------------",
        "  1  w1    leaf               ()     0.5    -1",
        "  2  w2    leaf               ()     0.5    -1",
        "  3  x     constant           ()     2      none",
        "  4  y     constant           ()     1      none",
    ]
    assert "  5  v1    multiply   w1, x   ()     1      -0.5      w1: -1" in str(trace(loss, **names))


class Cells(HTMLParser):
    """The texts of a table's cells, by tag and scope; unclosed tags are an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str | None]] = []
        self.texts: dict[tuple[str, str | None], list[str]] = {}
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.open.append((tag, dict(attributes).get("scope")))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)


def test_the_html_table_has_a_caption_and_headers() -> None:
    loss, names = square_of_a_line()
    names["<b>"] = names.pop("b")
    texts = Cells(trace(loss, **names)._repr_html_()).texts
    assert texts["caption", None] == [
        "The tape of L: 7 rows in the order of recording. The backward pass starts from the gradient of L, which is 1."
    ]
    assert texts["th", "col"][:4] == ["row", "name", "operation", "inputs"]
    assert texts["th", "row"] == ["w", "x", "<b>", "product", "total", "c1", "L"]
    assert "product: 14, <b>: 14" in texts["td", None]


@pytest.mark.parametrize("show", [str, lambda rows: rows._repr_html_()], ids=["text", "html"])
def test_long_tables_show_their_ends(show: Callable) -> None:
    rows = trace(chain(1018))
    assert f"… {1020 - SHOWN_ROWS} rows …" in show(rows)
    assert len(re.findall("negate", show(rows))) == SHOWN_ROWS - 2
    assert "v1019" in show(rows)
    assert "rows …" not in show(trace(chain(SHOWN_ROWS - 2)))


# Pictures


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def boxes(svg: str) -> dict[int, Rectangle]:
    """Left, top, right and bottom of each row's box."""
    found = {}
    for node in parsed(svg).iter(f"{SVG}g"):
        if node.get("class") == "node":
            rect = node.find(f"{SVG}rect")
            left, top, width, height = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
            found[int(node.get("data-row"))] = left, top, left + width, top + height
    return found


def edges(svg: str) -> list[np.ndarray]:
    """Points along each edge, [N, 2], computed from the path's lines and cubic curves."""
    found = []
    for edge in parsed(svg).iter(f"{SVG}g"):
        if edge.get("class") == "edge":
            at, points = np.zeros(2), []
            steps = re.findall("([MCL])([^MCL]*)", edge.find(f"{SVG}path").get("d"))
            assert [command for command, _ in steps].count("M") == 1
            for command, text in steps:
                numbers = np.array(text.split(), float).reshape(-1, 2)
                t = np.linspace(0, 1, 40)[:, None]
                if command == "C":
                    a, b, end = numbers
                    points.append((1 - t) ** 3 * at + 3 * (1 - t) ** 2 * t * a + 3 * (1 - t) * t**2 * b + t**3 * end)
                elif command == "L":
                    points.append((1 - t) * at + t * numbers[-1])
                at = numbers[-1]
            found.append(np.concatenate(points))
    return found


@graphs
def test_every_tensor_has_a_box_of_its_own(graph: Graph) -> None:
    result, names = graph()
    svg = draw(result, **names).svg
    rows = trace(result, **names)
    found = boxes(svg)
    assert found.keys() == {row.number for row in rows}
    for (_, a), (_, b) in combinations(found.items(), 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    left, top, width, height = map(float, parsed(svg).get("viewBox").split())
    for box in found.values():
        assert left < box[0]
        assert top < box[1]
        assert box[2] < left + width
        assert box[3] < top + height


@graphs
def test_the_texts_fit_their_boxes(graph: Graph) -> None:
    result, names = graph()
    svg = draw(result, **names).svg
    found = boxes(svg)
    for node in parsed(svg).iter(f"{SVG}g"):
        if node.get("class") == "node":
            left, top, right, bottom = found[int(node.get("data-row"))]
            for text in node.iter(f"{SVG}text"):
                half = len(text.text) * 0.602 * 12 / 2  # a monospaced font's character is 0.602 of its size wide
                assert left < float(text.get("x")) - half
                assert float(text.get("x")) + half < right
                assert top + 12 <= float(text.get("y")) <= bottom - 3


@graphs
def test_edges_run_to_the_right_and_through_no_box(graph: Graph) -> None:
    result, names = graph()
    svg = draw(result, **names).svg
    paths = edges(svg)
    assert len(paths) == sum(len(row.inputs) for row in trace(result, **names))
    for points in paths:
        assert all(np.diff(points[:, 0]) >= -0.11)
        for left, top, right, bottom in boxes(svg).values():
            inside = (points[:, 0] > left + 0.2) & (points[:, 0] < right - 0.2)
            assert not any(inside & (points[:, 1] > top + 0.2) & (points[:, 1] < bottom - 0.2))


def test_what_is_used_twice_has_two_edges() -> None:
    x = leaf(3.0)
    drawing = draw(x * x, x=x)
    first, second = edges(drawing.svg)
    assert first[0].tolist() == second[0].tolist()
    assert abs(first[-1] - second[-1])[1] > 15
    titles = [title.text for title in parsed(drawing.svg).iter(f"{SVG}title")]
    assert titles == ["Computation graph of v1", "v1 passes 3 to x", "v1 passes 3 to x"]


def crossings(inputs: list[list[int]]) -> int:
    """How often edges cross between neighbouring layers."""
    layout = arrange(inputs, [(50.0, 40.0)] * len(inputs))
    pieces = []
    for routes in layout.edges:
        for points in routes:
            pieces += [(a[0], a[1], b[1]) for a, b in list(pairwise(points))[::2]]
    return sum(a[0] == b[0] and (a[1] - b[1]) * (a[2] - b[2]) < 0 for a, b in combinations(pieces, 2))


@pytest.mark.parametrize(
    ("inputs", "fewest"),
    [
        ([[], [], [], [], [1, 3], [0, 2], [4, 5]], 0),
        ([[], [], [], [0, 1], [2], [2, 1], [3], [4, 5, 6]], 0),
        ([[], [], [0], [1], [0], [1], [2, 3, 4, 5]], 0),
        ([[], [], [0, 1], [0, 1], [2, 3]], 1),
        ([[], [], [1, 1], [0, 0], [3, 2], [2, 0], [4, 5]], 1),
    ],
    ids=["tree", "shared", "interleaved", "unavoidable", "best not last"],
)
def test_edges_cross_no_more_than_they_must(inputs: list[list[int]], fewest: int) -> None:
    assert crossings(inputs) == fewest


def test_inputs_stand_beside_the_operation_in_its_order() -> None:
    loss, names = square_of_a_line()
    found = boxes(draw(loss, **names).svg)
    rows = trace(loss, **names)
    for row in rows:
        inputs = [found[rows[name].number] for name in row.inputs]
        assert [right < found[row.number][0] for _, _, right, _ in inputs] == [True] * len(inputs)
        assert len({left for left, *_ in inputs}) <= 1
        assert inputs == sorted(inputs, key=lambda box: box[1])


def test_the_kinds_differ_in_outline_and_colour() -> None:
    loss, names = two_layers()
    looks = {}
    for node in parsed(draw(loss, **names).svg).iter(f"{SVG}g"):
        if node.get("class") == "node":
            rect = node.find(f"{SVG}rect")
            looks[int(node.get("data-row"))] = rect.get("stroke"), rect.get("rx"), rect.get("stroke-dasharray")
    kinds: dict[str, set] = {}
    for row in trace(loss, **names):
        kinds.setdefault(row.kind, set()).add(looks[row.number])
    assert kinds == {
        "leaf": {("#0072B2", "18", None)},
        "constant": {("#E69F00", "6", "5 4")},
        "result": {("#009E73", "0", None)},
    }


def test_the_picture_says_its_numbers_without_being_seen() -> None:
    loss, names = square_of_a_line()
    drawing = draw(loss, **names)
    assert drawing.alt == (
        "Computation graph of L with 7 tensors, from left to right. Leaf w: value 3, gradient 28. "
        "Leaf x: value 2, gradient 42. Leaf b: value 1, gradient 14. "
        "product = multiply(w, x): value 6, gradient 14. total = add(product, b): value 7, gradient 14. "
        "Constant c1: value 2. L = power(total, c1): value 49, gradient 1."
    )
    root = parsed(drawing.svg)
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title").text == "Computation graph of L"
    assert root.find(f"{SVG}desc").text == drawing.alt
    data, metadata = drawing._repr_mimebundle_(include=None, exclude=None)
    page = data.pop("text/html")
    assert data == {"image/svg+xml": drawing.svg, "text/plain": drawing.alt}
    assert base64.b64encode(drawing.svg.encode()).decode() in page
    assert f'alt="{drawing.alt}"' in page
    assert metadata == {"image/svg+xml": {"alt": drawing.alt}}
    shown = [text.text for text in root.iter(f"{SVG}text")]
    assert {"w", "gradient 28", "product = multiply(w, x)", "value 49"} <= set(shown)


def test_arrays_are_written_out_while_they_are_small() -> None:
    weight, x = leaf([[1.0, 2.0], [3.0, 4.0]]), Tensor(np.ones((2, 7)))
    shown = [text.text for text in parsed(draw((weight @ x).sum(), w=weight, x=x).svg).iter(f"{SVG}text")]
    assert shown[:5] == ["w", "value [[1, 2],", "[3, 4]]", "gradient [[7, 7],", "[7, 7]]"]
    assert shown[5:7] == ["x", "value shape (2, 7)"]


def test_names_are_escaped() -> None:
    x = leaf(3.0)
    name = "<script>\"&'"
    svg = draw(x * 2.0, **{name: x}).svg
    assert "<script" not in svg
    assert name in [text.text for text in parsed(svg).iter(f"{SVG}text")]


def test_a_graph_that_is_too_large_is_an_error_with_the_next_step() -> None:
    assert len(boxes(draw(chain(LARGEST - 2)).svg)) == LARGEST == 60
    with pytest.raises(ValueError, match=r"the graph has 61 tensors, a drawing at most 60.*trace.*smaller part"):
        draw(chain(LARGEST - 1))


def test_a_drawing_is_saved_as_svg_only(tmp_path: Path) -> None:
    drawing = draw(leaf(2.0))
    drawing.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text("utf-8") == drawing.svg
    with pytest.raises(ValueError, match=r"graph\.png: a drawing is written as SVG only"):
        drawing.save(tmp_path / "graph.png")
