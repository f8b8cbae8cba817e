"""Functions of released numbers: estimates without bias, and shares from which variances and
correlations are computed.

Letters: f an exact count, f' = f + Z its release with geometric noise Z of scale s, g a public
function. t in [0, 1] is the place of a record between its public bounds; its three shares are
(1 - t)^2, 2 t (1 - t) and t^2, which sum to 1.

Ranges: scales as in `geometric`; the product of the squared numbers of grid steps of all columns is
at most 2^31.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from dputils import checks, geometric, private
from dputils.sensitivity import Sensitivity

_LARGEST = 1 << 31
_REACH = 1 << 52  # a neighbour of a released number must be a float


def unbiased(function, released, scale):
    """Return an estimate of function(f) without bias, from a count that was released with noise.

    Privacy
        Post-processing of a released number: it costs nothing. Public: the function, the scale.

    Parameters
    ----------
    function : function of an array of whole numbers (floats), vectorised
        Finite on all whole numbers, negative ones too: noise leads there. The sum of |function(k)|
        e^(-|k|/s) is finite.
    released : int or array of ints
        Each with its own geometric noise of the scale, up to 2^52 in size.
    scale : int, float or Fraction
        The scale s of the noise.

    Returns
    -------
    array of the shape of `released`
        function(k) - V/2 (function(k + 1) - 2 function(k) + function(k - 1)), with V the variance
        of the noise: its mean is function(f), for every f.

    Raises
    ------
    ValueError
        If the released numbers are not whole, or the function is not finite there.

    Error
        No bias in exact arithmetic; the variance can be larger than that of function(f'), by far
        where the function bends within one scale of f. In floats at most V times four roundings
        of the largest |function| at k - 1, k and k + 1 are added: they swamp the correction where
        the second difference is below about 10^-15 |function|.

    Source
        Hillebrand, Imola, Pagh, Sejer 2026 (arXiv 2605.06502); for Laplace noise Calmon, Du, Dwork,
        Finley, Franguridi 2025.
    """
    k = np.asarray(released)
    if k.dtype.kind not in "iu":
        raise ValueError(f"released must be whole numbers, got {released!r}")
    k = k.astype(float)
    if k.size and np.abs(k).max() > _REACH:
        raise ValueError(f"released must lie within 2^52 of zero, got {released!r}")
    if not callable(function):
        raise ValueError(f"function must be a function of an array, got {function!r}")
    below, at, above = (np.asarray(function(x), dtype=float) for x in (k - 1, k, k + 1))
    found = at - geometric.variance(scale) / 2 * (above - 2 * at + below)
    if found.shape != k.shape or not np.isfinite(found).all():
        raise ValueError("function must give a finite number for each whole number")
    return found


def mechanism(columns, epsilon, neighbours, *, unit="row"):
    """Return the release of the shares of one or two columns, for a `Ledger`.

    Privacy
        epsilon-differentially private under add-remove, exactly: a record adds to the shares, none
        of which is negative, a total that is the same for all records. Public: the bounds, the
        grids, epsilon.

    Parameters
    ----------
    columns : list of one or two tuples (lower, upper, grid)
        Public bounds, to which a record is clamped, and the grid to which it is rounded.
    epsilon : int, float or Fraction
    neighbours : "add-remove"
    unit : str
        Each record is one unit.

    Returns
    -------
    Mechanism
        Exact. Of a list of as many columns of equal length, read by `private.to_grid`: what is
        missing counts as the lower bound. It draws whole numbers of shape (3,) or (3, 3): the
        shares in steps, W^2 of which are one record, W being (upper - lower)/grid, or the product
        of two such numbers. Each has geometric noise of scale W^2/epsilon.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Each share of variance below 2/epsilon^2, in records.

    Source
        Derived in the chapter on variances and correlations; with two shares in place of three
        Kulesza, Suresh, Wang 2024.
    """
    if checks.neighbours(neighbours) != "add-remove":
        raise ValueError(f"neighbours must be 'add-remove', got {neighbours!r}")
    record = math.prod(_steps(columns)) ** 2
    moved = Sensitivity(record, "l1", neighbours, unit)
    inner = geometric.mechanism(moved, epsilon)
    shape = " x ".join("3" for _ in columns)
    return replace(
        inner,
        name=f"{shape} shares, a record is {record} steps, "
        f"geometric noise of {float(geometric.scale(record, epsilon)):.6g} steps",
        read=partial(_shares, columns=tuple(columns)),
    )


def power_sums(shares, columns):
    """Return the sums of 1, t and t^2, or of all their products for two columns, from shares.

    Parameters
    ----------
    shares : array of shape (3,) or (3, 3), of whole numbers
        As released by `mechanism`, or as its `read` gives them.
    columns : list of one or two tuples (lower, upper, grid)
        As given to `mechanism`.

    Returns
    -------
    array of the shape of `shares`
        Entry (i, j) is the sum of t^i u^j over the records, t and u being the places of the two
        columns between their bounds: (0, 0) is the number of records.

    Error
        Each is a sum of shares with weights 0, 1/2 and 1; those of two columns have the products.
    """
    record = math.prod(_steps(columns)) ** 2
    found = np.asarray(shares, dtype=float)
    if found.shape != (3,) * len(columns):
        raise ValueError(f"shares must have shape {(3,) * len(columns)}, got {found.shape}")
    weights = np.array([[1, 1, 1], [0, 0.5, 1], [0, 0, 1]])
    for axis in range(found.ndim):
        found = np.moveaxis(np.tensordot(weights, found, (1, axis)), 0, axis)
    return found / record


def _steps(columns):
    """The numbers of grid steps between the bounds of the columns."""
    if not isinstance(columns, (list, tuple)) or not 1 <= len(columns) <= 2:
        raise ValueError(f"columns must be a list of one or two tuples, got {columns!r}")
    for column in columns:
        if not isinstance(column, (list, tuple)) or len(column) != 3:
            raise ValueError(f"columns must hold tuples (lower, upper, grid), got {column!r}")
    steps = [high - low for low, high in (private.grid_steps(*column) for column in columns)]
    if math.prod(steps) ** 2 > _LARGEST:
        raise ValueError(
            f"columns must have at most 2^31 steps, squared and multiplied, got {columns!r}"
        )
    return steps


def _shares(values, columns):
    if not isinstance(values, (list, tuple)) or len(values) != len(columns):
        raise ValueError(f"values must be a list of {len(columns)} columns")
    widths, places = _steps(columns), []
    for value, column in zip(values, columns, strict=True):
        low, _ = private.grid_steps(*column)
        places.append(private.to_grid(value, *column) - low)
    if len({place.size for place in places}) != 1:
        raise ValueError("values must be columns of equal length")
    parts = [
        np.array([(w - t) ** 2, 2 * t * (w - t), t * t])
        for w, t in zip(widths, places, strict=True)
    ]
    # int64 holds 2^32 records of at most 2^31 steps each
    return parts[0].sum(axis=1) if len(parts) == 1 else parts[0] @ parts[1].T
