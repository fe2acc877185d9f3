"""Recognise requests about documents as a whole: summaries, overviews, lists of documents.

text → a request with its kind and subject, or None. The rules look at the form of a request; which
documents are meant is decided by the catalog.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias

from ragstone.index.analyze import extract_query_terms

# A longer message is a question with its context.
_MAX_CHARS = 300
_MAX_PHRASE_WORDS = 4
RequestKind: TypeAlias = Literal["summary", "overview", "catalog", "compose"]


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """Hold a request about documents: what is wanted, and of which documents."""

    kind: RequestKind
    subject: str = ""
    is_strict: bool = True
    """False when the words may also ask a question; the documents decide."""


_POLITE = (
    r"(?:(?:please|pls|kindly|hi|hello|hey|now|ok|could you|can you|would you|will you|i need|"
    r"i want|i would like|i'd like|give|show|write|provide|make|create|prepare|get|me|us|you|to|"
    r"bitte|kannst du|können sie|könnten sie|könntest du|gib|geben sie|mir|uns|ich brauche|"
    r"por favor|puedes|puede|podrías|dame|hazme|s'il te plaît|s'il vous plaît|peux-tu|pouvez-vous|"
    r"donne-moi|donnez-moi|fais-moi|per favore|puoi|dammi|fammi|pode|alsjeblieft|kun je|kunt u|"
    r"geef|пожалуйста|можешь|дай)[\s,]+|(?:请你?|帮我)[\s,]*)*"
)
_SUMMARY_VERB = re.compile(
    rf"^{_POLITE}(?:(?:summari[sz]e|sum\s+up|recap|condense|tl;?\s?dr:?)\b\s*(?P<x>.*)"
    r"|(?:fass|fasse|fassen sie|fasst)\b\s*(?P<de>.+?)\s+(?:kurz\s+|knapp\s+)?zusammen\b.*"
    r"|vat\s+(?P<nl>.+?)\s+samen\b.*"
    r"|(?P<de2>.+?)\s+zusammenfassen\b.*"
    r"|(?:résume[zr]?|resum[ai]r?|resúm[ea]n?(?:me)?|riassum(?:i|ere|a|imi)|"
    r"resume(?=\s+(?:el|los|las|este|esta|estos|estas|os|as|o\s+(?:contrato|documento))\b))\b"
    r"\s*(?P<ro>.*)"
    r"|(?:обобщи(?:те)?|кратко изложи(?:те)?|перескажи(?:те)?)\b\s*(?P<ru>.*)"
    r"|(?:总结|概括)(?:一下)?\s*(?P<zh>.*))$",
    re.IGNORECASE | re.DOTALL,
)
_NOUN = (
    r"(?:summary|summaries|overview|gist|outline|abstract|recap|digest|synopsis|tl;?dr|"
    r"(?:key|main|most important)\s+(?:points|takeaways|ideas|facts|messages|findings)|"
    r"zusammenfassung|überblick|übersicht|kurzfassung|wichtigsten punkte|résumé|aperçu|"
    r"points (?:clés|principaux)|resumen|puntos (?:clave|principales)|resumo|pontos principais|"
    r"riassunto|sintesi|punti principali|samenvatting|overzicht|краткое содержание|обзор)"
)
_SUMMARY_NOUN = re.compile(
    rf"^{_POLITE}(?:(?:what|was|quels|quali|quais|cuáles|wat)\s+(?:are|is|sind|ist|sont|son|sono|são|zijn)\s+)?"
    r"(?:(?:a|an|the|short|brief|quick|concise|good|high-level|executive|one-paragraph|eine?n?|die|"
    r"den|das|kurze?n?|un|une|le|les|la|uno?|i|o|os|um|een|de|het|bref|breve|corto)\s+)*"
    rf"{_NOUN}\s*(?:(?:of|about|on|from|for|in|over|von|vom|der|des|über|zu|zum|zur|aus|de|del|du|"
    r"d'|di|della?|do|da|van|по|о)\b|:)\s*(?P<x>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_SUMMARY_END = re.compile(
    r"^(?!(?:who|what|when|where|why|how|which|is|are|does|do|did|was|were|can|wer|wann|wo|wie|qui|"
    r"quand|où)\b)(?P<x>.{3,80}?)[\s,:–-]+(?:summary|tl;?dr|in brief|in a nutshell|"
    r"zusammenfassung|resumen|samenvatting|riassunto|resumo)\s*[?.!]*$",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"^(?:what(?:'s|’s|s| is| are)\s+(?P<x>.{3,80}?)\s+(?:all\s+)?about"
    r"|wor(?:um geht es|über handelt|über geht es)\s+in\s+(?P<de>.{3,80}?)"
    r"|wovon handel[nt]\s+(?P<de2>.{3,80}?)"
    r"|de quoi (?:parle(?:nt)?|traite(?:nt)?|s'agit-il dans)\s+(?P<fr>.{3,80}?)"
    r"|[¿]?de qu[ée] (?:se )?(?:trata[nm]?|habla[nm]?|fala[nm]?|va[n]?)\s+(?P<es>.{3,80}?)"
    r"|di (?:che )?cosa (?:tratta(?:no)?|parla(?:no)?)\s+(?P<it>.{3,80}?)"
    r"|waar gaa[nt]\s+(?P<nl>.{3,80}?)\s+over"
    r"|о ч[её]м\s+(?:говорится в\s+|рассказыва\w+\s+)?(?P<ru>.{3,80}?))\s*[?？.!]*$",
    re.IGNORECASE,
)
# All documents at once, in words that name none.
_ALL = (
    r"(?:(?:all|of|the|these|those|this|my|our|your|uploaded|ingested|indexed|whole|entire|in|alle[nr]?|"
    r"die|diese[nrs]?|den|meine[nr]?|unsere[nr]?|der|dem|tous|toutes|les|ces|mes|nos|todos|los|estos|"
    r"mis|nuestros|tutti|i|questi|miei|nostri|os|estes|esses|meus|nossos|deze|mijn|onze|de|het|все|всех|"
    r"эти|этих|мои|наши)\s+)*"
    r"(?:documents?|docs?|files?|collection|library|knowledge\s*base|corpus|archive|uploads?|sources?|"
    r"papers?|texts?|pdfs?|everything|dokumente?n?|dateien|sammlung|unterlagen|bibliothek|fichiers?|"
    r"documentos?|archivos|colección|coleção|documenti?|collezione|raccolta|documenten|bestanden|"
    r"collectie|документ\w*|файл\w*|коллекци\w*)(?:\s+(?:here|i uploaded|i have|we have))?"
)
_IS_ALL = re.compile(
    rf"^(?:{_ALL}|all of (?:it|them)|it all|alles|todo|tout|tutto)\s*[?.!]*$", re.IGNORECASE
)
_OVERVIEW = re.compile(
    r"^(?:(?:what|which)\s+(?:kinds? of\s+)?(?:topics?|subjects?|themes?|areas?|things|content)\s+"
    rf"(?:do|does|are|is)\s+(?:covered\s+(?:in|by)\s+|in\s+|discussed\s+in\s+)?{_ALL}"
    r"(?:\s+(?:cover(?:ed)?|deal with|contain|discuss(?:ed)?|include|about|talk about))?"
    rf"|what\s+do(?:es)?\s+{_ALL}\s+(?:cover|contain|deal with|discuss|include|talk about|say)"
    rf"|what(?:'s|’s| is)\s+in\s+{_ALL}"
    r"|what(?:'s|’s| is)\s+in\s+here"
    r"|what (?:can|could|should) i ask(?: you)?(?: about)?(?: here)?"
    r"|what do you know(?: about)?"
    rf"|(?:welche|was für)\s+themen\b.{{0,40}}{_ALL}.{{0,20}}|was steht in\s+{_ALL}"
    rf"|quels (?:sont les )?(?:sujets|thèmes)\b.{{0,40}}{_ALL}.{{0,20}}"
    rf"|[¿]?qu[ée] temas\b.{{0,40}}{_ALL}.{{0,20}}"
    rf"|quali (?:temi|argomenti)\b.{{0,40}}{_ALL}.{{0,20}}"
    rf"|que (?:temas|assuntos)\b.{{0,40}}{_ALL}.{{0,20}}"
    rf"|welke onderwerpen\b.{{0,40}}{_ALL}.{{0,20}}"
    rf"|какие темы\b.{{0,40}}{_ALL}.{{0,20}}"
    r"|(?:这些|这个|所有)?(?:文件|文档|资料).{0,6}(?:讲什么|关于什么|是什么内容|有哪些主题|的主题是什么))"
    r"\s*[?？.!]*$",
    re.IGNORECASE,
)
_THERE = (
    r"(?:(?:do|did|have)\s+(?:we|you|i)\s+(?:have|got|hold|know|upload(?:ed)?)|are\s+(?:there|available|"
    r"stored|indexed|uploaded|here)|exist|(?:have been|were)\s+(?:uploaded|ingested|indexed|added)|"
    r"gibt es|haben wir|hast du|liegen vor|sind (?:vorhanden|da)|avons-nous|y a-t-il|as-tu|hay|"
    r"tenemos|tienes|existen|ci sono|abbiamo|existem|temos|há|zijn er|hebben we|есть|у нас есть)"
)
_PLACE = (
    r"(?:\s+(?:in|im|in der|dans|en|nella?|na|no|в)\s+(?:the\s+|this\s+|our\s+|my\s+|der\s+|la\s+|"
    r"het\s+|de\s+)?(?:collection|library|knowledge\s*base|catalog|archive|index|sammlung|bibliothek|"
    r"colección|collezione|collectie|коллекции))?"
)
_CATALOG = re.compile(
    rf"^(?:{_POLITE}(?:list|show|name|enumerate|liste|zeige?n?|nenne|lista|enumera|muestra|affiche|"
    r"énumère|elenca|mostra|mostre|liste|toon|noem|перечисли(?:те)?|покажи(?:те)?)\s+"
    r"(?:(?:me|us|mir|uns|all|every|of|the|our|my|alle|alle[nr]?|die|sämtliche|tous|toutes|les|todos|"
    r"todas|los|las|tutti|tutte|i|gli|le|os|as|de|het|все)\s+)*(?P<list>.{3,60}?)"
    rf"(?:\s+{_THERE}|\s+auf)?{_PLACE}"
    rf"|(?:which|what|welche|quels|quelles|qué|quali|quais|welke|какие)\s+(?P<which>.{{3,60}}?)\s+"
    rf"(?:{_THERE}){_PLACE}"
    r"|(?:how many|number of|wie viele|wieviele|combien (?:de |d')|cuánt[oa]s|quant[ie]|quant[oa]s|"
    rf"hoeveel|сколько)\s*(?P<count>.{{3,60}}?)(?:\s+(?:{_THERE}|are))?{_PLACE}"
    r"|列出(?:所有)?(?P<zh>.{1,20}))\s*[?？.!]*$",
    re.IGNORECASE,
)
_COMPOSE = re.compile(
    rf"^{_POLITE}(?:(?:write|draft|compose|schreibe?|verfasse|écris|rédige|escribe|redacta|scrivi|"
    r"escreva|schrijf|напиши(?:те)?)\s+(?:(?:me|us|mir|an?|the|eine?n?|une?|uno?|una|um|uma|een|"
    r"short|formal|polite|friendly|brief|kurzen?)\s+)*(?:e-?mails?|letter|poem|essay|story|"
    r"blog ?post|speech|message|reply|article|tweet|song|press release|memo|brief|gedicht|"
    r"aufsatz|lettre|poème|carta|poema|correo|lettera|poesia|письмо|стих\w*)\b"
    r"|(?:translate|übersetze?|traduis|traduce|traduci|traduza|vertaal|переведи(?:те)?)\b"
    r"|(?:rewrite|rephrase|paraphrase|brainstorm|reformuliere)\b|翻译|写一(?:封|首|篇))",
    re.IGNORECASE,
)
_COMPARISON = re.compile(
    rf"^{_POLITE}(?:compare|contrast|vergleiche?n?(?: sie)?|comparez?|compar[ae]|confronta|"
    r"vergelijk|сравни(?:те)?)\s+(?P<a>.+?)\s+(?:and|with|to|against|vs\.?|versus|und|mit|et|avec|y|con|e|com|"
    r"en|met|и|с)\s+(?P<b>.+?)\s*[?.!]*$",
    re.IGNORECASE,
)
_TOPIC = re.compile(
    r"\s+(?:about|on|regarding|concerning|that (?:mention|describe|deal with|cover)|mentioning|"
    r"covering|describing|with|for|from|über|zum thema|zu|sur|sobre|su|riguardo a|over|о|об|по)\s+",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(r"\w\.\w{2,5}\b")
_LENGTH = re.compile(
    r"[\s,]+(?:in|into|with|using|as|mit)\s+(?:about\s+|at most\s+|no more than\s+|max\s+)?"
    r"(?:\w+\s+)?(?:short\s+|brief\s+)?(?:sentences?|words?|bullets?|bullet points?|points|lines?|"
    r"paragraphs?|a nutshell|brief|short|sätzen?|worten|stichpunkten)\b.*$"
    r"|[\s,]+(?:for me|for us|please|briefly|shortly|bitte|por favor|s'il (?:te|vous) plaît)\s*$",
    re.IGNORECASE,
)  # fmt: skip


def match_request(text: str) -> DocumentRequest | None:
    """Return the request that a text makes about documents as a whole; None for a question."""
    plain = " ".join(text.split())
    if len(plain) > _MAX_CHARS:
        return None
    if _COMPOSE.match(plain):
        return DocumentRequest("compose", plain)
    if _OVERVIEW.match(plain):
        return DocumentRequest("overview")
    for pattern, is_strict in ((_SUMMARY_VERB, True), (_SUMMARY_NOUN, True), (_ABOUT, False),
                               (_SUMMARY_END, False)):  # fmt: skip
        if match := pattern.match(plain):
            return _make_summary(match, is_strict=is_strict)
    if match := _CATALOG.match(plain):
        subject = next((one for one in match.groups() if one), "")
        if names_documents(split_topic(subject)[0]):
            return DocumentRequest("catalog", subject.strip(), is_strict=False)
    return None


def match_comparison(text: str) -> tuple[str, str] | None:
    """Return the two documents that a text asks to compare; None if it names none."""
    match = _COMPARISON.match(" ".join(text[:_MAX_CHARS].split()))
    sides = (match["a"], match["b"]) if match else None
    # "Compare Secrets and ConfigMaps" compares two things, also where documents have these names.
    is_named = sides is not None and any(_names_document(side) for side in sides)
    return sides if is_named else None


def _names_document(phrase: str) -> bool:
    return bool(find_document_kinds(phrase)) or _FILE_NAME.search(phrase) is not None


def needs_model(text: str) -> bool:
    """Return True when a text asks to write, rewrite or translate something."""
    request = match_request(text)
    return request is not None and request.kind == "compose"


def _make_summary(match: re.Match[str], *, is_strict: bool) -> DocumentRequest:
    subject = next((one for one in match.groups() if one), "").strip(" ?.!,:;\"'“”„«»")
    subject = _LENGTH.sub("", subject).strip(" ?.!,:;\"'“”„«»")
    if not subject or _IS_ALL.match(subject):
        return DocumentRequest("overview")
    return DocumentRequest("summary", subject, is_strict=is_strict)


def split_topic(subject: str) -> tuple[str, str]:
    """Cut "documents about backups" into the kind of documents and what they are about."""
    head, *rest = _TOPIC.split(subject, maxsplit=1)
    return head.strip(), rest[0].strip() if rest else ""


_OF = re.compile(r"^(\S+)\s+(?:de|du|des|del|della?|di|do|da|dos|van|von)\b", re.IGNORECASE)


def names_documents(phrase: str) -> bool:
    """Return True when the head of a phrase is a kind of document: "safety policies"."""
    words = phrase.split()
    if not words or len(words) > _MAX_PHRASE_WORDS:
        return False
    first = _OF.match(phrase)  # "autores del artículo" are authors, not articles
    return bool(find_document_kinds(first[1] if first else words[-1]))


def find_document_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of documents that the words of a text name."""
    words = _split_words(text)
    return tuple(kind for kind, names in _load_kinds().items() if any(w in names for w in words))


def list_kind_words(kind: str) -> frozenset[str]:
    """Return the words by which documents of a kind are named."""
    return _load_kinds()[kind]


@cache
def list_light_terms() -> frozenset[str]:
    """Return the terms that say nothing of what a request is about."""
    return frozenset(
        t for word in _load_tables()["light"]["words"].split() for t in extract_query_terms(word)
    )


_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


def _split_words(text: str) -> list[str]:
    plain = text.casefold()
    words: list[str] = _WORD.findall(plain)
    for run in _CJK.findall(plain):
        words += [run[at : at + size] for size in (1, 2, 4) for at in range(len(run) - size + 1)]
    return words


@cache
def _load_kinds() -> dict[str, frozenset[str]]:
    tables = _load_tables()
    kinds = {name: frozenset(words.split()) for name, words in tables["kinds"].items()}
    return kinds | {name: frozenset(words.split()) for name, words in tables["endings"].items()}


@cache
def _load_tables() -> dict[str, dict[str, str]]:
    text = resources.files(__package__).joinpath("documents.toml").read_text("utf-8")
    return tomllib.loads(text)
