import { expect, test } from 'bun:test'
import { html, htmlResponse, trustedHtml } from '#platform/http/html.ts'

test('every value is escaped, in text and in attributes', () => {
  const evil = `"><script>alert('x')</script>&amp;`
  expect(html`<p title="${evil}">${evil}</p>`.text).toBe(
    '<p title="&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;">' +
      '&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;</p>',
  )
})

test('nested templates and lists are not escaped twice, and nothing is nothing', () => {
  const items = ['<a>', 'b'].map((item) => html`<li>${item}</li>`)
  expect(html`<ul>${items}</ul>${null}${undefined}${false}${0}${trustedHtml('<br>')}`.text).toBe(
    '<ul><li>&lt;a&gt;</li><li>b</li></ul>0<br>',
  )
})

test('an object that only looks like HTML is escaped', () => {
  const forged = JSON.parse('{"text":"<script>"}')
  expect(html`${forged}`.text).not.toContain('<script>')
})

test('a page forbids scripts and framing', async () => {
  const response = htmlResponse(html`<p>x</p>`, 404)
  expect([response.status, response.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(response.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
})
