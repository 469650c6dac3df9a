"""The figures in a registry of the host."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from larder_cache.prometheus import Collector


def samples(registry):
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def test_registry_has_the_figures_of_tiers_and_coherence(make_cache, namespace):
    cache, memory = make_cache(), make_cache(redis=None, memory_bytes="1MiB")
    registry = CollectorRegistry()
    registry.register(Collector(cache))
    view = cache.view("value")
    view.fetch("k", lambda: 1)
    view.fetch("k", lambda: 1)
    with pytest.raises(ValueError):
        view.fetch("l", lambda: int("x"))
    found, part = samples(registry), f'part="{namespace}"'
    assert found[f'larder_tier_lookups_total{{outcome="hit",{part},tier="memory"}}'] == 1
    assert found[f'larder_tier_lookups_total{{outcome="miss",{part},tier="redis"}}'] == 2
    assert found[f'larder_tier_operations_total{{operation="load",{part},tier="origin"}}'] == 1
    assert found[f'larder_tier_operations_total{{operation="failure",{part},tier="origin"}}'] == 1
    assert found[f'larder_tier_entries{{{part},tier="memory"}}'] == 1
    assert found[f"larder_coherent{{{part}}}"] == 1
    assert found[f"larder_pending_invalidations{{{part}}}"] == 0
    alone = CollectorRegistry()
    alone.register(Collector(memory))
    assert samples(alone)[f'larder_tier_capacity_bytes{{{part},tier="memory"}}'] == 1 << 20
    assert not any(name.startswith("larder_coherent") for name in samples(alone))


def test_closed_cache_has_no_figures(make_cache, memory):
    closed = make_cache()
    closed.close()
    registry = CollectorRegistry()
    registry.register(Collector(closed, memory))
    assert sum(name.startswith("larder_tier_entries{") for name in samples(registry)) == 1


def test_names_are_those_of_the_metrics_of_rust():
    """The page of a program in Rust has the same families, so one board shows all languages."""
    from pathlib import Path

    sources = Path(__file__).parents[3] / "crates/larder-admin/src"
    rust = "".join(path.read_text() for path in sources.rglob("*.rs"))
    for name in ("tier_lookups_total", "tier_operations_total", "tier_entries", "tier_bytes", "tier_capacity_bytes"):
        assert f'"larder_{name}"' in rust
    for name in ("coalesced", "refused_loads", "stale_answers", "coherent", "pending_invalidations"):
        assert f'"{name}"' in rust
    for outcome in ("hit", "miss", "unreadable", "error"):
        assert f'("{outcome}"' in rust, outcome
