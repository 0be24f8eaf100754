"""The setting for matrix products holds within a block, and is as it was after the last one."""

from __future__ import annotations

import threading

import pytest

from onlinegcp.kernels import blas
from onlinegcp.kernels.blas import one_blas_thread


def threads():
    libraries = blas._controller().info()
    return {library["num_threads"] for library in libraries if library["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with blas._controller().limit(limits=2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("this BLAS has one thread whatever it is told")
        yield


def test_a_block_has_one_thread_and_leaves_the_setting_as_it_was(two_threads):
    with one_blas_thread():
        assert threads() == {1}
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {2}


def test_an_error_ends_a_block(two_threads):
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        1 / 0  # noqa: B018
    assert threads() == {2}


def test_a_thread_that_begins_within_a_block_makes_the_setting_for_itself(two_threads):
    found = []

    def block():
        with one_blas_thread():
            found.append(threads())

    with one_blas_thread():
        other = threading.Thread(target=block)
        other.start()
        other.join()
        assert threads() == {1}
    assert found == [{1}]
    assert threads() == {2}
