"""Virtual time, and threads that are steps of one thread.

Theory of operation
-------------------
The event loop asks its selector to wait. This selector waits for nothing: it runs one of the
threads that can go on, chosen at random, or lets the time pass until the next timer or the next
thread. A thread is a greenlet, which runs until it waits for a queue, an event, or a time. So all
happens on one thread of the system, in an order that follows from the seed alone.
"""

import asyncio
import math
import random
import selectors
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty
from typing import Any

from greenlet import getcurrent, greenlet

from plantstore.threads import Threads

# How likely a thread runs while the event loop has more to do.
EARLY = 0.3


def never() -> bool:
    return False


class StuckError(SystemExit):
    """Nothing will ever happen again, or something goes on forever at one moment."""


class Loop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, which schedules the threads of the simulation.

    Attributes:
        now: the time in seconds.
        threads: those of the simulation.
        trace: what happened.
        after_step: is called after each step of a thread.

    """

    def __init__(self, chance: random.Random) -> None:
        self.now = 1000.0
        self.chance = chance
        self.trace: list[str] = []
        self.after_step: Callable[[], None] = lambda: None
        self.threads = SimulatedThreads(self)
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.now

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now - 1000:.4f} {what}")

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Call a function soon. All threads are one, so nothing has to wake the loop."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        return super().run_in_executor(executor or self.threads.others, func, *args)


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._of = loop

    def select(self, timeout: float | None = None) -> Any:
        loop = self._of
        if timeout == 0 and loop.chance.random() > EARLY:
            return []
        if able := loop.threads.able():
            loop.chance.choice(able).run()
            loop.after_step()
        elif timeout is None or timeout > 0:
            until = min(loop.threads.next_deadline(), loop.now + (timeout or math.inf))
            if until == math.inf:
                raise StuckError("nothing happens any more")
            loop.now = until
        return []


class Thread:
    """A thread of the simulation: it runs until it waits.

    Attributes:
        name: in the trace.
        is_over: whether it has ended.
        condition: what it waits for.
        deadline: when it goes on nevertheless.

    """

    def __init__(self, loop: Loop, run: Callable[[], None], name: str) -> None:
        self._loop = loop
        self.name = name
        self.is_over = False
        self._greenlet = greenlet(run)
        self.condition: Callable[[], object] = lambda: True
        self.deadline = math.inf

    def run(self) -> None:
        self._loop.note(f"thread {self.name}")
        self._greenlet.switch()
        if self._greenlet.dead:
            self.is_over, self.condition = True, never

    def wait(self, condition: Callable[[], object], seconds: float = math.inf) -> None:
        """Let others run until a condition is met, or the time is over. The thread calls it."""
        self.condition, self.deadline = condition, self._loop.now + seconds
        self._greenlet.parent.switch()
        self.deadline = math.inf


class SimulatedThreads(Threads):
    """Makes threads that the event loop schedules.

    Attributes:
        others: the default executor of the event loop.

    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._all: list[Thread] = []
        self.others = self.pool(4, "other")

    def able(self) -> list[Thread]:
        """Return the threads that can go on."""
        now = self._loop.now
        return [each for each in self._all if each.deadline <= now or each.condition()]

    def next_deadline(self) -> float:
        return min([thread.deadline for thread in self._all], default=math.inf)

    def left(self) -> list[str]:
        """Return the names of the threads that have not ended."""
        return [thread.name for thread in self._all if not thread.is_over]

    def wait(self, condition: Callable[[], object], seconds: float = math.inf) -> None:
        """Let the current thread wait. The event loop itself never waits."""
        current = getcurrent()
        for thread in self._all:
            if thread._greenlet is current:  # noqa: SLF001
                thread.wait(condition, seconds)

    def start(self, run: Callable[[], None], name: str) -> Callable[[], None]:
        self._all = [thread for thread in self._all if not thread.is_over]
        thread = Thread(self._loop, run, name)
        self._all.append(thread)
        return lambda: self.wait(lambda: thread.is_over)

    def pool(self, number: int, name: str) -> Executor:
        return _Pool(self, number, name)

    def queue(self) -> Any:
        return _Queue(self)

    def event(self) -> Any:
        return _Event(self)

    def sleep(self, seconds: float) -> None:
        self.wait(never, seconds)


class _Queue:
    def __init__(self, threads: SimulatedThreads) -> None:
        self._threads = threads
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)

    def empty(self) -> bool:
        return not self._items

    def get(self, timeout: float = math.inf) -> Any:
        self._threads.wait(lambda: self._items, timeout)
        if not self._items:
            raise Empty
        return self._items.popleft()


class _Event:
    def __init__(self, threads: SimulatedThreads) -> None:
        self._threads = threads
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self) -> bool:
        self._threads.wait(lambda: self._is_set)
        return True


class _Pool(Executor):
    """An executor. A thread of it exists only while there are tasks for it."""

    def __init__(self, threads: SimulatedThreads, number: int, name: str) -> None:
        self._threads = threads
        self._number = number
        self._name = name
        self._tasks: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._busy = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        future: Future[Any] = Future()
        self._tasks.append((future, lambda: fn(*args, **kwargs)))
        if self._busy < self._number:
            self._busy += 1
            self._threads.start(self._work, self._name)
        return future

    def shutdown(self, *_: Any, cancel_futures: bool = False, **__: Any) -> None:
        if cancel_futures:
            while self._tasks:
                self._tasks.popleft()[0].cancel()
        self._threads.wait(lambda: not self._tasks and not self._busy)

    def _work(self) -> None:
        while self._tasks:
            future, task = self._tasks.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(task())
                except Exception as error:  # noqa: BLE001 (the caller gets it)
                    future.set_exception(error)
        self._busy -= 1
