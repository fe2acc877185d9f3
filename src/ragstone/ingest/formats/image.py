"""Pictures: what OCR reads in them, for pictures of pages and pages without a text layer."""

from __future__ import annotations

import io
from functools import cache
from typing import Any, ClassVar

from ragstone.blocks import Loaded, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer


class ImageLoader:
    """`.png`, `.jpg`, `.tiff`, `.bmp`, `.webp`, with the extra `ragstone[ocr]`."""

    media_type: ClassVar[str] = "image/*"
    suffixes: ClassVar[tuple[str, ...]] = (
        ".png",
        ".jpg",
        ".jpeg",
        ".tif",
        ".tiff",
        ".bmp",
        ".webp",
    )

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        if not options.ocr:
            raise IngestError(
                "The file is a picture; its text can only be read by OCR.",
                hint="Switch it on with RAGSTONE_INGEST_OCR=true (pip install 'ragstone[ocr]').",
            )
        from PIL import Image, UnidentifiedImageError

        Image.MAX_IMAGE_PIXELS = 100_000_000
        try:
            picture = Image.open(io.BytesIO(content)).convert("RGB")
        except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
            raise IngestError(f"The picture cannot be opened: {error}.", hint="") from error
        composer = Composer()
        for text, _ in read_picture(picture):
            composer.paragraph(text)
        return composer.loaded(self.media_type)


def read_picture(picture: Any) -> list[tuple[str, tuple[float, float, float, float]]]:
    """The lines in a picture from top to bottom, with their boxes (left, top, right, bottom)."""
    import numpy as np

    result, _ = _reader()(np.asarray(picture))
    lines = []
    for corners, text, _confidence in result or []:
        across, down = [float(x) for x, _ in corners], [float(y) for _, y in corners]
        lines.append((str(text), (min(across), min(down), max(across), max(down))))
    return sorted(lines, key=lambda line: (round(line[1][1] / 10), line[1][0]))


@cache
def _reader() -> Any:
    try:
        from rapidocr_onnxruntime import RapidOCR
    except ImportError as error:
        raise IngestError(
            "Reading pictures needs an OCR engine that is not installed.",
            hint="Install it with: pip install 'ragstone[ocr]'",
        ) from error
    return RapidOCR()
