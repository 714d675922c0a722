import { describe, expect, test } from 'bun:test'
import { addTracking, type Tracking } from '#features/sending/tracking/rewrite.ts'
import { createLinkUrl, createPixelUrl } from '#features/sending/tracking/tokens.ts'
import { randomBytes } from '#platform/ids.ts'
import { MiB } from '#platform/units.ts'

const tracking: Tracking = {
  recipient: { account: 7, recipientId: 7, day: 20_527 },
  key: randomBytes(32),
  baseUrl: 'https://links.sender.test',
  ownUrls: ['https://mail.tassis.test', 'https://links.sender.test'],
  parts: { opens: true, clicks: true },
}
const { key, baseUrl, recipient } = tracking
const PIXEL = `<img src="${createPixelUrl(key, baseUrl, recipient)}" width="1" height="1" alt="" border="0" style="display:block !important;width:1px !important;height:1px !important;min-width:0 !important;min-height:0 !important;margin:0 !important;padding:0 !important;border:0 !important">`
const to = (target: string): string => createLinkUrl(key, baseUrl, recipient, target)

/** The HTML with tracking, without its pixel. */
function linksOf(html: string): string {
  const tracked = addTracking(html, tracking)
  expect(tracked.split(PIXEL)).toHaveLength(2)
  return tracked.replace(PIXEL, '')
}

describe('a link is tracked', () => {
  test.each([
    ['https', 'href="https://shop.test/a"', 'https://shop.test/a'],
    ['with http in any letter case', 'href="HTTP://Shop.test"', 'HTTP://Shop.test'],
    ['without quotes', 'href=https://shop.test/a', 'https://shop.test/a'],
    ['in single quotes', `href='https://shop.test/?q="x"'`, 'https://shop.test/?q="x"'],
    ['with &amp; decoded', 'href="https://shop.test/?a=1&amp;b=2"', 'https://shop.test/?a=1&b=2'],
    [
      'with a bare & as browsers read it',
      'href="https://shop.test/?a=1&b=2&copy=3"',
      'https://shop.test/?a=1&b=2&copy=3',
    ],
    ['with numbered entities', 'href="https://shop.test/&#65;&#x42;"', 'https://shop.test/AB'],
    ['with named entities', 'href="https://shop.test/&eacute;&quot;"', 'https://shop.test/é"'],
    ['with a scheme written in entities', 'href="&#104;ttps&colon;//shop.test"', 'https://shop.test'],
    [
      'with text that browsers do not read as an entity',
      'href="https://shop.test/?a&current=1&copy2&amp=3&amp;=4"',
      'https://shop.test/?a&current=1&copy2&amp=3&=4',
    ],
    ['with JSON', 'href="https://shop.test/?f={%22a%22:1}"', 'https://shop.test/?f={%22a%22:1}'],
    ['with NUL, as browsers read it', 'href="https://shop.test/\0"', 'https://shop.test/\uFFFD'],
    ['with a fragment', 'href="https://shop.test/#top"', 'https://shop.test/#top'],
    ['with blanks around and line breaks inside', 'href=" https://shop.test/\n\tlong "', 'https://shop.test/long'],
    ['in other scripts', 'href="https://bücher.test/日本?ü=1"', 'https://bücher.test/日本?ü=1'],
    ['with a data-tracking other than off', 'data-tracking="on" href="https://shop.test"', 'https://shop.test'],
    [
      'with marks that say nothing of a no',
      'clicktracking=on data-track="header" class="track" href="https://shop.test"',
      'https://shop.test',
    ],
    [
      'with a mark that is off',
      'disable-tracking="false" data-pm-no-track="false" href="https://shop.test"',
      'https://shop.test',
    ],
    [
      'with names that only look like a mark',
      'data-soundtrack="off-1" data-notebook href="https://shop.test"',
      'https://shop.test',
    ],
  ])('%s', (_, attributes, target) => {
    const tracked = linksOf(`<p><a ${attributes}>x</a></p>`)
    expect(tracked).toContain(`href="${to(target)}"`)
    expect(tracked).not.toContain('shop.test')
  })

  test('inside tables, buttons and SVG, in upper case, and with all other attributes unchanged', () => {
    expect(linksOf(`<table><tr><td><A class=b HREF=https://a.test style='x:y' data-x>q</A></td></tr></table>`)).toBe(
      `<table><tr><td><A class=b HREF="${to('https://a.test')}" style='x:y' data-x>q</A></td></tr></table>`,
    )
  })

  test('by its first href, as browsers read it', () => {
    expect(linksOf('<a href="https://a.test" href="https://b.test">x</a>')).toBe(
      `<a href="${to('https://a.test')}" href="https://b.test">x</a>`,
    )
  })
})

