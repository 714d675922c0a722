/** @module HTML that escapes: whatever is put into the `html` tag is text, unless it is itself the result of the tag. */

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

/** `html\`<p>${name}</p>\``: values are escaped for text and quoted attributes; arrays are joined; null, undefined and false are nothing. */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  let text = strings[0] ?? ''
  for (let i = 0; i < values.length; i++) text += render(values[i]) + (strings[i + 1] ?? '')
  return new Html(text)
}

/** Markup that is safe already, such as a constant of ours. Never anything a client sent. */
export const trustedHtml = (text: string): Html => new Html(text)

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (c) => ESCAPES[c] ?? c)

function render(value: HtmlValue): string {
  if (value === null || value === undefined || value === false) return ''
  if (value instanceof Html) return value.text
  if (Array.isArray(value)) return value.map(render).join('')
  return escapeHtml(String(value))
}

/** No script, nothing from another host, no frame around it; inline styles are allowed. */
export const PAGE_CONTENT_SECURITY_POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

/** A page as a response, with a Content-Security-Policy that forbids scripts. */
export const htmlResponse = (page: Html, status = 200, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(page.text, {
    status,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': PAGE_CONTENT_SECURITY_POLICY,
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      ...headers,
    },
  })
