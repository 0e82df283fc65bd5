// Takes a picture of a comment in the colours of GitHub: node comment.mjs COMMENT.md FOLDER. MARKED names a folder with marked.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [path, folder] = process.argv.slice(2);
const browsers = process.env.PTMEM_TEST_BROWSER;
const { chromium } = createRequire(`${browsers}/`)("playwright-core");
const { marked } = createRequire(`${process.env.MARKED}/`)("marked");
const STYLE = `body { margin: 16px; font: 14px/1.5 -apple-system, "Liberation Sans", Helvetica, Arial, sans-serif; color: #1f2328; background: #fff }
main { border: 1px solid #d1d9e0; border-radius: 6px; padding: 16px } h3 { font-size: 1.25em; margin: 0 0 16px }
p, table, ul, pre, details { margin: 0 0 14px } table { border-collapse: collapse } th, td { border: 1px solid #d1d9e0; padding: 6px 13px }
tr:nth-child(2n) { background: #f6f8fa } code { font: 85% "DejaVu Sans Mono", monospace; background: #eff1f3; border-radius: 6px; padding: .2em .4em }
pre { background: #f6f8fa; border-radius: 6px; padding: 16px } pre code { background: none; padding: 0 } a { color: #0969da } sub { font-size: 75% }`;
// Drawn, as a machine without fonts of emoji has no sign for it.
const CROSS = '<svg width="14" height="14" viewBox="0 0 14 14"><path d="M2 2L12 12M12 2L2 12" stroke="#dd2e44" stroke-width="3" stroke-linecap="round"/></svg>';

const browser = await chromium.launch({ executablePath: `${browsers}/chromium`, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage({ viewport: { width: 800, height: 300 } });
  const markup = marked.parse(readFileSync(path, "utf8")).replaceAll("❌", CROSS);
  await page.setContent(`<!DOCTYPE html><meta charset="utf-8"><style>${STYLE}</style><main>${markup}</main>`);
  await page.locator("summary", { hasText: "Call stacks" }).click();
  await page.screenshot({ path: `${folder}/comment-stacks.png`, fullPage: true });
} finally {
  await browser.close();
}
