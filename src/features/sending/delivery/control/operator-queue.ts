/** @module What operators do with mail in the queue: reads the input, writes the audit entry, counts what was done. */
import type { Database } from 'bun:sqlite'
import { findAccount, requireAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { type AuditActor, audit } from '#features/core/audit-logs/audit.ts'
import { findEmailLogFields } from '#features/sending/queue/email.ts'
import { SANDBOX_LANE, SIMULATOR_LANE, simulatorDomain } from '#features/sending/queue/lanes.ts'
import {
  addRule,
  listRules,
  type MailSelector,
  type QueueRule,
  type QueueRuleKind,
} from '#features/sending/queue/queue-rules.ts'
import { isOpen, statusName } from '#features/sending/queue/status.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { conflict, invalid, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { parseDomain } from '#protocols/address/domain.ts'
import { formatTarget, parseTarget } from '../providers/lane-provider.ts'
import { registryOf } from '../providers/registry.ts'
import { releaseWithoutContent } from '../verdict/held-mail.ts'
import {
  bounceSelected,
  countSelected,
  dropSelected,
  parsePlace,
  releaseSelected,
  retrySelected,
  wakeSelected,
} from './queue-control.ts'

const sql = prepareStatements((db) => ({
  email: db.prepare<{ id: number; accountId: number }, [Uint8Array]>(
    'SELECT id, account_id AS accountId FROM emails WHERE uuid = ?',
  ),
  status: db.prepare<{ status: number }, [number]>('SELECT status FROM emails WHERE id = ?'),
}))

export const MAX_QUEUE_REASON_LENGTH = 300

/** What an operator names: mail that matches every field. */
export type SelectorInput = {
  readonly [Field in 'domain' | 'provider' | 'account_id' | 'email_id']?: string | undefined
}

/** Throws 422 for an invalid domain, an unknown provider or an empty selector; 404 for an unknown account or email. */
export function parseSelector(
  app: App,
  { domain, provider, account_id: accountId, email_id: emailId }: SelectorInput,
): MailSelector {
  const isByLane = domain !== undefined || provider !== undefined || accountId !== undefined
  if (!isByLane && emailId === undefined)
    throw invalid('domain', 'Name the mail: a domain, a provider, an account or an email.')
  if (isByLane && emailId !== undefined)
    throw invalid('email_id', 'An email is named alone, without a domain, a provider or an account.')
  if (emailId !== undefined) {
    const email = sql(app.db).email.get(parseUuid(emailId) ?? new Uint8Array())
    if (!email) throw notFound('email_not_found', 'No email has this id.')
    return { emailId: email.id, accountId: email.accountId }
  }
  return {
    ...(domain !== undefined && { domain: parseSelectedDomain(app, domain) }),
    ...(provider !== undefined && { provider: parseSelectedProvider(app, provider) }),
    ...(accountId !== undefined && { accountId: requireAccount(app, accountId).id }),
  }
}

/** Captured mail and mail to the simulator are named as `tassis queue` shows them; the simulator also by its domain. */
function parseSelectedDomain({ config }: App, text: string): string {
  const wanted = text.trim()
  if (wanted === SANDBOX_LANE || wanted === SIMULATOR_LANE) return wanted
  const parsed = parseDomain(wanted)
  if (parsed.kind === 'invalid') throw invalid('domain', `"${wanted}" is not a domain name; write it as example.com.`)
  return parsed.domain === simulatorDomain(config) ? SIMULATOR_LANE : parsed.domain
}

/** A listed provider, or the MX hosts of a site without an entry, which have dots. */
function parseSelectedProvider({ config }: App, text: string): string {
  const name = text.trim().toLowerCase()
  if (name.includes('.')) return name
  const { isNamed } = registryOf(config).byName(name)
  if (!isNamed) throw invalid('provider', `"${name}" is not a provider; \`tassis providers --all\` lists their names.`)
  return name
}

/** Throws 422 for a text that is too long, or empty although a reason is required. */
export function parseReason(text: string | undefined, isRequired: boolean): string {
  const reason = (text ?? '')
    .trim()
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .toWellFormed()
  if (reason.length > MAX_QUEUE_REASON_LENGTH || (isRequired && reason === ''))
    throw invalid('reason', `The reason must have 1 to ${MAX_QUEUE_REASON_LENGTH} characters.`)
  return reason
}

/** The selector in wire form; for the audit log and for views. */
function toSelectorView(app: App, { domain, provider, accountId, emailId }: MailSelector) {
  const account = accountId == null ? undefined : findAccount(app.config, app.db, accountId)
  return {
    domain: domain ?? null,
    provider: provider ?? null,
    account_id: account ? formatUuid(account.uuid) : null,
    account: account?.name ?? null,
    email_id: emailId == null ? null : findEmailLogFields(app.db, emailId).email_id,
  }
}

const toRuleView = (app: App, rule: QueueRule) => ({
  id: String(rule.id),
  kind: rule.kind,
  ...toSelectorView(app, rule),
  to: rule.target,
  reason: rule.reason,
  created_by: rule.createdBy,
  created_at: isoTime(rule.createdAt),
})

/** The operator's holds and redirects, oldest first. */
export const readRules = (app: App) => listRules(app.db).map((rule) => toRuleView(app, rule))

/** Writes the entry of an action, which names what it selected. */
function auditAction(
  app: App,
  tx: Tx,
  actor: AuditActor,
  action: string,
  selector: MailSelector,
  details: Readonly<Record<string, unknown>> = {},
): void {
  const { account: _, ...named } = toSelectorView(app, selector)
  const metadata = Object.fromEntries(Object.entries({ ...named, ...details }).filter(([, value]) => value != null))
  audit(app, tx, actor, { action, resourceType: 'queue', metadata })
}

function requireOpen(db: Database, emailId: number): void {
  const status = statusName(sql(db).status.get(emailId)?.status ?? -1)
  if (!isOpen(status)) throw conflict('email_ended', `The email is ${status}: nothing of it waits any more.`)
}

/** Holds what matches now and later; resolves with what matches now. Throws 409 for an email that has ended. */
export async function holdMail(app: App, actor: AuditActor, selector: MailSelector, reason: string) {
  await app.commit.writeFromReserve((tx) => {
    if (selector.emailId != null) requireOpen(tx.db, selector.emailId)
    addRule(tx, { kind: 'hold', selector, reason, createdBy: actor.id, createdAt: app.eventTime() })
    auditAction(app, tx, actor, 'queue.held', selector, { reason })
  })
  return countSelected(app, selector)
}

/** As `holdMail`. Throws 422 for an invalid target, and for one email, which travels with its lane. */
export async function redirectMail(app: App, actor: AuditActor, selector: MailSelector, to: string, reason: string) {
  if (selector.emailId != null)
    throw invalid('email_id', 'One email cannot be redirected; name a domain, a provider or an account.')
  const target = parseTarget(to)
  if (!target)
    throw invalid(
      'to',
      `"${to}" is not a destination; write example.com (its MX hosts), [mx.example.com] or an IP address (this host), each with :2525 for another port.`,
    )
  const written = formatTarget(target)
  await app.commit.writeFromReserve((tx) => {
    const rule = { selector, target: written, reason, createdBy: actor.id, createdAt: app.eventTime() }
    addRule(tx, { kind: 'redirect', ...rule })
    auditAction(app, tx, actor, 'queue.redirected', selector, { to: written, reason })
  })
  await wakeSelected(app, selector)
  return countSelected(app, selector)
}

/** Ends the rules that match, of one kind or of both; resolves with them. */
export async function releaseMail(app: App, actor: AuditActor, selector: MailSelector, kind?: QueueRuleKind) {
  const ended = await releaseSelected(app, selector, kind, (tx, rules) =>
    auditAction(app, tx, actor, 'queue.released', selector, { kind, rules: rules.length }),
  )
  return ended.map((rule) => toRuleView(app, rule))
}

/** Releases mail that waits for its content; see `releaseWithoutContent`. */
export async function releaseContent(app: App, actor: AuditActor) {
  await app.commit.writeFromReserve((tx) =>
    audit(app, tx, actor, { action: 'queue.content_released', resourceType: 'queue' }),
  )
  return { released: await releaseWithoutContent(app) }
}

export type QueueAction = 'retry' | 'bounce' | 'drop'

const AUDITED: Readonly<Record<QueueAction, string>> = {
  retry: 'queue.retried',
  bounce: 'queue.bounced',
  drop: 'queue.dropped',
}

/**
 * Retries, bounces or drops a limited number of selected recipients. Throws 422 for an invalid `after`.
 * @param options.reason of a bounce; its sender reads it
 * @param options.after `next_cursor` of the call before
 */
export async function changeMail(
  app: App,
  actor: AuditActor,
  action: QueueAction,
  selector: MailSelector,
  { reason, after }: { readonly reason: string; readonly after: string | undefined },
) {
  const place = parsePlace(after)
  // Before the first change, so that a crash leaves no change without its entry.
  await app.commit.writeFromReserve((tx) =>
    auditAction(app, tx, actor, AUDITED[action], selector, { ...(action === 'bounce' && { reason }) }),
  )
  if (action === 'retry') return retrySelected(app, selector, place)
  if (action === 'bounce') return bounceSelected(app, selector, reason, place)
  return dropSelected(app, selector, place)
}
