"""The live page: follows a run that grows, is killed and resumed, and only ever reads it."""

from __future__ import annotations

import asyncio
import base64
import builtins
import hashlib
import html
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import real_browser
from onlinegcp import dashboard, runlog
from onlinegcp.dashboard import create_app, serve
from onlinegcp.dashboard.follow import Follower
from onlinegcp.dashboard.hub import Hub
from onlinegcp.errors import BackendError, StateError

HERE = Path(__file__).parent


@pytest.fixture
def client(writer):
    testclient = pytest.importorskip("starlette.testclient")
    writer.write(12)
    with testclient.TestClient(create_app(writer.path), "http://127.0.0.1") as client:
        yield client


def test_the_page_and_its_data(client):
    page = client.get("/")
    assert page.status_code == 200
    assert "EventSource" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert client.get("/data").json()["steps"]["count"] == 12


@pytest.mark.parametrize(
    "path",
    ["/run.json", "/steps.jsonl", "/../run.json", "/%2e%2e/%2e%2e/etc/passwd", "/data/x"],
)
def test_no_file_can_be_asked_for(client, path):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(client, method):
    for path in ("/", "/data", "/events"):
        assert client.request(method, path).status_code == 405


def test_other_hosts_are_refused(client):
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_data_of_a_run_that_is_gone_is_an_answer_all_the_same(client, writer):
    (writer.path / runlog.RUN).unlink()
    answer = client.get("/data")
    assert answer.status_code == 503
    assert "run.json" in answer.json()["problem"]


def test_a_directory_without_a_run_and_a_busy_port_are_named(tmp_path, writer):
    with pytest.raises(StateError, match="run directory was needed"):
        create_app(tmp_path)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        with pytest.raises(StateError, match="cannot be used"):
            serve(writer.path, port=busy.getsockname()[1])
    with pytest.raises(StateError, match="cannot be used"):
        serve(writer.path, port=70000)


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_missing_packages_are_named_with_the_way_to_get_them(writer, monkeypatch, package):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BackendError, match=rf"{package} is not installed.*onlinegcp\[dashboard\]"):
        serve(writer.path, port=0)


SERVE = """
import sys
from onlinegcp.dashboard import serve
serve(sys.argv[1], port=int(sys.argv[2]), on_start=lambda address: print(address, flush=True))
"""


