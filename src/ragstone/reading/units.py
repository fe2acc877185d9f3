"""Split a text into units to read: sentences, and rows of tables with their header.

Document texts are not trusted: `has_instructions` finds text that speaks to a model, and
`escape_markers` changes text that looks like a marker of an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ragstone.text import find_sentence_spans

_RULE = re.compile(r"^[\s|:\-–+=]*$")


@dataclass(frozen=True, slots=True)
class Unit:
    """Hold a sentence, or the row of a table, at `text[start:end]`."""

    start: int
    end: int
    text: str
    header: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return it as a sentence: a row becomes its cells under their headings."""
        return describe_row(self.header, self.text) if self.header else self.text


def split_units(text: str) -> list[Unit]:
    """Return the sentences of a text and the rows of its tables, without rules and header rows."""
    found: list[Unit] = []
    header: tuple[str, ...] = ()
    for start, end in find_sentence_spans(text):
        part = text[start:end]
        if _RULE.match(part):
            continue
        if not part.startswith("|"):
            header = ()
        elif not header:
            header = split_cells(part)
            continue
        found.append(Unit(start, end, part, header))
    return found


def split_cells(row: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in row.strip().strip("|").split("|"))


def describe_row(header: tuple[str, ...], row: str) -> str:
    """Return `Adult: Day visit €16, Evening programme €24.`; a row that does not fit the header
    stays as it is."""
    own = split_cells(row)
    if len(own) != len(header) or len(own) < 2:
        return " ".join(row.split())
    pairs = [f"{name} {cell}".strip() for name, cell in zip(header[1:], own[1:], strict=True)]
    return f"{own[0]}: {', '.join(pairs)}."


_INSTRUCTIONS = (
    # tells the reader to ignore earlier instructions
    r"\b(?:ignore|disregard|forget|override|bypass|discard|skip)\b[^.\n]{0,40}"
    r"\b(?:previous|prior|above|earlier|preceding|all|any|your|the|these|other|system)\b[^.\n]{0,30}"
    r"\b(?:instructions?|prompts?|rules?|guidelines?|directions?|context|messages?|documents?|"
    r"sources?|constraints?|restrictions?|polic(?:y|ies))\b",
    r"\b(?:ignoriere|vergiss|missachte)\b[^.\n]{0,60}\b(?:anweisung\w*|regeln|vorgaben|befehle)\b",
    r"\b(?:ignore[zr]?|oublie[zr]?)\b[^.\n]{0,60}\b(?:instructions?|consignes?|règles?)\b",
    r"\b(?:ignora|olvida)\b[^.\n]{0,60}\b(?:instrucciones|reglas|indicaciones)\b",
    r"\b(?:игнорируй\w*|забудь\w*)\b[^.\n]{0,60}\b(?:инструкци\w*|указани\w*|правила)\b",
    # gives the reader a new role
    r"\byou are (?:now|no longer|from now on)\b|\bfrom now on,? you\b|\bact as (?:an?|if|the)\b"
    r"|\bpretend (?:to be|that you|you are)\b|\byour (?:new )?(?:task|role|job|goal) is\b"
    r"|\bdeveloper mode\b|\bjailbr\w+|\bDAN mode\b|\bdu bist (?:jetzt|ab sofort)\b",
    r"\bnew (?:system )?(?:instructions?|prompt|rules?|directive)\b|\bsystem (?:prompt|override|"
    r"message|instruction)s?\b|\b(?:hidden|secret|initial|original) (?:prompt|instructions?)\b",
    # says what an assistant must or must not answer
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
    # markup of chat messages
    r"<\|?(?:im_start|im_end|system|endoftext|assistant|user|eot_id|start_header_id)\|?>"
    r"|\[/?INST\]|<</?SYS>>|</?(?:system|instructions?|prompt|assistant|admin)>"
    r"|^\s*#{1,4} ?(?:system|instructions?|assistant|response|new task)\b:?"
    r"|^\s*(?:system|assistant|user|human|AI)\s?:\s"
    r"|\b(?:BEGIN|END) (?:OF )?(?:SYSTEM|PROMPT|INSTRUCTIONS?|CONTEXT|DOCUMENTS?)\b",
    # a picture or a link that carries data away
    r"!\[[^\]]*\]\(https?://[^)]*(?:\{|%7B|\?(?:q|d|data|secret|c)=)",
)
_INSTRUCTION = re.compile(
    "|".join(f"(?:{pattern})" for pattern in _INSTRUCTIONS), re.IGNORECASE | re.MULTILINE
)
# Invisible characters between the letters of a word: "ig​nore".
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]"
)


def find_instructions(text: str) -> list[tuple[int, int]]:
    """Return the spans of a text that read like instructions to a model."""
    return list(_find_instructions(text))


# The same passages are read for one question after the other.
@lru_cache(maxsize=16_384)
def _find_instructions(text: str) -> tuple[tuple[int, int], ...]:
    if not _INVISIBLE.search(text):
        return tuple(m.span() for m in _INSTRUCTION.finditer(text) if m[0])
    visible = [place for place, letter in enumerate(text) if not _INVISIBLE.match(letter)]
    plain = "".join(text[place] for place in visible)
    return tuple(
        (visible[m.start()], visible[m.end() - 1] + 1) for m in _INSTRUCTION.finditer(plain) if m[0]
    )


def has_instructions(text: str) -> bool:
    return bool(find_instructions(text))


MARKER_BY_NUMBER = re.compile(
    r"\[\s*Sources?\s*[#:]?\s*"
    r"(\d{1,4}(?:\s*(?:,|;|and|&)\s*(?:Sources?\s*)?\d{1,4})*)"
    r"\s*(?:[,:;–-]\s*\D[^\[\]\n]{0,60})?\]",
    re.IGNORECASE,
)
MARKER_BY_CHUNK = re.compile(r"\[([\w.-]{1,80}:\d{1,6}(?:\s*[,;]\s*[\w.-]{1,80}:\d{1,6})*)\]")


def escape_markers(text: str) -> str:
    """Change text of a document that looks like a marker, so that it cannot become one."""
    text = MARKER_BY_NUMBER.sub(lambda match: f"({match[0][1:-1]})", text)
    return MARKER_BY_CHUNK.sub(r"(\1)", text)
