"""`dpaudit ledger init people --epsilon 1e99999999`"""

import subprocess

from shared import SETTINGS, command

WORDS = "ledger init people --entity person --adjacency add_remove --epsilon 1e99999999"
NOW = "ledger init people --set entity=person adjacency=add_remove --budget 1e99999999"


def probe() -> str:
    try:
        ran = command(*(NOW if SETTINGS else WORDS).split(), timeout=15)
    except subprocess.TimeoutExpired:
        return "hangs for 15 seconds and more"
    return f"exit {ran.returncode}: {ran.stderr.strip()[:90]}"
