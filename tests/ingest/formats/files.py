"""Small files of many formats, made here so that what they hold can be read beside the tests."""

from __future__ import annotations

import io
import zipfile

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"


def zipped(files: dict[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def docx(body: str, **parts: str) -> bytes:
    styles = (
        f'<w:styles xmlns:w="{WORD}"><w:style w:type="paragraph" w:styleId="H2">'
        '<w:name w:val="heading 2"/></w:style></w:styles>'
    )
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body>'
            "</w:document>",
            "word/styles.xml": styles,
            **{
                f"word/{name}.xml": f'<w:x xmlns:w="{WORD}">{xml}</w:x>'
                for name, xml in parts.items()
            },
        }
    )


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def pptx(*slides: str) -> bytes:
    numbers = range(1, len(slides) + 1)
    entries = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in numbers)
    links = "".join(f'<Relationship Id="rId{n}" Target="slides/slide{n}.xml"/>' for n in numbers)
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "ppt/presentation.xml": (
                f'<p:presentation xmlns:p="{SLIDES}" xmlns:r="{RELATIONS}">'
                f"<p:sldIdLst>{entries}</p:sldIdLst></p:presentation>"
            ),
            "ppt/_rels/presentation.xml.rels": f'<Relationships xmlns="{PACKAGE}">{links}'
            "</Relationships>",
            **{
                f"ppt/slides/slide{n}.xml": f'<p:sld xmlns:p="{SLIDES}" xmlns:a="{DRAWING}">'
                f"{slide}</p:sld>"
                for n, slide in zip(numbers, slides, strict=True)
            },
        }
    )


def shape(kind: str, *texts: str) -> str:
    paragraphs = "".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in texts)
    return (
        f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>'
        f"<p:txBody>{paragraphs}</p:txBody></p:sp>"
    )


def odt(body: str) -> bytes:
    return zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f'<o:document-content xmlns:o="{OFFICE}office:1.0" '
            f'xmlns:text="{OFFICE}text:1.0" xmlns:table="{OFFICE}table:1.0"><o:body><o:text>'
            f"{body}</o:text></o:body></o:document-content>",
        }
    )


def epub(chapters: dict[str, str]) -> bytes:
    items = "".join(f'<item id="{n}" href="{name}"/>' for n, name in enumerate(chapters))
    order = "".join(f'<itemref idref="{n}"/>' for n in range(len(chapters)))
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="in/book.opf"/>'
            "</rootfiles></container>",
            "in/book.opf": "<package><metadata><title>The Book</title></metadata>"
            f"<manifest>{items}</manifest><spine>{order}</spine></package>",
            **{f"in/{name}": html for name, html in chapters.items()},
        }
    )
