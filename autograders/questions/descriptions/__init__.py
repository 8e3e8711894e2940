"""The questions, one file each. Runs outside the student's process; never in a bundle or wheel.

Each module has a QUESTION, a Description. The build writes what the public half needs
of it.
"""
