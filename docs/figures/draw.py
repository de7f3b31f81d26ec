"""Takes a picture of a report's curves for the README: `make figures`.

usage: draw.py REPORT.html PICTURE.png
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH_PX, HEIGHT_PX = 1148, 900
CHROMIUM_OPTIONS = ["--disable-gpu", "--disable-background-networking", "--no-first-run"]


def draw(report: Path, picture: Path) -> None:
    """Writes the curves that a browser shows of `report` to `picture`."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), chromium_sandbox=False, args=CHROMIUM_OPTIONS
        )
        page = browser.new_page(viewport={"width": WIDTH_PX, "height": HEIGHT_PX})
        page.goto(report.resolve().as_uri())
        page.locator("[data-kind=curve] .scatterlayer path.js-line").first.wait_for()
        page.locator("#time .panels").first.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
