"""The instructor's side: release, collect, grade, report, verify and simulate.

Run from the instructor's checkout as `autograde` or `python -m autograders`; no wheel and no student's bundle has it.
"""

import sys

# jsonschema, on which nbformat rests, asks for a grammar of international web addresses, and compiling it takes longer
# than PyTorch's import: half of the start of every command. No notebook has a field of that kind; without the package
# jsonschema leaves the format out.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
