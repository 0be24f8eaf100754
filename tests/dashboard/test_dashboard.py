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

import fake_run
import real_browser
from onlinegcp import dashboard, runlog
from onlinegcp.dashboard import create_app, serve
from onlinegcp.dashboard.follow import Follower
from onlinegcp.dashboard.hub import Hub
from onlinegcp.digest import read_digest
from onlinegcp.errors import BackendError, StateError
from onlinegcp.runlog.names import write_name

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def story():
    return fake_run.make_steps(n_days=40, rank=2, n_iterations=3)


class Writer:
    """Plays a run, one step after the other."""

    def __init__(self, path, story):
        self.path = path
        self.factors, self.labels, modes, self.steps = story
        self.at = 0
        fake_run.start(path, modes, 2)

    def write(self, n):
        for step in self.steps[self.at : self.at + n]:
            fake_run.store(self.path, self.factors, self.labels, step)
            runlog.append_step(self.path, step)
        self.at += n


@pytest.fixture
def writer(tmp_path, story):
    return Writer(tmp_path / "live.run", story)


def names(events):
    return [name for name, _ in events]


def test_a_follower_gets_all_at_first_and_then_what_is_new(writer):
    writer.write(12)
    follower = Follower(writer.path)
    first = dict(follower.look())
    assert first["snapshot"]["steps"]["count"] == 12
    assert first["status"] == {"running": False, "problem": None}
    assert follower.look() == []
    writer.write(3)
    ((name, update),) = follower.look()
    assert name == "update"
    assert [row["n"] for row in update["rows"]] == [13, 14, 15]
    assert update["steps"]["count"] == 15
    json.dumps(update, allow_nan=False)


def test_a_follower_of_an_empty_run_sees_it_begin(writer, monkeypatch):
    monkeypatch.setattr("onlinegcp.dashboard.follow.MODEL_EVERY", 0.0)
    follower = Follower(writer.path)
    assert dict(follower.look())["snapshot"]["model"]["components"] == []
    writer.write(11)
    update = dict(follower.look())["update"]
    assert len(update["model"]["components"]) == 2
    assert len(update["rows"]) == 11


def test_a_page_is_given_all_rows_anew_before_it_grows_without_end(writer, monkeypatch):
    monkeypatch.setattr("onlinegcp.dashboard.follow.NEWEST", 5)
    writer.write(12)
    follower = Follower(writer.path)
    follower.look()
    writer.write(4)
    assert len(dict(follower.look())["update"]["rows"]) == 4
    writer.write(3)
    update = dict(follower.look())["update"]
    assert update["fresh"] == 3
    assert update["all"]["count"] == len(update["all"]["rows"]) == 19
    writer.write(1)
    assert len(dict(follower.look())["update"]["rows"]) == 1


def test_names_given_while_a_page_is_open_are_shown(writer, monkeypatch):
    monkeypatch.setattr("onlinegcp.dashboard.follow.MODEL_EVERY", 0.0)
    writer.write(12)
    follower = Follower(writer.path)
    follower.look()
    write_name(writer.path, 2, "Evening leisure", 2)
    model = dict(follower.look())["update"]["model"]
    assert {one["id"]: one["headline"] for one in model["components"]}[1] == "Evening leisure"


def test_readers_are_told_how_far_a_long_run_has_been_read(writer, monkeypatch):
    writer.write(12)
    hub = Hub(writer.path, 0.05)
    go = threading.Event()
    look = hub._follower.look
    monkeypatch.setattr(hub._follower, "look", lambda: (go.wait(20), look())[1])

    async def first():
        told = []
        messages = hub.messages()
        async for message in messages:
            told.append(message.split(b"\n")[0])
            if message.startswith(b"event: reading"):
                go.set()
            if message.startswith(b"event: snapshot"):
                break
        await messages.aclose()
        # One that leaves while the run is read is not kept.
        go.clear()
        other = hub.messages()
        await anext(other)
        assert (await anext(other)).startswith(b"event: reading")
        await other.aclose()
        go.set()
        await asyncio.sleep(1.0)
        return told

    told = asyncio.run(first())
    assert told[1:] == [b"event: reading"] * (len(told) - 2) + [b"event: snapshot"]
    assert len(told) > 2
    assert not hub._queues
    assert hub.n_readers == 0


def test_a_follower_survives_a_kill_and_a_resume(writer):
    writer.write(12)
    follower = Follower(writer.path)
    follower.look()
    with (writer.path / runlog.STEPS).open("ab") as file:
        file.write(b'{"number": 13, "tim')
    assert follower.look() == []
    with runlog.Lock(writer.path):
        # Resumed from a checkpoint that knows one slice less.
        runlog.recover(writer.path, 11, writer.steps[10])
        events = dict(follower.look())
        assert events["snapshot"]["steps"]["count"] == 11
        assert events["status"]["running"] is True
        writer.at = 11
        writer.write(2)
        assert [row["n"] for row in dict(follower.look())["update"]["rows"]] == [12, 13]
    assert dict(follower.look())["status"]["running"] is False


def test_a_follower_reports_a_run_that_is_gone_and_one_that_comes_back(writer):
    writer.write(12)
    follower = Follower(writer.path)
    follower.look()
    away = writer.path.with_name("away")
    writer.path.rename(away)
    assert "no directory" in dict(follower.look())["status"]["problem"]
    away.rename(writer.path)
    events = dict(follower.look())
    assert events["snapshot"]["steps"]["count"] == 12
    assert events["status"]["problem"] is None


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
    runlog.upgrade_run_json(writer.path, info)
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


