#!/usr/bin/env python3
"""Build and check the sample documents of the demo.

    python scripts/build_samples.py            write the two sample PDFs
    python scripts/build_samples.py --check    check documents and questions.jsonl

Building needs ``reportlab`` (BSD licence), checking needs ``pypdfium2``. Neither
the build nor the check reaches the network. The PDFs are written in reportlab's
invariant mode and without compression, so that the same reportlab version gives
the same bytes on every machine.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "src" / "ragstone" / "samples"
DOCUMENTS = SAMPLES / "documents"
QUESTIONS = SAMPLES / "questions.jsonl"
MAX_PDF_BYTES = 40_000

# ---------------------------------------------------------------------------
# The text of the PDFs. Items are (kind, content):
#   title, subtitle, h1, h2, p, table (rows; the first row is the header), page
# Only characters of WinAnsi are used, because the standard fonts have no others.
# ---------------------------------------------------------------------------

SPECIFICATIONS = {
    "path": "manuals/telescope-specifications.pdf",
    "title": "Telescope Specifications",
    "footer": "Kestrel Ridge Observatory – Telescope Specifications, edition 3",
    "author": "Kestrel Ridge Observatory Trust",
    "items": [
        ("title", "Telescope Specifications"),
        ("subtitle", "Kestrel Ridge Observatory – Edition 3, June 2022"),
        ("h1", "1 Overview"),
        (
            "p",
            "The observatory has three permanently mounted telescopes. The Halden reflector "
            "serves research and evening programmes, the Morrow refractor is used by visitors "
            "and student groups, and the Sperber solar telescope is used during the day. This "
            "document gives the figures that observers need to plan their work. Instruments "
            "are described in the instrument list.",
        ),
        (
            "p",
            "Edition 3 replaces edition 2 of November 2016. The main changes are the new "
            "encoders of the Halden reflector, fitted in 2021, and the values for the solar "
            "telescope, which was bought in 2019.",
        ),
        (
            "table",
            [
                ["Telescope", "Aperture", "Focal length", "Focal ratio", "Mount"],
                ["Halden reflector", "1,200 mm", "9,600 mm", "f/8", "fork, equatorial"],
                ["Morrow refractor", "250 mm", "3,000 mm", "f/12", "German, equatorial"],
                ["Sperber solar telescope", "100 mm", "800 mm", "f/8", "German, equatorial"],
            ],
        ),
        ("caption", "Table 1. The three telescopes."),
        ("h1", "2 Halden reflector"),
        ("h2", "2.1 Optics"),
        (
            "p",
            "The Halden reflector is a Ritchey–Chrétien telescope with a primary mirror of glass "
            "ceramic. The central obstruction has a diameter of 420 mm, which leaves a "
            "collecting area of 0.99 square metres. In the Cassegrain focus one millimetre "
            "corresponds to 21.5 arcseconds on the sky.",
        ),
        (
            "p",
            "The reflectivity of the primary mirror was 86.1 % in June 2022, measured at 550 nm. "
            "Newer values are entered in the mirror recoating log.",
        ),
        ("page", None),
        (
            "table",
            [
                ["Property", "Primary mirror", "Secondary mirror"],
                ["Diameter", "1,200 mm", "380 mm"],
                ["Thickness at the edge", "180 mm", "65 mm"],
                ["Mass", "487 kg", "16 kg"],
                ["Central hole", "280 mm", "none"],
                ["Surface error (RMS)", "22 nm", "15 nm"],
                ["Coating", "aluminium", "protected silver"],
            ],
        ),
        ("caption", "Table 2. Mirrors of the Halden reflector."),
        ("h2", "2.2 Mount and drives"),
        (
            "p",
            "The moving parts of the telescope weigh 8.4 tonnes. Both axes are driven by "
            "friction wheels. The telescope slews at up to 1.5° per second, so a change from "
            "one horizon to the other takes about two minutes. It cannot be pointed lower than "
            "18° above the horizon, because the dome parapet is in the way.",
        ),
        (
            "table",
            [
                ["Quantity", "Value", "Remark"],
                ["Pointing error (RMS)", "6 arcseconds", "after the pointing model of May 2022"],
                ["Tracking error without guiding", "0.9 arcseconds in 5 minutes", "at the zenith"],
                [
                    "Tracking error with guiding",
                    "0.2 arcseconds in 30 minutes",
                    "with the guide camera",
                ],
                ["Slewing speed", "1.5° per second", "both axes"],
                ["Lowest altitude", "18°", "software limit"],
            ],
        ),
        ("caption", "Table 3. Pointing and tracking of the Halden reflector."),
        ("h2", "2.3 Focus"),
        (
            "p",
            "The telescope is focused by moving the secondary mirror, in steps of 2 µm. When the "
            "temperature of the tube falls by 1 °C the focus moves by 38 µm; the control "
            "program corrects this by itself every five minutes. After a change of filter the "
            "observer should check the focus on a star of about magnitude 8.",
        ),
        ("page", None),
        ("h1", "3 Morrow refractor"),
        (
            "p",
            "The Morrow refractor was built in 1911 and has a lens of two elements. The "
            "clockwork drive was replaced by an electric motor in 1974, but it has been "
            "preserved and is shown in the exhibition. The tube is 3.4 m long and the moving "
            "parts weigh 640 kg.",
        ),
        (
            "table",
            [
                ["Eyepiece", "Magnification", "Field of view", "Recommended for"],
                ["60 mm", "50 times", "60 arcminutes", "star clusters"],
                ["40 mm", "75 times", "40 arcminutes", "the whole Moon"],
                ["25 mm", "120 times", "30 arcminutes", "double stars"],
                ["12 mm", "250 times", "14 arcminutes", "planets in steady air"],
            ],
        ),
        ("caption", "Table 4. Eyepieces of the Morrow refractor."),
        (
            "p",
            "Magnifications above 250 times are not useful on the ridge, because the air is "
            "rarely steady enough. The lens must not be wiped; dust is removed with a rubber "
            "blower only.",
        ),
        ("h1", "4 Sperber solar telescope"),
        (
            "p",
            "The Sperber solar telescope shows the Sun in the light of hydrogen at 656.3 nm. Its "
            "filter has a bandwidth of 0.05 nm and is heated to 42 °C; it needs about 25 minutes "
            "to warm up. A second tube of 80 mm aperture, fitted with a white-light filter, "
            "shows sunspots.",
        ),
        (
            "p",
            "The filter is rated for 6,000 hours of use and has to be sent to the maker for "
            "inspection every five years. The next inspection is due in August 2024.",
        ),
        ("page", None),
        ("h1", "5 Environmental limits"),
        (
            "p",
            "The limits in this section were set in June 2022. The dome may be open only while "
            "all of the conditions for the dome in Table 5 are met.",
        ),
        (
            "table",
            [
                ["Quantity", "Halden dome", "Morrow dome", "Drive electronics"],
                ["Mean wind speed, at most", "15 m/s", "12 m/s", "no limit"],
                ["Relative humidity, at most", "90 %", "85 %", "95 %"],
                ["Lowest temperature", "-20 °C", "-15 °C", "-25 °C"],
                ["Highest temperature", "+28 °C", "+30 °C", "+35 °C"],
            ],
        ),
        ("caption", "Table 5. Environmental limits, as of June 2022."),
        (
            "p",
            "The drive electronics tolerate a wider range of temperatures than the domes. For "
            "this reason the control room may be used for tests when the domes are closed.",
        ),
        ("h1", "6 Electrical supply"),
        (
            "p",
            "The Halden reflector and its dome draw 11 kW while slewing and 3.5 kW while "
            "tracking. The battery room supplies the telescope for 40 minutes after a mains "
            "failure, which is enough to park it and to close the shutter once. The diesel "
            "generator starts after 20 seconds and has fuel for 36 hours.",
        ),
        ("h1", "7 Responsibility"),
        (
            "p",
            "Questions about this document are answered by the chief observing technician, "
            "Mei-Lin Okafor. Changes are approved by the director, Dr. Inés Halvorsen.",
        ),
    ],
}

LEASE = {
    "path": "contracts/lease-of-the-ridge.pdf",
    "title": "Lease of the Ridge",
    "footer": "Lease of the Ridge – Commune of Valmière / Kestrel Ridge Observatory Trust",
    "author": "Commune of Valmière",
    "items": [
        ("title", "Lease of the Ridge"),
        ("subtitle", "Signed at Valmière on 11 May 2009"),
        (
            "p",
            "This lease is made between the Commune of Valmière, represented by its mayor, "
            'Hélène Sautier (the "Landlord"), and the Kestrel Ridge Observatory Trust, '
            'represented by its director, Dr. Walter Nägeli (the "Tenant"). It replaces the '
            "lease of 4 April 1936.",
        ),
        ("h1", "1 Object of the lease"),
        (
            "p",
            "1.1 The Landlord lets to the Tenant parcel No. 1182 of the land register of "
            "Valmière, with an area of 3.6 hectares, as marked in red on the plan in Annex 1.",
        ),
        (
            "p",
            "1.2 The buildings on the parcel are the property of the Tenant. The cable car and "
            "its top station are not part of this lease.",
        ),
        (
            "p",
            "1.3 The parcel may be used only for an astronomical observatory that is open to the "
            "public, and for the services that visitors of such an observatory need.",
        ),
        ("h1", "2 Term"),
        (
            "p",
            "2.1 The lease begins on 1 July 2009 and is concluded for 30 years. It ends on "
            "30 June 2039 without notice being required.",
        ),
        (
            "p",
            "2.2 The Tenant may extend the lease once by 15 years. The request must reach the "
            "Landlord in writing no later than 30 June 2037.",
        ),
        (
            "p",
            "2.3 From 1 July 2019 either party may terminate the lease with eighteen months' "
            "written notice, with effect from 30 June of any year.",
        ),
        (
            "p",
            "2.4 The Landlord may terminate the lease early, with six months' notice, if the "
            "observatory has been closed to the public for more than 24 months in succession.",
        ),
        ("page", None),
        ("h1", "3 Rent"),
        ("h2", "3.1 Amount"),
        (
            "p",
            "The rent is EUR 18,400 per year. It is payable in two equal instalments, on "
            "15 January and on 15 July.",
        ),
        ("h2", "3.2 Adjustment"),
        (
            "p",
            "The rent is adjusted every five years to the national consumer price index. No "
            "adjustment may exceed 8 % of the rent paid before.",
        ),
        (
            "table",
            [
                ["Valid from", "Yearly rent", "Each instalment"],
                ["1 July 2009", "EUR 18,400", "EUR 9,200"],
                ["1 July 2014", "EUR 19,320", "EUR 9,660"],
                ["1 July 2019", "EUR 20,090", "EUR 10,045"],
                ["1 July 2024", "EUR 21,690", "EUR 10,845"],
            ],
        ),
        ("caption", "Schedule of rent, supplemented by the parties on 3 June 2024."),
        ("h2", "3.3 Late payment"),
        (
            "p",
            "Rent that is paid late bears interest at 4 % per year. If the Tenant is more than "
            "90 days late with an instalment, the Landlord may demand security of one yearly "
            "rent.",
        ),
        ("h2", "3.4 Benefit for residents"),
        (
            "p",
            "In return for the reduced rent, the Tenant admits residents of the Commune free of "
            "charge on the first Sunday of every month and offers every school class of the "
            "Commune one free visit per school year.",
        ),
        ("h1", "4 Access and snow clearing"),
        (
            "p",
            "4.1 The Landlord maintains the ridge road up to the chain gate at kilometre 4.2. "
            "Beyond the gate, maintenance is the duty of the Tenant.",
        ),
        (
            "p",
            "4.2 The Landlord is not obliged to clear snow from the road between 1 November and "
            "31 May. If the Tenant needs the road in that period, it bears the cost of "
            "clearing.",
        ),
        (
            "p",
            "4.3 Vehicles heavier than 12 tonnes need the consent of the Landlord, because the "
            "bridge over the Orsel stream has not been built for greater loads.",
        ),
        ("page", None),
        ("h1", "5 Protection of the dark sky"),
        (
            "p",
            "5.1 The Landlord will not permit any new outdoor lighting within 1,500 m of the "
            "Halden dome that shines above the horizontal.",
        ),
        (
            "p",
            "5.2 The lighting of the ski slope on the west side is switched off by 21:30 between "
            "1 December and 31 March, except on four evenings a year that are announced "
            "30 days in advance.",
        ),
        (
            "p",
            "5.3 If the Landlord breaks clause 5.1, the rent is reduced by 10 % until the "
            "lighting has been removed.",
        ),
        ("h1", "6 Building and nature"),
        (
            "p",
            "6.1 New buildings need the consent of the Landlord and may not be higher than 14 m. "
            "The existing Halden dome, with a height of 17.5 m, is exempt.",
        ),
        (
            "p",
            "6.2 The meadow south of the domes may not be mown before 15 July, because kestrels "
            "and whinchats breed there.",
        ),
        (
            "p",
            "6.3 Waste water is led to the treatment plant in the valley. Chemicals used for "
            "coating mirrors must be collected and taken to a licensed firm.",
        ),
        ("h1", "7 Liability and insurance"),
        (
            "p",
            "7.1 The Tenant maintains public liability insurance of at least EUR 5,000,000 and "
            "insures the buildings against fire and storm at their replacement value.",
        ),
        (
            "p",
            "7.2 The Landlord is not liable for damage caused by avalanches, rockfall or "
            "lightning, except in cases of gross negligence.",
        ),
        ("h1", "8 Subletting"),
        (
            "p",
            "The Tenant may sublet rooms for a café and for scientific instruments of other "
            "institutions. Any other subletting needs the written consent of the Landlord, "
            "which has to answer a request within 60 days.",
        ),
        ("page", None),
        ("h1", "9 End of the lease"),
        (
            "p",
            "9.1 At the end of the lease the Tenant removes the telescopes and all technical "
            "equipment within 12 months.",
        ),
        (
            "p",
            "9.2 The Landlord may choose to take over the buildings at their current value. If "
            "it does not do so, the Tenant demolishes them and restores the meadow.",
        ),
        (
            "p",
            "9.3 To secure this duty the Tenant pays EUR 4,000 every year into a blocked "
            "account. The payments end when the account holds EUR 120,000.",
        ),
        ("h1", "10 Disputes"),
        (
            "p",
            "Before going to court the parties try to settle a dispute by mediation. If "
            "mediation has not succeeded after four months, the courts at Valmière decide.",
        ),
        ("h1", "11 Signatures"),
        (
            "p",
            "For the Landlord: Hélène Sautier, mayor. For the Tenant: Dr. Walter Nägeli, director.",
        ),
        ("p", "Annex 1: plan of parcel No. 1182. Annex 2: list of existing buildings."),
    ],
}

PDFS = [SPECIFICATIONS, LEASE]


def build_pdf(spec: dict, target: Path) -> None:
    """Write one PDF: A4, Helvetica, headings in larger type, a footer on each page."""
    from reportlab.lib import colors
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import ParagraphStyle
    from reportlab.lib.units import mm
    from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table, TableStyle

    def style(name: str, size: float, bold: bool = False, before: float = 0, after: float = 6):
        return ParagraphStyle(
            name,
            fontName="Helvetica-Bold" if bold else "Helvetica",
            fontSize=size,
            leading=size * 1.4,
            spaceBefore=before,
            spaceAfter=after,
            keepWithNext=1 if bold else 0,
        )

    styles = {
        "title": style("title", 22, bold=True, after=4),
        "subtitle": style("subtitle", 12, after=14),
        "h1": style("h1", 15, bold=True, before=12),
        "h2": style("h2", 12.5, bold=True, before=8, after=4),
        "p": style("p", 10.5, after=7),
        "caption": style("caption", 9, before=3, after=12),
    }

    def escape(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    class Template(SimpleDocTemplate):
        def afterFlowable(self, flowable):  # noqa: N802 (name given by reportlab)
            name = getattr(getattr(flowable, "style", None), "name", "")
            if name in ("h1", "h2"):
                text = flowable.getPlainText()
                key = re.sub(r"\W+", "-", text).lower()
                self.canv.bookmarkPage(key)
                self.canv.addOutlineEntry(text, key, level=0 if name == "h1" else 1)

        def afterPage(self):  # noqa: N802 (name given by reportlab)
            # Drawn after the body, so that it also follows the body in the text layer.
            self.canv.saveState()
            self.canv.setFont("Helvetica", 8)
            self.canv.drawString(22 * mm, 12 * mm, spec["footer"])
            self.canv.drawRightString(A4[0] - 22 * mm, 12 * mm, f"Page {self.page}")
            self.canv.restoreState()

    story = []
    for kind, content in spec["items"]:
        if kind == "page":
            story.append(PageBreak())
        elif kind == "table":
            table = Table(content, hAlign="LEFT", spaceBefore=6, spaceAfter=2)
            table.setStyle(
                TableStyle(
                    [
                        ("FONT", (0, 0), (-1, -1), "Helvetica", 9.5),
                        ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 9.5),
                        ("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke),
                        ("GRID", (0, 0), (-1, -1), 0.4, colors.grey),
                        ("VALIGN", (0, 0), (-1, -1), "TOP"),
                    ]
                )
            )
            story.append(table)
        else:
            story.append(Paragraph(escape(content), styles[kind]))

    target.parent.mkdir(parents=True, exist_ok=True)
    Template(
        str(target),
        pagesize=A4,
        leftMargin=22 * mm,
        rightMargin=22 * mm,
        topMargin=20 * mm,
        bottomMargin=22 * mm,
        title=spec["title"],
        author=spec["author"],
        subject="Sample document of a fictional observatory",
        creator="scripts/build_samples.py",
        lang="en",
        invariant=1,
        pageCompression=0,
    ).build(story)


def build(root: Path) -> None:
    for spec in PDFS:
        target = root / spec["path"]
        build_pdf(spec, target)
        first = target.read_bytes()
        build_pdf(spec, target)
        if target.read_bytes() != first:
            raise SystemExit(f"{spec['path']}: two builds gave different bytes")
        print(f"wrote {spec['path']} ({len(first)} bytes)")


# ---------------------------------------------------------------------------
# Checks
# ---------------------------------------------------------------------------

# A full stop after one of these does not end a sentence.
ABBREVIATIONS = (
    "Dr.",
    "Mr.",
    "Ms.",
    "Mrs.",
    "No.",
    "Nos.",
    "Ltd.",
    "S.A.",
    "e.g.",
    "i.e.",
    "approx.",
    "St.",
    "M.-L.",
    "W.",
    "L.",
)
# German dates such as "1. Mai": a full stop inside a sentence.
GERMAN_MONTH = re.compile(
    r"\s*(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober"
    r"|November|Dezember)\b"
)


def is_inside_sentence(head: str, rest: str) -> bool:
    """Return whether the full stop at the end of `head` does not end a sentence."""
    german_date = re.search(r"\b\d{1,2}\.$", head) and GERMAN_MONTH.match(rest)
    return head.endswith(ABBREVIATIONS) or bool(german_date)


def normalise(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def split_sentences(text: str) -> list[str]:
    """Split a normalised passage at sentence ends, minding abbreviations and dates."""
    sentences, start = [], 0
    for match in re.finditer(r"[.!?][\"”)]?(?=\s)", text):
        head = text[start : match.end()]
        if is_inside_sentence(head, text[match.end() :]):
            continue
        sentences.append(head.strip())
        start = match.end()
    if text[start:].strip():
        sentences.append(text[start:].strip())
    return sentences


def read_pages(path: Path) -> list[str]:
    """Read a document page by page (a text file is one page)."""
    if path.suffix != ".pdf":
        return [path.read_text(encoding="utf-8")]
    import pypdfium2

    pdf = pypdfium2.PdfDocument(str(path))
    try:
        return [page.get_textpage().get_text_bounded().replace("\r\n", "\n") for page in pdf]
    finally:
        pdf.close()


def find_evidence_faults(evidence: str, page: str) -> list[str]:
    """Why `evidence` is not one whole sentence (or one whole line) of `page`."""
    pattern = re.compile(r"\s+".join(re.escape(word) for word in evidence.split()))
    match = pattern.search(page)
    if match is None:
        return ["evidence does not occur"]
    if pattern.search(page, match.end()):
        return ["evidence occurs more than once"]
    faults = []
    if len(split_sentences(normalise(evidence))) != 1:
        faults.append("evidence is more than one sentence")
    before = page[: match.start()]
    # What may stand between a sentence and the start of its line: a list mark, a
    # quotation mark, a heading mark or the number of a clause.
    line_start = re.sub(r"(?:[-*]|#+|\d+(?:\.\d+)*\.?)?\s*[\"„“]?$", "", before.rpartition("\n")[2])
    at_block_start = line_start == "" and not _is_continuation(before)
    head = before.rstrip()
    after_sentence = bool(re.search(r"[.!?:][\"”)*]?$", head)) and not is_inside_sentence(
        head, page[match.start() :]
    )
    if not (at_block_start or after_sentence):
        faults.append(f"evidence does not begin a sentence: ...{head[-30:]!r}")
    rest = page[match.end() :]
    whole_line = rest.startswith("\n") or not rest
    ends = bool(re.search(r"[.!?][\"”)]?$", evidence)) and not evidence.endswith(ABBREVIATIONS)
    ends = ends and (not rest or rest[0].isspace())
    row = line_start == "" and whole_line and "\n" not in match.group()
    if not (ends or row):
        faults.append(f"evidence does not end a sentence: {rest[:30]!r}...")
    return faults


def _is_continuation(before: str) -> bool:
    """Return whether a line continues the sentence of the line before."""
    previous = before.rstrip(" ").removesuffix("\n").rpartition("\n")[2].strip()
    # A long line that does not end a sentence runs on; a short one is a heading,
    # and a table row or a caption ends by itself.
    if is_inside_sentence(previous, ""):
        return True
    return len(previous) > 60 and not re.search(r"[.!?:|][\"”)]?$", previous)


def check_documents() -> tuple[list[str], dict[str, list[str]]]:
    faults: list[str] = []
    texts: dict[str, list[str]] = {}
    for path in sorted(p for p in DOCUMENTS.rglob("*") if p.is_file()):
        name = path.relative_to(DOCUMENTS).as_posix()
        pages = texts[name] = read_pages(path)
        whole = "\n".join(pages)
        words = len(whole.split())
        print(f"{name:<42}{words:>5} words{len(pages):>4} page(s)")
        if not 250 <= words <= 1000:
            faults.append(f"{name}: {words} words")
        odd = sorted({c for c in whole if c in "\ufffd\ufffe\uffff\u00ad\x02\x00"})
        if odd:
            faults.append(f"{name}: characters that do not belong in text: {odd}")
        if path.suffix == ".pdf":
            if path.stat().st_size > MAX_PDF_BYTES:
                faults.append(f"{name}: {path.stat().st_size} bytes")
            if not 3 <= len(pages) <= 4:
                faults.append(f"{name}: {len(pages)} pages")
            spec = next((s for s in PDFS if s["path"] == name), None)
            if spec is None:
                faults.append(f"{name}: not built by this script")
                continue
            flat = normalise(whole)
            for kind, content in spec["items"]:
                cells = [" ".join(row) for row in content] if kind == "table" else [content]
                for text in cells:
                    if text and normalise(text) not in flat:
                        faults.append(f"{name}: text does not extract: {text[:60]!r}")
            for number, page in enumerate(pages, 1):
                if f"Page {number}" not in page or spec["footer"] not in page:
                    faults.append(f"{name}: page {number} has no footer")
    for spec in PDFS:
        if spec["path"] not in texts:
            faults.append(f"{spec['path']}: missing")
    return faults, texts


def check_questions(texts: dict[str, list[str]]) -> list[str]:
    faults: list[str] = []
    kinds: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    seen: set[str] = set()
    for number, line in enumerate(QUESTIONS.read_text(encoding="utf-8").splitlines(), 1):
        entry = json.loads(line)
        where = f"questions.jsonl:{number}"
        if set(entry) - {"page"} != {
            "question",
            "answer",
            "document",
            "evidence",
            "answerable",
            "kind",
        }:
            faults.append(f"{where}: fields {sorted(entry)}")
            continue
        if entry["question"] in seen:
            faults.append(f"{where}: question asked twice")
        seen.add(entry["question"])
        kinds[entry["kind"]] += 1
        if not entry["answerable"]:
            asked["(not answerable)"] += 1
            if entry["answer"] or entry["document"] or entry["evidence"]:
                faults.append(f"{where}: not answerable, but has an answer, document or evidence")
            continue
        asked[entry["document"]] += 1
        pages = texts.get(entry["document"])
        if pages is None:
            faults.append(f"{where}: no document {entry['document']}")
            continue
        if entry["document"].endswith(".pdf"):
            if entry.get("page") not in range(1, len(pages) + 1):
                faults.append(f"{where}: a PDF question needs its page")
                continue
            page = pages[entry["page"] - 1]
        else:
            page = pages[0]
        if normalise(entry["answer"]) not in normalise(entry["evidence"]):
            faults.append(f"{where}: answer is not in the evidence")
        if normalise(entry["answer"]) not in normalise(page):
            faults.append(f"{where}: answer is not in the document")
        faults += [f"{where}: {fault}" for fault in find_evidence_faults(entry["evidence"], page)]
        if normalise(entry["evidence"]).rstrip(".").lower() in entry["question"].lower():
            faults.append(f"{where}: question copies the sentence")
    for name in texts:
        if not asked[name]:
            faults.append(f"{name}: no question asks about it")
    print(
        f"\n{sum(asked.values())} questions, {asked['(not answerable)']} of them not answerable; "
        + ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    )
    return faults


def check() -> int:
    faults, texts = check_documents()
    faults += check_questions(texts)
    for fault in faults:
        print(f"FAULT {fault}", file=sys.stderr)
    print("samples: " + (f"{len(faults)} fault(s)" if faults else "all checks passed"))
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Build or check the sample documents.")
    parser.add_argument("--check", action="store_true", help="check instead of building")
    if parser.parse_args().check:
        return check()
    build(DOCUMENTS)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
