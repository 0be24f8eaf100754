"""Alarms are delivered in the background, once when they begin and once when they end."""

import http.server
import json
import shlex
import sys
import threading
import time

import pytest

from onlinegcp.errors import DataError
from onlinegcp.run import delivery
from onlinegcp.run.delivery import Delivery, message_of


def step(number, flagged, alarm=0, ended=0):
    told = {"severity": "high", "sentence": f"slice {number}", "p": 1e-5, "score": 5.0}
    anomaly = {"flagged": flagged, "alarm": alarm, "ended": ended, "kind": "pattern", **told}
    return {"number": number, "time": f"2024-01-{number:02d}", "anomaly": anomaly}


def test_an_alarm_that_goes_on_is_told_when_it_begins_and_when_it_ends():
    steps = [step(1, False), step(2, True, 1), step(3, True, 2), step(4, False, 0, 2),
             step(5, False), None]  # fmt: skip
    told = [message_of(s, "r") for s in steps]
    assert [m and m["event"] for m in told] == [None, "begins", None, "ends", None, None]
    assert told[1]["anomaly"]["flagged"]
    assert told[3]["slices"] == 2
    json.dumps(told)


def test_a_command_reads_json_and_sees_no_shell(tmp_path):
    target = tmp_path / "got"
    script = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read() + b'\\n')"
    command = shlex.join([sys.executable, "-c", script, str(target)])
    with Delivery(command) as sender:
        sender.send({"sentence": "; touch /tmp/never $(reboot) `id`"})
        sender.send({"sentence": "two"})
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert [line["sentence"] for line in lines] == ["; touch /tmp/never $(reboot) `id`", "two"]


class Hook(http.server.BaseHTTPRequestHandler):
    """Fails as often as it is told to, then takes what comes."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.tries += 1
        if self.server.failures > 0:
            self.server.failures -= 1
            if self.server.status is None:
                self.wfile.write(b"hello there\r\n\r\n")
                return
            self.send_response(self.server.status)
            self.send_header("Location", "/elsewhere")
        else:
            self.server.got.append(json.loads(body))
            self.send_response(200)
        self.end_headers()

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hook(monkeypatch):
    monkeypatch.setattr(delivery, "PAUSE", 0.01)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.got, server.failures, server.status, server.tries = [], 0, 503, 0
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server, f"http://127.0.0.1:{server.server_port}/alarm"
    server.shutdown()
    server.server_close()


def test_a_webhook_is_tried_again(hook):
    server, address = hook
    server.failures = 3
    with Delivery(webhook=address) as sender:
        sender.send({"sentence": "one"})
    assert server.got == [{"sentence": "one"}]
    assert sender.n_lost == 0


def test_an_answer_that_is_none_of_the_web_is_one_more_failure(hook):
    server, address = hook
    server.failures, server.status = 2, None
    with Delivery(webhook=address) as sender:
        sender.send({"sentence": "one"})
        sender.send({"sentence": "two"})
    assert [message["sentence"] for message in server.got] == ["one", "two"]
    assert sender.n_lost == 0


@pytest.mark.parametrize("status", [302, 404])  # elsewhere it would arrive without its text
def test_a_message_that_is_refused_is_not_sent_again(hook, caplog, status):
    server, address = hook
    server.failures, server.status = 9, status
    with Delivery(webhook=address) as sender:
        sender.send({"sentence": "one"})
    assert server.tries == 1
    assert sender.n_lost == 1
    assert str(status) in caplog.text


def test_a_command_may_leave_something_running():
    with Delivery("sh -c 'sleep 20 & exit 0'") as sender:
        sender.send({"sentence": "one"})
        start = time.perf_counter()
    assert time.perf_counter() - start < 5.0
    assert sender.n_lost == 0


def test_sending_never_waits_and_the_queue_is_bounded(monkeypatch):
    monkeypatch.setattr(delivery, "WAITING", 5)
    sender = Delivery(shlex.join([sys.executable, "-c", "import time; time.sleep(3)"]))
    start = time.perf_counter()
    for n in range(50):
        sender.send({"n": n})
    assert time.perf_counter() - start < 1.0
    assert sender.n_lost >= 43
    sender.close(seconds=0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"command": "no-such-program-here x"}, "can be run"), ({"command": "echo 'x"}, "quotes"),
     ({"command": ""}, "can be run"), ({"webhook": "ftp://x"}, "http://")],
)  # fmt: skip
def test_what_cannot_work_is_refused_at_once(options, words):
    with pytest.raises(DataError, match=words):
        Delivery(**options)
