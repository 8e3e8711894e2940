"""The instructor's side: release, collect, grade, report, verify and simulate.

Run from the instructor's checkout as `autograde` or `python -m autograders`; no wheel and no student's bundle has it.
"""
