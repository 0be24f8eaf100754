"""What is special about a loss: what solvers, scores and reports ask instead of its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OddsForm:
    """A loss of the form v h(m) - x log m with h(m) = m or log(1 + m) and v = base + slope x.

    Attributes
    ----------
    linear
        Whether h(m) = m (Poisson); else h(m) = log(1 + m) (odds losses).
    base, slope
        The weight v of a cell: 1 and 0 for Poisson and Bernoulli odds, r and 1 for the
        negative binomial.
    """

    linear: bool
    base: float = 1.0
    slope: float = 0.0


@dataclass(frozen=True)
class Traits:
    """What is special about a loss; without any, everything general works.

    Attributes
    ----------
    quadratic
        f(x, m) is (x - m)^2: solvers may use its structure, and a model explains a share of the
        squared norm.
    odds_form
        The form of a loss with a conjugate history; None for every other loss.
    rows_first
        The conjugate history only where curvatures of every row would not fit into memory.
    prior_strength
        How much weak Gaussian priors on weights and rows count, in observations. Losses that go
        on falling as m grows need them: an empty slice, or a row that is always 1, has no finite
        optimum. Losses with a finite optimum for every datum are left alone: there the prior
        starves small components, which it then shrinks further.
    capped_dispersion
        Squared slopes over curvature may not count for more than 1, what a right likelihood has:
        misfit must not feed on itself through the prior.
    tempered
        f grows with the square of the data, so that slices far louder than usual count less.
    deviance_factor
        Deviance over f less its least value: 2, but 1 if f is already twice a negative
        log-likelihood.
    binary
        Data are yes or no.
    counts
        Data count events, so that losses are told per event.
    person
        Named after a person, and written with a capital letter in sentences.
    usual_weight
        Weight of a component of unit size that makes ordinary data, for streams drawn
        by tests: counts of some size, log rates that do not explode, yes-or-no data that are
        neither nearly certain nor nearly noise.
    """

    quadratic: bool = False
    odds_form: OddsForm | None = None
    rows_first: bool = False
    prior_strength: float = 0.0
    capped_dispersion: bool = False
    tempered: bool = False
    deviance_factor: float = 2.0
    binary: bool = False
    counts: bool = False
    person: bool = False
    usual_weight: float = 3.0

    @property
    def poisson(self) -> bool:
        """Whether f(x, m) is m - x log m, so that data are Poisson counts of mean m."""
        return self.odds_form == OddsForm(linear=True)
