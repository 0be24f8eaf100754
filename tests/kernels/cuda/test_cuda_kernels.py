"""Every kernel of the card: a few threads of it in Numba's simulator, all of them as PTX."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parents[1]  # where the modules are that tests share


def _run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / script)],
        env=os.environ | environment | {"PYTHONPATH": os.pathsep.join(_path())},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


def _path():
    return [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]


@pytest.mark.slow
def test_kernels_in_the_simulator_give_what_numpy_and_the_cpu_give():
    found = _run("simulated.py", NUMBA_ENABLE_CUDASIM="1")
    assert len(found) == 15, found


@pytest.mark.slow
def test_kernels_of_row_systems_in_the_simulator_give_what_the_cpu_gives():
    found = _run("simulated_rows.py", NUMBA_ENABLE_CUDASIM="1")
    assert len(found) == 5, found


@pytest.mark.slow
def test_kernels_of_sampled_gradients_in_the_simulator_give_what_the_reference_gives():
    found = _run("simulated_sgd.py", NUMBA_ENABLE_CUDASIM="1")
    assert len(found) == 6, found


def test_every_kernel_compiles_for_an_old_and_a_new_card():
    for module in ("numba_cuda", "nvidia.cu13"):
        try:
            there = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            there = False
        if not there:
            pytest.skip(
                f"no kernel of the card was compiled to PTX: {module} is not installed "
                "(pip install 'onlinegcp[cuda]' brings it, without a card, too)"
            )
    found = _run("to_ptx.py")
    assert len(found) == len(set(found)) > 20, found
