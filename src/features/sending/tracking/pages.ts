/**
 * @module /t: the pixel and the tracked links, for whoever has a message. Public. An answer needs the key only: no row of the email is read and no commit
 * is waited for, so a link leads on after its email, its account and the time in which it is counted are gone. HEAD answers alike and never counts.
 * The links of an account that was paused for what its mail says, or by the operator, lead on no more: a page names where they lead.
 *
 * Under the tracking host of an account only its own links lead on, or anybody with an account here could lead people to where he likes under the name of
 * another. A host that is nobody's leads on for all: a reverse proxy may give us any.
 */
import { Elysia } from 'elysia'
import { listAccountsWithBlockedLinks } from '#features/core/accounts/pause.ts'
import type { App } from '#features/core/app/app.ts'
import { findTrackingHostAccount, getPublicHost } from '#features/setup/domains/tracking-domain.ts'
import { html, htmlPage, htmlResponse } from '#platform/http/html.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import { classifyVisitor, MAX_USER_AGENT_LENGTH } from './classify.ts'
import { createRecorder } from './recorder.ts'
import { accountTag, dayOf, readLink, readPixel, type TrackedRecipient } from './tokens.ts'

/** A transparent picture of 1x1: GIF89a, 43 bytes. */
const PIXEL = Uint8Array.fromBase64('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==')

const hidden = { detail: { hide: true } }

/** Nothing may be kept on the way, or the next load would not be seen. */
const HEADERS = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer', 'x-robots-tag': 'noindex, nofollow' }

/** The plugin of /t. */
export function trackingPages(app: App) {
  const key = app.keys.subkey('tracking')
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

  /** Whether the request came under the tracking host of an account that did not send the email. */
  const isForeign = (request: Request, { account }: TrackedRecipient): boolean => {
    const { hostname } = new URL(request.url)
    const holder = hostname === ownHost ? undefined : findTrackingHostAccount(app.db, hostname)
    return holder !== undefined && accountTag(holder) !== account
  }

  const recordVisit = (request: Request, recipient: TrackedRecipient, url?: string): void => {
    if (request.method === 'HEAD' || dayOf(app.clock.now()) - recipient.day > app.config.trackingDays) return
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
        const recipient = readPixel(key, params.token)
        if (!recipient || isForeign(request, recipient)) return createIncompleteLinkPage()
        recordVisit(request, recipient)
        return new Response(PIXEL, {
          // Web mail that isolates itself (COEP) shows pictures of others only with this.
          headers: { ...HEADERS, 'content-type': 'image/gif', 'cross-origin-resource-policy': 'cross-origin' },
        })
      },
      hidden,
    )
    .get(
      '/t/c/:token/:target',
      ({ params, request }) => {
        const link = readLink(key, params.token, params.target)
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

/** For people who follow a link of a sender who was stopped. It names the target without a link to it. */
const createBlockedLinkPage = (target: URL): Response =>
  htmlResponse(
    htmlPage({
      title: 'This link is blocked',
      main: html`<h1>This link is blocked</h1>
<p>The sender of the message may not send any more, because this mail may be harmful. The link leads to:</p>
<p><strong>${target.href}</strong></p>
<p>Do not enter passwords or payment details there. If you do not know the sender, delete the message.</p>`,
    }),
    403,
  )

/** For people who follow a link that was cut, at whatever place. */
const createIncompleteLinkPage = (): Response =>
  htmlResponse(
    htmlPage({
      title: 'This link is not complete',
      main: html`<h1>This link is not complete</h1>
<p>It was cut or changed on its way, so it is not known where it leads. Follow it again from the message, or ask its sender.</p>`,
    }),
    404,
  )
