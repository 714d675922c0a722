import { expect, test } from 'bun:test'
import { classifyVisitor } from '#features/sending/tracking/engage.ts'

const SAFARI =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1'
const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36'

test.each([
  ['Chrome', CHROME],
  ['Edge', `${CHROME} Edg/130.0.0.0`],
  ['Chrome on Android', CHROME.replace('Windows NT 10.0; Win64; x64', 'Linux; Android 10; K')],
  ['Safari on a phone', SAFARI],
  [
    'the web view of Apple Mail',
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)',
  ],
  ['Firefox', 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:132.0) Gecko/20100101 Firefox/132.0'],
  ['Thunderbird', 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Thunderbird/128.4.0'],
  [
    'Outlook',
    'Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; Microsoft Outlook 16.0.4266; ms-office; MSOffice 16)',
  ],
  ['current Outlook', 'Microsoft Office/16.0 (Windows NT 10.0; Microsoft Outlook 16.0.17531; Pro)'],
  ['Outlook on a phone', 'Outlook-iOS/723.4027091.prod.iphone (4.28.0)'],
  ['Outlook on Android', 'Outlook-Android/2.0'],
  ['the Yahoo app', 'YahooMobileMail/1.0 (Android Mail; 6.50.1)'],
  ['Mailbird', 'Mailbird/3.0.18.0'],
  ['Foxmail', 'Foxmail 7.2'],
  ['Samsung Email', 'Dalvik/2.1.0 (Linux; U; Android 13; SM-A536B Build/TP1A.220624.014)'],
  ['Airmail', 'Airmail 5'],
  ['eM Client', 'eMClient/9.2.2157.0'],
  ['K-9 Mail', 'K-9 Mail'],
  ['Postbox', 'Postbox/7.0.60'],
  ['Lotus Notes', 'Mozilla/4.0 (compatible; Lotus-Notes/6.0; Windows-NT)'],
])('%s is a person', (_, userAgent) => {
  expect(classifyVisitor(new Headers({ 'user-agent': userAgent }))).toBe('human')
})

// Proves: track-3
test.each([
  [
    'the image proxy of Gmail',
    'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)',
  ],
  [
    'the image prefetch of Gmail',
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/42.0.2311.135 Safari/537.36 Edge/12.246 Mozilla/5.0',
  ],
  ['the image proxy of Yahoo', 'YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html'],
  ['the image proxy of Seznam', 'SeznamEmailProxy/2.0.110'],
  ['the image proxy of Mail.ru', 'Mozilla/5.0 (compatible; Mail.RuImageProxy/1.0)'],
  ['the privacy proxy of Apple Mail', 'Mozilla/5.0'],
  ['the preview of Outlook links', `${CHROME} BingPreview/1.0b`],
  ['Safe Links', 'Mozilla/5.0 (Windows NT 10.0) SafeLinks'],
  ['Barracuda', 'Barracuda Sentinel (EE)'],
  ['Proofpoint', 'Mozilla/5.0 (compatible; Proofpoint)'],
  ['Mimecast inside a browser user agent', `${CHROME} Mimecast`],
  ['Symantec', 'Mozilla/5.0 (compatible; Symantec Email Security.cloud)'],
  ['Trend Micro', 'Mozilla/5.0 (compatible; Trend Micro WTP)'],
  ['Cisco', 'Mozilla/5.0 (compatible; IronPort)'],
  ['Sophos', 'Mozilla/5.0 (Windows NT 10.0; Sophos Email)'],
  ['a chat preview', 'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)'],
  ['a crawler', 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)'],
  ['a headless browser', CHROME.replace('Chrome/', 'HeadlessChrome/')],
  ['a preview of WhatsApp', 'WhatsApp/2.24.13.75 A'],
  ['a preview of Teams', `${CHROME} SkypeUriPreview Preview/0.5`],
  ['a preview of Telegram', 'TelegramBot (like TwitterBot)'],
  ['a shell', 'Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.19041.4522'],
  ['curl', 'curl/8.5.0'],
  ['a program', 'python-requests/2.31.0'],
  ['an empty user agent', ''],
  ['a blank user agent', '   '],
])('%s is a machine', (_, userAgent) => {
  expect(classifyVisitor(new Headers({ 'user-agent': userAgent }))).toBe('machine')
})

test('a request without a user agent is a machine', () => {
  expect(classifyVisitor(new Headers())).toBe('machine')
})

test.each([
  ['sec-purpose', 'prefetch'],
  ['Sec-Purpose', 'prefetch;prerender'],
  ['purpose', 'prefetch'],
  ['Purpose', 'preview'],
  ['x-purpose', 'Preview'],
  ['x-moz', 'prefetch'],
])('a browser that prefetches (%s: %s) is a machine', (name, value) => {
  expect(classifyVisitor(new Headers({ 'user-agent': SAFARI, [name]: value }))).toBe('machine')
})

test('other values of these headers are ignored', () => {
  expect(classifyVisitor(new Headers({ 'user-agent': SAFARI, 'sec-purpose': 'navigate', purpose: 'read' }))).toBe(
    'human',
  )
})

test('only the first 512 characters of a user agent are examined', () => {
  expect(classifyVisitor(new Headers({ 'user-agent': `${CHROME} ${'x'.repeat(512)} Proofpoint` }))).toBe('human')
})
