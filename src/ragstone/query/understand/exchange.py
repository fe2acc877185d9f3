"""Exchange one part of a question for another: "and in winter?" in a question about the summer.

question and part → the question with the part in the place of its like, the likeliest first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ragstone.query.understand.nouns import (
    CLAUSE_STARTS,
    DETERMINERS,
    PREPOSITIONS,
    QUESTION_WORDS,
    Phrase,
    find_chains,
    find_phrases,
    is_name,
)
from ragstone.text import split_words

Rank: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
"""Tells how near in meaning each of some phrases is to a text."""


def exchange_part(question: str, part: str, rank: Rank | None = None) -> list[str]:
    """Return a question with one of its parts exchanged for another, the likeliest first."""
    lead = part.split(maxsplit=1)[0].casefold()
    if lead in CLAUSE_STARTS and (match := re.search(rf"\b{lead}\b", question, re.IGNORECASE)):
        return [f"{question[: match.start()]}{part}?"]
    phrases = [*find_phrases(question), *find_chains(question)]
    if lead in PREPOSITIONS:
        rest = part[len(lead) :].strip()
        same = [one for one in phrases if one.preposition == lead]
        same.sort(key=lambda one: -_compare_form(one, rest, question))
        if same:
            return [exchange_phrase(question, one, rest) for one in same[:2]]
        added = f"{lead}{part[len(lead) :]}?"
        joined = [f"{question.rstrip('?!. ')} {added}"]
        if lead in _BENEFITS and (named := [one for one in phrases if not one.preposition]):
            # "What does an adult pay?" – "And for a child?": another one takes its place.
            like = max(named, key=lambda one: _compare_form(one, rest, question))
            joined.append(_exchange_kind(question, like, rest, rank))
        # "…, and the tag is latest?" – "With a digest?": the last of several conditions changes.
        clauses = re.split(r",?\s+(?:and|or|und|oder|y|et|e)\s+|,\s+", question)
        if len(clauses) > 1 and set(split_words(question)) & CLAUSE_STARTS:
            joined.insert(0, f"{question[: question.rindex(clauses[-1])].rstrip(' ,')} {added}")
        return joined
    if not phrases:
        return []
    lasting = [one for one in phrases if not one.is_time]
    is_one_name = len(find_phrases(part)) == 1 and any(map(is_name, part.split()))
    if len(lasting) == 1 and not lasting[0].is_name and is_one_name:
        # "What is the resolving power?" – "I meant Shrike": it says of what.
        return [f"{question.rstrip('?!. ')} of {part}?"]
    near = rank(part, [one.text for one in phrases]) if rank else [0.0] * len(phrases)
    scores = [
        score + _compare_form(one, part, question) for score, one in zip(near, phrases, strict=True)
    ]
    order = sorted(range(len(phrases)), key=lambda at: -scores[at])
    return [exchange_phrase(question, phrases[at], part) for at in order]


def _exchange_kind(question: str, phrase: Phrase, part: str, rank: Rank | None) -> str:
    """Put a part in the place of the word that is most like it: "an adult day ticket" – "a child
    day ticket"; a phrase of one word is exchanged whole."""
    words = [word for word in phrase.words if word.casefold() not in DETERMINERS]
    if len(words) < 2:
        return exchange_phrase(question, phrase, part)
    near = rank(part, words[:-1]) if rank else [0.0]
    at = max(range(len(near)), key=lambda place: near[place])
    new = " ".join((part, *words[:at], *words[at + 1 :]))
    return f"{question[: phrase.start]}{new}{question[phrase.end :]}"


_BENEFITS = frozenset({"for", "für", "pour", "para", "per", "voor", "для", "dla"})


def exchange_question_word(question: str, part: str) -> str | None:
    """Ask the last question with another question word: "where?" after "When …?"."""
    if not _QUESTION_WORD.fullmatch(part):
        return None
    asked = part[:1].upper() + part[1:]
    if match := _QUESTION_WORD.match(question):
        return f"{asked}{question[match.end() :]}"
    return f"{asked} {question[:1].lower()}{question[1:]}"


_QUESTION_WORD = re.compile(
    rf"(?:(?:{'|'.join(PREPOSITIONS)}) )?(?:{'|'.join(QUESTION_WORDS)})"
    r"(?: (?:much|many|long|often|far|big|old|viel|viele|lange|oft|weit|groß|alt|time))?(?!\w)",
    re.IGNORECASE,
)


def _compare_form(phrase: Phrase, part: str, question: str) -> float:
    """Score how alike a phrase and another part are in form: both names, both with an article."""
    other = find_phrases(part)
    if not other:
        return 0.0
    score = 0.25 if phrase.is_name == any(one.is_name for one in other) else 0.0
    if phrase.head.casefold() == other[0].head.casefold():
        score += 0.4
    has_article = part.split(maxsplit=1)[0].casefold() in DETERMINERS
    if has_article == (phrase.words[0].casefold() in DETERMINERS):
        score += 0.05
    is_chain = len(find_phrases(phrase.text)) > 1
    score += 0.1 if is_chain == (len(other) > 1) else -0.1
    if re.match(r"\s+of\s", question[phrase.end :]):
        score -= 0.3  # "the price of the filter": another thing is meant, and not another fact
    if phrase.is_time != other[0].is_time:
        score -= 0.3
    if phrase.start < 12 and _ASKED_FOR.match(question) and not phrase.preposition:
        score -= 0.1
    return score


_ASKED_FOR = re.compile(r"^(?:which|what|how many|how much)\s+\w+\s", re.IGNORECASE)


_IS = frozenset({"is", "are", "was", "were"})


def exchange_phrase(question: str, phrase: Phrase, part: str) -> str:
    """Put `part` in the place of a phrase; "the Morrow one" takes its noun from the phrase."""
    head = next((one.head for one in find_phrases(phrase.text) if one.head), "")
    new = re.sub(r"\bones?\b", lambda _: head, part) if head else part
    words = phrase.words
    keeps_article = (
        words[0].casefold() in DETERMINERS and new.split()[0].casefold() not in DETERMINERS
    )
    if keeps_article and not find_phrases(new)[:1]:
        new = f"{words[0]} {new}"
    elif keeps_article and len(words) > 2 and len(new.split()) == 1 and phrase.is_name:
        # "the namespace kube-node-lease" → "the namespace kube-public"
        kept = [word for word in words if word[:1].islower() and "-" not in word]
        new = " ".join((*kept, new))
    before, after = question[: phrase.start].strip(), question[phrase.end :].strip(" ?!.")
    is_last_word_asked = before.casefold() in _IS and not after and len(words) > 2
    if is_last_word_asked and words[-1].casefold() not in new.casefold().split():
        new = f"{new} {words[-1]}"  # "Is the sourdough vegan?": the last word is what is asked
    return f"{question[: phrase.start]}{new}{question[phrase.end :]}"
