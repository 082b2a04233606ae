"""The schema accepts the example and nothing near it, and the example's numbers are true."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import mpmath
import pytest
import rfc8785
from statsmodels.stats.proportion import proportion_confint

from dpaudit.check import file
from dpaudit.check.file import NotACertificate, validate

DATA = Path(__file__).parents[2] / "data"
Json = dict[str, Any]
Change = Callable[[Json], object]


@pytest.fixture(scope="module")
def validator() -> Any:
    text = resources.files("dpaudit").joinpath("certificate_schema.json").read_text("utf-8")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def example() -> Json:
    loaded: Json = json.loads((DATA / "example_certificate.json").read_text("utf-8"))
    return loaded


def places(validator: Any, document: object) -> set[str]:
    return {error.json_path.removeprefix("$.") for error in validator.iter_errors(document)}


def predicate_of(document: Json) -> Json:
    inner: Json = document["predicate"]
    return inner


def test_the_example_is_valid(validator: Any, example: Json) -> None:
    assert places(validator, example) == set()


def test_a_certificate_with_every_optional_part_empty_is_valid(
    validator: Any, example: Json
) -> None:
    inner = predicate_of(example)
    inner.update(claims=[], audits=[], conformance=[], assumptions=[], run=None)
    inner.update(in_plain_words=None)
    inner["derivation"].update(upper_bounds=[], steps=[])
    inner["environment"].update(git=None, packages={})
    assert places(validator, example) == set()


REJECTED: list[tuple[str, Change, str]] = [
    (
        "float epsilon",
        lambda p: p["claims"][0]["stated"].update(epsilon=3.0),
        "predicate.claims[0].stated.epsilon",
    ),
    (
        "float in a curve",
        lambda p: p["derivation"]["upper_bounds"][3]["curve"][0].__setitem__(1, 0.5),
        "predicate.derivation.upper_bounds[3].curve[0][1]",
    ),
    (
        "negative bound",
        lambda p: p["claims"][2]["upper"].update(mu="-0.1"),
        "predicate.claims[2].upper.mu",
    ),
    (
        "number with a line feed",
        lambda p: p["claims"][2]["upper"].update(mu="0.1\n"),
        "predicate.claims[2].upper.mu",
    ),
    (
        "not a number",
        lambda p: p["claims"][2]["upper"].update(mu="nan"),
        "predicate.claims[2].upper.mu",
    ),
    (
        "epsilon without delta",
        lambda p: p["claims"][0]["stated"].pop("delta"),
        "predicate.claims[0].stated",
    ),
    (
        "parameter of another measure",
        lambda p: p["claims"][2]["stated"].update(rho="1"),
        "predicate.claims[2].stated",
    ),
    (
        "unknown measure",
        lambda p: p["claims"][0]["stated"].update(measure="pinsker"),
        "predicate.claims[0].stated",
    ),
    (
        "bound without confidence",
        lambda p: p["claims"][0]["lower"].pop("confidence"),
        "predicate.claims[0].lower",
    ),
    ("missing adjacency", lambda p: p["scope"].pop("adjacency"), "predicate.scope"),
    (
        "unknown adjacency",
        lambda p: p["scope"].update(adjacency="bounded"),
        "predicate.scope.adjacency",
    ),
    ("missing seed", lambda p: p["audits"][0].pop("seed"), "predicate.audits[0]"),
    ("missing root seed", lambda p: p["reproduce"].pop("root_seed"), "predicate.reproduce"),
    ("short seed", lambda p: p["audits"][0].update(seed="ab"), "predicate.audits[0].seed"),
    (
        "invented verdict",
        lambda p: p["verdict"].update(status="passed"),
        "predicate.verdict.status",
    ),
    (
        "invented claim verdict",
        lambda p: p["claims"][0].update(verdict="ok"),
        "predicate.claims[0].verdict",
    ),
    ("extra key", lambda p: p["scope"].update(remark="x"), "predicate.scope"),
    (
        "extra key in a guarantee",
        lambda p: p["claims"][0]["upper"].update(confidence="0.95"),
        "predicate.claims[0].upper",
    ),
    (
        "verdict without reasons",
        lambda p: p["verdict"].update(reasons=[]),
        "predicate.verdict.reasons",
    ),
    (
        "malformed digest",
        lambda p: p["mechanism"].update(digest="F" * 64),
        "predicate.mechanism.digest",
    ),
    (
        "digest with a line feed",
        lambda p: p["mechanism"].update(digest="0" * 64 + "\n"),
        "predicate.mechanism.digest",
    ),
    ("malformed time", lambda p: p.update(issued="yesterday"), "predicate.issued"),
    (
        "assumption status",
        lambda p: p["assumptions"][0].update(status="proved"),
        "predicate.assumptions[0].status",
    ),
    (
        "float arithmetic",
        lambda p: p["derivation"].update(arithmetic="float64"),
        "predicate.derivation.arithmetic",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "place"), [row[1:] for row in REJECTED], ids=[row[0] for row in REJECTED]
)
def test_a_wrong_certificate_is_rejected_where_it_is_wrong(
    validator: Any, example: Json, change: Change, place: str
) -> None:
    change(predicate_of(example))
    assert places(validator, example) == {place}


# Beside what numbers, texts and arrays of them may be, and what they may not.
ENTRIES = [None, True, 1, "", "1/0", "nan ", "1\n", "\u0661", "x" * 300, [], ["1"], [["1", 2]], {}]


def entries(part: Any) -> Iterator[tuple[Any, Any]]:
    """Each array with each of its places."""
    keys = part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
    for key in keys:
        if isinstance(part, list):
            yield part, key
        yield from entries(part[key])


def misjudged(validator: Any, example: Json) -> list[str]:
    """Places of changes that a verifier judges otherwise than the plain validator; seed 3."""
    found, rng = [], random.Random(3)
    for _ in range(40):
        changed = copy.deepcopy(example)
        part, key = rng.choice(list(entries(changed)))
        part[key] = rng.choice(ENTRIES)
        first = next(validator.iter_errors(changed), None)
        try:
            validate(changed)
        except NotACertificate as error:
            same = first is not None and first.message[:200] in str(error)
        else:
            same = first is None
        found += [] if same else [str(key)]
    return found


@pytest.mark.quality
def test_a_verifier_refuses_what_the_plain_validator_refuses(
    validator: Any, example: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays of texts are tested without it; with a test that any value passes, it would show."""
    assert misjudged(validator, example) == []
    file._validator.cache_clear()
    monkeypatch.setattr(file, "_test", lambda form: lambda value: True)
    try:
        assert misjudged(validator, example)
    finally:
        file._validator.cache_clear()


