/**
 * @module HTML with escaping: every value in an `html` template is text, unless another `html` template returned it.
 * Also the common layout and style of all pages for people.
 */

export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  toString(): string {
    return this.text
  }
}

export type HtmlValue = string | number | boolean | null | undefined | Html | readonly HtmlValue[]

/**
 * `html\`<p>${name}</p>\``: values are escaped for text and quoted attributes, arrays are joined, and null, undefined
 * and false are empty.
 */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  let text = strings[0] ?? ''
  for (let i = 0; i < values.length; i++) text += renderValue(values[i]) + (strings[i + 1] ?? '')
  return new Html(text)
}

/** Marks markup as safe, such as a constant of ours. Never client input. */
export const trustedHtml = (text: string): Html => new Html(text)

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (c) => ESCAPES[c] ?? c)

function renderValue(value: HtmlValue): string {
  if (value === null || value === undefined || value === false) return ''
  if (value instanceof Html) return value.text
  if (Array.isArray(value)) return value.map(renderValue).join('')
  return escapeHtml(String(value))
}

/** Shows a card in the middle, light or dark as the reader prefers. Browser tests measure the contrasts. */
const BASE_STYLE = `
:root {
  color-scheme: light dark;
  font: 1.125rem/1.5 system-ui, sans-serif;
  --page: #fafafb; --card: #fff; --text: #17181d; --faint: #5a5c69; --line: #e2e3e8; --strong: #0b57d0; --on-strong: #fff; --edge: #777986;
}
@media (prefers-color-scheme: dark) {
  :root { --page: #131417; --card: #1d1e23; --text: #ebecf0; --faint: #a6a8b5; --line: #3a3b45; --strong: #9bbdff; --on-strong: #0a1c38; --edge: #85879a; }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 2rem 1rem; background: var(--page); color: var(--text); }
main { max-width: 34rem; margin: 0 auto; padding: 2rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
h1 { margin: 0 0 1rem; font-size: 1.375rem; line-height: 1.3; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 .5rem; font-size: 1.125rem; line-height: 1.3; overflow-wrap: anywhere; }
p { margin: 0 0 1rem; overflow-wrap: anywhere; }
p:last-child { margin-bottom: 0; }
a { color: var(--strong); }
@media (max-width: 30rem) {
  body { padding: 0; background: var(--card); }
  main { padding: 1.5rem 1.25rem; border: 0; border-radius: 0; }
}
`

/**
 * A whole page: no scripts, nothing from other hosts, hidden from search engines.
 * @param icon URL of the icon; default: none, because pages for recipients are in the name of the sender
 * @param style our own CSS, which follows the common style; never client input
 * @param language language of the page (BCP 47)
 */
export const htmlPage = ({
  title,
  language = 'en',
  style = '',
  icon = 'data:,',
  main,
}: {
  title: string
  language?: string
  style?: string
  icon?: string
  main: Html
}): Html =>
  html`<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<link rel="icon" href="${icon}">
<title>${title}</title>
<style>${trustedHtml(BASE_STYLE + style)}</style>
</head>
<body>
<main>
${main}
</main>
</body>
</html>
`

/** Of a page: the policy forbids scripts, other hosts and framing; inline styles are allowed. */
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
} as const

/** A page as a response, with a Content-Security-Policy that forbids scripts. */
export const htmlResponse = (page: Html, status = 200, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(page.text, { status, headers: { ...PAGE_HEADERS, ...headers } })

/** Keeps a page, and redirects to the page or from it, out of search engines. */
export const UNLISTED_HEADERS = { 'x-robots-tag': 'noindex, nofollow' } as const

/** For pages whose forms must come from our own origin: with `no-referrer`, browsers would send `Origin: null`. */
export const OWN_FORM_HEADERS = { ...UNLISTED_HEADERS, 'referrer-policy': 'same-origin' } as const

/** A page that search engines do not list. */
export const unlistedResponse = (page: Html, status = 200, headers: Readonly<Record<string, string>> = {}): Response =>
  htmlResponse(page, status, { ...UNLISTED_HEADERS, ...headers })

/** An unlisted page whose forms must come from our own origin. */
export const ownFormResponse = (page: Html, status = 200, headers: Readonly<Record<string, string>> = {}): Response =>
  htmlResponse(page, status, { ...OWN_FORM_HEADERS, ...headers })
