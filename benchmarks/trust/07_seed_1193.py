"""Certify the first mechanism of a new project with a seed whose bound lies just above 0"""

import subprocess
import sys


def probe() -> str:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "dpaudit", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    import os

    run("init", "project")
    os.chdir("project")
    done = run("certify", "noisy_mean", "--seed", "1193")
    last = done.stderr.strip().splitlines()[-1][:70]
    return f"exit {done.returncode}: {'certified' if done.returncode == 0 else last}"
