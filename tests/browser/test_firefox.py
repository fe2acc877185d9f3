"""The same in Firefox: a person's path from upload to export, on an empty server."""

from .test_journey import address, test_a_person_finds_the_way_from_upload_to_export

__all__ = ["address", "test_a_person_finds_the_way_from_upload_to_export"]
