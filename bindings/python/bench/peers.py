"""A cache of Python over Redis that `larder-bench run stale` judges: each program is one node.

    python3 peers.py cashews    cashews with its client-side cache

It obeys the lines `open`, `fetch`, `read`, `write` and `delete` of bindings/interop/protocol.md. Keys and values are plain words.
"""

import asyncio
import logging
import os
import sys
import threading
import urllib.parse

from cashews import Cache

TTL = 3600


class Node:
    def __init__(self, loop):
        self.loop = loop
        self.loading = {}
        self.cache = Cache()

    async def call(self, name, number, *words):
        if name == "open":
            self.cache.setup(words[0], client_side=True)
            await self.cache.init()
            return ""
        key = words[0]
        if name == "read":
            return word(await self.cache.get(key))
        if name == "write":
            await self.cache.set(key, words[1][1:], expire=TTL)
            return "yes"
        if name == "delete":
            await self.cache.delete(key)
            return "yes yes"

        @self.cache(ttl=TTL, key=key, lock=True)
        async def load():
            self.loading[number] = self.loop.create_future()
            say("loading", number, key)
            return await self.loading[number]

        return word(await load())

    def receive(self, line):
        name, number, *words = line.rstrip("\n").split(" ")
        if name == "loaded":
            self.loading.pop(number).set_result(words[0][1:])
        else:
            self.loop.create_task(self.answer(name, number, words))

    async def answer(self, name, number, words):
        try:
            say("done", number, await self.call(name, number, *words))
        except Exception as error:
            say("failed", number, "other", urllib.parse.quote(repr(error)))


def word(value):
    return "-" if value is None else f"t{value}"


def say(*words):
    print(*words, flush=True)


def main():
    # It logs each connection that the experiments end.
    logging.disable(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    node = Node(loop)

    def read_lines():
        for line in sys.stdin:
            loop.call_soon_threadsafe(node.receive, line)
        os._exit(0)

    say("ready")
    threading.Thread(target=read_lines, daemon=True).start()
    loop.run_forever()


if __name__ == "__main__":
    main()
