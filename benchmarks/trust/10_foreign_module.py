"""`json.py` in the folder where a stranger's certificate is verified"""

import subprocess
import sys
from pathlib import Path


def probe() -> str:
    import dpaudit

    path = Path(dpaudit.__file__).parents[1] / "reports" / "dp_gd.json"
    Path("json.py").write_text("open('ran', 'w').close()\n")
    command = [sys.executable, "-P", "-m", "dpaudit", "verify", str(path)]
    subprocess.run(command, capture_output=True, check=False)
    return "its code ran" if Path("ran").exists() else "its code did not run"
