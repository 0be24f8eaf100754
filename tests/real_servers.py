"""Debian's PostgreSQL and Redis, and moto's S3, each on its own in a temporary folder.

Where one cannot be had, tests are skipped and say how to get it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest


def _program(name, package):
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or (str(debian[-1]) if debian else None)
    if found is None:
        pytest.skip(f"no {name} found: apt-get install -y {package}")
    return found


@contextlib.contextmanager
def _folder():
    """A folder that belongs to whoever runs servers: never root, which PostgreSQL refuses."""
    user = {}
    if os.getuid() == 0:
        user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="og"))  # short: a socket's path has 107 characters
    try:
        if user:
            shutil.chown(folder, "nobody", user["group"])
        folder.chmod(0o755)
        yield folder, {**user, "cwd": folder, "env": {**os.environ, "HOME": str(folder)}}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _running(command, log, ready, **options):
    """A server, from when it answers to the end of the block."""
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, **options)
    try:
        end = time.monotonic() + 60
        while not ready():
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield server
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextlib.contextmanager
def postgres():
    """A server without data; the address of its database, and the server's process."""
    initdb, program = _program("initdb", "postgresql"), _program("postgres", "postgresql")
    with _folder() as (folder, options):
        data = folder / "data"
        subprocess.run(
            [initdb, "-D", data, "-U", "ann", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"],
            check=True,
            capture_output=True,
            **options,
        )
        settings = {
            "unix_socket_directories": folder,
            "listen_addresses": "",
            "fsync": "off",
            "max_connections": "10",
            "shared_buffers": "16MB",
            "timezone": "America/New_York",  # not that of the tests
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        address = f"postgresql://ann:geheim@/postgres?host={folder}"
        with _running(
            [program, "-D", data, *words],
            folder / "log",
            lambda: _answers(address),
            **options,
        ) as server:
            yield address, server


def _answers(address):
    import adbc_driver_manager
    import adbc_driver_postgresql.dbapi as driver

    with contextlib.suppress(adbc_driver_manager.Error), driver.connect(address):
        return True
    return False


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def redis_server():
    """A server with a password; its port and a client."""
    program = _program("redis-server", "redis-server")
    redis = pytest.importorskip("redis", reason="needs redis")
    port = free_port()
    with _folder() as (folder, options):
        command = [program, "--port", str(port), "--save", "", "--requirepass", "geheim"]
        client = redis.Redis(port=port, password="geheim")

        def ready():
            with contextlib.suppress(redis.RedisError):
                return client.ping()
            return False

        with _running([*command, "--bind", "127.0.0.1"], folder / "log", ready, **options):
            try:
                yield port, client
            finally:
                client.close()


@contextlib.contextmanager
def s3():
    """A server with the bucket "taxi"; a client, and the environment that leads to it."""
    server = pytest.importorskip("moto.server", reason="needs moto[server]")
    import boto3

    running = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "geheim",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        client = boto3.client(
            "s3",
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            aws_access_key_id="key",
            aws_secret_access_key="geheim",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="taxi")
        yield client, environment
    finally:
        running.stop()
