"""Faults that a user would suffer from, a few in each room, and the tests that catch them: see `mutations.py`."""

from typing import NamedTuple


class Fault(NamedTuple):
    """What to put in place of a snippet that stands in the sources once; `tests` is for `pytest -k`."""

    name: str
    snippet: str
    replacement: str
    tests: str


FAULTS = (
    Fault(
        "random: another rotation in the generator",
        "(13, 15, 26, 6)",
        "(13, 15, 26, 7)",
        "test_known_answer_vectors_of_random123",
    ),
    Fault(
        "random: steps of a group begin at another block",
        "start = first >> jnp.uint32(group - 1)",
        "start = first",
        "test_a_step_draws_the_same_however_the_steps_are_cut or test_where_each_normal_comes_from",
    ),
    Fault(
        "random: a normal's sign from another bit",
        "sign = word << jnp.uint32(31)",
        "sign = (word >> jnp.uint32(1)) << jnp.uint32(31)",
        "test_the_lowest_bit_is_the_sign_and_nothing_else",
    ),
    Fault(
        "random: areas of joined steps with the other sign",
        "m1 = 0.5 * m0 - H_SCALE * part.H[c]",
        "m1 = 0.5 * m0 + H_SCALE * part.H[c]",
        "test_joined_areas_are_the_integrals_that_define_them",
    ),
    Fault(
        "random: intervals of the Brownian tree share words",
        "((jnp.uint32(1) << level) + index)",
        "(level + index)",
        "test_no_two_places_share_a_counter",
    ),
    Fault(
        "random: gamma variates of small shape",
        "jnp.exp(-e / jnp.where(small, shape, 1))",
        "jnp.exp(-e / jnp.where(small, shape * 1.05, 1))",
        "test_gamma_variates",
    ),
    Fault(
        "numerics: elimination without pivoting",
        "larger = jnp.abs(a[i][k]) > jnp.abs(a[k][k])",
        "larger = jnp.abs(a[i][k]) < 0 * jnp.abs(a[k][k])",
        "test_elimination_by_numpy",
    ),
    Fault(
        "numerics: the series of the mean decay",
        "1.0 / math.factorial(n + 1) - near * series",
        "1.0 / math.factorial(n + 1) + near * series",
        "test_mean_decay",
    ),
    Fault(
        "problems: the sign of the drift's correction",
        'sign = -0.5 if self.calculus == "stratonovich" else 0.5',
        'sign = 0.5 if self.calculus == "stratonovich" else -0.5',
        "test_correction_of_gbm",
    ),
    Fault(
        "problems: slopes of a monotone cubic on uneven points",
        "(2 * h_after + h_before) * after",
        "(2 * h_before + h_after) * after",
        "test_curves_are_those_of_numpy_and_scipy",
    ),
    Fault(
        "problems: each part of a longer step has the jumps of all",
        "rate * (dt / len(words))",
        "rate * dt",
        "test_a_longer_step_has_the_jumps_of_those_it_is_made_of",
    ),
    Fault(
        "problems: pairs of molecules counted twice",
        "(x - float(i)) * (1 / (i + 1))",
        "(x - float(i))",
        "test_the_views_on_a_network_differ_as_they_should",
    ),
    Fault(
        "grids: saved times without their start",
        "float(self.t0) + np.arange(self.rows) * (self.every * float(self.dt))",
        "np.arange(self.rows) * (self.every * float(self.dt))",
        "test_rows_are_those_of_a_loop_written_out or test_exact_moments_count_time_from_the_start",
    ),
    Fault(
        "roots: Newton stops while it moves",
        "(state.residual < 1) & (state.change < 1)",
        "state.residual < 1",
        "test_newton_krylov_goes_on_while_it_moves",
    ),
    Fault(
        "roots: back substitution with the other sign",
        "rest = rest - R[j][i] * x[j]",
        "rest = rest + R[j][i] * x[j]",
        "test_anderson_is_gmres_on_a_linear_problem",
    ),
    Fault(
        "methods/ode: the leapfrog's last kick is a whole one",
        "_part(whole_kick, self.weights[-1] / 2)",
        "_part(whole_kick, self.weights[-1])",
        "test_turning_back_leads_to_the_start",
    ),
    Fault(
        "methods/ode: Rosenbrock's steps forget that rates depend on time",
        "lambda s: s * h.astype(s.dtype), slope",
        "lambda s: 0 * s * h.astype(s.dtype), slope",
        "test_a_rosenbrock_method_meets_the_conditions_of_its_order",
    ),
    Fault(
        "methods/sde: Milstein's differences are twice as large",
        "(u - v) / (2 * root)",
        "(u - v) / root",
        "test_a_stochastic_step_is_the_published_one and Milstein",
    ),
    Fault(
        "methods/sde: a weight of SRIW1",
        "(4 / 3) * (i_11 - a)",
        "(4 / 3) * (i_11 + a)",
        "test_a_stochastic_step_is_the_published_one and SRIW1",
    ),
    Fault(
        "methods/sde: an implicit step takes the drift at its beginning",
        "drift.vf_prod(t1, total(moved, change), args, h)",
        "drift.vf_prod(t0, total(moved, change), args, h)",
        "test_an_implicit_step_takes_the_drift_at_its_end",
    ),
    Fault(
        "methods/langevin: half of the friction in BAOAB",
        "jnp.exp(-g * h) * v",
        "jnp.exp(-g * h / 2) * v",
        "test_a_step_of_baoab_is_the_published_one or test_friction_and_heat_of_a_free_step_are_exact",
    ),
    Fault(
        "methods/jump: waiting times of the first reaction alone",
        "exponential(words.a).astype(total.dtype), total)",
        "exponential(words.a).astype(total.dtype), a[0])",
        "test_birth_death_has_its_moments",
    ),
    Fault(
        "methods/jump: clocks stand still while rates change",
        "state._replace(left=self._run_on(jumps, y, state, after))",
        "state",
        "test_doses_and_jumping_rates_of_a_jump_process",
    ),
    Fault(
        "methods/jump: leaps may use up more than there is",
        "(counts[name] < jnp.int32(-change * self.critical))",
        "(counts[name] < jnp.int32(0 * change * self.critical))",
        "test_no_count_is_negative_or_loses_its_unit",
    ),
    Fault(
        "loops: a solver's memory outlives an event",
        "afresh = schedule.moved(t - 0.5 * run.dt, t + 0.5 * run.dt)",
        "afresh = schedule.moved(t, t)",
        "test_a_solver_with_a_memory_starts_afresh_after_a_jump",
    ),
    Fault(
        "loops: float32 steps lose what rounding takes",
        "u - (y1 - y), u, y1, y)",
        "0 * (u - (y1 - y)), u, y1, y)",
        "test_an_ode_over_many_steps_is_right_to_the_last_digits",
    ),
    Fault(
        "loops: checkpointed loops count from the wrong place",
        "body(c, i * inside + j)",
        "body(c, i + j)",
        "test_nested_scans_are_one_scan",
    ),
    Fault(
        "loops: rows that were not reached look like others",
        "where_reached(jnp.isfinite(saved[saved_times]), rows)",
        "where_reached(jnp.ones_like(saved[saved_times], bool), rows)",
        "test_a_failed_path_is_nan_from_the_first_time_it_did_not_reach",
    ),
    Fault(
        "loops: the error of a step in units of its smaller end",
        "jnp.maximum(jnp.abs(y), jnp.abs(b))",
        "jnp.minimum(jnp.abs(y), jnp.abs(b))",
        "test_the_error_is_the_root_mean_square_in_units_of_the_larger_end",
    ),
    Fault(
        "loops: the clock of events drifts in float32",
        "step - (end - path.elapsed)",
        "0 * step",
        "test_the_clock_of_a_jump_process_is_right_after_many_events",
    ),
    Fault(
        "derivatives: a score's weight without its divergence",
        "weight if slope is None else weight - slope",
        "weight",
        "test_greeks_and_deviations_per_path_are_the_published_ones",
    ),
    Fault(
        "derivatives: the divergence of smoothing with the other sign",
        "gain - u[c] for gain, u in",
        "gain + u[c] for gain, u in",
        "test_smoothing_at_a_barrier_and_in_strikes",
    ),
    Fault(
        "derivatives: a crossing moves the wrong way",
        "after = -value / jax.lax.stop_gradient(rate)",
        "after = value / jax.lax.stop_gradient(rate)",
        "test_bounces_of_a_ball or test_a_pendulum_s_period_has_the_derivative_of_the_elliptic_integral",
    ),
    Fault(
        "derivatives: a jump more counts without its sign",
        "jnp.sign(slopes[kind]) * sums[-1] * grid.steps",
        "sums[-1] * grid.steps",
        "test_a_jump_more_counts_with_the_sign_of_its_rate",
    ),
    Fault(
        "derivatives: scores of events without the time between",
        "sum(log_slopes) - tau * sum(slopes)",
        "sum(log_slopes) - 0 * tau * sum(slopes)",
        "test_scores_give_the_derivatives_of_immigration_and_death",
    ),
    Fault(
        "derivatives: one event more, whatever the time in which it may happen",
        "weights[i] * span * (with_it[i] - without[i])",
        "weights[i] * (with_it[i] - without[i])",
        "test_one_event_more_gives_the_derivatives_of_immigration_and_death",
    ),
    Fault(
        "derivatives: a step back at the wrong time",
        "(k + jnp.uint32(1)).astype(numbers.dt.dtype) * numbers.dt",
        "k.astype(numbers.dt.dtype) * numbers.dt",
        "test_reversible_heun_finds_its_copy_and_its_noise_again",
    ),
    Fault(
        "finance: an exact step of a price without its correction",
        "GBMState(S=y.S * jnp.exp((self.mu - 0.5 * self.sigma**2) * h",
        "GBMState(S=y.S * jnp.exp(self.mu * h",
        "test_one_step_has_the_exact_moments_and_a_normal_law",
    ),
    Fault(
        "finance: Heston's correlation with the other sign",
        "v=self.xi * root * (self.rho * dW.W1 + across * dW.W2)",
        "v=self.xi * root * (across * dW.W2 - self.rho * dW.W1)",
        "test_heston_covariance_of_increments",
    ),
    Fault(
        "finance: jumps move the mean of a price",
        "return self.mu - self.lam * self.marks(t).mean_return()",
        "return self.mu",
        "test_merton_has_the_price_that_quantlib_gives",
    ),
    Fault(
        "nonlinear: Lorenz's y grows by itself",
        "y.x * (self.rho - y.z) - y.y",
        "y.x * (self.rho - y.z) + y.y",
        "test_the_flow_of_lorenz63_shrinks_volumes_at_the_known_rate",
    ),
    Fault(
        "chemistry: a term of the Brusselator",
        "(self.b + 1) * y.x",
        "self.b * y.x",
        "test_the_brusselator_begins_to_swing_where_it_should",
    ),
    Fault(
        "biology: a rate of Hodgkin and Huxley",
        "jnp.exp(-(V + 65.0) / 80)",
        "jnp.exp(-(V + 65.0) / 20)",
        "test_hodgkin_huxley_rests_where_it_was_found_to",
    ),
    Fault(
        "mechanics: twice the kinetic energy",
        "for component in p) / (2 * m)",
        "for component in p) / m",
        "test_is_conserved",
    ),
)
