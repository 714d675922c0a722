/**
 * @module Applies a received message to each of its destinations: a bounce, a complaint, an unsubscribe, a mailbox
 * message, an inbound email, or operator mail. One transaction, so all effects happen once or not at all.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { deliverToMailbox } from '#features/receiving/agent-mailboxes/deliver.ts'
import { findMailbox, type Mailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { applyBounce, findEmailByMessageId, type ReportContext } from '#features/receiving/bounces/apply.ts'
import { applyComplaint } from '#features/receiving/complaints/apply.ts'
import { findFeedbackLoop } from '#features/receiving/complaints/match.ts'
import { type NewReport, storeDomainReport } from '#features/receiving/domain-reports/store.ts'
import { type NewOperatorMail, type OperatorMailKind, storeOperatorMail } from '#features/receiving/postmaster/store.ts'
import type { Destination, ParsedReport, ReceivedMail, StoredMessage } from '#features/receiving/received/message.ts'
import { findRoute, toRouteKey } from '#features/receiving/route-rules/rows.ts'
import { unsubscribeByMail } from '#features/sending/unsubscribe/by-mail.ts'
import type { Tx } from '#platform/db/open.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { toALabels } from '#protocols/address/domain.ts'
import { isAutoReplyOrReceipt } from '#protocols/dsn/parse.ts'
import { forwardMessage, type PreparedForward } from './forward.ts'
import { type NewInbound, storeInbound } from './store.ts'

export interface PreparedMessage {
  readonly received: ReceivedMail
  /** The message's aggregate report, with its content in the content store. */
  readonly report: NewReport | undefined
  readonly reportProblem: string | undefined
  readonly classification: { readonly label: string; readonly confidence: number } | undefined
  /** Why the message's aggregate report is rejected, a sentence. */
  readonly reportRefusal?: string | undefined
  /** By row id of the route. */
  readonly forwards?: ReadonlyMap<number, PreparedForward>
  /** Whether the message may be processed again later, when our session with the receiver has ended. */
  readonly canWait?: boolean
}

/** Rolls back: our session with the receiver had not ended when the report came, or the route forwards only now. */
export class NotReadyError extends Error {}

export interface AppliedEffects {
  /** Those that received the message and may answer it automatically in the thread of the message. */
  readonly mailboxes: readonly { readonly mailbox: Mailbox; readonly threadId: number }[]
  /** Public ids of the created mailbox messages and inbound emails. */
  readonly storedIds: readonly string[]
}

export type DomainDestination = Extract<Destination, { kind: 'domain' }>

/** Local part and domain of an envelope address, the domain in A-labels. */
export function splitAddress(address: string): { readonly localPart: string; readonly domain: string } {
  const at = address.lastIndexOf('@')
  const domain = address.slice(at + 1)
  return { localPart: address.slice(0, at), domain: toALabels(domain) ?? domain.toLowerCase() }
}

/** Who gets mail for an address of a tenant's domain: a mailbox, or a route if one matches. */
export function findReader(db: Database, { address, domainId }: DomainDestination) {
  const { localPart, domain } = splitAddress(address)
  const mailbox = findMailbox(db, domain, localPart)
  // Since RCPT the domain may have changed to another account: mail for one account must never reach another.
  if (mailbox?.domainId === domainId) return { mailbox }
  return { route: findRoute(db, domainId, localPart) }
}

/** Applies a message to all of its destinations. Throws only `NotReadyError`. */
export function applyEffects(
  app: App,
  tx: Tx,
  destinations: readonly Destination[],
  prepared: PreparedMessage,
): AppliedEffects {
  const now = app.eventTime()
  if (prepared.report) storeDomainReport(app, tx, prepared.report, now)
  for (const destination of destinations) {
    if (destination.kind === 'bounce') applyToReturnPath(app, tx, destination, prepared, now)
    else if (destination.kind === 'unsubscribe') applyUnsubscribe(app, tx, destination, prepared)
  }
  const ofHost = destinations.flatMap((to) => (to.kind === 'host' ? [to.address] : []))
  const ofTenants = destinations.filter((to) => to.kind === 'domain')
  applyToHost(app, tx, ofHost, prepared, now)
  return applyToDomains(app, tx, ofTenants, prepared, now)
}

/** Handles mail to the return path of one recipient: a DSN or a feedback report about that recipient. */
function applyToReturnPath(
  app: App,
  tx: Tx,
  { address, recipientId }: { readonly address: string; readonly recipientId: number },
  prepared: PreparedMessage,
  now: Millis,
): void {
  const { received } = prepared
  const { report, message, envelope } = received
  const result = applyReport(app, tx, received, { recipientId, now })
  if (result) {
    if (result.kind === 'unmatched' && 'isEarly' in result && prepared.canWait) throw new NotReadyError(result.why)
    const kind = report?.kind === 'feedback' ? 'complaint' : 'bounce'
    if (result.kind === 'unmatched')
      storeForOperator(app, tx, received, { kind, rcptTo: [address], reason: result.why })
  } else if (received.problem !== undefined || !isIgnorable(message, envelope.mailFrom)) {
    const reason = `The message came to a return path. ${received.problem ?? 'It is not a readable report.'}`
    storeForOperator(app, tx, received, { kind: 'bounce', rcptTo: [address], reason })
  }
}

/** Out-of-office replies and receipts, which every return path receives. Other mail without a report is kept. */
const isIgnorable = (message: StoredMessage, mailFrom: string): boolean =>
  (message.isAutomatic && mailFrom !== '') || isAutoReplyOrReceipt(message, mailFrom)

