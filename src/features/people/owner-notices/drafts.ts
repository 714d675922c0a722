/**
 * @module The mail to owners about drafts, and /release/{token}: the page behind its links. The page shows the email;
 * only the POST of its form decides, because scanners of mail follow links. A link works for 14 days, while the email is
 * a draft, and while the address to which it was sent is that of the account or of one of its owners.
 */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import type { OwnerNotice } from '#features/core/notices/notices.ts'
import { listOwnerEmails } from '#features/people/team/users.ts'
import { FRAME_POLICY, renderBlock, renderPage } from '#features/sending/capture/pages.ts'
import { findEmail, listEmails, type StoredEmail } from '#features/sending/emails/read.ts'
import { decideDraft, MAX_DRAFT_AGE_MS } from '#features/sending/emails/scheduled.ts'
import { parseAttachments } from '#features/sending/queue/retire.ts'
import { ANY_TIME } from '#features/sending/queue/search.ts'
import { DRAFTS_KIND } from '#features/sending/queue/status.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { openSealedToken, sealedTokenLength, sealToken } from '#platform/crypto/sealed-token.ts'
import { encodeVarint } from '#platform/crypto/token-bytes.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { type Html, html, unlistedResponse } from '#platform/http/html.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import { parsePage } from '#platform/http/schemas.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { truncate } from '#platform/text.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'

const sql = prepareStatements((db) => ({
  account: db.prepare<{ accountId: number; accountUuid: UuidBytes; name: string; address: string }, [UuidBytes]>(
    `SELECT accounts.id AS accountId, accounts.uuid AS accountUuid, name, accounts.email AS address FROM emails JOIN accounts
     ON accounts.id = account_id WHERE emails.uuid = ? AND accounts.deleted_at IS NULL AND disabled_at IS NULL`,
  ),
  receiving: db.prepare('SELECT id FROM domains WHERE domain = ? AND inbound_enabled = 1 AND deleted_at IS NULL'),
}))

const CONTEXT = 'draft-link'
const UUID_BYTES = 16
const MAX_TOKEN_LENGTH = sealedTokenLength(500)
const MAX_NAMED = '20'

/** @param address to which the link is sent */
export const createDraftToken = ({ keys }: App, uuid: UuidBytes, expiresAt: Millis, address: string): string =>
  sealToken(keys, CONTEXT, [uuid, encodeVarint(expiresAt), Buffer.from(address.toLowerCase())])

export const DRAFT_NOTICE: OwnerNotice = {
  kind: DRAFTS_KIND,
  intervalMs: minutes(15),
  compose(app, { name }, [notice]) {
    const filter = { ...ANY_TIME, status: 'draft', engagement: undefined, operation: undefined } as const
    const { emails, total } = listEmails(app.db, notice?.accountId ?? 0, filter, parsePage({ per_page: MAX_NAMED }))
    if (total === 0) return undefined
    const waiting = total === 1 ? '1 email waits' : `${total} emails wait`
    const url = trimTrailingSlashes(app.config.publicUrl)
    const text = (address: string): string => {
      // What arrives here can be read by a program with a key, which would follow the link.
      const hasLinks = !sql(app.db).receiving.get(domainOfMailbox(address).toLowerCase())
      const rows = emails.map(({ uuid, createdAt, subject, recipients }) => {
        const token = createDraftToken(app, uuid, createdAt + MAX_DRAFT_AGE_MS, address)
        const to = recipients.map((recipient) => recipient.address).join(', ')
        return `"${truncate(subject, 100)}"\nto ${truncate(to, 200)}${hasLinks ? `\n${url}/release/${token}` : ''}`
      })
      return `${waiting} in the account ${name} until a person releases it. A program wrote it, so read it first. After 14 days it is cancelled.${hasLinks ? ' The links are for you alone.' : ''}\n\n${rows.join('\n\n')}\n\nAll: ${url}/app/emails?status=draft\n`
    }
    return { subject: `${waiting} for release (${name})`, text }
  },
}

/** What a token is for; undefined if it is not ours, too old, or for somebody who is no owner any more. */
function openToken({ clock, db, keys }: App, token: string) {
  const facts = openSealedToken(keys, CONTEXT, token, MAX_TOKEN_LENGTH)
  const uuid = facts && (Uint8Array.from(facts.take(UUID_BYTES)) as UuidBytes)
  const account = uuid && facts.takeInteger() > clock.now() && sql(db).account.get(uuid)
  const email = account && findEmail(db, account.accountId, uuid)
  if (!email) return undefined
  const address = facts.takeRest().toString()
  const owners = [account.address, ...listOwnerEmails(db, account.accountId)].map((owner) => owner.toLowerCase())
  return owners.includes(address) ? { account, email, address } : undefined
}

export const draftPages = (app: App) =>
  new Elysia()
    .get('/release/:token', ({ params }) => showDraft(app, openToken(app, params.token)), { detail: { hide: true } })
    .post(
      '/release/:token',
      async ({ params, body, request }) => {
        const opened = openToken(app, params.token)
        const { action } = (body ?? {}) as { readonly action?: unknown }
        if (opened?.email.status !== 'draft' || (action !== 'release' && action !== 'discard'))
          return showDraft(app, opened)
        const { account, email, address } = opened
        const actor = { ...createSystemActor(account), ipAddress: clientIpOf(request) }
        const audited = { via: 'link', address }
        return showState((await decideDraft(app, actor, formatUuid(email.uuid), { action, audited })).status)
      },
      { detail: { hide: true, ...acceptsBody('json-or-form') } },
    )

const page = (title: string, main: Html, status = 200) => unlistedResponse(renderPage(title, main), status)

const showState = (status: string): Response =>
  status === 'cancelled'
    ? page('Discarded', html`<p>The email is cancelled: nothing of it is sent.</p>`)
    : page('Released', html`<p>The email is released; its status is ${status}.</p>`)

function showDraft(app: App, opened: ReturnType<typeof openToken>): Response {
  if (!opened)
    return page('This link is no longer valid', html`<p>Sign in to the dashboard to see which emails wait.</p>`, 404)
  const { account, email } = opened
  if (email.status !== 'draft') return showState(email.status)
  const [text, body] = [email.textRef, email.htmlRef].map((ref) =>
    ref === null ? null : new TextDecoder().decode(app.content.get(ref)),
  )
  return page(
    email.subject,
    html`<p>A program of the account ${account.name} wrote this email. It is sent only if you release it.</p>
<ul>${listFacts(email).map(([name, value]) => html`<li>${name}: <bdi>${value}</bdi></li>`)}</ul>
<form method="post"><button name="action" value="release">Release</button> <button name="action" value="discard">Discard</button></form>
${text != null && renderBlock('Text', text)}
${body != null && html`<h2>HTML</h2><iframe title="HTML of the message" sandbox srcdoc="${FRAME_POLICY}${body}"></iframe>`}`,
  )
}

const listFacts = ({ from, recipients, attachments, scheduledAt }: StoredEmail): (readonly [string, string])[] => [
  ['from', from],
  ...recipients.map(({ kind, mailbox, address }) => [kind, mailbox ?? address] as const),
  ...parseAttachments(attachments).map(({ filename, size }) => ['file', `${filename} (${size} bytes)`] as const),
  ['sent', scheduledAt === null ? 'at once' : isoTime(scheduledAt)],
]
