"""Names of the carriers and of the places flown to from New York, for the demo."""

from __future__ import annotations

CARRIERS = {
    "9E": "Endeavor", "AA": "American", "AS": "Alaska", "B6": "JetBlue", "DL": "Delta",
    "EV": "ExpressJet", "F9": "Frontier", "FL": "AirTran", "HA": "Hawaiian", "MQ": "Envoy",
    "OO": "SkyWest", "UA": "United", "US": "US Airways", "VX": "Virgin America",
    "WN": "Southwest", "YV": "Mesa",
}  # fmt: skip
CITIES = {
    "ABQ": "Albuquerque", "ACK": "Nantucket", "ALB": "Albany", "ANC": "Anchorage", "ATL": "Atlanta",
    "AUS": "Austin", "AVL": "Asheville", "BDL": "Hartford", "BGR": "Bangor", "BHM": "Birmingham",
    "BNA": "Nashville", "BOS": "Boston", "BQN": "Aguadilla", "BTV": "Burlington", "BUF": "Buffalo",
    "BUR": "Burbank", "BWI": "Baltimore", "BZN": "Bozeman", "CAE": "Columbia", "CAK": "Akron",
    "CHO": "Charlottesville", "CHS": "Charleston", "CLE": "Cleveland", "CLT": "Charlotte",
    "CMH": "Columbus", "CRW": "Charleston (WV)", "CVG": "Cincinnati", "DAY": "Dayton",
    "DCA": "Washington", "DEN": "Denver", "DFW": "Dallas", "DSM": "Des Moines", "DTW": "Detroit",
    "EGE": "Eagle", "EYW": "Key West", "FLL": "Fort Lauderdale", "GRR": "Grand Rapids",
    "GSO": "Greensboro", "GSP": "Greenville", "HDN": "Hayden", "HNL": "Honolulu",
    "HOU": "Houston Hobby", "IAD": "Dulles", "IAH": "Houston", "ILM": "Wilmington",
    "IND": "Indianapolis", "JAC": "Jackson Hole", "JAX": "Jacksonville", "LAS": "Las Vegas",
    "LAX": "Los Angeles", "LEX": "Lexington", "LGA": "LaGuardia", "LGB": "Long Beach",
    "MCI": "Kansas City", "MCO": "Orlando", "MDW": "Chicago Midway", "MEM": "Memphis",
    "MHT": "Manchester", "MIA": "Miami", "MKE": "Milwaukee", "MSN": "Madison", "MSP": "Minneapolis",
    "MSY": "New Orleans", "MTJ": "Montrose", "MVY": "Martha's Vineyard", "MYR": "Myrtle Beach",
    "OAK": "Oakland", "OKC": "Oklahoma City", "OMA": "Omaha", "ORD": "Chicago O'Hare",
    "ORF": "Norfolk", "PBI": "Palm Beach", "PDX": "Portland", "PHL": "Philadelphia",
    "PHX": "Phoenix", "PIT": "Pittsburgh", "PSE": "Ponce", "PSP": "Palm Springs",
    "PVD": "Providence", "PWM": "Portland (Maine)", "RDU": "Raleigh", "RIC": "Richmond",
    "ROC": "Rochester", "RSW": "Fort Myers", "SAN": "San Diego", "SAT": "San Antonio",
    "SAV": "Savannah", "SBN": "South Bend", "SDF": "Louisville", "SEA": "Seattle",
    "SFO": "San Francisco", "SJC": "San Jose", "SJU": "San Juan", "SLC": "Salt Lake City",
    "SMF": "Sacramento", "SNA": "Orange County", "SRQ": "Sarasota", "STL": "St. Louis",
    "STT": "St. Thomas", "SYR": "Syracuse", "TPA": "Tampa", "TUL": "Tulsa", "TVC": "Traverse City",
    "TYS": "Knoxville", "XNA": "Northwest Arkansas",
}  # fmt: skip


def spoken(labels: tuple[tuple[str, ...], ...], modes: tuple[str, ...]) -> list[list[str]]:
    """Labels with codes replaced by names, where they are known."""
    tables = {"dest": CITIES, "carrier": CARRIERS}
    return [
        [tables.get(mode, {}).get(label, label) for label in names]
        for mode, names in zip(modes, labels, strict=True)
    ]