def test_something_odd_in_the_files_is_told_and_ends_nothing(writer, monkeypatch):
    writer.write(5)
    follower = Follower(writer.path)
    monkeypatch.setattr("onlinegcp.dashboard.follow.build", lambda *_, **__: [][0])
    assert "cannot be shown" in dict(follower.look())["status"]["problem"]
    monkeypatch.undo()
    assert dict(follower.look())["status"]["problem"] is None


# ---- long runs: the newest slices first, the others while the page is open


@pytest.fixture
def long(monkeypatch):
    """Runs of more than a few lines are long ones."""
    monkeypatch.setattr("onlinegcp.dashboard.follow.AT_ONCE", 20_000)
    monkeypatch.setattr("onlinegcp.dashboard.follow.PREVIEW", 15_000)
    monkeypatch.setattr("onlinegcp.dashboard.follow.FILL_LINES", 3)
    monkeypatch.setattr("onlinegcp.dashboard.follow.FILL_SECONDS", 0.0001)


def looks(follower):
    """Looks until a run that was shown in part is shown whole; all events meanwhile."""
    events = []
    for _ in range(100):
        events.append(follower.look())
        if "snapshot" in names(events[-1]):
            return events
    raise AssertionError("never read to its end")


@pytest.mark.usefixtures("long")
def test_of_a_long_run_the_newest_slices_are_shown_first(writer):
    writer.write(30)
    follower = Follower(writer.path)
    first = dict(follower.look())["snapshot"]
    shown = [row["n"] for row in first["steps"]["rows"]]
    assert shown == list(range(shown[0], 31))
    assert 1 < shown[0] < 30
    assert first["reading"] == {"share": 0.0}
    assert len(first["model"]["components"]) == 2
    *before, last = looks(follower)
    shares = [dict(events)["reading"]["share"] for events in before]
    assert shares == sorted(shares)
    assert 0.0 < shares[-1] < 1.0
    whole = dict(last)["snapshot"]
    assert whole == read_whole(writer.path)
    assert follower.share_read == 1.0
    assert follower.look() == []
    writer.write(2)
    assert [row["n"] for row in dict(follower.look())["update"]["rows"]] == [31, 32]


def read_whole(path):
    """What a reader sees that has time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onlinegcp.dashboard.follow.AT_ONCE", 10**9)
        return dict(Follower(path).look())["snapshot"]


@pytest.mark.usefixtures("long")
def test_slices_that_come_while_the_others_are_read_are_shown(writer):
    writer.write(30)
    follower = Follower(writer.path)
    follower.look()
    writer.write(1)
    events = follower.look()
    assert names(events) == ["update", "reading"]
    assert [row["n"] for row in events[0][1]["rows"]] == [31]
    writer.write(1)
    whole = dict(looks(follower)[-1])["snapshot"]
    assert whole["steps"]["count"] == 32
    assert whole == read_whole(writer.path)


@pytest.mark.usefixtures("long")
def test_a_long_run_that_is_cut_while_it_is_read_is_read_anew(writer):
    writer.write(30)
    follower = Follower(writer.path)
    follower.look()
    with runlog.Lock(writer.path):
        runlog.recover(writer.path, 28, writer.steps[27])
    follower.look()
    for _ in range(100):
        follower.look()
    assert follower.payload() == read_whole(writer.path)
    assert follower.payload()["steps"]["count"] == 28


@pytest.mark.usefixtures("long")
def test_a_damaged_line_of_a_long_run_is_told_when_it_is_met(writer):
    writer.write(30)
    lines = (writer.path / runlog.STEPS).read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"total", b"totem")
    (writer.path / runlog.STEPS).write_bytes(b"".join(lines))
    follower = Follower(writer.path)
    assert dict(follower.look())["status"]["problem"] is None
    told = [status for _ in range(9) for name, status in follower.look() if name == "status"]
    assert len(told) == 1  # it stays
    assert "line 4 is none of a run" in told[0]["problem"]
    writer.write(1)
    assert [row["n"] for row in dict(follower.look())["update"]["rows"]] == [31]


def test_components_that_change_places_are_told_without_reading_all_again(writer, monkeypatch):
    writer.write(12)
    follower = Follower(writer.path)
    follower.look()
    monkeypatch.setattr("onlinegcp.dashboard.follow.Digest", None)
    writer.steps = [dict(step) for step in writer.steps]
    writer.steps[12]["order"] = [1, 0]
    writer.write(2)
    found = dict(follower.look())["snapshot"]
    monkeypatch.undo()
    assert found == read_whole(writer.path)
    rows = {row["n"]: row["w"] for row in found["steps"]["rows"]}
    assert rows[12] == pytest.approx(writer.steps[11]["weights"][::-1], rel=1e-3)
    assert rows[13] == pytest.approx(writer.steps[12]["weights"], rel=1e-3)


def test_a_stored_digest_spares_the_page_all_lines_before(writer, monkeypatch):
    writer.write(30)
    wanted = read_whole(writer.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onlinegcp.digest.reading.EVERY", 10)
        read_digest(writer.path)
    monkeypatch.setattr("onlinegcp.dashboard.follow.AT_ONCE", 1)
    assert dict(Follower(writer.path).look())["snapshot"] == wanted
    before = {file.name: file.read_bytes() for file in writer.path.iterdir()}
    assert runlog.DIGEST in before
    writer.write(1)
    Follower(writer.path).look()
    assert (writer.path / runlog.DIGEST).read_bytes() == before[runlog.DIGEST]


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
