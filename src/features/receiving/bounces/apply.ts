/**
 * @module Finds the recipient that a DSN (RFC 3464) is about and applies it: late bounces correct a status, other
 * reports resolve an uncertain one. A report changes one recipient at most once, however often it arrives. The rules
 * for direct replies classify a reported failure.
 *
 * The MAC of a return path proves the recipient. A Message-ID of ours cannot be guessed and is known only to the
 * email's recipients, so it suffices when there is one recipient. One that the client chose may be guessed, so the
 * report must name the recipient, too.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { resolveDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import { type BounceCategory, toBounceType } from '#features/sending/delivery/protocol.ts'
import { suppressRecipient } from '#features/sending/delivery/verdict/outcome.ts'
import { findRule, isPermanentlyInvalid } from '#features/sending/delivery/verdict/replies.ts'
import { isUnknownDomain, normaliseReply, type Phase } from '#features/sending/delivery/verdict/reply-rules.ts'
import { bounceLate, confirmUncertain } from '#features/sending/queue/attempt-transitions.ts'
import { findEmailLogFields, findVerpRecipient, messageIdOf } from '#features/sending/queue/email.ts'
import { findByClientMessageId } from '#features/sending/queue/search.ts'
import { statusName } from '#features/sending/queue/status.ts'
import type { emails } from '#features/sending/queue/tables.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { decodeVerp } from '#protocols/address/verp.ts'
import type { Dsn, DsnRecipient } from '#protocols/dsn/fields.ts'
import { isVagueStatus } from '#protocols/dsn/standard.ts'
import type { SmtpReply } from '#protocols/smtp/replies.ts'

export interface MatchedRecipient {
  readonly recipientId: number
  readonly emailId: number
  readonly accountId: number
  readonly address: string
  readonly status: number
  /** When transmission to the receiver began, if it has. */
  readonly startedAt: Millis | null
  readonly sandbox: number
  /** Whether the email is a forwarded message, with a Message-ID of its own. */
  readonly isWhole: number
}

export type BounceMatch =
  | { readonly kind: 'matched'; readonly recipient: MatchedRecipient; readonly reported: DsnRecipient }
  | { readonly kind: 'ignored'; readonly why: string }
  | { readonly kind: 'unmatched'; readonly why: string }

type EmailRow = Readonly<Pick<typeof emails.$inferSelect, 'id' | 'uuid' | 'accountId' | 'from'>>

const SELECT_RECIPIENT = `SELECT recipients.id AS recipientId, email_id AS emailId, account_id AS accountId, address, recipients.status,
  delivery_started_at AS startedAt, sandbox, extra ->> '$.whole' IS NOT NULL AS isWhole
  FROM recipients JOIN emails ON emails.id = email_id`

const sql = prepareStatements((db) => ({
  recipient: db.prepare<MatchedRecipient, [number]>(`${SELECT_RECIPIENT} WHERE recipients.id = ?`),
  recipients: db.prepare<MatchedRecipient, [number]>(`${SELECT_RECIPIENT} WHERE email_id = ? ORDER BY recipients.id`),
  email: db.prepare<EmailRow, [UuidBytes]>(
    'SELECT id, uuid, account_id AS accountId, from_address AS "from" FROM emails WHERE uuid = ?',
  ),
}))

