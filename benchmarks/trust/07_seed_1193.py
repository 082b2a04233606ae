"""Certify the first mechanism of a new project with a seed whose bound lies just above 0"""

from shared import command


def probe() -> str:
    command("init", "project")
    done = command("certify", "noisy_mean", "--seed", "1193", cwd="project")
    last = done.stderr.strip().splitlines()[-1][:70]
    return f"exit {done.returncode}: {'certified' if done.returncode == 0 else last}"
