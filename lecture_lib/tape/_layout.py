"""Where the boxes and edges of a layered graph go, from left to right, after Sugiyama's method.

1. A box is placed one layer right of its rightmost input; a box without inputs one layer left of its first user.
2. An edge over several layers gets a bend in each layer between, which takes up space like a very low box.
3. Within a layer, what is linked to a neighbouring layer is put in the order of its neighbours' mean position.
4. Heights: as near to the neighbours' mean as the order and the gaps allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]

COLUMN_GAP = 56.0
ROW_GAP = 20.0
_SWEEPS = 24


@dataclass(frozen=True)
class Box:
    """A rectangle, in pixels from the top left."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """Boxes in the order given; for each of them, the corner points of the edges from its inputs, in their order.

    The points of an edge alternate: a curve leads to each second point, a level line on to the next.
    """

    boxes: list[Box]
    edges: list[list[list[Point]]]
    width: float
    height: float


def arrange(inputs: Sequence[Sequence[int]], sizes: Sequence[tuple[float, float]]) -> Layout:
    """Lay out a graph whose boxes are given in topological order.

    Args:
        inputs: for each box, the boxes that an edge comes from; a box that is named twice has two edges.
        sizes: for each box, the width and height that it needs, in pixels. A layer's boxes get one width.

    """
    layer = _layers(inputs)
    heights = [height for _, height in sizes]
    links: list[tuple[int, int]] = []  # between neighbouring layers
    chains: list[list[list[int]]] = []  # for each box and input: source, bends, box
    for target, sources in enumerate(inputs):
        chains.append([])
        for source in sources:
            crossed = range(layer[source] + 1, layer[target])
            chains[target].append([source, *range(len(layer), len(layer) + len(crossed)), target])
            layer += crossed
            heights += [0.0] * len(crossed)
            links += pairwise(chains[target][-1])
    columns = _ordered(layer, links)
    centres = _centred(columns, links, heights)
    widths = [max((sizes[node][0] for node in column if node < len(sizes)), default=0.0) for column in columns]
    lefts = [sum(widths[:number]) + COLUMN_GAP * number for number in range(len(columns))]
    boxes = [
        Box(lefts[layer[node]], centres[node] - height / 2, widths[layer[node]], height)
        for node, (_, height) in enumerate(sizes)
    ]
    edges = []
    for box, ways in zip(boxes, chains, strict=True):
        # Edges arrive in the order in which they come from above, so that they do not cross at the box.
        from_above = sorted(range(len(ways)), key=lambda number: centres[ways[number][-2]])
        routes: list[list[Point]] = [[] for _ in ways]
        for rank, number in enumerate(from_above, start=1):
            source, *bends, _ = ways[number]
            routes[number].append((boxes[source].left + boxes[source].width, centres[source]))
            for bend in bends:
                left = lefts[layer[bend]]
                routes[number] += [(left, centres[bend]), (left + widths[layer[bend]], centres[bend])]
            routes[number].append((box.left, box.top + box.height * rank / (len(ways) + 1)))
        edges.append(routes)
    return Layout(boxes, edges, lefts[-1] + widths[-1], max(box.top + box.height for box in boxes))


def _layers(inputs: Sequence[Sequence[int]]) -> list[int]:
    layer: list[int] = []
    first_user: dict[int, int] = {}  # the layer of a box's leftmost user
    for sources in inputs:
        layer.append(1 + max((layer[source] for source in sources), default=-1))
        for source in sources:
            first_user[source] = min(layer[-1], first_user.get(source, layer[-1]))
    return [own if inputs[box] else first_user.get(box, 1) - 1 for box, own in enumerate(layer)]


def _neighbours(links: Sequence[tuple[int, int]], count: int) -> tuple[list[list[int]], list[list[int]]]:
    """For each node, what it is linked to on its left and on its right."""
    on_left: list[list[int]] = [[] for _ in range(count)]
    on_right: list[list[int]] = [[] for _ in range(count)]
    for left, right in links:
        on_left[right].append(left)
        on_right[left].append(right)
    return on_left, on_right


def _ordered(layer: Sequence[int], links: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The nodes of each layer from top to bottom: the order with the fewest crossings that the sweeps meet."""
    neighbours = on_left, on_right = _neighbours(links, len(layer))
    columns: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    # Depth first from the results: a tree has no crossings then, and inputs are in their operation's order.
    waiting = [node for node in range(len(layer)) if not on_right[node]]
    placed = set()
    while waiting:
        node = waiting.pop()
        if node not in placed:
            placed.add(node)
            columns[layer[node]].append(node)
            waiting += reversed(on_left[node])
    best, fewest = [list(column) for column in columns], _crossings(columns, layer, links)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        linked = neighbours[sweep % 2]
        for column in columns[:: -1 if sweep % 2 else 1]:
            place = {node: float(rank) for nodes in columns for rank, node in enumerate(nodes)}
            column.sort(key=lambda node: _mean([place[neighbour] for neighbour in linked[node]], place[node]))
        crossings = _crossings(columns, layer, links)
        if crossings < fewest:
            best, fewest = [list(column) for column in columns], crossings
    return best


def _crossings(columns: list[list[int]], layer: Sequence[int], links: Sequence[tuple[int, int]]) -> int:
    place = {node: rank for column in columns for rank, node in enumerate(column)}
    gaps: list[list[tuple[int, int]]] = [[] for _ in columns]
    for left, right in links:
        gaps[layer[left]].append((place[left], place[right]))
    return sum((a - c) * (b - d) < 0 for gap in gaps for number, (a, b) in enumerate(gap) for c, d in gap[:number])


def _centred(columns: list[list[int]], links: Sequence[tuple[int, int]], heights: Sequence[float]) -> list[float]:
    """The height of each node's middle; the topmost box touches 0."""
    centres = [0.0] * len(heights)
    for column in columns:
        for node, centre in zip(column, _spaced([0.0] * len(column), [heights[node] for node in column]), strict=True):
            centres[node] = centre
    on_left, on_right = _neighbours(links, len(heights))
    both = [left + right for left, right in zip(on_left, on_right, strict=True)]
    for linked in [*[on_left, on_right] * (_SWEEPS // 2), both, both]:
        for column in columns[:: -1 if linked is on_right else 1]:
            wanted = [_mean([centres[neighbour] for neighbour in linked[node]], centres[node]) for node in column]
            for node, centre in zip(column, _spaced(wanted, [heights[node] for node in column]), strict=True):
                centres[node] = centre
    top = min(centre - height / 2 for centre, height in zip(centres, heights, strict=True))
    return [centre - top for centre in centres]


def _spaced(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Middles in the given order that do not overlap, as near to the wanted ones as possible (least squares).

    Without the room that they need the middles only have to rise: isotonic regression, by pooling neighbours.
    """
    offsets = [0.0]
    for above, below in pairwise(heights):
        offsets.append(offsets[-1] + (above + below) / 2 + ROW_GAP)
    pools: list[tuple[float, int]] = []
    for middle, offset in zip(wanted, offsets, strict=True):
        total, count = middle - offset, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / count:
            above, size = pools.pop()
            total, count = total + above, count + size
        pools.append((total, count))
    levels = [total / count for total, count in pools for _ in range(count)]
    return [level + offset for level, offset in zip(levels, offsets, strict=True)]


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
