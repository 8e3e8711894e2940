"""What observations are worth and what to say. Runs outside the student's process; never in a bundle or wheel.

A judge module has `PARTS` (name and points of each graded part), `draw` (the hidden cases from a random stream) and
`judge` (cases and observations to a verdict).
"""
