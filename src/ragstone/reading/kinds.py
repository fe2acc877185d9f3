"""Detect which kind of thing a question asks for, and find such things in a sentence.

"When did it open?" asks for a date: question → kind; kind and sentence → spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from ragstone.index.analyze import extract_terms

Kind: TypeAlias = Literal[
    "who", "when", "where", "money", "duration", "percent", "number", "why", "how", "yes_no", "what"
]

# English first, then German, French, Spanish, Russian. The order decides: "how long" before "how".
_PATTERNS: tuple[tuple[Kind, str], ...] = (
        ("percent", r"\b(?:what|which|how (?:much|many|large|big|high)) (?:\w+ )?(?:percent(?:age)?"
                    r"|share|proportion|fraction|interest)\b|\binterest rate\b"),
        (
            "money",
            r"\bhow (?:much|many) (?:[\w'-]+ ){0,3}?(?:money|cost|costs|pay|pays|paid|rent|euros?|"
            r"dollars?|francs?|charge[ds]?|spen[dt]|worth|price|owe[ds]?|earn(?:ed|s)?)\b"
            r"|\b(?:what|which|was|wie\s?viel)\b.*\b(?:costs?|price|fee|fare|rent|salary|penalty|pays?|"
            r"paid|kostet|kosten|preis|miete)\b|\bhow expensive\b",
        ),
        ("duration", r"\bhow (?:long|old)\b|\bwie lange\b|\bnotice period\b|\bcombien de temps\b"
                     r"|\bcuánto tiempo\b|\bhow often\b|\bhow frequently\b|\bwie oft\b"),
        (
            "when",
            r"\bwhen\b|\b(?:what|which|whose) (?:year|date|day|month|century|decade|time|season|"
            r"weekday|era)s?\b|\bwann\b|\bbis wann\b|\bwelche[mnrs]? (?:\w+)?(?:tag|jahr|monat|"
            r"datum)\b|\bquand\b|\bcuándo\b|\bкогда\b|\bв каком году\b",
        ),
        (
            "number",
            r"\bhow (?:many|much|far|tall|high|low|deep|heavy|large|big|fast|strong|wide|hot|cold|"
            r"warm|thick|bright)\b|\bwhat (?:is the )?(?:number|temperature|weight|mass|"
            r"height|width|depth|length|distance|speed|size|population|diameter|limit|amount|"
            r"level|rate|score|area|elevation|volume)\b|\b(?:"
            r"population|density)\b|\bat what (?:\w+ )?(?:level|temperature|speed)\b"
            r"|\bto what temperature\b|\bwie ?viele?\b|\bcombien\b|\bcuánt[oa]s?\b|\bсколько\b",
        ),
        ("who", r"\bwho(?:m|se)?\b|\bwhich (?:person|company|firm|team|king|queen|president|author|"
                r"scientist|group|organi[sz]ation)\b|\bwhat (?:person|company)\b|\bwessen\b|\bwer\b"
                r"|\bwem\b|\bwen\b|\bqui\b|\bquién(?:es)?\b|\bкто\b"),
        ("where", r"\bwhere\b|\b(?:what|which) (?:country|city|town|state|place|region|location|"
                  r"continent|river|island|province|county|street|building|room)\b|\bwo\b|\bwohin\b"
                  r"|\bwoher\b|\boù\b|\bdónde\b|\bгде\b|\bкуда\b"),
        ("why", r"\bwhy\b|\bwhat (?:caused?|(?:was|is) the (?:reason|cause))\b|\bfor what reason\b"
                r"|\bwarum\b|\bweshalb\b|\bwieso\b|\bpourquoi\b|\bpor qué\b|\bпочему\b|\bзачем\b"),
        ("how", r"\bhow\b|\bwie\b|\bcomment\b|\bcómo\b|\bкак\b"),
        ("yes_no", r"^(?:is|are|was|were|do|does|did|can|could|may|must|should|has|have|had|will|"
                   r"would|ist|sind|war|kann|darf|muss|gibt|hat|haben)\b"),
)  # fmt: skip
_ASKS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)

_MONTH = (
    r"(?:Jan(?:uary|uar)?|Feb(?:ruary|ruar)?|Mar(?:ch)?|März|Apr(?:il)?|May|Mai|June?|Juni|July?|"
    r"Juli|Aug(?:ust)?|Sept?(?:ember)?|O[ck]t(?:ober)?|Nov(?:ember)?|De[cz](?:ember)?)"
)
_WEEKDAY = (
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|"
    r"(?:Mon|Diens|Donners|Frei|Sams|Sonn)tag|Mittwoch"
)
_WORD_NUMBER = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|"
    r"sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|"
    r"hundred|thousand|half|dozen|once|twice|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|zwölf)"
)
_DIGITS = r"[−–-]?\d[\d.,  ]*\d|[−–-]?\d"
_AMOUNT = rf"(?:{_DIGITS}|\b{_WORD_NUMBER}\b)(?:[ -](?:million|billion|trillion|thousand|hundred|dozen|Million(?:en)?|Milliarden?))?"  # noqa: E501
_CURRENCY = r"(?:€|\$|£|¥|EUR|USD|CHF|GBP|euros?|dollars?|pounds?|francs?|cents?|marks?|yen|pesos?)"
_PERIOD = (
    r"(?:seconds?|minutes?|hours?|days?|nights?|weeks?|months?|years?|decades?|centur(?:y|ies)|"
    r"quarters?|Sekunden?|Minuten?|Stunden?|Tage?n?|Wochen?|Monate?n?|Jahre?n?)"
)
_OFFERS: dict[Kind, re.Pattern[str]] = {
    "money": re.compile(
        rf"{_CURRENCY} ?(?:{_AMOUNT})|(?:{_AMOUNT}) ?{_CURRENCY}(?! ?[\w\d])"
        r"|\bfree(?: of charge)?\b",
        re.IGNORECASE,
    ),
    "percent": re.compile(
        rf"(?:{_AMOUNT}) ?(?:%|‰|percent|per cent|Prozent)"
        r"|\b(?:half|(?:one|two|three)[- ](?:thirds?|quarters?|fifths?|half))\b",
        re.IGNORECASE,
    ),
    "duration": re.compile(
        rf"(?:{_AMOUNT})(?:[ -]{_PERIOD})(?:['’]s?)?"
        rf"|\b(?:every|each|per|once an?|jede[nrs]?) (?:\w+ )?{_PERIOD}\b"
        r"|\b(?:daily|weekly|monthly|yearly|annually|hourly)\b",
        re.IGNORECASE,
    ),
    "when": re.compile(
        rf"(?:\b\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?)?\b{_MONTH}\b(?: \d{{1,2}}(?:st|nd|rd|th)?"
        rf"(?!\d))?(?:,? ?\d{{4}})?|\b(?:1\d|20)\d\ds?\b|\b\d{{1,2}}:\d{{2}}\b|\b(?:{_WEEKDAY})\b"
        r"|\b\d{1,2}(?:st|nd|rd|th)(?: and \d{1,2}(?:st|nd|rd|th))? centur(?:y|ies)\b"
        r"|\b\d{4}-\d{2}-\d{2}\b|\b\d+ (?:BCE?|AD|CE)\b"
        rf"|\b(?:after|within|for) (?:{_AMOUNT}) {_PERIOD}\b|\b(?:{_AMOUNT}) {_PERIOD} (?:ago|later|after|before)\b"  # noqa: E501
    ),
    "number": re.compile(
        rf"(?:{_AMOUNT})(?: ?(?:%|°C?F?|‰|[kcmnµ]?m(?:²|³|/s)?|km/h|mph|[km]?g|tonnes?|tons?|lit(?:er|re)s?|"  # noqa: E501
        r"inch(?:es)?|feet|foot|miles?|met(?:er|re)s?|kilomet(?:er|re)s?|degrees?|people|persons?|"
        rf"percent|{_PERIOD})(?!\w))?",
        re.IGNORECASE,
    ),
    "why": re.compile(
        r"\b(?:because(?: of)?|since|due to|so that|in order to|as a result|caused by|owing to|"
        r"thanks to|therefore|to (?:avoid|prevent|protect|reduce|ensure|allow|save)|weil|damit|"
        r"wegen|denn|porque|parce que|debido a|потому что|из-за|set fire|led to|resulted)\b",
        re.IGNORECASE,
    ),
}  # fmt: skip
_CAPITAL = r"[^\W\d_a-zß-öø-ÿа-я][\w.’'&-]*"
_NAME = re.compile(
    rf"{_CAPITAL}(?:(?: (?:of|the|de|la|le|van|von|der|du|and|&) | )(?:{_CAPITAL}))*"
)
_PLACE = re.compile(
    rf"\b(?:in|at|on|near|from|to|into|above|below|behind|under|beside|between|along|im|am|auf|bei|"
    rf"nach|aus|en|à|в|на)\s(?:the |a |an |der |dem |den )?[\w’'-]+(?: (?:of |the )*{_CAPITAL})*"
    rf"|{_NAME.pattern}"
)  # fmt: skip
CHECKABLE: frozenset[Kind] = frozenset(_OFFERS) | {"who", "where"}


def detect_kind(question: str) -> Kind:
    """Return the kind that is asked for first ("Where do I go when …" asks for a place); `what`
    when no rule fits."""
    found = [
        (match.start(), order, kind)
        for order, (kind, pattern) in enumerate(_ASKS)
        if (match := pattern.search(question))
    ]
    return min(found)[2] if found else "what"


def find_offers(kind: Kind, question: str, sentence: str) -> list[tuple[int, int]]:
    """Return the spans of a sentence that are of a kind and not already in the question."""
    spans = list(_find_spans(kind, sentence))
    if not spans or kind == "why":
        return spans
    asked = set(extract_terms(question))
    return [(start, end) for start, end in spans if not _is_known(sentence[start:end], asked)]


def _drop_full_stop(sentence: str, start: int, end: int) -> tuple[int, int]:
    """Cut the full stop of the sentence from a name; `S.A.` keeps its own."""
    last = sentence[start:end].rpartition(" ")[2]
    return (start, end - 1) if last.endswith(".") and last.count(".") == 1 else (start, end)


def _find_spans(kind: Kind, sentence: str) -> Iterator[tuple[int, int]]:
    if kind == "who":
        yield from _find_names(sentence)
    elif kind == "where":
        yield from (_drop_full_stop(sentence, *m.span()) for m in _PLACE.finditer(sentence))
    elif kind in _OFFERS:
        yield from (match.span() for match in _OFFERS[kind].finditer(sentence))


def _find_names(sentence: str) -> Iterator[tuple[int, int]]:
    """Yield runs of capitalised words; a single word at the beginning may be any word."""
    for match in _NAME.finditer(sentence):
        if match.start() > 0 or " " in match[0]:
            yield _drop_full_stop(sentence, *match.span())


def _is_known(span: str, asked: set[str]) -> bool:
    found = set(extract_terms(span))
    return bool(found) and found <= asked
