"""The commands about the notebooks: `autograde build`, `text`, `site`, and those that begin something new."""

from __future__ import annotations

import argparse
from pathlib import Path

from .class_commands import OK, Add


def add_notebook_commands(add: Add) -> None:
    """Add the commands to a parser."""
    command = add("build", _build, "Build and execute the notebooks from their texts (make notebooks).", course=False)
    command.add_argument("--questions", action="store_true", help="only write visible cases and stated points")
    command.add_argument("--discard-edits", action="store_true", help="drop edits that were made in the .ipynb")
    add("text", _text, "Bring edits of the .ipynb back into the texts (make text).", course=False)
    text = "Write the text of a new notebook, for you to fill in; a build refuses it until then."
    command = add("new-notebook", _new_notebook, text, course=False)
    command.add_argument("name", metavar="NAME", help="its number and words, such as 04a-transformers")

    text = "Write the files of a new question, for you to fill in, and print the cells that ask it."
    command = add("new-question", _new_question, text, course=False)
    command.add_argument("id", metavar="ID", help="the notebook's number and a word, such as 03a-clip")
    command.add_argument("function", metavar="FUNCTION", help="the function that students write")

    text = "Write a course of your own into a new folder, with one example question that builds, releases and grades."
    command = add("new-course", _new_course, text, course=False)
    command.add_argument("folder", type=Path, metavar="FOLDER", help="where to; is made")
    command.add_argument("--package", required=True, metavar="NAME", help="the package with the questions' public part")
    command.add_argument("--title", required=True, help="the course's title, as students read it")

    text = "Build pages to read: the notebooks with their outputs and without solutions, the guides, the library."
    command = add("site", _site, text, course=False)
    command.add_argument("--to", type=Path, default=Path("build/site"), metavar="DIR", help="where to (build/site)")
    command.add_argument("--solutions", action="store_true", help="with the solutions and what they print")


def _build(options: argparse.Namespace) -> int:
    from ..files import write_text_atomically
    from ..notebooks import build_all, text_paths
    from ..questions.question import QUESTIONS
    from ..questions.stated_points import with_points
    from ..questions.visible import write_visible_cases

    # Before the notebooks: executing them runs the visible checks, which read these files.
    for path in write_visible_cases():
        print(f"wrote {path}")
    texts = {path: path.read_text("utf-8") for path in text_paths()}
    for question in QUESTIONS.values():
        if not any(f'"{question.test_id}"' in text for text in texts.values()):
            print(
                f"{question.id} is asked in no notebook: put the cells that `autograde new-question` printed into one"
            )
    for path, text in texts.items():
        if text != (stated := with_points(text)):
            write_text_atomically(path, stated)
            print(f"wrote the questions' points into {path}")
    if options.questions:
        return OK
    for path in build_all(discard_edits=options.discard_edits):
        print(f"built {path}")
    return OK


def _text(_: argparse.Namespace) -> int:
    from ..notebooks import text_paths, to_text

    for text in text_paths():
        print(f"{text.name}: {'updated' if to_text(text) else 'no change'}")
    return OK


def _new_notebook(options: argparse.Namespace) -> int:
    from ..new_notebook import write_skeleton
    from ..notebooks import not_filled_in

    path = write_skeleton(options.name)
    print(f"{path}: fill in what its {len(not_filled_in(path))} lines with FILL IN ask for, then `autograde build`")
    return OK


def _new_question(options: argparse.Namespace) -> int:
    from ..new_question import question_cells, write_question

    for path in write_question(options.id, options.function):
        print(f"wrote {path}: fill in what its lines with FILL IN ask for, without these words")
    print("\nThese cells ask it; put them into the notebook's text:\n")
    print(question_cells(options.id, options.function))
    return OK


def _new_course(options: argparse.Namespace) -> int:
    from ..new_course import write_course

    for path in write_course(options.folder, options.package, options.title):
        print(f"wrote {path}")
    print(
        "\nNext, in that folder: `make setup`, `make notebooks`, `make verify`, `make run`. Then put your own question"
    )
    print("beside the example; autograders/guide/another-course.md goes through it.")
    return OK


def _site(options: argparse.Namespace) -> int:
    from ..site.build_site import build_site

    print(f"open {build_site(options.to, solutions=options.solutions)}")
    return OK
