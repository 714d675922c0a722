/**
 * @module Forwards a received message to the addresses of its route, as one email of the account: the message as it
 * came, below trace fields of this host, so that signatures of its author stay valid. The email is inserted in the
 * transaction of the message's effects, so the message is forwarded once. Bounces come to its return path. No ARC seal.
 */
import { findAccountUuid, getSendingAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { type OwnerNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import type { ReceivedMail } from '#features/receiving/received/message.ts'
import { formatTraceFields, truncateHeader } from '#features/receiving/received/parts.ts'
import { isForwardTarget, type RouteRule } from '#features/receiving/route-rules/rows.ts'
import { insertSendable } from '#features/sending/accept/accept.ts'
import { findRegistrableDomain } from '#features/setup/domains/name.ts'
import type { Tx } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { createRateLimiter, requireTaken } from '#platform/http/rate-limit.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { days, KiB, seconds } from '#platform/units.ts'
import { toComparableDomain } from '#protocols/address/domain.ts'
import { domainOfMailbox, formatMailbox, parseMailbox, parseMailboxList } from '#protocols/address/parse.ts'
import { removeForgedResults } from '#protocols/authentication/results-header.ts'
import { encodeMailboxes, foldField } from '#protocols/mime/fields.ts'
import { asBuffer } from '#protocols/mime/source.ts'
import type { ForwardState } from '../api/inbound-emails.ts'

/** Names the route in each message that it forwards, so that the route recognises what comes back. */
const TRACE_FIELD = 'X-Tassis-Forwarded'
/** Routes, of this service or others, that forward a message one after the other. Each may have five targets. */
const MAX_FORWARDS = 3
/** Servers that a message may have passed (RFC 5321 §6.3); as Postfix counts. */
const MAX_HOPS = 50
const KIND = 'forward_refused'
const YIELD_BYTES = 64 * KiB
const FROM = /^from(?=[ \t]*:)/i
/** Some servers end a line at it, or leave it out: they would see another message (SMTP smuggling). */
const AMBIGUOUS = /\r[^\n]|\0/

export const RESTORED = { refusal: 'It was restored from a backup, so it may have been forwarded before.' }

/** What is to be sent for a route, or why nothing is, as a sentence. */
export type PreparedForward = Awaited<ReturnType<typeof prepareForward>>

/** Stores the message that a route forwards, unless it may not be forwarded. @param address that received it */
export async function prepareForward(app: App, route: RouteRule, address: string, received: ReceivedMail) {
  const { message, envelope } = received
  const list = parseMailboxList(message.from ?? '')
  const [author = parseMailbox(message.fromAddresses[0] ?? '')] = list.kind === 'ok' ? list.mailboxes : []
  const own = parseMailbox(address)
  if (!('address' in author && 'address' in own)) return { refusal: 'It has no valid From address.' }
  const refusal = findRefusal(route, address, received)
  if (refusal !== undefined) return { refusal }
  const isRewritten = mustRewriteFrom(received)
  const name = `${author.name ?? author.address} via ${own.domain}`
  const from = formatMailbox(isRewritten ? { name, address: own.address } : author)
  const content = await buildMessage(app, route, received, isRewritten ? from : undefined)
  if (typeof content === 'string') return { refusal: content }
  const [ref = 0] = await app.content.put([content], app.clock.now(), { mayUseReserve: true })
  const whole = envelope.mailFrom === '' ? 'null_return_path' : 'own_return_path'
  const header = { from, fromDomain: own.domain, subject: truncateHeader(message.subject) }
  return { ref, size: content.length, whole, header, address } as const
}

/** Why a message may not be forwarded, as a sentence. */
function findRefusal(
  { uuid }: RouteRule,
  address: string,
  { message, problem, authentication, spam }: ReceivedMail,
): string | undefined {
  const valuesOf = (name: string): string[] =>
    message.headers.flatMap(([field, value]) => (field.toLowerCase() === name ? [value.trim()] : []))
  const traces = valuesOf(TRACE_FIELD.toLowerCase())
  const { spf, dkim, dmarc } = authentication.details
  const organisationOf = (mailbox: string) => findRegistrableDomain(toComparableDomain(domainOfMailbox(mailbox)))
  const isOurs = (mailbox: string): boolean => organisationOf(mailbox) === organisationOf(address)
  const provers = [spf, ...dkim].filter(({ result, domain }) => result === 'pass' && isOurs(domain))
  if (problem !== undefined) return 'It could not be parsed.'
  if (traces.includes(formatUuid(uuid))) return 'The route forwarded it before: its addresses lead back here.'
  if (traces.length >= MAX_FORWARDS) return `It was forwarded ${traces.length} times before.`
  if (valuesOf('received').length >= MAX_HOPS) return `It has passed ${MAX_HOPS} servers, so it is in a loop.`
  // The target would reject what follows, and that would count against us.
  if (spam?.verdict === 'spam') return 'It is spam by the verdict of rspamd.'
  if (valuesOf('from').length > 1) return 'It has several From fields, which receivers reject.'
  if (dmarc.result === 'fail' && dmarc.policy?.toLowerCase() === 'reject')
    return 'It is probably forged: it fails DMARC, and the domain in From wants such mail rejected.'
  // Then From has several domains, or the header is very large. The target judges what DNS left open here (temperror).
  if (dmarc.result === 'permerror') return 'Nobody can tell who wrote it: its DMARC result is permerror.'
  // Our signature and return path would make it pass at the target.
  const isProven = dmarc.result === 'pass' || (dmarc.result === 'none' && provers.length > 0)
  if (!isProven && message.fromAddresses.some(isOurs))
    return 'It may be forged: its From is at the domain that received it, which neither SPF nor DKIM proves.'
  return undefined
}

/**
 * Whether the message passes DMARC here by SPF alone, so that it would fail at the target and not be accepted there. Our
 * domain never vouches for a message that fails here: its From stays, and the target decides.
 */
const mustRewriteFrom = ({ authentication: { dmarc, details } }: ReceivedMail): boolean =>
  dmarc === 'pass' &&
  ['quarantine', 'reject'].includes(details.dmarc.policy?.toLowerCase() ?? '') &&
  !details.dkim.some(({ result, aligned }) => result === 'pass' && aligned)

/**
 * Reads the message into one buffer, piece by piece; why it cannot be sent on, a sentence.
 * @param from replaces From, which becomes Reply-To, as in lists
 */
async function buildMessage(app: App, { uuid }: RouteRule, received: ReceivedMail, from: string | undefined) {
  const { envelope, authentication, message, spam } = received
  const { hostname } = app.config
  const ownFrom = from === undefined ? '' : `${foldField(`From: ${encodeMailboxes([from])}`)}\r\n`
  const trace = formatTraceFields({ ...envelope, authentication, spam: spam ?? null }, hostname)
  const prefix = Buffer.from(`${TRACE_FIELD}: ${formatUuid(uuid)}\r\n${trace}${ownFrom}`)
  const whole = Buffer.alloc(prefix.length + envelope.sizeBytes + 'Reply-To'.length)
  let [end, checkedTo, isInHeader] = [prefix.copy(whole), 0, true]
  const isAmbiguous = () => AMBIGUOUS.test(whole.toString('latin1', checkedTo, end))
  // Fields come one by one, then the empty line with what follows.
  for (const piece of removeForgedResults(app.rawMail.chunks(envelope.rawRef), hostname, spam != null)) {
    isInHeader &&= piece[0] !== 0x0d
    const isReplaced = from !== undefined && isInHeader && FROM.test(asBuffer(piece).toString('latin1', 0, 100))
    if (isReplaced && piece.at(-1) !== 0x0a) return 'Its From has a lone CR, or more than 64 KiB.'
    if (isReplaced && message.replyTo !== null) continue
    if (isReplaced) end += whole.write('Reply-To', end)
    end += asBuffer(piece).copy(whole, end, isReplaced ? 'From'.length : 0)
    if (end < checkedTo + YIELD_BYTES) continue
    if (isAmbiguous()) break
    checkedTo = end - 1
    await yieldToEventLoop()
  }
  return isAmbiguous() ? 'It has a lone CR or a NUL, which servers read differently.' : whole.subarray(0, end)
}

const NOTHING = { html: undefined, text: undefined, attachments: [], scheduledAt: undefined, tracking: undefined }
const OPTIONS = { ...NOTHING, idempotency: undefined, stream: 'transactional', transactional: true }

/** Inserts the email; its content is dropped when no target may get it. Called in the transaction of the inbound email. */
export function forwardMessage(app: App, tx: Tx, route: RouteRule, sent: PreparedForward, id: UuidBytes): ForwardState {
  const { accountId } = route
  const targets = JSON.parse(route.forwardTo ?? '[]') as string[]
  const { refusal } = sent
  if (refusal !== undefined) return { refused: Object.fromEntries(targets.map((target) => [target, refusal])) }
  const refused: Record<string, string> = {}
  const recipients = targets.flatMap((text) => {
    const target = parseMailbox(text)
    if (target.kind === 'ok' && isForwardTarget(tx.db, accountId, target))
      return [{ kind: 'to', address: target.address, domain: target.domain, mailbox: undefined } as const]
    refused[text] = 'It is neither at a verified domain of the account nor that of a user of the team.'
    return []
  })
  const { ref, size, whole, header, address } = sent
  const attachments = [{ filename: 'message.eml', content_type: 'message/rfc822', size, ref }]
  const extra = { whole, metadata: { inbound_email_id: formatUuid(id) } }
  const actor = createSystemActor({ accountId, accountUuid: findAccountUuid(tx.db, accountId) ?? id })
  let email: string | undefined
  try {
    const content = { htmlRef: null, textRef: null, attachments, sizeBytes: size }
    if (recipients.length > 0) {
      requireShare(app, tx, accountId, recipients.length)
      email = insertSendable(app, tx, actor, { ...OPTIONS, ...header, recipients, extra }, content).id
    }
  } catch (error) {
    // For example: account paused, quota exhausted, domain lapsed.
    if (!(error instanceof AppError)) throw error
    for (const { address } of recipients) refused[address] = error.message
  }
  const [reason] = Object.values(refused)
  // Other refusals are about the message: strangers could cause a notice every day.
  if (reason !== undefined) {
    const data = JSON.stringify({ address, reason })
    scheduleNotice(app, tx, { accountId, kind: KIND, topic: route.id, data, dueAt: app.clock.now() })
  }
  if (email === undefined) dropContent(app, tx, { content: [ref] })
  return { refused, ...(email !== undefined && { email }) }
}

const getLimiter = perOwner(({ clock }: App) => createRateLimiter(clock))

/** Strangers decide how much is forwarded: over a month it gets half of each quota, and a twentieth of it at once. */
function requireShare(app: App, tx: Tx, accountId: number, count: number): void {
  const { parent, ...account } = getSendingAccount(app.config, tx.db, accountId)
  for (const { id, monthlyQuota } of parent ? [account, parent] : [account]) {
    const rate = { ratePerSecond: monthlyQuota / 2 / (days(30) / seconds(1)), burst: Math.ceil(monthlyQuota / 20) }
    const taken = getLimiter(app).take(String(id), count, rate)
    requireTaken(taken, 'More is forwarded than half of the monthly quota allows; the rest is for mail of your own.')
  }
}

export const FORWARD_NOTICE: OwnerNotice = {
  kind: KIND,
  intervalMs: days(1),
  compose(_, { name }, notices) {
    const last = notices.map(({ data }) => JSON.parse(data ?? '{}') as Record<'address' | 'reason', string>)
    return {
      subject: 'Received mail was not forwarded',
      text: `Mail to the account ${name} was stored, but not forwarded. The last reason for each address:\n\n${last.map(({ address, reason }) => `${address}: ${reason}`).join('\n')}\n\nGET /v1/inbound?forward=refused and the list of received mail show which. There is at most one such mail a day.`,
    }
  },
}
