"""Pipelines: the same numbers wherever they run, refusals by name; derivatives by every way; their checks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import InputError, NumericalError
from simkit.transforms import (
    Checkpoint,
    Grad,
    Hessian,
    Jacobian,
    Jit,
    Pmap,
    Shard,
    Vmap,
    check_gradient,
    derivative,
    hessian,
    hessian_vector_product,
    holomorphic,
    jacobian,
    pipeline,
)


def energy(x, scale):
    """A scalar function of three numbers and one more."""
    return jnp.sum(jnp.sin(scale * x) ** 2) + jnp.prod(x)


def field(x, scale):
    return jnp.stack([x[0] * x[1], jnp.exp(scale * x[2])])


def points(count):
    return jnp.asarray(np.random.default_rng(3).uniform(0.5, 2.0, (count, 3)))


@pytest.mark.parametrize(("count", "devices"), [(13, 4), (2, 3)])
def test_one_device_or_several_give_the_same_bits(count, devices):
    """The parts of the axis are equally long or not."""
    x = points(count)
    expected = pipeline(energy, Grad(), Vmap((0, None)), Jit())(x, 0.3)
    sharded = pipeline(energy, Grad(), Shard((0, None), devices=devices), Jit())
    for layout in (sharded, pipeline(energy, Grad(), Pmap((0, None), devices=devices))):
        actual = layout(x, 0.3)
        np.testing.assert_array_equal(actual, expected, strict=True)


def test_axes_go_where_they_are_said_to():
    x = points(8)
    expected = jnp.stack([x[:, 0] * x[:, 1], jnp.exp(0.3 * x[:, 2])], axis=1)
    for layout in (Vmap, Shard):
        actual = pipeline(field, layout((1, None), 1), Jit())(x.T, 0.3)
        np.testing.assert_allclose(actual, expected.T, rtol=1e-15)
    sharded = pipeline(field, Shard((0, None)), Jit())(x, 0.3)
    assert len(sharded.sharding.device_set) == 4


def test_the_order_is_the_one_that_is_stated():
    """Inner first: the gradient of each element, and the gradient of the sum of mapped values."""
    x = points(5)
    mapped = pipeline(energy, Grad(), Vmap((0, None)), Jit())
    others = jnp.prod(x, axis=1, keepdims=True) / x
    np.testing.assert_allclose(mapped(x, 0.3), 0.3 * jnp.sin(0.6 * x) + others, rtol=1e-13)
    rows = pipeline(energy, Vmap((0, None)), Jacobian(1), Jit())
    expected = jnp.sum(x * jnp.sin(2 * 0.3 * x), axis=1)
    np.testing.assert_allclose(rows(x, 0.3), expected, rtol=1e-13)
    with pytest.raises(InputError, match=r"Grad: mapped gives float64\[5\], and a gradient is of one number"):
        pipeline(energy, Vmap((0, None)), Grad())(x, 0.3)
    curvature = pipeline(energy, Checkpoint(), Hessian(), Jit())(x[0], 0.3)
    np.testing.assert_allclose(jnp.diag(curvature), 2 * 0.3**2 * jnp.cos(0.6 * x[0]), rtol=1e-12)


def test_programs_ahead_of_time():
    """One trace serves the warmed-up calls; static values are compiled in; the cost is reported."""
    traces = []

    def power(x, n):
        traces.append(n)
        return x**n

    made = pipeline(power, Jit(static=(1,)))
    shape = jax.ShapeDtypeStruct((4,), jnp.float64)
    program = made.warm_up(shape, 3)
    x = jnp.arange(4.0)
    for _ in range(2):
        np.testing.assert_array_equal(made(x, 3), x**3)
    assert traces == [3]
    ready = dataclasses.replace(made, composed=lambda *_: pytest.fail("not the program that was warmed up"))
    np.testing.assert_array_equal(ready(x, 3), x**3)
    np.testing.assert_array_equal(made(x, 2), x**2)
    assert program.cost.argument_bytes == program.cost.output_bytes == 32
    assert program.cost.temporary_bytes is not None
    with pytest.raises(InputError, match="argument 1 was compiled in as 3, got 2"):
        program(x, 2)
    assert "power" in made.lower(shape, 3).as_text()


def test_pmap_compiles_once_and_ahead_of_time():
    traces = []

    def square(x, n):
        traces.append(x)
        return n * x**2

    made = pipeline(square, Pmap((0, None), devices=3))
    program = made.warm_up(jax.ShapeDtypeStruct((5,), jnp.float64), 2.0)
    x = jnp.arange(5.0)
    for call in (made, program, made):
        np.testing.assert_array_equal(call(x, 2.0), 2 * x**2)
    assert len(traces) == 1
    assert program.cost.argument_bytes is not None


def test_devices_and_donated_memory():
    add = pipeline(lambda x, y: x + y, Jit(donate=(0,), device="cpu:2"))
    x = jax.device_put(jnp.ones(1000), jax.devices("cpu")[2])
    total = add(x, jnp.ones(1000))
    assert total.devices() == {jax.devices("cpu")[2]}
    assert x.is_deleted()


REFUSED = {
    "Jit stands at [1, 3]": lambda: pipeline(energy, Jit(), Grad(), Jit()),
    "Jit stands before Vmap, which would not be compiled": lambda: pipeline(energy, Jit(), Vmap((0, None))),
    "Shard and Pmap both lay out": lambda: pipeline(energy, Shard((0, None)), Pmap((0, None))),
    "Pmap compiles what it maps": lambda: pipeline(energy, Pmap((0, None)), Jit()),
    "there is no argument 2: energy takes 2": lambda: pipeline(energy, Grad(2)),
    "in_axes (0,) are for 1 arguments, and energy takes 2": lambda: pipeline(energy, Vmap((0,))),
    "nothing to map over": lambda: pipeline(energy, Vmap((None, None))),
    "argument 1 is both static and donated": lambda: pipeline(energy, Jit((1,), (1,))),
    "argument 0 is static in Jit, and Grad differentiates by it": lambda: pipeline(energy, Grad(), Jit((0,))),
    "argument 0 is static in Jit, and Vmap maps over it": lambda: pipeline(
        energy, Vmap((0, None)), Jit((0,))
    ),
    "Shard.devices: 5 requested, 4 available": lambda: pipeline(energy, Shard((0, None), devices=5)),
    "this process has cpu:0 to cpu:3": lambda: pipeline(energy, Jit(device="cpu:4")),
    "there is no tpu": lambda: pipeline(energy, Jit(device="tpu")),
    "Shard lays out over devices, and Jit names one": lambda: pipeline(
        energy, Shard((0, None)), Jit(device="cpu")
    ),
    "write Grad()": lambda: pipeline(energy, Grad),  # type: ignore[arg-type]
    "energy is not compiled; end with Jit()": lambda: pipeline(energy, Grad()).lower(points(1)[0], 0.3),
    "energy takes 2 arguments by position, got 1": lambda: pipeline(energy, Jit())(1.0),
    "names a position twice": lambda: pipeline(energy, Grad((0, 0))),
    "argument 1 is int64, which has no derivative": lambda: derivative(energy, 1)(points(1)[0], 2),
    "argument 0 has shape [3], and no axis 1": lambda: pipeline(energy, Vmap((1, None)))(points(1)[0], 0.3),
    "the mapped axes differ: 3 in argument 0, 4 in argument 1": lambda: pipeline(energy, Vmap())(
        points(1)[0], jnp.ones(4)
    ),
    "strategy must be auto, forward or reverse, got 'backward'": lambda: derivative(
        energy,
        strategy="backward",  # type: ignore[arg-type]
    ),
    "hessian: field gives float64[2]": lambda: hessian(field)(points(1)[0], 0.3),
    "give one number for each of the argument's": lambda: hessian_vector_product(energy)(
        (1.0,), points(1)[0], 0.3
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_means_nothing_is_refused_by_name(message):
    with pytest.raises(InputError) as caught:
        REFUSED[message]()
    assert message in str(caught.value)


@pytest.mark.parametrize("wrt", [0, 1, (0, 1)])
@pytest.mark.parametrize("function", [energy, field])
def test_forward_and_reverse_agree(function, wrt):
    x = points(1)[0]
    values = {}
    for strategy in ("forward", "reverse"):
        value, slopes = jax.jit(derivative(function, wrt, strategy, with_value=True))(x, 0.3)
        np.testing.assert_allclose(value, function(x, 0.3), rtol=1e-14)
        values[strategy] = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(slopes)])
    np.testing.assert_allclose(values["forward"], values["reverse"], rtol=1e-13)
    assert jacobian(function, wrt, "rows").strategy == "reverse"
    assert jacobian(function, wrt, "columns").strategy == "forward"


def test_the_choice_counts_and_weighs():
    """Few inputs go forward, many reverse; memory, and loops that have no reverse mode, decide."""
    many = jnp.ones(1000)

    def cubes(x):
        return jnp.sum(jnp.sin(x) ** 3)

    def endless(x):
        return jnp.sum(jax.lax.while_loop(lambda y: jnp.any(y < 10), lambda y: 2 * y, x))

    few = derivative(energy, 1).choice(many[:3], 0.3)
    assert (few.strategy, few.inputs, few.outputs) == ("forward", 1, 1)
    chosen = derivative(cubes).choice(jax.ShapeDtypeStruct((1000,), jnp.float64))
    assert (chosen.strategy, chosen.inputs, chosen.outputs) == ("reverse", 1000, 1)
    assert chosen.residual_bytes is not None
    assert chosen.residual_bytes >= 8000
    tight = derivative(cubes, budget=chosen.residual_bytes - 1).choice(many)
    assert tight.strategy == "forward"
    assert "more than the budget" in str(tight)
    assert derivative(cubes, budget=chosen.residual_bytes).choice(many).strategy == "reverse"
    assert derivative(endless).choice(many).reason.endswith("the function has no reverse mode")
    np.testing.assert_array_equal(derivative(endless)(many), 16.0)
    with pytest.raises(InputError, match='has no reverse mode; use strategy="forward"'):
        derivative(endless, strategy="reverse")(many)


def test_second_order():
    x, v = points(1)[0], jnp.asarray([0.3, -1.0, 2.0])
    expected = jnp.prod(x) / jnp.outer(x, x) * (1 - jnp.eye(3)) + jnp.diag(2 * 0.3**2 * jnp.cos(0.6 * x))
    actual = jax.jit(lambda x: [hessian(energy, inner=inner)(x, 0.3) for inner in ("reverse", "forward")])(x)
    np.testing.assert_allclose(actual, [expected] * 2, rtol=1e-12)
    product = jax.jit(hessian_vector_product(energy))(v, x, 0.3)
    np.testing.assert_allclose(product, expected @ v, rtol=1e-12)


def test_complex_derivatives():
    z = jnp.asarray([0.3 + 0.7j, -1.2 + 0.1j])
    np.testing.assert_allclose(holomorphic(lambda z: jnp.exp(z * z))(z), 2 * z * jnp.exp(z * z), rtol=1e-14)
    for crooked in (jnp.conj, jnp.abs, jnp.real, lambda z: z * jnp.conj(z)):
        with pytest.raises(InputError, match="not analytic"):
            holomorphic(crooked)(z)
    with pytest.raises(InputError, match="argument 0 is float64, not complex"):
        holomorphic(jnp.exp)(z.real)
    with pytest.raises(Exception, match="not analytic"):
        jax.block_until_ready(jax.jit(holomorphic(jnp.conj))(z))


@jax.custom_jvp
def cubed(x):
    return x**3


@cubed.defjvp
def _(primals, tangents):
    (x,), (v,) = primals, tangents
    return cubed(x), 2 * x**2 * v  # wrong on purpose: 3


@jax.custom_vjp
def squared(x):
    return x**2


squared.defvjp(lambda x: (x**2, x), lambda x, g: (2.1 * x * g,))  # wrong on purpose: 2


@pytest.mark.parametrize("x", [0.5, -40.0, 1e-4, 1e6])
@pytest.mark.parametrize("function", [jnp.sin, lambda x: jnp.exp(-(x**2) / 100), lambda x: x**3 - x])
def test_right_gradients_pass(function, x):
    assert check_gradient(function, jnp.asarray(x)).ok


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (cubed, 1.3, "forward mode gives 3.38, differences 5.07"),
        (squared, 1.3, "reverse mode gives 2.73, differences 2.6"),
        (lambda x: x * jax.lax.stop_gradient(x), 1.3, "differences 2.6"),
        (jnp.sqrt, 0.0, "gives inf where the function is finite"),
        (lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0), 0.0, "gives nan where the function is finite"),
    ],
)
def test_wrong_gradients_are_found(function, x, message):
    with pytest.raises(NumericalError, match=message):
        check_gradient(function, jnp.asarray(x))
    report = check_gradient(function, jnp.asarray(x), raises=False)
    assert not report.ok
    assert report.worst.name == "argument 0"
    assert message in str(report)


def test_the_report_names_the_worst_component():
    def partly(tree, scale):
        return jnp.sum(tree["a"] ** 2) * scale + cubed(tree["b"][1])

    tree = {"a": jnp.ones(2), "b": jnp.asarray([1.0, 2.0])}
    report = check_gradient(partly, tree, 0.5, wrt=(0, 1), raises=False)
    assert len(report.components) == 5
    assert [each.name for each in report.components if each.wrong] == ["argument 0['b'][1]"]
    assert report.worst.name == "argument 0['b'][1]"
    assert not check_gradient(partly, tree, 0.5, directions=3, raises=False).ok
    with pytest.raises(InputError, match="is nan at these arguments"):
        check_gradient(jnp.log, -1.0)


def test_a_mode_that_is_missing_is_said():
    def endless(x):
        return jax.lax.while_loop(lambda y: y < 10, lambda y: 2 * y, x)

    report = check_gradient(endless, jnp.asarray(1.1))
    assert report.components[0].forward == pytest.approx(16.0)
    assert np.isnan(report.components[0].reverse)
    assert report.missing[0].startswith("no reverse mode: ")
