"""Words and ranges that make simulated answers plausible, looked up by the name of a property (ours).

A key matches when it is a run of whole words of the property name; the last and longest match wins
(``"arrival_city"`` -> ``city``). Values are short, for small policies read and repeat them token by token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

_WHO = "attendee|customer|guest|employee|instructor|agent|holder|host|courier|user|full"
_WHAT = "city|hotel|artist|product|restaurant|doctor|file|folder|station|team|airline"
_PEOPLE = "Ana Silva|Ben Okafor|Chloe Martin|David Kim|Elena Rossi|Farid Haddad|Grace Lee|Hugo Weber|Ines Costa"
_PLACES = "Maple Court|Harbor House|Cedar Hall|Lakeside Point|Garden Plaza|Sunset Terrace|Hilltop Lodge|Station Square"
_THINGS = "Blue Harbor|Silver Pine|Golden Leaf|Red Canyon|Green Valley|White Stone|North Star|Quiet River"
_CITIES = "Paris|Lisbon|Oslo|Tokyo|Toronto|Berlin|Madrid|Nairobi|Denver|Dublin|Sydney|Vienna"
_STATES = "confirmed|pending|active|completed|scheduled"
_SUCCESS = "success|ok|confirmed|created|updated|deleted|sent|saved|booked|accepted|scheduled|cancelled|added|removed"
_NOTES = "all set|ready to use|no issues found|updated today|please arrive early|bring your card"

_STRINGS = {
    "address": "12 Oak Street|48 River Road|7 Mill Lane|305 Park Avenue|91 Hill Street|16 Garden Way",
    "airline": "Northwind|Skyline Air|Blue Jet|Aurora Air|Pacific Wings",
    "airport": "CDG|LIS|OSL|HND|YYZ|BER|MAD|DEN|DUB|SYD",
    "album": _THINGS,
    "allergy": "peanuts|pollen|latex|penicillin",
    "artist": "The Lanterns|Mira Sol|Night Parade|Paper Kites|Otto Lind",
    "author": _PEOPLE,
    "brand": "Acme|Nordica|Vela|Kestrel|Lumen",
    "carrier": "FastShip|Parcelo|RoadRunner|SwiftPost|Globex Freight",
    "category": "travel|food|home|office|health|sports|books|music",
    "city": _CITIES,
    "class": "economy|business|first",
    "code": "A7K2|B9X4|C3M8|D5R1|E8T6|F2Q9|G6W3|H4Z7",
    "color": "red|blue|green|black|white|silver|yellow",
    "condition": "sunny|cloudy|light rain|windy|snow|foggy|clear|thunderstorms",
    "content": _NOTES,
    "contact": _PEOPLE,
    "country": "France|Portugal|Norway|Japan|Canada|Germany|Spain|Kenya|Ireland|Australia",
    "currency": "USD|EUR|GBP|JPY|CAD",
    "day": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
    "department": "sales|finance|support|cardiology|engineering|radiology",
    "description": _NOTES,
    "destination": _CITIES,
    "direction": "north|east|south|west",
    "director": _PEOPLE,
    "doctor": "Dr. Silva|Dr. Okafor|Dr. Kim|Dr. Rossi|Dr. Weber|Dr. Berg",
    "dose": "5 mg|10 mg|20 mg|50 mg|100 mg",
    "driver": _PEOPLE,
    "filename": "report.pdf|notes.txt|budget.xlsx|photo.png|plan.docx|data.csv",
    "file": "report.pdf|notes.txt|budget.xlsx|photo.png|plan.docx|data.csv",
    "folder": "/documents|/photos|/reports|/archive|/projects",
    "forecast": "sunny|cloudy|light rain|windy|snow|clear",
    "gate": "A4|B12|C7|D21|E9|F15",
    "genre": "jazz|rock|drama|comedy|classical|thriller|pop",
    "hotel": "Hotel Aurora|Grand Harbor|Lakeside Inn|Maple Lodge|City Garden",
    "ingredient": "tomato|basil|rice|garlic|lemon|chicken|lentils",
    "instruction": "turn left|turn right|go straight|take the exit",
    "language": "English|French|Spanish|German|Japanese|Portuguese",
    "location": _CITIES,
    "medication": "ibuprofen|amoxicillin|metformin|cetirizine|atorvastatin",
    "message": _NOTES,
    "method": "card|cash|bank transfer|standard|express",
    "mode": "auto|manual|eco|quiet",
    "model": "X100|S20|Pro 5|Lite 3|M7",
    "month": "January|March|April|June|August|October|December",
    "movie": _THINGS,
    "name": _THINGS,
    "note": _NOTES,
    "number": "A7K2|B9X4|C3M8|D5R1|E8T6|F2Q9",
    "origin": _CITIES,
    "owner": _PEOPLE,
    "passenger": _PEOPLE,
    "path": "/documents/report.pdf|/photos/trip.png|/reports/q2.xlsx|/archive/notes.txt|/projects/plan.docx",
    "patient": _PEOPLE,
    "person": _PEOPLE,
    "phone": "+1 555 0142|+1 555 0117|+1 555 0169|+1 555 0123|+1 555 0188",
    "platform": "1|2|3|4A|5B|6",
    "postal code": "75004|10115|90210|28013|02139",
    "priority": "low|normal|high",
    "product": "desk lamp|backpack|headphones|water bottle|keyboard|rain jacket|coffee maker",
    "reason": "sold out|weather delay|on request|schedule change|out of range",
    "recipient": _PEOPLE,
    "restaurant": "Olive Table|Casa Verde|Noodle Bar|The Copper Pot|Sea Salt",
    "result": _NOTES,
    "review": "excellent|good value|friendly staff|a bit slow|very clean",
    "room": "101|204|315|Oak Room|Blue Room|Studio 3",
    "route": "M4|Line 2|A6|Coast Road|Bus 14",
    "seat": "4A|7C|12F|15B|21D|3E",
    "sender": _PEOPLE,
    "size": "S|M|L|XL",
    "song": _THINGS,
    "speaker": _PEOPLE,
    "state": _STATES,
    "station": "Central Station|North Station|Harbor Stop|Airport West|Old Town",
    "status": _STATES,
    "street": "Oak Street|River Road|Mill Lane|Park Avenue",
    "subject": "Team update|Invoice|Trip plan|Weekly report|Welcome",
    "summary": _NOTES,
    "symbol": "ACME|VELA|NRDC|GLBX|LUMN",
    "tag": "urgent|work|family|draft|travel",
    "team": "Rovers|Falcons|Harbor FC|Lions|Comets",
    "terminal": "1|2|3|T4",
    "text": _NOTES,
    "timezone": "Europe/Paris|Asia/Tokyo|America/Denver|UTC",
    "title": _THINGS,
    "track": _THINGS,
    "tracking number": "TRK48213|TRK90517|TRK33862|TRK71940|TRK26485",
    "type": "standard|basic|premium|express",
    "unit": "km|kg|celsius|percent",
    "user": _PEOPLE,
    "venue": _PLACES,
    "place": _PLACES,
    "warehouse": "Depot North|Depot East|Depot South|Hub 4",
    "weather": "sunny|cloudy|light rain|windy|snow|clear",
    "weekday": "Monday|Tuesday|Wednesday|Thursday|Friday",
    "zip": "75004|10115|90210|28013|02139",
}
#: Property words -> candidate strings.
STRINGS: dict[str, list[str]] = {k: v.split("|") for k, v in _STRINGS.items()}
for _who in _WHO.split("|"):
    STRINGS[f"{_who} name"] = STRINGS[_who] = _PEOPLE.split("|")
STRINGS["author name"] = STRINGS["driver name"] = STRINGS["patient name"] = STRINGS["contact name"] = STRINGS["person"]
for _what in _WHAT.split("|"):
    STRINGS[f"{_what} name"] = STRINGS[_what]

#: Strings of a property about which nothing is known.
OTHER = ["amber", "birch", "cobalt", "delta", "ember", "fjord", "grove", "indigo", "juniper", "lotus", "meadow", "onyx"]

#: Property words -> (lowest, highest, step) of a number; the step is 1 where the type is integer.
NUMBERS: dict[str, tuple[str, str, str]] = {
    "age": ("18", "80", "1"),
    "altitude": ("100", "3000", "1"),
    "amount": ("10", "900", "0.01"),
    "attendees": ("2", "40", "1"),
    "balance": ("50", "5000", "0.01"),
    "battery": ("5", "100", "1"),
    "bpm": ("55", "110", "1"),
    "calories": ("80", "900", "1"),
    "celsius": ("-5", "35", "0.1"),
    "cost": ("5", "500", "0.01"),
    "count": ("1", "20", "1"),
    "day": ("1", "28", "1"),
    "days": ("1", "30", "1"),
    "delay": ("0", "90", "1"),
    "discount": ("5", "50", "1"),
    "distance": ("0.5", "60", "0.1"),
    "duration": ("10", "180", "1"),
    "fahrenheit": ("25", "98", "0.1"),
    "fare": ("20", "900", "0.01"),
    "fee": ("1", "40", "0.01"),
    "floor": ("1", "12", "1"),
    "heart rate": ("55", "110", "1"),
    "height": ("10", "200", "0.1"),
    "high": ("12", "35", "1"),
    "hours": ("1", "24", "1"),
    "humidity": ("20", "95", "1"),
    "km": ("0.5", "60", "0.1"),
    "latitude": ("-60", "60", "0.0001"),
    "length": ("1", "300", "1"),
    "longitude": ("-180", "180", "0.0001"),
    "low": ("-5", "11", "1"),
    "minutes": ("5", "120", "1"),
    "nights": ("1", "14", "1"),
    "pages": ("1", "400", "1"),
    "percent": ("1", "100", "1"),
    "population": ("20000", "9000000", "1"),
    "pressure": ("980", "1040", "1"),
    "price": ("5", "500", "0.01"),
    "probability": ("0", "1", "0.01"),
    "quantity": ("1", "20", "1"),
    "rate": ("0.5", "5", "0.01"),
    "rating": ("1", "5", "0.1"),
    "salary": ("30000", "120000", "100"),
    "score": ("0", "100", "1"),
    "seconds": ("1", "59", "1"),
    "size": ("1", "500", "1"),
    "speed": ("5", "120", "1"),
    "stars": ("1", "5", "1"),
    "steps": ("1000", "15000", "1"),
    "stock": ("0", "200", "1"),
    "tax": ("1", "60", "0.01"),
    "temperature": ("-5", "35", "0.1"),
    "total": ("10", "900", "0.01"),
    "volume": ("0", "100", "1"),
    "wait": ("5", "60", "1"),
    "weight": ("0.2", "90", "0.1"),
    "year": ("1990", "2026", "1"),
}

#: Last words of string properties -> the format their values have.
FORMAT_WORDS = {
    "date": "date",
    "deadline": "date",
    "time": "time",
    "arrival": "time",
    "departure": "time",
    "eta": "time",
    "timestamp": "date-time",
    "email": "email",
    "url": "uri",
    "link": "uri",
}

#: Booleans that say whether a call did its work: always true, for the call was valid.
SUCCESS = frozenset(_SUCCESS.split("|"))


def words(name: str) -> list[str]:
    """Lower-case words of a property name in snake, kebab or camel case.

    >>> words("arrivalCity"), words("postal_code")
    (['arrival', 'city'], ['postal', 'code'])
    """
    return [w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+", name)]


def lookup(table: Mapping[str, T], name: str) -> T | None:
    """The entry whose words match last, then longest, in ``name``; plurals match their singular; None without one."""
    parts = words(name)
    for end in range(len(parts), 0, -1):
        for start in range(end):
            key = " ".join(parts[start:end])
            singular = key[:-3] + "y" if key.endswith("ies") else key.removesuffix("es")
            for form in (key, key.removesuffix("s"), singular):
                if form in table:
                    return table[form]
    return None
