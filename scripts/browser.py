"""Chromium, driven through a pair of pipes by its DevTools protocol: no driver, no library.

    with Browser() as browser:
        page = browser.open("file:///…/report.html", width=400, scheme="dark")
        page.evaluate("document.title")
        page.key("Tab")
        page.screenshot(Path("report.png"))
        page.said       # what stood on its console, as text

Used by `scripts/test-report` and `scripts/test-serve`.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE_S = 120


class Browser:
    """A Chromium without a window, with a profile of its own that is removed at the end."""

    def __init__(self, program="chromium"):
        self.profile = tempfile.mkdtemp(prefix="timeloom-chromium-")
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        self.process = subprocess.Popen(
            # The browser reads requests from descriptor 3, and answers on 4.
            ["sh", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "sh", program]
            + ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
            + ["--disable-extensions", "--disable-background-networking"]
            + [f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs_in, theirs_out),
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest = b""
        self._asked = 0
        self._events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.ask("Browser.close")
            self.process.wait(PATIENCE_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            os.close(self._to)
            os.close(self._from)
            shutil.rmtree(self.profile, ignore_errors=True)

    def ask(self, method, session=None, **params):
        """The answer to a command of the protocol. Events that come before it are kept."""
        self._asked += 1
        number = self._asked
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._message()
            if answer.get("id") != number:
                self._events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def wait(self, method, session):
        """The next event of that name, which may have come already."""
        while True:
            for place, event in enumerate(self._events):
                if event.get("method") == method and event.get("sessionId") == session:
                    return self._events.pop(place)["params"]
            self._events.append(self._message())

    def events(self, session, *methods):
        """What has come of these names, and is now taken."""
        mine = [e for e in self._events if e.get("sessionId") == session and e.get("method") in methods]
        self._events = [event for event in self._events if event not in mine]
        return mine

    def open(self, url, width, scheme, height=900):
        """A page of that width in a tab of its own, once it has loaded."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, target, session, url, width, scheme, height)

    def _message(self):
        until = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                raise TimeoutError(f"Chromium said nothing for {PATIENCE_S} s")
            more = os.read(self._from, 1 << 20)
            if not more:
                raise RuntimeError(f"Chromium ended ({self.process.wait(PATIENCE_S)})")
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)


class Page:
    """One tab."""

    def __init__(self, browser, target, session, url, width, scheme, height):
        self._browser, self._target, self._session = browser, target, session
        self._size = {"width": width, "height": height}
        self.said = []
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")
        self._ask("Emulation.setDeviceMetricsOverride", deviceScaleFactor=1, mobile=False, **self._size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", features=features)
        # Otherwise no element of a page without a window has the focus.
        self._ask("Emulation.setFocusEmulationEnabled", enabled=True)
        answer = self._ask("Page.navigate", url=url)
        if "errorText" in answer:
            raise RuntimeError(f"{url}: {answer['errorText']}")
        browser.wait("Page.loadEventFired", session)

    def _ask(self, method, **params):
        return self._browser.ask(method, self._session, **params)

    def evaluate(self, expression):
        """What the expression yields, as JSON has it."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression[:80]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def key(self, name):
        """Presses a key and lets it go."""
        for kind in ("rawKeyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=KEYS[name])

    def listen(self):
        """Adds to `said` what has come to the console, and what the browser had to say."""
        names = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        for event in self._browser.events(self._session, *names):
            params = event["params"]
            if event["method"] == "Log.entryAdded":
                self.said.append(f"{params['entry']['level']}: {params['entry']['text']}")
            elif event["method"] == "Runtime.exceptionThrown":
                self.said.append(f"exception: {params['exceptionDetails']['text']}")
            else:
                self.said.append(f"{params['type']}: {[it.get('value') for it in params['args']]}")
        return self.said

    def screenshot(self, path):
        """A picture of the whole page, also of what is below the window."""
        whole = self._ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": self._size["width"], "height": whole["height"], "scale": 1}
        picture = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self):
        self._browser.ask("Target.closeTarget", targetId=self._target)


KEYS = {"Tab": 9, "ArrowRight": 39, "ArrowDown": 40, " ": 32, ".": 190}
