"""What reports.sh looks at: DIRECTORY with report.<format>, SCHEMA of the JSON report, SHOTS for screenshots, MOST bytes of a page."""

import base64
import json
import pathlib
import shutil
import sys

import axe_playwright_python
import html5lib
import jsonschema
from junitparser import JUnitXml
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

directory, schema, shots = map(pathlib.Path, sys.argv[1:4])
most = int(sys.argv[4])
wrong = []


def told(what, fine, figures=""):
    print(f"{'ok' if fine else 'WRONG':6}{what}{': ' if figures else ''}{figures}")
    if not fine:
        wrong.append(what)


def formats():
    suites = JUnitXml.fromfile(str(directory / "report.junit"))
    cases = [case for suite in suites for case in suite]
    told("JUnit, by junitparser", len(cases) == suites.tests, f"{suites.tests} cases, {suites.failures} failures, {suites.skipped} skipped")
    families = list(text_string_to_metric_families((directory / "report.openmetrics").read_text()))
    told("OpenMetrics, by prometheus_client", bool(families), f"{len(families)} families, {sum(len(f.samples) for f in families)} samples")
    problems = list(jsonschema.Draft7Validator(json.loads(schema.read_text())).iter_errors(json.loads((directory / "report.json").read_text())))
    told("JSON, by jsonschema", not problems, "; ".join(problem.message for problem in problems[:3]))
    size = (directory / "report.markdown").stat().st_size
    told("Markdown below the limit of a step summary", size < 2**20, f"{size} bytes")
    size = (directory / "report.html").stat().st_size
    told(f"page below {most} bytes", size < most, f"{size} bytes")
    parser = html5lib.HTMLParser(namespaceHTMLElements=False)
    parser.parse((directory / "report.html").read_text())
    told("page without parse errors, by html5lib", not parser.errors, str(parser.errors[:3]) if parser.errors else "")


# Of every drawing: texts that lie on each other or outside of it; of every text: contrast below 4.5 to 1 (axe leaves drawings out).
LOOK = r"""
const found = {overlaps: [], outside: [], faint: [], texts: 0};
const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const channel = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const light = colour => { const [r, g, b] = colour.match(/[\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const probe = document.createElement('i'); document.body.append(probe);
const named = name => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
const grounds = ['--paper', '--panel'].map(named);
for (const svg of document.querySelectorAll('svg.plot, svg.lab')) {
  const boxes = [...svg.querySelectorAll('text')].map(text => [text, text.getBoundingClientRect()]);
  const whole = svg.getBoundingClientRect();
  boxes.forEach(([text, box], i) => {
    found.texts++;
    if (!inside(box, whole)) found.outside.push(text.textContent);
    const fill = getComputedStyle(text).fill;
    if (grounds.some(ground => contrast(fill, ground) < 4.5)) found.faint.push(text.textContent);
    for (const [other, its] of boxes.slice(i + 1)) {
      const [across, down] = [Math.min(box.right, its.right) - Math.max(box.left, its.left), Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top)];
      // Boxes have room for the tallest letter; two lines of a card share some of it.
      if (across > 1 && down > 4 * box.height / 16) found.overlaps.push(text.textContent + ' | ' + other.textContent);
    }
  });
}
probe.remove();
return found;
"""
AXE = """
const done = arguments[0];
axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
  .then(seen => done({version: axe.version, passes: seen.passes.length, violations: seen.violations.map(one => one.id + ' ' + one.nodes[0].html)}),
        error => done({error: String(error)}));
"""
TALL = 4000


def browsed(width, scheme):
    options = Options()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get((directory / "report.html").as_uri())
        of = f"at {width} px, {scheme}"
        root = "document.documentElement"
        height = driver.execute_script(f"return {root}.scrollHeight")
        for i, top in enumerate(range(0, height, TALL)):
            clip = {"x": 0, "y": top, "width": width, "height": min(TALL, height - top), "scale": 1}
            shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
            (shots / f"{width}-{scheme}-{i:02}.png").write_bytes(base64.b64decode(shot["data"]))
        # Folded: with everything open axe takes minutes for a matrix.
        driver.execute_script("document.querySelectorAll('details').forEach(one => { one.open = false; })")
        driver.execute_script((pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text())
        driver.set_script_timeout(300)
        axe = driver.execute_async_script(AXE)
        told(f"axe {of}", axe.get("violations") == [], str(axe))
        # What is folded is laid out like what is not; its drawings are looked at too.
        driver.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        wide = driver.execute_script(f"return {root}.scrollWidth")
        told(f"nothing wider than the page {of}", wide <= width, f"{wide} px")
        seen = driver.execute_script(LOOK)
        told(f"no text of a drawing on another {of}", not seen["overlaps"], f"{seen['texts']} texts {seen['overlaps'][:3] or ''}")
        told(f"no text of a drawing outside {of}", not seen["outside"], str(seen["outside"][:3] or ""))
        told(f"contrast of drawings at least 4.5 {of}", not seen["faint"], str(seen["faint"][:3] or ""))
        logged = driver.get_log("browser")
        told(f"console {of}", not logged, str(logged or ""))
    finally:
        driver.quit()


formats()
for width in (1280, 390):
    for scheme in ("light", "dark"):
        browsed(width, scheme)
print(f"screenshots: {shots}")
sys.exit(1 if wrong else 0)
