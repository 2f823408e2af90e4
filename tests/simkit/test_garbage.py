"""When garbage is collected."""

import gc

import pytest

from simkit.garbage import OBJECTS, seldom_collected


def test_garbage_is_collected_as_before_when_all_is_traced():
    before = gc.get_threshold()

    @seldom_collected()
    def fails():
        raise KeyError(gc.get_threshold()[0])

    with pytest.raises(KeyError, match=str(OBJECTS)):
        fails()
    assert gc.get_threshold() == before
