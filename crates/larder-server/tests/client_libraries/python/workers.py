"""Workers of queues, in processes of their own that end with this one."""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def start(*module, **variables):
    """Runs a module of Python with these variables in its environment; what it logs goes to stderr."""
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", *module]
    return subprocess.Popen(command, cwd=FOLDER, env=os.environ | variables, stdin=subprocess.DEVNULL, stdout=sys.stderr)
