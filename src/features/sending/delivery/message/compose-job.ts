/**
 * @module Builds the compose job of a recipient from rows, as stored at acceptance: everything that its message is
 * composed from, apart from the content itself.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { messageIdOf } from '#features/sending/queue/names.ts'
import type { DraftExtra } from '#features/sending/queue/new-email.ts'
import { describeAttachment, parseAttachments } from '#features/sending/queue/retire.ts'
import { type RecipientKind, recipientKindCode } from '#features/sending/queue/status.ts'
import { toTrackingChoice } from '#features/sending/queue/tracking.ts'
import { trackingBaseUrl } from '#features/sending/tracking/base-url.ts'
import { accountTag, dayOf } from '#features/sending/tracking/tokens.ts'
import { createUnsubscribeHeaders } from '#features/sending/unsubscribe/headers.ts'
import type { SigningDomain } from '#features/setup/domains/sending.ts'
import { findTrackingHost } from '#features/setup/domains/tracking-domain.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import type { ComposeJob } from '../model/protocol.ts'
import { buildBulkHeaders } from './bulk-headers.ts'

/** The columns of an email that composing needs. */
export interface ComposableEmail {
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

/** Builds the compose job of one recipient. */
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
    attachments: parseAttachments(email.attachments).map(({ ref = 0, ...file }) => ({
      ...describeAttachment(file),
      ref,
    })),
    boundarySeed: formatUuid(email.uuid),
    ...(extra.reply_to !== undefined && { replyTo: extra.reply_to }),
    ...(extra.report_type && { reportType: extra.report_type }),
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
