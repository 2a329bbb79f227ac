"""What is measured without running anything: sizes, imports, names and protocols."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from tools.house.tree import Module, SourceTree

FIELDS = ("priority", "serial_key", "run_timeout")
SMALL = 40

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


@dataclass(frozen=True)
class Figures:
    python_files: int
    sql_files: int
    lines: int
    import_share: float
    median_function: float
    docstring_share: float
    small_modules: list[str]
    """Modules under 40 lines that one other module imports."""
    repeated_classes: list[str]
    single_protocols: list[str]
    """Protocols that one class of the tree implements."""
    field_files: dict[str, int]
    """For each submission field, the number of files that name it."""


def measure(tree: SourceTree) -> Figures:
    lines = sum(module.lines for module in tree.modules)
    functions = [_length(node) for module in tree.modules for node in ast.walk(module.tree) if isinstance(node, Function)]
    return Figures(
        python_files=tree.count(".py"),
        sql_files=tree.count(".sql"),
        lines=lines,
        import_share=sum(map(import_lines, tree.modules)) / max(lines, 1),
        median_function=median(functions or [0]),
        docstring_share=sum(map(docstring_lines, tree.modules)) / max(lines, 1),
        small_modules=small_modules(tree),
        repeated_classes=repeated_classes(tree),
        single_protocols=single_protocols(tree),
        field_files={name: files_that_name(tree, name) for name in FIELDS},
    )


def import_lines(module: Module) -> int:
    """Lines of import statements, wherever they stand. `from __future__` switches the compiler and imports nothing."""
    return sum(_length(node) for node in _imports(module) if getattr(node, "module", None) != "__future__")


def docstring_lines(module: Module) -> int:
    return sum(_docstring(node) for node in ast.walk(module.tree) if isinstance(node, Documented))


def files_that_name(tree: SourceTree, submission_field: str) -> int:
    """Files of any kind: Python, SQL, pages. On the wire and in tables a duration ends in `_seconds`."""
    pattern = re.compile(rf"\b{submission_field}(_seconds)?\b")
    return sum(pattern.search(path.read_text()) is not None for path in tree.files)


def small_modules(tree: SourceTree) -> list[str]:
    """A package's `__init__` and `__main__` have their places, however small they are."""
    importers = importers_by_module(tree)
    candidates = (module for module in tree.modules if module.lines < SMALL and not module.path.stem.startswith("__"))
    return sorted(module.name for module in candidates if len(importers[module.name]) == 1)


def importers_by_module(tree: SourceTree) -> Mapping[str, set[str]]:
    """A module that is loaded by its name in a string (`"cortex_plane.plane"`, `"cortex_plane.cli:main"`) is imported too."""
    known = {module.name for module in tree.modules}
    importers = defaultdict(set)
    for module in tree.modules:
        for target in _targets(module, known) - {module.name}:
            importers[target].add(module.name)
    return importers


def repeated_classes(tree: SourceTree) -> list[str]:
    counts = Counter(node.name for module in tree.modules for node in _classes(module))
    return sorted(name for name, count in counts.items() if count > 1)


def single_protocols(tree: SourceTree) -> list[str]:
    """Protocols with exactly one class that inherits from them, or has all their members with the same parameters.

    Protocols that only have `__call__` are left out: any function may implement them."""
    shapes = {shape.name: shape for module in tree.modules for shape in _shapes(module)}
    protocols = [shape for shape in shapes.values() if shape.is_protocol and set(_members(shape, shapes)) - {"__call__"}]
    classes = [shape for shape in shapes.values() if not shape.is_protocol]
    single = (protocol for protocol in protocols if sum(_implements(each, protocol, shapes) for each in classes) == 1)
    return sorted(protocol.name.rpartition(".")[2] for protocol in single)


Members = Mapping[str, frozenset[str] | None]
"""The members of a class: methods with the names of their parameters, attributes with None."""


@dataclass(frozen=True)
class _Shape:
    """A class by its full name: what it inherits from, and the members that it defines."""

    name: str
    bases: frozenset[str]
    members: Members

    @property
    def is_protocol(self) -> bool:
        return not self.bases.isdisjoint({"typing.Protocol", "typing_extensions.Protocol"})


def _shapes(module: Module) -> Iterator[_Shape]:
    imported = dict(_imported_names(module))
    for node in _classes(module):
        written = map(_last_name, node.bases)
        bases = frozenset(imported.get(base, f"{module.name}.{base}") for base in written)
        yield _Shape(f"{module.name}.{node.name}", bases, _defined(node))


def _imported_names(module: Module) -> Iterator[tuple[str, str]]:
    for node in _imports(module):
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                yield alias.asname or alias.name, f"{_origin(node, module.package)}.{alias.name}"


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Subscript(value=value):
            return _last_name(value)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _defined(node: ast.ClassDef) -> Members:
    """Attributes that methods set on `self`, attributes of the class, methods, and other names for methods."""
    stored = (inner for inner in ast.walk(node) if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store))
    found: dict[str, frozenset[str] | None] = {inner.attr: None for inner in stored if _last_name(inner.value) == "self"}
    for part in node.body:
        match part:
            case ast.FunctionDef(name=name, args=args) | ast.AsyncFunctionDef(name=name, args=args):
                found[name] = (
                    None if _is_property(part) else frozenset(each.arg for each in args.args + args.kwonlyargs) - {"self"}
                )
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = None
            case ast.Assign(targets=targets, value=value):
                found.update((_last_name(target), found.get(_last_name(value))) for target in targets)
            case _:
                pass
    return found


def _parameters(args: ast.arguments) -> frozenset[str]:
    """Those that callers may pass by name. Others may have another name in each implementation."""
    return frozenset(each.arg for each in args.args + args.kwonlyargs) - {"self"}


def _is_property(function: Function) -> bool:
    return any(_last_name(decorator) in {"property", "cached_property"} for decorator in function.decorator_list)


def _lineage(shape: _Shape, shapes: Mapping[str, _Shape]) -> Iterator[_Shape]:
    yield shape
    for base in sorted(shape.bases & shapes.keys() - {shape.name}):
        yield from _lineage(shapes[base], shapes)


def _members(shape: _Shape, shapes: Mapping[str, _Shape]) -> Members:
    """A class's own members hide those of its bases."""
    found: Members = {}
    for each in _lineage(shape, shapes):
        found = {**each.members, **found}
    return found


def _implements(shape: _Shape, protocol: _Shape, shapes: Mapping[str, _Shape]) -> bool:
    if any(protocol.name in each.bases for each in _lineage(shape, shapes)):
        return True
    members = _members(shape, shapes)
    wanted = _members(protocol, shapes)
    return wanted.keys() <= members.keys() and all(_accepts(members[name], takes) for name, takes in wanted.items())


def _accepts(own: frozenset[str] | None, wanted: frozenset[str] | None) -> bool:
    return wanted is None or (own is not None and wanted <= own)


def _targets(module: Module, known: set[str]) -> set[str]:
    return {target for node in ast.walk(module.tree) for target in _named(node, module.package, known)} & known


def _named(node: ast.AST, package: str, known: set[str]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(names=names):
            origin = _origin(node, package)
            inner = [f"{origin}.{alias.name}" for alias in names]
            yield from (name if name in known else origin for name in inner)
        case ast.Constant(value=str(text)):
            yield text.partition(":")[0]
        case _:
            pass


def _origin(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])


def _imports(module: Module) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom))


def _classes(module: Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef))


def _docstring(node: Documented) -> int:
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str())) as text, *_]:
            return _length(text)
        case _:
            return 0


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
