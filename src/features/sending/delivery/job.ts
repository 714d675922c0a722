/**
 * @module Builds a delivery job from rows: everything that composing, signing and the envelope need, as stored at
 * acceptance. Every attempt has the same job, with one exception: tracked links use the current tracking host of the
 * domain, because links to a removed host would be dead.
 */
import type { App } from '#features/core/app/app.ts'
import { messageIdOf } from '#features/sending/queue/names.ts'
import type { DraftExtra } from '#features/sending/queue/new-email.ts'
import { type RecipientKind, recipientKindCode } from '#features/sending/queue/status.ts'
import { trackingBaseUrl } from '#features/sending/tracking/base-url.ts'
import { accountTag, dayOf } from '#features/sending/tracking/tokens.ts'
import { createUnsubscribeHeaders } from '#features/sending/unsubscribe/headers.ts'
import { findSigningDomain, type SigningDomain } from '#features/setup/domains/sending.ts'
import { findTrackingHost } from '#features/setup/domains/tracking-domain.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { computeVerpTag, encodeVerp } from '#protocols/address/verp.ts'
import { isMailboxField } from '#protocols/mime/compose.ts'
import { buildBulkHeaders } from './bulk-headers.ts'
import type { ComposeJob, DeliverJob, Route } from './protocol.ts'
import { createBroadcastRenderer, type RenderedMail } from './render-broadcast.ts'

interface EmailRow {
  uuid: Uint8Array
  accountId: number
  domainId: number
  from: string
  subject: string
  htmlRef: number | null
  textRef: number | null
  attachments: string | null
  extra: string | null
  createdAt: number
  scheduledAt: number | null
  sizeBytes: number
  tracked: number
  transactional: number
  broadcastId: number | null
}

const sql = prepareStatements((db) => ({
  email: db.prepare<EmailRow, [number]>(
    `SELECT uuid, account_id AS accountId, domain_id AS domainId, from_address AS "from", subject, html_ref AS htmlRef, text_ref AS textRef, attachments, extra,
     created_at AS createdAt, scheduled_at AS scheduledAt, size_bytes AS sizeBytes, tracked, transactional, broadcast_id AS broadcastId FROM emails WHERE id = ?`,
  ),
  /** Does not read Bcc recipients, and omits recipients who were erased since acceptance. */
  headerRecipients: db.prepare<{ kind: number; mailbox: string }, [number]>(
    `SELECT kind, coalesce(mailbox, address) AS mailbox FROM recipients WHERE email_id = ? AND kind IN (${recipientKindCode('to')}, ${recipientKindCode('cc')}) AND address <> '${ERASED_ADDRESS}'
     ORDER BY id`,
  ),
  address: db.prepare<{ address: string }, [number]>('SELECT address FROM recipients WHERE id = ?'),
  account: db.prepare<{ uuid: Uint8Array }, [number]>('SELECT uuid FROM accounts WHERE id = ?'),
}))

export interface PreparedJob {
  readonly job: DeliverJob
  readonly privateKeyPem: string
  /** Size of bodies and attachments, for the memory budget. */
  readonly sizeBytes: number
  /** Whether other recipients of the email share its body; a shared body is in memory only once. */
  readonly isBodyShared: boolean
}

/**
 * The job of a broadcast email, which must be rendered first. `render` rejects like the function of
 * `createBroadcastRenderer`.
 */
export interface UnrenderedJob {
  readonly accountId: number
  render(): Promise<PreparedJob>
}

/** Builds jobs. Caches unsealed keys of domains, because unsealing and parsing a key costs more than a signature. */
export class JobBuilder {
  readonly #app: App
  readonly #render: ReturnType<typeof createBroadcastRenderer>
  readonly #domains = new Map<number, SigningDomain>()
  readonly #verpKey: Uint8Array

  constructor(app: App) {
    this.#app = app
    this.#render = createBroadcastRenderer(app)
    this.#verpKey = app.keys.subkey('verp')
  }

