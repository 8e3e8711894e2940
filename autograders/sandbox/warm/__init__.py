"""Kernels forked from a parent that has imported everything already."""
