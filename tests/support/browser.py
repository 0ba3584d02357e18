"""A headless Chromium, driven over a pipe with its DevTools protocol. It needs no package."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Seconds to wait for an answer, which only a browser that hangs exceeds.
PATIENCE = 120
# Chromium reads commands from file descriptor 3 and writes answers to 4.
CONNECT = """
import os, sys
commands, answers, *program = sys.argv[1:]
os.dup2(int(commands), 3)
os.dup2(int(answers), 4)
os.execv(program[0], program)
"""
KEY_CODES = {
    **{"PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "Escape": 27, "Tab": 9, "Enter": 13},
    **{"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40},
}


def find_browser() -> str | None:
    """The path of an installed Chromium or Chrome, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with one page, as a context manager."""

    def __init__(self, program: str):
        self.program = program
        self.number = 0
        self.errors: list[str] = []
        self.address = "about:blank"

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours, theirs = self._pipe(), self._pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", CONNECT, str(ours[0]), str(theirs[1])]
            + [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
            + ["--disable-dev-shm-usage", "--disable-background-networking", "--mute-audio"]
            + ["--force-color-profile=srgb", "--hide-scrollbars"]
            + [f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(ours[0], theirs[1]),
        )
        os.close(ours[0])
        os.close(theirs[1])
        self.commands, self.answers = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")
        self.buffer = b""
        self.session = None
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *error):
        self.session = None
        try:
            self.send("Browser.close")
        except (OSError, EOFError):
            self.process.kill()
        for file in (self.commands, self.answers):
            file.close()
        self.process.wait(timeout=PATIENCE)
        self.profile.cleanup()

    @staticmethod
    def _pipe() -> tuple[int, int]:
        """A pipe whose descriptors are neither 3 nor 4."""
        ends = os.pipe()
        high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
        for end in ends:
            os.close(end)
        return high

    def send(self, method: str, **parameters):
        """Send a command and return its result; errors of the page are collected meanwhile."""
        number = self._write(method, **parameters)
        while (answer := self._read()).get("id") != number:
            self._event(answer)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _write(self, method: str, **parameters) -> int:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        self.commands.flush()
        return self.number

    def _read(self) -> dict:
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], PATIENCE)[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.answers.fileno(), 1 << 16)
            if not piece:
                raise EOFError("the browser has ended")
            self.buffer += piece
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def _event(self, event: dict) -> None:
        name, about = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(about["exceptionDetails"]))
        elif name == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])
        elif name == "Network.requestWillBeSent":
            url = about["request"]["url"]
            if not url.startswith(("file:", "data:", "about:", self.address)):
                self.errors.append(f"request of {url}")
        elif name == "Page.javascriptDialogOpening":
            self.errors.append(f"dialog {about['message']}")
            # The page waits for an answer to the dialog.
            self._write("Page.handleJavaScriptDialog", accept=True)

    def open(
        self, page: Path | str, width: int = 1200, height: int = 1000, dark: bool = False
    ) -> None:
        """Open a file or an address, with a window of some size, and wait until it is loaded."""
        url = page if isinstance(page, str) else page.resolve().as_uri()
        # Requests to all others are errors.
        self.address = url
        self.errors.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href === {json.dumps(url)}")

    def wait(self, code: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(code):
            assert time.monotonic() < end, f"never true: {code}"
            time.sleep(0.01)

    def run(self, code: str):
        """Evaluate an expression in the page and return its value."""
        result = self.send("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str, control: bool = False) -> None:
        """Press and release a key, with the control key or without."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=KEY_CODES[key],
                modifiers=2 if control else 0,
            )

    def write(self, text: str) -> None:
        """Type text into what has the focus."""
        self.send("Input.insertText", text=text)

    def hover(self, x: float, y: float) -> None:
        """Move the mouse."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
