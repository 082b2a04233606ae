"""A certificate as a record of OpenDP's deployments registry, tiers 1 to 3.

The fields are those that the registry documents (opendp/deployments-registry-data,
``schemas/deployments-schema.yaml``, commit 3e9c812), from which
``registry_schema.json`` was written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any

from dpaudit.errors import CertificateRejected
from dpaudit.report import words
from dpaudit.report.view import MALFORMED
from dpaudit.report.words import Json
from dpaudit.scope import NOT_STATED

# Kinds of products in NIST's registry.
PRODUCT_TYPES = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
_VARIANTS = {
    "pure_dp": "Pure DP",
    "approx_dp": "Approximate DP",
    "zcdp": "Zero-concentrated DP",
    "rdp": "Renyi DP",
}
_MODELS = {"central": "Central", "local": "Local", "shuffle": "Shuffle", "federated": "Federated"}
_RELEASES = {"one release": "One release", "many releases": "Many releases"}
# The fields that tier 1 requires, each with the key of dpaudit.toml that states it.
_NEEDED = {
    "data_curators": "controller",
    "intended_use": "purpose",
    "data_product_type": "product_type",
    "data_product_region": "region",
    "publication_date": "publication_date",
}
# Fields of its second tier.
_TIER_2 = ("variant_name", "privacy_unit", "privacy_parameters", "model_name", "release_type")
# Fields of its third tier.
_TIER_3 = (
    "data_domain",
    "privacy_unit_details",
    "actors",
    "post_processing",
    "composition",
    "preprocessing_and_hyperparameter_tuning",
    "mechanisms",
    "justification",
)


def registry_record(certificate: Mapping[str, Any]) -> Json:
    """The record, at the highest tier whose fields the certificate fills; always a draft.

    Errors: CertificateRejected, naming the missing fields of tier 1 and the keys that state them.
    """
    if certificate.get("predicate", {}).get("kind") == "empirical":
        raise CertificateRejected(
            "registry record: a membership audit measured, and holds no guarantee to be registered"
        )
    try:
        record = _record(words.tidy(certificate))
    except MALFORMED as error:
        raise CertificateRejected(
            f"certificate: cannot be a registry record, {type(error).__name__} at "
            f"{str(error)[:80]!r}; check the file with 'dpaudit verify'"
        ) from error
    basic = record["deployment"]["basic"]
    absent = [f"{name} ({key})" for name, key in _NEEDED.items() if not basic.get(name)]
    if absent:
        raise CertificateRejected(
            f"registry record: missing {', '.join(absent)}; state the keys in brackets in "
            "dpaudit.toml and certify again"
        )
    validate_record(record)
    return record


def render_registry(certificate: Mapping[str, Any]) -> str:
    """The record as text: JSON, which is also valid YAML 1.2."""
    return json.dumps(registry_record(certificate), indent=2, ensure_ascii=False) + "\n"


@cache
def registry_schema() -> Json:
    """The JSON schema of a record."""
    text = resources.files("dpaudit.report").joinpath("registry_schema.json").read_text("utf-8")
    loaded: Json = json.loads(text)
    return loaded


def validate_record(record: Any) -> None:
    """Check a record against the schema.

    Errors: CertificateRejected, naming the place of the first error.
    """
    from jsonschema import Draft202012Validator

    checker = Draft202012Validator(registry_schema())
    error = next(iter(checker.iter_errors(record)), None)
    if error is not None:
        place = "/".join(map(str, error.absolute_path)) or "the top"
        raise CertificateRejected(f"registry record: at {place}: {error.message[:200]}")


def _record(statement: Json) -> Json:
    predicate = statement["predicate"]
    cited = dict.fromkeys(step["cite"] for step in predicate["derivation"]["steps"])
    parts = {
        "dp_variant": _variant(predicate),
        "privacy_loss": _loss(predicate),
        "deployment_model": _model(predicate),
        "accounting": {
            "post_processing": _field(predicate, "post_processing"),
            "composition": "; ".join(cited),
        },
        "implementation": _implementation(predicate),
    }
    filled = {name for part in parts.values() for name, value in part.items() if value}
    tier = 3 if filled >= {*_TIER_2, *_TIER_3} else 2 if filled >= set(_TIER_2) else 1
    deployment = {"basic": _basic(predicate)}
    deployment |= {name: _stated(part) for name, part in parts.items() if _stated(part)}
    deployment["administrative"] = _administrative(predicate, statement["subject"])
    slug = re.sub(r"[^a-z0-9]+", "-", predicate["scope"]["title"].lower()).strip("-")[:100]
    return {
        "url_slug": slug or "release",
        "status": "Draft",
        "tier": tier,
        "deployment": deployment,
    }


def _basic(predicate: Json) -> Json:
    scope = predicate["scope"]
    part = {
        "name": scope["title"],
        "data_curators": [scope["controller"]] if scope["controller"] else [],
        "intended_use": _field(predicate, "purpose"),
        "data_product_type": _field(predicate, "product_type"),
        "data_product_region": _field(predicate, "region"),
        "description": f"{predicate['mechanism']['title']}: {', '.join(words.outputs(scope))}",
        "publication_date": _field(predicate, "publication_date"),
        "data_product_sector": _field(predicate, "sector"),
    }
    return _stated(part)


def _variant(predicate: Json) -> Json:
    bound = _bound(predicate)
    run = predicate["run"] or {"metrics": []}
    open_metrics = [metric["name"] for metric in run["metrics"] if not metric["covered"]]
    exact = [*predicate["scope"]["invariants"], *open_metrics]
    return {
        "variant_name": _VARIANTS.get(bound["measure"], "Custom") if bound else "",
        "data_domain": _field(predicate, "data_source"),
        "unprotected_quantities": "; ".join(exact) or "None is listed.",
    }


def _loss(predicate: Json) -> Json:
    scope, bound = predicate["scope"], _bound(predicate)
    parameters = {key: _number(bound[key]) for key in ("epsilon", "delta", "rho") if key in bound}
    accounted = [
        f"{words.measure_words(row['measure'])}: {words.guarantee(row, 'upper')}"
        for row in predicate["derivation"]["upper_bounds"]
        if "curve" not in row
    ]
    details = [words.adjacency(scope), scope["unit"]["bound"]]
    return {
        "privacy_unit": scope["unit"]["entity"],
        "privacy_unit_details": "; ".join(filter(None, details)),
        "privacy_parameters": {} if None in parameters.values() else parameters,
        "privacy_parameters_details": "; ".join(accounted),
    }


def _model(predicate: Json) -> Json:
    scope, fields = predicate["scope"], predicate.get("fields", {})
    people = [f"controller: {scope['controller']}"] if scope["controller"] else []
    people += [f"processor: {name}" for name in fields.get("processor", ())]
    kind = _field(predicate, "release_type")
    return {
        "model_name": _MODELS.get(scope["model"], ""),
        "model_name_details": words.MODELS[scope["model"]],
        "actors": "; ".join(people),
        "release_type": _RELEASES.get(kind, ""),
        "access_type": "Non-interactive",
    }


def _implementation(predicate: Json) -> Json:
    environment = predicate["environment"]
    git = environment["git"]
    parts = [f"dpaudit {environment['dpaudit']}, Python {environment['python']}"]
    parts += [f"git {git['commit']}"] if git else []
    tuned = [*_lines(predicate, "tuning"), *_lines(predicate, "exploratory_accesses")]
    return {
        "preprocessing_and_hyperparameter_tuning": "\n".join(tuned),
        "mechanisms": "\n".join([predicate["mechanism"]["declaration_text"], *parts]),
        "justification": _field(predicate, "justification"),
    }


def _administrative(predicate: Json, subject: list[Json]) -> Json:
    digest = subject[0]["digest"]["sha256"]
    verdict = predicate["verdict"]["status"].replace("_", " ")
    authors = _lines(predicate, "contact") or _lines(predicate, "approver")
    return _stated(
        {
            "sources": predicate["mechanism"]["source"],
            "notes": f"dpaudit certificate {digest}: {verdict}",
            "registry_authors": authors or [predicate["scope"]["controller"] or NOT_STATED],
        }
    )


def _bound(predicate: Json) -> Json:
    """The accounted bound for the record: the first in a measure that the registry knows.

    Bounds of claims come before the other accounted bounds; empty if there is none.
    """
    bounds = [claim["upper"] for claim in predicate["claims"] if claim["upper"]]
    bounds += [row for row in predicate["derivation"]["upper_bounds"] if "curve" not in row]
    ranked = sorted(bounds, key=lambda row: row["measure"] not in _VARIANTS)
    return ranked[0] if ranked else {}


def _number(text: str) -> float | None:
    """The smallest float that is at least the decimal; None for infinity."""
    value = float(text)
    if not math.isfinite(value):
        return None
    return value if Fraction(value) >= Fraction(text) else math.nextafter(value, math.inf)


def _lines(predicate: Json, name: str) -> list[str]:
    return list(predicate.get("fields", {}).get(name, ()))


def _field(predicate: Json, name: str) -> str:
    return "\n".join(_lines(predicate, name))


def _stated(part: Mapping[str, Any]) -> Json:
    return {name: value for name, value in part.items() if value}
