"""Small changes of source text, each of which a test should notice, and a draw of them that a seed determines.

| operator | change |
|---|---|
| arithmetic | + and - exchanged, * and / exchanged, //, % and ** made * |
| comparison | < and <= exchanged, > and >= exchanged, ==, in and is negated |
| constant | a number one more or one less |
| condition | a condition negated, ``and`` and ``or`` exchanged |
| statement | a call, an update or an assignment to a part of something left out; break and continue exchanged |
| return | a truth value negated, the first two of a tuple exchanged, a number or an array with its sign changed |
| arguments | the first two arguments exchanged |
| keyword | one keyword argument left out |
| minus | a minus sign left out |
| axis | another axis |

Docstrings, texts, error messages, warnings, annotations, imports, decorators, assertions and what is for display alone
stay as they are. A mutant's place in the draw depends on its own line, function and file, so that a change elsewhere
moves no other mutant.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from operator import itemgetter
from pathlib import Path

from tests.campaigns.mutating.runs import SOURCE

#: Files by room, and the share of the draw that each room has.
ROOMS: dict[str, tuple[tuple[str, ...], int]] = {
    "inference": (("inference/**/*.py",), 54),
    "objective": (("objective/**/*.py",), 46),
    "solvers": (("solvers/*.py",), 20),
    "basis": (("basis/*.py",), 18),
    "kernels": (("kernels/*.py",), 24),
    "families": (("families/*.py",), 18),
    "posterior": (("posterior/**/*.py",), 14),
    "uncertainty": (("uncertainty/*.py",), 6),
    "numerics": (("numerics/*.py",), 14),
    "engines": (("engines/*.py",), 12),
    "engines/torch": (("engines/torch/*.py",), 26),
    "engines/together": (("engines/together/*.py", "engines/dask/*.py"), 22),
    "structure": (("models/structure.py", "models/label_graph.py"), 12),
    "models": (("models/fit.py", "models/build.py"), 14),
}
#: Compiled for a CUDA device alone: where there is none, no test can run it.
NEEDS_A_DEVICE = "triton_kernels.py"

_ARITHMETIC: dict[type, type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
_COMPARISONS: dict[type, type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_FOR_DISPLAY = {"__repr__", "__str__", "_repr_html_", "describe", "description", "summary"}
_UNORDERED = {"max", "min", "maximum", "minimum", "logaddexp", "isinstance", "issubclass", "getattr", "hasattr", "cast"}
_AXES = {"axis", "dim"}
_TEXTS = (ast.JoinedStr, ast.Tuple, ast.List)


@dataclass(frozen=True)
class Mutant:
    """One change of one file: the text between two places of the source replaced."""

    file: str
    line: int
    function: str
    operator: str
    source_line: str
    before: str
    after: str
    start: int
    end: int
    replacement: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What the mutant is called when line numbers have moved."""
        return self.file, self.source_line, self.operator, self.after

    def applied(self, text: str) -> str:
        """The mutated text of the file."""
        data = text.encode()
        return (data[: self.start] + self.replacement.encode() + data[self.end :]).decode()

    def record(self) -> dict:
        """What the result file keeps."""
        kept = asdict(self)
        return {name: kept[name] for name in ("file", "line", "function", "operator", "source_line", "before", "after")}


