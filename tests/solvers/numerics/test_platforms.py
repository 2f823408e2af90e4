"""The forms of a loop for processors and for accelerators give the same numbers."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator import as_on_accelerator, needs_processor
from simkit_solvers import on_accelerator, over_parts, over_shared_parts, over_shares, shared_among
from simkit_solvers.numerics.platforms import ITERATIONS, traced_for, while_loop

from simkit.machine import on_each_device
from simkit.transforms import Jit, pipeline


@needs_processor
def test_the_default_device_decides(monkeypatch):
    """Which may be given by its platform alone, and differ from that of the process."""
    assert not on_accelerator()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert on_accelerator()
    for device in (jax.devices("cpu")[0], "cpu"):
        with jax.default_device(device):
            assert not on_accelerator()
    with traced_for(jax.devices("cpu")[0]):
        assert not on_accelerator()
    with traced_for(SimpleNamespace(platform="gpu")):
        assert on_accelerator()


@needs_processor
def test_a_program_has_the_form_of_its_device(monkeypatch):
    """In a process whose default device is an accelerator, one for a processor takes part after part."""

    def program(x):
        return over_parts(lambda part: part.sum(), x)

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    x, cpu = jnp.ones((3, 2)), jax.devices("cpu")[0]
    assert "while" in pipeline(program, Jit(device="cpu")).lower(x).as_text()
    assert "while" not in jax.jit(lambda x: program(x)).lower(x).as_text()
    forms = []

    def seen(x):
        forms.append(on_accelerator())
        return program(x)

    on_each_device.lower(jax.jit(seen), (x,), (cpu,))
    assert forms == [False]


def test_parts_are_stacked_in_their_order():
    parts = {"x": jnp.arange(12.0).reshape(4, 3)}
    expected = np.arange(12.0).reshape(4, 3).sum(1)
    np.testing.assert_array_equal(over_parts(lambda part: part["x"].sum(), parts), expected)
    with as_on_accelerator():
        np.testing.assert_array_equal(over_parts(lambda part: part["x"].sum(), parts), expected)


@needs_processor
@pytest.mark.parametrize(("parts", "devices"), [(1, 2), (2, 2), (5, 2), (2, 3), (9, 4)])
def test_devices_share_parts_and_each_has_all_that_is_made_of_them(parts, devices):
    """Evenly or not, and where there are more devices than parts."""
    shares = []

    def program(x):
        def of_share(share):
            shares.append(len(share["x"]))
            return {"square": share["x"] ** 2, "number": share["number"]}

        each = over_shared_parts(lambda part: {"sum": part["x"].sum(), "number": part["number"]}, x)
        return over_shares(of_share, x), each

    x = {"x": jnp.arange(2.0 * parts).reshape(parts, 2), "number": jnp.arange(parts)}
    alone = program(x)
    shared = jax.jit(shared_among(tuple(jax.devices()[:devices]), program))(x)
    assert shares == [parts, -(-parts // devices)]
    for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(shared), strict=True):
        assert len(b.devices()) == devices
        for copy in b.addressable_shards:
            np.testing.assert_array_equal(a, copy.data)


@pytest.mark.parametrize("last", [0, 1, ITERATIONS, ITERATIONS + 1, 3 * ITERATIONS - 1])
def test_a_loop_does_no_iteration_too_many(last):
    ends = jax.vmap(lambda n: while_loop(lambda k: k < n, lambda k: k + 1, jnp.int32(0)))
    counts = np.array([last, 0, last // 2], np.int32)
    with as_on_accelerator():
        np.testing.assert_array_equal(ends(counts), counts)
        assert str(jax.make_jaxpr(ends)(counts)).count(" add ") == ITERATIONS
