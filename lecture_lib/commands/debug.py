"""`lecture debug`: run a training script unchanged, and report what is wrong with its training."""

from __future__ import annotations

import argparse
import html
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..debugging import Climb, Finding, Spec, climb, find_faults
from ..debugging._engine.discovery import Discovery
from ..debugging._engine.events import Recording, Step

DESCRIPTION = """\
Run a training script unchanged and watch its training: order of the loop, gradients, wiring, losses. What is found is
printed when the script ends, also after Ctrl-C or an error. Arguments after the script are the script's own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write what was found as a page")
    parser.add_argument(
        "--climb",
        metavar="NAME",
        help="do not run the script's main part: import it, and climb the ladder with what its function NAME gives "
        "for a seed, (program, spec)",
    )
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for replacing parts with --climb (60)")
    parser.add_argument("script", type=Path, help="the Python file to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")


def run(options: argparse.Namespace) -> int:
    """Run the command; 0: nothing found, 1: something found or the script failed, 2: there is no such script."""
    if not options.script.is_file():
        print(f"lecture debug: there is no file {options.script}", file=sys.stderr)
        return 2
    with _as_main(options.script, options.arguments):
        if options.climb:
            return _climb(options)
        return _watch(options)


@contextmanager
def _as_main(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    """The command line and the search path are those that the script would have by itself."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def _watch(options: argparse.Namespace) -> int:
    discovery, failed = Discovery(), ""
    try:
        with discovery.watching():
            runpy.run_path(str(options.script), run_name="__main__")
    except SystemExit as end:
        failed = "" if end.code in (None, 0) else f"the script ended with exit code {end.code}"
    except KeyboardInterrupt:
        failed = "interrupted; what was seen until then:"
    # However the script ended, what was watched until then is reported.
    except BaseException as error:
        traceback.print_exc()
        failed = f"the script stopped with {type(error).__name__}: {error}"
    recording = discovery.recording
    if recording is None or not recording.of(Step):
        why = "no optimizer took a step" if not discovery.steps else f"{discovery.steps} steps are too few to watch any"
        print("\n".join(filter(None, [f"lecture debug: nothing to look at: {why}", failed])), file=sys.stderr)
        return 1
    findings = find_faults(recording, Spec(accumulate=_accumulated(recording)))
    first = "The first step was" if discovery.steps == 1 else f"The first {discovery.steps} steps were"
    summary = f"{first} used to find the models. The next {len(recording.of(Step))} were checked."
    lines = [failed, summary, *map(str, findings or ["nothing found"])]
    lines += [f"not checked: {rule}" for rule in findings.unchecked]
    lines.append("Data, validation and the formula of the loss were not checked: see `--climb`.")
    _tell(options, [line for line in lines if line], findings)
    # An interrupt is not a failure: a long training may be stopped on purpose.
    return 1 if findings or failed.startswith("the script") else 0


def _accumulated(recording: Recording) -> int:
    """Backward passes for each step, as most steps have it: a script declares nothing."""
    counts = sorted(step.backwards for step in recording.of(Step))
    return max(1, counts[len(counts) // 2]) if counts else 1


def _climb(options: argparse.Namespace) -> int:
    # A name other than __main__, so that the script's main part does not run.
    names = runpy.run_path(str(options.script), run_name="__debug__")
    make = names.get(options.climb)
    if not callable(make):
        functions = ", ".join(sorted(name for name in names if callable(names[name]) and not name.startswith("_")))
        print(f"lecture debug: {options.script} has no function {options.climb}. It has: {functions}", file=sys.stderr)
        return 2
    result: Climb = climb(*make(0), make=make, budget=options.budget)
    _tell(options, [str(result)], result.findings)
    return 1 if result.findings else 0


def _tell(options: argparse.Namespace, lines: Sequence[str], findings: Sequence[Finding]) -> None:
    print("\n".join(["", *lines]))
    if options.html:
        options.html.write_text(page(str(options.script), lines, findings), "utf-8")
        print(f"as a page: {options.html}")


def page(script: str, lines: Sequence[str], findings: Sequence[Finding]) -> str:
    """What was found as an HTML page: a table of findings, and the whole text below."""

    def row(finding: Finding) -> str:
        kind = finding.kind + (", certain" if finding.certain else "")
        cells = (finding.title, kind, finding.part, finding.evidence, finding.remedy)
        return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"

    head = "".join(f"<th scope='col'>{name}</th>" for name in ("what", "kind", "part", "evidence", "what to do"))
    table = f"<table><tr>{head}</tr>{''.join(map(row, findings))}</table>" if findings else "<p>Nothing found.</p>"
    style = "body{font:16px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}td,th{text-align:left;"
    style += "vertical-align:top;padding:.4em .8em .4em 0;border-bottom:1px solid #ccc}pre{white-space:pre-wrap}"
    text = html.escape("\n".join(lines))
    title = html.escape(f"lecture debug {script}")
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title><style>{style}</style>"
        f"<h1>{title}</h1>{table}<h2>The whole report</h2><pre>{text}</pre></html>\n"
    )
