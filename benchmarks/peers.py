"""One question to a peer, run by an interpreter that has them all; prints JSON."""

import json
import sys
import time

question = json.loads(sys.argv[1])


def jax_privacy():
    """PLD epsilon of its training accountants: Poisson, cyclic (BandMF), truncated, of users."""
    from jax_privacy.accounting import accountants, analysis

    users = question.get("per_user")
    kind = (
        analysis.DpsgdTrainingAccountant
        if users is None
        else analysis.DpsgdTrainingUserLevelAccountant
    )
    asked = analysis.DpParams(
        noise_multipliers=question["sigma"],
        num_samples=question["records"],
        delta=question["delta"],
        batch_size=question["batch"],
        examples_per_user=users,
        cycle_length=question.get("cycle"),
        truncated_batch_size=question.get("truncated"),
    )
    yield
    accountant = kind(accountants.PldAccountantConfig())
    yield accountant.compute_epsilon(question["times"], asked)


def autodp():
    """Renyi epsilon of sampled Gaussian noise, or of Laplace noise of many scales."""
    import warnings

    warnings.simplefilter("ignore")
    from autodp.mechanism_zoo import GaussianMechanism, LaplaceMechanism
    from autodp.transformer_zoo import AmplificationBySampling, Composition

    yield
    if "laplaces" in question:
        scales = [100 + i for i in range(question["laplaces"])]
        made, counts = [LaplaceMechanism(b=b) for b in scales], [1] * len(scales)
    else:
        one = GaussianMechanism(question["sigma"])
        one.neighboring = "add_remove"
        rate = question["batch"] / question["records"]
        sampled = AmplificationBySampling(PoissonSampling=True)
        made, counts = [sampled(one, rate, improved_bound_flag=True)], [question["times"]]
    yield Composition()(made, counts).get_approxDP(question["delta"])


def pld_accounting():
    """Both ends of random allocation by convolution (Feldman and Shenfeld 2026)."""
    from PLD_accounting import gaussian_allocation_epsilon_range

    def ends(sigma, slots, epochs, accuracy):
        return gaussian_allocation_epsilon_range(
            delta=question["delta"],
            sigma=sigma,
            num_steps=slots,
            num_epochs=epochs,
            epsilon_accuracy=accuracy,
        )

    ends(4.0, 8, 1, 0.5)  # compiles
    yield
    names = ("sigma", "slots", "epochs", "accuracy")
    yield ends(*(question[name] for name in names))


PEERS = {"jax-privacy": jax_privacy, "autodp": autodp, "PLD_accounting": pld_accounting}
asking = PEERS[question["peer"]]()
next(asking)  # imports are not timed
start = time.process_time()
answer = next(asking)
seconds = time.process_time() - start
if isinstance(answer, tuple):
    upper, lower = answer
    text = f"[{lower:.7f}, {upper:.7f}]"
else:
    text = f"upper {float(answer):.6f}"
print(json.dumps({"text": text, "seconds": seconds}))
