"""Write the documents of the table benchmark: PDF, XLSX, HTML, Markdown, DOCX.

bench/packs/tables/NAME.EXT.md → OUTPUT/NAME.EXT

Each source is plain Markdown: headings, paragraphs, pipe tables, "Table: …" for a caption and
"----" for a new page. The last part of its name says which format is written. The files are the
same on every run, so that offsets in a report stay valid.

    python bench/packs/make_tables.py OUTPUT
"""

from __future__ import annotations

import argparse
import datetime
import re
import zipfile
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from reportlab.lib import colors  # type: ignore[import-untyped]
from reportlab.lib.pagesizes import A4  # type: ignore[import-untyped]
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet  # type: ignore[import-untyped]
from reportlab.lib.units import mm  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]
from reportlab.platypus import (  # type: ignore[import-untyped]
    Flowable,
    PageBreak,
    Paragraph,
    SimpleDocTemplate,
    Spacer,
    Table,
    TableStyle,
)

SOURCES = Path(__file__).parent / "tables"


@dataclass(frozen=True, slots=True)
class Block:
    """One heading, paragraph, caption, table or page break of a source."""

    kind: str
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    groups: tuple[tuple[int, str], ...] = ()


@dataclass(slots=True)
class Source:
    """A source as read: its title, its table style and its blocks in order."""

    title: str = ""
    style: str = "grid"
    blocks: list[Block] = field(default_factory=list)


def read_source(path: Path) -> Source:
    """Read a source file into blocks."""
    source = Source()
    groups: tuple[tuple[int, str], ...] = ()
    for part in re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip()):
        directive = re.fullmatch(r"<!-- (style|group): (.+) -->", part)
        if directive and directive[1] == "style":
            source.style = directive[2]
        elif directive:
            groups = read_groups(directive[2])
        elif part.startswith("|"):
            source.blocks.append(Block("table", rows=read_rows(part), groups=groups))
        elif part.startswith("# "):
            source.title = part[2:]
        elif part == "----":
            source.blocks.append(Block("page"))
        elif part.startswith("## "):
            source.blocks.append(Block("heading", part[3:]))
        elif part.startswith("Table: "):
            source.blocks.append(Block("caption", part.removeprefix("Table: ")))
        else:
            source.blocks.append(Block("paragraph", part))
    return source


def read_rows(part: str) -> tuple[tuple[str, ...], ...]:
    """Split a pipe table into rows of cells, without the line of dashes."""
    lines = [line for line in part.splitlines() if not re.fullmatch(r"\|[-|]+", line)]
    return tuple(tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines)


def read_groups(text: str) -> tuple[tuple[int, str], ...]:
    """Read "1 - | 2 Full year" as widths and texts of a heading row above the columns."""
    if text == "none":
        return ()
    pairs = (one.strip().split(" ", 1) for one in text.split("|"))
    return tuple((int(width), "" if name == "-" else name) for width, name in pairs)


def write_pdf(source: Source, path: Path) -> None:
    """Write a PDF with running title, page numbers and tables over page borders."""
    sheet = getSampleStyleSheet()
    named = {"heading": sheet["Heading2"], "paragraph": sheet["BodyText"]}
    named["caption"] = ParagraphStyle("caption", sheet["BodyText"], fontName="Helvetica-Oblique")
    parts: list[Flowable] = [Paragraph(escape(source.title), sheet["Title"])]
    for block in source.blocks:
        if block.kind == "table":
            parts += [lay_out_table(block, source.style), Spacer(1, 5 * mm)]
        elif block.kind == "page":
            parts.append(PageBreak())
        else:
            parts.append(Paragraph(escape(block.text), named[block.kind]))

    def draw_page(canvas: Canvas, document: SimpleDocTemplate) -> None:
        canvas.setFont("Helvetica", 8)
        canvas.drawString(22 * mm, 12 * mm, source.title)
        canvas.drawRightString(188 * mm, 12 * mm, f"Page {document.page}")

    margin = {"leftMargin": 22 * mm, "rightMargin": 22 * mm, "topMargin": 20 * mm}
    file = SimpleDocTemplate(str(path), pagesize=A4, title=source.title, invariant=1, **margin)
    file.build(parts, onFirstPage=draw_page, onLaterPages=draw_page)


