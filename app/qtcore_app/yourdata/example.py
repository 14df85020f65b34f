"""The example table: bicycles for hire on an island that does not exist, drawn from a few rules with a fixed seed."""

import functools
from typing import Any

import numpy as np

from qtcore.tabular.reading import csv_text

ROWS, SEED = 1500, 7
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WARMTH = {"winter": 6.0, "spring": 13.0, "summer": 22.0, "autumn": 14.0}
RAIN = {"winter": 0.4, "spring": 0.3, "summer": 0.12, "autumn": 0.42}
SPEED = {"city bike": 13.0, "e-bike": 19.0, "cargo bike": 11.0, "tandem": 15.0}
PRICE = {"city bike": 0.08, "e-bike": 0.19, "cargo bike": 0.15, "tandem": 0.12}
GAPS = {"weather": 0.05, "temperature": 0.08, "wind": 0.2, "rider": 0.06, "helmet": 0.12, "minutes": 0.04, "paid": 0.1}


@functools.cache
def csv() -> bytes:
    """A CSV file with words, numbers, gaps and an identifier; the same each time."""
    rng = np.random.default_rng(SEED)
    rows = [_row(rng, number) for number in range(ROWS)]
    cells = {name: [_text(row[name], name, rng) for row in rows] for name in rows[0]}
    return csv_text(cells).encode()


def _text(value: Any, name: str, rng: np.random.Generator) -> str | None:
    return None if rng.random() < GAPS.get(name, 0) else str(value)


def _row(rng: np.random.Generator, number: int) -> dict[str, Any]:
    season = str(rng.choice(list(WARMTH)))
    rain = rng.random() < RAIN[season]
    weather = "rain" if rain else str(rng.choice(["sunny", "cloudy"], p=[0.6, 0.4]))
    temperature = WARMTH[season] + 3.0 * (weather == "sunny") - 2.0 * rain + rng.normal(0, 3)
    wind = rng.gamma(3, 4) * (1.6 if rain else 1.0)
    day = str(rng.choice(DAYS))
    leisure = day in ("Sat", "Sun")
    visitor = min(0.9, (0.55 if leisure else 0.2) * (1.5 if season == "summer" else 0.6 if season == "winter" else 1.0))
    rider = str(rng.choice(["visitor", "resident", "student"], p=[visitor, 0.65 * (1 - visitor), 0.35 * (1 - visitor)]))
    electric = 0.2 + 0.35 * (wind > 16)
    shares = {
        "visitor": [0.75 - electric, electric, 0.02, 0.23],
        "resident": [0.72 - electric, electric, 0.26, 0.02],
        "student": [0.93 - electric / 2, electric / 2, 0.04, 0.03],
    }[rider]
    bike = str(rng.choice(list(SPEED), p=np.array(shares) / sum(shares)))
    minutes = round(float(np.exp(rng.normal({"visitor": 4.4, "resident": 2.9, "student": 2.6}[rider], 0.45))))
    helmet = rng.random() < {"visitor": 0.3, "resident": 0.65, "student": 0.4}[rider] + 0.2 * (bike == "e-bike")
    paid = 0.0 if rider == "resident" and rng.random() < 0.7 else round(minutes * PRICE[bike] + 1.0, 2)
    return {
        "trip": f"T{10_000 + number}",
        "season": season,
        "day": day,
        "weather": weather,
        "temperature": round(temperature, 1),
        "wind": round(float(wind)),
        "rider": rider,
        "bike": bike,
        "minutes": minutes,
        "kilometres": round(minutes / 60 * SPEED[bike] * float(rng.uniform(0.4, 0.9)), 1),
        "paid": paid,
        "helmet": "yes" if helmet else "no",
    }
