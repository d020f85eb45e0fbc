// status_page.cjs BASE_URL ADMIN_PORT - the status page in a real browser, while visitors come. Started by `status_page`.
// From the environment: CHROMIUM, PROFILE, SCREENSHOTS, NOSTAT_PID.
'use strict';
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { chromium } = require('playwright-core');

const base = new URL(process.argv[2]);
const adminPort = Number(process.argv[3]);
const admin = `http://127.0.0.1:${adminPort}`;
const TOKEN = '0123456789abcdef';
const HOSTILE = '<img src=x onerror=alert(1)>';
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

// ---- Visitors.
const agent = new http.Agent({ keepAlive: true, maxSockets: 24 });
function get(target, headers = {}) {
  return new Promise((resolve) => {
    const request = http.get({ host: base.hostname, port: base.port, path: target, agent, headers: { host: 'shop.example', ...headers }, timeout: 20_000 }, (response) => {
      response.resume().on('end', resolve).on('error', resolve);
    });
    request.on('error', resolve).on('timeout', () => request.destroy());
  });
}
const BROWSER = { 'accept-encoding': 'gzip', accept: 'text/html,*/*' };
const FILES = [
  ['/wp-includes/js/jquery/jquery.min.js?ver=3.7.1', 22], ['/wp-includes/css/dist/block-library/style.min.css', 18],
  ['/wp-includes/js/jquery/jquery-migrate.min.js', 12], ['/wp-includes/css/buttons.css', 8], ['/wp-includes/js/wp-embed.min.js', 6],
  [`/wp-content/${encodeURIComponent(HOSTILE)}.png`, 10], ['/wp-includes/css/dashicons.min.css', 4], ['/wp-includes/images/w-logo-blue.png', 4],
  ['/wp-content/themes/none/missing.woff2', 2], ['/.env', 1],
];
const PAGES = ['/', '/?p=1', '/hello-world/', '/sample-page/', '/?s=shoes', '/feed/', '/wp-login.php', `/${encodeURIComponent(HOSTILE)}/`];
let isOver = false;
const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));
async function files(perSecond) {
  const sum = FILES.reduce((all, [, weight]) => all + weight, 0);
  for (let beat = 0; !isOver; beat += 1) {
    // It rises and falls.
    const now = perSecond * (1 + .3 * Math.sin(beat / 173) + .2 * Math.sin(beat / 67) + .1 * Math.sin(beat / 13) + .3 * (Math.random() - .5)) / 10;
    for (let number = 0; number < now; number += 1) {
      let dice = Math.random() * sum;
      const [file] = FILES.find(([, weight]) => (dice -= weight) < 0) ?? FILES[0];
      void get(file, Math.random() < .25 ? { 'if-modified-since': new Date().toUTCString() } : {});
    }
    await pause(100);
  }
}
async function pages() {
  for (let number = 0; !isOver; number += 1) {
    const page = PAGES[Math.floor(PAGES.length * Math.random() ** 2)];
    const cookie = number % 9 === 0 ? { cookie: 'currency=EUR' } : number % 3 === 0 ? { cookie: 'wordpress_logged_in_x=me' } : {};
    await get(page, { ...BROWSER, ...cookie });
    if (number % 5 === 0) void get('/hello-world/', BROWSER);
    await pause(Math.random() * 250);
  }
}