def lay_out_table(block: Block, style: str) -> Table:
    """Lay out a table with lines around every cell, between the rows, or with none."""
    size = 9 if len(block.rows[0]) < 8 else 7
    table = Table([list(row) for row in block.rows], repeatRows=1, hAlign="LEFT")
    commands: list[tuple[object, ...]] = [
        ("FONTSIZE", (0, 0), (-1, -1), size),
        ("FONTNAME", (0, 0), (-1, 0), "Helvetica-Bold"),
        ("TOPPADDING", (0, 0), (-1, -1), 2),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 2),
        *(("ALIGN", (at, 0), (at, -1), "RIGHT") for at in find_number_columns(block.rows)),
    ]
    if style == "grid":
        commands.append(("GRID", (0, 0), (-1, -1), 0.4, colors.grey))
        commands.append(("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke))
    elif style == "lines":
        commands.append(("LINEBELOW", (0, 0), (-1, -1), 0.3, colors.lightgrey))
    else:
        commands.append(("LINEBELOW", (0, 0), (-1, 0), 0.6, colors.black))
        commands.append(("LINEABOVE", (0, -1), (-1, -1), 0.6, colors.black))
    table.setStyle(TableStyle(commands))
    return table


def find_number_columns(rows: tuple[tuple[str, ...], ...]) -> list[int]:
    """Return the columns that hold numbers in most rows."""
    found = []
    for at in range(1, len(rows[0])):
        numbers = sum(read_number(row[at]) is not None for row in rows[1:])
        if numbers * 2 > len(rows) - 1:
            found.append(at)
    return found


def read_number(text: str) -> tuple[float, str] | None:
    """Return the value of a cell and the number format that shows it, or None for text."""
    inner = text[1:-1] if re.fullmatch(r"\(.+\)", text) else text
    if not re.fullmatch(r"-?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?%?", inner):
        return None
    value = float(inner.rstrip("%").replace(",", ""))
    decimals = len(inner.rstrip("%").partition(".")[2])
    shape = ("#,##0" if "," in inner else "0") + ("." + "0" * decimals if decimals else "")
    if inner.endswith("%"):
        return round(value / 100, 6), shape + "%"
    return (-value, f"{shape};({shape})") if inner != text else (value, shape)


def write_html(source: Source, path: Path) -> None:
    """Write a web page with navigation and footer around the content."""
    body, caption = [f"<h1>{escape(source.title)}</h1>"], ""
    for block in source.blocks:
        if block.kind == "table":
            body.append(write_html_table(block, caption))
        elif block.kind == "caption":
            caption = block.text
        elif block.kind != "page":
            tag = "h2" if block.kind == "heading" else "p"
            body.append(f"<{tag}>{escape(block.text)}</{tag}>")
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(source.title)}</title></head>\n<body>\n"
        '<nav><a href="/">Home</a> <a href="/contact">Contact</a></nav>\n<main>\n'
        + "\n".join(body)
        + "\n</main>\n<footer>All details without guarantee.</footer>\n</body></html>\n"
    )
    path.write_text(page, encoding="utf-8")


def write_html_table(block: Block, caption: str) -> str:
    """Write a table with caption, column heads (grouped where asked) and row heads."""
    head = block.rows[0]
    lines = [f"<table>\n<caption>{escape(caption)}</caption>\n<thead>"]
    if block.groups:
        cells = (f'<th colspan="{width}">{escape(name)}</th>' for width, name in block.groups)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("<tr>" + "".join(f"<th>{escape(one)}</th>" for one in head) + "</tr>")
    lines.append("</thead>\n<tbody>")
    for row in block.rows[1:]:
        cells = (f"<td>{escape(one)}</td>" for one in row[1:])
        lines.append(f'<tr><th scope="row">{escape(row[0])}</th>{"".join(cells)}</tr>')
    return "\n".join([*lines, "</tbody>\n</table>"])


