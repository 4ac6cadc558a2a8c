"""files.py URL: files in blobs by adlfs, which uploads them in blocks."""

import sys

from adlfs import AzureBlobFileSystem

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def main(url):
    files = AzureBlobFileSystem(
        connection_string=f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
        f"BlobEndpoint={url}/{ACCOUNT};"
    )
    files.mkdir("files")
    for text in (b"", b"some ", b"x" * 500_000):
        with files.open("files/folder/file", "wb") as file:
            file.write(text)
            file.write(b"text")
        assert files.cat("files/folder/file") == text + b"text"
    assert files.info("files/folder/file")["size"] == 500_004
    assert files.ls("files/folder") == ["files/folder/file"], files.ls("files/folder")
    files.rm("files/folder", recursive=True)
    assert not files.exists("files/folder/file")
    files.rm("files", recursive=True)


main(sys.argv[1].rstrip("/"))
