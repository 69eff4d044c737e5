"""Words around a request and in a reply: greetings, distracting details, joints, and what to say without a call."""

OPENERS = ("", "", "", "", "", "Hi! ", "Hello, ", "Quick question: ", "Please help. ", "Hey, ", "One thing: ")

#: Details that have nothing to do with the call. Those with a slot hold a value that must not end up in one.
PLAIN_DETAILS = (
    "I am in a hurry.", "No rush at all.", "My boss wants to know.", "It was a long day.", "I am asking for a friend.",
    "I could not find it myself.", "My phone is almost dead.", "Sorry for asking again.", "This is quite important.",
)
VALUE_DETAILS = (
    "My friend {name} told me to ask.", "I was in {city} last week.", "I only have {int:15-50} minutes.",
    "I work at {company}.", "My {animal} is sleeping.", "I have {sport} practice later.", "{name} is waiting for me.",
    "I am learning {language} right now.", "I just had some {food}.", "We moved here from {city}.",
)

#: Between two requests of one message.
JOINTS = (" Also, ", " And ", " Then ", " Besides, ", " At the same time, ")

ASK_BACK = (
    "Could you tell me the {what}?", "Which {what} do you mean?", "I need the {what} first.",
    "Please give me the {what}.",
)
NO_TOOL = (
    "Sorry, I have no tool for that.", "I cannot help with that here.", "None of my tools can do that.",
)
FAILED = ("Sorry, that did not work.", "I could not get an answer for that.")
#: Replies that state nothing of what was asked.
EMPTY = ("That is done for you.", "Everything is settled now.", "I have looked it up for you.")
