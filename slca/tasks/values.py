"""Value pools of the generated tasks and the ways people say a value."""

from __future__ import annotations

import datetime
import random
from typing import Any

POOLS: dict[str, tuple[str, ...]] = {
    "city": (
        "Oslo", "Rome", "Lima", "Bern", "Cairo", "Paris", "Tokyo", "Delhi", "Quito", "Dakar", "Seoul", "Milan",
        "Porto", "Turin", "Hanoi", "Accra", "Minsk", "Sofia", "Riga", "Tunis", "Boston", "Denver", "Austin",
        "Geneva", "Lisbon", "Madrid", "Berlin", "Vienna", "Prague", "Dublin", "Athens", "Warsaw", "Zurich",
        "Havana", "Nairobi", "Toronto", "Chicago", "Seattle", "Kyoto", "Bogota",
    ),
    "person": (
        "Anna Berg", "Tom Reed", "Maria Silva", "John Park", "Lena Vogel", "Omar Haddad", "Nina Costa", "Paul Stone",
        "Sara Lind", "Ivan Petrov", "Grace Kim", "David Cole", "Emma Wood", "Lucas Meyer", "Alice Grant", "Hugo Blanc",
        "Rita Moss", "Carl Jensen", "Maya Singh", "Peter Novak",
    ),
    "name": (
        "Anna", "Tom", "Maria", "John", "Lena", "Omar", "Nina", "Paul", "Sara", "Ivan", "Grace", "David", "Emma",
        "Lucas", "Alice", "Hugo", "Rita", "Carl", "Maya", "Peter",
    ),
    "item": (
        "lamp", "desk", "chair", "kettle", "jacket", "backpack", "keyboard", "monitor", "blender", "tent", "helmet",
        "watch", "camera", "printer", "sofa", "mirror", "rug", "toaster", "drill", "scarf",
    ),
    "food": (
        "pasta", "rice", "soup", "salad", "curry", "pizza", "tacos", "ramen", "stew", "omelette", "risotto", "chili",
    ),
    "street": (
        "Oak Street", "Mill Road", "King Avenue", "Park Lane", "Hill Road", "Lake Street", "Church Lane",
        "River Road", "Station Road", "Elm Avenue", "Bridge Street", "Garden Lane",
    ),
    "file": (
        "report.pdf", "budget.xlsx", "notes.txt", "photo.png", "draft.docx", "slides.pptx", "data.csv", "plan.md",
        "invoice.pdf", "logo.svg", "backup.zip", "todo.txt",
    ),
    "folder": ("work", "home", "archive", "projects", "shared", "photos", "taxes", "drafts", "music", "school"),
    "topic": (
        "budget", "launch", "hiring", "design review", "sales", "training", "security", "roadmap", "travel plan",
        "quarterly review", "onboarding", "marketing",
    ),
    "song": (
        "Blue Sky", "Night Train", "Golden Hour", "Slow River", "First Light", "Paper Moon", "Silver Line",
        "Wild Roses", "Long Road", "Cold Water",
    ),
    "movie": (
        "The Harbor", "Red Desert", "Last Winter", "Glass House", "Green Valley", "Two Rivers", "The Signal",
        "High Tide", "Stone Garden", "Lost Letters",
    ),
    "genre": ("jazz", "rock", "folk", "comedy", "drama", "thriller", "classical", "fantasy", "history", "horror"),
    "room": ("kitchen", "bedroom", "bathroom", "living room", "garage", "office", "hallway", "basement"),
    "device": ("heater", "fan", "lamp", "speaker", "oven", "dishwasher", "camera", "humidifier"),
    "drug": ("aspirin", "ibuprofen", "insulin", "penicillin", "cortisone", "zinc", "iron", "melatonin"),
    "symptom": ("headache", "fever", "cough", "rash", "back pain", "nausea", "dizziness", "sore throat"),
    "sport": ("tennis", "football", "swimming", "running", "cycling", "yoga", "boxing", "rowing"),
    "language": ("French", "German", "Spanish", "Italian", "Polish", "Korean", "Arabic", "Dutch"),
    "currency": ("USD", "EUR", "GBP", "JPY", "CHF", "SEK", "CAD", "INR"),
    "place": (
        "museum", "airport", "library", "stadium", "hospital", "market", "theater", "harbor", "zoo", "castle",
        "station", "university",
    ),
    "cuisine": ("Thai", "Greek", "Indian", "Mexican", "Turkish", "Korean", "French", "Italian"),
    "plant": ("tomato", "basil", "rose", "fern", "cactus", "orchid", "mint", "lavender"),
    "animal": ("dog", "cat", "rabbit", "parrot", "hamster", "horse", "turtle", "goat"),
    "subject": ("algebra", "biology", "chemistry", "history", "physics", "geometry", "grammar", "economics"),
    "company": ("Acme", "Norda", "Velta", "Brightco", "Lumen", "Tarvo", "Quanta", "Helio", "Zenix", "Orbis"),
    "note": ("buy milk", "call mom", "pay rent", "book dentist", "water plants", "send form", "clean desk", "fix bike"),
}

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)


