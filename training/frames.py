"""Write facts of rules, trends, people and times, each in several wordings; see `templates`."""

from __future__ import annotations

import random

from training.exchanges import GROUPS, say_number
from training.facts import CONTRADICTED, NEUTRAL, NOT_SUPPORTED, WORDS, Fact, pick_two, up

WEEKDAYS = GROUPS["weekday"][0]


def make_condition(rng: random.Random) -> Fact:
    when = rng.choice(WORDS["conditions"])
    then, not_then = rng.choice(WORDS["results"]).split("|")
    same = (
        f"If {when}, {then}.",
        f"{then} if {when}.",
        f"When {when}, {then}.",
        f"{then} whenever {when}.",
        f"In case {when}, {then}.",
    )
    changed = (
        (f"If {when}, {not_then}.", CONTRADICTED),
        (f"{then} unless {when}.", NOT_SUPPORTED),
        (f"{not_then} if {when}.", CONTRADICTED),
        (f"{then} even if it is not true that {when}.", NOT_SUPPORTED),
        (f"{then} only if {when}.", NOT_SUPPORTED),
        (f"{then} in every case.", NOT_SUPPORTED),
    )
    return Fact("condition", tuple(map(up, same)), tuple((up(t), label) for t, label in changed))


def make_trend(rng: random.Random) -> Fact:
    what = rng.choice(WORDS["quantities"])
    low, high = sorted(rng.sample(range(11, 980), 2))
    year = rng.randrange(1970, 2025)
    rise = ("rose", "increased", "went up", "grew", "climbed")
    fall = ("fell", "decreased", "went down", "dropped", "declined")
    mine, wrong, a, b = (rise, fall, low, high) if rng.random() < 0.5 else (fall, rise, high, low)
    v, w = rng.sample(mine, 2)
    same = (
        f"In {year}, {what} {v} from {a} to {b}.",
        f"{what} {w} from {a} to {b} in {year}.",
        f"{what}, which had been at {a}, {v} to {b} in {year}.",
        f"{what} {w} in {year}.",
    )
    x = rng.choice(wrong)
    changed = (
        f"In {year}, {what} {x} from {b} to {a}.",
        f"{what} {x} in {year}.",
        f"In {year}, {what} {w} from {a} to {b + rng.choice((7, 30, 100))}.",
        f"{what} {v} from {a} to {b} in {year + rng.choice((-2, 1, 10))}.",
        f"{what} stayed the same in {year}.",
    )
    return Fact("antonym", tuple(map(up, same)), tuple((up(one), CONTRADICTED) for one in changed))


def make_exception(rng: random.Random) -> Fact:
    things = rng.choice(WORDS["groups_of"])
    state = rng.choice(WORDS["states"]).split("|")[0]
    place = rng.choice(WORDS["places"])
    same = (
        f"All {things} {state}, except those in {place}.",
        f"Apart from those in {place}, all {things} {state}.",
        f"The {things} {state}, but not the ones in {place}.",
        f"Only the {things} in {place} are an exception: all others {state}.",
    )
    elsewhere = rng.choice([one for one in WORDS["places"] if one != place])
    changed = (
        f"All {things} {state}, including those in {place}.",
        f"Only the {things} in {place} {state}.",
        f"The {things} in {place} {state}.",
        f"All {things} {state}, except those in {elsewhere}.",
        f"All {things} {state}.",
    )
    return Fact("only", same, tuple((one, CONTRADICTED) for one in changed))


def make_only(rng: random.Random) -> Fact:
    who, other = pick_two(WORDS["people"], rng)
    task = rng.choice(WORDS["tasks"])
    same = (
        f"Only the {who} may {task}.",
        f"Nobody but the {who} may {task}.",
        f"The {who} is the only person who may {task}.",
        f"No one except the {who} is allowed to {task}.",
        f"The {who} may {task}; nobody else may.",
        f"The {who} may {task}.",
    )
    changed = (
        (f"The {other} may {task}.", CONTRADICTED),
        (f"Anyone may {task}.", CONTRADICTED),
        (f"The {who} may not {task}.", CONTRADICTED),
        (f"Only the {other} may {task}.", CONTRADICTED),
        (f"Everyone but the {who} may {task}.", CONTRADICTED),
    )
    if rng.random() < 0.35:
        plain = (f"The {who} may {task}.", f"The {who} is allowed to {task}.")
        return Fact(
            "only",
            plain,
            ((same[0], NOT_SUPPORTED), (same[1], NOT_SUPPORTED), (same[2], NOT_SUPPORTED)),
        )
    return Fact("only", same, changed)


def make_switch(rng: random.Random) -> Fact:
    what = rng.choice(WORDS["features"])
    on = (
        f"{what} is enabled by default.",
        f"{what} is switched on by default.",
        f"By default, {what} is on.",
        f"{what} is active unless you turn it off.",
    )
    off = (
        f"{what} is disabled by default.",
        f"{what} is switched off by default.",
        f"By default, {what} is off.",
        f"{what} has to be turned on first.",
        f"{what} is not enabled by default.",
    )
    mine, wrong = (on, off) if rng.random() < 0.5 else (off, on)
    return Fact("negation", tuple(map(up, mine)), tuple((up(o), CONTRADICTED) for o in wrong))


def make_frequency(rng: random.Random) -> Fact:
    check = rng.choice(WORDS["checks"])
    at, wrong, third = rng.sample(range(len(WORDS["frequent"])), 3)
    same = tuple(up(f"{check} {often}.") for often in WORDS["frequent"][at])
    changed = tuple(
        (up(f"{check} {often}."), CONTRADICTED)
        for i in (wrong, third)
        for often in WORDS["frequent"][i][:2]
    )
    return Fact("unit", same, changed)