// ---- What is looked at.
async function overflow(page) {
  return page.evaluate(() => {
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (wide <= 0) return [];
    const outside = [...document.querySelectorAll('main *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1);
    return [`${wide} px too wide: ${outside.slice(0, 5).map((one) => one.tagName + '.' + one.className).join(' ')}`];
  });
}
// WCAG: 4.5 for text, 3 for what is drawn.
async function contrasts(page) {
  return page.evaluate(() => {
    const style = getComputedStyle(document.documentElement);
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const light = (name) => {
      canvas.fillStyle = style.getPropertyValue(name).trim();
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => (part / 255 <= .03928 ? part / 255 / 12.92 : ((part / 255 + .055) / 1.055) ** 2.4));
      return .2126 * r + .7152 * g + .0722 * b;
    };
    const contrast = (one, other) => {
      const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
      return (high + .05) / (low + .05);
    };
    const wanted = [
      ...['--text', '--quiet', '--bad'].flatMap((text) => ['--surface', '--ground'].map((under) => [text, under, 4.5])),
      ['--text', '--warn-ground', 4.5], ['--quiet', '--warn-ground', 4.5], ['--text', '--code', 4.5],
      ...['--static', '--page', '--php', '--origin', '--refused'].map((colour) => [colour, '--surface', 3]),
    ];
    return wanted.map(([one, other, least]) => [one, other, least, contrast(one, other)])
      .filter(([, , least, found]) => found < least)
      .map(([one, other, least, found]) => `${one} on ${other}: ${found.toFixed(2)}, less than ${least}`);
  });
}
async function picture(page, name, options = {}) {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: path.join(process.env.SCREENSHOTS, `${name}.png`), ...options });
}

