"""`json.py` in the folder where a stranger's certificate is verified"""

import subprocess
import sys
from pathlib import Path

from shared import certificate


def probe() -> str:
    Path("json.py").write_text("open('ran', 'w').close()\n")
    command = [sys.executable, "-P", "-m", "dpaudit", "verify", str(certificate("dp_gd"))]
    subprocess.run(command, capture_output=True, check=False)
    return "its code ran" if Path("ran").exists() else "its code did not run"
