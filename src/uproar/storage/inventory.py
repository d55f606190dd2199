"""Inventory of a store: results by kind, damaged files, and leftovers.

>>> from uproar.storage.store import Item, Store
>>> store = Store("memory://inventory")
>>> store.write("cell", "ab12", Item({}, {"accuracy": 0.5}))
>>> inventory = verify_store(store)
>>> list(inventory.items), inventory.damaged
([('cell', 'ab12')], {})
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from uproar.errors import Absent, Damaged
from uproar.storage.backends import UNFINISHED
from uproar.storage.itemfile import Outdated
from uproar.storage.store import DAMAGED, MARKER, OUTDATED, SUFFIX, Store

_ITEM = re.compile(r"(?P<kind>[^/.]+)/(?P<start>[^/]{1,2})/(?P<key>[^/.]+)(?P<suffix>\.[a-z]+)")
_HIDDEN = re.compile(rf"[^/.]+/[^/]{{1,2}}/\.[^/.]+\{SUFFIX}\.[^/]+")
"""Unfinished files of an earlier version."""


@dataclass(frozen=True)
class Inventory:
    """The files of a store; names are below its root."""

    items: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Results, by kind and key, with their bytes; sound ones where they were verified."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Files that are not the result whose name they bear, with the reason; only where they were verified."""
    outdated: Mapping[str, int] = field(default_factory=dict)
    """Files of an older format, which this version does not read."""
    leftovers: Mapping[str, int] = field(default_factory=dict)
    """Files that were set aside, or that a killed process left unfinished, with their bytes."""

    def kinds(self) -> dict[str, tuple[int, int]]:
        """Files and bytes of the results, by kind."""
        sums: dict[str, tuple[int, int]] = {}
        for (kind, _), size in self.items.items():
            files, total = sums.get(kind, (0, 0))
            sums[kind] = files + 1, total + size
        return dict(sorted(sums.items()))


def list_store(store: Store) -> Inventory:
    """What is there, by name alone; files that no store writes are not looked at."""
    items, leftovers = {}, {}
    for name, size in store.backend.sizes().items():
        match = _ITEM.fullmatch(name)
        if name == MARKER:
            continue
        if name.startswith(f"{UNFINISHED}/") or _HIDDEN.fullmatch(name):
            leftovers[name] = size
        elif match and match["key"].startswith(match["start"]):
            if match["suffix"] == SUFFIX:
                items[match["kind"], match["key"]] = size
            elif match["suffix"] in (DAMAGED, OUTDATED):
                leftovers[name] = size
    return Inventory(items, leftovers=leftovers)


def verify_store(store: Store, listen: Callable[[int, int], None] = lambda *_: None) -> Inventory:
    """What is there, every byte of every result verified; nothing is changed. `listen(done, total)` counts files."""
    every = list_store(store)
    sound, outdated = {}, {}
    damaged = {MARKER: "does not match its digest"} if store.marker_damaged else {}
    for done, ((kind, key), size) in enumerate(every.items.items(), 1):
        name = store.name(kind, key)
        try:
            store.read(kind, key)
            sound[kind, key] = size
        except Absent:
            pass  # another process has just moved it
        except Damaged as error:
            if isinstance(error.__cause__, Outdated):
                outdated[name] = size
            else:
                damaged[name] = str(error).removeprefix(store.backend.full(name)).strip()
        listen(done, len(every.items))
    return Inventory(sound, damaged, outdated, every.leftovers)


def set_aside(store: Store, inventory: Inventory) -> None:
    """Take the damaged files out of the way, so that whoever needs them makes them again; a marker is overwritten."""
    for name in inventory.damaged.keys() - {MARKER}:
        store.backend.set_aside(name, name.removesuffix(SUFFIX) + DAMAGED)


def copy_results(sources: Sequence[Store], target: Store, listen: Callable[[int, int], None] = lambda *_: None) -> None:
    """Copy every sound result of some stores into another that lacks it; a damaged one is made again when needed."""
    there = list_store(target).items
    items = {item: store for store in reversed(sources) for item in list_store(store).items if item not in there}
    for done, ((kind, key), store) in enumerate(items.items(), 1):
        for source in (store, *sources):  # another store may have it sound
            try:
                target.write(kind, key, source.read(kind, key))
                break
            except (Absent, Damaged):
                continue
        listen(done, len(items))
