"""Lines of a run told in the components of the last one."""

from __future__ import annotations

import json

from onlinegcp.runlog import STEPS, Aligner, StoredSteps
from onlinegcp.runlog.names import read_names, renumber, write_name


def aligned(folder, steps):
    numbered = [{"number": n, **step} for n, step in enumerate(steps, 1)]
    lines = [json.dumps(step, separators=(",", ":")) + "\n" for step in numbered]
    (folder / STEPS).write_text("".join(lines))
    aligner = Aligner.of(folder)
    for step in numbered:
        aligner.take(step)
    return numbered


def test_weights_follow_their_components_through_several_changes(tmp_path):
    steps = aligned(
        tmp_path,
        [
            {"weights": [1.0, 2.0, 3.0], "drift": [0.1, 0.2, 0.3]},
            {"weights": [1.5, 3.5], "drift": [0.0, 0.0], "order": [0, 2]},
            {"weights": [1.6, 3.6], "drift": [0.0, 0.0]},
            {"weights": [9.0, 3.7, 1.7], "drift": [1.0, 0.0, 0.0], "order": [-1, 1, 0]},
            {"weights": [9.1, 3.8, 1.8], "drift": [0.0, 0.0, 0.0]},
        ],
    )
    assert [step["weights"] for step in steps] == [
        [0.0, 3.0, 1.0],
        [0.0, 3.5, 1.5],
        [0.0, 3.6, 1.6],
        [9.0, 3.7, 1.7],
        [9.1, 3.8, 1.8],
    ]
    assert steps[0]["drift"] == [0.0, 0.3, 0.1]


def test_lines_are_read_again_each_time_in_the_components_of_the_last(tmp_path):
    steps = [{"weights": [1.0, 2.0]}, {"weights": [3.0], "order": [1]}]
    expected = aligned(tmp_path, steps)
    assert len(StoredSteps(tmp_path)) == 2
    for _ in range(2):
        assert list(StoredSteps(tmp_path)) == expected
    with (tmp_path / STEPS).open("a") as file:
        file.write('{"number":3')  # being written
    assert len(StoredSteps(tmp_path)) == 2
    assert list(StoredSteps(tmp_path)) == expected
    assert (len(StoredSteps(tmp_path / "none")), list(StoredSteps(tmp_path / "none"))) == (0, [])


def test_lines_without_changes_stay_as_they_are(tmp_path):
    steps = [{"weights": [1.0]}, {"weights": [2.0], "order": None}, {"local": 3}]
    assert aligned(tmp_path, steps) == [{"number": n, **s} for n, s in enumerate(steps, 1)]


def test_a_run_without_lines_has_no_changes(tmp_path):
    step = {"number": 1, "weights": [1.0]}
    Aligner.of(tmp_path / "none").take(step)
    (tmp_path / STEPS).write_text('{"number":1,"order":[0\n')  # whoever reads it says what is wrong
    Aligner.of(tmp_path).take(step)
    assert step["weights"] == [1.0]


def test_names_follow_their_patterns(tmp_path):
    for number, name in ((1, "one"), (2, "two"), (4, "four")):
        write_name(tmp_path, number, name, 4)
    renumber(tmp_path, [3, 0, -1])
    assert read_names(tmp_path) == {1: "four", 2: "one"}
    renumber(tmp_path, [-1])
    assert read_names(tmp_path) == {}


def test_runs_without_names_get_no_file(tmp_path):
    renumber(tmp_path, [1, 0])
    assert list(tmp_path.iterdir()) == []
