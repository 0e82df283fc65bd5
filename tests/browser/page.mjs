// Opens a page of ptmem in a browser, uses it as people do, and compares what it shows with the JSON of the same run:
// node page.mjs STORY PAGE JSON. A story that fails throws, and so do an error in the console and a request to anywhere.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const folder = process.env.PTMEM_TEST_BROWSER;
const { chromium } = createRequire(`${folder}/`)("playwright-core");
const [story, pagePath, jsonPath] = process.argv.slice(2);
const report = JSON.parse(readFileSync(jsonPath, "utf8"));

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

// A size as ptmem prints it.
function size(bytes) {
  let unit = 0;
  let value = bytes;
  while (unit < UNITS.length - 1 && Number(value.toFixed(unit ? 2 : 0)) >= 1024) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(unit ? 2 : 0)} ${UNITS[unit]}`;
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

// The boxes that a flame graph draws, with the figures that they are labelled with.
const boxes = (page) => page.$$eval("svg.boxes svg.box", (all) => all.map((box) => ({
  label: box.getAttribute("aria-label"), level: Number(box.getAttribute("aria-level")),
  x: parseFloat(box.getAttribute("x")), width: parseFloat(box.getAttribute("width")), style: box.getAttribute("class"),
})));

const outermost = async (page) => (await boxes(page)).filter((box) => box.level === 1);

// The width of everything that is drawn in the first row.
const wholeWidth = async (page) => sum((await outermost(page)).map((box) => box.width));

async function noBrokenNumbers(page) {
  const broken = await page.$$eval("svg *", (all) => all.flatMap((element) =>
    [...element.attributes].filter((attribute) => /NaN|undefined|Infinity/.test(attribute.value)).map((attribute) => `${element.tagName} ${attribute.name}`)));
  assert.deepEqual(broken, []);
}

async function timelines(page, device) {
  const { before, after } = device.metrics.peak;
  const marks = await page.$$eval("svg.plot .peak text", (all) => all.map((text) => text.textContent));
  assert.deepEqual(marks.sort(), [`after peak ${size(after)}`, `before peak ${size(before)}`]);
  // The pointer on the mark of the after shows the figures of its peak.
  const mark = await page.locator("svg.plot g.peak.after circle").boundingBox();
  const plot = await page.locator("svg.plot").boundingBox();
  await page.mouse.move(mark.x + mark.width / 2, plot.y + 100);
  const readout = await page.textContent("figure.timeline .readout");
  assert.ok(readout.includes("before: allocated ") && readout.includes("after: allocated "), readout);
  for (const axis of ["time", "event", "program"]) {
    const old = await page.getAttribute("svg.plot path.allocated.after", "d");
    await page.click(`figure.timeline button[data-choice="${axis}"]`);
    assert.notEqual(await page.getAttribute("svg.plot path.allocated.after", "d"), old, axis);
    await noBrokenNumbers(page);
  }
  await page.click('figure.timeline button[data-choice="before"]');
  assert.equal(await page.locator("svg.plot g.areas.before path").count() > 0, true);
  assert.equal(await page.locator("svg.plot g.areas.after").count(), 0);
  await page.focus("svg.plot");
  await page.keyboard.press("End");
  const end = await page.textContent("figure.timeline .readout");
  assert.ok(end.includes(`after: allocated ${size(device.metrics.end.after)}`), end);
  await page.keyboard.press("Enter");
}

// The bytes on both sides of all stacks with a file of this name among their frames.
function heldBy(device, file) {
  const stacks = device.stacks.filter((stack) =>
    [...(stack.frames || []), ...(stack.before_frames || [])].some((frame) => frame.filename.endsWith(`/${file}`) || frame.filename === file));
  return { before: sum(stacks.map((stack) => stack.before)), after: sum(stacks.map((stack) => stack.after)) };
}

async function flame(page, device) {
  const { before, after } = device.metrics.peak;
  await page.selectOption("figure.flame select", { index: 0 });
  const labels = (await outermost(page)).map((box) => box.label);
  assert.ok(labels.length > 1 && labels.every((label) => / before, .* after, /.test(label)), labels.join("\n"));
  assert.ok(Math.abs(await wholeWidth(page) - 100) < 0.5);
  await page.fill("figure.flame input[type=search]", "model.py");
  const held = heldBy(device, "model.py");
  assert.ok(held.after > 0 && held.after < after && held.before < before);
  const found = await page.textContent("figure.flame output.found");
  assert.ok(found.includes(`${size(held.before)} before, ${size(held.after)} after`), `${found} is not ${JSON.stringify(held)}`);
  assert.ok((await boxes(page)).some((box) => box.style.includes("found")));
  await page.fill("figure.flame input[type=search]", "");
  // Zoom: the box takes the whole width, its callers stay above it.
  const inner = page.locator('svg.boxes svg.box[aria-level="4"]').first();
  const label = await inner.getAttribute("aria-label");
  await inner.click({ position: { x: 6, y: 6 } });
  const zoomed = (await boxes(page)).find((box) => box.label === label);
  assert.deepEqual([zoomed.x, zoomed.width], [0, 100]);
  assert.equal((await boxes(page)).filter((box) => box.style.includes("dimmed")).length, 3);
  await page.keyboard.press("Escape");
  assert.ok((await boxes(page)).find((box) => box.label === label).width < 100);
  await page.keyboard.press("ArrowUp");
  const focused = await page.evaluate("document.activeElement.getAttribute('aria-level')");
  assert.equal(focused, "3");
  for (const view of ["before", "after", "difference"]) {
    await page.click(`figure.flame button[data-choice="${view}"]`);
    assert.ok(Math.abs(await wholeWidth(page) - 100) < 0.5, view);
    const isByChange = (await boxes(page)).some((box) => /more|less|same/.test(box.style));
    assert.equal(isByChange, view === "difference");
  }
  await noBrokenNumbers(page);
}

// What lies below a picture stays in its place while the pointer moves over the picture.
async function hover(page) {
  const place = () => page.$$eval("figure.flame, table", (all) => all.map((element) => element.getBoundingClientRect().top + scrollY));
  await page.mouse.move(0, 0);
  const before = await place();
  const plot = await page.locator("svg.plot").boundingBox();
  await page.mouse.move(plot.x + plot.width / 2, plot.y + 50);
  assert.deepEqual(await place(), before);
  await page.locator("svg.boxes svg.box").nth(3).hover();
  assert.deepEqual(await place(), before);
}

// The lowest contrast of a dimmed box's text with the box as it is painted on the page.
const dimmedContrast = (page) => page.evaluate(() => {
  const colour = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number);
  const luminance = (rgb) => rgb.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const mixed = (above, below, opacity) => above.map((part, at) => opacity * part + (1 - opacity) * below[at]);
  const ground = colour(getComputedStyle(document.documentElement).backgroundColor);
  const contrasts = [...document.querySelectorAll("svg.box.dimmed")].filter((box) => box.querySelector("text")).map((box) => {
    const [own, rect, text] = [box, box.querySelector("rect"), box.querySelector("text")].map((element) => getComputedStyle(element));
    const fill = mixed(mixed(colour(rect.fill), ground, Number(rect.fillOpacity)), ground, Number(own.opacity));
    const [dark, light] = [luminance(fill), luminance(mixed(colour(text.fill), ground, Number(own.opacity)))].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  });
  return Math.min(...contrasts);
});

// Boxes that a search does not find can still be read.
async function dimmed(page) {
  await page.fill("figure.flame input[type=search]", "softmax");
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    const contrast = await dimmedContrast(page);
    assert.ok(contrast >= 4.5 && contrast < Infinity, `${colorScheme}: ${contrast}`);
  }
  await page.fill("figure.flame input[type=search]", "");
}

const chosen = (page) => page.$eval("figure.flame select", (select) => select.selectedOptions[0].textContent);
const caption = (page) => page.textContent("figure.flame figcaption");

// A click on the timeline selects the moment that it says there, on any scale and at any zoom, and every caption says so.
async function moments(page) {
  const titles = await page.$$eval("figure.flame option", (all) => all.map((option) => option.textContent));
  for (const title of ["peak (", "start of the recording (", "end (", "peak of the after, and the corresponding place of the before ("]) {
    assert.ok(titles.some((text) => text.startsWith(title)), title);
  }
  const seen = new Set();
  for (const axis of ["event", "time", "program"]) {
    await page.click(`figure.timeline button[data-choice="${axis}"]`);
    await page.locator("svg.plot").scrollIntoViewIfNeeded();
    const plot = await page.locator("svg.plot").boundingBox();
    for (const share of [0.02, 0.3, 0.6, 0.9]) {
      await page.mouse.move(plot.x + plot.width * share, plot.y + 60);
      const [, said, event] = (await page.textContent("figure.timeline .readout")).match(/after: allocated ([\d.]+ \w+).*?\((event [\d,]*\d|start)/);
      await page.mouse.click(plot.x + plot.width * share, plot.y + 60);
      const moment = await chosen(page), shown = await caption(page);
      assert.ok(moment.includes(`after: ${event}`), `${moment} is not ${event}`);
      assert.ok(shown.includes(`after: ${event}, ${said}`), `${shown} does not say ${event}, ${said}`);
      seen.add(moment);
      await page.waitForTimeout(350);
    }
  }
  assert.ok(seen.size >= 9, [...seen].join("\n"));
}

// The axis and the captions are the same with the script as without it.
async function stillAndLive(page, browser) {
  const still = await browser.newPage({ viewport: { width: 1280, height: 900 }, javaScriptEnabled: false });
  await still.goto(page.url().split("#")[0]);
  const scale = (of) => of.$$eval("svg.plot .scale text", (all) => all.map((text) => text.textContent));
  assert.deepEqual(await scale(page), await scale(still));
  await still.close();
  const title = () => page.textContent("figure.timeline figcaption");
  assert.ok((await title()).includes("at the same place of the program"));
  await page.click('figure.timeline button[data-choice="time"]');
  assert.ok(!(await title()).includes("place of the program"));
  await page.click('figure.timeline button[data-choice="before"]');
  assert.ok((await title()).includes("areas are those of the before"));
  await page.click('figure.flame button[data-choice="before"]');
  assert.ok((await caption(page)).includes("of the before") && (await caption(page)).includes("green is your code"));
  await page.click('figure.flame button[data-choice="difference"]');
  await page.click('figure.timeline button[data-choice="program"]');
}

const drag = async (page, from, to) => {
  const plot = await page.locator("svg.plot").boundingBox();
  await page.mouse.move(plot.x + plot.width * from, plot.y + 60);
  await page.mouse.down();
  await page.mouse.move(plot.x + plot.width * to, plot.y + 60, { steps: 4 });
  await page.mouse.up();
};

// Zoom, pan, the minimap, the legend, each allocation, and the address that leads back to all of it.
async function stretch(page) {
  const ends = () => page.$$eval("svg.plot .scale text", (all) => [all[0], all[4]].map((text) => parseInt(text.textContent.replaceAll(",", ""), 10)));
  const [, whole] = await ends();
  await drag(page, 0.4, 0.5);
  const [from, to] = await ends();
  assert.ok(from > 0.35 * whole && to < 0.55 * whole && to > from, `${from} to ${to} of ${whole}`);
  assert.ok((await page.textContent("figure.timeline figcaption")).includes(" allocations to "));
  assert.equal(await page.locator("svg.minimap rect.stretch").count(), 1);
  await page.focus("svg.plot");
  await page.keyboard.press("Shift+ArrowRight");
  assert.ok((await ends())[0] > from);
  await page.click('button[data-choice="allocation"]');
  const each = await page.locator("svg.plot g.each path[data-row]").count();
  assert.ok(each > 5, String(each));
  await noBrokenNumbers(page);
  const areas = await page.locator('button[data-choice="category"]').click().then(() => page.locator("svg.plot g.areas path").count());
  await page.locator(".legend li", { hasText: "forward" }).locator("button").click();
  assert.equal(await page.locator("svg.plot g.areas path").count(), areas - 1);
  await page.locator(".legend li", { hasText: "forward" }).locator("button").click();
  const stretch = await ends();
  const again = await browser.newPage({ viewport: page.viewportSize() });
  await again.goto(page.url());
  await again.locator("details.section.ready").first().waitFor();
  assert.deepEqual(await again.$$eval("svg.plot .scale text", (all) => [all[0], all[4]].map((text) => parseInt(text.textContent.replaceAll(",", ""), 10))), stretch);
  assert.equal(await chosen(again), await chosen(page));
  await again.close();
  await page.keyboard.press("Escape");
  await page.click("text=Whole recording");
  assert.deepEqual(await ends(), [0, whole]);
}

// A row that is ticked has its own curve, its boxes and its events; several have a sum.
async function linked(page, device) {
  await page.selectOption("figure.flame select", { index: 0 });
  await page.click("details.moment summary");
  const rows = page.locator("details.moment tbody tr");
  await rows.first().waitFor();
  const names = await rows.locator("code").allTextContents(), [name] = names, stack = device.stacks.find((stack) => stack.label === name);
  assert.deepEqual(await rows.first().locator("td.figure").allTextContents().then((all) => all.slice(1, 3)), [size(stack.before), size(stack.after)]);
  await rows.first().locator("input").check();
  assert.equal(await page.locator("svg.own path").count(), 2);
  assert.ok((await page.textContent("svg.own .title")).includes(name));
  const highest = (await page.locator("table:has(tr[data-row]) tr", { hasText: name }).first().locator("p.details").textContent()).match(/highest: .*?([\d.]+ \w+)(?:;|$)/)[1];
  assert.ok((await page.textContent("svg.own .grid")).includes(highest), highest);
  assert.ok(await page.locator("svg.box.chosen").count() > 1);
  await rows.nth(1).locator("input").check();
  const second = device.stacks.find((stack) => stack.label === names[1]);
  const together = `2 selected rows together: ${size(stack.before + second.before)} before, ${size(stack.after + second.after)} after`;
  assert.ok((await page.textContent("details.moment .note")).includes(together), together);
  await page.click("details.events summary");
  await page.locator("details.events tbody tr").nth(3).waitFor();
  for (const row of [0, 1]) await rows.nth(row).locator("input").uncheck();
  assert.equal(await page.locator("svg.own path").count(), 0);
}

// Every segment is a bar, blocks and holes add up to it.
async function map(page, device) {
  await page.click("details.map summary");
  await page.locator("figure.map").nth(1).waitFor();
  const captions = await page.locator("figure.map figcaption").allTextContents();
  assert.equal(captions.length, 2);
  for (const [at, side] of ["before", "after"].entries()) assert.ok(captions[at].startsWith(`${side}: `), captions[at]);
  assert.ok(await page.locator("figure.map rect.block").count() > 10);
  await page.selectOption("figure.flame select", { label: await page.$$eval("figure.flame option", (all) => all.map((one) => one.textContent).find((text) => text.startsWith("end"))) });
  const end = await page.locator("figure.map figcaption").last().textContent();
  const [, reserved, unused] = end.match(/ of ([\d.]+) MiB, ([\d.]+) MiB free/).map(Number);
  assert.ok(Math.abs(reserved - unused - device.metrics.end.after / 2 ** 20) < 0.03, `${end} does not leave ${size(device.metrics.end.after)}`);
  await noBrokenNumbers(page);
}

async function rows(page, device) {
  const table = page.locator("table:has(tr[data-row])").first();
  const names = () => table.locator("tbody tr td.name summary code").allTextContents().then((all) => all.filter((text) => !text.startsWith("<")));
  const labels = (by) => device.stacks.filter((stack) => !stack.bucket && (stack.before || stack.after))
    .sort((a, b) => by(b) - by(a)).map((stack) => stack.label);
  await table.locator("th button", { hasText: "after" }).first().click();
  const shown = await names();
  const expected = labels((stack) => stack.after);
  assert.equal(shown[0], expected[0]);
  assert.equal(shown.length, expected.length);
  await table.locator("th button", { hasText: "change" }).click();
  assert.equal((await names())[0], labels((stack) => stack.delta)[0]);
  assert.equal(await table.locator('th[aria-sort="descending"]').count(), 1);
  await page.locator(".controls label", { hasText: "Search rows" }).first().locator("input").fill("softmax");
  const visible = await table.locator("tbody tr").count();
  assert.ok(visible > 0 && visible < expected.length, String(visible));
  await table.locator("summary").first().click();
  assert.ok(await table.locator("pre").first().isVisible());
}

const stories = {
  async diff(page) {
    const device = report.devices[0];
    assert.equal(await page.textContent("h1 .verdict"), "FAIL");
    await stillAndLive(page, browser);
    await timelines(page, device);
    await flame(page, device);
    await hover(page);
    await dimmed(page);
    await moments(page);
    await stretch(page);
    await linked(page, device);
    await map(page, device);
    await rows(page, device);
  },
  async hostile(page) {
    const texts = await page.evaluate("document.body.innerText");
    assert.ok(texts.includes("</script>"), "the name is shown as text");
    assert.equal(await page.evaluate("window.broken"), undefined);
    assert.equal(await page.locator("img, iframe, object, b.injected").count(), 0);
    assert.ok((await boxes(page)).length > 0);
  },
  async leak(page) {
    assert.equal(await page.locator("figure.bars rect").count(), report.steps.length);
    const label = report.leaks[0].label;
    assert.ok((await page.locator("figure.lines .legend").textContent()).includes(label));
    assert.equal(await page.locator("figure.lines path").count(), Math.min(report.leaks.length, 8));
    assert.ok((await page.locator("table").last().textContent()).includes(label));
  },
  async ranks(page) {
    const bars = page.locator("figure.bars a");
    assert.equal(await bars.count(), report.comparisons.length);
    const last = bars.nth(await bars.count() - 1);
    const target = (await last.getAttribute("href")).slice(1);
    assert.equal(await page.evaluate((id) => document.getElementById(id).open, target), false);
    await last.focus();
    await page.keyboard.press("Enter");
    await page.locator(`#${target}.ready`).waitFor();
    // It is drawn once the part that was folded has a size.
    await page.locator(`#${target} svg.plot`).waitFor({ state: "visible" });
    await noBrokenNumbers(page);
  },
  // Times of clicks, for people: nothing is asserted.
  async measure(page) {
    const times = await page.evaluate(() => {
      const figure = document.querySelector("figure.flame");
      const time = (act) => { const from = performance.now(); act(); document.body.getBoundingClientRect(); return Math.round(performance.now() - from); };
      const all = (selector) => [...figure.querySelectorAll(selector)];
      const click = (element) => element && element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      const search = figure.querySelector("input");
      return {
        boxes: all("svg.box").length,
        zoom: time(() => click(figure.querySelector('svg.box[aria-level="2"]'))),
        reset: time(() => click(all("button").pop())),
        view: time(() => click(figure.querySelector('button[data-choice="after"]'))),
        search: time(() => { search.value = "a"; search.dispatchEvent(new Event("input")); }),
        moment: time(() => { const select = figure.querySelector("select"); select.selectedIndex = 1; select.dispatchEvent(new Event("change")); }),
        sort: time(() => click(document.querySelector("th button"))),
        axis: time(() => click(document.querySelector('figure.timeline button[data-choice="event"]'))),
      };
    });
    console.log(JSON.stringify({ milliseconds: times, open: await page.evaluate("Math.round(performance.timing.domComplete - performance.timing.navigationStart)") }));
  },
};

