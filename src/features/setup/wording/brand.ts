/** @module What mails and pages show of an account's name, logo and paragraphs, and the layout of the pages. Pure. */
import { type Html, html, htmlPage } from '#platform/http/html.ts'
import type { ShownTexts } from './wording.ts'

/**
 * Browser tests measure the contrasts (WCAG 2.2 §1.4.3, §1.4.11) and the size of the buttons (§2.5.5). The plate keeps a
 * dark logo visible on a dark page.
 */
const STYLE = `
h2 { padding-top: 1.5rem; border-top: 1px solid var(--line); }
form { margin: 1.25rem 0 0; }
.note { margin-top: 2rem; padding-top: 1.5rem; border-top: 1px solid var(--line); font-size: 1rem; color: var(--faint); }
button { min-width: min(12rem, 100%); max-width: 100%; overflow-wrap: anywhere; padding: .625rem min(1.5rem, 5%); border: 2px solid var(--strong); border-radius: 8px; font: inherit; font-weight: 600; cursor: pointer; background: var(--strong); color: var(--on-strong); }
button.quiet { border-color: var(--edge); background: transparent; color: var(--text); }
button:hover { text-decoration: underline; }
button:focus-visible, a:focus-visible { outline: 3px solid var(--strong); outline-offset: 3px; }
@media (max-width: 30rem) {
  button { width: 100%; }
}
.brand { margin: 0 0 1.5rem; font-weight: 600; }
.brand img { display: block; max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  .brand img { box-sizing: content-box; max-width: calc(100% - 1rem); padding: .5rem; border-radius: 6px; background: #fff; }
}
`

/** A page behind a link of a mail: the logo, else the name of the account; a heading, and what follows it. */
export function renderTextPage(texts: ShownTexts, heading: string, content: Html, title = heading): Html {
  const brand = renderLogo(texts) || (texts.name !== null && html`<bdi>${texts.name}</bdi>`)
  const main = html`${brand && html`<p class="brand">${brand}</p>\n`}<h1>${heading}</h1>\n${content}`
  return htmlPage({ title, language: texts.language, style: STYLE, main })
}

/** The logo with a fixed size, so that the text below does not move when it has loaded; false without one. */
export const renderLogo = ({ logo }: ShownTexts, style?: string): Html | false =>
  logo !== null &&
  html`<img src="${logo.url}" width="${logo.width}" height="${logo.height}" alt="${logo.alt}"${style !== undefined && html` style="${style}"`}>`

/** A paragraph of the account with its line breaks; nothing when it has set none. */
export const renderOwnText = (text: string | undefined): Html | false =>
  text !== undefined && html`<p dir="auto">${renderLines(text)}</p>\n`

export const renderLines = (text: string): Html =>
  html`${text.split('\n').map((line, index) => html`${index > 0 && html`<br>`}${line}`)}`

/** The sender in a sentence: the account's own name, if set, and the domain. A name alone would prove nothing. */
export function renderSender(texts: ShownTexts, domain: string): Html {
  const name = texts.name ?? ''
  if (name === '' || domain === '') return html`<strong><bdi>${name || domain}</bdi></strong>`
  return html`<strong><bdi>${name}</bdi></strong> (<bdi>${domain}</bdi>)`
}

/** As `renderSender`, in plain text. */
export function formatSender(texts: ShownTexts, domain: string): string {
  const name = texts.name ?? ''
  return name === '' || domain === '' ? name || domain : `${name} (${domain})`
}
