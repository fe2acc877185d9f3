"""Turn an English sentence and a fact in it into the question that the fact answers.

"The lease was signed on 3 May 2019." and the place of the date → "When was the lease signed?". The
rules cover main clauses with a simple subject and skip other sentences, so that readers of an
evaluation never have to guess what was asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragstone.reading.kinds import Kind

_AUXILIARIES = "is|are|was|were|has|have|had|can|must|may|will|shall|should|could|would"
_COPULAS = frozenset({"is", "are", "was", "were"})
_IRREGULAR = {
    "begin": "began", "hold": "held", "have": "had", "pay": "paid", "meet": "met", "leave": "left",
    "cost": "cost", "run": "ran", "take": "took", "give": "gave", "get": "got", "win": "won",
    "buy": "bought", "sell": "sold", "build": "built", "become": "became", "grow": "grew",
    "write": "wrote", "spend": "spent", "lose": "lost", "make": "made", "rise": "rose",
}  # fmt: skip
_REGULAR = re.findall(
    r"\w+",
    "end start open close expire last weigh measure contain receive need require cover serve "
    "arrive visit own employ live work move die publish sign found join retire return apply "
    "earn charge offer provide remain stay finish launch complete introduce appoint elect "
    "establish produce use collect record discover invent design install renovate host play "
    "score carry reach",
)
_DETERMINERS = r"The|A|An|Our|Your|Their|His|Her|Each|Every|All"
# What begins a sentence like a name and is none.
_NO_SUBJECT = re.compile(
    r"^(?:Once|Although|Though|After|Before|Long|While|When|Where|If|Since|Because|As|In|On|At|By|"
    r"For|From|To|With|Without|During|Until|Under|Over|Like|Unlike|Despite|Both|Only|Even|Just|"
    r"Please|Note|See|Not|But|And|Or|So|Yet|Here|What|Who|How|Why|Whether|Today|Now|Later|Then|"
    r"Among)\b"
)
_FINITE = re.compile(rf"\b(?:{_AUXILIARIES}|and|or|but)\b")
# Up to five words after an article, or a name.
_SUBJECT = re.compile(
    rf"(?P<subject>(?:(?:{_DETERMINERS}) (?:[\w'’&-]+ ){{1,5}}?)"
    r"|(?:[A-Z][\w'’&.-]* (?:[\w'’&.-]+ ){0,3}?))"
    r"(?P<verb>[a-z]+) (?P<rest>.*)"
)
_PERSON = re.compile(
    r"(?:(?:Dr|Mr|Ms|Mrs|Prof|Sir|Professor)\.? )?(?:[A-Z][a-zà-ÿ'’-]+|[A-Z]\.)"
    r"(?: (?:van|von|de|der|[A-Z]\.|[A-Z][a-zà-ÿ'’-]+)){1,3}"
)
_VAGUE = re.compile(
    r"\b(?:it|its|this|that|these|those|they|them|their|he|his|she|her|there|such|which|who|other|"
    r"another|former|latter|same|following|above|below|not|no|also|however|therefore|then|both|only|"
    r"currently|usually|often|one|some|many|most|several|few)\b",
    re.IGNORECASE,
)
_AROUND = (
    r"(?: ?(?:about|approximately|around|only|exactly|nearly|almost|up to|at least|at most|over|"
    r"under|more than|less than|not more than))?"
)
_BEFORE_FACT = re.compile(
    rf"(?:^| )(?P<word>on|in|at|for|from|by|until|since|within|every|each)?{_AROUND}$"
)
_DANGLING = re.compile(
    r"(?:^| )(?:of|to|with|between|the|an?|and|or|as|than|after|before|into|per|but|,|no|through|"
    r"during|over|under|from|at|by|in|on|for|about|against|its|their|first|last|next|early|late)$"
)
# What may follow the fact and belongs to the question: "EUR 20 per month", "3 May in London".
_TAIL = re.compile(r"^ (?:per|a|in|at|by|for|to|from|of|with) [a-zA-Z'’ -]+$")
_CLAUSE_END = re.compile(r"[.,;:(]| (?:if|when|unless|but|which|who|that|because|as|and|or)\b")
_TOGETHER = re.compile(r"^(?: ?[-–/]| and\b| or\b| to\b|, [\dA-Z])")
_PER = re.compile(
    r"^ (?:per|a|an) (?:person|hour|day|night|week|month|year|piece|metre|meter|kg)\b"
)
_HOW_TALL = re.compile(r"^ (high|tall|wide|long|deep|thick|old)\b")
_COUNTED = re.compile(
    r"^ (?P<things>(?!the |an? )(?:[a-z-]+ )?[a-z-]{2,}[a-rt-z]s)\b(?P<after>.*)$"
)
_OF_COUNTRY = re.compile(
    r"\w+(?:an|ish|ese)(?:-|$)|(?:French|Dutch|Greek|Swiss|Czech|Arab|Jan|Feb|Mon|Sun)"
)
_NAMES_THING = re.compile(r"(?:an?|the|one of|among) ")
_MAX_REST_WORDS = 9
_MAX_SUBJECT_WORDS = 6
_MAX_TAIL_WORDS = 4


@dataclass(frozen=True, slots=True)
class _Clause:
    """Hold a main clause, cut at the fact that it states."""

    subject: str
    auxiliary: str
    """What stands before the subject in a question: "was", "does"."""
    verb: str
    """The main verb that follows the subject; empty after a bare "is"."""
    before: str
    link: str
    """The preposition that led to the fact."""
    fact: str
    after: str

    def ask(self, words: str, *, after: str = "") -> str:
        if self.auxiliary in _COPULAS and _NAMES_THING.match(self.before):
            return ""  # "Merlin is a photometer built in 1998.": it is not the subject's date
        parts = (words, self.auxiliary, self.subject, self.verb, self.before, after)
        return " ".join(" ".join(parts).split()) + "?"


def word_question(sentence: str, start: int, end: int, kind: Kind) -> str | None:
    """Return the question to which `sentence[start:end]` is the answer; None if no rule fits."""
    if start == 0:
        return _ask_who(sentence, end) if kind == "who" else None
    clause = _parse_clause(sentence, start, end)
    if clause is None:
        return None
    question = _ASKS[kind](clause) if kind in _ASKS else None
    return question if question and _reads_well(question) else None


def _parse_clause(sentence: str, start: int, end: int) -> _Clause | None:
    match = _find_verb(sentence)
    if match is None or match.start("rest") > start or _NO_SUBJECT.match(match["subject"]):
        return None
    before = sentence[match.start("rest") : start].rstrip()
    lead = _BEFORE_FACT.search(before)
    has_parts = any(mark in before for mark in ',;:()"“”|')
    before, link = (before[: lead.start()], lead["word"] or "") if lead else (before, "")
    is_complex = _FINITE.search(before) or _FINITE.search(match["subject"])
    if has_parts or is_complex or _TOGETHER.match(sentence[end:]):
        return None
    fact, after = sentence[start:end].strip(), _CLAUSE_END.split(sentence[end:])[0].rstrip()
    subject, verb = _lower_first(match["subject"].strip(), match["verb"]), match["verb"]
    if verb in _AUXILIARIES.split("|") and not (verb in {"has", "have", "had"} and not before):
        return _Clause(subject, verb, "", before, link, fact, after)
    base = _FORMS[verb]
    helper = "did" if verb == _past(base) else "does" if verb != base else "do"
    return _Clause(subject, helper, base, before, link, fact, after)


def _find_verb(sentence: str) -> re.Match[str] | None:
    """Match the subject up to the first word that is a verb."""
    match = _SUBJECT.match(sentence)
    while match is not None and not _is_verb(match["subject"], match["verb"]):
        longer = match["subject"] + match["verb"]
        if len(longer.split()) > _MAX_SUBJECT_WORDS:
            return None
        match = re.match(
            rf"(?P<subject>{re.escape(longer)} )(?P<verb>[a-z]+) (?P<rest>.*)", sentence
        )
    return match


def _is_verb(subject: str, word: str) -> bool:
    base = _FORMS.get(word)
    if word in _AUXILIARIES.split("|"):
        return True
    return base is not None and (word != base or subject.rstrip().endswith("s"))


def _past(base: str) -> str:
    if base in _IRREGULAR:
        return _IRREGULAR[base]
    if base.endswith("e"):
        return base + "d"
    return base[:-1] + "ied" if base.endswith("y") and base[-2] not in "aeo" else base + "ed"


def _third_person(base: str) -> str:
    if base == "have":
        return "has"
    if base.endswith("y") and base[-2] not in "aeo":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("sh", "ch", "ss")) else "s")


_FORMS = {
    form: base
    for base in (*_REGULAR, *_IRREGULAR)
    for form in (base, _third_person(base), _past(base))
}


def _lower_first(subject: str, verb: str) -> str:
    """Write the first word in lower case, unless it begins a name."""
    first, _, rest = subject.partition(" ")
    is_plural = not rest and first.endswith("s") and verb in {"are", "were", "have"}
    is_common = (rest[:1].islower() or is_plural) and first[1:].islower()
    is_common = is_common and not _OF_COUNTRY.match(first)
    is_article = re.fullmatch(_DETERMINERS, first) is not None
    return subject[0].lower() + subject[1:] if is_article or is_common else subject


def _ask_who(sentence: str, end: int) -> str | None:
    verb = re.match(r" (?P<verb>[a-z]+) (?P<rest>[^,.;:()]+)[,.;]", sentence[end:])
    name = sentence[:end].strip()
    is_person = _PERSON.fullmatch(name) and not _NO_SUBJECT.match(name)
    if verb is None or not is_person or re.fullmatch(_DETERMINERS, name.partition(" ")[0]):
        return None
    base = _FORMS.get(verb["verb"])
    if base in {None, "have", verb["verb"]} or _FINITE.search(verb["rest"]):
        return None
    question = f"Who {verb['verb']} {verb['rest'].strip()}?"
    return question if _reads_well(question) else None


def _ask_by_whom(clause: _Clause) -> str | None:
    is_passive = clause.auxiliary in _COPULAS and clause.link == "by" and clause.before
    is_person = _PERSON.fullmatch(clause.fact) and not re.match(r" [A-Za-z_\[]", clause.after)
    return clause.ask("By whom") if is_passive and is_person else None


def _ask_when(clause: _Clause) -> str | None:
    words = {
        "on": "When", "in": "When", "at": "When", "": "When", "from": "From when",
        "by": "By when", "until": "Until when", "since": "Since when",
    }.get(clause.link)  # fmt: skip
    if not re.search(r"\d|day", clause.fact) or re.match(r" [A-Z]", clause.after):
        return None
    is_bare = not clause.link and (clause.before or clause.auxiliary not in _COPULAS)
    return clause.ask(words, after=_take_tail(clause)) if words and not is_bare else None


def _ask_how_long(clause: _Clause) -> str | None:
    if re.match(r" (?:before|after|later|ago|prior|old)\b", clause.after):
        return None
    if clause.link in {"every", "each"}:
        return clause.ask("How often")
    if clause.link == "within":
        return clause.ask("Within what time")
    is_measured = not clause.before and (
        clause.auxiliary in _COPULAS or clause.verb in {"last", "take"}
    )
    if clause.link != "for" and not is_measured:
        return None
    return clause.ask("How long", after=_take_tail(clause))


def _take_tail(clause: _Clause) -> str:
    """Return a few words after the fact that narrow the question: "in fast mode"."""
    is_short = len(clause.after.split()) <= _MAX_TAIL_WORDS
    return clause.after if is_short and _TAIL.match(clause.after) else ""


def _ask_how_much(clause: _Clause) -> str | None:
    verbs = {"cost", "pay", "earn", "charge", "receive", "spend"}
    takes_amount = clause.auxiliary in _COPULAS or clause.verb in verbs
    is_paid = clause.before in {"pay", "be paid", "cost", "be", "receive"}
    if clause.link or clause.fact.startswith("free"):
        return None
    if not (is_paid or (takes_amount and not clause.before)):
        return None
    per = _PER.match(clause.after)
    return clause.ask("How much", after=per[0] if per else "")


def _ask_percentage(clause: _Clause) -> str | None:
    if clause.link or clause.before or clause.auxiliary not in _COPULAS:
        return None
    of = re.match(r"^ of [\w '’-]+$", clause.after)
    return clause.ask("What percentage", after=clause.after) if of or not clause.after else None


def _ask_how_many(clause: _Clause) -> str | None:
    tall = _HOW_TALL.match(clause.after)
    if tall and clause.auxiliary in _COPULAS and not clause.before and not clause.link:
        return clause.ask(f"How {tall[1]}")
    things = _COUNTED.match(clause.after)
    if clause.fact in {"once", "twice", "half", "dozen"}:
        return None
    if things is None or clause.link or (clause.auxiliary in _COPULAS and not clause.before):
        return None
    if len(f"{clause.verb} {clause.before}".split()) != 1:
        return None
    return clause.ask(f"How many {things['things']}")


_ASKS = {
    "when": _ask_when, "duration": _ask_how_long, "money": _ask_how_much,
    "percent": _ask_percentage, "number": _ask_how_many, "who": _ask_by_whom,
}  # fmt: skip


def _reads_well(question: str) -> bool:
    body = question.removesuffix("?")
    words = body.split()
    return (
        4 <= len(words) <= 3 + _MAX_REST_WORDS
        and not _VAGUE.search(" ".join(words[2:]))
        and not _DANGLING.search(body)
        and not re.search(r"[\"“”|()\[\]*_`<>]", body)
    )
