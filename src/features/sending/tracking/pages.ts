/**
 * @module /t: the pixel and the tracked links. Public: anyone who has a message may use them. A response needs only the
 * key: it reads no row of the email and waits for no commit, so a link redirects even after its email or account was
 * deleted, and after its clicks are no longer counted. HEAD gets the same response and never counts. If an account
 * was paused for the content of its mail, or by the operator, its links show a page that names the target instead of
 * redirecting.
 *
 * Under the tracking host of an account only its own links redirect; otherwise any account could redirect to any site
 * under the name of another. A host that belongs to no account redirects for all, because a reverse proxy may pass any
 * host.
 */
import { Elysia } from 'elysia'
import { listAccountsWithBlockedLinks } from '#features/core/accounts/pause.ts'
import type { App } from '#features/core/app/app.ts'
import { findTrackingHostAccount, getPublicHost } from '#features/setup/domains/tracking-domain.ts'
import { type Html, html, htmlPage, htmlResponse } from '#platform/http/html.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import { type Millis, minutes } from '#platform/units.ts'
import { classifyVisitor, type Engagement, MAX_USER_AGENT_LENGTH, recordEngagement } from './engage.ts'
import { accountTag, dayOf, readLink, readPixel, type TrackedRecipient } from './tokens.ts'

/** A transparent 1x1 image: GIF89a, 43 bytes. */
const PIXEL = Uint8Array.fromBase64('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==')

/** How long after its email an open or click is counted; links redirect permanently. */
const MAX_COUNTED_DAYS = 730

const hidden = { detail: { hide: true } }

/** Caches must not store the response, or later loads would not be counted. */
const HEADERS = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer', 'x-robots-tag': 'noindex, nofollow' }

export function trackingPages(app: App) {
  const storeLater = createRecorder(app)
  const ownHost = getPublicHost(app.config)
  let blockedTags: ReadonlySet<number> | undefined
  app.sendingChanged.listen(() => {
    blockedTags = undefined
  })

  const isBlocked = ({ account }: TrackedRecipient): boolean => {
    blockedTags ??= new Set(listAccountsWithBlockedLinks(app.db).map(accountTag))
    return blockedTags.has(account)
  }

  /** Whether the request used the tracking host of an account that did not send the email. */
  const isForeign = (request: Request, { account }: TrackedRecipient): boolean => {
    const { hostname } = new URL(request.url)
    const holder = hostname === ownHost ? undefined : findTrackingHostAccount(app.db, hostname)
    return holder !== undefined && accountTag(holder) !== account
  }

  const recordVisit = (request: Request, recipient: TrackedRecipient, url?: string): void => {
    if (request.method === 'HEAD' || dayOf(app.clock.now()) - recipient.day > MAX_COUNTED_DAYS) return
    storeLater({
      recipient,
      url,
      visitor: classifyVisitor(request.headers),
      ipAddress: clientIpOf(request) || null,
      userAgent: request.headers.get('user-agent')?.slice(0, MAX_USER_AGENT_LENGTH) || null,
    })
  }

  return new Elysia()
    .get(
      '/t/o/:token',
      ({ params, request }) => {
        const recipient = readPixel(app.keys.subkeys('tracking'), params.token)
        if (!recipient || isForeign(request, recipient)) return createIncompleteLinkPage()
        recordVisit(request, recipient)
        return new Response(PIXEL, {
          // Webmail that isolates itself (COEP) shows images of other sites only with this header.
          headers: { ...HEADERS, 'content-type': 'image/gif', 'cross-origin-resource-policy': 'cross-origin' },
        })
      },
      hidden,
    )
    .get(
      '/t/c/:token/:target',
      ({ params, request }) => {
        const link = readLink(app.keys.subkeys('tracking'), params.token, params.target)
        const location = link && URL.parse(link.url)
        if (!link || !location || isForeign(request, link)) return createIncompleteLinkPage()
        if (isBlocked(link)) return createBlockedLinkPage(location)
        recordVisit(request, link, link.url)
        return new Response(null, { status: 302, headers: { ...HEADERS, location: location.href } })
      },
      hidden,
    )
    .get('/t/*', createIncompleteLinkPage, hidden)
}

/** For readers who follow a link of a blocked sender. Names the target without linking to it. */
const createBlockedLinkPage = (target: URL): Response =>
  createPage(
    403,
    'This link is blocked',
    html`<p>The sender of the message was blocked, because this mail may be harmful. The link leads to:</p>
<p><strong>${target.href}</strong></p>
<p>Do not enter passwords or payment details there. If you do not know the sender, delete the message.</p>`,
  )

/** For readers who follow a truncated link. */
const createIncompleteLinkPage = (): Response =>
  createPage(
    404,
    'This link is incomplete',
    html`<p>Part of it is missing or wrong, so its target is unknown. Open the link in the message again, or ask the sender.</p>`,
  )

const createPage = (status: number, title: string, text: Html): Response =>
  htmlResponse(htmlPage({ title, main: html`<h1>${title}</h1>\n${text}` }), status)

export const MAX_WAITING = 10_000
/** Minimum time between log lines: a full disk or a flood lasts a while and must not fill the log. */
const LOG_INTERVAL_MS = minutes(1)

/** Returns the function that records an open or a click; it never throws and never blocks. */
export function createRecorder(
  app: Pick<App, 'clock' | 'log' | 'eventTime'> & { readonly commit: Pick<App['commit'], 'write'> },
): (engagement: Engagement) => void {
  let waitingCount = 0
  let droppedCount = 0
  let loggedAt: Millis | undefined

  const drop = (error: unknown): void => {
    droppedCount++
    const now = app.clock.now()
    // Also logs if the clock was set back: otherwise a `loggedAt` in the future would silence the log.
    if (loggedAt !== undefined && now >= loggedAt && now - loggedAt < LOG_INTERVAL_MS) return
    loggedAt = now
    app.log.error({ err: error, dropped: droppedCount }, 'opens and clicks not counted')
    droppedCount = 0
  }

  return (engagement) => {
    if (waitingCount >= MAX_WAITING) return drop(undefined)
    waitingCount++
    app.commit
      .write((tx) => recordEngagement(app, tx, engagement))
      .catch(drop)
      .finally(() => waitingCount--)
  }
}
