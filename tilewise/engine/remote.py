"""A value that workers hold, seen from the driver. In: a cluster, a key, a type, a layout. Out: a Source."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise import events
from tilewise.ir.order import Order
from tilewise.layout import Box, Layout, OnDriver, local_dims
from tilewise.store.arrays import ArraySink
from tilewise.store.base import Source, check_box

if TYPE_CHECKING:
    from tilewise.engine.cluster import Cluster

ND = np.ndarray[Any, Any]


class Remote(Source):
    """A value that workers hold. Dropping the last reference frees it there."""

    opened_by_workers = False  # by none but those that have it
    on_workers = True

    def __init__(
        self,
        cluster: Cluster,
        key: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        order: Order,
        layout: Layout,
        on_disk: bool,
        told: dict[int, Any] | None = None,
    ) -> None:
        self.cluster = cluster
        self.key = key
        self.shape = shape
        self.dtype = dtype
        self.order = order
        self.layout = layout
        self.copies: list[Remote] = []  # of the same value, in other layouts
        self.spare = False  # a copy of something that can be had again
        self.dropped = False  # a spare copy that had to go
        self.on_disk = on_disk  # in files of the workers
        # By key: the value itself, where it is small (`Report.told`).
        self.told: dict[int, Any] = {} if told is None else told
        cluster.values.add(self)

    def __del__(self) -> None:
        if self.key:
            self.cluster.release(self.key)

    @property
    def chunks(self) -> tuple[int, ...]:  # type: ignore[override]
        """The box of a worker's block."""
        return tuple([max(n, 1) for n in local_dims(self.layout, self.shape, self.cluster.mesh)])

    def become(self, other: Remote) -> None:
        """Stand for the same value as another, which is held in another layout; what was held goes."""
        self.cluster.release(self.key)
        self.cluster.values.discard(other)
        self.key, self.layout, self.on_disk, self.told = other.key, other.layout, other.on_disk, other.told
        other.key = 0  # no handle on anything any more

    def as_copy(self) -> Remote:
        """The same, known as one that may be dropped."""
        self.spare = True
        return self

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that it takes up on the worker that holds most."""
        if self.on_disk:
            return 0
        return math.prod(local_dims(self.layout, self.shape, self.cluster.mesh)) * int(self.dtype.itemsize)

    def fingerprint(self) -> Hashable:
        """Which value of which cluster: it has no other name."""
        return "value on workers", id(self.cluster), self.key

    def layout_on(self, cluster: object) -> Layout:
        """Its layout on its own cluster; for others it comes from the driver."""
        return self.layout if cluster is self.cluster else OnDriver()

    def copies_on(self, cluster: object) -> list[Any] | None:
        """Its copies in other layouts."""
        return self.copies if cluster is self.cluster else None

    def read(self, box: Box, out: ND | None = None) -> ND:
        """A part of it on the driver."""
        check_box(box, self.shape, self.dtype, out)
        return self.cluster.read(self, box, out)

    def whole(self) -> ND:
        """All of it on the driver."""
        before, began = (self.cluster.counters.network_bytes if events.listeners else 0), time.perf_counter()
        nd: ND = self.cluster.gather(self, ArraySink(self.shape, self.dtype, self.order))
        if events.listeners:
            moved = self.cluster.counters.network_bytes - before
            events.emit(events.Event("gather", "result", began, time.perf_counter(), moved))
        return nd
