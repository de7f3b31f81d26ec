"""Takes a picture of one kind of a report's curves for the documents: `make figures`, `make scale`.

usage: draw.py REPORT.html PICTURE.png [KIND]
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH_PX, HEIGHT_PX = 1148, 900
CHROMIUM_OPTIONS = ["--disable-gpu", "--disable-background-networking", "--no-first-run"]


def draw(report: Path, picture: Path, kind: str = "curve") -> None:
    """Writes the curves of a kind that a browser shows of `report` to `picture`."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), chromium_sandbox=False, args=CHROMIUM_OPTIONS
        )
        page = browser.new_page(viewport={"width": WIDTH_PX, "height": HEIGHT_PX})
        page.goto(report.resolve().as_uri())
        curves = page.locator(f".panels:has([data-kind={kind}])").first
        curves.scroll_into_view_if_needed()
        curves.locator(".scatterlayer path.js-line").first.wait_for()
        curves.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    draw(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