class _Finder(ast.NodeVisitor):
    """Walks over a file and collects its mutants."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.lines = text.splitlines()
        starts = [0]
        for line in text.encode().splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self.starts = starts
        self.functions: list[str] = []
        self.within_function = 0
        self.assigned: list[set[str]] = []
        self.found: list[Mutant] = []

    def add(self, node: ast.expr | ast.stmt, operator: str, after: str) -> None:
        """Note a mutant that writes something else where a node is."""
        start = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        replacement = f"({after})" if isinstance(node, ast.expr) else after
        before, source_line = ast.unparse(node), self.lines[node.lineno - 1].strip()
        name = ".".join(self.functions)
        if before != after:
            self.found.append(
                Mutant(self.file, node.lineno, name, operator, source_line, before, after, start, end, replacement)
            )

    # What is left alone.

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in [*node.defaults, *node.kw_defaults]:
            if default is not None:
                self.visit(default)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.functions.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.functions.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in _FOR_DISPLAY:
            return
        self.functions.append(node.name if not self.within_function else f"<locals>.{node.name}")
        self.within_function += 1
        self.assigned.append(set())
        self.visit(node.args)
        for statement in node.body:
            self.visit(statement)
        self.assigned.pop()
        self.within_function -= 1
        self.functions.pop()

    # What is changed.

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = any(
            isinstance(side, _TEXTS) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
        )
        if type(node.op) in _ARITHMETIC and not texts:
            self.add(node, "arithmetic", ast.unparse(ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)))
        if not (isinstance(node.op, ast.Mod) and texts):
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in _ARITHMETIC:
            changed = ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
            self.add(node, "arithmetic", ast.unparse(changed))
        self.add(node, "statement", "pass")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, operation in enumerate(node.ops):
            if type(operation) in _COMPARISONS:
                changed = [*node.ops]
                changed[place] = _COMPARISONS[type(operation)]()
                self.add(node, "comparison", ast.unparse(ast.Compare(node.left, changed, node.comparators)))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) in (int, float):
            text = repr(node.value)
            self.add(node, "constant", repr(node.value + (1 if _hash(self.file, node.lineno, text) % 2 else -1)))

    def negated(self, test: ast.expr) -> None:
        """Note the mutant of a condition."""
        inner = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else None
        plain = isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Eq, ast.NotEq, ast.Is, ast.IsNot))
        if not (plain or isinstance(test, ast.Constant)):  # such a comparison is negated already
            self.add(test, "condition", ast.unparse(inner) if inner else f"not ({ast.unparse(test)})")

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        self.negated(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.negated(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self.negated(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.negated(test)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self.add(node, "condition", ast.unparse(ast.BoolOp(other, node.values)))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if not _only_says(node.value):
            if self.within_function:
                self.add(node, "statement", "pass")
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        if self.within_function:
            parts = all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets)
            parts = parts and self.functions[-1] != "__init__"  # nothing could be read that was never written
            again = all(isinstance(target, ast.Name) for target in node.targets) and names <= self.assigned[-1]
            if parts or again:
                self.add(node, "statement", "pass")
            self.assigned[-1] |= names
        if names != {"__all__"}:
            self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self.add(node, "statement", "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.add(node, "statement", "break")

    def visit_Return(self, node: ast.Return) -> None:
        value = node.value
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            return
        if isinstance(value, (ast.Compare, ast.BoolOp)) or isinstance(getattr(value, "value", None), bool):
            self.add(node, "return", f"return not ({ast.unparse(value)})")
        elif isinstance(value, ast.Tuple) and len(value.elts) > 1:
            first, second, *others = value.elts
            changed = ast.Tuple([second, first, *others], ast.Load())
            self.add(node, "return", f"return {ast.unparse(changed)}")
        elif _may_be_a_number(value):
            self.add(node, "return", f"return -({ast.unparse(value)})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub):
            self.add(node, "minus", ast.unparse(node.operand))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _only_says(node):
            return
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        plain = len(node.args) > 1 and not any(isinstance(argument, ast.Starred) for argument in node.args[:2])
        if plain and name not in _UNORDERED:
            first, second, *others = node.args
            self.add(node, "arguments", ast.unparse(ast.Call(node.func, [second, first, *others], node.keywords)))
        for place, keyword in enumerate(node.keywords):
            if keyword.arg not in (None, "strict", "repr", "say"):  # an assertion of zip, displays
                others = [*node.keywords[:place], *node.keywords[place + 1 :]]
                self.add(node, "keyword", ast.unparse(ast.Call(node.func, node.args, others)))
            if keyword.arg in _AXES and isinstance(axis := _number(keyword.value), int):
                self.add(keyword.value, "axis", repr({0: 1, 1: 0, -1: 0}.get(axis, axis - 1)))
        for part in (node.func, *node.args, *(keyword.value for keyword in node.keywords if keyword.arg not in _AXES)):
            self.visit(part)


def _number(node: ast.expr) -> object:
    """Return the value of a number with its sign, None for anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if isinstance(node.operand.value, int) else None
    return node.value if isinstance(node, ast.Constant) else None


def _may_be_a_number(node: ast.expr) -> bool:
    """Whether an expression may have a sign: no text, no collection, nothing that a class builds."""
    if isinstance(node, ast.Call):
        return not getattr(node.func, "attr", getattr(node.func, "id", "")).lstrip("_")[:1].isupper()
    return isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Name, ast.Attribute, ast.Subscript))


def _only_says(node: ast.expr) -> bool:
    """Whether a call writes a warning or a line of a log."""
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return called in {"warnings.warn", "warn", "announce"} or called.startswith(("logger.", "logging.", "log."))


def _hash(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:8], "big")


def mutants_of(checkout: Path, file: Path) -> list[Mutant]:
    """Return all mutants of a file that still are Python, one per change."""
    text = (checkout / file).read_text(encoding="utf-8")
    finder = _Finder(file.as_posix(), text)
    finder.visit(ast.parse(text))
    return finder.found


def _files(checkout: Path, room: str, names: list[str] | None, device: bool) -> Iterator[Path]:
    for pattern in ROOMS[room][0]:
        for path in sorted((checkout / SOURCE).glob(pattern)):
            file = path.relative_to(checkout)
            if path.name == NEEDS_A_DEVICE and not device:
                continue
            if names is None or any(file.as_posix().endswith(name) for name in names):
                yield file


def draw(checkout: Path, count: int, seed: int, names: list[str] | None = None, device: bool = False) -> list[Mutant]:
    """Draw mutants, at most one of a line, each room with its share."""
    found: dict[str, list[tuple[int, Mutant]]] = {}
    for room in ROOMS:
        found[room] = []
        for file in _files(checkout, room, names, device):
            occurrences: Counter = Counter()
            lines: dict[int, tuple[int, Mutant]] = {}
            for mutant in mutants_of(checkout, file):
                occurrences[mutant.function, mutant.key] += 1
                place = _hash(seed, mutant.function, *mutant.key, occurrences[mutant.function, mutant.key])
                lines[mutant.line] = min(
                    lines.get(mutant.line, (place, mutant)), (place, mutant), key=lambda one: one[0]
                )
            found[room] += lines.values()
    quotas = _quotas({room: len(mutants) for room, mutants in found.items()}, count)
    by_place = itemgetter(0)
    return [mutant for room, each in found.items() for _, mutant in sorted(each, key=by_place)[: quotas[room]]]


def _quotas(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Divide a number among rooms by their shares, none beyond what it has."""
    quotas: dict[str, int] = defaultdict(int)
    open_rooms = {room for room, size in sizes.items() if size}
    while open_rooms and (left := count - sum(quotas.values())) > 0:
        whole = sum(ROOMS[room][1] for room in open_rooms)
        parts = {room: Fraction(left * ROOMS[room][1], whole) for room in sorted(open_rooms)}
        largest = max(parts, key=lambda room: parts[room])
        for room, part in parts.items():
            quotas[room] += min(sizes[room] - quotas[room], max(int(part), int(room == largest and part < 1)))
        open_rooms = {room for room in open_rooms if quotas[room] < sizes[room]}
    return quotas