def draw(kind: Any, rng: random.Random) -> Any:
    """A value of a kind (see ``slca.tasks.spec``)."""
    if isinstance(kind, dict):
        return {k: draw(v, rng) for k, v in kind.items()}
    base, _, rest = kind.removesuffix("?").partition(":")
    if base in POOLS:
        return rng.choice(POOLS[base])
    if base == "date":
        return (datetime.date(2026, 1, 1) + datetime.timedelta(days=rng.randrange(365))).isoformat()
    if base == "time":
        return f"{rng.randrange(6, 23):02d}:{rng.choice((0, 15, 30, 45)):02d}"
    if base == "email":
        return f"{rng.choice(POOLS['name']).lower()}@{rng.choice(POOLS['company']).lower()}.com"
    if base == "int":
        low, high = (int(x) for x in rest.split("-"))
        return rng.randint(low, high)
    if base == "num":
        low, high = (int(x) for x in rest.split("-"))
        return rng.randint(low, high) if rng.random() < 0.6 else rng.randint(low * 2, high * 2) / 2
    if base == "enum":
        return rng.choice(rest.split("|"))
    if base == "bool":
        return rng.random() < 0.5
    if base == "id":
        return f"{rest}-{rng.randrange(1000, 10000)}"
    if base == "list":
        values: list[Any] = []
        while len(values) < rng.choice((2, 2, 3)):
            value = draw(rest, rng)
            if value not in values:
                values.append(value)
        return values
    raise ValueError(f"unknown kind {kind!r}")


def say(value: Any, kind: Any, rng: random.Random) -> str:
    """The value as a person writes it: most of the time literally, sometimes in another surface form."""
    if isinstance(value, dict):
        parts = [say(v, kind[k], rng) for k, v in value.items()]
        return ", ".join(parts)
    if isinstance(value, list):
        inner = kind.removesuffix("?").partition(":")[2]
        parts = [say(v, inner, rng) for v in value]
        return ", ".join(parts[:-1]) + " and " + parts[-1]
    base = kind.removesuffix("?").partition(":")[0]
    if base == "date" and rng.random() < 0.4:
        date = datetime.date.fromisoformat(value)
        month = _MONTHS[date.month - 1]
        return rng.choice((f"{month} {date.day}, 2026", f"{date.day} {month} 2026"))
    if base == "time" and rng.random() < 0.4:
        hour, minute = (int(x) for x in value.split(":"))
        half = "am" if hour < 12 else "pm"
        clock = str((hour - 1) % 12 + 1) + (f":{minute:02d}" if minute else "")
        return f"{clock} {half}"
    if base == "int" and 1 < value <= 12 and rng.random() < 0.3:
        return _WORDS[value]
    if base == "enum":
        return str(value).replace("_", " ")
    if base == "bool":
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
