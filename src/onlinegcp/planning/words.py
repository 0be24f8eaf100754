"""What names of columns say, where their values leave it open."""

from __future__ import annotations


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# How often something happened.
COUNTS = _set(
    """
    count counts cnt freq frequency n events occurrences quantity qty aantal antal anzahl cantidad
    menge nombre quantidade quantita quantite
    """
)

# Levels: the mean of two of them means something, their sum does not.
LEVELS = _set(
    """
    age angle average avg azimuth bearing celsius close degree degrees dew dewpoint expectancy
    fahrenheit fertility gust heading height high humidity index latency level low magnitude max
    mean median min open percent percentage ph pres pressure price prices rank rate rates rating
    ratio score share speed temp temperature velocity voltage wind yield
    """
)

AMOUNTS = LEVELS | _set(
    """
    amount balance bytes calls cases clicks cost costs deaths delay depth dist distance dollars
    duration elapsed energy expense fare fee gross income length load minutes ms miles passengers
    population pop power precipitation profit rain revenue riders runtime salary sales seconds size
    snow spend sum tax time tip tips tolls total usd value views visits volume votes weight width
    """
)

CODES = _set(
    """
    account airport area beat block borough branch bus category cell channel city class cluster
    code community country county customer day department dest destination device district do
    dow dropoff dst employee floor from gate gender genre group home host hour id item kind lane
    line location machine mmsi mode model month neighborhood node origin participant patient pickup
    platform player port respondent student
    precinct product pu quarter receiver region room route school sector segment sender sensor
    server service shift shop site src station status stop store street subject target team
    terminal to track type unit user vehicle vendor ward week weekday zip zone
    """
)

PLACES = _set("lat latitude lon lng long longitude")

# What is measured, where it is a label.
MEASURES = _set(
    "element indicator measure measurement metric metrics parameter pollutant quantity variable"
)

WEEKS = _set("isoweek week weeks wk yearweek yw")

TIMES_OF_DAY = _set("clock hhmm time times tod")

# Names of times.
CLOCKS = _set("date datetime day epoch month time timestamp ts unix utc week when year yr")
COUNTERS = CLOCKS | _set(
    "frame hour index iteration minute period round row second seq step t tick turn"
)
# Of two times of one event, the later.
LATER = _set(
    """
    arrival arrived birth born checkout close closed completed delivered delivery discharge
    discharged dob dropoff due end ended expiry expires finish finished last modified resolved
    returned settled shipped until updated
    """
)

# Two ends of one thing.
PAIRS = (
    ("origin", "dest"),
    ("origin", "destination"),
    ("src", "dst"),
    ("source", "target"),
    ("source", "destination"),
    ("from", "to"),
    ("pu", "do"),
    ("pickup", "dropoff"),
    ("start", "end"),
    ("home", "away"),
    ("sender", "receiver"),
    ("sender", "recipient"),
    ("departure", "arrival"),
    ("buyer", "seller"),
    ("winner", "loser"),
    ("caller", "callee"),
    ("in", "out"),
)
