"""A program whose types mypy checks. It is not run."""

from typing_extensions import assert_type

import larder_cache

cache = larder_cache.Cache("shop", ttl="5m")
prices = cache.view("price", schema=("price", 2), ttl=60)


def price() -> int:
    return 3


async def awaited_price() -> int:
    return 3


@cache.cached()
def cached_price(product: str, *, currency: str = "EUR") -> float:
    return 3.0


async def run() -> None:
    assert_type(prices.fetch("apple", price), int)
    assert_type(await prices.afetch("apple", awaited_price), int)
    assert_type(prices.fetch("apple", price, refresh_ahead=0.8), int)
    assert_type(prices.set("apple", 3), bool)
    assert_type(prices.delete("apple"), bool)
    assert_type(prices.incr("apple", initial=0), int | None)
    assert_type(prices.ttl("apple"), float | None)
    assert_type(cached_price("apple", currency="USD"), float)
    assert_type(cache.close(), int)