describe('stays byte for byte:', () => {
  test.each([
    ['a mail address', '<a href="mailto:bob@shop.test">x</a>'],
    ['a telephone number', '<a  href=tel:+49123 >x</a>'],
    ['a fragment', '<a href="#top">x</a>'],
    ['a relative link', '<a href="/a?b=1&amp;c">x</a><a href="a.html">y</a>'],
    ['a link without a scheme', '<a href="//shop.test/a">x</a>'],
    ['another scheme', `<a href="javascript:alert('https://shop.test')">x</a><a href="ftp://shop.test">y</a>`],
    ['an empty link', '<a href>x</a><a href="">y</a><a name="z">z</a>'],
    ['data-tracking="off"', '<a data-tracking="off" href="https://shop.test">x</a>'],
    ['data-tracking=OFF', '<a href="https://shop.test" data-tracking=OFF>x</a>'],
    ...[
      'data-pm-no-track',
      'DATA-PM-NO-TRACK="true"',
      'clicktracking=off',
      'clicktracking="OFF"',
      'data-clicktracking="off"',
      'mc:disable-tracking',
      'disable-tracking=true',
      'data-disable-tracking',
      'data-msys-clicktrack="0"',
      'mautic:disable-tracking="true"',
      'nolinktrack',
      'data-no-track',
      'notrack="1"',
      'data-tracking = " none "',
      'track=no',
      'class="button untracked"',
    ].map((mark): [string, string] => [mark, `<a href="https://shop.test"  ${mark} >x</a>`]),
    [
      'unfilled template variables',
      '<a href="{{ url }}">x</a><a href="https://{{host}}/">y</a><a href="https://shop.test/*|ID|*">z</a><a href="https://shop.test/{% url %}">z</a>',
    ],
    ['a link that starts with NUL, which is not a scheme', '<a href="\0https://shop.test">x</a>'],
    ['no URL', '<a href="https://">x</a><a href="http://[::">y</a><a href="https://a b/">z</a>'],
    ['an unsubscribe link of the service', '<a href="https://mail.tassis.test/u/abc">x</a>'],
    ['an already tracked link', '<a href="https://links.sender.test/t/c/abc/def">x</a>'],
    ['a page of the service in another spelling', '<a href="HTTPS://MAIL.tassis.test:443/./u/abc">x</a>'],
    [
      'other elements with URLs',
      '<img src="https://shop.test/a.png"><link href="https://shop.test/a.css"><area href="https://shop.test">',
    ],
    ['links in comments', '<!--[if mso]><a href="https://shop.test">x</a><![endif]-->'],
    [
      'links in text, titles and scripts',
      '<title><a href="https://a.test"></title><style>a{}</style><script>"<a href=https://a.test>"</script>',
    ],
    ['odd markup', '<p CLASS = x  ><BR/>&nbsp;&unknown; &lt;a href="https://a.test"> \0 \r\n</P ></i>'],
    ['links in <noscript>, which the parser treats as text', '<noscript><a href="https://a.test">x</a></noscript>'],
    ['a byte order mark', '\uFEFF<p>x</p>'],
    ['two byte order marks', '\uFEFF\uFEFF'],
    ['nothing', ''],
  ])('%s', (_, html) => {
    expect(linksOf(html)).toBe(html)
  })

  // Proves: track-13
  test('a link that would exceed 2,048 characters when tracked, which Outlook truncates', () => {
    const target = (octets: number) => `https://a.test/${'x'.repeat(octets - 'https://a.test/'.length)}`
    const most = 1494
    expect([to(target(most)).length, to(target(most + 1)).length]).toEqual([2047, 2049])
    expect(linksOf(`<a href="${target(most)}">x</a>`)).toBe(`<a href="${to(target(most))}">x</a>`)
    expect(linksOf(`<a href="${target(most + 1)}">x</a>`)).toBe(`<a href="${target(most + 1)}">x</a>`)
    const wide = `https://a.test/${'ü'.repeat(most / 2)}`
    expect(linksOf(`<a href="${wide}">x</a>`)).toBe(`<a href="${wide}">x</a>`)
  })
})

describe('of a mail', () => {
  const html = '<body><a href="https://a.test">x</a></body>'
  const link = `<a href="${to('https://a.test')}">x</a>`
  test.each([
    ['opens', { opens: true, clicks: false }, `<body><a href="https://a.test">x</a>${PIXEL}</body>`],
    ['clicks', { opens: false, clicks: true }, `<body>${link}</body>`],
  ])('only %s are tracked where the other is off', (_, parts, tracked) => {
    expect(addTracking(html, { ...tracking, parts })).toBe(tracked)
  })

  test('a link with ses:no-track stays, without the mark, as at Amazon SES', () => {
    expect(linksOf('<a ses:no-track href="https://a.test">x</a>')).toBe('<a href="https://a.test">x</a>')
  })
})

