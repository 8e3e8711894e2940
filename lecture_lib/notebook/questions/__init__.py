"""The public half of every graded question, one file each."""
