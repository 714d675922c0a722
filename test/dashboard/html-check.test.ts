import { expect, test } from 'bun:test'
import { checkHtml } from '#dashboard/screens/sandbox/check-html.ts'
import support from '#dashboard/screens/sandbox/email-support.json'
import { scanHtml } from '#dashboard/screens/sandbox/scan.ts'
import type { EmailSupport } from '#dashboard/screens/sandbox/support-data.ts'
import { cpuMs } from '#test/support/cpu-time.ts'

const SUPPORT = support as EmailSupport
const check = (html: string) => checkHtml(html, SUPPORT)
const slugs = (html: string) => check(html).map(({ slug }) => slug)
const tokens = (html: string) => [...scanHtml(html).keys()]

test('the data has each client once, and a letter for each in every feature', () => {
  const { clients, features } = SUPPORT
  expect(new Set(clients.map(({ name }) => name)).size).toBe(16)
  expect(new Set(clients.map(({ family }) => family)).size).toBe(5)
  for (const { slug, support: letters, noted, notes, tokens: marks } of features) {
    expect([slug, letters.length, noted.length]).toEqual([slug, clients.length, clients.length])
    expect(letters).toMatch(/^[yanu]+$/)
    expect(marks.length).toBeGreaterThan(0)
    for (const index of noted.flat()) expect(notes[index]).toBeTruthy()
  }
})

test.each([
  ['<p style="display:flex">', 'css-display-flex'],
  ['<style>p { Display : FLEX !important }</style>', 'css-display-flex'],
  ['<style>@media (prefers-color-scheme: dark) { a { color: red } }</style>', 'css-at-media-prefers-color-scheme'],
  ['<style>a:hover { color: red }</style>', 'css-pseudo-class-hover'],
  ['<style>ul > li { color: red }</style>', 'css-selector-child'],
  ['<style>p { & b { color: red } }</style>', 'css-nesting'],
  ['<p style="height:10vh">', 'css-unit-vh'],
  ['<p style="width:calc(1px + 2px)">', 'css-unit-calc'],
  ['<p style="color:var(--brand)">', 'css-variables'],
  ['<p style="background:linear-gradient(red, blue)">', 'css-linear-gradient'],
  ['<video src="a.mp4">', 'html-video'],
  ['<VIDEO>', 'html-video'],
  ['<img src="https://x.test/a.webp?v=1">', 'image-webp'],
  ['<img src=data:image/png;base64,AA==>', 'image-base64'],
  ['<p style="background-image:url(&quot;a.svg&quot;)"><img src="a.svg">', 'image-svg'],
  ['<form><input type=text></form>', 'html-input-text'],
  ['<a href="#top">', 'html-anchor-links'],
  ['<table background="a.png">', 'html-background'],
])('%s uses %s', (html, slug) => {
  expect(slugs(html)).toContain(slug)
})

test.each([
  ['text, comments and strings', '<p>display:flex &lt;video&gt;</p><!-- <video> --><!--[if mso]><video><![endif]-->'],
  ['strings and comments of CSS', '<style>a { quotes: "display:flex; @media"; /* display:flex */ } </style>'],
  ['scripts and titles', '<title><video></title><script>"<video>"</script><textarea><video></textarea>'],
  ['addresses of pictures', '<p style="quotes:url(https://x.test/display:flex;10vh)">'],
])('features within %s are not counted', (_, html) => {
  expect(slugs(html)).not.toContain('html-video')
  expect(slugs(html)).not.toContain('css-display-flex')
  expect(slugs(html)).not.toContain('css-unit-vh')
})

test('names the lines, an excerpt, and the clients with their notes; what most clients lack comes first', () => {
  const problems = check(
    `<html>\n<body>\n<p style="display:flex">a</p>\n\n<p style="display:flex">b</p><video></video>\n`,
  )
  const flex = problems.find(({ slug }) => slug === 'css-display-flex')
  expect(flex).toMatchObject({
    title: 'display:flex',
    count: 2,
    lines: [3, 5],
    excerpt: '<p style="display:flex">a</p>',
    known: 16,
  })
  expect(flex?.without).toEqual(['Outlook for Windows', 'Windows Mail'])
  expect(flex?.notes[0]).toEqual({
    clients: ['Gmail for Android', 'Gmail for iOS'],
    text: 'Not supported with non Google accounts.',
  })
  expect(problems.find(({ slug }) => slug === 'html-video')?.without).toContain('Gmail')
  const [first, second] = problems
  expect(first?.slug).toBe('html-video')
  expect(first?.unsupported).toBeGreaterThan(second?.unsupported ?? 0)
})

test('reads what no parser accepts, in linear time', () => {
  const hostile = [
    '<'.repeat(100_000),
    '<a '.repeat(40_000),
    '<a b="'.repeat(30_000),
    `<a${' '.repeat(200_000)}`,
    `<style>${'{'.repeat(100_000)}`,
    `<style>${'url('.repeat(40_000)}`,
    `<style>a{b:${'1'.repeat(200_000)}`,
    `<style>${':a('.repeat(50_000)}{`,
    `<style>${'['.repeat(100_000)}{`,
    `<style>${'/*'.repeat(80_000)}`,
    `<style>${'"'.repeat(100_001)}`,
    '<style>'.repeat(100_000),
    '<!--'.repeat(40_000),
    '<p style="a:b">'.repeat(20_000),
  ]
  const startedAt = cpuMs()
  for (const html of hostile) check(html)
  expect(cpuMs() - startedAt).toBeLessThan(10_000)
  expect(tokens('<a b=c d="e" f=\'g\' h>')).toEqual([
    'element:a',
    'attribute:b',
    'attribute:d',
    'attribute:f',
    'attribute:h',
  ])
})
