"""What stands for a card where there is none: memory of this machine, and a bench on it."""

import threading

import numpy as np


class HostCard:
    """Stands for a card: memory and copies, and a count of what was fetched."""

    def __init__(self):
        self.turn, self.pulled = threading.RLock(), 0

    def zeros(self, size):
        return np.zeros(size)

    def push(self, array, buffer):
        buffer[: array.size] = array

    def pull(self, buffer, size):
        self.pulled += 1
        return buffer[:size].copy()


class HostBench:
    """Stands for a bench of one layout."""

    def __init__(self, rows, width):
        self.card, self.plan = HostCard(), self
        self.rows, self.width = rows, width
