/**
 * @module Renders the pages with captured mail: a list and a message. Pure: turns values into HTML without scripts.
 * Shows message content as text; its HTML appears only in a sandboxed frame that runs and loads nothing.
 */
import type { Millis } from '#platform/clock.ts'
import { type Html, html, htmlPage } from '#platform/http/html.ts'
import { KiB } from '#platform/units.ts'
import { embedPictures, type InlinePicture } from '#protocols/mime/inline-pictures.ts'
import type { ReadableHead, ReadableMessage } from './parse.ts'

/** Envelope and metadata of a captured message. */
export interface CapturedEnvelope {
  readonly recipientId: number
  readonly emailId: number
  readonly mailFrom: string
  readonly rcptTo: string
  readonly receivedAt: Millis
  readonly sizeBytes: number
}

export const CAPTURED_PATH = '/dev/captured'

const MAX_SHOWN_TEXT_LENGTH = 256 * KiB

interface ListedCapture {
  readonly envelope: CapturedEnvelope
  readonly head: ReadableHead
}

/** The list of the newest captured messages, one row per email. */
export const capturedListPage = (captures: readonly ListedCapture[]): Html =>
  renderPage(
    'Captured mail',
    html`<h1>Captured mail</h1>
${NOTE}
${
  captures.length === 0
    ? html`<p>No mail is captured. Mail from domains that were never verified appears here, and all mail in delivery mode <code>capture</code>.</p>`
    : html`<table>
<thead><tr><th scope="col">Received</th><th scope="col">From</th><th scope="col">To</th><th scope="col">Subject</th></tr></thead>
<tbody>${groupByEmail(captures).map(renderRow)}</tbody>
</table>`
}`,
  )

const NOTE = html`<p>None of this mail has left this machine: it is only captured. <a href="/docs">The API</a></p>`

/**
 * Groups captures by email: the emails stay in the order given, and the captures of each are in the order of its
 * recipients.
 */
const groupByEmail = (captures: readonly ListedCapture[]): ListedCapture[][] =>
  [...Map.groupBy(captures, ({ envelope }) => envelope.emailId).values()].map((ofEmail) =>
    ofEmail.toSorted((a, b) => a.envelope.recipientId - b.envelope.recipientId),
  )

/**
 * The row of one email: the subject links to the first recipient's copy. If there are several recipients, each address
 * links to its own copy.
 */
function renderRow(ofEmail: readonly ListedCapture[]): Html | undefined {
  const [first] = ofEmail
  if (!first) return undefined
  const { envelope, head } = first
  const recipients = ofEmail.map(({ envelope: { recipientId, rcptTo } }) =>
    ofEmail.length === 1
      ? html`<li><bdi>${rcptTo}</bdi></li>`
      : html`<li><a href="${CAPTURED_PATH}/${recipientId}"><bdi>${rcptTo}</bdi></a></li>`,
  )
  return html`
<tr><td data-label="Received">${renderTime(envelope.receivedAt)}</td><td data-label="From"><bdi>${head.from || envelope.mailFrom}</bdi></td>
<td data-label="To"><ul>${recipients}</ul></td><td data-label="Subject"><a href="${CAPTURED_PATH}/${envelope.recipientId}"><bdi>${subjectOf(head)}</bdi></a></td></tr>`
}

/**
 * The page of one message.
 * @param source the whole message as text
 */
export const capturedMessagePage = (envelope: CapturedEnvelope, message: ReadableMessage, source: string): Html =>
  renderPage(
    `${subjectOf(message)} - captured mail`,
    html`<p><a href="${CAPTURED_PATH}">Captured mail</a></p>
<h1><bdi>${subjectOf(message)}</bdi></h1>
${NOTE}
<dl>
${renderField('From', message.from)}${renderField('To', message.to)}${renderField('Cc', message.cc)}${renderField('Reply-To', message.replyTo)}
${renderField('Date', message.date && renderTime(message.date.getTime()))}${renderField('Message-ID', message.messageId)}
${renderField('Recipient', envelope.rcptTo)}${renderField('Envelope sender', envelope.mailFrom)}${renderField('Received', renderTime(envelope.receivedAt))}
${renderField('Size', `${envelope.sizeBytes} bytes`)}
</dl>
${message.isCut && html`<p>The message is large: ${message.isTruncated ? 'the text, HTML and attachments below are from its start' : 'attachments and pictures further down in it are missing below'}.</p>`}
${message.text !== undefined && html`<h2 id="text">Text</h2>${renderTextBlock('text', message.text)}`}
${message.html !== undefined && html`<h2>HTML</h2>${renderFrame(message.html, message.pictures)}`}
${
  message.attachments.length > 0 &&
  html`<h2>Attachments</h2>
<ul>${message.attachments.map((a) => html`<li><bdi>${a.filename || '(no name)'}</bdi> ${a.contentType}</li>`)}</ul>`
}
<h2 id="source">Source</h2>
${renderTextBlock('source', source)}`,
  )

