/**
 * @module Builds a delivery job from rows: everything that composing, signing and the envelope need, as stored at
 * acceptance. Every attempt has the same job, with one exception: tracked links use the current tracking host of the
 * domain, because links to a removed host would be dead.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { type DraftExtra, messageIdOf, toTrackingChoice } from '#features/sending/queue/email.ts'
import { describeAttachment, parseAttachments } from '#features/sending/queue/retire.ts'
import { type RecipientKind, recipientKindCode } from '#features/sending/queue/status.ts'
import type { emails } from '#features/sending/queue/tables.ts'
import { accountTag, dayOf, trackingBaseUrl } from '#features/sending/tracking/tokens.ts'
import { createUnsubscribeHeaders } from '#features/sending/unsubscribe/headers.ts'
import { findSigningDomain, type SigningDomain } from '#features/setup/domains/sending.ts'
import { findTrackingHost } from '#features/setup/domains/tracking-domain.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { minutes } from '#platform/units.ts'
import { computeVerpTag, encodeVerp } from '#protocols/address/verp.ts'
import { isMailboxField } from '#protocols/mime/fields.ts'
import type { ComposeJob, DeliverJob, DkimKeyPem, Route } from '../protocol.ts'
import { createBroadcastRenderer, type RenderedMail } from './render-broadcast.ts'

export interface PreparedJob {
  readonly job: DeliverJob
  readonly keys: readonly DkimKeyPem[]
  /** Size of bodies and attachments, for the memory budget. */
  readonly sizeBytes: number
  /** Whether other recipients of the email share its body; a shared body is in memory only once. */
  readonly isBodyShared: boolean
}

/** The job of a broadcast email, to be rendered first; `render` rejects like that of `createBroadcastRenderer`. */
export interface UnrenderedJob {
  render(): Promise<PreparedJob>
}

/** Builds jobs. Caches unsealed keys of domains, because unsealing and parsing a key costs more than a signature. */
export class JobBuilder {
  readonly #app: App
  readonly #render: ReturnType<typeof createBroadcastRenderer>
  readonly #domains = new Map<number, { readonly domain: SigningDomain; readonly readAtMs: number }>()

  constructor(app: App) {
    this.#app = app
    this.#render = createBroadcastRenderer(app)
  }