def write_markdown(source: Source, path: Path) -> None:
    """Write Markdown with pipe tables."""
    parts = [f"# {source.title}"]
    for block in source.blocks:
        if block.kind == "table":
            lines = ["| " + " | ".join(row) + " |" for row in block.rows]
            lines.insert(1, "|" + "---|" * len(block.rows[0]))
            parts.append("\n".join(lines))
        elif block.kind != "page":
            mark = {"heading": "## {}", "caption": "*{}*", "paragraph": "{}"}[block.kind]
            parts.append(mark.format(block.text))
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPES = "application/vnd.openxmlformats-officedocument."
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


def write_package(path: Path, parts: dict[str, str]) -> None:
    """Write an Office file: a zip of XML parts with a fixed date."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            entry = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, _XML + text)


def write_content_types(parts: dict[str, str]) -> str:
    """Write the list of content types of an Office file."""
    defaults = (
        '<Default Extension="rels" ContentType="application/'
        'vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
    )
    names = "".join(
        f'<Override PartName="/{name}" ContentType="{_TYPES}{kind}+xml"/>'
        for name, kind in parts.items()
    )
    return f'<Types xmlns="{_PACKAGE}/content-types">{defaults}{names}</Types>'


def write_relations(targets: list[tuple[str, str]]) -> str:
    """Write the relations of a part: kind and target of each."""
    lines = "".join(
        f'<Relationship Id="rId{at}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for at, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{lines}</Relationships>'


def write_docx(source: Source, path: Path) -> None:
    """Write a Word document with styles for headings and captions."""
    style = {"heading": "Heading1", "caption": "Caption", "paragraph": "Normal"}
    body = [write_word_paragraph(source.title, "Title")]
    for block in source.blocks:
        if block.kind == "table":
            body += [write_word_table(block), write_word_paragraph("", "Normal")]
        elif block.kind == "page":
            body.append('<w:p><w:r><w:br w:type="page"/></w:r></w:p>')
        else:
            body.append(write_word_paragraph(block.text, style[block.kind]))
    names = {"Title": "Title", "Heading1": "heading 1", "Caption": "caption", "Normal": "Normal"}
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{one}"><w:name w:val="{name}"/></w:style>'
        for one, name in names.items()
    )
    types = {
        "word/document.xml": "wordprocessingml.document.main",
        "word/styles.xml": "wordprocessingml.styles",
    }
    parts = {
        "[Content_Types].xml": write_content_types(types),
        "_rels/.rels": write_relations([("officeDocument", "word/document.xml")]),
        "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{"".join(body)}<w:sectPr/>'
        "</w:body></w:document>",
        "word/_rels/document.xml.rels": write_relations([("styles", "styles.xml")]),
        "word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>',
    }
    write_package(path, parts)


def write_word_paragraph(text: str, style: str) -> str:
    """Write one paragraph of a Word document."""
    run = f'<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r>' if text else ""
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr>{run}</w:p>'


def write_word_table(block: Block) -> str:
    """Write a table whose first row is marked as its head."""
    rows = []
    for at, row in enumerate(block.rows):
        head = "<w:trPr><w:tblHeader/></w:trPr>" if at == 0 else ""
        width = '<w:tcPr><w:tcW w:w="1800" w:type="dxa"/></w:tcPr>'
        cells = (f"<w:tc>{width}{write_word_paragraph(one, 'Normal')}</w:tc>" for one in row)
        rows.append(f"<w:tr>{head}{''.join(cells)}</w:tr>")
    grid = '<w:gridCol w:w="1800"/>' * len(block.rows[0])
    return f"<w:tbl><w:tblPr/><w:tblGrid>{grid}</w:tblGrid>{''.join(rows)}</w:tbl>"


def write_xlsx(source: Source, path: Path) -> None:
    """Write a workbook: one sheet for each heading, numbers and dates as such."""
    formats: list[str] = []
    sheets: list[tuple[str, list[str]]] = []
    for block in source.blocks:
        if block.kind == "heading":
            sheets.append((block.text, [write_cell("A1", source.title, formats)]))
            continue
        rows = sheets[-1][1]
        lines = block.rows if block.kind == "table" else ((block.text,),)
        for line in lines:
            number = len(rows) + 1
            cells = (write_cell(f"{chr(65 + at)}{number}", c, formats) for at, c in enumerate(line))
            rows.append("".join(cells))
    files = [f"worksheets/sheet{at}.xml" for at in range(1, len(sheets) + 1)]
    types = {"xl/workbook.xml": "spreadsheetml.sheet.main", "xl/styles.xml": "spreadsheetml.styles"}
    types |= {f"xl/{name}": "spreadsheetml.worksheet" for name in files}
    entries = "".join(
        f'<sheet name="{escape(name)}" sheetId="{at}" r:id="rId{at}"/>'
        for at, (name, _) in enumerate(sheets, 1)
    )
    parts = {
        "[Content_Types].xml": write_content_types(types),
        "_rels/.rels": write_relations([("officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}">'
        f"<sheets>{entries}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": write_relations(
            [*(("worksheet", name) for name in files), ("styles", "styles.xml")]
        ),
        "xl/styles.xml": write_cell_styles(formats),
    }
    for name, (_, rows) in zip(files, sheets, strict=True):
        data = "".join(f'<row r="{at}">{cells}</row>' for at, cells in enumerate(rows, 1))
        parts[f"xl/{name}"] = (
            f'<worksheet xmlns="{_SHEET}"><sheetData>{data}</sheetData></worksheet>'
        )
    write_package(path, parts)


def write_cell(name: str, text: str, formats: list[str]) -> str:
    """Write one cell: a date, a number with its format, or text."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        days = (datetime.date.fromisoformat(text) - datetime.date(1899, 12, 30)).days
        value: tuple[float, str] | None = (days, "yyyy-mm-dd")
    else:
        value = read_number(text)
    if value is None:
        return f'<c r="{name}" t="inlineStr"><is><t>{escape(text)}</t></is></c>' if text else ""
    if value[1] not in formats:
        formats.append(value[1])
    return f'<c r="{name}" s="{formats.index(value[1]) + 1}"><v>{value[0]:.10g}</v></c>'


