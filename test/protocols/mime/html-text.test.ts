import { expect, test } from 'bun:test'
import { htmlToText } from '#protocols/mime/html-text.ts'

test('headings, lists and links become readable text, images are omitted', () => {
  const html =
    '<h1>Hello</h1><img src="x.png" alt="logo"><ul><li>one<li>two</ul><p>Go <a href="https://example.com/">here</a></p>'
  expect(htmlToText(html)).toBe('Hello\n\n * one\n * two\n\nGo here <https://example.com/>')
})

test('titles, styles, scripts and comments are left out', () => {
  const filler = '<b></b>'.repeat(6_000)
  const html = `<head><title>t</title></head>${filler}<style>p{}</style><p>1 < 2 &amp; 3&#33;</p><!-- <p>no</p> --><script>x<y</script><p>four</p>`
  expect(htmlToText(html)).toBe('1 < 2 & 3!\n\nfour')
})

test.each([
  ['2 MB of nested div', '<div>'.repeat(419_430), ''],
  ['2 MB of nested b with spaces', '<b> '.repeat(524_288), ''],
  ['2 MB of preformatted b with line breaks', `<pre>${'<b>\n'.repeat(524_288)}x`, 'x'],
  ['2 MB of open comments', '<!--'.repeat(524_288), ''],
  ['2 MB of open scripts', '<script>'.repeat(262_144), ''],
  ['2 MB of spaces', `x${' '.repeat(2_097_152)}`, 'x'],
  ['unclosed tags with as many wrong end tags', '<div>'.repeat(2_990) + '</b>'.repeat(2_990), ''],
  ['2 MB of hidden elements', '<p hidden><div hidden>'.repeat(100_000), ''],
  ['2 MB of attributes', `<b ${'a="b'.repeat(500_000)}`, ''],
  ['2 MB of rules for classes', `<style>${'.a{display:none}'.repeat(120_000)}`, ''],
  ['2 MB of unclosed style attributes', '<td style="font-size:0"><a style="display:block">'.repeat(40_000), ''],
  ['a list counter that is no number', '<ol type="I" start="1e300"><li>x</ol>', ' 1. x'],
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

const under = (levels: number, html: string): string => '<div><table><tr><td>'.repeat(levels) + html

test.each([
  [
    'cells and rows of a table',
    '<table><tr><td>Quantity: 1</td><td>0.99 EUR</td></tr><tr><th>a<td>b</table>',
    'Quantity: 1 0.99 EUR\na b',
  ],
  [
    'terms, options and blocks',
    '<dl><dt>a<dd>b</dl><select><option>c<option>d</select><div>e</div><div>f</div>',
    'a\nb\n\nc\nd\ne\nf',
  ],
  ['an inline element that is a block', '<b style="display: block">a</b>b<a style="display:block">c</a>', 'a\nb\nc'],
  ['text after the body', '<html><body><p>a</p></body></html>\n<p>b</p>', 'a\n\nb'],
  ['titles', '<head><title>a</title></head><svg><title>b</title><style/><path/></svg>c', 'c'],
  ['10,000 levels', under(10_000, 'deep'), 'deep'],
  [
    'conditional comments',
    '<!--[if mso]>a<![endif]--><!--[if !mso]><!-->b<!--<![endif]--><![if !mso]>c<![endif]><!-->d',
    'bcd',
  ],
  ['numbered and nested lists', '<ol start=3><li>a<ul><li>b</ul><li>c</ol>', ' 3. a\n    * b\n 4. c'],
  ['a quotation', '<blockquote>a<br>b<blockquote>c</blockquote></blockquote>d', '> a\n> b\n> >\n> > c\n\nd'],
  ['preformatted text', '<pre>a  b\n  c</pre>', 'a  b\n  c'],
  [
    'preformatted lines in elements',
    '<p>x<pre>\n<i>a</i>\n<i>  <b>b</b>  c\n\n</i><i>d</i>\n</pre>y',
    'x\n\na\n  b  c\n\nd\n\ny',
  ],
  ['a preformatted quotation', '<blockquote><pre>a\n<b>b</b>\n<b>c</b></pre></blockquote>', '> a\n> b\n> c'],
  [
    'links',
    '<a href="https://a.test">https://a.test</a> <a href="mailto:b@a.test">b@a.test</a> <a href=#c>c</a> <a href="https://d.test?a=1&amp;b=2"><img></a>',
    'https://a.test b@a.test c <https://d.test?a=1&b=2>',
  ],
  ['a link whose text is a block', '<a href="https://a.test"><p>a</p></a><p>b</p>', 'a <https://a.test>\n\nb'],
  [
    'words with joiners',
    'می\u200cخواهم Donau&shy;dampf 👩\u200d🚒 1&nbsp;EUR',
    'می\u200cخواهم Donaudampf 👩\u200d🚒 1 EUR',
  ],
])('%s are readable', (_, html, text) => expect(htmlToText(html)).toBe(text))

test.each([
  ...['display:none', 'DISPLAY : None !important', 'color:red;display:none;', 'display:none!important;display:block'],
  ...['visibility:hidden', 'mso-hide:all', 'max-height:0;overflow:hidden', 'font-size:0px;line-height:0', 'opacity:0'],
])('an element with the style %s is left out', (style) => {
  for (const element of ['div', 'span', 'p', 'td'])
    expect(htmlToText(`a <${element} style="${style}">x<b>y</b><br>z</${element}> b`).replace(/\s+/g, ' ')).toBe('a b')
})

test.each([
  ['hidden', '<p>a<p hidden>x<p>b'],
  [
    'data-skip-in-text',
    '<p>a</p><div data-skip-in-text="true">x<div>&#847; &zwnj; &nbsp; &#8199; &shy; &#65279;</div></div>b',
  ],
  ['fillers', 'a&#847; &zwnj; &nbsp; &#8199; &shy; &#65279;&#8203; b'],
  [
    'a class',
    '<style>/*}*/ @media x{.y{display:none}} .x, p.x{display:none !important}</style><p class="y">a</p><p class="q x">x</p>b',
  ],
  [
    'an id',
    '<style>#preview_text { display:none } .y{color:red}</style>a<p id="preview_text" class="y">x</p><p id="q">b</p>',
  ],
  ['a class of a heading', '<style>h1.x{display:none}</style>a<h1 class=x>x</h1>b'],
  ['a class after an import', '<style>@import url(https://a.test/?b;c);\n.x{display:none}</style>a<p class=x>x</p>b'],
  ['a class in a hidden style sheet', '<style media="screen"><!-- .x{display:none} --></style>a<p class=x>x</p>b'],
  ['cells and rows', '<table><tr hidden><td>x<table><tr><td>y</table><tr><td hidden>x<td>a b</table>'],
  ['what is never closed', '<table><tr><td>a<div style="display:none">x</td><td>b'],
  ['links', 'a <a href="https://a.test" style="display:none">x</a>b'],
  ['templates', 'a<template>x</template><video>x</video> b'],
])('what is not shown is left out, and what follows stays: %s', (_, html) =>
  expect(htmlToText(html).replace(/\s+/g, ' ')).toBe('a b'),
)

test.each([
  [
    'text in a frame of font size 0',
    '<td style="font-size:0px"><div style="font-size:13px">a</div><p class="big">b</p></td>',
  ],
  [
    'text whose font size a rule sets, in a frame of font size 0',
    '<style>.x a{color:red} .y > p, B{font:14px Arial}</style><td style="font-size:0"><p>a</p><a>x</a><b id=y>b</b></td>',
  ],
  ['the link beside a button for Outlook', '<!--[if mso]>x<![endif]--><a style="mso-hide:all">a b</a>'],
  [
    'an element that its style shows',
    '<style>.h{display:none}</style><p class=h style="display:block">a</p><b hidden style="display:inline">b</b>',
  ],
  [
    'what is hidden on paper and phones',
    '<style media="print">.x{display:none}</style><style media="(max-width:600px)">.x{display:none}</style><p class=x>a b',
  ],
  ['an element that is to be in the text', '<p data-skip-in-text="false">a b</p>'],
])('%s is shown', (_, html) => expect(htmlToText(html).replace(/\s+/g, ' ')).toBe('a b'))
