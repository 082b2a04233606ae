"""The page for readers: short, complete, in plain words, and in each language throughout."""

from __future__ import annotations

import copy
import html
import json
import re
from gettext import NullTranslations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpaudit.certificate.certificate import save, statement
from dpaudit.certificate.previous import previous_of
from dpaudit.check.file import validate
from dpaudit.families.opaque import PureDP
from dpaudit.ledger import open_ledger, terms_of
from dpaudit.releases import publish as publishing
from dpaudit.releases.items.counts import Count
from dpaudit.releases.plan import Plan, Release
from dpaudit.releases.published import differences
from dpaudit.report import front, reader, render_html, render_index, say, view
from dpaudit.report.say import LANGUAGES, speaking
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit
from dpaudit.tabular import Category, Schema
from tests.library.cli.bench import held
from tests.library.unit.test_report import poisoned

pl = pytest.importorskip("polars")


Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
MOST_WORDS = 900  # before the auditor's part
WORD = "Xylophon"  # in place of each text that an author wrote, which nobody translates
# Words that are no German and no French ones.
ENGLISH = frozenset(
    "the of and is are were with without for that this these those which from by not at most least "
    "one its it to been be has have what who whose only nothing nobody every each than if their "
    "there no can could would should may stated more other all any about because how"
    .split()
)  # fmt: skip
# A regulator's questions, each with the words that begin its answer on the English page.
QUESTIONS = {
    "unit": "Who is protected",
    "epsilon": "Epsilon",
    "delta": "Delta",
    "what was assumed": "What it took on trust",
    "what was tested and how strongly": "What was tested, and how strongly",
    "what changed since last year": "What changed since the last release",
    "budget spent and left": "Budget spent, and left",
    "contact": "Contact",
    "legal basis": "Legal basis",
    "licence": "Licence",
    "retention": "Retention",
}


def attacked_before(
    plan: Plan, trials: int, progress: Any, draw: Any, file: str, ready_made: str = ""
) -> Any:
    """A release's certificate without the minute of its attack: the rest is another's."""
    predicate = {**held()["predicate"], "run": draw()}
    plan_file = {"name": "plan", "digest": {"sha256": plan.release.digest}}
    predicate["mechanism"] = {**predicate["mechanism"], "implementation": [plan_file]}
    predicate["scope"] = {**predicate["scope"], "title": plan.release.title}
    predicate["fields"] = {
        "contact": ["officer@clinic.example"],
        "legal_basis": ["Article 6(1)(e) GDPR"],
    }
    reasons = [SimpleNamespace(reason="")]
    return SimpleNamespace(certificate=statement(predicate), verdict="certified", judged=reasons)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of a table, published and charged."""
    columns = {"sex": Category(("f", "m"))}
    schema = Schema("people", columns, unit="person", entity="person", rows=1)
    items = (Count(name="by sex", by=("sex",)),)
    release = Release("People by sex", schema, Adjacency.ADD_REMOVE, PureDP(1), items)
    out = tmp_path_factory.mktemp("release")
    ledger = open_ledger(str(out / "budget.sqlite"))
    ledger.create("people", terms_of("person", release.scope, PureDP(3)))
    rows = {"person": [f"p{i}" for i in range(200)], "sex": ["f", "m"] * 100}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(publishing, "certified", attacked_before)
        patched.setattr("dpaudit.certificate.publish.check_own", lambda *_: None)
        publishing.publish(release.plan(), pl.DataFrame(rows), out / "out", ledger=ledger)
    return out / "out"


@pytest.fixture
def certificates(folder: Path) -> dict[str, Json]:
    """Of a release of a table, of a training run, and of an example with a run from a seed."""
    files = {
        "release": folder / "certificate" / "people_by_sex.json",
        "training": ROOT / "reports" / "dp_gd.json",
        "example": ROOT / "tests" / "data" / "example_certificate.json",
    }
    return {name: json.loads(path.read_text("utf-8")) for name, path in files.items()}


def count(text: str) -> int:
    """The number of words; a sign between two blanks, as French writes colons, is none."""
    return sum(any(map(str.isalnum, word)) for word in text.split())


def words_of(page: str) -> str:
    """The visible text of a part of a page."""
    page = re.sub(r"<style>.*?</style>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def first_part(page: str) -> str:
    """All that stands before the auditor's part."""
    assert page.count("<details") == page.count("</details>") == 1
    return words_of(page[page.index("<body") : page.index("<details")])


