"""Weather and the outdoors."""

from slca.tasks.spec import Chain, Domain, Tool

DOMAIN = Domain(
    "weather",
    [
        Tool(
            "get_weather", "Current weather of a city.",
            {"city": "city", "unit": "enum:celsius|fahrenheit?"},
            {"temperature": "int:1-35", "condition": "enum:sunny|cloudy|rainy|windy|snowy"},
            ["What is the weather in {city} right now[ in {unit}]?", "How warm is it in {city}[, in {unit}]?",
             "Tell me the current weather for {city}[ ({unit})]."],
            ["It is {temperature} degrees and {condition} in {city}.", "{city} has {temperature} degrees and is {condition}."],
            ("city", "What is the weather like right now?"),
        ),
        Tool(
            "get_forecast", "Weather forecast for a day.",
            {"city": "city", "date": "date"},
            {"high": "int:10-38", "low": "int:1-9", "rain_chance": "int:5-95"},
            ["What will the weather be in {city} on {date}?", "Give me the forecast for {city} on {date}.",
             "I fly to {city} on {date}, what weather should I expect?"],
            ["On {date} expect up to {high} degrees in {city} with a rain chance of {rain_chance} percent.",
             "The forecast for {city} is {high} degrees, rain chance {rain_chance} percent."],
            ("city", "What will the weather be on {date}?"),
        ),
        Tool(
            "find_weather_station", "Find the nearest weather station.",
            {"city": "city"},
            {"station_id": "id:WS", "distance_km": "int:1-40"},
            ["Which weather station is closest to {city}?", "Find me the nearest weather station for {city}.",
             "Look up the weather station near {city}."],
            ["The nearest station is {station_id}, {distance_km} km from {city}.", "Station {station_id} is {distance_km} km away."],
            ("city", "Which weather station is the closest one?"),
        ),
        Tool(
            "read_station", "Latest reading of a station.",
            {"station_id": "id:WS", "metric": "enum:humidity|pressure|wind"},
            {"value": "int:10-99", "time": "time"},
            ["What {metric} does station {station_id} report?", "Read the {metric} of station {station_id}.",
             "Give me the latest {metric} value from {station_id}."],
            ["Station {station_id} reports {metric} of {value} at {time}.", "The {metric} was {value} at {time}."],
            ("station_id", "What {metric} does the station report?"),
        ),
    ],
    [
        Chain("find_weather_station", "read_station",
              ["Find the weather station near {city} and read its {then_metric}.",
               "What {then_metric} does the station closest to {city} report?"]),
    ],
)
