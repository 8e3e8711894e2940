"""Makes assets/readme/check.png: a question of 03a with a student's answer and what the visible check says to it.

Needs the instructor's environment and Chromium (Debian's package `chromium`); without it, nothing is written.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from PIL import Image, ImageChops
from PIL.PngImagePlugin import PngInfo

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
TARGET = ROOT / "assets" / "readme" / "check.png"
QUESTION = "03a-accumulate"
ANSWER = '''def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    """One epoch; each step equals the step on all examples of its window together."""
    for start in range(0, len(micro_batches), accumulate):
        window = micro_batches[start : start + accumulate]
        for x, y in window:
            (loss_fn(model(x), y) / len(window)).backward()
        optimizer.step()
        optimizer.zero_grad()'''


def section() -> nbformat.NotebookNode:
    """The question's cells alone, answered and with what the check says to the answer."""
    from autograders.notebooks import from_text
    from lecture_lib.notebook.check import check_result

    nb = from_text(ROOT / "notebooks" / "03a-training-recipe.py")
    position = next(i for i, cell in enumerate(nb.cells) if cell["id"] == QUESTION)
    asked, answer, test = nb.cells[position - 1 : position + 2]
    asked.source = asked.source[asked.source.index("### Question") :]
    answer.source = ANSWER
    test.source = test.source.split("\n### BEGIN")[0]
    scope: dict[str, Any] = {}
    exec(ANSWER, scope)
    said = check_result(QUESTION, scope["accumulate_epoch"])
    data = {"text/html": said._repr_html_(), "text/plain": repr(said)}
    test.outputs = [nbformat.v4.new_output("display_data", data=data)]
    nb.cells = [asked, answer, test]
    for number, cell in enumerate((answer, test), start=1):
        cell.execution_count = number
    return nb


def told(nb: nbformat.NotebookNode) -> str:
    """What the picture must say: the question's heading and points, the answer, the check. Kept in the file."""
    asked, answer, test = nb.cells
    points = next(part for part in asked.source.split("\n\n") if part.startswith("Hidden cases"))
    heading, said = asked.source.splitlines()[0], test.outputs[0].data["text/plain"]
    return "\n".join([heading, *points.splitlines(), answer.source, said])


def main() -> int:
    """Write the picture; 1 and a line when Chromium is missing."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("Chromium is needed (Debian: apt install chromium); nothing was written", file=sys.stderr)
        return 1
    nb = section()
    page, _ = HTMLExporter(template_name="lab").from_notebook_node(nb)
    with tempfile.TemporaryDirectory() as folder:
        html, picture = Path(folder) / "page.html", Path(folder) / "page.png"
        html.write_text(page, "utf-8")
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-background-networking",
        ]
        size = ["--window-size=960,1400", "--force-device-scale-factor=1.25", f"--user-data-dir={folder}/profile"]
        command = [chromium, *options, *size, "--virtual-time-budget=3000", f"--screenshot={picture}", html.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        image = Image.open(picture).convert("RGB")
        box = ImageChops.difference(image, Image.new("RGB", image.size, image.getpixel((2, 2)))).getbbox()
        TARGET.parent.mkdir(exist_ok=True)
        notes = PngInfo()
        notes.add_itxt("Description", told(nb))
        image.crop((0, 0, image.width, box[3] + 30)).quantize(64).save(TARGET, optimize=True, pnginfo=notes)
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
