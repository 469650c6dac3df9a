"""A node in Python that a test in Rust calls by lines: bindings/interop/protocol.md describes them.

    python3 child.py sync       each call in a thread of its own
    python3 child.py asyncio    each call in a task
"""

import asyncio
import os
import signal
import socket
import sys
import threading
from queue import SimpleQueue

from child_node import Node, loaded, updated


class ThreadNode(Node):
    """Each call blocks a thread of its own."""

    optional = " fork"

    async def do(self, target, name, *arguments, **options):
        return getattr(target, name)(*arguments, **options)

    def start(self, number, call):
        threading.Thread(target=self.run, args=(call,), daemon=True).start()

    def run(self, call):
        try:
            call.send(None)
        except StopIteration:
            pass

    def loader(self, number, keys=()):
        def run(*arguments):
            answer = SimpleQueue()
            load = self.begin(number, keys, arguments, answer)
            return loaded(answer.get(), load)

        return run

    def function(self, number):
        def run(value):
            answer = SimpleQueue()
            self.ask(number, value, answer)
            return updated(answer.get())

        return run

    def wake(self, number, answer):
        # A thread that waits in larder cannot be interrupted; one that loads can.
        if number in self.loading:
            self.loading[number].put(answer)

    async def fork(self, path):
        pid = os.fork()
        if pid == 0:
            stream = socket.socket(socket.AF_UNIX)
            stream.connect(path)
            node = ThreadNode(stream.makefile("r"), stream.makefile("w"), self.cache)
            node.view, node.numbers = self.view, self.numbers
            node.serve()
        return [str(pid)]

    def serve(self):
        for line in self.reader:
            self.receive(line)
        # Threads may be in larder, or in a loader that never returns.
        os._exit(0)


class LoopNode(Node):
    """Each call is a task of one event loop."""

    def __init__(self, reader, writer):
        super().__init__(reader, writer)
        self.loop = asyncio.new_event_loop()
        self.tasks = {}

    async def do(self, target, name, *arguments, **options):
        return await getattr(target, "a" + name)(*arguments, **options)

    def start(self, number, call):
        task = self.tasks[number] = self.loop.create_task(call)
        task.add_done_callback(lambda _: self.tasks.pop(number))

    def loader(self, number, keys=()):
        async def run(*arguments):
            answer = self.loop.create_future()
            load = self.begin(number, keys, arguments, answer)
            return loaded(await answer, load)

        return run

    def function(self, number):
        async def run(value):
            answer = self.loop.create_future()
            self.ask(number, value, answer)
            return updated(await answer)

        return run

    def wake(self, number, answer):
        if answer[0] == "cancel" and number in self.tasks:
            self.tasks[number].cancel()
        elif number in self.loading and not self.loading[number].done():
            self.loading[number].set_result(answer)

    def serve(self):
        def read_lines():
            for line in self.reader:
                self.loop.call_soon_threadsafe(self.receive, line)
            os._exit(0)

        threading.Thread(target=read_lines, daemon=True).start()
        self.loop.run_forever()


def main():
    # Nobody waits for the forks of this process.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    node = {"sync": ThreadNode, "asyncio": LoopNode}[sys.argv[1]](sys.stdin, sys.stdout)
    node.say("ready" + node.optional)
    node.serve()


if __name__ == "__main__":
    main()