function matchDeliveryReport({ db, keys }: Pick<App, 'db' | 'keys'>, report: Dsn, at: ReportContext): BounceMatch {
  const returnedId = findRecipientByReturnPath(db, report.originalReturnPath, keys.subkeys('verp'))
  const provenId = at.recipientId ?? returnedId
  const email = findEmailByMessageId(db, report.originalMessageId)
  const isForeign = (accountId: number): boolean => at.accountId !== undefined && at.accountId !== accountId
  if (provenId !== undefined) {
    const recipient = sql(db).recipient.get(provenId)
    if (!recipient) return unmatched('The recipient that the return path names no longer exists.')
    if (isForeign(recipient.accountId)) return unmatched('The report is about an email of another account.')
    if (email && email.id !== recipient.emailId && recipient.isWhole === 0)
      return ignored('The return path belongs to one email, but the returned message is another email.')
    if (returnedId !== undefined && returnedId !== provenId)
      return ignored('The report came to the return path of one recipient, but returns the message of another.')
    return matchRecipient(recipient, report)
  }
  if (!email) return matchByClientMessageId(db, report, at.accountId)
  if (isForeign(email.accountId)) return unmatched('The report is about an email of another account.')
  const [only, ...others] = sql(db).recipients.all(email.id)
  if (!only) return unmatched('The recipient of the email no longer exists.')
  // Every recipient knows the Message-ID and the other recipients, so any of them could forge a report that contains
  // only these.
  return others.length === 0
    ? matchRecipient(only, report)
    : unmatched('The email has several recipients, and nothing proves which one the report is about.')
}

/** By the Message-ID that a client chose, at an address of its account: a client may choose any. */
function matchByClientMessageId(db: Database, report: Dsn, accountId: number | undefined): BounceMatch {
  const { originalMessageId: messageId } = report
  const ids = accountId && messageId !== null ? findByClientMessageId(db, accountId, messageId, 2) : []
  const [emailId, ...otherIds] = ids
  if (emailId === undefined) return unmatched('The report names no email of this service.')
  if (otherIds.length > 0) return unmatched('Several emails have the Message-ID that the report names.')
  const [only, ...others] = sql(db).recipients.all(emailId)
  if (!only || others.length > 0 || !report.recipients.some((reported) => isNamed(only, reported)))
    return unmatched('Nothing proves which recipient of the email the report is about.')
  return matchRecipient(only, report)
}

/** The reported address need not match ours: forwarded mail fails at another address. */
function matchRecipient(recipient: MatchedRecipient, report: Dsn): BounceMatch {
  const named = report.recipients.filter((reported) => isNamed(recipient, reported))
  const candidates = named.length > 0 ? named : report.recipients
  const [reported] = candidates
  if (!reported) return ignored('The report names no recipient.')
  if (candidates.some(({ action }) => action !== reported.action))
    return ignored('The report states different outcomes for several addresses, none of which we sent to.')
  return { kind: 'matched', recipient, reported }
}

function isNamed({ address }: MatchedRecipient, { finalRecipient, originalRecipient }: DsnRecipient): boolean {
  const key = normaliseAddress(address)
  return [originalRecipient, finalRecipient].some((name) => name !== null && normaliseAddress(name) === key)
}

function findRecipientByReturnPath(
  db: Database,
  address: string | null,
  verpKeys: readonly Uint8Array[],
): number | undefined {
  if (address === null) return undefined
  const at = address.lastIndexOf('@')
  const name = decodeVerp(at === -1 ? address : address.slice(0, at), verpKeys)
  return name && findVerpRecipient(db, name)
}

const MESSAGE_ID = /^<([0-9a-f-]{36})@[^<>@\s]{1,255}>$/i

/** The email with this Message-ID; the domain must match too. */
export function findEmailByMessageId(db: Database, messageId: string | null): EmailRow | undefined {
  const uuid = parseUuid(MESSAGE_ID.exec(messageId ?? '')?.[1] ?? '')
  const email = uuid && sql(db).email.get(uuid)
  return email && messageIdOf(email.uuid, email.from).toLowerCase() === messageId?.toLowerCase() ? email : undefined
}

const ignored = (why: string) => ({ kind: 'ignored', why }) as const
const unmatched = (why: string) => ({ kind: 'unmatched', why }) as const

export interface ReportedBounce {
  /** As for direct replies: only a rejection of the recipient itself is `hard`. */
  readonly bounceType: 'hard' | 'soft'
  readonly bounceCategory: BounceCategory
  readonly rule: string
  /** The address accepts no mail, so it goes on the suppression list. */
  readonly isPermanentlyInvalid: boolean
}

