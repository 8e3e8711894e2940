"""Runs inside the walls, as scripts: no file here imports anything of ours but its neighbours."""
