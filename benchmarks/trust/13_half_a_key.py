"""A disk that is full after 60 bytes of a new signing key"""

import os
import resource
import subprocess
import sys
from pathlib import Path


def probe() -> str:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))

    command = [sys.executable, "-m", "dpaudit", "sign", "--new-key", "own.pem"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, capture_output=True, preexec_fn=full, env=environment, check=False
    )
    key = Path("own.pem")
    left = f"{key.stat().st_size} bytes of a key are left" if key.exists() else "no key is left"
    return f"exit {done.returncode}, {left}"
