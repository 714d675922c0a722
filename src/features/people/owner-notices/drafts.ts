/**
 * @module The mail to owners about drafts, and /release/{token}: the page behind its links. The page shows the email;
 * only the POST of its form decides, because scanners of mail follow links. A link works for 14 days, while the email is
 * a draft, and while the address to which it was sent is that of the account or of one of its owners.
 */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { createBodyReader } from '#features/core/app/stored-content.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import type { OwnerNotice } from '#features/core/notices/notices.ts'
import { FRAME_POLICY, renderBlock, renderPage } from '#features/sending/capture/pages.ts'
import { findEmail, listEmails, type StoredEmail } from '#features/sending/emails/read.ts'
import { cancelEmail, MAX_DRAFT_AGE_MS, releaseEmail } from '#features/sending/emails/scheduled.ts'
import type { DraftExtra } from '#features/sending/queue/email.ts'
import { parseAttachments } from '#features/sending/queue/retire.ts'
import { ANY_TIME } from '#features/sending/queue/search.ts'
import { DRAFTS_KIND } from '#features/sending/queue/status.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { openSealed, sealJson } from '#platform/crypto/sealed-token.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { type Html, html, unlistedResponse } from '#platform/http/html.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { truncate } from '#platform/text.ts'
import { hours, type Millis, minutes } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { findOwned } from './owner-notices.ts'

const sql = prepareStatements((db) => ({
  receiving: db.prepare('SELECT id FROM domains WHERE domain = ? AND inbound_enabled = 1 AND deleted_at IS NULL'),
}))

const CONTEXT = 'draft-link'
const MAX_NAMED = 20

/** What a link is for: the email, by its public id, and the address to which the link is sent. */
type DraftLink = Readonly<{ accountId: number; id: string; expiresAt: Millis; address: string }>

export const createDraftToken = ({ keys }: App, link: DraftLink): string => sealJson(keys, link, CONTEXT)

export const DRAFT_NOTICE: OwnerNotice = {
  kind: DRAFTS_KIND,
  intervalMs: minutes(15),
  retryMs: hours(1),
  compose(app, { name }, [notice]) {
    const accountId = notice?.accountId ?? 0
    const window = { limit: MAX_NAMED, offset: 0 }
    const { emails, total } = listEmails(app.db, accountId, { ...ANY_TIME, status: 'draft' }, window)
    if (total === 0) return undefined
    const waiting = total === 1 ? '1 email waits' : `${total} emails wait`
    const url = trimTrailingSlashes(app.config.publicUrl)
    const text = (address: string): string => {
      // What arrives here can be read by a program with a key, which would follow the link.
      const hasLinks = !sql(app.db).receiving.get(domainOfMailbox(address).toLowerCase())
      const rows = emails.map(({ uuid, createdAt, subject, recipients }) => {
        const link = { accountId, id: formatUuid(uuid), expiresAt: createdAt + MAX_DRAFT_AGE_MS, address }
        const to = recipients.map((recipient) => recipient.address).join(', ')
        const shown = `"${truncate(subject, 100)}"\nto ${truncate(to, 200)}`
        return hasLinks ? `${shown}\n${url}/release/${createDraftToken(app, link)}` : shown
      })
      const [each, are] = total === 1 ? ['it', 'it is'] : ['them', 'they are']
      return `${waiting} in the account ${name} until a person releases ${each}. A program wrote ${each}, so read ${each} first. After 14 days ${are} cancelled.${hasLinks ? ' The links are for you alone.' : ''}\n\n${rows.join('\n\n')}\n\nAll: ${url}/app/emails?status=draft\n`
    }
    return { subject: `${waiting} for release (${name})`, text }
  },
}

/** The email of a token; undefined if it is not ours, too old, or for somebody who is no owner any more. */
function openToken({ clock, db, keys }: App, token: string) {
  const link = openSealed<DraftLink>(keys, token, CONTEXT)
  const account = link && link.expiresAt > clock.now() ? findOwned(db, link.accountId) : undefined
  if (!link || !account?.owners.includes(link.address)) return undefined
  const uuid = parseUuid(link.id)
  const email = uuid && findEmail(db, link.accountId, uuid)
  return email && { account, email, link }
}

export const draftPages = (app: App) =>
  new Elysia()
    .get('/release/:token', ({ params }) => showDraft(app, params.token), { detail: { hide: true } })
    .post(
      '/release/:token',
      async ({ params, body, request }) => {
        const opened = openToken(app, params.token)
        const { action } = (body ?? {}) as { readonly action?: unknown }
        const decide = action === 'release' ? releaseEmail : action === 'discard' ? cancelEmail : undefined
        if (opened && decide) {
          const { account, link } = opened
          const actor = { ...createSystemActor(account), ipAddress: clientIpOf(request) }
          // When somebody decided before, or at the same time, the page shows what became of it.
          await decide(app, actor, link.id, { via: 'link', address: link.address }).catch((error: unknown) => {
            if (!(error instanceof AppError) || error.status >= 500) throw error
          })
        }
        return showDraft(app, params.token)
      },
      { detail: { hide: true, ...acceptsBody('json-or-form') } },
    )

const page = (title: string, main: Html, status = 200) => unlistedResponse(renderPage(title, main), status)

function showDraft(app: App, token: string): Response {
  const opened = openToken(app, token)
  if (!opened)
    return page('This link is no longer valid', html`<p>Sign in to the dashboard to see which emails wait.</p>`, 404)
  const { account, email } = opened
  if (email.status !== 'draft') {
    const isDiscarded = email.status === 'cancelled' || email.status === 'rejected'
    return page(isDiscarded ? 'Discarded' : 'Released', html`<p>The status of the email is ${email.status}.</p>`)
  }
  const bodies = createBodyReader(app)
  const [text = null, body = null] = [email.textRef, email.htmlRef].map(bodies.read)
  // Nobody can have read it.
  const release = !bodies.isMissing && html`<button name="action" value="release">Release</button>`
  return page(
    email.subject,
    html`<p>A program of the account ${account.name} wrote this email. It is sent only if you release it.</p>
<ul>${listFacts(email).map(([name, value]) => html`<li>${name}: <bdi>${value}</bdi></li>`)}</ul>
${bodies.isMissing && html`<p>A part of it is missing, until the operator restores it from a backup.</p>`}
<form method="post">${release} <button class="quiet" name="action" value="discard">Discard</button></form>
${text !== null && renderBlock('Text', text)}
${body !== null && html`<h2>HTML</h2><iframe title="HTML of the message" sandbox srcdoc="${FRAME_POLICY}${body}"></iframe>`}`,
  )
}

function listFacts({ from, extra, recipients, attachments, scheduledAt }: StoredEmail) {
  const { reply_to: replyTo } = JSON.parse(extra ?? '{}') as DraftExtra
  return [
    ['from', from],
    ...recipients.map(({ kind, mailbox, address }) => [kind, mailbox ?? address]),
    ...(replyTo === undefined ? [] : [['replies to', replyTo]]),
    ...parseAttachments(attachments).map(({ filename, size }) => ['file', `${filename} (${size} bytes)`]),
    ['sent', scheduledAt === null ? 'immediately' : isoTime(scheduledAt)],
  ]
}
