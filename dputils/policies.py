"""Policies on places: which pairs of places a release must not tell apart, on a map.

The distances themselves, and the noise that keeps them, are in `metrics.py`: `euclidean`,
`blowfish` and `smooth`. Here is what a policy needs beside them: a map of the ground, what a chain
of near places protects, and what somebody who knows all other persons believes after a release.

Letters: N the number of places, i and j two of them, T the radius of a policy; q a query, c the
scale of its noise; p a prior, a probability for each place.

Ranges: latitudes -90 to 90 and longitudes -360 to 360 degrees; places, radii, queries and scales as
in `metrics.py`; N from 2 to 2^24.

1. The map. An azimuthal equidistant map keeps distance and direction from its centre. The earth is
   a ball here, of 6371.0088 km; distances on the real one are off by up to 0.6 %. At an angle t
   from the centre the map stretches by t/sin t across the direction to the centre, and not at all
   along it. So, up to 90 degrees from the centre, no distance on the map is shorter than on the
   ground, and none is longer than t/sin t times that, t being the larger angle of the two places:
   disc and cap of this size both contain the shortest way between two of their places.
2. Chains. `blowfish` protects pairs within T. By its shortest paths it protects a pair that is
   joined by a chain of h such steps by h times as much, and places that no chain joins not at all
   from each other. Regions are the sets of places that chains join.
3. The adversary knows all persons but one, so the exact answer without this person, and subtracts
   it from what is published. What is left is q_i plus noise.
"""

import math

import numpy as np

from dputils import checks, metrics

EARTH = 6371.0088  # the mean radius, km
_PAIRS = 1 << 24
_REACH = 1 + 2.0**-20  # candidates; `metrics` decides which of them are within the radius


def ground(latitude, longitude, centre):
    """Return the distances on the ground from a centre, along great circles, in km.

    Parameters
    ----------
    latitude, longitude : arrays of shape (N,), degrees
    centre : (latitude, longitude), degrees

    Returns
    -------
    float array of shape (N,)

    Raises
    ------
    ValueError
        If an argument is no such number.

    Error
        A ball in place of the earth: up to 0.6 %.

    Source
        The haversine formula.
    """
    u, v = _degrees(latitude, longitude)
    u0, v0 = _centre(centre)
    chord = np.sin((u - u0) / 2) ** 2 + np.cos(u) * math.cos(u0) * np.sin((v - v0) / 2) ** 2
    return 2 * EARTH * np.arcsin(np.sqrt(np.minimum(chord, 1)))


def project(latitude, longitude, centre):
    """Return places on a map that keeps distances and directions from its centre.

    Privacy
        The map, not the ground, is what a policy on it speaks of. A distance on the map is never
        shorter than that on the ground, but for two millimetres of rounding. So two places within T
        on the ground may be beyond T on the map, and are then promised less. Whoever means the
        ground takes a radius larger by the stretch, t/sin t for the largest angle t (point 1 of the
        module).

    Parameters
    ----------
    latitude, longitude, centre
        As for `ground`; no place may be more than 90 degrees (10,007 km) from the centre.

    Returns
    -------
    float array of shape (N, 2)
        Kilometres east and north of the centre, rounded to a millimetre: the last bits of a sine
        depend on the processor, and a unit that is named after the map must not.

    Raises
    ------
    ValueError
        If an argument is out of range, or a place is too far from the centre.

    Source
        Snyder 1987, chapter 25: the azimuthal equidistant projection of the sphere.
    """
    u, v = _degrees(latitude, longitude)
    u0, v0 = _centre(centre)
    east = np.cos(u) * np.sin(v - v0)
    north = math.cos(u0) * np.sin(u) - math.sin(u0) * np.cos(u) * np.cos(v - v0)
    up = math.sin(u0) * np.sin(u) + math.cos(u0) * np.cos(u) * np.cos(v - v0)
    if (up < 0).any():
        raise ValueError(
            f"centre must be within 90 degrees of all places, got {tuple(map(float, centre))}"
        )
    across = np.hypot(east, north)
    angle = np.arctan2(across, up)
    stretch = np.divide(angle, across, out=np.ones_like(angle), where=across > 0)
    return np.round(EARTH * np.column_stack([stretch * east, stretch * north]), 6)