@pytest.mark.first_case("spoken")
@pytest.mark.parametrize("name", ["release", "training", "example"])
@pytest.mark.parametrize("spoken", LANGUAGES)
def test_a_reader_reads_at_most_900_words_before_the_auditors_part(
    certificates: dict[str, Json], name: str, spoken: str
) -> None:
    text = first_part(render_html(certificates[name], spoken=spoken))
    assert 150 < count(text) <= MOST_WORDS


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("spoken", LANGUAGES)
def test_no_author_makes_the_first_part_longer(
    certificates: dict[str, Json], spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a certificate all of whose texts are 500 words long; without the cut it is too long."""
    long = poisoned(certificates["release"], "word " * 500)
    long["predicate"]["scope"]["title"] = "title " * 20
    long["predicate"]["fields"] = {
        name: ["word " * 500] * 9 for name in ("contact", "purpose", "licence", "retention")
    }
    assert count(first_part(render_html(long, spoken=spoken))) <= MOST_WORDS
    for name in ("LONG_WORDS", "SENTENCE_WORDS", "MIDDLE_WORDS", "SHORT_WORDS"):
        monkeypatch.setattr(reader, name, 10_000)
    monkeypatch.setattr(reader._line, "__defaults__", (10_000, None))
    assert count(first_part(render_html(long, spoken=spoken))) > MOST_WORDS


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["release", "training", "example"])
def test_a_regulators_ten_questions_are_answered_or_somebody_is_named(
    certificates: dict[str, Json], name: str
) -> None:
    """Epsilon and delta are two answers to one of them."""
    page = view.build(certificates[name])
    answers = {line.label: line.texts for line in page.glance.lines}
    text = first_part(render_html(certificates[name]))
    for question, label in QUESTIONS.items():
        assert answers[label], question
        assert label in text, question
        assert answers[label][0].split(" (")[0][:40] in text, question
    unstated = [texts[0] for texts in answers.values() if texts[0].startswith("Not stated")]
    asked = {
        "release": "officer@clinic.example",
        "training": "the person who runs this command",
        "example": "Example Health Research Institute",
    }
    assert set(unstated) == {f"Not stated; ask {asked[name]}."}


def test_a_question_without_an_answer_is_seen(
    certificates: dict[str, Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_stated", lambda predicate, name: ())
    with pytest.raises(AssertionError, match="what changed"):
        test_a_regulators_ten_questions_are_answered_or_somebody_is_named(certificates, "release")


@pytest.mark.first_case
@pytest.mark.parametrize("spoken", LANGUAGES)
def test_what_changed_is_computed_where_the_last_certificate_is_given(
    certificates: dict[str, Json], spoken: str
) -> None:
    """The parts that differ, both bounds and the day; what is stated follows."""
    label = "What changed since the last release"
    before, after = certificates["release"], copy.deepcopy(certificates["release"])
    inner = after["predicate"]
    inner["issued"] = "2031-05-06T00:00:00Z"
    inner["claims"][0]["upper"] = {"measure": "pure_dp", "epsilon": "7"}
    inner["run"]["published"]["rows"][0]["value"] = "12345"
    inner["fields"]["changes"] = ["A question was left out"]
    with speaking(spoken):
        (found,) = [
            line.texts
            for line in view.build(after, previous=before).glance.lines
            if line.label == say.say(label)
        ]
    assert found[-1] == "A question was left out"
    assert english_words(" ".join(found[:2])) == [] or spoken == "en"
    if spoken == "en":
        assert (
            "these differ: claims and bounds, data and published numbers, stated facts" in found[0]
        )
        assert found[1].startswith("Epsilon: at most ")
        assert found[1].endswith(", at most 7 now.")
        assert "at most 7 now." in first_part(render_html(after, previous=before))
    inner = copy.deepcopy(before)
    inner["predicate"]["issued"] = "2031-05-06T00:00:00Z"
    lines = view.build(inner, previous=before).glance.lines
    (same,) = [line.texts for line in lines if line.label == label]
    assert same[0].startswith("Nothing but the date differs from the certificate of ")


def test_the_last_certificate_of_the_same_mechanism_or_data_is_found_among_those_given(
    certificates: dict[str, Json],
) -> None:
    def issued(year: int, **names: str) -> Json:
        made = copy.deepcopy(certificates["release"])
        made["predicate"]["issued"] = f"{year}-01-01T00:00:00Z"
        made["predicate"]["mechanism"]["name"] = names.get("name", "people_by_sex")
        made["predicate"]["fields"]["data_source"] = [names.get("data", "people")]
        return made

    first, second, third = issued(2026), issued(2027), issued(2028)
    other = issued(2027, name="another", data="another")
    renamed = issued(2029, name="renamed")
    given = [third, other, first, second]
    assert previous_of(third, given) is second
    assert previous_of(first, given) is None
    assert previous_of(renamed, given) is third
    assert previous_of(other, given) is None
    years = [issued(year, name=f"people_{year}", data=f"people of {year}") for year in (2026, 2027)]
    assert previous_of(years[1], [other, *years]) is years[0]
    assert previous_of({"predicate": {}}, given) is None


def test_the_certificate_before_is_found_in_a_folder_if_it_verifies(
    tmp_path: Path, verified_here: None
) -> None:
    """An altered file, one that is cut and one of another kind are passed over."""
    before, after = held(), copy.deepcopy(held())
    save(before, tmp_path / "first.json")
    altered = copy.deepcopy(before)
    altered["predicate"]["issued"] = "2031-01-01T00:00:00Z"
    (tmp_path / "altered.json").write_text(json.dumps(altered))
    (tmp_path / "cut.json").write_bytes((tmp_path / "first.json").read_bytes()[:-9])
    (tmp_path / "odd.json").write_text('{"predicateType": "https://dpaudit.dev/certificate/v2"}')
    after["predicate"]["issued"] = "2032-01-01T00:00:00Z"
    assert previous_of(after, folders=(tmp_path, tmp_path / "nowhere")) == before
    assert previous_of(before, folders=(tmp_path,)) is None


@pytest.mark.first_case
@pytest.mark.parametrize("spoken", LANGUAGES)
def test_sentences_of_dpaudits_own_are_not_cut(
    certificates: dict[str, Json], spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of the guarantee stand at the ends of sentences, in every language."""

    def own(certificate: Json) -> list[str]:
        with speaking(spoken):
            labels = [say.say(one) for one in ("Epsilon", "Delta", "How well a guess can do")]
            lines = view.build(certificate).glance.lines
            return [text for line in lines if line.label in labels for text in line.texts]

    texts = [text for one in certificates.values() for text in own(one)]
    assert len(texts) >= 9
    assert [text for text in texts if text.endswith("…")] == []
    monkeypatch.setattr(reader, "SENTENCE_WORDS", 20)
    assert any(text.endswith("…") for text in own(certificates["training"]))


def test_what_nobody_states_names_nobody(certificates: dict[str, Json]) -> None:
    inner = certificates["example"]["predicate"]
    inner["scope"]["controller"] = ""
    (contact,) = [
        line for line in view.build(certificates["example"]).glance.lines if line.label == "Contact"
    ]
    assert contact.texts == ("Not stated, and nobody to ask is named.",)


def answer(certificate: Json, label: str) -> tuple[str, ...]:
    lines = view.build(certificate).glance.lines
    return next(line.texts for line in lines if line.label == label)


def test_epsilon_and_delta_are_said_so_that_a_layman_gets_them(
    certificates: dict[str, Json],
) -> None:
    """The factor is e to the epsilon, rounded up; delta is one in so many, rounded up."""
    training = certificates["training"]
    (epsilon,) = answer(training, "Epsilon")
    assert epsilon.startswith("At most 2.34143: whatever may happen")
    assert "at most 10.4 times as likely as if one row" in epsilon  # e^2.34142707 = 10.396
    (delta,) = answer(training, "Delta")
    assert delta.startswith("At most 1 in 100,000 (1e-5)")
    claim = training["predicate"]["claims"][0]
    claim["upper"] = {"measure": "pure_dp", "epsilon": "0"}
    assert "at most 1 times as likely" in answer(training, "Epsilon")[0]
    assert answer(training, "Delta") == ("Zero: the factor above holds without exception.",)
    claim["upper"]["epsilon"] = "90"
    assert "more than a million times" in answer(training, "Epsilon")[0]
    claim["upper"] = {"measure": "approx_dp", "epsilon": "1", "delta": "0.00003"}
    assert answer(training, "Delta")[0].startswith("At most 1 in 33,333 (3e-5)")
    training["predicate"]["verdict"]["status"] = "unconfirmed"
    assert answer(training, "Epsilon")[1].endswith("is not established.")


def test_without_an_epsilon_of_a_claim_the_profile_gives_one(
    certificates: dict[str, Json],
) -> None:
    inner = certificates["training"]["predicate"]
    inner["claims"] = [one for one in inner["claims"] if one["upper"]["measure"] == "gdp"]
    bounds = inner["derivation"]["upper_bounds"]
    inner["derivation"]["upper_bounds"] = [one for one in bounds if one["measure"] != "approx_dp"]
    pair = reader.epsilon_of(inner)
    assert pair is not None
    assert float(pair[1]) <= 1e-5
    assert 2.3 < float(pair[0]) < 2.6
    inner["derivation"]["upper_bounds"] = []
    assert reader.epsilon_of(inner) is None
    assert view.build(certificates["training"]).glance.headline == ""


def test_a_table_is_on_the_page_with_its_errors_and_its_budget(
    certificates: dict[str, Json], folder: Path
) -> None:
    published = json.loads((folder / "release.json").read_text())["values"]
    text = first_part(render_html(certificates["release"]))
    for row in published:
        assert f"{row['value']} ± {row['error_95']}" in text
    assert "by sex, sex=f, count" in text
    (spent,) = answer(certificates["release"], "Budget spent, and left")
    cost, after, cap, left = re.findall(r"epsilon (\d+(?:\.\d+)?)", spent)
    assert cost == after
    assert cap == "3"
    assert 1.9999 < float(after) + float(left) - 1 <= 2


def test_every_account_that_was_charged_is_on_the_page(
    certificates: dict[str, Json], tmp_path: Path
) -> None:
    """The data set's first, then a joined data set, whose rows a unit moves twice; populations."""
    scope = Scope(Adjacency.ADD_REMOVE, Unit.USER, Trust.CENTRAL, Released.TRANSCRIPT)
    ledger = open_ledger(str(tmp_path / "budget.sqlite"))
    ledger.create("residents", terms_of("person", scope, PureDP(9)))
    ledger.create("people", terms_of("person", scope, PureDP(3), populations=("residents",)))
    ledger.create("visits", terms_of("person", scope, PureDP(4)))
    costs = ledger.costs("people", PureDP(1), joined=("visits",))
    run = certificates["release"]["predicate"]["run"]
    run["ledger"] = publishing.account_row(ledger, "people", costs)
    validate(certificates["release"])
    for language, name in (("en", "‘visits’"), ("de", "„visits“"), ("fr", "«\u00a0visits\u00a0»")):
        with speaking(language):
            own, *others = reader._budget(certificates["release"]["predicate"])
        assert "visits" not in own
        (visits,) = (line for line in others if name in line)
        assert "epsilon 2" in visits
        assert "epsilon 4" in visits
        assert sum("residents" in line for line in others) == len(others) - 1 == 1


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ("held: 2.", "Checks that were not run: 1.")),
        ("de", ("keine Abweichung fanden: 2.", "Nicht ausgeführte Prüfungen: 1.")),
        ("fr", ("sans trouver d'écart\u00a0: 2.", "Contrôles non exécutés\u00a0: 1.")),
    ],
)
def test_a_check_that_was_not_run_found_nothing(language: str, expected: tuple[str, str]) -> None:
    checks = [{"status": status} for status in ("held", "not_run", "held")]
    with speaking(language):
        ran, left_out = front._conformance({"conformance": checks})
        (alone,) = front._conformance({"conformance": checks[::2]})
    assert ran.endswith(expected[0])
    assert (left_out, alone) == (expected[1], ran)


