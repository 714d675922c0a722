/**
 * @module Sends system mail to users: invitations, password resets, notices. Such mail is an email of the account that
 * has the sender's domain, and counts against no quota. Has no templates: the caller writes the text.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { dropContent, dropContentOnFailure } from '#features/core/content-gc/garbage.ts'
import { findReplay } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { findSuppressions, requireDiskSpace } from '#features/sending/accept/sendable.ts'
import { insertEmail, refsOf, storeContent } from '#features/sending/queue/insert.ts'
import type { DraftAttachment, DraftExtra } from '#features/sending/queue/new-email.ts'
import { NOT_TRACKED } from '#features/sending/queue/tracking.ts'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { toPriorityName } from '#features/setup/streams/priority.ts'
import { DEFAULT_STREAM, findStream } from '#features/setup/streams/streams.ts'
import { type Config, ConfigError } from '#platform/config.ts'
import { sha256 } from '#platform/crypto.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { domainOfMailbox, parseMailbox } from '#protocols/address/parse.ts'

export interface SystemMail {
  /** One address. */
  readonly to: string
  readonly subject: string
  readonly text: string
  readonly html?: string
  /** Idempotency key: mail with the same key is sent once. */
  readonly idempotencyKey?: string
  readonly attachments?: readonly DraftAttachment[]
  /** Header fields beside those of every automatic mail. */
  readonly headers?: Readonly<Record<string, string>>
  /** Type of a report (RFC 6522), which the mail then is. */
  readonly reportType?: 'tlsrpt'
  /** Row ids of the accounts that the mail is about. Its content is deleted with the last of them. */
  readonly about: readonly number[]
}

interface Sender {
  readonly accountId: number
  readonly accountUuid: UuidBytes
  /** Header form. */
  readonly from: string
}

const sql = prepareStatements((db) => ({
  holders: db.prepare<{ accountId: number; accountUuid: UuidBytes }, []>(
    'SELECT id AS accountId, uuid AS accountUuid FROM accounts WHERE deleted_at IS NULL AND disabled_at IS NULL ORDER BY id',
  ),
  // Uses a domain that lacks DNS records or has lapsed only if there is no other, because the mail may be about that
  // very problem.
  first: db.prepare<{ accountId: number; accountUuid: UuidBytes; domain: string; isLapsed: number }, []>(
    `SELECT accounts.id AS accountId, accounts.uuid AS accountUuid, domain, verified_at IS NULL AS isLapsed
     FROM domains JOIN accounts ON accounts.id = account_id
     WHERE (verified_at IS NOT NULL OR records_lost_at IS NOT NULL)
       AND domains.deleted_at IS NULL AND accounts.deleted_at IS NULL AND disabled_at IS NULL
     ORDER BY verified_at IS NULL, records_lost_at IS NOT NULL, accounts.id, domains.id LIMIT 1`,
  ),
}))

