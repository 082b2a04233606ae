"""A disk that is full after 60 bytes of a new signing key"""

import resource
from pathlib import Path

from shared import command


def probe() -> str:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))

    done = command("sign", "--new-key", "own.pem", preexec_fn=full)
    key = Path("own.pem")
    left = f"{key.stat().st_size} bytes of a key are left" if key.exists() else "no key is left"
    return f"exit {done.returncode}, {left}"
