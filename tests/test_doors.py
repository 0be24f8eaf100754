"""What others need of a model is public: nobody outside `streaming` reaches into it."""

import re
from pathlib import Path

import onlinegcp

PACKAGE = Path(onlinegcp.__file__).parent
# The conformance suite looks at what is kept, and belongs to the protocol.
INSIDE = ("streaming", "testing")


def test_nobody_reaches_into_a_model():
    private = re.compile(r"\b(?:model|estimator)\._[a-z]\w*")
    found = [
        f"{path.relative_to(PACKAGE)}: {match[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in INSIDE
        for match in private.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []
