"""Make claims from real sentences: changed ones that are no longer true, and honest paraphrases.

`change_sentence` gives (kind, text) with one thing changed; `paraphrase_sentence` says the same in
other words. A change may follow a paraphrase, so that "not word for word" is never the sign.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

NAME = r"\b[A-Z][\w'’-]*(?:(?: (?:of|the|de|von|van|of the))? [A-Z][\w'’-]*){0,4}"
_NAME = re.compile(NAME)
_NUMBER = re.compile(r"(?<![\w.,-])\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.,-])\d+(?:\.\d+)?(?![\w-])")
_TABLES = tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))
_OPENERS = frozenset(_TABLES["openers"])
GROUPS: dict[str, list[list[str]]] = _TABLES["exchanged"]
IRREGULAR: dict[str, str] = _TABLES["irregular"]

_WORDS: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
for _kind, _lists in GROUPS.items():
    for _list in _lists:
        for _word in _list:
            _WORDS.setdefault(_word, []).append((_kind, tuple(w for w in _list if w != _word)))
_WORD_PATTERN = re.compile(
    r"(?<![\w-])(?:"
    + "|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True))
    + r")(?![\w-])"
)

_ONE_WAY = frozenset(_TABLES["one_way"])
_SYNONYM = {
    word: tuple(other for other in group if other != word)
    for group in _TABLES["synonyms"]
    for word in group
    if word not in _ONE_WAY
}
_SYNONYM_PATTERN = re.compile(
    r"(?<![\w-])(?:" + "|".join(sorted(map(re.escape, _SYNONYM), key=len, reverse=True))
    + r")(?![\w-])"
)  # fmt: skip

UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
MONTHS = GROUPS["month"][0][0:12]
_VALUES = {word: value for value, word in enumerate(UNITS)} | {
    word: value * 10 for value, word in enumerate(TENS) if value > 1
}
_NUMBER_WORD = re.compile(
    r"(?<![\w-])(?:(" + "|".join(TENS[2:]) + r")(?:-(" + "|".join(UNITS[1:10]) + r"))?|("
    + "|".join(UNITS[2:]) + r"))(?![\w-])", re.IGNORECASE
)  # fmt: skip


def say_number(value: int) -> str:
    """Write a number below a hundred in words."""
    if value < 20:
        return UNITS[value]
    return TENS[value // 10] + (f"-{UNITS[value % 10]}" if value % 10 else "")


def match_case(word: str, like: str) -> str:
    """Give a word the first letter's case of another."""
    return word[:1].upper() + word[1:] if like[:1].isupper() else word


def find_names(sentence: str) -> list[re.Match[str]]:
    """Find capitalised names, not the sentence's first plain word."""
    return [
        m
        for m in _NAME.finditer(sentence)
        if m[0].split()[0] not in _OPENERS
        and len(m[0]) > 2
        and not (m.start() == 0 and " " not in m[0] and m[0].lower() in _SYNONYM)
    ]


def _swap_spans(text: str, a: tuple[int, int], b: tuple[int, int]) -> str:
    (a0, a1), (b0, b1) = sorted((a, b))
    return text[:a0] + text[b0:b1] + text[a1:b0] + text[a0:a1] + text[b1:]


def exchange_names(sentence: str, rng: random.Random) -> str | None:
    names = find_names(sentence)
    pairs = [
        (a, b)
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        if a[0] != b[0]
        and not re.fullmatch(r",? (?:and|or|,) ?", sentence[a.end() : b.start()])
        and sentence[a.end() : b.start()].strip() not in {"and", "or", ",", "&"}
    ]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return _swap_spans(sentence, a.span(), b.span())


def exchange_numbers(sentence: str, rng: random.Random) -> str | None:
    found = list(_NUMBER.finditer(sentence))
    pairs = [(a, b) for i, a in enumerate(found) for b in found[i + 1 :] if a[0] != b[0]]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return _swap_spans(sentence, a.span(), b.span())


def replace_number(sentence: str, rng: random.Random) -> str | None:
    found = list(_NUMBER.finditer(sentence))
    if not found:
        return None
    match = rng.choice(found)
    text = match[0]
    value = float(text.replace(",", ""))
    if re.fullmatch(r"1[0-9]{3}|20[0-9]{2}", text):
        new = str(int(value) + rng.choice((-100, -20, -10, -7, -3, -2, -1, 1, 2, 3, 5, 10, 20)))
    elif "." in text:
        digits = len(text.rsplit(".", 1)[-1])
        new = f"{value * rng.choice((0.1, 0.5, 0.8, 1.2, 1.5, 2, 10)) + 0.1**digits:,.{digits}f}"
    else:
        factor = rng.choice((0.1, 0.5, 0.9, 1.1, 1.5, 2, 3, 10))
        number = max(0, round(value * factor))
        number = number if number != int(value) else int(value) + rng.choice((1, 2, 5))
        new = f"{number:,}" if "," in text else str(number)
    return None if new == text else sentence[: match.start()] + new + sentence[match.end() :]


def replace_word(sentence: str, rng: random.Random, wanted: str | None = None) -> str | None:
    """Exchange one word of the lists; `wanted` names the kind."""
    found = []
    for match in _WORD_PATTERN.finditer(sentence[:1].lower() + sentence[1:]):
        for kind, others in _WORDS[match[0]]:
            if wanted is None or kind == wanted:
                found.append((match, others))
    if not found:
        return None
    match, others = rng.choice(found)
    new = match_case(rng.choice(others), sentence[match.start()])
    return sentence[: match.start()] + new + sentence[match.end() :]


_AUXILIARY = re.compile(
    r"\b(is|are|was|were|can|could|will|would|should|has been|have been|had been|has|have|had|may|"
    r"might|must|does|do|did)\b(?! (?:not|n't|no|never)\b)(?= [a-z])"
)


def negate_sentence(sentence: str, rng: random.Random) -> str | None:
    """Put a "not" in, or take one out."""
    denied = re.search(
        r"\b(is|are|was|were|can|could|will|would|should|has|have|had|may|must|does|"
        r"do|did) (not|never) ",
        sentence,
    )
    if denied:
        return sentence[: denied.start(2)] + sentence[denied.end() :]
    for pattern, new in ((r"\bcannot\b", "can"), (r"\bnever ", ""), (r"\bno longer ", "still ")):
        changed, count = re.subn(pattern, new, sentence, count=1)
        if count:
            return changed
    found = list(_AUXILIARY.finditer(sentence))[:2]
    if not found:
        return None
    match = rng.choice(found)
    word = "never" if rng.random() < 0.15 else "not"
    return sentence[: match.end()] + f" {word}" + sentence[match.end() :]


_ROLES = re.compile(
    rf"({NAME}|[Tt]he [a-z]+(?: [a-z]+)?) ([a-z]+(?:ed|es|s)|wrote|gave|took|led|beat|"
    rf"sold|bought|met|taught|sent|won) ({NAME}|the [a-z]+)(?=[ ,.;])"
)
_PASSIVE = re.compile(
    rf"({NAME}|[Tt]he [a-z]+(?: [a-z]+)?) (was|were|is|are) ([a-z]+) by ({NAME}|"
    r"(?:the|an?) [a-z]+(?: [a-z]+)?)(?=[ ,.;]|$)"
)


def exchange_roles(sentence: str, rng: random.Random) -> str | None:
    """Exchange who did it and to whom it was done."""
    for pattern, first, second in ((_PASSIVE, 1, 4), (_ROLES, 1, 3)):
        match = pattern.search(sentence)
        if match and match[first].split()[0] not in _OPENERS - {"The"}:
            a, b = match[first], match[second]
            a_new = b[:1].upper() + b[1:] if match.start() == 0 else b
            b_new = a[:1].lower() + a[1:] if a.startswith("The ") else a
            between = sentence[match.end(first) : match.start(second)]
            return (
                sentence[: match.start(first)]
                + a_new
                + between
                + b_new
                + sentence[match.end(second) :]
            )
    return None


_CAUSE = re.compile(
    r"^([^,;]{12,90}?) (because|since|as a result of|due to|because of|caused|causes|"
    r"led to|leads to|resulted in|results in|results from|resulted from|stems from|"
    r"triggers|triggered) ([^,;]{8,90})\.?$"
)


def exchange_cause(sentence: str, rng: random.Random) -> str | None:
    """Exchange cause and effect."""
    match = _CAUSE.match(sentence)
    if not match:
        return None
    first, link, second = match[1], match[2], match[3].rstrip(".")
    lowered = (
        first
        if _NAME.match(first) and first.split()[0] not in _OPENERS
        else (first[:1].lower() + first[1:])
    )
    return f"{second[:1].upper()}{second[1:]} {link} {lowered}."


def add_only(sentence: str, rng: random.Random) -> str | None:
    if " only " in sentence:
        return sentence.replace(" only ", " ", 1) if rng.random() < 0.5 else None
    match = re.search(r" (in|for|by|when|on|during|at|to) (?=[A-Z0-9a-z])", sentence)
    return sentence[: match.start()] + " only" + sentence[match.start() :] if match else None


_KINDS = (
    ("names exchanged", exchange_names, 3.0), ("roles", exchange_roles, 4.0),
    ("numbers exchanged", exchange_numbers, 1.0), ("number", replace_number, 1.5),
    ("negation", negate_sentence, 1.5), ("cause", exchange_cause, 6.0), ("only", add_only, 0.4),
)  # fmt: skip
_WEIGHTS = {
    "quantifier": 1.5,
    "modality": 2.0,
    "time order": 1.2,
    "comparative": 1.5,
    "antonym": 1.5,
    "unit": 1.5,
    "month": 0.5,
    "weekday": 1.0,
    "number word": 0.7,
}


def change_sentence(
    sentence: str, rng: random.Random, names: list[str], *, most: int = 1
) -> list[tuple[str, str]]:
    """Return up to `most` changed versions, of different kinds."""
    makers: list[tuple[float, str, Callable[[], str | None]]] = []
    for kind, make, weight in _KINDS:
        makers.append((rng.random() ** (1 / weight), kind, lambda m=make: m(sentence, rng)))
    for kind, weight in _WEIGHTS.items():
        makers.append(
            (rng.random() ** (1 / weight), kind, lambda k=kind: replace_word(sentence, rng, k))
        )

    def another_name() -> str | None:
        found = find_names(sentence)
        if not found or not names:
            return None
        match = rng.choice(found)
        return sentence[: match.start()] + rng.choice(names) + sentence[match.end() :]

    makers.append((rng.random() ** (1 / 1.2), "another name", another_name))
    changed: list[tuple[str, str]] = []
    for _, kind, make in sorted(makers, key=lambda one: -one[0]):
        text = make()
        if text and text != sentence:
            changed.append((kind, text))
            if len(changed) == most:
                break
    return changed


# ── The same in other words ──────────────────────────────────────────────────────────────────


_NUMBER_STYLES = (
    (re.compile(r"(\d+(?:\.\d+)?)(?: percent| per cent)"), r"\1%"),
    (re.compile(r"(\d+(?:\.\d+)?) ?%"), r"\1 percent"),
    (re.compile(r"(?<![\d,])(\d{1,3}),(\d{3})(?![\d,])"), r"\1\2"),
)


def rewrite_numbers(sentence: str, rng: random.Random) -> str | None:
    """Digits for words, words for digits, millions in full, percent."""
    options: list[str] = []
    for match in _NUMBER_WORD.finditer(sentence):
        if match[0].lower() == "one":
            continue
        value = _VALUES[(match[1] or match[3]).lower()] + (
            _VALUES[match[2].lower()] if match[2] else 0
        )
        options.append(sentence[: match.start()] + str(value) + sentence[match.end() :])
    for match in re.finditer(r"(?<![\w.,$€£-])(\d{1,2})(?![\w.,:%/-])", sentence):
        if int(match[1]) > 1 and not re.search(
            rf"(?:{'|'.join(MONTHS)}) $", sentence[: match.start()]
        ):
            word = say_number(int(match[1]))
            word = word.capitalize() if match.start() == 0 else word
            options.append(sentence[: match.start()] + word + sentence[match.end() :])
    for match in re.finditer(r"(\d+(?:\.\d+)?) (million|thousand|billion)", sentence):
        scale = {"thousand": 10**3, "million": 10**6, "billion": 10**9}[match[2]]
        full = f"{round(float(match[1]) * scale):,}"
        options.append(sentence[: match.start()] + full + sentence[match.end() :])
    for pattern, new in _NUMBER_STYLES:
        options += [
            sentence[: match.start()] + match.expand(new) + sentence[match.end() :]
            for match in pattern.finditer(sentence)
        ]
    return rng.choice(options) if options else None


def rewrite_date(sentence: str, rng: random.Random) -> str | None:
    names = "|".join(MONTHS)
    match = re.search(rf"({names}) (\d{{1,2}}), (\d{{4}}),?", sentence)
    if match:
        month, day, year = match.groups()
    else:
        match = re.search(rf"(\d{{1,2}}) ({names}) (\d{{4}})", sentence)
        if not match:
            return None
        day, month, year = match.groups()
    number = MONTHS.index(month) + 1
    new = rng.choice(
        (
            f"{day} {month} {year}",
            f"{month} {day}, {year}",
            f"{year}-{number:02d}-{int(day):02d}",
            f"{month[:3]} {day}, {year}",
        )
    )
    return sentence[: match.start()] + new + sentence[match.end() :]


def rewrite_words(sentence: str, rng: random.Random) -> str | None:
    found = list(_SYNONYM_PATTERN.finditer(sentence))
    if not found:
        return None
    for match in sorted(rng.sample(found, min(len(found), 2)), key=lambda m: -m.start()):
        new = rng.choice(_SYNONYM[match[0]])
        sentence = sentence[: match.start()] + new + sentence[match.end() :]
    return sentence


def rewrite_voice(sentence: str, rng: random.Random) -> str | None:
    """Passive to active, where the verb's forms are known."""
    match = _PASSIVE.search(sentence)
    if not match or match[2] in {"is", "are"}:
        return None
    past = IRREGULAR.get(match[3]) or (match[3] if match[3].endswith("ed") else None)
    if past is None or (match.start() > 0 and match[1].startswith("The ")):
        return None
    subject = match[4][:1].upper() + match[4][1:] if match.start() == 0 else match[4]
    thing = match[1][:1].lower() + match[1][1:] if match[1].startswith("The ") else match[1]
    return sentence[: match.start()] + f"{subject} {past} {thing}" + sentence[match.end() :]


def rewrite_order(sentence: str, rng: random.Random) -> str | None:
    """Move an opening phrase to the end, or a closing year to the front; turn a "because"."""
    match = re.match(
        r"^((?:In|On|During|After|Before|By|Since|At) [^,]{3,40}), ([^;:]{15,})\.$", sentence
    )
    if match and not match[2][0].isdigit():
        rest = match[2][:1].upper() + match[2][1:]
        return f"{rest} {match[1][:1].lower()}{match[1][1:]}."
    match = re.match(r"^(.{20,}) (in (?:[A-Z][a-z]+ )?\d{4})\.$", sentence)
    if match:
        first = (
            match[1]
            if _NAME.match(match[1]) and match[1].split()[0] not in _OPENERS
            else (match[1][:1].lower() + match[1][1:])
        )
        return f"{match[2][:1].upper()}{match[2][1:]}, {first}."
    match = re.match(r"^([^,;]{12,100}) because ([^,;]{8,100})\.$", sentence)
    if match:
        first = match[1][:1].lower() + match[1][1:] if match[1].split()[0] in _OPENERS else match[1]
        second = match[2]
        return rng.choice(
            (f"Because {second}, {first}.", f"{second[:1].upper()}{second[1:]}, so {first}.")
        )
    return None


def shorten_sentence(sentence: str, rng: random.Random) -> str | None:
    """Leave out a bracket, a phrase between commas, or everything after the first clause."""
    options = []
    without = re.sub(r" \([^()]*\)", "", sentence)
    if without != sentence:
        options.append(without)
    match = re.search(r", (?:which|who|where|whose) [^,]+,", sentence)
    if match:
        options.append(sentence[: match.start()] + sentence[match.end() :])
    match = re.match(r"^([^,;]{30,}?)(?:;|, (?:and|but|while|which|where|who|although)) ", sentence)
    if match and not re.match(
        r"(?:If|When|While|Although|Unless|Because|After|Before|Since|As)\b", sentence
    ):
        options.append(match[1] + ".")
    return rng.choice(options) if options else None


_REWRITES = (
    (rewrite_numbers, 1.5), (rewrite_date, 2.0), (rewrite_words, 2.5), (rewrite_voice, 4.0),
    (rewrite_order, 3.0), (shorten_sentence, 1.0),
)  # fmt: skip


def paraphrase_sentence(sentence: str, rng: random.Random, *, steps: int = 2) -> str:
    """Say a sentence in other words by up to `steps` rules; unchanged when none fits."""
    order = sorted(_REWRITES, key=lambda one: -(rng.random() ** (1 / one[1])))
    done = 0
    for rewrite, _ in order:
        text = rewrite(sentence, rng)
        if text:
            sentence, done = text, done + 1
        if done >= steps:
            break
    return sentence