def make_length(rng: random.Random) -> Fact:
    first, second, wrong = rng.choice(WORDS["lengths"])
    form = rng.choice(WORDS["measured"])
    lead = rng.choice(("", "", "According to the manual, ", "As a rule, ", "In this case "))

    def say(value: str) -> str:
        text = form.format(value)
        return lead + (text[:1].lower() + text[1:] if lead else text)

    other = rng.choice([one for one in WORDS["lengths"] if one[0] != first])[0]
    return Fact(
        "unit",
        (say(first), say(second), form.format(second)),
        ((say(wrong), CONTRADICTED), (form.format(other), CONTRADICTED)),
    )


def make_person(rng: random.Random) -> Fact:
    a, b = pick_two(WORDS["names"], rng)
    place, elsewhere = pick_two(WORDS["places"], rng)
    year = rng.randrange(1900, 2025)
    verb, noun = rng.choice(
        (
            ("founded", "founder"),
            ("runs", "head"),
            ("designed", "designer"),
            ("owns", "owner"),
            ("leads", "leader"),
            ("built", "builder"),
        )
    )
    thing = rng.choice(
        (
            "the clinic",
            "the workshop",
            "the brewery",
            "the theatre",
            "the school",
            "the garden",
            "the archive",
            "the research group",
            "the orchestra",
        )
    )
    same = (
        f"{a} {verb} {thing} in {place}.",
        f"The {noun} of {thing} in {place} is {a}.",
        f"{a} is the {noun} of {thing} in {place}.",
        f"{thing} in {place} has {a} as its {noun}.",
    )
    changed = (
        (f"{b} {verb} {thing} in {place}.", CONTRADICTED),
        (f"{a} {verb} {thing} in {elsewhere}.", CONTRADICTED),
        (f"The {noun} of {thing} in {place} is {b}.", CONTRADICTED),
        (f"{a} {verb} {thing} in {place} in {year}.", NEUTRAL),
    )
    return Fact("another name", tuple(map(up, same)), tuple((up(t), label) for t, label in changed))


def make_two_people(rng: random.Random) -> Fact:
    a, b = pick_two(WORDS["names"], rng)
    x, y = rng.choice(
        (
            ("the drums", "the piano"),
            ("chemistry", "law"),
            ("the first floor", "the second floor"),
            ("sales", "design"),
            ("gold", "silver"),
            ("the morning shift", "the night shift"),
            ("the budget", "the schedule"),
        )
    )
    verb = rng.choice(("chose", "took", "got", "was given", "is responsible for"))
    same = (
        f"{a} {verb} {x} and {b} {verb} {y}.",
        f"{b} {verb} {y}, while {a} {verb} {x}.",
        f"{a} {verb} {x}.",
        f"{b} {verb} {y}.",
    )
    changed = (
        f"{a} {verb} {y} and {b} {verb} {x}.",
        f"{b} {verb} {x}, while {a} {verb} {y}.",
        f"{a} {verb} {y}.",
        f"{b} {verb} {x}.",
    )
    return Fact("names exchanged", same, tuple((one, CONTRADICTED) for one in changed))


def make_hedge(rng: random.Random) -> Fact:
    a, b = pick_two(WORDS["causes"], rng)
    weak = (
        f"{a} may cause {b}.",
        f"{a} could lead to {b}.",
        f"It is possible that {a} causes {b}.",
        f"{a} is suspected of causing {b}.",
        f"{b} might be a result of {a}.",
    )
    firm = (
        f"{a} causes {b}.",
        f"It is certain that {a} causes {b}.",
        f"{a} has been proved to cause {b}.",
        f"{a} always leads to {b}.",
        f"There is no doubt that {b} is a result of {a}.",
    )
    none = (f"{a} cannot cause {b}.", f"{a} does not cause {b}.")
    changed = [(up(one), NOT_SUPPORTED) for one in firm] + [(up(one), CONTRADICTED) for one in none]
    return Fact("modality", tuple(map(up, weak)), tuple(changed))


def make_schedule(rng: random.Random) -> Fact:
    what = rng.choice(
        ("The office", "The library", "The pool", "The clinic", "The shop", "The market")
    )
    day, other = pick_two(WEEKDAYS, rng)
    hour = rng.randrange(7, 12)
    close = rng.randrange(2, 9)
    same = (
        f"{what} is closed on {day}s.",
        f"On {day}s {what.lower()} does not open.",
        f"{what} is open every day except {day}.",
        f"{what} is shut on {day}.",
    )
    changed = (
        f"{what} is closed on {other}s.",
        f"{what} is open on {day}s.",
        f"{what} is open every day except {other}.",
        f"{what} is open every day.",
        f"{what} is open only on {day}.",
    )
    if rng.random() < 0.5:
        same = (
            f"{what} opens at {hour} a.m. and closes at {close} p.m.",
            f"{what} is open from {hour}:00 to {close + 12}:00.",
            f"{what} closes at {close} p.m.",
            f"{what} opens at {say_number(hour)} in the morning.",
        )[:3]
        changed = (
            f"{what} opens at {hour} p.m.",
            f"{what} closes at {hour} a.m.",
            f"{what} is open from {hour + 1}:00 to {close + 12}:00.",
            f"{what} closes at {close + 1} p.m.",
        )
    return Fact("weekday", same, tuple((one, CONTRADICTED) for one in changed))
