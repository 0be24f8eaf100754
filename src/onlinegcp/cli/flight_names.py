"""Names of the carriers and of the places most often flown to from New York, for the demo."""

from __future__ import annotations

CARRIERS = {
    "9E": "Endeavor", "AA": "American", "AS": "Alaska", "B6": "JetBlue", "DL": "Delta",
    "EV": "ExpressJet", "F9": "Frontier", "FL": "AirTran", "HA": "Hawaiian", "MQ": "Envoy",
    "OO": "SkyWest", "UA": "United", "US": "US Airways", "VX": "Virgin America",
    "WN": "Southwest", "YV": "Mesa",
}  # fmt: skip
CITIES = {
    "ATL": "Atlanta", "BNA": "Nashville", "BOS": "Boston", "BUF": "Buffalo", "CHS": "Charleston",
    "CLE": "Cleveland", "CLT": "Charlotte", "CMH": "Columbus", "CVG": "Cincinnati",
    "DCA": "Washington", "DEN": "Denver", "DFW": "Dallas", "DTW": "Detroit",
    "FLL": "Fort Lauderdale", "HNL": "Honolulu", "HOU": "Houston Hobby", "IAD": "Dulles",
    "IAH": "Houston", "IND": "Indianapolis", "LAS": "Las Vegas", "LAX": "Los Angeles",
    "MCO": "Orlando", "MDW": "Chicago Midway", "MIA": "Miami", "MKE": "Milwaukee",
    "MSP": "Minneapolis", "MSY": "New Orleans", "ORD": "Chicago O'Hare", "PBI": "Palm Beach",
    "PHL": "Philadelphia", "PHX": "Phoenix", "PIT": "Pittsburgh", "RDU": "Raleigh",
    "RIC": "Richmond", "RSW": "Fort Myers", "SAN": "San Diego", "SEA": "Seattle",
    "SFO": "San Francisco", "SJU": "San Juan", "SLC": "Salt Lake City", "STL": "St. Louis",
    "TPA": "Tampa",
}  # fmt: skip


def spoken(labels: tuple[tuple[str, ...], ...], modes: tuple[str, ...]) -> list[list[str]]:
    """Labels with codes replaced by names, where they are known."""
    tables = {"dest": CITIES, "carrier": CARRIERS}
    return [
        [tables.get(mode, {}).get(label, label) for label in names]
        for mode, names in zip(modes, labels, strict=True)
    ]
