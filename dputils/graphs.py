"""Figures of a private graph: triangles, wedges and transitivity when an edge is the unit, edges
when a person is.

A graph has a public list of n nodes; which pairs of them are joined is private. Neighbours are
add-remove throughout: one edge more or less (unit "edge"), or one node with all its edges (unit
"person"); a person who has left is a node without edges.

Letters: n the number of nodes, d_i the degree of node i, a_ij the number of common neighbours of i
and j, b_ij the number of nodes other than i and j that are joined to exactly one of them; A_k the
largest local sensitivity among all graphs up to k edges away; T the number of triangles, W that of
wedges, C = 3 T/W the transitivity; beta how fast a smooth bound may change; c how many smooth
bounds are one scale of the noise; m the degree bound.

Ranges: n 3 to 2^11, m 1 to n - 1, epsilon 1e-6 to 1e3 (smooth sensitivity: 1e-3 to 20).

1. Triangles. The edge between i and j closes a_ij triangles, whether it is there or not. Within k
   other edges a node joined to one of the two becomes a common neighbour by one edge, any other
   node by two; the cheaper ones first. So A_k is the largest min(n - 2, a_ij + floor((k + min(k,
   b_ij))/2)).
2. Wedges, pairs of edges that share a node, are the sum of d_i (d_i - 1)/2. The edge between i and
   j makes d_ij = d_i + d_j of them, the edge itself not counted in either degree. One other edge
   raises d_ij by at most 1, and up to 2 (n - 2) there is always one that does: A_k is the smaller
   of 2 (n - 2) and the largest d_ij + k.
3. Transitivity. Let C_0 and W_0 belong to the graph without the edge between i and j, and W_1 to
   the one with it. The edge moves C by (3 a_ij - C_0 d_ij)/W_1, and 2 a_ij <= d_ij, so the change
   lies between -C_0 d_ij/W_1 and (3 - 2 C_0) a_ij/W_1. Within k edges T and W stay within T + and -
   the sum of the first k of their A, and so do the bounds l and h of C that follow from them. U_k =
   max((3 - 2 l) A_k of T, h A_k of W)/(least W within k edges), with l and h for k + 1 edges, is
   therefore at least the local sensitivity of each graph up to k edges away. It is 1 where the
   least W within k + 1 edges is not positive, and from k = 2 n - 3 on. All that U_k of a neighbour
   is made of is bounded by what U_(k+1) is made of, so the largest e^(-beta k) U_k is beta-smooth.
4. Projection. Go through the edges in the public order of their nodes, and keep an edge if both
   its ends have fewer than m kept edges so far. Let node v join, and follow both runs side by side:
   let P be the sum of |d'_u - d_u| over all other nodes u, in kept edges. An edge of v that is kept
   raises P by at most 1. Another edge that is kept in one run alone was refused in the other at an
   end u that had m kept edges there and fewer here: the gap at u shrinks by 1, the one at its other
   end grows by at most 1. So P never exceeds the number of kept edges of v, d'_v <= m. Twice the
   change of the number of kept edges lies between d'_v - P >= 0 and d'_v + P <= 2 m.
   One edge more, in place of a person: if it is kept, P over all nodes rises by 2, and later edges
   do not raise it. So the number of kept edges changes by at most 1.
5. Which edges are kept may change in a chain as long as the graph: point 4 speaks of degrees, not
   of triangles.
"""

import math
from functools import partial

import numpy as np

from dputils import checks, geometric, local_sensitivity, noise, private
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import Sensitivity

_NODES = 1 << 11


# ------------------------------------------------------------------------ what the graph looks like


def adjacency(graph, nodes):
    """Return a private graph as a symmetric matrix of truth values without loops.

    Parameters
    ----------
    graph : array or lists of shape (nodes, nodes)
        Private. Whether i < j are joined is read from the entry (i, j) alone, above the diagonal:
        yes if it is a number that is not 0 as a float, no if it is missing.
    nodes : int
        n, public.

    Returns
    -------
    bool array of shape (nodes, nodes)

    Raises
    ------
    ValueError
        If `nodes` is out of range, or the graph has another shape or no real numbers.
    """
    n = _nodes(nodes)
    cells = private.answer("graph", graph)
    if cells.shape != (n, n):
        raise ValueError(f"graph must have shape {(n, n)}, got {cells.shape}")
    upper = np.triu(np.nan_to_num(private.floats(cells)) != 0, 1)
    return upper | upper.T


