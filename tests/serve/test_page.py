# SPDX-License-Identifier: MIT
"""The page in a browser, by its keyboard."""

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket
from conftest import Server

CHROMIUM = shutil.which("chromium")


class Browser:
    """A headless Chromium by its DevTools protocol: https://chromedevtools.github.io/devtools-protocol/"""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen([*command, "about:blank"], stderr=subprocess.DEVNULL)
        port = self._wait_for(lambda: (profile / "DevToolsActivePort").read_text().splitlines()[0])
        tabs = self._wait_for(lambda: json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=10)))
        address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        self.socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self.number = 0
        self.complaints: list[Any] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    @staticmethod
    def _wait_for(get: Any) -> Any:
        end = time.monotonic() + 60
        while True:
            try:
                return get()
            except (OSError, IndexError):
                assert time.monotonic() < end, "the browser does not start"
                time.sleep(0.05)

    def call(self, method: str, **parameters: Any) -> Any:
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.complaints.append(message["params"])
            if message.get("id") == self.number:
                return message["result"]

    def value(self, script: str) -> Any:
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait_until(self, script: str) -> None:
        end = time.monotonic() + 60
        while not self.value(script):
            assert time.monotonic() < end, (script, self.value("document.body.innerText"), self.complaints)
            time.sleep(0.05)

    def press(self, key: str, code: int, text: str = "", shift: bool = False) -> None:
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, modifiers=8 if shift else 0, **typed)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def focus(self) -> str:
        return str(self.value("document.activeElement.id"))

    def tab_to(self, name: str) -> None:
        for _ in range(30):
            if self.focus() == name:
                return
            self.press("Tab", 9)
        raise AssertionError(f"{name} is not reached by the keyboard")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("there is no chromium")
    running = Browser(tmp_path)
    yield running
    running.process.terminate()
    running.process.wait(30)


def test_the_page_by_keyboard(server: Server, browser: Browser) -> None:
    browser.call("Page.navigate", url=f"http://127.0.0.1:{server.port}/")
    browser.wait_until("document.querySelector('#chat-model option') !== null")

    browser.tab_to("message")
    browser.type("Hello, world!")
    browser.press("Enter", 13, "\r")
    browser.wait_until("document.querySelectorAll('#talk article').length === 2 && document.getElementById('stop').disabled")
    answer = browser.value("document.querySelector('#talk article.assistant p').textContent")
    assert answer and browser.value("document.getElementById('spoken').textContent") == answer

    browser.value("document.getElementById('tab-chat').focus()")
    browser.press("ArrowRight", 39)
    assert browser.focus() == "tab-translate" and browser.value("document.getElementById('chat').hidden")
    assert browser.value("document.getElementById('from').value") == "auto"
    browser.value("const from = document.getElementById('from'); from.value = 'dates'; from.dispatchEvent(new Event('change'))")
    browser.tab_to("source")
    browser.type("4. März 2021\n\nMarch 5, 2021")
    browser.wait_until("document.getElementById('target').textContent === '2021-03-04\\n\\n2021-03-05'")

    # Attention of the line with the cursor, and of another one where that goes.
    browser.tab_to("attention-open")
    browser.press("Enter", 13, "\r")
    browser.wait_until("document.querySelectorAll('#map tbody tr').length > 5")
    tokens = "[...document.querySelectorAll('#map thead th')].map((head) => head.textContent).join('')"
    assert "march" in browser.value(tokens).replace("▁", "")
    row = "[...document.querySelectorAll('#map tbody tr:first-child td')].reduce((sum, cell) => sum + Number(cell.textContent), 0)"
    assert 90 < browser.value(row) < 110
    mean = browser.value("document.querySelector('#map tbody').textContent")
    browser.value("const layer = document.getElementById('layer'); layer.value = '1'; layer.dispatchEvent(new Event('change'))")
    assert browser.value("document.querySelector('#map tbody').textContent") != mean
    browser.value("document.getElementById('source').focus(); document.getElementById('source').setSelectionRange(2, 2)")
    browser.wait_until(f"{tokens}.includes('4')")

    # What is written decides about the source.
    browser.value("document.getElementById('source').value = ''")
    browser.value("document.getElementById('from').value = 'auto'; document.getElementById('from').dispatchEvent(new Event('change'))")
    browser.value("document.getElementById('to').value = 'fra_Latn'")
    browser.value("document.getElementById('source').select()")
    browser.type("Guten Morgen, wie geht es Ihnen heute?")
    browser.wait_until("document.getElementById('detected').textContent === 'German (deu_Latn)'")
    browser.wait_until(f"{tokens}.includes('deu_Latn')")

    browser.value("document.getElementById('tab-translate').focus()")
    browser.press("ArrowRight", 39)
    browser.tab_to("texts")
    browser.type("the dog\n<b>the cat</b>\nthe sea")
    browser.tab_to("query")
    browser.type("<b>the cat</b>")
    browser.press("Enter", 13, "\r")
    browser.wait_until("document.querySelectorAll('#found li').length === 3")
    assert browser.value("document.querySelector('#found li').textContent").endswith("<b>the cat</b>")
    assert browser.complaints == []


def test_what_people_hear(server: Server, browser: Browser) -> None:
    browser.call("Page.navigate", url=f"http://127.0.0.1:{server.port}/")
    browser.wait_until("document.querySelector('#chat-model option') !== null")
    for number in range(3):
        browser.value(f"document.querySelectorAll('[role=tab]')[{number}].click()")
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        for node in nodes:
            role = node.get("role", {}).get("value")
            if role in ("button", "textbox", "combobox", "tab", "tabpanel", "spinbutton", "log"):
                assert node.get("name", {}).get("value"), f"a {role} has no name"