def test_a_number_on_the_certificate_that_was_not_published_is_named(folder: Path) -> None:
    path = folder / "certificate" / "people_by_sex.json"
    certificate = json.loads(path.read_text("utf-8"))
    assert differences(certificate, path, folder) == []
    row = certificate["predicate"]["run"]["published"]["rows"][0]
    honest, row["value"] = row["value"], "7"
    (found,) = differences(certificate, path, folder)
    assert found == (
        f"the certificate's row 1 (by sex, sex=f, count), column value: '7', and '{honest}' in "
        "release.json"
    )


# --- languages -----------------------------------------------------------------------------------


# Parts of caveats that dpaudit itself writes; a mechanism's author may add others.
OWN_CAVEATS = ("never ran while", "stand-in with", "own loss reached", "not attacked: ")


def with_authors_texts(certificate: Json, text: str) -> Json:
    """The certificate with ``text`` for all that its authors wrote; dpaudit's own words stay."""
    inner = certificate["predicate"]
    scope = inner["scope"]
    scope |= {"title": text, "controller": text, "outputs": [text], "invariants": [text]}
    scope["unit"] |= {"entity": text, "bound": text}
    scope["data_accesses"] = {"covered": [text], "uncovered": [text]}
    inner["fields"] = {name: [text] for name in inner.get("fields", {})}
    inner["mechanism"]["title"] = text
    for item in inner["assumptions"]:
        if item["statement"] == "the weights are public":
            item["statement"] = text
    inner["caveats"] = [one for one in inner["caveats"] if any(map(one.count, OWN_CAVEATS))]
    for row in (inner["run"] or {}).get("published", {}).get("rows", ()):
        row["item"] = text
    return certificate


