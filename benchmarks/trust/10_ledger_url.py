"""Charges at `sqlite:///l.sqlite?timeout=30`: how many are synchronised, and a missing file"""

import os
import subprocess
import sys
from pathlib import Path

from shared import answer

# Every synchronisation of a file of the ledger is noted, whichever library asks for it.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int noted(const char *name, int file) {
    char link[64], path[4096] = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "l.sqlite")) {
        int log = open("synchronised", O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (log >= 0) { if (write(log, "x", 1) < 0) {} close(log); }
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
}
int fsync(int file) { return noted("fsync", file); }
int fdatasync(int file) { return noted("fdatasync", file); }
"""
CHARGES = """
from pathlib import Path
from shared import charge, ledger
opened = ledger(3, "sqlite:///l.sqlite?timeout=30")
log, count = Path("synchronised"), 0
for title in "abc":
    before = log.stat().st_size if log.exists() else 0
    charge(opened, 1, title)
    count += log.exists() and log.stat().st_size > before
print(count)
"""


def probe() -> str:
    from dpaudit.ledger import open_ledger

    Path("shim.c").write_text(SHIM)
    library = Path("shim.so").resolve()
    compiled = ["gcc", "-shared", "-fPIC", "-o", str(library), "shim.c", "-ldl"]
    subprocess.run(compiled, check=True)
    environment = os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(
        [sys.executable, "-c", CHARGES], env=environment, capture_output=True, text=True, check=True
    )
    answer(lambda: open_ledger("sqlite:///missing.sqlite?timeout=30").names())
    made = "an empty file was made" if Path("missing.sqlite").exists() else "no file was made"
    return f"{child.stdout.strip()} of 3 charges synchronised; {made}"
