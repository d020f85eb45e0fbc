// browser.cjs BASE_URL [SECURE_URL] - the pages of a visitor and of an administrator, in a real browser; the front page by
// HTTP/2. Started by `browser`.
// From the environment: CHROMIUM, PROFILE, SCREENSHOTS, WP_ADMIN_USER, WP_ADMIN_PASS.
'use strict';
const path = require('node:path');
const { chromium } = require('playwright-core');

const base = process.argv[2].replace(/\/$/, '');
const secure = process.argv[3];
let passed = 0;
let failed = 0;

function check(name, faults) {
  if (faults.length === 0) {
    passed += 1;
    return;
  }
  failed += 1;
  console.log(`FAIL  ${name}`);
  faults.forEach((fault) => console.log(`      ${fault}`));
}

// Watches what a page asks for while `visit` runs; gives the faults and the number of requests.
async function watched(page, visit) {
  const faults = [];
  let requests = 0;
  const onResponse = (response) => {
    requests += 1;
    if (response.status() >= 400) faults.push(`${response.status()} ${response.url()}`);
  };
  // A page that is left ends its own requests: that is no server's fault.
  const onFailed = (request) => {
    const why = request.failure()?.errorText ?? '';
    if (why !== 'net::ERR_ABORTED') faults.push(`${why} ${request.url()}`);
  };
  const onError = (error) => faults.push(`script: ${error.message}`);
  page.on('response', onResponse).on('requestfailed', onFailed).on('pageerror', onError);
  await visit();
  await page.waitForLoadState('networkidle', { timeout: 30_000 });
  page.off('response', onResponse).off('requestfailed', onFailed).off('pageerror', onError);
  return { faults, requests };
}

async function picture(page, name) {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: path.join(process.env.SCREENSHOTS, `${name}.png`) });
}

// Protocol and coding of each answer to the front page, as the browser sees them.
async function answers(context) {
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  const seen = [];
  await devtools.send('Network.enable');
  await devtools.send('Network.setCacheDisabled', { cacheDisabled: true });
  devtools.on('Network.responseReceived', ({ response }) => {
    const headers = new Map(Object.entries(response.headers).map(([name, value]) => [name.toLowerCase(), value]));
    seen.push({ url: response.url, protocol: response.protocol, coding: headers.get('content-encoding') });
  });
  const front = await watched(page, () => page.goto(`${secure}/`));
  await page.close();
  return { seen: seen.filter(({ url }) => url.startsWith(secure)), faults: front.faults };
}

// HTTP/2 and codings, over TLS. Style sheets are compressed aside: for a while they come as they are.
async function overHttp2(context) {
  const isText = ({ url }) => /\.(css|js)(\?|$)/.test(url);
  const deadline = Date.now() + 60_000;
  let front = await answers(context);
  const first = front.seen.find(({ url }) => url === `${secure}/`);
  while (Date.now() < deadline && !front.seen.some((answer) => isText(answer) && answer.coding === 'br')) {
    front = await answers(context);
  }
  console.log(`over TLS: ${front.seen.length} answers, ${[...new Set(front.seen.map(({ protocol }) => protocol))]}`);
  check('no request over TLS fails', front.faults);
  check('all come by HTTP/2', front.seen.filter(({ protocol }) => protocol !== 'h2').map(({ url }) => url));
  check('the page is compressed', first?.coding === 'zstd' ? [] : [`it is ${JSON.stringify(first)}`]);
  check('style sheets come with Brotli', front.seen.some((answer) => isText(answer) && answer.coding === 'br') ? []
    : front.seen.filter(isText).map((answer) => JSON.stringify(answer)));
}

async function main() {
  const context = await chromium.launchPersistentContext(process.env.PROFILE, {
    executablePath: process.env.CHROMIUM,
    viewport: { width: 1280, height: 900 },
    ignoreHTTPSErrors: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
  try {
    const page = await context.newPage();

    const front = await watched(page, async () => {
      await page.goto(`${base}/`);
      await page.evaluate(async () => {
        for (let y = 0; y < document.body.scrollHeight; y += 600) {
          window.scrollTo(0, y);
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
      });
    });
    console.log(`front page: ${front.requests} requests`);
    check('no request of the front page fails', front.faults);
    check('the front page is styled and shows its images', await page.evaluate(() => [
      ...(document.styleSheets.length === 0 ? ['no style sheet'] : []),
      ...[...document.images].filter((image) => image.complete && image.naturalWidth === 0).map((image) => image.src),
    ]));
    await picture(page, 'front');

    const again = await watched(page, () => page.reload());
    check('no request of a reload fails', again.faults);

    await page.goto(`${base}/wp-login.php`);
    await page.fill('#user_login', process.env.WP_ADMIN_USER);
    await page.fill('#user_pass', process.env.WP_ADMIN_PASS);
    const dashboard = await watched(page, async () => {
      await page.click('#wp-submit');
      await page.waitForURL(`${base}/wp-admin/`);
    });
    console.log(`dashboard: ${dashboard.requests} requests`);
    check('no request of the dashboard fails', dashboard.faults);
    const title = (await page.locator('h1').first().textContent()) ?? '';
    check('the dashboard is there', title.includes('Dashboard') ? [] : [`its heading is ${JSON.stringify(title)}`]);
    await picture(page, 'dashboard');
    if (secure) await overHttp2(context);
  } finally {
    await context.close();
  }
}

main()
  .catch((error) => check('the browser reaches the end', [String(error)]))
  .finally(() => {
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed === 0 ? 0 : 1;
  });
