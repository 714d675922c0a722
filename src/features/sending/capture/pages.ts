/**
 * @module /dev/captured: captured mail without signing in, for a developer at this machine; everything else is in the
 * Sandbox of the dashboard. The pages are public and show the mail of all accounts, system mail included. They are
 * therefore mounted in delivery mode `capture` and on a loopback address only, and answer only requests with a loopback
 * host name and without proxy headers. Cannot detect a proxy that uses a loopback name and adds no header, such as
 * `proxy_pass http://127.0.0.1:8080` of nginx without `proxy_set_header`.
 */
import { Elysia } from 'elysia'
import { type Html, html, htmlPage, htmlResponse } from '#platform/http/html.ts'
import { KiB } from '#platform/units.ts'
import { parseCaptured } from './captured.ts'
import { readNames } from './inbox.ts'
import { type CapturedMessage, type CaptureStore, type CaptureSummary, decodeRaw } from './store.ts'

export const CAPTURED_PATH = '/dev/captured'

const MAX_LISTED = 50
const MAX_SHOWN_LENGTH = 256 * KiB
const LOOPBACK_NAMES = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/
/** Headers that proxies, tunnels and content delivery networks add to forwarded requests. */
const PROXY_HEADER =
  /^(?:forwarded|via|true-client-ip|(?:x-(?:forwarded|real|client|cluster|original)|cf|fastly|tailscale)-.*)$/
const hidden = { detail: { hide: true } }

export const capturedPages = (store: Pick<CaptureStore, 'list' | 'get'>) =>
  new Elysia()
    .onBeforeHandle(({ request }) => {
      // Checks the host name: after DNS rebinding, a page of another site still sends its own.
      const { hostname } = new URL(request.url)
      // A proxy or tunnel on this machine also connects from loopback; most are recognisable by the headers they add.
      const isForwarded = [...request.headers.keys()].some((name) => PROXY_HEADER.test(name))
      return LOOPBACK_NAMES.test(hostname) && !isForwarded ? undefined : toNotFound()
    })
    .get(CAPTURED_PATH, () => htmlResponse(renderList(store.list({ limit: MAX_LISTED }))), hidden)
    .get(
      `${CAPTURED_PATH}/:recipient`,
      async ({ params }) => {
        const capture = /^\d{1,15}$/.test(params.recipient) ? store.get(Number(params.recipient)) : undefined
        return capture ? htmlResponse(await renderMessage(capture)) : toNotFound()
      },
      hidden,
    )

/** One row for each recipient of an email, newest first. */
const renderList = (captures: readonly CaptureSummary[]): Html =>
  renderPage(
    'Captured mail',
    html`<p>None of this mail has left this machine. <a href="/docs">The API</a> · <a href="/login">Sign in</a></p>
${
  captures.length === 0
    ? html`<p>No mail is captured.</p>`
    : html`<ul>${captures.map(
        (capture) =>
          html`<li><a href="${CAPTURED_PATH}/${capture.recipientId}"><bdi>${toSubject(capture)}</bdi></a><br>${renderEnvelope(capture)}</li>`,
      )}</ul>`
}`,
  )

async function renderMessage(capture: CapturedMessage): Promise<Html> {
  const { text, html: body } = await parseCaptured(capture.raw)
  return renderPage(
    toSubject(capture),
    html`<p>${renderEnvelope(capture)}. <a href="${CAPTURED_PATH}">Captured mail</a></p>
${text !== null && renderBlock('Text', text)}
${body !== null && html`<h2>HTML</h2><iframe title="HTML of the message" sandbox srcdoc="${FRAME_POLICY}${cut(body)}"></iframe>`}
${renderBlock('Source', decodeRaw(capture.raw))}`,
  )
}

const toNotFound = (): Response =>
  htmlResponse(renderPage('Not captured', html`<p>This message does not exist; old messages are deleted.</p>`), 404)

const toSubject = ({ head }: CaptureSummary): string => readNames(head).subject || '(no subject)'

const renderEnvelope = ({ head, rcptTo, receivedAt }: CaptureSummary): Html =>
  html`<bdi>${readNames(head).sender}</bdi> to <bdi>${rcptTo}</bdi>, ${new Date(receivedAt).toISOString()}`

/**
 * The block scrolls on its own, so it must be focusable. HTML ignores the line break after `<pre>`; without it, one at
 * the start of the text would be lost.
 */
export const renderBlock = (title: string, text: string): Html => html`<h2 id="${title}">${title}</h2>
<pre tabindex="0" role="region" aria-labelledby="${title}">
${cut(text)}</pre>`

const cut = (text: string): string =>
  text.length > MAX_SHOWN_LENGTH
    ? `${text.slice(0, MAX_SHOWN_LENGTH)}\n[cut after ${MAX_SHOWN_LENGTH} characters]`
    : text

/** The frame has its own policy, in case the page is ever sent without one. */
export const FRAME_POLICY = `<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">`

const STYLE = `
main { max-width: 60rem; }
li { margin: 0 0 .75rem; overflow-wrap: anywhere; }
pre { overflow: auto; max-height: 70vh; padding: .75rem; border: 1px solid var(--line); font-size: .875rem; white-space: pre-wrap; overflow-wrap: anywhere; }
button { padding: .6rem 1.25rem; border: 1px solid var(--edge); border-radius: 4px; background: none; color: inherit; font: inherit; cursor: pointer; }
button:first-of-type { border-color: var(--strong); background: var(--strong); color: var(--on-strong); }
iframe { width: 100%; height: 30rem; border: 1px solid var(--line); background: #fff; color-scheme: light; resize: vertical; }
form { display: flex; flex-wrap: wrap; gap: .75rem; max-width: 27rem; margin: 1.5rem 0 0; }
button { flex: 1 0 12rem; min-height: 2.75rem; padding: .5rem 1rem; border: 1px solid var(--strong); border-radius: 8px; background: var(--strong); color: var(--on-strong); font: inherit; font-weight: 600; cursor: pointer; }
button.quiet { border-color: var(--edge); background: transparent; color: var(--text); }
button:focus-visible { outline: 3px solid var(--strong); outline-offset: 3px; }
`

export const renderPage = (title: string, main: Html): Html =>
  htmlPage({ title, style: STYLE, main: html`<h1><bdi>${title}</bdi></h1>\n${main}` })
