/** @module What mails and pages show of an account's name, logo and paragraphs. Pure. */
import { type Html, html } from '#platform/http/html.ts'
import type { OwnWords } from './wording.ts'

/** CSS of `renderBrand`. The plate keeps a dark logo visible on a dark page. */
export const BRAND_STYLE = `
.brand { margin: 0 0 1.5rem; font-weight: 600; }
.brand img { display: block; max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  .brand img { box-sizing: content-box; max-width: calc(100% - 1rem); padding: .5rem; border-radius: 6px; background: #fff; }
}
`

/** The logo, else the name; nothing when the account has set neither. */
export function renderBrand(own: OwnWords | undefined): Html | false {
  const content = own && (renderLogo(own) || (own.name !== null && html`<bdi>${own.name}</bdi>`))
  return content ? html`<p class="brand">${content}</p>\n` : false
}

/** The logo with a fixed size, so that the text below does not move when it has loaded; false without one. */
export const renderLogo = ({ logo }: OwnWords, style?: string): Html | false =>
  logo !== null &&
  html`<img src="${logo.url}" width="${logo.width}" height="${logo.height}" alt="${logo.alt}"${style !== undefined && html` style="${style}"`}>`

/** A paragraph of the account with its line breaks; nothing when it has set none. */
export const renderOwnText = (text: string | undefined): Html | false =>
  text !== undefined && html`<p dir="auto">${renderLines(text)}</p>\n`

export const renderLines = (text: string): Html =>
  html`${text.split('\n').map((line, index) => html`${index > 0 && html`<br>`}${line}`)}`

/** The sender in a sentence: the account's own name, if set, and the domain. A name alone would prove nothing. */
export function renderSender(own: OwnWords | undefined, domain: string): Html {
  const name = own?.name ?? ''
  if (name === '' || domain === '') return html`<strong><bdi>${name || domain}</bdi></strong>`
  return html`<strong><bdi>${name}</bdi></strong> (<bdi>${domain}</bdi>)`
}

/** As `renderSender`, in plain text. */
export function formatSender(own: OwnWords | undefined, domain: string): string {
  const name = own?.name ?? ''
  return name === '' || domain === '' ? name || domain : `${name} (${domain})`
}