def english_words(text: str) -> list[str]:
    words = re.findall(r"(?<!\w)[A-Za-z]+(?!\w)", text)
    return [word for word in words if word.lower() in ENGLISH]


# The assumptions of the example were written by hand.
@pytest.mark.first_case("spoken")
@pytest.mark.parametrize("name", ["release", "training"])
@pytest.mark.parametrize("spoken", ["de", "fr"])
def test_no_english_word_is_left_for_a_reader(
    certificates: dict[str, Json], name: str, spoken: str
) -> None:
    certificate = with_authors_texts(certificates[name], WORD)
    text = first_part(render_html(certificate, spoken=spoken))
    assert english_words(text) == [], text
    assert WORD in text


@pytest.mark.parametrize("spoken", ["de", "fr"])
def test_no_english_word_is_left_for_an_auditor(
    certificates: dict[str, Json], spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the page itself says; each text that the certificate quotes is another word."""
    quoted = poisoned(certificates["training"], WORD)
    quoted["predicate"]["fields"] = {name: [WORD] for name in ("purpose", "licence", "changes")}
    pages = render_html(quoted, spoken=spoken), render_index({"a.html": quoted}, spoken=spoken)
    assert english_words(words_of(" ".join(pages))) == []
    monkeypatch.setattr(say, "_messages", lambda _: NullTranslations())
    assert len(english_words(words_of(render_html(quoted, spoken=spoken)))) > 500


def texts_of(page: str) -> list[str]:
    """The visible texts of a page, one an element."""
    page = re.sub(r"<style>.*?</style>|<script.*?</script>", " ", page, flags=re.DOTALL)
    return [html.unescape(text).strip() for text in re.findall(r">([^<]+)<", page) if text.strip()]


def quoted_by(certificate: Json) -> set[str]:
    """Texts of others in a certificate: theorems, pairs of data sets, an author's evidence."""
    inner = certificate["predicate"]
    texts = {step["cite"] for step in inner["derivation"]["steps"]}
    for audit in (*inner["audits"], *inner["likelihoods"]):
        texts |= {audit["neighbours_text"]}
    return texts | {"by contract", "a row is +1 or -1"}


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("spoken", ["de", "fr"])
def test_checks_reasons_and_counts_of_a_certificate_are_said_in_each_language(
    certificates: dict[str, Json], spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole page of a certified program; only what others wrote stays as it is."""
    certificate = with_authors_texts(certificates["release"], WORD)
    page = render_html(certificate, spoken=spoken)
    quoted = quoted_by(certificate)
    left = [text for text in texts_of(page) if english_words(text) and text not in quoted]
    assert left == []
    grouped = re.compile(r"\b\d{1,3}(?:,\d{3})+\b")
    counts = set(grouped.findall(" ".join(texts_of(render_html(certificate)))))
    assert counts
    assert not counts & set(grouped.findall(" ".join(texts_of(page))))
    monkeypatch.setattr(say, "_patterns", lambda _: [])
    texts = texts_of(render_html(certificate, spoken=spoken))
    assert len([text for text in texts if english_words(text) and text not in quoted]) > 10


LOCAL: dict[str, tuple[str, ...]] = {
    "en": ("100,000", "2.34143", "20,000 runs", "60.6\u00a0%", "November 18, 2023"),
    "de": ("100.000", "2,34143", "20.000 Läufe", "60,6\u00a0%", "18. November 2023"),
    "fr": ("100\u202f000", "2,34143", "20\u202f000 exécutions", "60,6\u00a0%", "18 novembre 2023"),
}


@pytest.mark.parametrize("spoken", LANGUAGES)
def test_numbers_percentages_and_dates_are_in_local_form(
    certificates: dict[str, Json], spoken: str
) -> None:
    example = certificates["example"]
    example["predicate"]["issued"] = "2023-11-18T12:00:00Z"
    page = render_html(example, spoken=spoken)
    text = html.unescape(re.sub(r"<[^>]+>", " ", page))
    assert [local for local in LOCAL[spoken] if local not in text] == []
    if spoken != "en":
        first = first_part(page)
        assert not re.search(r"\d,\d{3}\b|\d\.\d(?!\d\d\b)", first)


def test_a_plural_is_that_of_the_language() -> None:
    def said(count: int) -> str:
        return say.counted(
            "{count} fact that a report needs is not stated.",
            "{count} facts that a report needs are not stated.",
            count,
        )

    with speaking("de"):
        assert (said(1)[:9], said(0)[:10]) == ("1 Angabe,", "0 Angaben,")
    with speaking("fr"):
        assert (said(1)[:7], said(0)[:7], said(2)[:7]) == ("1 fait ", "0 fait ", "2 faits")
    assert said(1) == "1 fact that a report needs is not stated."


@pytest.mark.parametrize("spoken", ["de", "fr"])
def test_caveats_of_dpaudits_own_are_said_in_each_language(spoken: str) -> None:
    """Those of the kept reports and the examination's, with the numbers in local form."""
    texts = [
        "18 of 1,088 lines of the program's code never ran while it was examined: a.py:3 in step",
        "an audit attacks a stand-in with the same declaration, not the named program: "
        f"{WORD}; its bound stands apart",
        "the program's own loss reached at most 46.8% of its clip at release 'prefix', on made-up "
        "records",
        "the program's own loss reached at most 75.2% of what its releases declare together, on "
        "the best of 54 pairs of data sets that were tried",
        "the named program was examined, and not attacked: its examination found no pair of data "
        "sets to attack it on",
        "the examination was cut short by time: how much was tried depends on the machine",
        "not examined: the program asked no query on generated records",
    ]
    with speaking(spoken):
        translated = [say.translated(text) for text in texts]
    left = " ".join(translated).replace("a.py:3 in step", "")
    assert english_words(left) == []
    assert ("1.088" if spoken == "de" else "1\u202f088") in translated[0]
    assert "46,8" in translated[2]
    assert front.caveats({"caveats": texts[:1]}) == [
        "18 of 1,088 lines of the program's code never ran while it was examined"
    ]
