"""Two samples of one quantity, base and new: their ratio, its interval, and whether chance explains
it. Pure; scipy is imported when a test is made.

A trial that was not back at its deadline enters as longer than every time that was measured
(`sample`). `ranks` is the test, `ratio` the interval that goes with it, `difference` both of them
together, `groups` whether one median says enough, `power` what so many trials could have shown,
`rates` the test of two rates, and `judge` makes a verdict of it all.
"""

from recoverybench.effects.difference import Effect, effect
from recoverybench.effects.groups import bimodal, modes, two_groups
from recoverybench.effects.judge import ENOUGH, holm, verdict
from recoverybench.effects.power import detectable
from recoverybench.effects.ranks import rank_test
from recoverybench.effects.rates import rate_test
from recoverybench.effects.ratio import ratio_interval
from recoverybench.effects.sample import MOST_S, Sample, countable

__all__ = [
    "ENOUGH",
    "MOST_S",
    "Effect",
    "Sample",
    "bimodal",
    "countable",
    "detectable",
    "effect",
    "holm",
    "modes",
    "rank_test",
    "rate_test",
    "ratio_interval",
    "two_groups",
    "verdict",
]
