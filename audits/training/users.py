"""The audit of users drawn by coins: a user with more records than count, among others of zeros."""

import numpy as np

import dpaudit as dp
from mechanisms.training.users import UserSgd

users = np.zeros((20, 4, 3))
users[-1] = 1e6, 0, 1
OWNED = dp.Neighbours(
    dp.Records(users),
    dp.Records(users[:-1]),
    dp.Adjacency.ADD_REMOVE,
    "a user with four records of large gradients",
)
user_sampled_sgd = dp.Suite("user_sampled_sgd", UserSgd(), OWNED, trials=4_000)
