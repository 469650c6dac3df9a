"""The figures of caches in the registry of ``prometheus_client``, with the names that larder's own page of metrics has.

    from prometheus_client import REGISTRY
    from larder_cache.prometheus import Collector

    REGISTRY.register(Collector(cache))

Each process has its own figures: one that forks workers collects those of each worker, as with all counters of Python.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ._cache import Cache
from ._errors import CacheClosed

#: The totals of a cache: the name, the member of `stats()`, and what it counts.
_TOTALS = [
    ("coalesced", "coalesced", "Fetches that waited for the load of another caller."),
    ("refused_loads", "refused", "Loads whose result was not stored because of an invalidation."),
    ("stale_answers", "stale", "Stale values served because a load failed or was slow."),
]


class Collector:
    """Collects the figures of caches. The label ``part`` is the namespace of each."""

    def __init__(self, *caches: Cache) -> None:
        self._caches = caches

    def describe(self) -> list[Metric]:
        """Nothing: to register a collector starts no cache."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The figures of now. A cache that no call has needed yet is started, and one that is closed has none."""
        caches = []
        for cache in self._caches:
            with contextlib.suppress(CacheClosed):
                caches.append((cache.namespace, cache.stats(), cache.coherence()))
        yield from _tiers([(part, stats) for part, stats, _ in caches])
        for name, member, text in _TOTALS:
            total = CounterMetricFamily(f"larder_{name}", text, labels=["part"])
            for part, stats, _ in caches:
                total.add_metric([part], stats[member])
            yield total
        yield from _coherence([(part, coherence) for part, _, coherence in caches])


def _tiers(caches: list[tuple[str, dict[str, Any]]]) -> Iterator[Metric]:
    lookups = CounterMetricFamily("larder_tier_lookups", "Lookups by outcome.", labels=["part", "tier", "outcome"])
    operations = CounterMetricFamily("larder_tier_operations", "Operations by name.", labels=["part", "tier", "operation"])
    gauges = {
        "entries": GaugeMetricFamily("larder_tier_entries", "Entries in the tier.", labels=["part", "tier"]),
        "bytes": GaugeMetricFamily("larder_tier_bytes", "Bytes in the tier.", labels=["part", "tier"]),
        "capacity": GaugeMetricFamily(
            "larder_tier_capacity_bytes", "Maximum number of bytes in the tier.", labels=["part", "tier"]
        ),
    }
    for part, stats in caches:
        for tier in ("memory", "redis"):
            if stats[tier] is None:
                continue
            for outcome, member in (("hit", "hits"), ("miss", "misses"), ("unreadable", "unreadable"), ("error", "errors")):
                lookups.add_metric([part, tier, outcome], stats[tier][member])
            for member, gauge in gauges.items():
                if stats[tier][member] is not None:
                    gauge.add_metric([part, tier], stats[tier][member])
        for operation, member in (("load", "loads"), ("failure", "load_failures")):
            operations.add_metric([part, "origin", operation], stats[member])
    yield lookups
    yield operations
    yield from gauges.values()


def _coherence(caches: list[tuple[str, dict[str, Any]]]) -> Iterator[Metric]:
    coherent = GaugeMetricFamily(
        "larder_coherent",
        "1 if this process has what others invalidated, or has not needed Redis yet; 0 if it may miss some.",
        labels=["part"],
    )
    pending = GaugeMetricFamily(
        "larder_pending_invalidations",
        "Invalidations that are done in this process and not yet confirmed by Redis.",
        labels=["part"],
    )
    for part, coherence in caches:
        if coherence["mode"] != "memory":
            not_needed_yet = coherence["mode"] == "unknown" and coherence["problem"] is None
            coherent.add_metric([part], coherence["mode"] == "full" or not_needed_yet)
            pending.add_metric([part], coherence["pending_invalidations"])
    yield coherent
    yield pending
