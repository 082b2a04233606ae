"""The mode of a report that is written under umask 077"""

import os
from pathlib import Path


def probe() -> str:
    from dpaudit.storage.files import write_atomically

    os.umask(0o077)
    write_atomically(Path("report.html"), b"private")
    return f"mode {Path('report.html').stat().st_mode & 0o777:04o}"