/** The page for a message that does not exist or was deleted. */
export const notCapturedPage = (): Html =>
  renderPage(
    'Not captured',
    html`<h1>Not captured</h1>
<p>This message does not exist; old messages are deleted. <a href="${CAPTURED_PATH}">Captured mail</a></p>`,
  )

const subjectOf = ({ subject }: ReadableHead): string => subject || '(no subject)'

const renderTime = (at: Millis): Html => {
  const text = new Date(at).toISOString()
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')} UTC</time>`
}

const renderField = (name: string, value: string | Html | undefined): Html | undefined =>
  value ? html`<div><dt>${name}</dt><dd><bdi>${value}</bdi></dd></div>` : undefined

/**
 * The block scrolls on its own, so it must be focusable: otherwise it could not be scrolled by keyboard. HTML ignores
 * the line break after `<pre>`; if the template lacked it, a line break at the start of the text would be lost.
 */
const renderTextBlock = (labelledBy: string, text: string): Html => html`
<pre tabindex="0" role="region" aria-labelledby="${labelledBy}">
${text.slice(0, MAX_SHOWN_TEXT_LENGTH)}</pre>
${text.length > MAX_SHOWN_TEXT_LENGTH && html`<p>Only the first ${MAX_SHOWN_TEXT_LENGTH} of ${text.length} characters are shown.</p>`}`

/** The frame has its own policy, in case the page is ever sent without one. */
const FRAME_CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

const renderFrame = (body: string, pictures: readonly InlinePicture[]): Html => {
  const inner = `<!doctype html><meta http-equiv="Content-Security-Policy" content="${FRAME_CONTENT_SECURITY_POLICY}">${embedPictures(body.slice(0, MAX_SHOWN_TEXT_LENGTH), pictures)}`
  return html`<iframe title="HTML of the message" sandbox srcdoc="${inner}"></iframe>
${body.length > MAX_SHOWN_TEXT_LENGTH && html`<p>Only the first ${MAX_SHOWN_TEXT_LENGTH} of ${body.length} characters are shown.</p>`}`
}

const STYLE = `
:root { font-size: 1rem; }
body { padding: 1rem; }
main { max-width: 80rem; padding: 1rem 1.25rem; }
table { width: 100%; table-layout: fixed; border-collapse: collapse; }
th:first-child { width: 14rem; }
th:nth-child(2) { width: 31%; }
th:nth-child(3) { width: 27%; }
th, td { text-align: left; vertical-align: top; padding: .5rem .75rem .5rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
td ul { list-style: none; margin: 0; padding: 0; }
time { white-space: nowrap; }
dl { margin: 0; }
dl div { display: grid; grid-template-columns: 10rem 1fr; border-bottom: 1px solid var(--line); padding: .25rem 0; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
pre { overflow: auto; max-height: 70vh; margin: 0; padding: .75rem; border: 1px solid var(--line); border-radius: 4px; font-size: .875rem; }
pre[aria-labelledby=text] { white-space: pre-wrap; overflow-wrap: anywhere; }
iframe { width: 100%; height: 30rem; border: 1px solid var(--line); border-radius: 4px; background: #fff; color-scheme: light; resize: vertical; }
@media (max-width: 40rem) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  td { display: grid; grid-template-columns: 6rem 1fr; padding: .125rem 0; border: 0; }
  td::before { content: attr(data-label); font-weight: 600; }
  dl div { grid-template-columns: 1fr; }
}
@media (max-width: 30rem) {
  body { padding: 0; }
}
`

const renderPage = (title: string, main: Html): Html => htmlPage({ title, style: STYLE, main })