/** Classifies the status and diagnostic of a recipient whose action is `failed`. */
export function classifyFailure({ status, diagnostic }: Pick<DsnRecipient, 'status' | 'diagnostic'>): ReportedBounce {
  const reply = toReply(status, diagnostic ?? '')
  const phase = findPhase(diagnostic ?? '')
  const { id: rule, category } = findRule(reply, phase)
  const bounceCategory = reply.code < 500 ? 'expired' : category
  if (bounceCategory === 'expired') return { bounceType: 'soft', bounceCategory, rule, isPermanentlyInvalid: false }
  return {
    bounceType: toBounceType(bounceCategory),
    bounceCategory,
    rule,
    isPermanentlyInvalid: isPermanentlyInvalid(reply, phase),
  }
}

/**
 * The SMTP command that the reporting server names: Postfix writes it after the reply, Exim before the reply. If a
 * diagnostic names no command, `findPhase` assumes the last phase, because a rejection there says least about the
 * address.
 */
const REJECTED_COMMAND = /(?:in reply to|error from remote mail server after)(?: pipelined)? (MAIL FROM|RCPT TO)/i

function findPhase(diagnostic: string): Exclude<Phase, 'session'> {
  const command = REJECTED_COMMAND.exec(diagnostic)?.[1]?.toUpperCase()
  return command === 'MAIL FROM' ? 'mail' : command === 'RCPT TO' ? 'rcpt' : 'body'
}