def hops(places, radius, start):
    """Return how many steps of at most a radius lead from one place to each other place.

    Times epsilon this is what a Blowfish policy protects in the end (point 2 of the module): the
    row `start` of `metrics.closed`, without the table.

    Parameters
    ----------
    places, radius
        As for `metrics.blowfish`. At most 2^24 pairs may lie within the radius.
    start : int, from 0 to N - 1

    Returns
    -------
    float array of shape (N,)
        0 for the start itself, 1 for another place at the same spot, inf where no chain leads.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Error
        Time and memory linear in the number of pairs within the radius, up to a logarithm.

    Source
        He, Machanavajjhala, Ding 2014; breadth-first search by scipy.
    """
    from scipy.sparse.csgraph import dijkstra

    graph = _steps(places, radius)
    first = checks.integer("start", start, low=0)
    if first >= graph.shape[0]:
        raise ValueError(f"start must be below {graph.shape[0]}, got {first}")
    return dijkstra(graph, directed=False, unweighted=True, indices=first)


def regions(places, radius):
    """Return a number for each place, the same for two places if a chain of near places joins them.

    A Blowfish policy does not protect the region of a record: how many records each region holds
    has scale 0.

    Parameters
    ----------
    places, radius
        As for `hops`.

    Returns
    -------
    int array of shape (N,)
        Regions are numbered from 0.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    from scipy.sparse.csgraph import connected_components

    return connected_components(_steps(places, radius), directed=False)[1]


def posterior(prior, query, scale, seen):
    """Return what an adversary who knows all other persons believes of one person's place.

    Privacy
        None: this is the attack (point 3 of the module).

    Parameters
    ----------
    prior : array of shape (N,)
        What the adversary held before: not negative, with a positive sum.
    query : array of shape (N,)
        q: what the person adds to the exact answer in each place.
    scale : float
        That of the Laplace or geometric noise; 0 for an exact answer.
    seen : float
        The published answer minus that of all other persons.

    Returns
    -------
    float array of shape (N,)
        It sums to 1. The odds of two places differ from those before by a factor of at most
        exp(|q_i - q_j|/scale). For an exact answer that no place with a positive prior gives, all
        entries are 0.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Source
        Bayes' rule, in logarithms.
    """
    q = checks.floats("query", query, -1e50, 1e50)
    p = checks.floats("prior", prior, 0, 1e300)
    if q.ndim != 1 or p.shape != q.shape or not p.any():
        raise ValueError(f"prior must have shape {q.shape} and a positive sum, got {p.shape}")
    off = np.abs(q - checks.number("seen", seen))
    if checks.not_negative("scale", scale) == 0:
        weight = np.where(off == 0, p / p.max(), 0.0)
        return weight / weight.sum() if weight.any() else weight
    beyond = np.maximum(off - off[p > 0].min(), 0)  # 0 somewhere, so a tiny scale divides it
    with np.errstate(divide="ignore", over="ignore"):
        logs = np.log(p) - beyond / scale
    weight = np.exp(logs - logs.max())
    return weight / weight.sum()


def _degrees(latitude, longitude):
    u = checks.floats("latitude", latitude, -90, 90)
    v = checks.floats("longitude", longitude, -360, 360)
    if u.ndim != 1 or u.shape != v.shape:
        raise ValueError(f"latitude and longitude must have one shape (N,), got {u.shape, v.shape}")
    return np.radians(u), np.radians(v)


def _centre(centre):
    if np.shape(centre) != (2,):
        raise ValueError(f"centre must be a latitude and a longitude, got {centre!r}")
    u, v = _degrees([centre[0]], [centre[1]])
    return float(u[0]), float(v[0])


def _steps(places, radius):
    """The pairs of places within the radius, as a sparse graph."""
    from scipy.sparse import coo_matrix
    from scipy.spatial import cKDTree

    metric = metrics.blowfish(places, radius, 1)  # refuses what is out of range
    x = np.asarray(places, dtype=float).reshape(metric.size, -1)
    tree = cKDTree(x)
    reach = float(radius) * _REACH + 2.0**-40 * float(np.abs(x).max())
    near = (int(tree.count_neighbors(tree, reach)) - metric.size) // 2
    if near > _PAIRS:
        raise ValueError(f"radius must leave at most 2^24 pairs within it, got {near} pairs")
    i, j = tree.query_pairs(reach, output_type="ndarray").T
    inside = np.isfinite(metric.distance(i, j))
    i, j = i[inside], j[inside]
    return coo_matrix((np.ones(i.size), (i, j)), shape=(metric.size, metric.size)).tocsr()
