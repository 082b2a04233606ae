"""A headless Chromium, driven over its debugging pipe: open a page, give it files, read values."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # No name has an address: whatever a page asks a network for fails.
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe"),
)


class Chromium:
    """One page of one browser, whose profile is in a folder."""

    def __init__(self, folder: Path) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        assert program, "no Chromium on this machine: install it, or run with -m 'not browser'"
        theirs_in, self.out = os.pipe()
        self.into, theirs_out = os.pipe()

        # Bash moves the pipes: Python's own code in a child of a process with threads may crash.
        moved = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            [  # noqa: S607  (bash is where the tests run)
                "bash",
                "-c",
                moved,
                program,
                program,
                *QUIET,
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.asked, self.pending, self.session = 0, b"", ""
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=page, flatten=True)
        self.session = attached["sessionId"]

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the DevTools protocol."""
        self.asked += 1
        message = {"id": self.asked, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.asked:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.pending:
            part = os.read(self.into, 2**16)
            assert part, "the browser has ended"
            self.pending += part
        line, self.pending = self.pending.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self, address: str, seconds: float = 60.0) -> None:
        """Load a page; its scripts that run at once have run."""
        self.send("Page.navigate", url=address)
        self.until("document.readyState === 'complete'", seconds)

    def value(self, expression: str) -> Any:
        """The value of an expression in the page, as JSON has it; of a promise, its result."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def pdf(self) -> bytes:
        """The page on paper of the size that its own style asks for."""
        printed = self.send("Page.printToPDF", preferCSSPageSize=True)
        return base64.b64decode(printed["data"])

    def until(self, expression: str, seconds: float) -> None:
        """Wait until an expression in the page is true."""
        end = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < end, f"not within {seconds} s: {expression}"
            time.sleep(0.1)

    def give(self, selector: str, chosen: Sequence[Path]) -> None:
        """Choose files in a file input."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=list(map(str, chosen)))

    def violations(self) -> list[str]:
        """The rules of WCAG 2.1 A and AA that axe finds broken in the page."""
        self.value(files("axe_core_python").joinpath("axe.min.js").read_text("utf-8") + "; 1")
        broken = self.value("""axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a",
        "wcag21aa"]}).then(result => result.violations.map(
          rule => rule.id + ": " + rule.nodes.slice(0, 3).map(node => node.html).join(" | ")))""")
        return list(map(str, broken))
