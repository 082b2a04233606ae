"""`dpaudit ledger init people --epsilon 1e99999999`"""

import subprocess
import sys


def probe() -> str:
    command = [sys.executable, "-m", "dpaudit", "ledger", "init", "people", "--entity", "person"]
    command += ["--adjacency", "add_remove", "--epsilon", "1e99999999"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=15)
    except subprocess.TimeoutExpired:
        return "hangs for 15 seconds and more"
    return f"exit {ran.returncode}: {ran.stderr.strip()[:90]}"
