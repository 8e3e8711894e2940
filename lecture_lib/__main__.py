"""The student's command line: `lecture`, also `python -m lecture_lib`."""

from __future__ import annotations

import argparse
import os
import sys

from lecture_lib import __version__
from lecture_lib._common.course_setting import read_course_setting
from lecture_lib._common.system import print_any_letter


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 not done and said why."""
    print_any_letter()  # of a path
    title = read_course_setting().title
    parser = argparse.ArgumentParser(prog="lecture", description=f'The student\'s commands of "{title}".')
    parser.add_argument("--version", action="version", version=f"lecture-lib {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    text = "Pack your notebooks into one file to hand in, and say which questions are still unanswered."
    command = commands.add_parser("submit", help=text, description=text)
    command.add_argument("--id", required=True, help="your student id")
    command.add_argument("--name", required=True, help="your name")
    command.add_argument("--folder", default=".", metavar="DIR", help="where your notebooks are (default: here)")
    command.add_argument("--to", default=".", metavar="DIR", help="where the file goes (default: here)")
    text = "Look at this installation, and say what to do where something is wrong."
    commands.add_parser("doctor", help=text, description=text)
    text = "Train a small model on images with the whole recipe, and leave a run record, checkpoints and a curve."
    several = "In several processes: torchrun --nproc-per-node 2 -m lecture_lib train ... (a GPU for each, or the CPU)."
    command = commands.add_parser("train", help=text, description=text, epilog=several)
    first_argument = (sys.argv[1:] if arguments is None else arguments)[:1]
    training = first_argument == ["train"]
    if training:
        # PyTorch reads it when it is imported: it would warn twice that no layer is left unused.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        from lecture_lib.commands import train as program

        program.add_arguments(command)
    text = "Run a training script as it is, and say what its training looks like from inside."
    command = commands.add_parser("debug", help=text)
    if first_argument == ["debug"]:
        from lecture_lib.commands import debug

        command.description = debug.DESCRIPTION
        debug.add_arguments(command)
    options = parser.parse_args(arguments)
    if training:
        return program.run(options)
    if first_argument == ["debug"]:
        return debug.run(options)

    if options.command == "doctor":
        from lecture_lib.commands import doctor

        checks = doctor.examine()
        print(doctor.report(checks))
        return 0 if all(check.holds for check in checks) else 1

    from lecture_lib.commands.submit import SubmitError, submit

    try:
        print(submit(options.id, options.name, folder=options.folder, to=options.to))
    except (SubmitError, OSError) as error:
        print(f"lecture submit: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
