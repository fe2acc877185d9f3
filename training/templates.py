"""Write made-up facts of contracts, manuals, reports and rules, each in several wordings.

A frame gives sentences that say the same and sentences that do not. Any of the first may be the
evidence, any other of them is an honest paraphrase, any of the second is a changed claim. The
words are drawn at random from lists, so a model can learn the frame but not the text.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from training import frames
from training.exchanges import GROUPS, say_number
from training.facts import CONTRADICTED, NOT_SUPPORTED, WORDS, Fact, pick_two, up

MONTHS = GROUPS["month"][0]


def make_roles(rng: random.Random) -> Fact:
    a, b = (f"the {one}" for one in pick_two(WORDS["people"], rng))
    base, third, past, done = rng.choice(WORDS["verbs"])
    kind = rng.randrange(3)
    if kind == 0:
        active, passive = f"{{}} {past} {{}}.", f"{{1}} was {done} by {{0}}."
        cleft = "It was {0} that " + past + " {1}."
    elif kind == 1:
        active, passive = f"{{}} {third} {{}}.", f"{{1}} is {done} by {{0}}."
        cleft = "It is {0} that " + third + " {1}."
    else:
        active, passive = f"{{}} must {base} {{}}.", f"{{1}} must be {done} by {{0}}."
        cleft = "It is up to {0} to " + base + " {1}."
    forms = (active, passive, cleft)
    return Fact(
        "roles",
        tuple(up(form.format(a, b)) for form in forms),
        tuple((up(form.format(b, a)), NOT_SUPPORTED) for form in forms),
    )


def make_giving(rng: random.Random) -> Fact:
    a, b = (f"the {one}" for one in pick_two(WORDS["people"], rng))
    thing, _ = rng.choice(WORDS["given"]).split("|")
    forms = (
        "{0} sends {1} " + thing + ".",
        "{0} sends " + thing + " to {1}.",
        "{1} receives " + thing + " from {0}.",
        "{1} gets " + thing + " from {0}.",
        "{0} provides {1} with " + thing + ".",
    )
    return Fact(
        "roles",
        tuple(up(form.format(a, b)) for form in forms),
        tuple((up(form.format(b, a)), NOT_SUPPORTED) for form in forms),
    )


def make_mode(rng: random.Random) -> Fact:
    who = rng.choice((f"the {rng.choice(WORDS['people'])}", f"every {rng.choice(WORDS['people'])}"))
    task = rng.choice(WORDS["tasks"])
    at = rng.randrange(len(WORDS["modes"]))
    tail = rng.choice(("", "", " before leaving", " at any time", " during the night shift"))
    others = [
        (
            up(f"{who} {rng.choice(mode)} {task}{tail}."),
            CONTRADICTED if {i, at} <= {0, 2, 4} or {i, at} == {1, 2} else NOT_SUPPORTED,
        )
        for i, mode in enumerate(WORDS["modes"])
        if i != at and {i, at} != {1, 4}
    ]
    return Fact(
        "modality", tuple(up(f"{who} {m} {task}{tail}.") for m in WORDS["modes"][at]), tuple(others)
    )


_SINGULAR = {
    "were ": "was ",
    "are ": "is ",
    "have ": "has ",
    "use ": "uses ",
    "require ": "requires ",
}


def make_quantifier(rng: random.Random) -> Fact:
    things = rng.choice(WORDS["groups_of"])
    plural = rng.choice(WORDS["states"]).split("|")[0]
    singular = plural
    for old, new in _SINGULAR.items():
        singular = new + plural[len(old) :] if plural.startswith(old) else singular
    at = rng.randrange(len(WORDS["quantifiers"]))
    fill = (things, plural, singular)
    same = tuple(form.format(*fill) for form in WORDS["quantifiers"][at])
    changed = []
    for i, forms in enumerate(WORDS["quantifiers"]):
        implied = (at == 0 and i in {1, 2}) or (at == 1 and i == 2)
        if i != at and not implied:
            label = CONTRADICTED if 3 in {i, at} or {i, at} in ({0, 4}, {1, 4}) else NOT_SUPPORTED
            changed.append((rng.choice(forms).format(*fill), label))
    return Fact("quantifier", same, tuple(changed))


def make_comparison(rng: random.Random) -> Fact:
    a, b = pick_two(WORDS["products"], rng)
    more, less = rng.choice(WORDS["adjectives"])
    same = (
        f"{a} is {more} than {b}.",
        f"{b} is {less} than {a}.",
        f"Compared with {b}, {a} is {more}.",
        f"Of the two, {a} is the {more} one, not {b}.",
    )
    other = (
        f"{b} is {more} than {a}.",
        f"{a} is {less} than {b}.",
        f"Compared with {a}, {b} is {more}.",
    )
    equal = f"{a} is just as {'good' if ' ' in more else more.removesuffix('er')} as {b}."
    changed = [(up(one), CONTRADICTED) for one in other]
    return Fact("comparative", tuple(map(up, same)), (*changed, (up(equal), NOT_SUPPORTED)))


def make_order(rng: random.Random) -> Fact:
    a, b = pick_two(WORDS["events"], rng)
    same = (
        f"{a} before {b}.",
        f"{b} after {a}.",
        f"First {a}, then {b}.",
        f"{a}; later {b}.",
        f"By the time {b}, {a.replace(' was ', ' had been ', 1)} already.",
    )
    other = (f"{b} before {a}.", f"{a} after {b}.", f"First {b}, then {a}.", f"{b}; later {a}.")
    return Fact("time order", tuple(map(up, same[:4])), tuple((up(o), CONTRADICTED) for o in other))


def make_deadline(rng: random.Random) -> Fact:
    thing, month = rng.choice(WORDS["things"]), rng.choice(MONTHS)
    day, other_day = rng.sample(range(2, 29), 2)
    date = f"{day} {month}"
    same = (
        f"The {thing} must be handed in by {date}.",
        f"The {thing} is due no later than {date}.",
        f"The deadline for the {thing} is {month} {day}.",
        f"The {thing} has to arrive on or before {date}.",
    )
    wrong_month = rng.choice([one for one in MONTHS if one != month])
    changed = (
        f"The {thing} must be handed in after {date}.",
        f"The deadline for the {thing} is {wrong_month} {day}.",
        f"The {thing} is due no later than {other_day} {month}.",
        f"The {thing} may be handed in no earlier than {date}.",
    )
    return Fact("date", same, tuple((one, CONTRADICTED) for one in changed))


def make_limit(rng: random.Random) -> Fact:
    number = rng.choice((3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60, 90))
    other = rng.choice([n for n in (2, 4, 5, 7, 9, 14, 18, 24, 45, 50, 80) if n != number])
    what = rng.choice(
        (
            "days' notice",
            "people",
            "employees",
            "years of experience",
            "minutes",
            "litres",
            "votes",
            "points",
            "members",
            "pages",
            "gigabytes",
            "metres",
        )
    )
    least = (
        "At least {} {} are needed.",
        "A minimum of {} {} is needed.",
        "No fewer than {} {} are needed.",
        "{} or more {} are needed.",
        "Not less than {} {} are needed.",
    )
    most = (
        "At most {} {} are allowed.",
        "No more than {} {} are allowed.",
        "Up to {} {} are allowed.",
        "A maximum of {} {} is allowed.",
        "The limit is {} {}.",
    )
    mine, wrong = (least, most) if rng.random() < 0.5 else (most, least)

    def say(forms: tuple[str, ...], value: int) -> list[str]:
        text = say_number(value) if rng.random() < 0.5 else str(value)
        return [up(form.format(text, what)) for form in forms]

    changed = [
        *say(mine, other)[:2],
        *say(wrong, number)[:2],
        up(mine[0].format(number * 10, what)),
    ]
    return Fact(
        "number",
        (*say(mine, number), *say(mine, number)[:2]),
        tuple((one, CONTRADICTED) for one in changed),
    )


def make_cause(rng: random.Random) -> Fact:
    a, b = pick_two(WORDS["causes"], rng)
    forms = (
        "{0} caused {1}.",
        "{1} was caused by {0}.",
        "{0} led to {1}.",
        "{1} was a result of {0}.",
        "{0} resulted in {1}.",
        "{1} resulted from {0}.",
        "The reason for {1} was {0}.",
        "{1} came about because of {0}.",
        "Because of {0}, there was {1}.",
        "{1} was due to {0}.",
        "{1} followed from {0}.",
        "{0} brought about {1}.",
        "{1} can be traced back to {0}.",
        "{0} is to blame for {1}.",
        "What caused {1} was {0}.",
        "{0} gave rise to {1}.",
    )
    chosen = rng.sample(forms, 6)
    c = rng.choice([one for one in WORDS["causes"] if one not in {a, b}])
    changed = [(up(form.format(b, a)), NOT_SUPPORTED) for form in chosen]
    changed.append((up(rng.choice(forms).format(c, b)), NOT_SUPPORTED))
    changed.append((up(f"{a} prevented {b}."), CONTRADICTED))
    changed.append((up(f"{a} had nothing to do with {b}."), CONTRADICTED))
    return Fact("cause", tuple(up(form.format(a, b)) for form in chosen), tuple(changed))


def make_because(rng: random.Random) -> Fact:
    a, b = pick_two(WORDS["events"], rng)
    same = (
        f"{a} because {b}.",
        f"Because {b}, {a}.",
        f"{b}, so {a}.",
        f"{b}; for this reason {a}.",
        f"Since {b}, {a}.",
        f"{b}, and as a result {a}.",
        f"The fact that {b} is why {a}.",
    )
    other = (
        f"{b} because {a}.",
        f"Because {a}, {b}.",
        f"{a}, so {b}.",
        f"Since {a}, {b}.",
        f"{a}, and as a result {b}.",
        f"The fact that {a} is why {b}.",
    )
    return Fact("cause", tuple(map(up, same)), tuple((up(one), NOT_SUPPORTED) for one in other))


FRAMES: tuple[tuple[Callable[[random.Random], Fact], float], ...] = (
    (make_roles, 2),
    (make_giving, 1.2),
    (make_mode, 2),
    (make_quantifier, 2),
    (make_comparison, 1.5),
    (make_order, 1.5),
    (make_deadline, 1),
    (make_limit, 1.5),
    (make_cause, 2),
    (make_because, 1.5),
    (frames.make_condition, 1),
    (frames.make_trend, 1.2),
    (frames.make_exception, 0.8),
    (frames.make_only, 1.2),
    (frames.make_switch, 0.8),
    (frames.make_frequency, 0.8),
    (frames.make_length, 1.2),
    (frames.make_person, 1),
    (frames.make_two_people, 1),
    (frames.make_hedge, 1.2),
    (frames.make_schedule, 1),
)


def make_fact(rng: random.Random) -> Fact:
    """Make one fact of a random frame."""
    makers, weights = zip(*FRAMES, strict=True)
    return rng.choices(makers, weights)[0](rng)
