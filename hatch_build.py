"""Build hook: a wheel carries the catalogue; an editable install serves the checkout's own."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CATALOGUE = {
    "mechanisms": "dpaudit/catalogue/mechanisms",
    "audits": "dpaudit/catalogue/audits",
    "dpaudit.toml": "dpaudit/catalogue/dpaudit.toml",
}


class CatalogueHook(BuildHookInterface[Any]):
    """Forces ``mechanisms/``, ``audits/`` and ``dpaudit.toml`` into standard wheels only.

    A static ``force-include`` table would also copy them into site-packages on an editable
    install, where the copy goes stale with the first edit.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"].update(CATALOGUE)
