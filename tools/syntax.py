"""What the code of a cell says, read from its syntax tree: names, calls, constants, assertions.

Nothing is run. Where syntax alone cannot decide, the functions say so in their first sentence.
"""

import ast
import builtins
import operator

ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef)


def tree(source):
    """Return the syntax tree of a cell; one that is no Python (an announced error) is empty."""
    try:
        return ast.parse(source)
    except SyntaxError:
        return ast.Module([], [])


def dotted(node):
    """Return a name as it is written, `audit.assert_law`, or an empty string for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    owner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{owner}.{node.attr}" if owner else ""


def calls(node, *names):
    """Return the calls of functions with these dotted names; `audit.*` is all that begin so."""
    found = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
    return [call for call in found if any(_matches(dotted(call.func), name) for name in names)]


def _matches(name, pattern):
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def keyword(call, name):
    """Return the value of a keyword argument, or None."""
    return next((word.value for word in call.keywords if word.arg == name), None)


def loads(node):
    """Return the names that are read anywhere in a piece of code."""
    return {
        name.id
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)
    }


def stores(node):
    """Return the names that are bound anywhere in a piece of code: assigned, defined, imported."""
    names = {
        name.id
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    names |= {
        part.name for part in ast.walk(node) if isinstance(part, (ast.FunctionDef, ast.ClassDef))
    }
    names |= {
        (alias.asname or alias.name).split(".")[0]
        for part in ast.walk(node)
        if isinstance(part, (ast.Import, ast.ImportFrom))
        for alias in part.names
    }
    return names


def binds(statement):
    """Return the names that a statement leaves behind; those inside a function stay there."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    return stores(statement) - _inner(statement)


def _inner(node):
    """Return the names that only functions and comprehensions inside a piece of code bind."""
    names = {arg.arg for arg in ast.walk(node) if isinstance(arg, ast.arg)}
    for part in ast.walk(node):
        if isinstance(part, ast.comprehension):
            names |= stores(part.target)
    return names


def needs(statement):
    """Return the names that a statement reads from before it."""
    bound = _inner(statement)
    if isinstance(statement, COMPOUND):
        bound = bound | stores(statement)
    return loads(statement) - bound | _augmented(statement)


def _augmented(statement):
    return stores(statement.target) if isinstance(statement, ast.AugAssign) else set()


def free(module):
    """Return the names that a cell reads and that it has not bound itself before."""
    found, bound = set(), set()
    for statement in module.body:
        found |= needs(statement) - bound
        bound |= binds(statement)
    return found


def value(node):
    """Return the number that a constant expression such as `10**-6` stands for, or None."""
    if isinstance(node, ast.Constant):
        plain = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        return node.value if plain else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = value(node.operand)
        return None if inner is None else -inner
    if not isinstance(node, ast.BinOp) or type(node.op) not in ARITHMETIC:
        return None
    left, right = value(node.left), value(node.right)
    if left is None or right is None or isinstance(node.op, ast.Pow) and abs(right) > 1100:
        return None
    try:
        return ARITHMETIC[type(node.op)](left, right)
    except (ArithmeticError, ValueError):
        return None


def numbers(module):
    """Return the numbers that stand in the code, without signs; `Fraction("0.1")` counts as 0.1."""
    found = [value(node) for node in ast.walk(module) if isinstance(node, ast.expr)]
    texts = [
        node.value
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    found += [float(text) for text in texts if _is_decimal(text)]
    return {abs(number) for number in found if isinstance(number, (int, float))}


def _is_decimal(text):
    return text.replace(".", "", 1).isdecimal() and text.isascii()


# ---- assertions --------------------------------------------------------------------------------


def assertions(module):
    """Return all `assert` statements of a cell."""
    return [node for node in ast.walk(module) if isinstance(node, ast.Assert)]


def settled(module):
    """Return the names that the cell binds once, at its top level, to a constant."""
    once = [
        name.id
        for name in ast.walk(module)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    ]
    constant = {
        target.id
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and _is_plain(node.value)
    }
    return {name for name in constant if once.count(name) == 1}


def _is_plain(node):
    return isinstance(node, ast.Constant) or value(node) is not None


def emptiness(test, known=frozenset()):
    """Return why a condition can never fail, or an empty string; `known` are names of constants."""
    if isinstance(test, ast.Tuple) and test.elts:
        return "a tuple is always true"
    if any(_is_disarmed(part) for part in ast.walk(test)):
        return "one side of its 'or' is always true"
    if not loads(test) - set(dir(builtins)) - set(known):
        return "it holds constants only"
    if any(_compares_itself(part) for part in ast.walk(test)):
        return "it compares a thing with itself"
    return ""


def _is_disarmed(node):
    return (
        isinstance(node, ast.BoolOp)
        and isinstance(node.op, ast.Or)
        and any(isinstance(part, ast.Constant) and part.value for part in node.values)
    )


def _compares_itself(node):
    if not isinstance(node, ast.Compare) or len(node.comparators) > 1:
        return False
    return ast.dump(node.left) == ast.dump(node.comparators[0])


def can_fail(module, *forms, but=()):
    """Return whether the cell checks something: a form that raises, or an `assert` that can fail.

    `forms` are names of functions, `but` those that do not count. A check counts where it runs and
    is heard: not in a function that the cell does not call, in `if False`, or in a `try` that
    catches what it raises. The `assert` must compare something or ask a function.
    """
    known = settled(module)
    called = {dotted(call.func) for call in calls(module, "*")}
    for node in _running(module.body, called):
        name = dotted(node.func) if isinstance(node, ast.Call) else ""
        if name and name not in but and any(_matches(name, form) for form in forms):
            return True
        if isinstance(node, ast.Assert) and not emptiness(node.test, known):
            if any(isinstance(part, (ast.Compare, ast.Call)) for part in ast.walk(node.test)):
                return True
    return False


def _running(nodes, called):
    """Yield the parts of the code that run and whose errors reach the reader."""
    for node in nodes:
        yield node
        yield from _running(_heard(node, called), called)


def _heard(node, called):
    if isinstance(node, SCOPES) and getattr(node, "name", "") not in called:
        return []
    if isinstance(node, ast.If) and isinstance(node.test, ast.Constant):
        return node.body if node.test.value else node.orelse
    if isinstance(node, ast.Try) and any(_swallows(handler) for handler in node.handlers):
        return [*node.handlers, *node.orelse, *node.finalbody]
    return list(ast.iter_child_nodes(node))


def _swallows(handler):
    caught = loads(handler.type) if handler.type is not None else {"BaseException"}
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    broad = {"AssertionError", "AuditFailed", "Exception", "BaseException"}
    return bool(caught & broad) and not raises
