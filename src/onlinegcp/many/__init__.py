"""Many small streams, one per customer, machine or shop: independent models in one directory.

`files` says how it is laid out, `reading` reads it without a model, and `streams` makes and fills
it: one process groups the rows, the others (`worker`) learn a shard at a time (`learning`).
"""