describe('the pixel appears once,', () => {
  test.each([
    ['before </body>', '<html><body><p>x</p></body></html>', `<html><body><p>x</p>${PIXEL}</body></html>`],
    [
      'before the end of the first of several bodies',
      '<body>a</body><body>b</body>',
      `<body>a${PIXEL}</body><body>b</body>`,
    ],
    [
      'before the end of the outer of nested bodies',
      '<body><body>a</body></body>',
      `<body><body>a</body>${PIXEL}</body>`,
    ],
    ['at the end of nested bodies that are not all closed', '<body><body>a</body>', `<body><body>a</body>${PIXEL}`],
    ['at the end of the HTML, even in an open comment', '<body><p>x<!-- y', `<body><p>x<!-- y${PIXEL}`],
    ['at the end of HTML without a body', '<p>x</p>', `<p>x</p>${PIXEL}`],
    ['at the end of a body that is not closed', '<body><p>x', `<body><p>x${PIXEL}`],
    ['at the end after an unmatched </body>', '<p>x</p></body>', `<p>x</p></body>${PIXEL}`],
  ])('%s', (_, html, tracked) => {
    expect(addTracking(html, tracking)).toBe(tracked)
  })
})

test('a base with characters that HTML escapes is escaped', () => {
  const odd = { ...tracking, baseUrl: 'https://x.test/a&b' }
  expect(addTracking('<a href="https://shop.test">x</a>', odd)).toStartWith('<a href="https://x.test/a&amp;b/t/c/')
  expect(addTracking('x', odd)).toStartWith('x<img src="https://x.test/a&amp;b/t/o/')
})

describe('hostile HTML does no harm:', () => {
  test('of 10,000 links the first 1,000 are tracked, the others are unchanged', () => {
    const one = '<a href="https://a.test/">x</a>\n'
    const tracked = linksOf(one.repeat(10_000))
    expect(tracked.split(to('https://a.test/'))).toHaveLength(1001)
    expect(tracked).toEndWith(one.repeat(9000))
  })

  // Proves: track-15
  test('over 1 MiB it is unchanged', () => {
    const html = `<a href="https://a.test/">x</a>${'x'.repeat(MiB)}`
    expect(addTracking(html, tracking)).toBe(html)
    expect(addTracking(html.slice(0, MiB), tracking)).not.toBe(html.slice(0, MiB))
  })

  // Proves: track-15
  test('with over 20,000 tags, including end tags, it is unchanged', () => {
    const html = `<p><a href="https://a.test/">x</a>${'<br>'.repeat(9997)}${'</p>'.repeat(10_000)}`
    expect(addTracking(html, tracking)).toContain(to('https://a.test/'))
    expect(addTracking(`${html}<`, tracking)).toBe(`${html}<`)
  })

  const filling = (piece: string): string =>
    piece.repeat(Math.floor(Math.min(MiB / piece.length, 20_000 / (piece.split('<').length - 1))))
  test.each([
    ['unclosed links', '<a href="#">'],
    ['unclosed elements', '<div>'],
    ['bodies', '<body>'],
    ['unmatched end tags', '</body>'],
    ['tag starts', '<a '],
    ['comment starts', '<!--'],
    ['attributes', 'a '],
    ['brackets', '<'],
    ['entities', '&amp'],
    ['NUL', '\0'],
    ['CDATA', '<![CDATA['],
    ['SVG in selects', '<svg><select><xmp>'],
  ])('the maximum number of %s stays byte for byte', (_, piece) => {
    const html = filling(piece)
    expect(addTracking(html, tracking).replace(PIXEL, '') === html).toBe(true)
  })

  test.each([
    ['unclosed elements before unmatched end tags', `${'<div>'.repeat(10_000)}${'</p>'.repeat(10_000)}`],
    ['a link with half a million attributes', `<a href=# ${'a '.repeat(500_000)}>x</a>`],
  ])('%s stays byte for byte', (_, html) => {
    expect(addTracking(html, tracking) === html + PIXEL).toBe(true)
  })

  test('an href of over 20,000 characters is not decoded, whatever its decoded length', () => {
    const html = (zeros: number) => `<a href="https://a.test/&#x${'0'.repeat(zeros)}41;">x</a>`
    expect(linksOf(html(100))).toBe(`<a href="${to('https://a.test/A')}">x</a>`)
    expect(linksOf(html(20_000))).toBe(html(20_000))
  })
})