function applyUnsubscribe(
  app: App,
  tx: Tx,
  { address, recipientId }: { readonly address: string; readonly recipientId: number },
  { received }: PreparedMessage,
): void {
  const { message, envelope } = received
  // The header suffices; if even the header is unreadable, the operator gets the message.
  if (received.problem !== undefined && message.headers.length === 0) {
    storeForOperator(app, tx, received, { kind: 'unsubscribe', rcptTo: [address], reason: received.problem })
    return
  }
  const { subject, headers } = message
  unsubscribeByMail(app, tx, { recipientId, subject, headers, mailFrom: envelope.mailFrom })
}

const HOST_MAILBOX_KINDS: Readonly<Record<string, OperatorMailKind>> = {
  postmaster: 'postmaster',
  abuse: 'abuse',
  fbl: 'complaint',
  'dmarc-reports': 'report',
  'tls-reports': 'report',
}

const REPORT_KINDS: Readonly<Record<ParsedReport['kind'], OperatorMailKind>> = {
  delivery: 'bounce',
  feedback: 'complaint',
  aggregate: 'report',
}

/** Stored once per kind of role mailbox, because every domain has a postmaster. */
function applyToHost(app: App, tx: Tx, addresses: readonly string[], prepared: PreparedMessage, now: Millis): void {
  const { received, reportProblem, reportRefusal } = prepared
  const { report } = received
  if (addresses.length === 0 || (report?.kind === 'aggregate' && reportRefusal === undefined)) return
  const result = applyReport(app, tx, received, { now })
  if (result && result.kind !== 'unmatched') return
  const problem = reportProblem === undefined ? undefined : `The report cannot be read: ${reportProblem}`
  const reason =
    result?.why ?? problem ?? reportRefusal ?? received.problem ?? 'The message is addressed to the operator.'
  const findKind = (address: string): OperatorMailKind =>
    report ? REPORT_KINDS[report.kind] : (HOST_MAILBOX_KINDS[toRouteKey(splitAddress(address).localPart)] ?? 'other')
  for (const [kind, rcptTo] of Map.groupBy(addresses, findKind))
    storeForOperator(app, tx, received, { kind, rcptTo, reason })
}

function storeForOperator(
  app: App,
  tx: Tx,
  { envelope, message }: ReceivedMail,
  about: Pick<NewOperatorMail, 'kind' | 'rcptTo' | 'reason'>,
): void {
  storeOperatorMail(app, tx, { ...about, envelope, from: message.from, subject: message.subject })
}

/** Delivers to tenants: to mailboxes, and one inbound email for each route of each domain. */
function applyToDomains(
  app: App,
  tx: Tx,
  destinations: readonly DomainDestination[],
  { received, classification, forwards }: PreparedMessage,
  now: Millis,
): AppliedEffects {
  const mailboxes = new Map<number, Mailbox>()
  const inbound = new Map<string, NewInbound>()
  for (const destination of destinations) {
    const { address, accountId, domainId } = destination
    const { mailbox, route } = findReader(tx.db, destination)
    if (mailbox) {
      mailboxes.set(mailbox.id, mailbox)
      continue
    }
    const key = `${domainId} ${route?.id ?? ''}`
    const rcptTo = [...(inbound.get(key)?.rcptTo ?? []), address]
    const prepared = route && forwards?.get(route.id)
    if (route?.forwardTo && !prepared) throw new NotReadyError('the route has begun to forward')
    const forward = prepared && ((id: UuidBytes) => forwardMessage(app, tx, route, prepared, id))
    inbound.set(key, { accountId, domainId, routeId: route?.id, rcptTo, forward })
  }
  const { message } = received
  const delivered = [...mailboxes.values()].map((mailbox) => ({
    mailbox,
    ...deliverToMailbox(app, tx, mailbox, received, { classification }),
  }))
  const stored = [...inbound.values()].map((email) => storeInbound(app, tx, email, received))
  // Mailboxes store no headers blob; inbound emails store no text without quotes.
  dropContent(app, tx, {
    content: [
      inbound.size === 0 ? message.headersRef : undefined,
      delivered.length === 0 ? message.strippedRef : undefined,
    ],
  })
  // Some servers send bounces to From, and some feedback loops report to an address of the sender. Such a report may
  // affect only the emails of the tenant whose address received it.
  for (const accountId of new Set(destinations.map((destination) => destination.accountId))) {
    applyReport(app, tx, received, { accountId, now })
    if (!message.isAutomatic && !isAutoReplyOrReceipt(message, received.envelope.mailFrom))
      applyReply(app, tx, message, accountId)
  }
  const storedIds = [...delivered.map(({ uuid }) => uuid), ...stored.filter((uuid) => uuid !== undefined)]
  return { mailboxes: delivered, storedIds: storedIds.map(formatUuid) }
}

/** The newest references, of which long threads have many. */
const MAX_REFERENCES = 20

/** Says which emails of the account a message answers. */
function applyReply(app: App, tx: Tx, { inReplyTo, references }: StoredMessage, accountId: number): void {
  for (const messageId of new Set([inReplyTo, ...references.slice(-MAX_REFERENCES)])) {
    const email = findEmailByMessageId(tx.db, messageId)
    if (email?.accountId === accountId) app.replied.emit({ tx, emailId: email.id })
  }
}

/** Applies the delivery or feedback report of a message; undefined: it has none. */
export function applyReport(app: App, tx: Tx, received: ReceivedMail, at: ReportContext) {
  const { report, envelope } = received
  if (report?.kind === 'delivery') return applyBounce(app, tx, report.report, at)
  if (report?.kind !== 'feedback') return undefined
  const feedbackLoop = findFeedbackLoop(app.config, received)
  return applyComplaint(app, tx, report.report, { ...at, feedbackLoop, rawRef: envelope.rawRef })
}
