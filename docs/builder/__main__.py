"""`python -m docs.builder [FOLDER]` puts every page of the site, and its mkdocs.yml, into FOLDER (build/docs)."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.builder.staging import stage

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs")
    pages = stage(folder)
    print(f"{len(pages)} pages are in {folder}.")