def write_cell_styles(formats: list[str]) -> str:
    """Write the styles of a workbook: the general one, then one for each number format."""
    shapes = "".join(
        f'<numFmt numFmtId="{164 + at}" formatCode="{escape(shape)}"/>'
        for at, shape in enumerate(formats)
    )
    uses = "".join(
        f'<xf numFmtId="{164 + at}" fontId="0" fillId="0" borderId="0" applyNumberFormat="1"/>'
        for at in range(len(formats))
    )
    plain = '<xf numFmtId="0" fontId="0" fillId="0" borderId="0"/>'
    return (
        f'<styleSheet xmlns="{_SHEET}"><numFmts count="{len(formats)}">{shapes}</numFmts>'
        '<fonts count="1"><font><sz val="11"/><name val="Calibri"/></font></fonts>'
        '<fills count="1"><fill><patternFill patternType="none"/></fill></fills>'
        '<borders count="1"><border/></borders><cellStyleXfs count="1">'
        f'{plain}</cellStyleXfs><cellXfs count="{len(formats) + 1}">{plain}{uses}</cellXfs>'
        '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>'
        "</styleSheet>"
    )


WRITERS = {
    ".pdf": write_pdf,
    ".xlsx": write_xlsx,
    ".html": write_html,
    ".md": write_markdown,
    ".docx": write_docx,
}


def write_documents(output: Path, sources: Path = SOURCES) -> list[Path]:
    """Write every document into the folder and return the paths."""
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for path in sorted(sources.glob("*.md")):
        target = output / path.stem
        WRITERS[target.suffix](read_source(path), target)
        written.append(target)
    return written


def main() -> None:
    """Write the documents and print their paths."""
    parser = argparse.ArgumentParser(description="Write the documents of the table benchmark.")
    parser.add_argument("output", type=Path, help="folder to write into")
    for path in write_documents(parser.parse_args().output):
        print(path)


if __name__ == "__main__":
    main()
