"""Files that an answer left open are closed after each part, so that no other answer runs out of descriptors."""

from __future__ import annotations

import mmap
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lecture_lib.notebook.observe import observe
from lecture_lib.notebook.process_state import standard_process
from lecture_lib.notebook.question import PublicQuestion

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are listed on Linux alone")

COUNT = 150
kept: list[Any] = []


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    kept.clear()


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208


def in_circles(path: Path) -> list[Any]:
    """Files that nothing reaches, and that no count of references closes."""
    for _ in range(COUNT):
        circle: list[Any] = [path.open()]
        circle.append(circle)
    return []


OPENED: dict[str, Callable[[Path], list[Any]]] = {
    "text files": lambda path: [path.open() for _ in range(COUNT)],
    "files being written": lambda path: [path.with_name(f"{n}").open("w") for n in range(COUNT)],
    "raw files": lambda path: [path.open("rb", buffering=0) for _ in range(COUNT)],
    "descriptors": lambda path: [os.open(path, os.O_RDONLY) for _ in range(COUNT)],
    "folders": lambda path: [os.open(path.parent, os.O_RDONLY) for _ in range(COUNT)],
    "nothing's descriptors": lambda path: [os.open(os.devnull, os.O_RDONLY) for _ in range(COUNT)],
    "pipes": lambda path: [os.pipe() for _ in range(COUNT // 2)],
    "sockets": lambda path: [socket.socket() for _ in range(COUNT)],
}


@pytest.mark.parametrize("what", OPENED)
def test_what_was_left_open_is_closed_and_told(tmp_path: Path, what: str) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    before = open_descriptors()
    left: list[str] = []
    with standard_process(left):
        kept.append(OPENED[what](path))
    assert left == [f"{COUNT} files are open"]
    assert open_descriptors() == before


def test_what_nothing_reaches_is_closed_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    before = open_descriptors()
    left: list[str] = []
    with pytest.warns(ResourceWarning), standard_process(left):
        in_circles(path)
    assert (left, open_descriptors()) == ([], before)


def test_what_was_written_is_there_after_closing(tmp_path: Path) -> None:
    with standard_process([]):
        for number in range(20):
            kept.append((tmp_path / str(number)).open("w"))
            kept[-1].write("content")
    assert [(tmp_path / str(number)).read_text() for number in range(20)] == ["content"] * 20


def test_a_few_files_stay_open(tmp_path: Path) -> None:
    """A log that an answer opens once and goes on writing to."""
    left: list[str] = []
    with standard_process(left):
        kept.append((tmp_path / "log").open("w"))
    assert left == []
    kept[0].write("more")
    kept[0].close()


def test_descriptors_that_another_object_will_close_are_left_to_it(tmp_path: Path) -> None:
    """A mapped array closes its own descriptor when it goes; by then the number can be another file's."""
    path = tmp_path / "array"
    path.write_bytes(b"x" * 4096)

    def mapped() -> mmap.mmap:
        with path.open("r+b") as file:
            return mmap.mmap(file.fileno(), 0)

    left: list[str] = []
    with standard_process(left):
        kept.extend(mapped() for _ in range(20))
    assert left == []
    others = [path.open() for _ in range(20)]
    kept.clear()
    assert [file.read(1) for file in others] == ["x"] * 20
    for file in others:
        file.close()


def test_an_answer_that_uses_up_all_descriptors_costs_no_other_part(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("content")

    def greedy() -> None:
        while True:
            kept.append(os.open(path, os.O_RDONLY))

    question = PublicQuestion(
        id="00a-files",
        title="",
        functions=("greedy", "reading"),
        parts={
            "greedy": lambda functions, inputs: {"value": functions["greedy"]()},
            "reading": lambda functions, inputs: {"value": functions["reading"]()},
        },
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        seen = observe(question, {"greedy": greedy, "reading": path.read_text}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "Too many open files" in seen["greedy"]["raised"]
    assert seen["greedy"]["left"] == [f"{len(kept)} files are open"]
    assert seen["reading"] == {"value": {"value": "content"}}