def triangles(graph):
    """Return the number of triangles of a graph: private, nothing is released.

    Parameters
    ----------
    graph : array of shape (n, n)
        Read by `adjacency`.
    """
    joined = _square(graph).astype(float)
    return int(((joined @ joined) * joined).sum()) // 6


def wedges(graph):
    """Return the number of pairs of edges that share a node: private, nothing is released."""
    degrees = _square(graph).sum(axis=1)
    return int((degrees * (degrees - 1) // 2).sum())


def transitivity(graph):
    """Return C = 3 T/W, 0 without a wedge: private, nothing is released."""
    joined = _square(graph)
    return 3 * triangles(joined) / max(wedges(joined), 1)


def triangle_moves(graph):
    """Return A_0, ..., A_(2n - 4) of the triangles: private, nothing is released.

    A_k is the largest number of triangles that one edge can close among all graphs that are up to k
    edges away. The last one is n - 2, the global sensitivity.

    Parameters
    ----------
    graph : array of shape (n, n)
        Read by `adjacency`.

    Returns
    -------
    int64 array of shape (2 n - 3,)
        Never falling (point 1 of the module).

    Source
        Nissim, Raskhodnikova, Smith 2007.
    """
    joined = _square(graph)
    n = len(joined)
    common = (joined.astype(float) @ joined).astype(np.int64)
    s = _ends(joined)
    above = np.triu_indices(n, 1)
    most = np.full(n - 1, -1)  # the largest b of all pairs with as many common neighbours
    np.maximum.at(most, common[above], (s - 2 * common)[above])
    a = np.flatnonzero(most >= 0)[:, None]
    k, b = np.arange(2 * n - 3), most[a]
    return np.minimum(n - 2, a + (k + np.minimum(k, b)) // 2).max(axis=0)


def wedge_moves(graph):
    """Return A_0, ..., A_(2n - 4) of the wedges (see `triangle_moves`; point 2 of the module).

    The last one is 2 (n - 2), the global sensitivity.
    """
    joined = _square(graph)
    n = len(joined)
    above = np.triu_indices(n, 1)
    return np.minimum(2 * (n - 2), _ends(joined)[above].max() + np.arange(2 * n - 3))


def transitivity_moves(graph):
    """Return U_0, ..., U_(2n - 3): no graph up to k edges away has a larger local sensitivity of C.

    Private, nothing is released. The last one is 1, the global sensitivity.

    Returns
    -------
    float array of shape (2 n - 2,)
        Never falling, above 0 (point 3 of the module).

    Source
        Point 3 of the module.
    """
    joined = _square(graph)
    t, w = triangles(joined), wedges(joined)
    of_t, of_w = triangle_moves(joined), wedge_moves(joined)
    more_t, more_w = np.cumsum(of_t), np.cumsum(of_w)  # within k + 1 edges
    least = w - more_w
    low = 3 * np.maximum(t - more_t, 0) / np.maximum(w + more_w, 1)
    high = np.minimum(1, 3 * (t + more_t) / np.maximum(least, 1))
    bound = np.maximum((3 - 2 * low) * of_t, high * of_w) / np.maximum(least + of_w, 1)
    return np.append(np.where(least > 0, np.minimum(1, bound), 1.0), 1.0)


def project(graph, bound):
    """Return a graph whose degrees are at most `bound`: private, nothing is released.

    The edges are gone through in the order of their nodes; one is kept if both its ends have fewer
    than `bound` kept edges so far. A graph whose degrees are no larger is kept as it is.

    Parameters
    ----------
    graph : array of shape (n, n)
        Read by `adjacency`.
    bound : int
        m, public, from 1 to n - 1.

    Returns
    -------
    bool array of shape (n, n)

    Source
        Day, Li, Lyu 2016 (SIGMOD), for the degrees of the result.
    """
    joined = _square(graph)
    most = _bound(bound, len(joined))
    degree, kept = [0] * len(joined), np.zeros_like(joined)
    for i, j in np.argwhere(np.triu(joined)).tolist():
        if degree[i] < most and degree[j] < most:
            degree[i] += 1
            degree[j] += 1
            kept[i, j] = kept[j, i] = True
    return kept


# --------------------------------------------------------------------------------------- releases


def smooth_mechanism(figure, nodes, epsilon):
    """Return a figure with Cauchy noise for a smooth bound of its sensitivity, for a `Ledger`.

    The answer is clamped to what n nodes can have.

    Privacy
        In real arithmetic epsilon-differentially private when one edge is added or removed.
        Rounded: for experiments. Public: n, epsilon; not the scale of the noise.

    Parameters
    ----------
    figure : {"triangles", "wedges", "transitivity"}
    nodes : int
        n, public.
    epsilon : float or Fraction, from 1e-3 to 20

    Returns
    -------
    Mechanism
        From a graph, read by `adjacency`, to a float.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Beyond c S cot(pi p/2) with probability at most p, where S is the largest e^(-beta k) A_k,
        or e^(-beta k) U_k, and beta and c are those of `local_sensitivity`.

    Source
        Nissim, Raskhodnikova, Smith 2007, for the triangles; point 3 for the transitivity.
    """
    n, figure = _nodes(nodes), checks.one_of("figure", figure, _FIGURES)
    exact, moves, most = _FIGURES[figure]
    beta = local_sensitivity.cauchy_beta(epsilon)
    c = local_sensitivity.cauchy_scale(epsilon, beta)
    return Mechanism(
        name=f"{figure}, Cauchy noise of {c:.6g} smooth bounds, beta {beta:.6g}",
        costs=(Pure(epsilon),),
        neighbours="add-remove",
        unit="edge",
        read=partial(_read_smooth, nodes=n, exact=exact, moves=moves, beta=beta, c=c),
        draw=partial(_draw_smooth, most=most(n)),
    )


def projected_mechanism(nodes, bound, epsilon):
    """Return the number of edges that the projection keeps, with geometric noise, for a `Ledger`.

    Privacy
        epsilon-differentially private when one person joins or leaves with all edges, with no
        floating-point caveat. Pass `noise.SYSTEM` for a real release. Public: the list of n nodes
        and its order, m, epsilon.

    Parameters
    ----------
    nodes : int
        n, public.
    bound : int
        m, from 1 to n - 1: the sensitivity.
    epsilon : int, float or Fraction

    Returns
    -------
    Mechanism
        From a graph, read by `adjacency`, to an int; exact.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Geometric noise of scale m/epsilon, and the edges that the projection drops.

    Source
        Point 4 of the module, after Day, Li, Lyu 2016.
    """
    n = _nodes(nodes)
    moved = Sensitivity(_bound(bound, n), "absolute", "add-remove", "person")
    s = geometric.scale(moved, epsilon)
    return Mechanism(
        name=f"edges of degrees up to {bound}, geometric noise of scale {float(s):.6g}",
        costs=(Pure(epsilon),),
        neighbours="add-remove",
        unit="person",
        read=partial(_read_projected, nodes=n, bound=bound),
        draw=partial(_draw_whole, s=s),
        exact=True,
        sensitivity=moved,
        law=lambda factor: partial(geometric.cdf, scale=float(s) / factor),
        discrete=True,
    )


def _read_smooth(graph, nodes, exact, moves, beta, c):
    joined = adjacency(graph, nodes)
    a = moves(joined)
    return exact(joined), c * float((np.exp(-beta * np.arange(a.size)) * a).max())


def _draw_smooth(read, most, *, rng):
    centre, scale = read
    cauchy = math.tan(math.pi * noise.uniform(-0.5, 0.5, rng=rng))
    return float(min(max(centre + scale * cauchy, 0), most))


def _read_projected(graph, nodes, bound):
    return int(project(adjacency(graph, nodes), bound).sum()) // 2


def _draw_whole(count, s, *, rng):
    return count + noise.discrete_laplace(s, rng=rng)


def _square(graph):
    """Read a graph whose number of nodes is its own length."""
    shape = np.shape(graph)
    return adjacency(graph, shape[0] if shape else 0)


def _ends(joined):
    """Return the matrix of d_i + d_j, where an edge between i and j is not counted."""
    degrees = joined.sum(axis=1)
    return degrees[:, None] + degrees - 2 * joined


def _nodes(nodes):
    return checks.within("nodes", checks.integer("nodes", nodes, low=3), 3, _NODES)


def _bound(bound, n):
    return checks.within("bound", checks.integer("bound", bound, low=1), 1, n - 1)


_FIGURES = {  # the figure, its moves, and the most of it that n nodes have
    "triangles": (triangles, triangle_moves, lambda n: math.comb(n, 3)),
    "wedges": (wedges, wedge_moves, lambda n: 3 * math.comb(n, 3)),
    "transitivity": (transitivity, transitivity_moves, lambda n: 1),
}
