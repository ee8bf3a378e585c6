"""The agent's program as it is delivered: its source, with a digest, and a shorter form for user data.

The program of the all-reduce, which VMs of a group fetch, is delivered as its source alone.
"""

import ast
import hashlib
import threading
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("gpulease_agent.py")
_HEAD = """#!/usr/bin/python3
# gpulease's agent: reports the state and the use of this VM's GPUs, nothing else. This form has no comments.
# What leaves the VM is in docs/gpu-agent.md of gpulease. `gpulease-agent show` prints it.
"""


@cache
def source() -> bytes:
    """The file as it is. The API serves it, whatever version of Python runs the API."""
    return _FILE.read_bytes()


@cache
def digest() -> str:
    """SHA-256 of `source`, hexadecimal."""
    return hashlib.sha256(source()).hexdigest()


@cache
def all_reduce_source() -> bytes:
    """The program that the members of a group run once, as the API serves it."""
    return _FILE.with_name("gpulease_allreduce.py").read_bytes()


@cache
def all_reduce_digest() -> str:
    """SHA-256 of `all_reduce_source`, hexadecimal."""
    return hashlib.sha256(all_reduce_source()).hexdigest()


def short(*, benchmark: bool) -> str:
    """The program without docstrings, annotations and comments, ASCII: two thirds of the bytes, compressed.

    Without `benchmark` the functions that measure are left out.
    """
    with _SHORTENING:
        return _short(benchmark=benchmark)


_SHORTENING = threading.Lock()
"""The first launches of a process come in many threads. One of them shortens the program, and the others wait."""


@cache
def _short(*, benchmark: bool) -> str:
    tree = ast.parse(source())
    if not benchmark:
        tree.body = [node for node in tree.body if not _measures(node)]
    return _HEAD + shortened(tree)


def shortened(tree: ast.Module) -> str:
    """The code without docstrings, annotations and comments, ASCII. Changes `tree`."""
    lines = ast.unparse(ast.fix_missing_locations(_Shortener().visit(tree))).splitlines()
    # strings with line breaks are escaped by now, so that each line's indentation is the code's
    narrow = (" " * ((len(line) - len(line.lstrip(" "))) // 4) + line.lstrip(" ") for line in lines if line.strip())
    return "\n".join(narrow) + "\n"


def _measures(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith("measure")


class _Shortener(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> Any:
        self.generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            statements = [statement for statement in body if not _is_text(statement)]
            node.body = statements or [ast.Pass()]  # pyrefly: ignore[missing-attribute]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.ImportFrom) and node.module in ("__future__", "typing"):
            return None  # annotations alone use them
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            return ast.copy_location(ast.Assign([node.target], node.value), node)
        return node


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
