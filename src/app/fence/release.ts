/**
 * @module What operators do with what waits as `restored` since the data were restored from a backup or a copy: see it,
 * release it, drop it (/v1/operator/fence).
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { dropRestoredImports } from '#features/audience/contact-lists/importer.ts'
import { listRestoredImports } from '#features/audience/contact-lists/imports.ts'
import { SUBSCRIPTION_MAIL_KINDS } from '#features/audience/contact-lists/subscription-mails.ts'
import { countRestoredSteps, skipRestoredSteps } from '#features/audience/sequences/run.ts'
import { findAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { type AuditActor, audit, recordView, toServiceActor } from '#features/core/audit-logs/audit.ts'
import { endFence, type ReleasedScope, readFence, readInstanceId } from '#features/core/fence/restored.ts'
import { countRestoredNotices, dropRestoredNotices } from '#features/core/notices/notices.ts'
import { dropRestoredBroadcasts, listRestoredBroadcasts } from '#features/sending/broadcasts/states.ts'
import { parseSelector } from '#features/sending/delivery/control/operator-queue.ts'
import { CURSOR_FIELD } from '#features/sending/delivery/control/operator-queue-routes.ts'
import * as queueControl from '#features/sending/delivery/control/queue-control.ts'
import { followBroadcast } from '#features/sending/newsletters/states.ts'
import { dateFields, parseDateRange } from '#platform/http/date-filter.ts'
import { dataBody, isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import {
  Count,
  DataBody,
  Filter,
  Nullable,
  StrictObject,
  Text,
  TextOrNull,
  Timestamp,
  Uuid,
} from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'

export const FenceSelector = StrictObject({
  account_id: Filter('Only mail of the account with this id.'),
  domain: Filter('Only mail to this domain.'),
  from_date: dateFields('mail accepted').from_date,
})
export type FenceSelector = Static<typeof FenceSelector>

export const FenceDropRequest = StrictObject({
  ...FenceSelector.properties,
  ...CURSOR_FIELD,
})

export const Fence = Type.Object({
  kind: Text('backup or copy.'),
  instance: Text('Id of this instance, as in its data directory.'),
  taken_at: Nullable(Timestamp(), { description: 'When the backup or copy was made; null: unknown.' }),
  restored_at: Timestamp({ description: 'When the service first started with it.' }),
  recipients: Count('Recipients whose mail waits.'),
  broadcasts: Count('Broadcasts that wait; their emails that were enqueued are among the recipients.'),
  contact_mails: Count('Requests for confirmation, welcomes and due steps of sequences that wait.'),
  imports: Count('Imports of contacts that wait.'),
  group_count: Count('Accounts and domains with waiting mail.'),
  groups: Type.Array(
    Type.Object({
      account_id: Nullable(Uuid(), { description: 'Id of the account; null: it is deleted.' }),
      account: TextOrNull('Name of the account; null: it is deleted.'),
      domain: Text('Domain of the recipients.'),
      recipients: Count('Number of recipients.'),
      accepted_from: Nullable(Timestamp(), { description: 'When the first email was accepted; null: it was deleted.' }),
      accepted_to: Nullable(Timestamp(), { description: 'When the last email was accepted; null: it was deleted.' }),
    }),
    { description: 'The mail by account and domain: the 1,000 with most recipients.' },
  ),
})
export type Fence = Static<typeof Fence>

const IS_ENDED = Type.Boolean({ description: 'Whether nothing waits as restored any more.' })
export const FenceRelease = Type.Object({
  released: Count('Recipients that were released.'),
  due: Count('Recipients among them whose mail is due now; the others keep their time.'),
  is_ended: IS_ENDED,
})
export type FenceRelease = Static<typeof FenceRelease>
export const FenceDrop = Type.Object({
  dropped: Count('Recipients whose mail was cancelled.'),
  is_ended: IS_ENDED,
  next_cursor: TextOrNull('There is more: repeat the request with this `cursor`. Null: all was examined.'),
})
export type FenceDrop = Static<typeof FenceDrop>

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
 * cancelled, emails to contacts are removed, steps of sequences are skipped, imports end. Call it again with
 * `next_cursor` until that is null. A process that dies in between leaves what was not dropped waiting. Throws 422 for an
 * invalid cursor.
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

const ERRORS = { 404: ['account_not_found', 'No account has this id.'] } as const

export const operatorFenceRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/fence' })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'fence' })
        return dataBody((await readFenceView(app, query)) ?? null)
      },
      {
        query: FenceSelector,
        response: DataBody(Nullable(Fence)),
        detail: operatorRoute(
          'Get what waits since the data were restored',
          'From a backup or a copy, until it is released or dropped. Null: nothing waits.',
          ERRORS,
        ),
      },
    )
    .post('/release', async ({ actor, body }) => dataBody(await releaseFence(app, toServiceActor(actor), body)), {
      body: FenceSelector,
      response: DataBody(FenceRelease),
      detail: operatorRoute(
        'Release what waits since the data were restored',
        'It is sent, although some of it may have been sent before the restore.',
        ERRORS,
      ),
    })
    .post('/drop', async ({ actor, body }) => dataBody(await dropFence(app, toServiceActor(actor), body)), {
      body: FenceDropRequest,
      response: DataBody(FenceDrop),
      detail: operatorRoute(
        'Drop what waits since the data were restored',
        'Mail is cancelled with an event and its quota is given back; broadcasts are cancelled. Without a selection, mail to contacts and imports end, too.',
        ERRORS,
      ),
    })
