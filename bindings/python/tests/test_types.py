"""The types that the package tells, and that the native part has what its stub says."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import larder_cache
from larder_cache import _core

PACKAGE = Path(__file__).parent.parent


def test_package_and_a_program_that_uses_it_have_no_errors_of_types(tmp_path):
    program = Path(__file__).parent / "typed_program.py"
    for words in ([], [str(program)]):
        mypy = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), *words]
        checked = subprocess.run(mypy, cwd=PACKAGE, capture_output=True, text=True, timeout=50)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_stub_names_what_the_native_part_has():
    stub = ast.parse(Path(_core.__file__).with_name("_core.pyi").read_text())
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            assert callable(getattr(_core, node.name))
        if isinstance(node, ast.ClassDef) and node.name != "Started":
            named = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            native = getattr(_core, node.name)
            has = {name for name in vars(native) if not name.startswith("__")}
            assert named - {"__new__", "__init__"} == has, node.name


def test_every_public_call_is_documented():
    for kind in (larder_cache.Cache, larder_cache.View, larder_cache.Load, larder_cache.BulkLoad):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_") and callable(member):
                assert inspect.getdoc(member), f"{kind.__name__}.{name}"