async function main() {
  const context = await chromium.launchPersistentContext(process.env.PROFILE, {
    executablePath: process.env.CHROMIUM,
    viewport: { width: 1280, height: 900 },
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
  void files(Number(process.env.RATE ?? 250));
  void pages();
  void pages();
  try {
    const page = await context.newPage();
    const said = [], asked = [], ran = [];
    page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) said.push(message.text()); });
    page.on('pageerror', (error) => said.push(`script: ${error.message}`));
    page.on('request', (request) => { if (!request.url().startsWith('data:')) asked.push(request.url()); });
    page.on('dialog', (dialog) => { ran.push(dialog.message()); void dialog.dismiss(); });
    await page.emulateMedia({ colorScheme: 'light' });
    const opened = Date.now();
    await page.goto(`${admin}/`);
    await page.waitForFunction(() => document.getElementById('live').dataset.is === 'live', { timeout: 20_000 });
    console.log(`live after ${Date.now() - opened} ms`);

    const line = page.locator('#warnings code', { hasText: 'ignore_cookies: ["currency"]' });
    await line.waitFor({ timeout: 20_000 }).then(() => check('a warning has its line', []), (error) => check('a warning has its line', [String(error)]));
    // A new warning does move what is below it; it is there by now.
    const shift = page.evaluate(() => new Promise((resolve) => {
      let all = 0;
      new PerformanceObserver((list) => { for (const one of list.getEntries()) all += one.value; }).observe({ type: 'layout-shift', buffered: false });
      setTimeout(() => resolve(all), 12_000);
    }));
    await page.waitForFunction(() => ['chart-requests', 'chart-ratio', 'chart-php'].every((chart) =>
      [...document.querySelectorAll(`#${chart} path`)].some((path) => (path.getAttribute('d') ?? '').split('L').length > 5)), { timeout: 60_000 });
    check('nothing jumps while numbers come in', [await shift].filter((all) => all > .02).map((all) => `layout shift ${all}`));

    const row = (table, text) => page.waitForFunction(([body, part]) =>
      [...document.querySelectorAll(`#${body} td.path`)].some((cell) => cell.textContent.includes(part)), [table, text], { timeout: 60_000 })
      .then(() => [], () => [`not in #${table}: ${text}`]);
    check('the hottest path is listed', await row('hot', 'jquery.min.js'));
    check('a hostile path is shown as text where files are', await row('hot', HOSTILE));
    check('PHP has paths that take its time', await row('behind', '/'));
    check('no markup came of it', await page.evaluate(() => [...document.images].map((image) => image.outerHTML)));
    const tiles = await page.evaluate(() => ['rate', 'here', 'avoided', 'php', 'open', 'failed'].map((id) => [id, document.getElementById(id).textContent]));
    check('all tiles have numbers', tiles.filter(([, text]) => !/\d/.test(text)).map(([id, text]) => `${id}: ${text}`));
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: admin });
    await page.locator('#warnings li', { has: page.locator('code', { hasText: 'ignore_cookies' }) }).locator('button').click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    check('the line is copied', copied === 'page_cache: {ignore_cookies: ["currency"]}' ? [] : [copied]);
    const unnamed = await page.evaluate(() => [
      ...[...document.querySelectorAll('svg')].filter((svg) => !svg.getAttribute('aria-label')).map(() => 'svg'),
      ...[...document.querySelectorAll('[role=meter]')].filter((bar) => !bar.getAttribute('aria-label') || !bar.hasAttribute('aria-valuenow')).map((bar) => bar.outerHTML),
      ...[...document.querySelectorAll('table')].filter((table) => !table.getAttribute('aria-labelledby') || !table.querySelector('th[scope=col]')).map(() => 'table'),
    ]);
    check('charts, bars and tables have names', unnamed);

    if (process.env.LINGER) await pause(Number(process.env.LINGER) * 1000);
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      check(`contrast, ${colorScheme}`, await contrasts(page));
      check(`1280 px, ${colorScheme}: nothing to scroll sideways`, await overflow(page));
      await picture(page, colorScheme, { fullPage: true });
    }
    const grounds = [];
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      grounds.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    }
    check('light and dark are two', grounds[0] === grounds[1] ? grounds : []);
    for (const width of [360, 414, 600, 768, 900, 1024]) {
      await page.setViewportSize({ width, height: 800 });
      await pause(300);
      check(`${width} px: nothing to scroll sideways`, await overflow(page));
      if (width === 360) await picture(page, 'phone', { fullPage: true });
    }
    await page.setViewportSize({ width: 1280, height: 900 });

    check('nothing is asked of anybody else', [...new Set(asked)].filter((url) => ![`${admin}/`, `${admin}/overview`].includes(url)));
    check('nothing in the console', said);

    // It stands still: nobody answers, and the page goes on asking.
    process.kill(Number(process.env.NOSTAT_PID), 'SIGSTOP');
    const gone = await page.waitForFunction(() => document.getElementById('live').dataset.is === 'gone', { timeout: 30_000 }).then(() => [], (error) => [String(error)]);
    check('it says that the server is gone', gone);
    process.kill(Number(process.env.NOSTAT_PID), 'SIGCONT');
    const back = await page.waitForFunction(() => document.getElementById('live').dataset.is === 'live', { timeout: 30_000 }).then(() => [], (error) => [String(error)]);
    check('it comes back by itself', back);

    const own = Object.values(os.networkInterfaces()).flat().find((one) => one.family === 'IPv4' && !one.internal);
    if (own) {
      const far = await context.newPage();
      await far.goto(`http://${own.address}:${adminPort}/`);
      const form = far.locator('#token-word');
      await form.waitFor();
      for (const [word, is] of [['wrong', 'token'], [TOKEN, 'live']]) {
        await form.fill(word);
        await far.locator('#token-form button').click();
        const reached = far.waitForFunction((wanted) => document.getElementById('live').dataset.is === wanted, is, { timeout: 10_000 });
        check(`from another address, ${is} after the word "${word}"`, await reached.then(() => [], (error) => [String(error)]));
      }
      await far.reload();
      const again = far.waitForFunction(() => document.getElementById('live').dataset.is === 'live', { timeout: 10_000 });
      check('the token is kept while the tab is', await again.then(() => [], (error) => [String(error)]));
    } else {
      console.log('this machine has no other address: the token was not tried');
    }
    check('nothing ran that came with a path', ran);
  } finally {
    isOver = true;
    agent.destroy();
    await context.close();
  }
}

main()
  .catch((error) => check('the browser reaches the end', [String(error)]))
  .finally(() => {
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed === 0 ? 0 : 1;
  });
