"""The README's picture shows the question as it is, and its alternative text says the same."""

from __future__ import annotations

import json
import re
import runpy

from conftest import ROOT
from PIL import Image


def test_the_picture_is_of_the_question_as_it_is() -> None:
    script = runpy.run_path(str(ROOT / "assets" / "make_screenshot.py"))
    now = script["told"](script["section"]())
    with Image.open(script["TARGET"]) as picture:
        assert picture.info["Description"] == now, "an older question: python assets/make_screenshot.py"
    (alt,) = re.findall(r"!\[([^]]*)\]\(assets/readme/check\.png\)", (ROOT / "README.md").read_text("utf-8"))
    points = json.loads((ROOT / "lecture_lib" / "notebook" / "points.json").read_text("utf-8"))
    assert f"worth {points[script['QUESTION'][:3]][script['QUESTION']]} points" in alt
    for number in re.findall(r"\d+\.\d+", alt):
        assert number in now
