"""Made tables: the same from run to run, in their ranges, and as uneven as they say."""

import hashlib

import numpy as np
import pytest

from dputils.book import made

TABLE = made.checkins()


def test_the_table_is_the_same_in_every_run():
    again = made.checkins()
    assert TABLE.equals(again) and not TABLE.equals(made.checkins(seed=1))
    exact = TABLE[["user", "venue", "hour"]].to_numpy(dtype=np.int64)
    assert hashlib.sha256(exact.tobytes()).hexdigest()[:8] == "97cdaa42"


def test_columns_lie_in_their_ranges():
    assert set(TABLE.user) == set(range(3000)) and set(TABLE.hour) == set(range(168))
    assert TABLE.venue.between(0, 599).all()
    south, north, west, east = made.BOX
    assert (TABLE.latitude.ge(south) & TABLE.latitude.lt(north)).all()
    assert (TABLE.longitude.ge(west) & TABLE.longitude.lt(east)).all()
    assert (TABLE.groupby("venue")[["latitude", "longitude"]].nunique() == 1).all().all()


def test_activity_is_heavy_tailed():
    rows = TABLE.user.value_counts()
    assert rows.median() == 6 and rows.max() > 100 * rows.median()
    at_one_venue = TABLE.groupby(["user", "venue"]).size()
    assert at_one_venue.max() < 400


@pytest.mark.parametrize("name", ["persons", "venues"])
def test_numbers_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        made.checkins(**{name: 0})


def test_spread_decides_how_uneven_persons_are():
    assert made.checkins(spread=0.5).user.value_counts().max() < 60
    with pytest.raises(ValueError, match="^spread must be"):
        made.checkins(spread=4)


def test_one_person_at_one_venue():
    table = made.checkins(1, 1, seed=3)
    assert set(table.user) == set(table.venue) == {0} and len(table)
