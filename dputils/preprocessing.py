"""Tables on a public scale: each column and the response from its public range into [-1, 1].

Letters: X the table of n rows and d columns, y the response; a range is (low, high), with middle
(low + high)/2 and half width (high - low)/2. A record is mapped by itself with public numbers, so
tables that differ in a record differ in the same record after the map: it costs nothing. A map with
numbers from the table (means, deviations, largest rows) moves all records when one is added, and no
bound on a single row says what the sums of such rows do: see the chapter on preprocessing attacked.
"""

from dataclasses import dataclass

import numpy as np

from dputils import checks, private, regression

_LARGEST = 1e12
_FLATTEST = 1e-9  # the width of a range, in units of its larger end: else rounding fills it
_NARROWEST = 1e-100  # and at all, so that no coefficient overflows in the units of the data


@dataclass(frozen=True)
class Ranges:
    """What is public of the columns and of the response.

    Parameters
    ----------
    columns : sequence of pairs of numbers
        The range (low, high) of each of the d columns, at most 1e12 in size, and wider than 1e-100
        and than 1e-9 times its larger end.
    response : pair of numbers

    Raises
    ------
    ValueError
        If there is no column, or a range is empty, too large, or too narrow for its ends.
    """

    columns: tuple
    response: tuple

    def __post_init__(self):
        """Check the fields."""
        if not isinstance(self.columns, (tuple, list, np.ndarray)):
            raise ValueError(f"columns must be a sequence of pairs, got {self.columns!r}")
        pairs = tuple(_range(f"columns[{j}]", pair) for j, pair in enumerate(self.columns))
        if not pairs:
            raise ValueError("columns must have at least one range, got none")
        object.__setattr__(self, "columns", pairs)
        object.__setattr__(self, "response", _range("response", self.response))

    @property
    def bounds(self):
        """The bounds of mapped records: d + 1 columns, norm sqrt(d + 1), response 1."""
        d = len(self.columns) + 1
        return regression.Bounds(d, d**0.5, 1.0)


def _range(name, pair):
    if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
        raise ValueError(f"{name} must be a pair (low, high), got {pair!r}")
    low, high = (float(checks.within(name, end, -_LARGEST, _LARGEST)) for end in pair)
    if not high - low > max(_FLATTEST * max(abs(low), abs(high)), _NARROWEST):
        raise ValueError(f"{name} must be a pair with low below high, got {pair!r}")
    return low, high


def into(table, ranges):
    """Return a table on its public scale: a column of ones, then X, and y, all in [-1, 1].

    Privacy
        Each record is mapped by itself with public numbers: neighbours remain neighbours.

    Parameters
    ----------
    table : tuple (X, y)
        Private. X of shape (n, d), y of shape (n,). Values beyond a range are clamped to its end.
    ranges : Ranges

    Returns
    -------
    tuple (Z, v)
        Float arrays of shapes (n, d + 1) and (n,). What is missing remains missing (NaN), and
        counts as zeros in `regression.sums`.

    Raises
    ------
    ValueError
        If a type or a shape, which are public, does not fit.
    """
    _checked(ranges)
    X, y = private.table(table[0], table[1], len(ranges.columns))
    rows = _mapped(private.floats(X), np.array(ranges.columns).T)
    return np.insert(rows, 0, 1.0, axis=1), _mapped(private.floats(y), ranges.response)


def _checked(ranges):
    if not isinstance(ranges, Ranges):
        raise ValueError(f"ranges must be preprocessing.Ranges, got {ranges!r}")


def _mapped(values, ends):
    low, high = ends
    return np.clip((2 * np.clip(values, low, high) - low - high) / (high - low), -1, 1)


def unstandardised(coefficients, ranges):
    """Return a fit on the public scale in the units of the data.

    Privacy
        Post-processing with public numbers: it costs nothing.

    Parameters
    ----------
    coefficients : array of shape (..., d + 1)
        Of a fit to what `into` returns, the intercept first.
    ranges : Ranges

    Returns
    -------
    array of shape (..., d + 1)
        The intercept, then the slopes: for x inside the ranges, intercept + slopes . x is the
        prediction on the public scale, moved back to the units of y.

    Raises
    ------
    ValueError
        If the number of coefficients does not fit.
    """
    _checked(ranges)
    theta = np.asarray(coefficients, dtype=float)
    ends = np.array(ranges.columns).T
    if theta.shape[-1:] != (ends.shape[1] + 1,):
        raise ValueError(f"coefficients must have {ends.shape[1] + 1} numbers, got {theta.shape}")
    middle, half = ends.mean(axis=0), (ends[1] - ends[0]) / 2
    low, high = ranges.response
    slopes = (high - low) / 2 * theta[..., 1:] / half
    intercept = (low + high) / 2 + (high - low) / 2 * theta[..., :1]
    return np.concatenate([intercept - slopes @ middle[:, None], slopes], axis=-1)
