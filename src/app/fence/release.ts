/**
 * @module What operators do with what waits as `restored` since the data were restored from a backup or a copy: see it,
 * release it, drop it.
 */
import { dropRestoredImports } from '#features/audience/contact-lists/importer.ts'
import { listRestoredImports } from '#features/audience/contact-lists/imports.ts'
import { SUBSCRIPTION_MAIL_KINDS } from '#features/audience/contact-lists/subscription-mails.ts'
import { countRestoredSteps, skipRestoredSteps } from '#features/audience/sequences/run.ts'
import { findAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { type AuditActor, audit } from '#features/core/audit-logs/audit.ts'
import { endFence, type ReleasedScope, readFence, readInstanceId } from '#features/core/fence/restored.ts'
import { countRestoredNotices, dropRestoredNotices } from '#features/core/notices/notices.ts'
import { dropRestoredBroadcasts, listRestoredBroadcasts } from '#features/sending/broadcasts/states.ts'
import { parseSelector } from '#features/sending/delivery/control/operator-queue.ts'
import * as queueControl from '#features/sending/delivery/control/queue-control.ts'
import { followBroadcast } from '#features/sending/newsletters/states.ts'
import { parseDateRange } from '#platform/http/date-filter.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Fence, FenceDrop, FenceRelease, FenceSelector } from './model.ts'

const EVERYTHING: ReleasedScope = { accountId: null, domain: null, fromEmailId: 0 }

/**
 * What a selector selects; undefined if no email is that new. Throws 422 for an invalid domain or date, 404 for an unknown
 * account.
 */
function parseScope(app: App, selector: FenceSelector): ReleasedScope | undefined {
  const { domain, account_id } = selector
  const named = domain === undefined && account_id === undefined ? {} : parseSelector(app, { domain, account_id })
  const since = parseDateRange(selector).from
  const fromEmailId = since === undefined ? 0 : queueControl.findFirstSince(app, since)
  if (fromEmailId === undefined) return undefined
  return { accountId: named.accountId ?? null, domain: named.domain ?? null, fromEmailId }
}

const MAX_GROUPS = 1000

/** What waits since the data were restored; undefined if nothing does. */
export async function readFenceView(app: App, selector: FenceSelector = {}): Promise<Fence | undefined> {
  const scope = parseScope(app, selector)
  const fence = readFence(app.db)
  if (!fence) return undefined
  const groups = scope ? await queueControl.countRestored(app, scope) : []
  // What has no domain and no email is released and dropped as a whole.
  const isAll = scope !== undefined && queueControl.isEverything(scope)
  const hasBroadcasts = scope !== undefined && scope.domain === null && scope.fromEmailId === 0
  return {
    kind: fence.kind,
    // A test email of a domain names the instance that sent it.
    instance: readInstanceId(app.db),
    taken_at: isoTimeOrNull(fence.takenAt),
    restored_at: isoTime(fence.fencedAt),
    recipients: groups.reduce((sum, { recipients }) => sum + recipients, 0),
    group_count: groups.length,
    groups: groups.slice(0, MAX_GROUPS).map(({ accountId, domain, recipients, firstEmailId, lastEmailId }) => {
      const account = findAccount(app.config, app.db, accountId)
      return {
        account_id: account ? formatUuid(account.uuid) : null,
        account: account?.name ?? null,
        domain,
        recipients,
        accepted_from: isoTimeOrNull(queueControl.findAcceptedAt(app, firstEmailId) ?? null),
        accepted_to: isoTimeOrNull(queueControl.findAcceptedAt(app, lastEmailId) ?? null),
      }
    }),
    broadcasts: hasBroadcasts ? listRestoredBroadcasts(app.db, scope.accountId).length : 0,
    contact_mails: isAll ? countContactMails(app) : 0,
    imports: isAll ? listRestoredImports(app.db).length : 0,
  }
}

const writeAudit =
  (app: App, actor: AuditActor, action: string, { account_id, domain, from_date }: FenceSelector) =>
  (tx: Parameters<typeof audit>[1]) =>
    audit(app, tx, actor, { action, resourceType: 'queue', metadata: { account_id, domain, from_date } })

/** Releases what is selected; `due` of the released recipients had been held, and are sent now. */
export async function releaseFence(app: App, actor: AuditActor, selector: FenceSelector): Promise<FenceRelease> {
  const scope = parseScope(app, selector)
  if (!scope || !readFence(app.db)) return { released: 0, due: 0, is_ended: readFence(app.db) === undefined }
  const released = (await queueControl.countRestored(app, scope)).reduce((sum, { recipients }) => sum + recipients, 0)
  const due = await queueControl.releaseRestored(app, scope, writeAudit(app, actor, 'restored.released', selector))
  return { released, due, is_ended: await endFenceIfEmpty(app) }
}

/**
 * Drops a limited number of what is selected: mail is cancelled with an event and gives its quota back, broadcasts are
 * cancelled, emails to contacts are removed, steps of sequences are skipped, imports end. Call it again with `next_cursor` until that is null. A process
 * that dies in between leaves what was not dropped waiting. Throws 422 for an invalid cursor.
 */
export async function dropFence(
  app: App,
  actor: AuditActor,
  { cursor, ...selector }: FenceSelector & { readonly cursor?: string | undefined },
): Promise<FenceDrop> {
  const after = queueControl.parsePlace(cursor)
  const scope = parseScope(app, selector)
  if (!scope || !readFence(app.db)) return { dropped: 0, next_cursor: null, is_ended: readFence(app.db) === undefined }
  // Before the first change, so that a crash leaves no change without its entry.
  if (!after) await app.commit.writeFromReserve(writeAudit(app, actor, 'restored.dropped', selector))
  if (!after && scope.domain === null && scope.fromEmailId === 0)
    await dropRestoredBroadcasts(app, scope.accountId, followBroadcast)
  const { changed, next_cursor } = await queueControl.dropRestored(app, scope, after)
  if (next_cursor === null && queueControl.isEverything(scope)) {
    await app.commit.writeFromReserve((tx) => dropRestoredNotices(tx, SUBSCRIPTION_MAIL_KINDS))
    await skipRestoredSteps(app)
    await dropRestoredImports(app)
  }
  return { dropped: changed, next_cursor, is_ended: next_cursor === null && (await endFenceIfEmpty(app)) }
}

/** What an operator must know about the fence, and what to do; undefined if nothing waits behind one. For checks. */
export function findFenceProblem({
  db,
}: Pick<App, 'db'>): { readonly message: string; readonly fix: string } | undefined {
  const fence = readFence(db)
  if (!fence) return undefined
  const taken = fence.takenAt === null ? '' : ` of ${isoTime(fence.takenAt)}`
  return {
    message: `The data were restored from a ${fence.kind}${taken}; mail that was open then has waited as restored since ${isoTime(fence.fencedAt)}.`,
    fix: 'See `tassis fence`, then `tassis fence release` or `tassis fence drop`.',
  }
}

const countContactMails = ({ db }: App): number =>
  countRestoredNotices(db, SUBSCRIPTION_MAIL_KINDS) + countRestoredSteps(db)

/** Ends the fence once nothing waits behind it; true if there is none any more. */
async function endFenceIfEmpty(app: App): Promise<boolean> {
  const fence = readFence(app.db)
  if (!fence) return true
  if ((await queueControl.countRestored(app, EVERYTHING)).length > 0) return false
  if (
    listRestoredBroadcasts(app.db, null).length > 0 ||
    countContactMails(app) > 0 ||
    listRestoredImports(app.db).length > 0
  )
    return false
  await app.commit.writeFromReserve((tx) => endFence(tx.db))
  return true
}
