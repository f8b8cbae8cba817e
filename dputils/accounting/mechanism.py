"""One release as a thing: what it reads, how it draws, what it costs, and for whom.

A module such as `laplace` turns a sensitivity and an epsilon into a `Mechanism`; a `Ledger` reads,
books and draws in one call, so that the cost that is booked is the cost of what is drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from dputils import checks
from dputils.accounting.costs import KINDS, is_cost


@dataclass(frozen=True)
class Mechanism:
    """A private release, fixed but for the private value and the randomness.

    Two mechanisms are equal if name, costs, relation and unit are: that is what a plan compares.

    Parameters
    ----------
    name : str
        The field's name and what was fixed, for example "Laplace mechanism, scale 2".
    costs : tuple of costs
        What one release costs, in one or several notions, the strongest first: each of them holds
        on its own.
    neighbours : {"add-remove", "replace-one"}
    unit : str
        What is added, removed or replaced between neighbours.
    read : function of one private value
        Returns the value in the form that `draw` takes. It refuses a public type or shape, never a
        value.
    draw : function of what `read` returned, and of the keyword `rng`
        Returns the release. It never raises.
    exact : bool
        Whether no floating-point number decides an outcome: only then may `rng` be `noise.SYSTEM`.
    sensitivity : Sensitivity, optional
        What `costs` follow from, for the privacy statement.
    law : function of a factor c, optional
        Returns the distribution function of the release minus the value if all budgets were c times
        as large: what an audit compares with.
    discrete : bool
        Whether `law` lives on whole numbers.
    """

    name: str
    costs: tuple
    neighbours: str
    unit: str
    read: Callable = field(compare=False)
    draw: Callable = field(compare=False)
    exact: bool = field(default=False, compare=False)
    sensitivity: object = field(default=None, compare=False)
    law: Callable | None = field(default=None, compare=False)
    discrete: bool = field(default=False, compare=False)

    def __post_init__(self):
        """Check the fields; names become plain strings, which compare as they read."""
        object.__setattr__(self, "name", checks.named("name", self.name))
        object.__setattr__(self, "neighbours", checks.neighbours(self.neighbours))
        object.__setattr__(self, "unit", checks.named("unit", self.unit))
        if type(self.costs) is not tuple or not self.costs:
            raise ValueError(f"costs must be a tuple of costs, at least one, got {self.costs!r}")
        for cost in self.costs:
            if not is_cost(cost):
                kinds = ", ".join(kind.__name__ for kind in KINDS)
                raise ValueError(f"costs must be {kinds}, got {cost!r}")
        for name in ("read", "draw"):
            if not callable(getattr(self, name)):
                raise ValueError(f"{name} must be a function, got {getattr(self, name)!r}")

    def __str__(self):
        """Say what it is, what it costs and for whom."""
        return f"{self.name} ({self.costs[0]}; {self.neighbours}, unit {self.unit})"

    def __call__(self, value, *, rng):
        """Release without a ledger, for audits and experiments: read the value, then draw."""
        self.source(rng)
        return self.draw(self.read(value), rng=rng)

    def source(self, rng):
        """Return `rng` if this mechanism can draw from it: rounded noise refuses `noise.SYSTEM`."""
        if getattr(checks.generator(rng), "is_operating_system", False) and not self.exact:
            raise ValueError(
                f"rng must be a np.random.Generator for the {self.name}, whose noise is rounded: "
                "noise.SYSTEM is for exact releases"
            )
        return rng
