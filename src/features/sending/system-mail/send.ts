/**
 * @module Sends system mail to users: invitations, password resets, notices. Such mail is an email of the account that
 * has the sender's domain, and counts against no quota. Has no templates: the caller writes the text.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { dropContentOnFailure } from '#features/core/content-gc/garbage.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { findSuppressions, requireDiskSpace } from '#features/sending/accept/sendable.ts'
import { type DraftExtra, NOT_TRACKED } from '#features/sending/queue/email.ts'
import { insertEmail, refsOf, storeContent } from '#features/sending/queue/insert.ts'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { DEFAULT_STREAM, findStream, toPriorityName } from '#features/setup/streams/streams.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'

export interface SystemMail {
  /** Each address gets it once, regardless of case. */
  readonly to: readonly string[]
  readonly subject: string
  /** For each address, or for all. */
  readonly text: string | ((to: string) => string)
  readonly html?: string
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
  // Few emails match and no index finds them, so a window of row ids is read at a time.
  about: db.prepare<{ id: number; senderId: number; about: string | null }, [number, number]>(
    `SELECT id, account_id AS senderId, extra ->> '$.about' AS about FROM emails
     WHERE id > ? AND id <= ? AND extra LIKE '%"of_service":true%' ORDER BY id`,
  ),
  // Skips ids that no row has: after a restored backup there are many.
  after: db.prepare<{ id: number }, [number]>('SELECT id FROM emails WHERE id > ? ORDER BY id LIMIT 1'),
  left: db.prepare<{ n: number }, [string]>(
    'SELECT count(*) AS n FROM accounts WHERE id IN (SELECT value FROM json_each(?)) AND deleted_at IS NULL',
  ),
}))

/** RFC 3834 §5 and the equivalent for Exchange: suppress automatic replies. */
export const AUTOMATIC_HEADERS = { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' }

/**
 * Accepts the mail, in one transaction, so that no kill leaves mail that was sent but not marked. Resolves with whether
 * any address gets it, once that is on disk. Logs and skips an address that cannot get mail. Logs and writes nothing if
 * there is no sender: neither an account with the domain of `systemFrom`, nor a domain that is or was verified. Throws
 * storage errors, such as a 507 when the disk is full.
 * @param mark records in the transaction that the mail was sent
 */
export async function sendSystemMail(
  app: App,
  mail: SystemMail,
  mark: (tx: Tx) => void = () => undefined,
): Promise<boolean> {
  const sender = findSender(app, app.db)
  if (!sender) {
    // Never logs the text: it may contain a sign-in link.
    app.log.warn(
      { to: mail.to, subject: mail.subject },
      'system mail not sent: verify a domain, or set TASSIS_SYSTEM_FROM to an address at a verified domain',
    )
    return false
  }
  await requireDiskSpace(app)
  const content: (number | null)[] = []
  return dropContentOnFailure(app, { content }, async () => {
    const writes: ((tx: Tx) => void)[] = []
    for (const to of new Map(mail.to.map((address) => [address.toLowerCase(), address])).values()) {
      try {
        const { refs, write } = await prepareMail(app, sender, mail, to)
        content.push(...refs)
        writes.push(write)
      } catch (error) {
        if (!(error instanceof AppError) || error.status !== 422) throw error
        app.log.warn({ to, subject: mail.subject, err: error }, 'system mail cannot be sent to this address')
      }
    }
    if (writes.length === 0) return false
    await app.commit.write((tx) => {
      for (const write of writes) write(tx)
      mark(tx)
    })
    return true
  })
}

/** Stores the content of the mail to one address, and returns the function that inserts the email. Throws 422. */
async function prepareMail(app: App, sender: Sender, mail: SystemMail, to: string) {
  const { subject, text, html } = mail
  const written = createDraft(app, {
    from: sender.from,
    to,
    subject,
    text_body: typeof text === 'string' ? text : text(to),
    ...(html !== undefined && { html_body: html }),
    tracking: NOT_TRACKED,
  })
  const marks: DraftExtra = { headers: AUTOMATIC_HEADERS, of_service: true, about: mail.about }
  const draft = { ...written, extra: { ...written.extra, ...marks } }
  const content = await storeContent(app, draft, { owner: sender.accountId })
  const write = (tx: Tx): void => {
    const actor = createSystemActor(sender)
    const domain = findSendingDomain(tx.db, sender.accountId, draft.fromDomain)
    const stream = findStream(tx.db, sender.accountId, DEFAULT_STREAM)
    // The domain may have lapsed since the sender was chosen: the mail is still sent, and never goes to the sandbox.
    if (!domain || !stream) throw new Error('the sender of system mail no longer exists')
    insertEmail(app, tx, actor, draft, content, {
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
  return { refs: refsOf(content), write }
}

/**
 * The oldest account that has the domain of the setting; an account that verified the domain comes first. Without the
 * setting, or if its domain has lapsed: the oldest account with a verified domain. If every domain has lapsed, a lapsed
 * domain is still used, preferably that of the setting, because owners must learn that their domains lapsed.
 */
function findSender({ config: { systemFrom }, log }: App, db: Database): Sender | undefined {
  const first = sql(db).first.get() ?? undefined
  const fallback = first && { ...first, from: `no-reply@${first.domain}` }
  if (systemFrom === '') return fallback
  const configured = findConfiguredSender(systemFrom, db)
  if (!configured?.isLapsed || fallback?.isLapsed !== 0) return configured
  log.warn(
    { from: systemFrom },
    'the domain of TASSIS_SYSTEM_FROM has lost DNS records: system mail is sent from another verified domain',
  )
  return fallback
}

function findConfiguredSender(from: string, db: Database): (Sender & { readonly isLapsed: boolean }) | undefined {
  const domain = domainOfMailbox(from)
  let found: (Sender & { readonly isLapsed: boolean }) | undefined
  for (const holder of sql(db).holders.all()) {
    const sending = findSendingDomain(db, holder.accountId, domain)
    if (sending?.isVerified) return { ...holder, from, isLapsed: false }
    if (sending) found ??= { ...holder, from, isLapsed: sending.lapsed !== undefined }
  }
  return found
}

/** Row ids per window; this takes some 10 ms. */
const ROW_ID_WINDOW = 10_000

/**
 * Finds system mail, after a row id, that is about this account and about no other account that still exists.
 * @returns the mail found, and where to continue; `next` is undefined at the end
 */
export function findMailAbout(
  db: Database,
  accountId: number,
  after: number,
): {
  /** `accountId`: the account that sent the mail. */
  readonly found: readonly { readonly emailId: number; readonly accountId: number }[]
  readonly next: number | undefined
} {
  const upTo = after + ROW_ID_WINDOW
  const found = sql(db)
    .about.all(after, upTo)
    .filter(({ about }) => {
      const accounts = JSON.parse(about ?? '[]') as readonly number[]
      return accounts.includes(accountId) && sql(db).left.get(about ?? '[]')?.n === 0
    })
    .map(({ id, senderId }) => ({ emailId: id, accountId: senderId }))
  const following = sql(db).after.get(upTo)
  return { found, next: following ? following.id - 1 : undefined }
}