class Server:
    """The live page in a process of its own."""

    def __init__(self, path, port=0, before=""):
        command = [sys.executable, "-c", before + SERVE, str(path), str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def stop(self):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.mark.slow
def test_the_live_page_moves_while_a_run_is_written(writer):
    expect = pytest.importorskip("playwright.sync_api").expect
    # Generous, as the machine may be busy; on an idle one every step takes half a second.
    expect.set_options(timeout=20_000)
    writer.write(5)
    server = Server(writer.path)
    try:
        with (
            real_browser.open_browser() as browser,
            real_browser.open_page(browser, server.address) as (page, problems),
        ):
            count = page.locator("#figures dd").nth(1)
            status = page.locator("#status")
            expect(count).to_have_text("5")
            expect(status).to_have_text("Nobody is writing")
            with runlog.Lock(writer.path):
                expect(status).to_contain_text("Learning")
                writer.write(10)
                expect(count).to_have_text("15")
                page.locator("#losses").scroll_into_view_if_needed()
                expect(page.locator("#losses path.series")).to_have_count(2)
                expect(page.locator("#activations path.series")).to_have_count(2)
                line = page.locator("#losses path.series").last
                before = line.get_attribute("d")
                writer.write(5)
                expect(line).not_to_have_attribute("d", before)
                expect(page.locator("#lately .newest")).to_contain_text("Newest: 20 Jan 2013")
                # Out of sight, and drawn a moment later: whoever captures the page has all of it.
                expect(page.locator("#ranking button")).to_have_count(10)
            # Killed, and resumed with one slice less.
            expect(status).to_have_text("Nobody is writing")
            runlog.recover(writer.path, 19, writer.steps[18])
            expect(count).to_have_text("19")
            assert problems == []
            # The server goes and comes back: the page finds it again by itself.
            port = int(server.address.rstrip("/").rpartition(":")[2])
            server.stop()
            expect(status).to_contain_text("Connection lost")
            writer.at = 19
            writer.write(3)
            server = Server(writer.path, port)
            expect(count).to_have_text("22")
            expect(status).to_have_text("Nobody is writing")
    finally:
        server.stop()


@pytest.mark.slow
def test_events_arrive_as_server_sent_events(writer):
    httpx = pytest.importorskip("httpx")
    writer.write(12)
    server = Server(writer.path)
    try:
        with httpx.stream("GET", f"{server.address}events", timeout=20) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            timer = threading.Timer(0.5, writer.write, [1])
            timer.start()
            started = time.monotonic()
            seen = []
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    seen.append(line[7:])
                if line.startswith("data: "):
                    content = json.loads(line[6:])
                if seen and seen[-1] == "update" and line.startswith("data: "):
                    break
            timer.join()
        assert seen == ["snapshot", "status", "update"]
        assert content["rows"][0]["n"] == 13
        # Within a second of the write, on a machine that is not busy.
        assert time.monotonic() - started < 0.5 + 8 * dashboard.LOOK_EVERY
    finally:
        server.stop()


def test_only_so_many_readers_are_served(client, monkeypatch):
    monkeypatch.setattr(dashboard, "MOST_READERS", 0)
    assert client.get("/events").status_code == 503


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("127.0.0.1:8765", 200), ("localhost:8765", 200), ("[::1]:8765", 200), ("127.0.0.2", 200),
        ("testserver", 400), ("evil.example:8765", 400), ("localhost.evil.example", 400), ("", 400),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/data"])
def test_only_our_own_names_are_answered(client, asked, code, path):
    """A page of another site may have its name point to this computer."""
    assert client.get(path, headers={"Host": asked}).status_code == code


@pytest.mark.parametrize("host", ["127.0.0.2", "0.0.0.0", "::1"])
def test_names_are_checked_wherever_it_listens(writer, host):
    testclient = pytest.importorskip("starlette.testclient")
    writer.write(3)
    with testclient.TestClient(create_app(writer.path, host=host), "http://10.0.0.1") as client:
        assert client.get("/").status_code == 200
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 400


def test_only_the_pages_own_script_may_run(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline'; script" not in policy.partition("script-src")[2]
    script = page.text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy
    assert html.escape(policy) in page.text


def test_no_absolute_path_is_on_the_page_or_in_its_data(writer, client):
    info = runlog.read_run_json(writer.path)
    info["command"] = ["onlinegcp", "fit", "/home/ann/secret/trips.csv", "-o", str(writer.path)]
    runlog.write_run_json(writer.path, info)
    found = client.get("/data").text
    assert "trips.csv" in found
    for text in (client.get("/").text, found):
        assert "/home/ann" not in text
        assert str(writer.path.parent) not in text
    (writer.path / runlog.RUN).write_text("nonsense")
    with (writer.path / runlog.STEPS).open("wb"):
        pass  # another run: it is read anew
    problem = client.get("/data")
    assert problem.status_code == 503
    assert "run.json" in problem.json()["problem"]
    assert str(writer.path) not in problem.text


def test_many_readers_share_one_look_and_one_copy(writer, monkeypatch):
    """32 readers of a long run must not cost 32 times its memory."""
    writer.write(12)
    looks = []
    look = Follower.look
    monkeypatch.setattr(Follower, "look", lambda self: looks.append(self) or look(self))

    async def play():
        hub = Hub(writer.path, 0.05)
        readers = [hub.messages() for _ in range(32)]
        seen = [[] for _ in readers]
        for reader, messages in zip(readers, seen, strict=True):
            while not messages or not messages[-1].startswith(b"event: status"):
                messages.append(await anext(reader))
        writer.write(1)
        for reader, messages in zip(readers, seen, strict=True):
            while not messages[-1].startswith(b"event: update"):
                messages.append(await anext(reader))
        assert hub.n_readers == 32
        hub.stopping = True
        for reader in readers:
            await reader.aclose()
        assert hub.n_readers == 0
        return seen

    seen = asyncio.run(play())
    assert len(set(looks)) == 1
    snapshots = {id(m) for messages in seen for m in messages if m.startswith(b"event: snapshot")}
    assert len(snapshots) <= 2
    assert len({messages[-1] for messages in seen}) == 1


def test_a_reader_that_does_not_keep_up_is_sent_the_whole_run_again(writer, monkeypatch):
    monkeypatch.setattr("onlinegcp.dashboard.hub.LONGEST_QUEUE", 3)
    writer.write(2)

    async def play():
        hub = Hub(writer.path, 0.01)
        reader = hub.messages()
        for _ in range(3):
            await anext(reader)
        for _ in range(8):
            writer.write(1)
            await hub.payload()
        found = [await anext(reader) for _ in range(2)]
        await reader.aclose()
        return found

    found = asyncio.run(play())
    (whole,) = [m for m in found if m.startswith(b"event: snapshot")]
    assert json.loads(whole.split(b"data: ")[1])["steps"]["count"] >= 5


# The other slices are read when the reader has seen that they are not there.
SLOWLY = """
import sys
from pathlib import Path
from onlinegcp.dashboard import follow
follow.AT_ONCE, follow.PREVIEW = 20_000, 15_000
fill = follow.Follower._fill
follow.Follower._fill = lambda self: Path(sys.argv[1] + ".go").exists() and fill(self)
"""


@pytest.mark.slow
def test_the_page_of_a_long_run_says_what_it_shows_and_fills_up(writer):
    expect = pytest.importorskip("playwright.sync_api").expect
    expect.set_options(timeout=20_000)
    writer.write(30)
    server = Server(writer.path, before=SLOWLY)
    try:
        with (
            real_browser.open_browser() as browser,
            real_browser.open_page(browser, server.address) as (page, problems),
        ):
            status = page.locator("#status")
            expect(status).to_contain_text("slices · reading all before:")
            expect(page.locator("#lately .newest")).to_contain_text("Newest: 30 Jan 2013")
            count = page.locator("#figures dd").nth(1)
            expect(count).not_to_have_text("30")
            Path(f"{writer.path}.go").touch()
            expect(count).to_have_text("30")
            expect(status).to_have_text("Nobody is writing")
            assert problems == []
    finally:
        server.stop()