/** RFC 3834 §5 and the equivalent for Exchange: suppress automatic replies. */
const AUTOMATIC_HEADERS = { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' }

/**
 * Accepts the email. Resolves with true when it is on disk, or if it was stored before under its key. Logs and resolves
 * with false if there is no sender: neither an account with the domain of `systemFrom`, nor a domain that is or was
 * verified. Throws storage errors, such as a 507 when the disk is full.
 */
export async function sendSystemMail(app: App, mail: SystemMail): Promise<boolean> {
  const prepared = await prepareMail(app, mail)
  if (prepared) await dropContentOnFailure(app, prepared.refs, () => app.commit.write(prepared.write))
  return prepared !== undefined
}

/** Mail whose content is stored. */
interface PreparedMail {
  readonly refs: { readonly content: readonly (number | null)[] }
  /** Inserts the email, in the caller's transaction. */
  readonly write: (tx: Tx) => void
}

/** Undefined if there is no sender. */
async function prepareMail(app: App, mail: SystemMail): Promise<PreparedMail | undefined> {
  const sender = findSender(app, app.db)
  if (!sender) {
    // Never logs the text: it may contain a sign-in link.
    app.log.warn(
      { to: mail.to, subject: mail.subject },
      'system mail not sent: verify a domain, or set TASSIS_SYSTEM_FROM to an address at a verified domain',
    )
    return undefined
  }
  await requireDiskSpace(app)
  const actor = createSystemActor(sender)
  const written = createDraft(
    app,
    {
      from: sender.from,
      to: mail.to,
      subject: mail.subject,
      text_body: mail.text,
      ...(mail.html !== undefined && { html_body: mail.html }),
      tracking: NOT_TRACKED,
    },
    // The key is hashed with a prefix, so that it cannot equal one of the account's own keys.
    mail.idempotencyKey === undefined ? undefined : `system-${sha256(mail.idempotencyKey).toHex()}`,
  )
  const draft = { ...written, attachments: mail.attachments ?? [] }
  if (findReplay(app, actor, draft.idempotency)) {
    await app.commit.barrier()
    return { refs: { content: [] }, write: () => undefined }
  }
  const content = await storeContent(app, draft, { owner: sender.accountId })
  const refs = { content: refsOf(content) }
  const write = (tx: Tx): void => {
    if (findReplay(app, actor, draft.idempotency)) {
      dropContent(app, tx, refs)
      return
    }
    const domain = findSendingDomain(tx.db, sender.accountId, draft.fromDomain)
    const stream = findStream(tx.db, sender.accountId, DEFAULT_STREAM)
    // The domain may have lapsed since the sender was chosen: the mail is still sent, and never goes to the sandbox.
    if (!domain || !stream) throw new Error('the sender of system mail no longer exists')
    insertEmail(app, tx, actor, { ...draft, extra: { ...draft.extra, ...describeSystemMail(mail) } }, content, {
      domainId: domain.id,
      streamId: stream.id,
      priority: toPriorityName(stream.priority),
      hasPool: stream.pool !== null,
      sandbox: !domain.isVerified && !domain.lapsed,
      tracked: NOT_TRACKED,
      suppressions: findSuppressions(tx.db, actor, draft, stream.id),
      quotaMonth: null,
      operationId: null,
    })
  }
  return { refs, write }
}

const describeSystemMail = ({ headers, reportType, about }: SystemMail): DraftExtra => ({
  headers: { ...AUTOMATIC_HEADERS, ...headers },
  of_service: true,
  about,
  ...(reportType && { report_type: reportType }),
})

/**
 * Sends the same mail to several addresses, once to each regardless of case. Logs an address that cannot get mail,
 * and continues with the others. Resolves with whether any mail was accepted. Throws storage errors.
 * @param createKey the idempotency key of the mail to an address, in lower case
 */
export const sendSystemMailToEach = (
  app: App,
  addresses: readonly string[],
  mail: MailToEach,
  createKey: (to: string) => string,
): Promise<boolean> =>
  forEachAddress(app, addresses, mail, (to) => sendSystemMail(app, { ...mail, to, idempotencyKey: createKey(to) }))

type MailToEach = Omit<SystemMail, 'to' | 'idempotencyKey'>

/**
 * The same, in one transaction, so that no kill leaves mail that was sent but not marked. Nothing is written when no mail
 * is accepted.
 * @param mark records in the transaction that the mail was sent
 */
export async function sendSystemMailAndMark(
  app: App,
  addresses: readonly string[],
  mail: MailToEach,
  mark: (tx: Tx) => void,
): Promise<boolean> {
  const content: (number | null)[] = []
  const writes: PreparedMail['write'][] = []
  return dropContentOnFailure(app, { content }, async () => {
    const isAnyAccepted = await forEachAddress(app, addresses, mail, async (to) => {
      const prepared = await prepareMail(app, { ...mail, to })
      if (!prepared) return false
      content.push(...prepared.refs.content)
      writes.push(prepared.write)
      return true
    })
    if (!isAnyAccepted) return false
    await app.commit.write((tx) => {
      for (const write of writes) write(tx)
      mark(tx)
    })
    return true
  })
}

/** Resolves with whether `send` did for any address. */
async function forEachAddress(
  app: App,
  addresses: readonly string[],
  mail: MailToEach,
  send: (to: string) => Promise<boolean>,
): Promise<boolean> {
  let isAnyAccepted = false
  for (const to of new Set(addresses.map((address) => address.toLowerCase()))) {
    try {
      if (await send(to)) isAnyAccepted = true
    } catch (error) {
      if (!(error instanceof AppError) || error.status !== 422) throw error
      app.log.warn({ to, subject: mail.subject, err: error }, 'system mail cannot be sent to this address')
    }
  }
  return isAnyAccepted
}

/** Throws ConfigError if the setting is not a mailbox. */
export function requireSystemSender({ systemFrom }: Pick<Config, 'systemFrom'>): void {
  if (systemFrom === '') return
  const mailbox = parseMailbox(systemFrom)
  if (mailbox.kind === 'invalid')
    throw new ConfigError(
      `TASSIS_SYSTEM_FROM must be a mailbox such as Tassis <no-reply@example.com>, but is "${systemFrom}" (${mailbox.reason}).`,
    )
}

/**
 * The oldest account that has the domain of the setting; an account that verified the domain comes first. Without the
 * setting, or if its domain has lapsed: the oldest account with a verified domain. If every domain has lapsed, a lapsed
 * domain is still used, preferably that of the setting, because owners must learn that their domains lapsed.
 */
function findSender({ config, log }: Pick<App, 'config' | 'log'>, db: Database): Sender | undefined {
  const configured = config.systemFrom === '' ? undefined : findConfiguredSender(config.systemFrom, db)
  if (configured && !configured.isLapsed) return configured.sender
  if (config.systemFrom !== '' && !configured) return undefined
  const first = sql(db).first.get()
  if (configured && first?.isLapsed !== 0) return configured.sender
  if (configured)
    log.warn(
      { from: config.systemFrom },
      'the domain of TASSIS_SYSTEM_FROM has lost DNS records: system mail is sent from another verified domain',
    )
  return first ? { ...first, from: `no-reply@${first.domain}` } : undefined
}

function findConfiguredSender(
  from: string,
  db: Database,
): { readonly sender: Sender; readonly isLapsed: boolean } | undefined {
  const domain = domainOfMailbox(from)
  let found: { readonly sender: Sender; readonly isLapsed: boolean } | undefined
  for (const holder of sql(db).holders.all()) {
    const sending = findSendingDomain(db, holder.accountId, domain)
    const sender = { ...holder, from }
    if (sending?.isVerified) return { sender, isLapsed: false }
    if (sending) found ??= { sender, isLapsed: sending.lapsed !== undefined }
  }
  return found
}
