"""The audit of a tree in turns: a record of a large gradient, of a group's last place."""

import dpaudit as dp
from audits.training.common import PAIR
from mechanisms.training.turns import TreeInTurns

tree_in_turns = dp.Suite("tree_in_turns", TreeInTurns(), PAIR, trials=2_000)