  /** Throws when the email or the key of its domain is missing. */
  build(
    { recipientId, emailId }: { readonly recipientId: number; readonly emailId: number },
    rcptTo: string,
    route: Route,
  ): PreparedJob | UnrenderedJob {
    const { db, keys: masterKeys } = this.#app
    const email = readComposableEmail(db, emailId)
    if (!email) throw new Error('the email is missing')
    const domain = this.#getDomain(email.domainId)
    const keys = listKeys(domain)
    const extra = JSON.parse(email.extra ?? '{}') as DraftExtra
    const compose = createComposeJob(this.#app, { recipientId, emailId, rcptTo, email, domain, extra })
    const ofMailboxes = Object.entries(extra.headers ?? {}).filter(([name]) => isMailboxField(name))
    const mailboxes = [...compose.to, ...compose.cc, extra.reply_to ?? '', ...ofMailboxes.map(([, value]) => value)]
    const prepared: PreparedJob = {
      sizeBytes: email.sizeBytes,
      isBodyShared: email.tracked === 0 && email.broadcastId === null,
      keys: keys.map(({ id, privateKeyPem }) => ({ id, privateKeyPem })),
      job: {
        recipientId,
        emailId,
        accountId: email.accountId,
        route,
        mailFrom:
          extra.whole === 'null_return_path'
            ? ''
            : `${encodeVerp({ recipientId, tag: computeVerpTag(email.uuid) }, masterKeys.subkey('verp'))}@${domain.returnPathDomain}`,
        rcptTo,
        // SMTPUTF8 (RFC 6531) is needed for non-ASCII addresses in the envelope and in the header.
        smtpUtf8: [rcptTo, email.from, ...mailboxes].some(hasUtf8Address),
        compose,
        dkim: { domain: domain.domain, keys: keys.map(({ id, selector }) => ({ id, selector })) },
      },
    }
    if (email.broadcastId === null) return prepared
    return { render: () => applyRendered(prepared, this.#render(emailId, 'bulk')) }
  }

  #getDomain(id: number): SigningDomain {
    const now = this.#app.clock.monotonicMs()
    const cached = this.#domains.get(id)
    if (cached && now - cached.readAtMs < MAX_CACHE_AGE_MS) return cached.domain
    const domain = findSigningDomain(this.#app.db, this.#app.keys, id)
    if (!domain) throw new Error('the DKIM key of the sending domain is missing')
    if (this.#domains.size >= MAX_CACHED_DOMAINS) this.#domains.clear()
    this.#domains.set(id, { domain, readAtMs: now })
    return domain
  }
}

async function applyRendered(prepared: PreparedJob, rendering: Promise<RenderedMail>): Promise<PreparedJob> {
  const { subject, html, text } = await rendering
  const { job } = prepared
  return {
    ...prepared,
    // Counts characters, which roughly equal octets; the budget is an estimate.
    sizeBytes: (html?.length ?? 0) + (text?.length ?? 0),
    job: { ...job, compose: { ...job.compose, subject, rendered: { html, text } } },
  }
}

const MAX_CACHED_DOMAINS = 1000
/** After this long, a domain is read again: a DNS check may have found the record of its second key, or missed it. */
const MAX_CACHE_AGE_MS = minutes(1)

/** Both signatures cover the same fields. RSA comes first, because some receivers verify only the first signatures. */
export const listKeys = ({ id, selector, privateKeyPem, ed25519 }: SigningDomain) => [
  { id: `${id}:${selector}`, selector, privateKeyPem },
  ...(ed25519 ? [{ id: `${id}:${ed25519.selector}`, ...ed25519 }] : []),
]

/** Whether the address itself, not only the display name, has non-ASCII characters. */
const hasUtf8Address = (mailboxes: string): boolean =>
  NON_ASCII.test(mailboxes) && (mailboxes.match(ADDRESS_PATTERN) ?? []).some((address) => NON_ASCII.test(address))

const NON_ASCII = /[^\p{ASCII}]/u
const ADDRESS_PATTERN = /(?<![^\s<>,"])[^\s<>,"]+@[^\s<>,"]+/g

export type ComposableEmail = Readonly<
  Pick<
    typeof emails.$inferSelect,
    | ('uuid' | 'accountId' | 'domainId' | 'from' | 'subject' | 'htmlRef' | 'textRef' | 'attachments' | 'extra')
    | ('createdAt' | 'scheduledAt' | 'sizeBytes' | 'broadcastId')
  > & { tracked: number; transactional: number }
>

const sql = prepareStatements((db) => ({
  email: db.prepare<ComposableEmail, [number]>(
    `SELECT uuid, account_id AS accountId, domain_id AS domainId, from_address AS "from", subject, html_ref AS htmlRef, text_ref AS textRef, attachments, extra,
     created_at AS createdAt, scheduled_at AS scheduledAt, size_bytes AS sizeBytes, tracked, transactional, broadcast_id AS broadcastId FROM emails WHERE id = ?`,
  ),
  /** Does not read Bcc recipients, and omits recipients who were erased since acceptance. */
  headerRecipients: db.prepare<{ kind: number; mailbox: string }, [number]>(
    `SELECT kind, coalesce(mailbox, address) AS mailbox FROM recipients WHERE email_id = ? AND kind IN (${recipientKindCode('to')}, ${recipientKindCode('cc')}) AND address <> '${ERASED_ADDRESS}'
     ORDER BY id`,
  ),
  account: db.prepare<{ uuid: Uint8Array }, [number]>('SELECT uuid FROM accounts WHERE id = ?'),
  origin: db.prepare<BroadcastOrigin, [number]>(
    `SELECT accounts.uuid AS accountUuid, contact_lists.uuid AS listUuid, operations.uuid AS operationUuid, newsletter_id AS newsletterId FROM emails
     JOIN accounts ON accounts.id = emails.account_id JOIN broadcasts ON broadcasts.id = broadcast_id
     LEFT JOIN contact_lists ON contact_lists.id = emails.list_id LEFT JOIN operations ON operations.id = broadcasts.operation_id WHERE emails.id = ?`,
  ),
}))

export const readComposableEmail = (db: Database, emailId: number): ComposableEmail | undefined =>
  sql(db).email.get(emailId) ?? undefined

/** Everything that the message of one recipient is composed from. */
export interface ComposeInput {
  readonly recipientId: number
  readonly emailId: number
  readonly rcptTo: string
  readonly email: ComposableEmail
  readonly domain: Pick<SigningDomain, 'domain' | 'returnPathDomain'>
  readonly extra: DraftExtra
}

/** The client's headers, plus the default headers that the client did not set. */
function mergeHeaders(
  provided: Readonly<Record<string, string>>,
  defaults: readonly (readonly [name: string, value: string])[],
): readonly (readonly [name: string, value: string])[] {
  const names = new Set(Object.keys(provided).map((name) => name.toLowerCase()))
  return [...Object.entries(provided), ...defaults.filter(([name]) => !names.has(name.toLowerCase()))]
}

export function createComposeJob(
  app: App,
  { recipientId, emailId, rcptTo, email, domain, extra }: ComposeInput,
): ComposeJob {
  const { db } = app
  const headerRecipients = sql(db).headerRecipients.all(emailId)
  const listMailboxes = (requestedKind: RecipientKind): string[] => {
    const code = recipientKindCode(requestedKind)
    return headerRecipients.filter(({ kind }) => kind === code).map(({ mailbox }) => mailbox)
  }
  const listHeaders =
    email.transactional === 1
      ? []
      : createUnsubscribeHeaders(app, {
          emailId,
          emailUuid: email.uuid,
          recipientId,
          address: rcptTo,
          from: email.from,
          returnPathDomain: domain.returnPathDomain,
        })
  const broadcastHeaders = email.broadcastId === null ? [] : buildBulkHeaders(db, emailId, domain.domain)
  return {
    from: email.from,
    to: [...listMailboxes('to'), ...(extra.also_to ?? [])],
    cc: [...listMailboxes('cc'), ...(extra.also_cc ?? [])],
    subject: email.subject,
    // The intended send time, even when sent later: the same for every recipient and attempt.
    dateMs: extra.date ?? email.scheduledAt ?? email.createdAt,
    messageId: messageIdOf(email.uuid, email.from, extra.message_id),
    headers: mergeHeaders(extra.headers ?? {}, [...listHeaders, ...broadcastHeaders]),
    htmlRef: email.htmlRef,
    textRef: email.textRef,
    // Without a reference, the content was deleted; no blob has the reference 0.
    attachments: parseAttachments(email.attachments).map((file) => ({
      ...describeAttachment(file),
      ref: file.ref ?? 0,
    })),
    boundarySeed: formatUuid(email.uuid),
    ...(extra.reply_to !== undefined && { replyTo: extra.reply_to }),
    ...(extra.report_type && { reportType: extra.report_type }),
    ...(extra.whole && { isWhole: true }),
    ...(email.tracked !== 0 && { tracking: buildTracking(app, email) }),
  }
}

function buildTracking(
  { config, db, keys }: App,
  { accountId, domainId, createdAt, tracked }: ComposableEmail,
): NonNullable<ComposeJob['tracking']> {
  const account = sql(db).account.get(accountId)
  if (!account) throw new Error('the account is missing')
  return {
    baseUrl: trackingBaseUrl(config.publicUrl, findTrackingHost(db, domainId)),
    account: accountTag(account.uuid),
    day: dayOf(createdAt),
    keyHex: keys.subkey('tracking').toHex(),
    parts: toTrackingChoice(tracked),
  }
}

interface BroadcastOrigin {
  readonly accountUuid: Uint8Array
  readonly listUuid: Uint8Array | null
  readonly operationUuid: Uint8Array | null
  readonly newsletterId: number | null
}

/** The last part of Feedback-ID: Gmail requires 5 to 15 characters that are the same in all mail of a sender. */
const SENDER_ID = 'tassis'

/** @param signingDomain the d= of the signature: it proves that the sender owns the list name (RFC 2919 §3) */
function buildBulkHeaders(
  db: App['db'],
  emailId: number,
  signingDomain: string,
): readonly (readonly [name: string, value: string])[] {
  const origin = sql(db).origin.get(emailId)
  if (!origin) throw new Error(`email ${emailId} has no broadcast`)
  const { accountUuid, listUuid, operationUuid, newsletterId } = origin
  const campaign = operationUuid === null ? 'none' : formatUuid(operationUuid)
  const kind = newsletterId === null ? 'broadcast' : 'newsletter'
  return [
    ...(listUuid === null ? [] : [['List-Id', `<${formatUuid(listUuid)}.${signingDomain}>`] as const]),
    ['Feedback-ID', [campaign, accountTag(accountUuid).toString(16), kind, SENDER_ID].join(':')],
    ['Precedence', 'bulk'],
  ]
}
