"""Stores for tests: in memory, blocked, failing, and watched.

READ_METHODS has all methods that read a store, for tests of what holds for each read.
"""

import contextlib
import shutil
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from plantstore.errors import FeedError
from plantstore.listings import EVERYTHING, TagListing
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.store import Store
from support.following import everything, plants_of

MEMORY = Path("/dev/shm")


def read_set(store: Store, name: str) -> object:
    """Return the first change of a set, or the number of the error if there is no such set."""
    try:
        return store.read_set(name, None, 1)
    except FeedError as error:
        return error.code


# Each method that reads, with arguments that find something in a store with a plant 1.
READ_METHODS: Final[dict[str, Callable[[Store], Any]]] = {
    "find_plants": lambda store: store.find_plants([1]),
    "list_plants": lambda store: store.list_plants(EVERYTHING._replace(has_total=True)),
    "list_tags": lambda store: store.list_tags(TagListing()),
    "read_changes": lambda store: store.read_changes(None, 1),
    "read_set": lambda store: read_set(store, "a" * 16),
    "find_token": lambda store: store.find_token(b"1"),
    "list_tokens": lambda store: store.list_tokens(),
    "scan_plants": everything,
    "count_plants": lambda store: store.count_plants(),
}
OTHER_METHODS: Final = {
    *("apply_changes", "maintain", "hand_out_ids", "keep_changes", "watch_changes", "close_set"),
    *("check_readable", "check_writable"),
    *("add_token", "revoke_token", "forget_token"),
    *("has_room_for_export", "check", "back_up", "reindex", "close"),
}


def read_all(store: Store) -> dict[str, Any]:
    """Return what each method returns that reads."""
    return {name: read(store) for name, read in READ_METHODS.items()}


class MemoryStore(SQLiteStore):
    """A store whose file is in memory. The file is deleted with the object."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None)
        weakref.finalize(self, shutil.rmtree, folder)
        super().__init__(f"{folder}/plants.db")

    @property
    def plants(self) -> dict[int, NewPlant]:
        return plants_of(self)


class Gate:
    """Lets calls wait until a test lets them go on.

    Attributes:
        asked: the arguments of the calls.
        entered: is released by each call that waits.
        let_go: is released by the test, once for each call.

    """

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

    def __call__(self, *arguments: Any) -> None:
        self.asked.append(arguments)
        self.entered.release()
        self.let_go.acquire()


class WatchedStore:
    """A store that counts the calls of its methods, and runs something before them.

    Attributes:
        calls: how often each method was called, by its name.
        before: what runs before a method, with its arguments, by its name. It may wait or raise.

    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # The writer's thread may maintain the store while a test changes plants.
        self._writing = threading.RLock()
        self.calls: Counter[str] = Counter()
        self.before: dict[str, Callable[..., None]] = {}

    def __getattr__(self, name: str) -> Any:
        found: Any = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            if name in self.before:
                self.before[name](*arguments)
            is_write = name in {"apply_changes", "maintain"}
            with self._writing if is_write else contextlib.nullcontext():
                return found(*arguments, **named)

        return call

    @property
    def plants(self) -> dict[int, NewPlant]:
        return plants_of(self._store)

    def fail(self, error: BaseException, *names: str) -> None:
        """Raise an error from these methods, until `repair` is called."""

        def fail(*_: object) -> None:
            raise error

        self.before |= dict.fromkeys(names, fail)

    def repair(self) -> None:
        self.before.clear()
