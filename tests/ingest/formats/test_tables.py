"""Tables stay tables: the same rows under one header from every format."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import pytest
from reportlab.lib import colors
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.ingest.formats.compose import Cell, build_table, is_figure, spread_cells
from ragstone.ingest.formats.html import HtmlLoader
from ragstone.ingest.formats.office import DocxLoader
from ragstone.ingest.formats.pdf import PdfLoader
from ragstone.ingest.formats.table import SheetLoader, TableLoader, format_number
from tests.ingest.formats.files import docx, paragraph, zipped

STYLES = getSampleStyleSheet()
ROWS = [
    ["£ million", "2018", "2017"],
    ["Revenue", "415.3", "391.8"],
    ["Fuel", "(121.9)", "(104.7)"],
    ["Capital expenditure", "(74.3)", "(45.0)"],
]
MARKDOWN = (
    "| £ million | 2018 | 2017 |\n| --- | --- | --- |\n| Revenue | 415.3 | 391.8 |\n"
    "| Fuel | (121.9) | (104.7) |\n| Capital expenditure | (74.3) | (45.0) |"
)
GRID = ("GRID", (0, 0), (-1, -1), 0.4, colors.grey)
HEAD_RULE = ("LINEBELOW", (0, 0), (-1, 0), 0.6, colors.black)


def write_pdf(*parts: Any) -> bytes:
    buffer = io.BytesIO()
    SimpleDocTemplate(buffer, pagesize=(595, 842), invariant=1).build(list(parts))
    return buffer.getvalue()


def write_table(rows: list[list[Any]], *commands: Any, **options: Any) -> Table:
    return Table(rows, style=TableStyle(list(commands)), hAlign="LEFT", **options)


def prose(text: str) -> Paragraph:
    return Paragraph(text, STYLES["BodyText"])


def load_pdf(*parts: Any) -> LoadedDocument:
    return PdfLoader().load(write_pdf(*parts), LoadOptions())


def tables_of(document: LoadedDocument) -> list[str]:
    return [document.text[block.start : block.end] for block in document.blocks]


@pytest.mark.parametrize("commands", [[GRID], [HEAD_RULE], []], ids=["grid", "rule", "none"])
def test_a_table_of_a_pdf_has_rows_and_columns_with_or_without_lines(commands: list[Any]) -> None:
    document = load_pdf(prose("The year."), write_table(ROWS, *commands), prose("The end."))
    assert tables_of(document) == [MARKDOWN]
    assert document.text.startswith("The year.\n\n| £ million")
    assert document.text.endswith("|\n\nThe end.")


def test_every_row_of_a_pdf_has_its_box() -> None:
    document = load_pdf(write_table(ROWS, GRID))
    rows = [document.text[line.start : line.end] for line in document.lines]
    assert rows == [line for line in MARKDOWN.split("\n") if "---" not in line]
    bottoms = [line.bottom for line in document.lines]
    assert bottoms == sorted(bottoms, reverse=True)
    assert all(line.right - line.left > 100 for line in document.lines)


def test_lines_in_a_cell_of_a_grid_are_one_cell() -> None:
    text = "A description that is far too long for the narrow column it stands in"
    rows = [["Part", "What it is", "Price"], ["A1", prose(text), "7.50"], ["A2", "short", "8.00"]]
    document = load_pdf(write_table(rows, GRID, colWidths=[60, 120, 60]))
    assert f"| A1 | {text} | 7.50 |" in document.text.split("\n")


def test_heads_over_several_columns_are_joined_to_each() -> None:
    rows = [
        ["", "Full year", "", "Quarter", ""],
        ["NOK", "2023", "2022", "2023", "2022"],
        ["Sales", "6,412", "8,975", "1,588", "2,640"],
        ["Tax", "402", "377", "101", "95"],
    ]
    spans = [("SPAN", (1, 0), (2, 0)), ("SPAN", (3, 0), (4, 0))]
    document = load_pdf(write_table(rows, GRID, *spans))
    header = "| NOK | Full year 2023 | Full year 2022 | Quarter 2023 | Quarter 2022 |"
    assert tables_of(document)[0].split("\n")[0] == header


def test_the_rest_of_a_table_on_the_next_page_keeps_its_header() -> None:
    first = write_table(ROWS, GRID, colWidths=[150, 60, 60])
    rest = write_table([["Dividends", "12.8", "11.6"], ["Tax", "11.7", "13.9"]], GRID,
                       colWidths=[150, 60, 60])  # fmt: skip
    document = load_pdf(first, PageBreak(), rest)
    assert tables_of(document)[1] == "| Dividends | 12.8 | 11.6 |\n| Tax | 11.7 | 13.9 |"
    assert document.blocks[1].header == "| £ million | 2018 | 2017 |"
    assert document.text.count("£ million") == 1, "nothing is written that is not in the document"


def test_prose_and_lists_are_not_tables() -> None:
    long = "Words that follow each other in a paragraph of several lines, none like the other. " * 6
    items = [prose(f"<bullet>•</bullet> item number {at} of a list") for at in range(5)]
    document = load_pdf(prose(long), Spacer(1, 20), *items)
    assert not document.blocks


def test_a_heading_of_two_lines_is_one_heading() -> None:
    title = "Annual Report and Accounts of the Company that Sails Between Many Distant Ports"
    body = [prose("Some words of the body, which is set in smaller type. " * 8)]
    document = load_pdf(Paragraph(title, STYLES["Title"]), *body)
    assert [heading.title for heading in document.headings] == [title]


def test_html_joins_grouped_heads_repeats_row_heads_and_keeps_the_caption() -> None:
    page = """<h1>Okonor</h1><table><caption>Income, NOK million</caption><thead>
    <tr><th></th><th></th><th colspan="2">Full year</th></tr>
    <tr><th>Part</th><th>Line</th><th>2023</th><th>2022</th></tr></thead>
    <tr><td rowspan="2">North</td><td>Sales</td><td>6,412</td><td>8,975</td></tr>
    <tr><td>Tax</td><td>402</td><td>377</td></tr></table>"""
    document = HtmlLoader().load(page.encode(), LoadOptions())
    assert document.text == (
        "# Okonor\n\nIncome, NOK million\n\n"
        "| Part | Line | Full year 2023 | Full year 2022 |\n| --- | --- | --- | --- |\n"
        "| North | Sales | 6,412 | 8,975 |\n| North | Tax | 402 | 377 |"
    )


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"


def test_word_joins_merged_cells() -> None:
    span, first = '<w:gridSpan w:val="2"/>', '<w:vMerge w:val="restart"/>'
    rows = (
        f"<w:tr>{cell('')}{cell('Full year', span)}</w:tr>"
        f"<w:tr>{cell('NOK')}{cell('2023')}{cell('2022')}</w:tr>"
        f"<w:tr>{cell('Sales', first)}{cell('6,412')}{cell('8,975')}</w:tr>"
        f"<w:tr>{cell('', '<w:vMerge/>')}{cell('402')}{cell('377')}</w:tr>"
    )
    document = DocxLoader().load(docx(f"<w:tbl>{rows}</w:tbl>"), LoadOptions())
    assert document.text.split("\n") == [
        "| NOK | Full year 2023 | Full year 2022 |", "| --- | --- | --- |",
        "| Sales | 6,412 | 8,975 |", "| Sales | 402 | 377 |",
    ]  # fmt: skip


_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def text_cell(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


def number_cell(place: str, value: float, style: int) -> str:
    return f'<c r="{place}" s="{style}"><v>{value}</v></c>'


def xlsx(rows: dict[int, str], *codes: str) -> bytes:
    data = "".join(f'<row r="{row}">{cells}</row>' for row, cells in rows.items())
    formats = "".join(
        f'<numFmt numFmtId="{164 + at}" formatCode="{code}"/>' for at, code in enumerate(codes)
    )
    uses = "".join(f'<xf numFmtId="{164 + at}" applyNumberFormat="1"/>' for at in range(len(codes)))
    targets = {"worksheet": "worksheets/sheet1.xml", "styles": "styles.xml"}
    relations = "".join(
        f'<Relationship Id="rId{at}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for at, (kind, target) in enumerate(targets.items(), 1)
    )
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
            '<Default Extension="xml" ContentType="application/xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship '
            f'Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>'
            '<sheet name="Staff" sheetId="1" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
            f"{relations}</Relationships>",
            "xl/styles.xml": f'<styleSheet xmlns="{_SHEET}"><numFmts>{formats}</numFmts>'
            f'<cellXfs><xf numFmtId="0"/>{uses}</cellXfs></styleSheet>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_SHEET}">'
            f"<sheetData>{data}</sheetData></worksheet>",
        }
    )


def test_a_sheet_shows_numbers_as_its_cells_do_and_its_notes_as_lines() -> None:
    content = xlsx(
        {
            1: text_cell("A1", "Employees by site"),
            2: text_cell("A2", "Site") + text_cell("B2", "FY2023") + text_cell("C2", "Change"),
            3: text_cell("A3", "Graz") + number_cell("B3", 1276, 1) + number_cell("C3", -0.018, 2),
            5: text_cell("A5", "Brno") + number_cell("B5", 261, 1) + number_cell("C5", 0.12, 2),
            6: text_cell("A6", "Full-time equivalents"),
        },
        "#,##0", "0.0%",
    )  # fmt: skip
    document = SheetLoader().load(content, LoadOptions())
    assert document.text == (
        "# Staff\n\nEmployees by site\n\n"
        "| Site | FY2023 | Change |\n| --- | --- | --- |\n| Graz | 1,276 | -1.8% |\n\n"
        "| Brno | 261 | 12.0% |\n\nFull-time equivalents"
    )
    assert [block.header for block in document.blocks] == ["", "| Site | FY2023 | Change |"]


def test_a_stray_cell_in_the_last_row_does_not_lose_the_workbook() -> None:
    content = xlsx({1: text_cell("A1", "Here"), 1_048_576: text_cell("Z1048576", "far away")})
    tracemalloc.start()
    document = SheetLoader().load(content, LoadOptions())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "Here" in document.text
    assert "far away" in document.text
    assert peak < 20_000_000


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [(1234.5, "#,##0.00", "1,234.50"), (0.125, "0.0%", "12.5%"), (-3, "#,##0;(#,##0)", "(3)"),
     (38.2, "0.00", "38.20"), (5, '0.00" kg"', "5.00 kg"), (7.5, "[$€-407] 0.00", "7.50"),
     (2.5, "0.##", "2.5"), (45000, "yyyy-mm-dd", None), (3, "General", None), (1e6, "0.0,,", None)],
)  # fmt: skip
def test_a_number_is_formatted_as_its_cell_shows_it(
    value: float, code: str, shown: str | None
) -> None:
    assert format_number(value, code) == shown


def test_a_csv_file_is_one_table() -> None:
    document = TableLoader().load(b"Name;Price\nRope;7,50\nHook;8,00\n", LoadOptions())
    assert tables_of(document) == [
        "| Name | Price |\n| --- | --- |\n| Rope | 7,50 |\n| Hook | 8,00 |"
    ]


def test_a_first_row_of_one_cell_names_the_table() -> None:
    table = build_table([["Fleet", "", ""], ["Type", "Number", "Age"], ["Tugs", "31", "10.2"]])
    assert table.captions == ("Fleet",)
    assert table.header == ("Type", "Number", "Age")


def test_a_row_of_words_below_the_heads_is_not_a_head() -> None:
    table = build_table([["", "Model A", "Model B"], ["Colour", "red", "blue"], ["Mass", "5", "6"]])
    assert table.header == ("", "Model A", "Model B")


def test_cells_over_rows_and_columns_fill_their_places() -> None:
    rows, spans = spread_cells([[Cell("a", rows=2), Cell("b", columns=2)], [Cell("c"), Cell("d")]])
    assert rows == [["a", "b", ""], ["a", "c", "d"]]
    assert spans == [{1: 2}, {}]


def test_a_hostile_span_is_bounded() -> None:
    rows, _ = spread_cells([[Cell("a", columns=10**9, rows=10**9)]])
    assert len(rows[0]) <= 1_000


@pytest.mark.parametrize("text", ["12", "1,234.5", "(45.0)", "-3 %", "€ 12", "07:36", "12.5%"])
def test_figures_are_told(text: str) -> None:
    assert is_figure(text)


@pytest.mark.parametrize("text", ["2018", "FY2023", "Trip 1", "HX-12", "–", "", "31.12.2018"])
def test_years_and_names_are_not_figures(text: str) -> None:
    assert not is_figure(text)
