"""A headless Chromium that a test looks through, clicks in and takes pictures with, over its debugging pipe."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import time

DESK, PHONE = (1280, 900), (390, 844)


def installed():
    """The command; None: there is none. make test installs Chromium where apt-get can."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Chromium:
    """One page. Use it in a `with` block."""

    def __init__(self, command, folder):
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        words = [command, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        words += [f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]
        # Chromium reads commands from its file 3 and writes answers to its file 4.
        shell = ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", *words]
        self._process = subprocess.Popen(
            shell, pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self._answers = os.fdopen(self._read, "rb", buffering=0)
        self._rest = b""
        self._numbers = itertools.count(1)
        self._session = None
        self.errors = []  # what the page's scripts or its policy complained about
        (page,) = [each for each in self.send("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        attached = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.look()  # its own window is smaller

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session = None
        try:
            self.send("Browser.close")
        finally:
            self._process.wait(60)
            self._answers.close()
            os.close(self._write)

    def send(self, method, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self):
        while b"\0" not in self._rest:
            piece = self._answers.read(1 << 16)
            assert piece, "Chromium has ended"
            self._rest += piece
        frame, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(frame)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"])
        entry = message.get("params", {}).get("entry", {})
        if message.get("method") == "Log.entryAdded" and entry.get("source") in ("security", "javascript"):
            self.errors.append(entry)
        return message

    def look(self, size=DESK, dark=False):
        """The width and height of the window, and the colours that the user prefers."""
        width, height = size
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url):
        self.send("Page.navigate", url="about:blank")  # else another fragment would not load the page again
        self.send("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.body?.dataset.loaded === 'yes'")

    def run(self, script):
        """The value of an expression in the page."""
        done = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, condition, seconds=60):
        """Until an expression is true in the page."""
        deadline = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < deadline, f"{condition}\n{self.run('document.body.innerText')}"
            time.sleep(0.05)

    def text(self, selector="body"):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText")

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def type(self, selector, text):
        """Replace what an input has, as a user would."""
        self.run(f"document.querySelector({json.dumps(selector)}).select()")
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.send("Input.insertText", text=text)

    def picture(self, file):
        file.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", captureBeyondViewport=True)["data"]))
