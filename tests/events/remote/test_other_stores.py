"""gs:// and az:// reach a server that speaks as Google's and Azure's do.

The server here is ours: it lists and hands out objects in the words of both, checks who asks, and
knows nothing else. What it cannot show is that the real ones agree.
"""

from __future__ import annotations

import http.server
import io
import json
import threading
import urllib.parse

import polars as pl
import pytest

from onlinegcp.errors import DataError
from onlinegcp.events import from_events

DAYS = ["2024-01-01", "2024-01-02", "2024-01-03"]
AZURITE = "devstoreaccount1"  # the account that emulators have


def objects():
    table = pl.DataFrame({"t": DAYS, "a": ["x", "y", "x"]})
    parquet = io.BytesIO()
    table.write_parquet(parquet)
    return {"rides/a.parquet": parquet.getvalue(), "rides/b.csv": table.write_csv().encode()}


class Store(http.server.BaseHTTPRequestHandler):
    """Lists and objects, in the words of either."""

    protocol_version = "HTTP/1.1"
    content = objects()
    asked: list[tuple[str, str]] = []  # noqa: RUF012 - one list for all requests, on purpose

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        address = urllib.parse.urlparse(self.path)
        query = urllib.parse.parse_qs(address.query)
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        path = urllib.parse.unquote(address.path)
        if query.get("comp") == ["list"]:
            return self.answer(self.azure_list(query))
        if "list-type" in query:
            return self.answer(self.google_list(query))
        name = path.partition("/box/")[2]
        if name not in self.content:
            return self.answer(b"", 404)
        return self.answer(self.content[name])

    def answer(self, body, code=200):
        asked = self.headers.get("Range") or self.headers.get("x-ms-range")
        self.send_response(206 if asked and code == 200 else code)
        if asked and code == 200:
            first, last = asked.partition("=")[2].split("-")
            start = int(first) if first else max(0, len(body) - int(last))
            end = min(len(body), int(last) + 1) if first and last else len(body)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
            body = body[start:end]
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def found(self, query):
        prefix = query.get("prefix", [""])[0]
        return {n: len(c) for n, c in sorted(self.content.items()) if n.startswith(prefix)}

    def azure_list(self, query):
        blobs = "".join(
            f"<Blob><Name>{name}</Name><Properties><Last-Modified>Mon, 01 Jan 2024 00:00:00 GMT"
            f"</Last-Modified><Etag>1</Etag><Content-Length>{size}</Content-Length>"
            "<Content-Type>text/plain</Content-Type></Properties>"
            "</Blob>"
            for name, size in self.found(query).items()
        )
        head = '<EnumerationResults ContainerName="box">'
        return f"{head}<Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>".encode()

    def google_list(self, query):
        items = "".join(
            f"<Contents><Key>{name}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
            f'<ETag>"1"</ETag><Size>{size}</Size></Contents>'
            for name, size in self.found(query).items()
        )
        return (
            f"<ListBucketResult><Name>box</Name><IsTruncated>false</IsTruncated>{items}"
            "</ListBucketResult>"
        ).encode()

    def log_message(self, *_):
        pass


@pytest.fixture
def store():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Store.asked.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["gs", "az"])
def bucket(request, store, monkeypatch):
    """Where the objects are, and the environment that says so."""
    if request.param == "gs":
        key = {"gcs_base_url": store, "disable_oauth": True, "client_email": "", "private_key": ""}
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps({**key, "private_key_id": ""}))
    else:
        monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
        monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", store)
    return f"{request.param}://box"


@pytest.mark.parametrize("pattern", ["rides/*.parquet", "rides/a.parquet", "rides/*.csv"])
def test_objects_are_found_and_read(bucket, pattern):
    stream = from_events(f"{bucket}/{pattern}", time="t", every="1d", modes=["a"])
    assert [(str(x.time), x.total) for x in stream] == [(day, 1.0) for day in DAYS]
    assert stream.labels == (("x", "y"),)
    paths = [path for path, _ in Store.asked]
    assert any("rides" in path for path in paths)
    if bucket.startswith("az"):
        # Signed with the account of the environment.
        assert all(f"/{AZURITE}/box" in path for path in paths)
        assert all(AZURITE in signed for _, signed in Store.asked)


def test_objects_that_are_not_there_are_named(bucket):
    with pytest.raises(DataError, match=r"box/none"):
        list(from_events(f"{bucket}/none/x.parquet", time="t", every="1d", modes=["a"]))