  /** Throws when the email or the key of its domain is missing. */
  build(recipientId: number, emailId: number, route: Route): PreparedJob | UnrenderedJob {
    const { db } = this.#app
    const email = sql(db).email.get(emailId)
    const rcptTo = sql(db).address.get(recipientId)?.address
    if (!email || rcptTo === undefined) throw new Error('the email is missing')
    const domain = this.#getDomain(email.domainId)
    const extra = JSON.parse(email.extra ?? '{}') as DraftExtra
    const compose = this.#composeJob({ recipientId, emailId, rcptTo, email, domain, extra })
    const mailboxHeaders = Object.entries(extra.headers ?? {}).flatMap(([name, value]) =>
      isMailboxField(name) ? [value] : [],
    )
    const prepared: PreparedJob = {
      sizeBytes: email.sizeBytes,
      isBodyShared: email.tracked === 0 && email.broadcastId === null,
      privateKeyPem: domain.privateKeyPem,
      job: {
        recipientId,
        emailId,
        accountId: email.accountId,
        route,
        mailFrom: `${encodeVerp({ recipientId, tag: computeVerpTag(email.uuid) }, this.#verpKey)}@${domain.returnPathDomain}`,
        rcptTo,
        // SMTPUTF8 (RFC 6531) is needed for non-ASCII addresses in the envelope and in the header.
        smtpUtf8: [rcptTo, email.from, ...compose.to, ...compose.cc, extra.reply_to ?? '', ...mailboxHeaders].some(
          hasUtf8Address,
        ),
        compose,
        dkim: { domainId: domain.id, domain: domain.domain, selector: domain.selector },
      },
    }
    if (email.broadcastId === null) return prepared
    return { accountId: email.accountId, render: () => applyRendered(prepared, this.#render(emailId, 'bulk')) }
  }

  #composeJob({ recipientId, emailId, rcptTo, email, domain, extra }: ComposeInput): ComposeJob {
    const { db } = this.#app
    const headerRecipients = sql(db).headerRecipients.all(emailId)
    const listMailboxes = (requestedKind: RecipientKind): string[] => {
      const code = recipientKindCode(requestedKind)
      return headerRecipients.filter(({ kind }) => kind === code).map(({ mailbox }) => mailbox)
    }
    const attachments = JSON.parse(email.attachments ?? '[]') as {
      filename: string
      content_type: string
      ref: number
    }[]
    const listHeaders =
      email.transactional === 1
        ? []
        : createUnsubscribeHeaders(this.#app, {
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
      to: listMailboxes('to'),
      cc: listMailboxes('cc'),
      subject: email.subject,
      // The intended send time, even when the message is sent later, so that it is the same for every recipient and
      // attempt.
      dateMs: email.scheduledAt ?? email.createdAt,
      messageId: messageIdOf(email.uuid, email.from),
      headers: mergeHeaders(extra.headers ?? {}, [...listHeaders, ...broadcastHeaders]),
      htmlRef: email.htmlRef,
      textRef: email.textRef,
      attachments: attachments.map((a) => ({ filename: a.filename, contentType: a.content_type, ref: a.ref })),
      boundarySeed: formatUuid(email.uuid),
      ...(extra.reply_to !== undefined && { replyTo: extra.reply_to }),
      ...(email.tracked === 1 && { tracking: buildTracking(this.#app, email) }),
    }
  }

  #getDomain(id: number): SigningDomain {
    const cached = this.#domains.get(id)
    if (cached) return cached
    const domain = findSigningDomain(this.#app.db, this.#app.keys, id)
    if (!domain) throw new Error('the DKIM key of the sending domain is missing')
    if (this.#domains.size >= MAX_CACHED_DOMAINS) this.#domains.clear()
    this.#domains.set(id, domain)
    return domain
  }
}

/** Everything that the message of one recipient is composed from. */
interface ComposeInput {
  readonly recipientId: number
  readonly emailId: number
  readonly rcptTo: string
  readonly email: EmailRow
  readonly domain: SigningDomain
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

function buildTracking(
  { config, db }: App,
  { accountId, domainId, createdAt }: EmailRow,
): NonNullable<ComposeJob['tracking']> {
  const account = sql(db).account.get(accountId)
  if (!account) throw new Error('the account is missing')
  return {
    baseUrl: trackingBaseUrl(config.publicUrl, findTrackingHost(db, domainId)),
    account: accountTag(account.uuid),
    day: dayOf(createdAt),
  }
}

const MAX_CACHED_DOMAINS = 1000

/** Whether the address itself, not only the display name, has non-ASCII characters. */
function hasUtf8Address(mailboxes: string): boolean {
  if (!NON_ASCII.test(mailboxes)) return false
  return (mailboxes.match(ADDRESS_PATTERN) ?? []).some((address) => NON_ASCII.test(address))
}

const NON_ASCII = /[^\p{ASCII}]/u
const ADDRESS_PATTERN = /(?<![^\s<>,"])[^\s<>,"]+@[^\s<>,"]+/g
