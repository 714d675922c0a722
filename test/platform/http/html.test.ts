import { expect, test } from 'bun:test'
import { html, htmlPage, htmlResponse, trustedHtml } from '#platform/http/html.ts'

test('every value is escaped, in text and in attributes', () => {
  const evil = `"><script>alert('x')</script>&amp;`
  expect(html`<p title="${evil}">${evil}</p>`.text).toBe(
    '<p title="&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;">' +
      '&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;</p>',
  )
})

test('nested templates and lists are not escaped twice, and empty values print nothing', () => {
  const items = ['<a>', 'b'].map((item) => html`<li>${item}</li>`)
  expect(html`<ul>${items}</ul>${null}${undefined}${false}${0}${trustedHtml('<br>')}`.text).toBe(
    '<ul><li>&lt;a&gt;</li><li>b</li></ul>0<br>',
  )
})

test('an object that only resembles HTML is escaped', () => {
  const forged = JSON.parse('{"text":"<script>"}')
  expect(html`${forged}`.text).not.toContain('<script>')
})

test('a page has its escaped title, its content and the common style before its own, and loads nothing', () => {
  const page = htmlPage({ title: 'A & <b>', style: 'b { color: red; }', main: html`<h1>${'<b>'}</h1>` }).text
  expect(page).toStartWith('<!doctype html>\n<html lang="en">')
  expect(page).toContain('<title>A &amp; &lt;b&gt;</title>')
  expect(page).toContain('<main>\n<h1>&lt;b&gt;</h1>\n</main>')
  expect(page).toContain('<meta name="robots" content="noindex, nofollow">')
  expect(page.slice(page.indexOf('<style>'), page.indexOf('</style>'))).toMatch(
    /color-scheme[\s\S]*b \{ color: red; \}$/,
  )
  expect([...page.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, url]) => url)).toEqual(['data:,'])
})

test('a page forbids scripts and framing', async () => {
  const response = htmlResponse(html`<p>x</p>`, 404)
  expect([response.status, response.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(response.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
})
