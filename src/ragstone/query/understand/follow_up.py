"""List what a message may mean in its conversation: as it is typed, and completed in several ways.

message and earlier turns → readings, each a whole question with a prior. The documents decide
between them (`query/contest.py`); nothing here searches or asks a model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragstone.index.analyze import extract_terms
from ragstone.messages import list_translations
from ragstone.query.understand.exchange import (
    Rank,
    exchange_part,
    exchange_phrase,
    exchange_question_word,
)
from ragstone.query.understand.forms import (
    CONTINUES,
    MORE,
    ORDINAL,
    ORDINALS,
    OTHER_DOCUMENT,
    RETURNS,
    is_bare_why,
    strip_correction,
)
from ragstone.query.understand.nouns import (
    AUXILIARIES,
    CLAUSE_STARTS,
    DETERMINERS,
    IMPERATIVES,
    PREPOSITIONS,
    PRONOUNS,
    QUESTION_WORDS,
    WHICH,
    find_chains,
    find_phrases,
    find_subject,
    is_english,
    is_name,
    is_surely_english,
    list_items,
    list_labels,
    list_names,
)
from ragstone.query.understand.small_talk import match_small_talk, strip_small_talk
from ragstone.text import find_sentence_spans, normalize_words
from ragstone.types import NO_ANSWER, Message, Reading, ReadingKind

# Advantage, in logits, of a reading before anything is searched.
STANDS_ALONE = 4.0
"""The message is a whole question without a word that points back."""
LIKELY, POSSIBLE, UNLIKELY = 1.0, 0.0, -1.5
FROM_MODEL = 1.5
"""A model wrote it after reading the conversation."""
_FEW_TERMS = 3
_MAX_WHY_WORDS = 30


@dataclass(frozen=True, slots=True)
class Exchange:
    """Hold an earlier question, completed if it needed that, and its answer."""

    question: str
    answer: str = ""
    refused: str = ""
    """A later message that found no answer: not a question to complete others with, but its
    subject is what "it" stands for."""

    @property
    def subject(self) -> str:
        return find_subject(self.refused) or find_subject(self.question)


_MARKER = re.compile(r"\s*\[(?:Source \d+|[\w.-]{1,80}:\d{1,6})\]")


def list_exchanges(history: Sequence[Message]) -> list[Exchange]:
    """Pair the questions of a conversation with their answers, and complete each question."""
    found: list[Exchange] = []
    typed = ""
    for message in history:
        if message.role == "user":
            typed = "" if match_small_talk(message.content) else message.content
            if typed:
                found.append(Exchange(_complete_question(message, found)))
        elif message.role == "assistant" and typed:
            answer = _MARKER.sub("", message.content)
            last = found.pop()
            is_whole = last.question == typed and (not found or is_whole_question(typed))
            if is_whole or not is_refusal(answer):
                found.append(replace(last, answer=answer))
            elif found:
                # What was made of this message had no answer: it may be the wrong reading.
                found[-1] = replace(found[-1], refused=typed)
                typed = ""
            else:
                found.append(Exchange(typed, answer))
    return found


def _complete_question(message: Message, before: Sequence[Exchange]) -> str:
    """Return the whole question of an earlier message; "Why?" has that of the one before it."""
    if before and is_bare_why(message.content):
        return before[-1].question
    if message.searched_as:
        return message.searched_as
    return max(list_readings(message.content, before), key=lambda one: one.prior).text


def is_refusal(answer: str) -> bool:
    """Return True when an answer says, in any language, that the documents hold none."""
    return answer.strip().startswith(list_translations(NO_ANSWER))


def list_readings(
    text: str, exchanges: Sequence[Exchange], rank: Rank | None = None
) -> tuple[Reading, ...]:
    """Return what a message may mean, the message as it is typed first."""
    if not exchanges:
        return (Reading(text, prior=STANDS_ALONE),)
    text = strip_small_talk(text)
    special = _read_special(text, exchanges)
    if special is not None:
        return special
    before = exchanges[-1]
    bare, corrects = strip_correction(text)
    rest = CONTINUES.sub("", bare).strip() or bare
    points_back = corrects or rest != bare
    named = (
        _read_contrast(text, rest, before)
        or _read_ordinal(text, rest, before)
        or _read_choice(text, rest, before)
    )
    if named:
        return named
    if is_whole_question(rest) or _is_other_language(rest, before.question):
        return _read_whole_question(text, rest, exchanges, points_back=points_back)
    return _read_fragment(text, rest, before, rank, points_back=points_back)


def _read_special(text: str, exchanges: Sequence[Exchange]) -> tuple[Reading, ...] | None:
    """Read a wish for more, a bare "why?" and a return to an earlier topic."""
    before = exchanges[-1]
    plain = " ".join(normalize_words(text))
    if MORE.fullmatch(plain):
        return (Reading(before.question, "more", STANDS_ALONE),)
    if OTHER_DOCUMENT.fullmatch(plain):
        return (Reading(before.question, "other", STANDS_ALONE),)
    if is_bare_why(text):
        return _ask_why(text, before)
    if match := RETURNS.match(text.strip()):
        topic, rest = match["topic"] or match["topic2"], match["rest"] or match["rest2"]
        return _return_to(text, rest, topic, exchanges[:-1] or exchanges)
    return None


def _read_ordinal(text: str, rest: str, before: Exchange) -> tuple[Reading, ...]:
    """Read "the second one": what the last answer named, or else the last question beside it."""
    if (named := _replace_ordinal(rest, before)) is not None:
        return (Reading(text, prior=UNLIKELY), Reading(named, "answer", LIKELY))
    if ORDINAL.search(rest) and is_whole_question(rest):
        joined = f"{rest.rstrip('?!. ')} ({before.question.rstrip('?!. ')})?"
        return (Reading(text, prior=UNLIKELY), Reading(joined, "joined", POSSIBLE))
    return ()


def _read_choice(text: str, rest: str, before: Exchange) -> tuple[Reading, ...]:
    """Read what was chosen when the last answer asked which of several was meant."""
    if WHICH not in before.answer or is_whole_question(rest):
        return ()
    chosen, named = rest.strip("?!. "), set(extract_terms(rest))
    shared = {
        label: len(named & set(extract_terms(re.sub(r"[_./-]", " ", label))))
        for label in list_labels(before.answer)
    }
    best = max(shared, key=lambda label: shared[label], default="")
    if best and shared[best]:
        heading = best.partition(" (")[0]
        chosen = heading if named <= set(extract_terms(heading)) else f"{heading}, {chosen}"
    joined = _join(before.question, chosen)
    return (Reading(text, prior=UNLIKELY), Reading(joined, "joined", STANDS_ALONE))


def _join(question: str, part: str) -> str:
    """Add a part in brackets to a question, in the place of one that was added before."""
    return f"{_IN_BRACKETS.sub('', question).rstrip('?!. ')} ({part})?"


_IN_BRACKETS = re.compile(r"\s*\([^()]*\)\s*[?!.]*$")


def is_whole_question(text: str) -> bool:
    """Return True for a text with the form of a question or an order."""
    words = normalize_words(text)
    if not words or len(words) < 2:
        return False
    first = words[1] if words[0] in PREPOSITIONS else words[0]
    starts = first in QUESTION_WORDS or words[0] in AUXILIARIES or words[0] in IMPERATIVES
    return (starts and len(words) >= 3) or bool(
        len(words) >= 4 and (set(words) & AUXILIARIES) and words[0] not in CLAUSE_STARTS
    )


def _is_other_language(text: str, other: str) -> bool:
    """Return True when one of two texts is English alone: it cannot be a part of the other."""
    own, theirs = is_surely_english(text), is_surely_english(other)
    return own is not None and theirs is not None and own != theirs


def find_pronoun(text: str) -> re.Match[str] | None:
    """Find a word for something named earlier, unless the text itself names something before."""
    for match in re.finditer(r"[^\W\d_]+(?:['’]s)?|[它他她这那]个?", text):
        word = match[0].casefold()
        if word not in PRONOUNS or (word == "there" and re.search(r"\b(?:is|are)\s+there\b", text)):
            continue
        following = text[match.end() :].split()
        is_determiner = following and following[0].casefold() not in AUXILIARIES | PREPOSITIONS
        if word in ("this", "that", "these", "those") and is_determiner:
            continue  # "the code that opens the gate"
        named = [p for p in find_phrases(text[: match.start()]) if not p.is_time]
        if any(one.is_name or one.words[0].casefold() in DETERMINERS for one in named):
            return None
        return match
    return None


def _read_whole_question(
    text: str, rest: str, exchanges: Sequence[Exchange], *, points_back: bool
) -> tuple[Reading, ...]:
    before = exchanges[-1]
    pronoun = find_pronoun(rest)
    typed = Reading(_capitalise(rest) if points_back else text)
    if pronoun is not None:
        # The fewer words of its own a question has, the more it needs what "it" stands for.
        few = len(set(extract_terms(rest))) <= _FEW_TERMS
        prior = LIKELY if _EXPLETIVE.search(rest) else UNLIKELY if few else POSSIBLE
        typed = Reading(typed.text, prior=prior)
    if pronoun is None and not points_back:
        return (Reading(text, prior=STANDS_ALONE),)
    readings = [typed]
    subjects: list[tuple[str, ReadingKind]] = [(before.subject, "subject")]
    subjects += [(name, "answer") for name in _list_answer_names(before)[:1]]
    if _asks_for_name(before.question) and len(subjects) > 1 and subjects[1][0]:
        subjects.reverse()
    own = set(extract_terms(rest))
    for place, (subject, kind) in enumerate(subjects):
        if not subject or set(extract_terms(subject)) <= own:
            continue
        completed = _put_subject(rest, pronoun, subject)
        prior = (LIKELY if pronoun else POSSIBLE) - 1.0 * place
        readings.append(Reading(_capitalise(completed), kind, prior))
    return tuple(readings)


# "What did it cost to visit?" names nothing earlier.
_EXPLETIVE = re.compile(
    r"\bit\s+(?:cost|take)s?\b|\b(?:is|was)\s+it\s+(?:possible|allowed|necessary|safe|worth)\b",
    re.IGNORECASE,
)


def _put_subject(text: str, pronoun: re.Match[str] | None, subject: str) -> str:
    """Put a subject in the place of the pronoun; without one, add it at the end."""
    if pronoun is not None:
        word = pronoun[0].casefold()
        if word in ("its", "their", "theirs", "his", "her", "hers"):
            subject = f"{subject}'s"
        elif word not in (
            "it", "they", "them", "he", "she", "him", "this", "that", "these", "those", "itself",
        ):  # fmt: skip
            return f"{text.rstrip('?!. ')} ({subject})?"
        return f"{text[: pronoun.start()]}{subject}{text[pronoun.end() :]}"
    simple = re.fullmatch(
        r"(?:what|who|where|when|which)(?:['’]s| is| are| was| were)\s+(?:the\s+)?[\w -]+?[?.! ]*",
        text,
        re.IGNORECASE,
    )
    joint = " of " if simple and len(text.split()) <= 6 else " for "
    if not is_english(text):
        return f"{text.rstrip('?!. ')} ({subject})?"
    return f"{text.rstrip('?!. ')}{joint}{subject}?"


def _ask_why(text: str, before: Exchange) -> tuple[Reading, ...]:
    """Ask for the reason of the previous answer, or else of what the question was about."""
    readings = []
    spans = find_sentence_spans(before.answer)
    first = before.answer[spans[0][0] : spans[0][1]] if spans else ""
    why = text.strip().rstrip("?!. ")
    subject = find_subject(before.question)
    readings.append(Reading(f"{why} ({before.question.rstrip('?!. ')})?", "exchange", POSSIBLE))
    if first and len(first.split()) <= _MAX_WHY_WORDS:
        statement = first.rstrip(".!?: ")
        readings.insert(0, Reading(f"Why: {statement}?", "answer", LIKELY))
    elif subject:
        readings.append(Reading(f"{why} {subject}?", "subject", POSSIBLE))
    return tuple(readings)


def _return_to(
    text: str, rest: str, topic: str, exchanges: Sequence[Exchange]
) -> tuple[Reading, ...]:
    """Ask about a topic that was named again; an earlier question may name it more exactly."""
    pronoun = find_pronoun(rest)
    readings = [Reading(_capitalise(_put_subject(rest, pronoun, topic)), "subject", LIKELY)]
    wanted = set(extract_terms(topic))
    for one in reversed(exchanges):
        subject = find_subject(one.question)
        own = set(extract_terms(subject))
        if (
            subject
            and not own <= wanted
            and wanted & set(extract_terms(f"{one.question} {one.answer}"))
        ):
            readings.append(
                Reading(_capitalise(_put_subject(rest, pronoun, subject)), "exchange", LIKELY)
            )
            break
    return (*readings, Reading(text, prior=UNLIKELY))


# "not the summer, the winter", "the winter, not the summer": what is wrong is named as well.
_CONTRASTS = (
    re.compile(
        r"^(?:i (?:did ?n[o'’]?t|do ?n[o'’]?t) (?:mean|ask (?:about|for)|want) |not |nicht )"
        r"(?P<old>[^,;]+?)(?:[,;–]\s*(?:but |sondern |i meant? |rather )?| but | sondern )"
        r"(?P<new>.+)$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?P<new>[^,;?]+?)(?:, (?:and )?not| instead of|, nicht| statt) (?P<old>[^?]+?)$",
        re.IGNORECASE,
    ),
)


def _read_contrast(text: str, rest: str, before: Exchange) -> tuple[Reading, ...]:
    """Read "not X but Y": the last question with Y in the place of X."""
    for pattern in _CONTRASTS:
        match = pattern.match(rest.strip(" ?.!"))
        if match is None:
            continue
        old, new = set(extract_terms(match["old"])), match["new"].strip()
        phrases = [*find_phrases(before.question), *find_chains(before.question)]
        named = [one for one in phrases if old and old <= set(extract_terms(one.text))]
        if named:
            place = min(named, key=lambda one: len(one.text))
            if new.split()[0].casefold() in PREPOSITIONS and len(new.split()) > 1:
                new = new.split(maxsplit=1)[1]
            exchanged = exchange_phrase(before.question, place, new)
            joined = _join(before.question, new)
            return (
                Reading(text, prior=UNLIKELY),
                Reading(exchanged, "exchange", LIKELY),
                Reading(joined, "joined", UNLIKELY),
            )
    return ()


def _replace_ordinal(text: str, before: Exchange) -> str | None:
    match = ORDINAL.search(text)
    if match is None:
        return None
    place = next(place for place, _ in ORDINALS if match[f"n{place % 5}"])
    items = list_items(before.answer, before.question)
    if not -len(items) <= place < len(items):
        return None
    replaced = f"{text[: match.start()]}{items[place]}{text[match.end() :]}"
    if is_whole_question(replaced):
        return _capitalise(replaced)
    return _join(before.question, items[place])


def _list_answer_names(before: Exchange) -> list[str]:
    """Return the names in the first sentence of an answer, which may be meant by a pronoun."""
    spans = find_sentence_spans(before.answer)
    first = before.answer[spans[0][0] : spans[0][1]] if spans else ""
    # "Yearly: Adult EUR 21, Child EUR 9": the cells of a row are no names.
    is_row = " | " in first or (":" in first and not set(normalize_words(first)) & AUXILIARIES)
    return (
        [] if is_row or is_refusal(before.answer) else list_names(first, without=[before.question])
    )


def _asks_for_name(question: str) -> bool:
    return bool(
        re.match(r"\s*(?:who|wer|qui[eé]n|qui|chi|quem|wie|кто|kto)\b", question, re.IGNORECASE)
    )


def _read_fragment(
    text: str, fragment: str, before: Exchange, rank: Rank | None, *, points_back: bool
) -> tuple[Reading, ...]:
    """Put a part of a question ("and in winter?") in the place of its like in the last question."""
    typed = Reading(text, prior=UNLIKELY if points_back else POSSIBLE)
    part = fragment.strip().strip("?!. ")
    if asked := exchange_question_word(before.question, part):
        return (Reading(text, prior=UNLIKELY), Reading(asked, "exchange", LIKELY))
    joined = Reading(_join(before.question, part), "joined", POSSIBLE)
    if not part or set(extract_terms(part)) <= set(extract_terms(before.question)):
        return (typed, joined)
    if not points_back and _is_bare_noun(part, before.question):
        typed = Reading(text, prior=LIKELY)
    exchanged = exchange_part(before.question, part, rank)
    readings = [Reading(one, "exchange", LIKELY - 0.4 * at) for at, one in enumerate(exchanged[:2])]
    return (typed, *readings, joined)


def _is_bare_noun(part: str, question: str) -> bool:
    """Return True for a new topic in a word or two ("parking"), which may as well be asked alone.

    A name after a question about a name is that question again.
    """
    words, small = part.split(), DETERMINERS | PREPOSITIONS | PRONOUNS | CLAUSE_STARTS
    is_plain = not any(word.casefold() in small or word[:1].isdigit() for word in words)
    has_names = any(phrase.is_name for phrase in find_phrases(question))
    return is_plain and not any(map(is_name, words[1:] if not has_names else words))


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
