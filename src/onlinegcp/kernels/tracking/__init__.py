"""Whole steps of the least-squares trackers of the related work, over many slices in one call."""
