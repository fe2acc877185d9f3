"""Tables inside a text: a row says something only together with the header over it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from ragstone.index.analyze import terms
from ragstone.text import sentence_spans

_RULE = re.compile(r"^[\s|:\-–+=]*$")


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence, or the row of a table, at `text[start:end]`."""

    start: int
    end: int
    text: str
    header: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """As a sentence: a row becomes its cells under their headings."""
        return in_words(self.header, self.text) if self.header else self.text


def units(text: str) -> list[Unit]:
    """The sentences of a text and the rows of its tables; rules and header rows are left out."""
    found: list[Unit] = []
    header: tuple[str, ...] = ()
    for start, end in sentence_spans(text):
        part = text[start:end]
        if _RULE.match(part):
            continue
        if not part.startswith("|"):
            header = ()
        elif not header:
            header = cells(part)
            continue
        found.append(Unit(start, end, part, header))
    return found


def cells(row: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in row.strip().strip("|").split("|"))


def in_words(header: tuple[str, ...], row: str) -> str:
    """`Adult: Day visit €16, Evening programme €24.`; a row that does not fit stays as it is."""
    own = cells(row)
    if len(own) != len(header) or len(own) < 2:
        return " ".join(row.split())
    pairs = [f"{name} {cell}".strip() for name, cell in zip(header[1:], own[1:], strict=True)]
    return f"{own[0]}: {', '.join(pairs)}."


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
            r"warm|thick|bright|reflective)\b|\bwhat (?:is the )?(?:number|temperature|weight|mass|"
            r"height|width|depth|length|distance|speed|size|population|diameter|limit|amount|"
            r"level|rate|score|area|elevation|volume)\b|\b(?:focal length|resolving power|"
            r"population|density)\b|\bat what (?:\w+ )?(?:wind|level|temperature|speed)\b"
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


def question_kind(question: str) -> Kind:
    """What is asked first ("Where do I go when …" asks for a place); `what` when no rule fits."""
    found = [(match.start(), order, kind) for order, (kind, pattern) in enumerate(_ASKS)
             if (match := pattern.search(question))]  # fmt: skip
    return min(found)[2] if found else "what"


def offers(kind: Kind, question: str, sentence: str) -> list[tuple[int, int]]:
    """Spans of a sentence that are of the kind asked for and not already in the question."""
    asked = set(terms(question))
    return [
        (start, end)
        for start, end in _spans(kind, sentence)
        if kind == "why" or not _known(sentence[start:end], asked)
    ]


def _without_stop(sentence: str, start: int, end: int) -> tuple[int, int]:
    """A name without the full stop of its sentence; `S.A.` keeps its own."""
    last = sentence[start:end].rpartition(" ")[2]
    return (start, end - 1) if last.endswith(".") and last.count(".") == 1 else (start, end)


def _spans(kind: Kind, sentence: str) -> Iterator[tuple[int, int]]:
    if kind == "who":
        yield from _names(sentence)
    elif kind == "where":
        yield from (_without_stop(sentence, *m.span()) for m in _PLACE.finditer(sentence))
    elif kind in _OFFERS:
        yield from (match.span() for match in _OFFERS[kind].finditer(sentence))


def _names(sentence: str) -> Iterator[tuple[int, int]]:
    """Runs of capitalised words; one word alone at the beginning proves nothing."""
    for match in _NAME.finditer(sentence):
        if match.start() > 0 or " " in match[0]:
            yield _without_stop(sentence, *match.span())


def _known(span: str, asked: set[str]) -> bool:
    found = set(terms(span))
    return bool(found) and found <= asked


_ORDERS = (
    # someone tells the reader to forget what it was told
    r"\b(?:ignore|disregard|forget|override|bypass|discard|skip)\b[^.\n]{0,40}"
    r"\b(?:previous|prior|above|earlier|preceding|all|any|your|the|these|other|system)\b[^.\n]{0,30}"
    r"\b(?:instructions?|prompts?|rules?|guidelines?|directions?|context|messages?|documents?|"
    r"sources?|constraints?|restrictions?|polic(?:y|ies))\b",
    r"\b(?:ignoriere|vergiss|missachte)\b[^.\n]{0,60}\b(?:anweisung\w*|regeln|vorgaben|befehle)\b",
    r"\b(?:ignore[zr]?|oublie[zr]?)\b[^.\n]{0,60}\b(?:instructions?|consignes?|règles?)\b",
    r"\b(?:ignora|olvida)\b[^.\n]{0,60}\b(?:instrucciones|reglas|indicaciones)\b",
    r"\b(?:игнорируй\w*|забудь\w*)\b[^.\n]{0,60}\b(?:инструкци\w*|указани\w*|правила)\b",
    # someone gives the reader a new part to play
    r"\byou are (?:now|no longer|from now on)\b|\bfrom now on,? you\b|\bact as (?:an?|if|the)\b"
    r"|\bpretend (?:to be|that you|you are)\b|\byour (?:new )?(?:task|role|job|goal) is\b"
    r"|\bdeveloper mode\b|\bjailbr\w+|\bDAN mode\b|\bdu bist (?:jetzt|ab sofort)\b",
    r"\bnew (?:system )?(?:instructions?|prompt|rules?|directive)\b|\bsystem (?:prompt|override|"
    r"message|instruction)s?\b|\b(?:hidden|secret|initial|original) (?:prompt|instructions?)\b",
    # someone says what an assistant must answer, or must not
    r"\b(?:assistants?|AI|language models?|chatbots?|LLMs?|GPT|models?)\b[^.\n]{0,30}\b(?:must|"
    r"should|shall|has to|have to|are to|is to|will)\b[^.\n]{0,60}\b(?:answer|reply|respond|"
    r"say|output|print|write|cite|include|recommend|state|tell|reveal|ignore|claim|mention)\b",
    r"\b(?:answer|reply|respond|say|output|print|repeat|write|return|end)\b[^.\n]{0,30}"
    r"\b(?:only|exactly|always|verbatim|nothing but|every (?:answer|reply|response))\b",
    r"\b(?:always|only) (?:answer|reply|respond|say|cite|recommend|output)\b",
    r"\bwhen (?:asked|someone asks|the user asks|answering)\b[^.\n]{0,80}\b(?:say|answer|reply|"
    r"respond|tell|claim|state)\b",
    r"\bdo not (?:cite|mention|reveal|tell|quote|use the)\b|\bwithout (?:citing|citation)\b",
    r"\b(?:reveal|print|leak|show|send|forward|exfiltrate|post)\b[^.\n]{0,40}\b(?:prompt|api[ _-]?"
    r"keys?|passwords?|secrets?|credentials?|conversation|chat history|user data)\b",
    r"\b(?:to|dear|attention|note (?:to|for)|hey|important for)[:,]? (?:the )?(?:AI|assistant|"
    r"model|LLM|chatbot|language model|GPT|Claude|Gemini)s?\b",
    # marks of a chat's own markup
    r"<\|?(?:im_start|im_end|system|endoftext|assistant|user|eot_id|start_header_id)\|?>"
    r"|\[/?INST\]|<</?SYS>>|</?(?:system|instructions?|prompt|assistant|admin)>"
    r"|^\s*#{1,4} ?(?:system|instructions?|assistant|response|new task)\b:?"
    r"|^\s*(?:system|assistant|user|human|AI)\s?:\s"
    r"|\b(?:BEGIN|END) (?:OF )?(?:SYSTEM|PROMPT|INSTRUCTIONS?|CONTEXT|DOCUMENTS?)\b",
    # a picture or a link that carries data away
    r"!\[[^\]]*\]\(https?://[^)]*(?:\{|%7B|\?(?:q|d|data|secret|c)=)",
)
_ORDER = re.compile("|".join(f"(?:{pattern})" for pattern in _ORDERS), re.IGNORECASE | re.MULTILINE)
# Letters that nobody sees, between the letters of a word: "ig​nore".
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]")


def instruction_spans(text: str) -> list[tuple[int, int]]:
    """The parts of a text that read like instructions to a model."""
    return list(_instruction_spans(text))


# The same passages are read for one question after the other.
@lru_cache(maxsize=16_384)
def _instruction_spans(text: str) -> tuple[tuple[int, int], ...]:
    if not _UNSEEN.search(text):
        return tuple(m.span() for m in _ORDER.finditer(text) if m[0])
    kept = [place for place, letter in enumerate(text) if not _UNSEEN.match(letter)]
    seen = "".join(text[place] for place in kept)
    return tuple((kept[m.start()], kept[m.end() - 1] + 1) for m in _ORDER.finditer(seen) if m[0])


def reads_like_instructions(text: str) -> bool:
    return bool(instruction_spans(text))
