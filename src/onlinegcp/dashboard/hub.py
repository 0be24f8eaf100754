"""One look at a run for all its readers: what changed is read once, and told to everybody.

Each reader has a short queue of messages that all share. One that does not keep up is sent the
whole run again, so that memory does not grow with the number of readers or with their slowness.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any, final

from onlinegcp.dashboard.follow import Event, Follower

# Messages that wait for a slow reader at most.
LONGEST_QUEUE = 64

Queue = asyncio.Queue[bytes]


@final
class Hub:
    """The readers of one run.

    Parameters
    ----------
    path
        The run directory.
    look_every
        Seconds between two looks.
    """

    def __init__(self, path: str | os.PathLike[str], look_every: float) -> None:
        self._follower = Follower(path)
        self._every = look_every
        self._queues: set[Queue] = set()
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._whole: list[bytes] | None = None  # of the run as it is, once somebody asked
        self.n_readers = 0
        self.stopping = False

    async def messages(self) -> AsyncIterator[bytes]:
        """What one reader is told: the whole run, then every change."""
        queue: Queue = asyncio.Queue(LONGEST_QUEUE)
        joining: asyncio.Task[list[bytes]] | None = None
        self.n_readers += 1
        try:
            yield b"retry: 1000\n\n"
            joining = asyncio.create_task(self._join(queue))
            while not (await asyncio.wait({joining}, timeout=1.0))[0]:
                # A million slices take a minute to read; nobody should wonder.
                yield _encoded(("reading", {"share": self._follower.share_read}))
            for message in await joining:
                yield message
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._follow())
            while not self.stopping:
                try:
                    yield await asyncio.wait_for(queue.get(), timeout=2.0)
                except TimeoutError:
                    # A comment now and then, so that a connection that died is noticed.
                    yield b": still here\n\n"
        finally:
            self.n_readers -= 1
            self._queues.discard(queue)
            if joining is not None and not joining.done():
                # The look that is under way is everybody's: it is not cut off.
                joining.add_done_callback(lambda _: self._queues.discard(queue))

    async def _join(self, queue: Queue) -> list[bytes]:
        """The whole run for a new reader, who misses nothing from here on."""
        async with self._turn:
            await self._look()
            whole = await self._everything()
            self._queues.add(queue)
        return whole

    async def payload(self) -> dict[str, Any]:
        """The whole run, as the first message has it; {"problem": ...} where it cannot be read."""
        async with self._turn:
            await self._look()
            return await asyncio.to_thread(self._follower.payload)

    async def _follow(self) -> None:
        while self._queues and not self.stopping:
            await asyncio.sleep(self._every)
            async with self._turn:
                await self._look()

    async def _look(self) -> None:
        """Read what is new, and tell those who have the rest."""
        events = await asyncio.to_thread(self._follower.look)
        if not events:
            return
        self._whole = None
        messages = [_encoded(event) for event in events]
        for queue in self._queues:
            try:
                for message in messages:
                    queue.put_nowait(message)
            except asyncio.QueueFull:
                while not queue.empty():
                    queue.get_nowait()
                for message in await self._everything():
                    queue.put_nowait(message)

    async def _everything(self) -> list[bytes]:
        if self._whole is None:
            events = await asyncio.to_thread(self._follower.everything)
            self._whole = [_encoded(event) for event in events]
        return self._whole


def _encoded(event: Event) -> bytes:
    name, content = event
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return f"event: {name}\ndata: {text}\n\n".encode()