/** A reply code with its enhanced code, if any: at the start, or where the rejecting server is quoted. */
const REPLY_CODE = /(?<![\d.:])([45]\d\d)(?:[ -]#?(([45])\.\d{1,3}\.\d{1,3})(?!\.?\d)|(?=[ -]))/

/** The reply that the reporting server received, or that it would have sent. */
function toReply(status: string | null, diagnostic: string): SmtpReply {
  const quoted = REPLY_CODE.exec(diagnostic)
  const quotedCode = quoted?.[1] === undefined ? undefined : Number(quoted[1])
  const quotedStatus = quoted?.[2]
  const isVague = isVagueStatus(status)
  const isTemporary = isVague
    ? // 5.0.0 only means "failed"; the quoted reply shows whether temporary errors exhausted the retries.
      quotedCode === undefined
      ? // Gmail gives up at once, with the status 4.0.0, when a domain does not exist.
        status?.startsWith('4') === true && !isUnknownDomain(normaliseReply(diagnostic))
      : quotedCode < 500
    : status?.startsWith('4') === true
  const enhanced = (isVague ? quotedStatus : undefined) ?? status ?? undefined
  const code = isTemporary ? 451 : quotedCode !== undefined && quotedCode >= 500 ? quotedCode : 554
  // The text before the reply is the reporter's own.
  const text = quoted ? diagnostic.slice(quoted.index) : diagnostic
  const reply = { code, lines: [text], text }
  return enhanced === undefined ? reply : { ...reply, enhanced }
}

export type BounceResult =
  | { readonly kind: 'applied'; readonly status: 'bounced' | 'sent' }
  /** The report is about our mail and changes nothing. `why` is a sentence. */
  | { readonly kind: 'ignored'; readonly why: string }
  /** The report names no email, or one that it may not change, or not yet (`isEarly`). */
  | { readonly kind: 'unmatched'; readonly why: string; readonly isEarly?: true }

/** Where and when a report arrived. */
export interface ReportContext {
  /** Proven by the MAC of the return path that received the report. */
  readonly recipientId?: number | undefined
  /** Account whose address received the report: only its emails may change. */
  readonly accountId?: number | undefined
  readonly now: Millis
}

/** Applies a report inside the caller's transaction. Report content never makes it throw. */
export function applyBounce(app: App, tx: Tx, report: Dsn, at: ReportContext): BounceResult {
  const matched = matchDeliveryReport({ db: tx.db, keys: app.keys }, report, at)
  if (matched.kind !== 'matched') return matched
  const { recipient, reported } = matched
  if (isEarly(recipient, reported)) return { ...unmatched(EARLY_REASON), isEarly: true }
  const result = applyToRecipient(app, tx, recipient, reported, at.now)
  if (result.kind === 'applied')
    tx.afterCommit(() =>
      app.log.info(
        {
          ...findEmailLogFields(app.db, recipient.emailId),
          recipient: recipient.recipientId,
          status: result.status,
          reply: reported.diagnostic,
        },
        'delivery report applied',
      ),
    )
  return result
}

const EARLY_REASON = 'The report came while our session with the receiver had not ended.'

/** A receiver may forward the message and learn of the failure before its 250 reaches us; the 250 may never arrive. */
const isEarly = ({ sandbox, status, startedAt }: MatchedRecipient, { action }: DsnRecipient): boolean =>
  sandbox === 0 &&
  statusName(status) === 'processing' &&
  startedAt !== null &&
  action !== 'delayed' &&
  action !== 'none'

function applyToRecipient(
  app: App,
  tx: Tx,
  recipient: MatchedRecipient,
  reported: DsnRecipient,
  now: Millis,
): BounceResult {
  if (recipient.sandbox === 1) return ignored('The report is about sandbox mail, which was never sent.')
  const status = statusName(recipient.status)
  switch (reported.action) {
    case 'delayed':
      return ignored('The report announces a delay only.')
    case 'none':
      return ignored('The report states neither failure nor delivery.')
    case 'failed':
      return applyFailure(app, tx, recipient, reported, now)
        ? { kind: 'applied', status: 'bounced' }
        : ignored(`The recipient is already ${status}.`)
    case 'delivered':
    case 'relayed':
    case 'expanded':
      return confirmDelivery(tx, recipient, reported, now)
        ? { kind: 'applied', status: 'sent' }
        : ignored(`The recipient is already ${status}.`)
  }
}

function applyFailure(app: App, tx: Tx, recipient: MatchedRecipient, reported: DsnRecipient, now: Millis): boolean {
  const { recipientId, emailId } = recipient
  const { diagnostic } = reported
  const { bounceType, bounceCategory, rule, isPermanentlyInvalid } = classifyFailure(reported)
  const reason = `The receiver reported later that delivery failed: ${diagnostic ?? reported.status ?? 'no reason given'}`
  const isBounced = bounceLate(
    tx,
    { recipientId, emailId, now },
    {
      bounceType,
      bounceCategory,
      ...(!isErased(recipient) && { lastError: reason, smtpResponse: diagnostic ?? undefined }),
      data: {
        ...(!isErased(recipient) && { ...toEventData(reported), reason }),
        bounce_type: bounceType,
        bounce_category: bounceCategory,
        rule,
        ...(isPermanentlyInvalid && { suppressed: true }),
      },
    },
  )
  if (!isBounced) return false
  resolveDeadLetter(tx, recipientId)
  if (isPermanentlyInvalid) suppressRecipient(app, tx, recipient)
  return true
}

function confirmDelivery(tx: Tx, recipient: MatchedRecipient, reported: DsnRecipient, now: Millis): boolean {
  const { recipientId, emailId } = recipient
  const facts = isErased(recipient)
    ? {}
    : { smtpResponse: reported.diagnostic ?? undefined, data: toEventData(reported) }
  if (!confirmUncertain(tx, { recipientId, emailId, now }, facts)) return false
  resolveDeadLetter(tx, recipientId)
  return true
}

/** Diagnostic texts nearly always contain the address. */
const isErased = ({ address }: MatchedRecipient): boolean => address === ERASED_ADDRESS

const toEventData = ({ diagnostic, remoteMta }: DsnRecipient) => ({
  smtp_response: diagnostic,
  remote_mta: remoteMta,
  diagnostic_code: diagnostic === null ? null : `${SMTP_REPLY.test(diagnostic) ? 'smtp' : 'unknown'}; ${diagnostic}`,
})

const SMTP_REPLY = /^[245]\d\d[ -]/
