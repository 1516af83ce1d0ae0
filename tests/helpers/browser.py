"""A headless Chromium driven through chromedriver's own protocol (W3C WebDriver), nothing else."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

FLAGS = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
         "--disable-background-networking --disable-component-update --disable-sync").split()  # fmt: skip
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def need_chromium():
    """Paths of chromium and chromedriver; skips the test where they are not installed."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs chromium and chromedriver (Debian: chromium chromium-driver)")
    return chromium, driver


class Page:
    """One open page."""

    def __init__(self, address):
        self._address = address

    def _call(self, method, path, data=None):
        body = None if method == "GET" else json.dumps(data or {}).encode()
        request = urllib.request.Request(
            self._address + path, body, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def open(self, url):
        self._call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a JavaScript function body."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, css):
        return self._call("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        self._call("POST", f"/element/{self.find(css)}/click")

    def keys(self, css, text):
        self._call("POST", f"/element/{self.find(css)}/value", {"text": text})

    def hover(self, css):
        """Move the mouse onto an element."""
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", css)
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: self.find(css)}}
        self._call(
            "POST",
            "/actions",
            {
                "actions": [
                    {
                        "type": "pointer",
                        "id": "mouse",
                        "parameters": {"pointerType": "mouse"},
                        "actions": [move],
                    }
                ]
            },
        )

    def text(self, css):
        return self.run("return document.querySelector(arguments[0]).textContent", css)

    def count(self, css):
        return self.run("return document.querySelectorAll(arguments[0]).length", css)

    def log(self):
        """Messages of the browser's console, errors among them."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self) -> bytes:
        return base64.b64decode(self._call("GET", "/screenshot"))


@contextmanager
def browser(profile, width=1300, height=1400):
    """A browser of its own; ``profile`` is an empty folder for it."""
    chromium, driver = need_chromium()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    base = f"http://127.0.0.1:{port}"
    session = None
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(base + "/status", timeout=5)
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        options = {
            "binary": chromium,
            "args": [*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"],
        }
        wanted = {
            "capabilities": {
                "alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            }
        }
        session = Page(base)._call("POST", "/session", wanted)["sessionId"]
        yield Page(f"{base}/session/{session}")
    finally:
        if session:
            Page(f"{base}/session/{session}")._call("DELETE", "")
        process.terminate()
        process.wait(30)
