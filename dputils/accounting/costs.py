"""Costs: what one release guarantees, for one neighbour relation, in one notion."""
import math
from dataclasses import dataclass, fields
from fractions import Fraction

from dputils import checks
from dputils.accounting.rounding import above, ceiling, upper


class _Cost:
    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            checks.delta(value) if field.name == "delta" else checks.positive(field.name, value)
            object.__setattr__(self, field.name, checks.as_fraction(field.name, value))

    def __str__(self):
        return ", ".join(f"{field.name} {_shown(getattr(self, field.name))}" for field in fields(self))


@dataclass(frozen=True)
class Pure(_Cost):
    """Cost of an epsilon-differentially private release."""

    epsilon: Fraction


@dataclass(frozen=True)
class Approximate(_Cost):
    """Cost of an (epsilon, delta)-differentially private release."""

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True)
class ZCDP(_Cost):
    """Cost of a release with zero-concentrated privacy rho (Bun and Steinke 2016): all Renyi divergences of order alpha
    are at most rho alpha."""

    rho: Fraction


@dataclass(frozen=True)
class Gaussian(_Cost):
    """Cost of a mu-Gaussian private release (Dong, Roth, Su 2022), such as Gaussian noise of standard deviation
    sensitivity/mu in real arithmetic. Discrete Gaussian noise is not one: its cost is `ZCDP`."""

    mu: Fraction


KINDS = (Pure, Approximate, ZCDP, Gaussian)


def group(epsilon, delta, k):
    """Return `(epsilon, delta)`, fractions, of an (epsilon, delta)-private release for tables that differ in k steps:
    k epsilon, and delta (e^(k epsilon) - 1)/(e^epsilon - 1) rounded up: each step adds, d_(j+1) = e^epsilon d_j + delta
    (chapter 02; Dwork and Roth 2014, Theorem 2.2, is the case delta = 0)."""
    cost, k = Approximate(epsilon, delta), checks.integer("k", k, 1)
    if not cost.delta or k == 1:
        return k * cost.epsilon, cost.delta
    e, n = upper(cost.epsilon), upper(Fraction(k))
    log = math.log(upper(cost.delta)) + (n - 1) * e + math.log(-math.expm1(-n * e)) - math.log(-math.expm1(-e))
    return k * cost.epsilon, Fraction(math.exp(log) * (1 + 1e-11)) if log < -1e-9 else Fraction(1)


def subsampled(epsilon, delta, rate):
    """Return `(epsilon, delta)`, floats rounded up, of an (epsilon, delta)-private release on a secret Poisson sample,
    for add-remove neighbours: (ln(1 + rate (e^epsilon - 1)), rate delta).

    Each record is in the sample with probability `rate`, independently, and who is in it stays secret; the release is
    private for add-remove neighbours of the sample. A sample of fixed size, or a public one, is another matter.

    Source
        Li, Qardaji, Su 2012, Theorem 1; Balle, Barthe, Gaboardi 2018, Theorem 8.
    """
    cost = Approximate(epsilon, delta)
    if checks.positive("rate", rate) > 1:
        raise ValueError(f"rate must be at most 1, got {rate!r}")
    e, q = upper(cost.epsilon), float(rate)
    small = math.log1p(q * math.expm1(e)) if e < 700 else e + math.log(q + math.exp(-e))
    return min(ceiling(cost.epsilon), above(small)), ceiling(checks.as_fraction("rate", rate) * cost.delta)


def _shown(x):
    return f"{float(x):.6g}"
