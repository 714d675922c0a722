import { expect, test } from 'bun:test'
import { htmlToText } from '#protocols/mime/html-text.ts'

test('headings, lists and links become readable text, images are omitted', () => {
  const html =
    '<h1>Hello</h1><img src="x.png" alt="logo"><ul><li>one<li>two</ul><p>Go <a href="https://example.com/">here</a></p>'
  expect(htmlToText(html)).toBe('Hello\n\n * one\n * two\n\nGo here <https://example.com/>')
})

test('HTML over the limits loses its tags, scripts and comments, and keeps its words', () => {
  const filler = '<b></b>'.repeat(6_000)
  const html = `<head><title>t</title></head>${filler}<style>p{}</style><p>1 < 2 &amp; 3&#33;</p><!-- <p>no</p> --><script>x<y</script><p>four</p>`
  expect(htmlToText(html)).toBe('1 < 2 & 3!\nfour')
})

test.each([
  ['10 MB of nested div', '<div>'.repeat(2_097_152), ''],
  ['10 MB of nested b with spaces', '<b> '.repeat(2_621_440), ''],
  ['10 MB of open comments', '<!--'.repeat(2_621_440), ''],
  ['10 MB of open scripts', '<script>'.repeat(1_310_720), ''],
  ['10 MB of spaces', `x${' '.repeat(10_485_760)}`, 'x'],
  ['unclosed tags with as many wrong end tags', '<div>'.repeat(2_990) + '</b>'.repeat(2_990), '…'],
  ['a list counter the converter throws on', '<ol type="I" start="1e300"><li>x</ol>', 'x'],
])('%s is converted without hanging', (_, html, text) => {
  expect(htmlToText(html)).toBe(text)
})

test('the text has at most 256 Ki characters', () => {
  for (const html of [
    '<'.repeat(1_000_000),
    '<p>x'.repeat(1_000_000),
    'x'.repeat(1_000_000),
    '<blockquote>'.repeat(30) + '<br>'.repeat(5_900),
  ])
    expect(htmlToText(html).length).toBeLessThanOrEqual(262_145)
})
