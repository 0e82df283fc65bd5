// Takes the pictures of the documentation: node pictures.mjs FOLDER PAGE.html=NAME [PAGE.html=NAME …]. Each page gives
// NAME-light.png and NAME-dark.png in the folder, cut off where it is longer than the eye takes in at once.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, ...pages] = process.argv.slice(2);
const browsers = process.env.PTMEM_TEST_BROWSER;
const { chromium } = createRequire(`${browsers}/`)("playwright-core");
const HIGHEST = 1250;

const browser = await chromium.launch({ executablePath: `${browsers}/chromium`, args: ["--no-sandbox"] });
try {
  for (const [path, name] of pages.map((page) => page.split("="))) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await browser.newPage({ viewport: { width: 1000, height: 900 }, colorScheme });
      await page.goto(pathToFileURL(path).href);
      while (await page.locator("details.section[open]:not(.ready)").count()) await page.waitForTimeout(20);
      const height = Math.min(await page.evaluate(() => document.documentElement.scrollHeight), HIGHEST);
      await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png`, fullPage: true, clip: { x: 0, y: 0, width: 1000, height } });
      await page.close();
    }
  }
} finally {
  await browser.close();
}
