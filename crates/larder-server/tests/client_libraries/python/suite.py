"""Runs cases against the server whose address is in the arguments, and prints one line of JSON for each."""

import json
import sys
import time


class Suite:
    def __init__(self, host, port):
        self.host, self.port = host, port
        self.url = f"redis://{host}:{port}"
        self._keys = 0
        self._survivors = []
        self._endings = []

    def key(self):
        """A name that no other case uses."""
        self._keys += 1
        return f"python:{self._keys}"

    def case(self, client, name, run, protocol=None):
        """Runs a case. It has passed if `run` returns."""
        started, error = time.monotonic(), None
        try:
            run()
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        self._report(client, name, protocol, started, error)

    def survives(self, client, use, protocol=None, name="restart", seconds=4):
        """Calls `use` now, and again after the restart until it succeeds: a connection that broke may cost an error."""
        self._survivors.append((client, use, protocol, name, seconds))

    def at_end(self, run):
        """Calls a function after the last case."""
        self._endings.append(run)

    def finish(self):
        """Restarts the server between two uses of each client."""
        for client, use, *_ in self._survivors:
            try:
                use()
            except Exception as failure:
                print(f"before the restart, {client}: {failure}", file=sys.stderr)
        print(json.dumps({"restart": True}), flush=True)
        assert sys.stdin.readline() == "restarted\n"
        for client, use, protocol, name, seconds in self._survivors:
            self.case(client, name, lambda: eventually(use, seconds), protocol)
        for run in self._endings:
            run()

    def _report(self, client, name, protocol, started, error):
        outcome = {"client": client, "case": name, "ms": round((time.monotonic() - started) * 1000)}
        if protocol is not None:
            outcome["protocol"] = protocol
        if error is not None:
            outcome["error"] = error
        print(json.dumps(outcome), flush=True)


def eventually(use, seconds=4):
    """Calls a function until it returns; its last error is the error."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return use()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} instead of {expected!r}")


def fails(error, run):
    """Runs a function that must raise this error."""
    try:
        run()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")