def test_the_first_subject_is_the_predicate(validator: Any, example: Json) -> None:
    example["subject"][0]["name"] = "other"
    assert places(validator, example) == {"subject[0].name"}


def test_a_metric_may_be_negative(validator: Any, example: Json) -> None:
    predicate_of(example)["run"]["metrics"][0]["value"] = "-1e-3"
    assert places(validator, example) == set()


def test_infinity_is_a_bound(validator: Any, example: Json) -> None:
    predicate_of(example)["claims"][0]["upper"]["epsilon"] = "inf"
    assert places(validator, example) == set()


def test_the_examples_digest_is_that_of_its_predicate(example: Json) -> None:
    content = rfc8785.dumps(copy.deepcopy(example["predicate"]))
    assert example["subject"][0]["digest"]["sha256"] == hashlib.sha256(content).hexdigest()


def gaussian_delta(epsilon: mpmath.mpf, mu: mpmath.mpf) -> mpmath.mpf:
    """Balle and Wang (2018), Theorem 8, with mu the sensitivity over the standard deviation."""
    return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(
        -epsilon / mu - mu / 2
    )


def quantile(probability: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sqrt(2) * mpmath.erfinv(2 * probability - 1)


def close_above(shown: str, true: mpmath.mpf) -> bool:
    return bool(true <= mpmath.mpf(shown) <= true * (1 + mpmath.mpf("1e-5")))


def close_below(shown: str, true: mpmath.mpf) -> bool:
    return bool(true * (1 - mpmath.mpf("1e-5")) <= mpmath.mpf(shown) <= true)


def test_the_examples_upper_bounds_are_those_of_the_gaussian_and_never_below(
    example: Json,
) -> None:
    with mpmath.workdps(50):
        mu = 1 / mpmath.sqrt(3)
        approx, gdp, zcdp, profile, tradeoff = predicate_of(example)["derivation"]["upper_bounds"]
        assert close_above(gdp["mu"], mu)
        assert close_above(zcdp["rho"], mpmath.mpf(1) / 6)
        delta = mpmath.mpf(approx["delta"])
        assert gaussian_delta(mpmath.mpf(approx["epsilon"]), mu) <= delta
        assert gaussian_delta(mpmath.mpf(approx["epsilon"]) * (1 - mpmath.mpf("1e-8")), mu) > delta
        for epsilon, delta_upper in profile["curve"]:
            assert close_above(delta_upper, gaussian_delta(mpmath.mpf(epsilon), mu))
        for alpha, beta_lower in tradeoff["curve"][1:-1]:
            assert close_below(beta_lower, mpmath.ncdf(quantile(1 - mpmath.mpf(alpha)) - mu))


def test_the_examples_lower_bounds_follow_from_its_counts(example: Json) -> None:
    lens, raw = predicate_of(example)["audits"]
    claim = predicate_of(example)["claims"][0]
    with mpmath.workdps(50):
        positive, negative = rates_upper(lens)
        mu = quantile(1 - positive) - quantile(negative)
        assert close_below(lens["lower_bounds"][0]["mu"], mu)
        conditional, delta = claim["lower_conditional"], mpmath.mpf("1e-5")
        achieved = gaussian_delta(mpmath.mpf(conditional["epsilon"]), mu)
        assert delta <= achieved <= delta * (1 + mpmath.mpf("1e-6"))
        positive, negative = rates_upper(raw)
        epsilon = mpmath.log((1 - negative - delta) / positive)
        assert close_below(raw["lower_bounds"][0]["epsilon"], epsilon)
        assert claim["lower"]["epsilon"] == raw["lower_bounds"][0]["epsilon"]
    assert float(claim["lower"]["epsilon"]) < float(conditional["epsilon"]) < 2.34143


def rates_upper(audit: Json) -> list[mpmath.mpf]:
    """Clopper-Pearson limits of both error rates, at 95% together."""
    counts = audit["counts"]
    return [
        mpmath.mpf(proportion_confint(counts[errors], audit["trials"], 0.05, method="beta")[1])
        for errors in ("false_positives", "false_negatives")
    ]


def test_the_examples_plain_words_are_those_of_its_bound(example: Json) -> None:
    words = predicate_of(example)["in_plain_words"]
    with mpmath.workdps(30):
        mu = 1 / mpmath.sqrt(3)
        assert close_above(words["membership_guess_upper"], mpmath.ncdf(mu / 2))
        rate = mpmath.ncdf(mu + quantile(mpmath.mpf("0.001")))
        assert close_above(words["true_positive_rate_at_0.001_upper"], rate)
        for prior, posterior_upper in words["posterior"]:
            odds = (1 - mpmath.mpf(prior)) / mpmath.mpf(prior)
            mean = mpmath.quad(
                lambda loss, odds=odds: (
                    mpmath.npdf(loss, mu**2 / 2, mu) / (1 + odds * mpmath.exp(-loss))
                ),
                [-8 * mu, -2 * mu, 0, 2 * mu, 9 * mu],
            )
            assert close_above(posterior_upper, mean)


NO_DATES = ["2026-13-01", "2026-02-30", "0000-01-01"]


@pytest.mark.parametrize("day", NO_DATES)
@pytest.mark.parametrize("place", ["issued", "publication_date", "review_date", "expires"])
def test_a_date_that_no_calendar_has_is_refused(day: str, place: str, example: Json) -> None:
    """It verified and was signed, and every command that computed with it ended in an error."""
    if place == "issued":
        predicate_of(example).update(issued=f"{day}T00:00:00Z")
    else:
        predicate_of(example).setdefault("fields", {}).update({place: [day]})
    with pytest.raises(NotACertificate, match=place):
        validate(example)


@pytest.mark.parametrize("time", ["24:00:01", "23:59:60", "23:61:00"])
def test_a_time_that_no_clock_has_is_refused(time: str, example: Json) -> None:
    predicate_of(example).update(issued=f"2026-01-01T{time}Z")
    with pytest.raises(NotACertificate, match="issued"):
        validate(example)