// On a phone, the figures of a device are seen with their verdict, and heads do not run into one another.
async function narrow(page) {
  const beyond = await page.$$eval('.scroll[aria-label="figures"]', (all) =>
    all.filter((table) => table.scrollWidth > table.clientWidth).map((table) => table.textContent));
  assert.deepEqual(beyond, []);
  const cut = await page.$$eval("details[open] table.named th", (all) =>
    all.filter((head) => head.scrollWidth > head.clientWidth).map((head) => head.textContent));
  assert.deepEqual(cut, []);
}

const browser = await chromium.launch({ executablePath: `${folder}/chromium`, args: ["--no-sandbox"] });
try {
  for (const viewport of [{ width: 1280, height: 900 }, { width: 360, height: 740 }, { width: 2560, height: 1300 }]) {
    const page = await browser.newPage({ viewport });
    const complaints = [];
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("request", (request) => { if (!/^(file|data):/.test(request.url())) complaints.push(request.url()); });
    await page.goto(pathToFileURL(pagePath).href);
    while (await page.locator("details.section[open]:not(.ready)").count()) await page.waitForTimeout(20);
    const overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
    assert.ok(overflow <= 0, `${overflow} pixels wider than ${viewport.width}`);
    if (viewport.width === 360) await narrow(page);
    if (viewport.width === 1280) await stories[story](page);
    assert.deepEqual(complaints, []);
    await page.close();
  }
  const page = await browser.newPage({ javaScriptEnabled: false });
  await page.goto(pathToFileURL(pagePath).href);
  assert.ok(await page.locator("h1").isVisible(), "without its script");
} finally {
  await browser.close();
}
