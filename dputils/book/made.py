"""Tables that were never observed: drawn by the code that stands here, from a seed, for chapters
whose real data cannot be in the book."""

import numpy as np

from dputils import checks

BOX = (40.55, 40.95, -74.15, -73.75)  # south, north, west, east: degrees, about New York City
_CENTRE = (40.75, -73.97)
_FAMILIAR, _OFTEN = 0.35, 200  # share, and most, of check-ins at one's own venue


def checkins(persons=3000, venues=600, *, spread=1.7, seed=0):
    """Return a made table of check-ins, one row a check-in, many rows a person.

    Privacy
        Nobody is in it: all is drawn from a seeded generator.

    How it is drawn: a person makes round(6 exp(spread Z)) check-ins, at least 1, Z normal. About a
    third of these, but hardly more than 200, are at one venue of the person's own, around one hour
    of the week. The others are at venues drawn in the proportions 1, 1/2^0.7, 1/3^0.7, ..., and at
    hours of two patterns, on the way to work and in the evening: the more check-ins a person makes,
    the more often on the way to work. Four venues in five lie around one centre.

    Parameters
    ----------
    persons, venues : int
    spread : float
        0 to 3: how uneven persons are.
    seed : int

    Returns
    -------
    pandas.DataFrame
        user (0 to persons - 1), venue (0 to venues - 1, those drawn most often first), hour (of the
        week, 0 to 167, Monday 0:00 first), latitude and longitude of the venue (degrees), in random
        order.
    """
    import pandas as pd

    n, v = checks.integer("persons", persons, low=1), checks.integer("venues", venues, low=1)
    spread = checks.within("spread", spread, 0, 3)
    rng = np.random.default_rng([checks.integer("seed", seed, low=0), 31])
    made = np.maximum(1, np.rint(6 * np.exp(spread * rng.standard_normal(n)))).astype(np.int64)
    user = rng.permutation(np.repeat(np.arange(n), made))
    own = rng.random(user.size) < np.minimum(_FAMILIAR, _OFTEN / made)[user]
    popular = np.arange(1, v + 1) ** -0.7
    venue = rng.choice(v, user.size, p=popular / popular.sum())
    venue = np.where(own, rng.integers(v, size=n)[user], venue)
    places = _places(v, rng)
    return pd.DataFrame(
        {
            "user": user,
            "venue": venue,
            "hour": _hours(user, own, made, rng),
            "latitude": places[venue, 0],
            "longitude": places[venue, 1],
        }
    )


def _places(v, rng):
    """Return latitude and longitude of venues, rounded to 4 digits, inside the box."""
    south, north, west, east = BOX
    around = _CENTRE + rng.standard_normal((v, 2)) * (0.04, 0.03)
    spread = rng.uniform((south, west), (north, east), (v, 2))
    places = np.where(rng.random((v, 1)) < 0.8, around, spread)
    return np.round(np.clip(places, (south, west), (north - 1e-4, east - 1e-4)), 4)


def _hours(user, own, made, rng):
    """Return the hour of the week of each check-in."""
    hour, day = np.arange(168) % 24, np.arange(168) // 24
    work = 0.1 + np.exp(-((hour - 8) ** 2) / 3) + 0.7 * np.exp(-((hour - 18) ** 2) / 4)
    work = work * (day < 5)
    evening = 0.1 + np.exp(-((hour - 20) ** 2) / 12) + 0.6 * np.exp(-((hour - 13) ** 2) / 6)
    evening = evening * np.where(day > 3, 1.5, 1)
    worker = rng.random(user.size) < (0.3 + 0.5 * made / (made + 60))[user]
    by = [rng.choice(168, user.size, p=p / p.sum()) for p in (evening, work)]
    of_own = rng.choice(168, made.size, p=evening / evening.sum())[user]
    return np.where(
        own, (of_own + rng.integers(-1, 2, user.size)) % 168, np.where(worker, *by[::-1])
    )


KINDS = ("commuters", "evening people", "weekend people")
_SHARE = (0.5, 0.3, 0.2)  # of the persons, by kind
_OF_KIND = 0.5  # of a person's check-ins are at venues that their kind likes


def kinds_of_users(persons=3000, venues=600, *, spread=1.0, seed=0):
    """Return a made table of check-ins by persons of three kinds.

    Privacy
        Nobody is in it: all is drawn from a seeded generator.

    How it is drawn: each person is of one of the `KINDS`, with probability 0.5, 0.3 and 0.2, and
    makes round(9 exp(spread Z)) check-ins, at least 1, Z normal. Two in three are at the hours of
    the kind: 7 to 9 and 17 to 19 on working days, 19 to 23 on working days, 10 to 17 at the
    weekend; the others at any hour. Venues are drawn in the proportions 1, 1/2, 1/3, ...: for half
    of the check-ins among all of them, for the others among those whose number leaves the remainder
    of the kind, 0, 1 or 2, when divided by 3.

    Parameters
    ----------
    persons, venues : int
        At least 1 and 3.
    spread : float
        0 to 3: how uneven persons are.
    seed : int

    Returns
    -------
    pandas.DataFrame
        user (0 to persons - 1), venue (0 to venues - 1), hour (of the week, 0 to 167, Monday 0:00
        first), kind (0, 1, 2: what a real table does not say), in random order.
    """
    import pandas as pd

    n, v = checks.integer("persons", persons, low=1), checks.integer("venues", venues, low=3)
    spread = checks.within("spread", spread, 0, 3)
    rng = np.random.default_rng([checks.integer("seed", seed, low=0), 36])
    kind = rng.choice(3, n, p=_SHARE)
    made = np.maximum(1, np.rint(9 * np.exp(spread * rng.standard_normal(n)))).astype(np.int64)
    user = rng.permutation(np.repeat(np.arange(n), made))
    of = kind[user]
    liked = of + 3 * _ranks(v // 3, user.size, rng)
    venue = np.where(rng.random(user.size) < _OF_KIND, liked, _ranks(v, user.size, rng))
    usual = _usual_hours(of, rng)
    hour = np.where(rng.random(user.size) < 2 / 3, usual, rng.integers(168, size=user.size))
    return pd.DataFrame({"user": user, "venue": venue, "hour": hour, "kind": of})


def _ranks(count, size, rng):
    """Return ranks 0 to count - 1, drawn in the proportions 1, 1/2, 1/3, ..."""
    popular = 1 / np.arange(1, count + 1)
    return rng.choice(count, size, p=popular / popular.sum())


def _usual_hours(kind, rng):
    """Return an hour of the week as the kind of each check-in's person has it."""
    work = 24 * rng.integers(5, size=kind.size) + rng.choice([7, 8, 17, 18], kind.size)
    evening = 24 * rng.integers(5, size=kind.size) + rng.integers(19, 23, kind.size)
    weekend = 24 * rng.integers(5, 7, kind.size) + rng.integers(10, 17, kind.size)
    return np.choose(kind, [work, evening, weekend])
