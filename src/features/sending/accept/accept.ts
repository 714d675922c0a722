/**
 * @module Accepts one email, from a request of the API or from another feature: replies of agent mailboxes, mails to
 * contacts, `tassis send`. Stores the content durably; then inserts email, recipients, event, counters and quota in one
 * transaction. Resolves once that is on disk. Batches (`batch.ts`), broadcasts and mail of the service insert on their
 * own.
 */

import { quotaLeft, takeQuota } from '#features/core/accounts/accounts.ts'
import { requireSandbox, takeSandbox } from '#features/core/accounts/limits.ts'
import { tenantOf } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { dropContent, referTo } from '#features/core/content-gc/garbage.ts'
import type { Idempotency } from '#features/sending/queue/idempotency-key.ts'
import { refsOf, storeContent } from '#features/sending/queue/insert.ts'
import { startRendering } from '#features/setup/templates/render.ts'
import { equalBytes } from '#platform/crypto.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared, readTogether } from '#platform/db/open.ts'
import { type Draft, draftOf } from './draft.ts'
import { idempotencyConflict, idempotencyOf } from './idempotency.ts'
import type { SendRequest, SendResponse } from './model.ts'
import { insertDraft, responseOf } from './send-response.ts'
import { requireDiskSpace, requireQuota, requireSendable, suppressionsOf, unsuppressed } from './sendable.ts'
import { renderedDraft } from './templated.ts'

const sql = prepared((db) => ({
  findKey: db.prepare<{ emailId: number; bodyHash: Uint8Array }, [number, Uint8Array]>(
    'SELECT email_id AS emailId, body_hash AS bodyHash FROM idempotency_keys WHERE account_id = ? AND key_hash = ?',
  ),
}))

export interface Accepted {
  /** Of a key that was used before that of the first email, with `replayed`, and with `mismatch` where the request differed from the first. */
  readonly response: SendResponse
}

/**
 * Accepts a send request; resolves when the email is on disk. Its idempotency key comes before everything that may have changed since it was first
 * seen: the rules (a `send_at` has passed meanwhile), the rate, the quota, the domain.
 * @param idempotencyHeader value of the header `Idempotency-Key`
 * @param admit throws when the account sends too fast
 */
export async function acceptRequest(
  app: App,
  actor: Actor,
  request: SendRequest,
  idempotencyHeader: string | undefined,
  admit: () => void,
): Promise<Accepted> {
  const replay = requireReplay(app, actor, idempotencyOf(request, idempotencyHeader))
  if (replay) return replayed(app, actor, replay)
  const draft = () => draftOf(app, request, idempotencyHeader)
  // Attachments take milliseconds to decode.
  const isLarge = (request.attachments?.length ?? 0) > 0
  return acceptEmail(
    app,
    actor,
    isLarge ? await app.turns.run(tenantOf(app.db, actor.accountId), draft) : draft(),
    admit,
  )
}

/**
 * Accepts one email; resolves when it is on disk. A template is rendered last of all that may refuse it, and for a new email only.
 * @param admit throws when the account sends too fast; asked after the look-up of the idempotency key
 * @param also writes what belongs to it in the same transaction, and throws when it must not be; not called for an idempotency key that was seen
 */
export async function acceptEmail(
  app: App,
  actor: Actor,
  given: Draft,
  admit: () => void = () => undefined,
  also: (tx: Tx, response: SendResponse) => void = () => undefined,
): Promise<Accepted> {
  const before = readTogether(app.db, () => {
    const replay = requireReplay(app, actor, given.idempotency)
    if (replay) return { replay }
    admit()
    app.work.spend(actor.accountId, given.recipients.length)
    const sendable = requireSendable(app, actor, given)
    return { sendable, left: quotaLeft(app.db, sendable.account, app.clock.now()) }
  })
  if (before.replay) return replayed(app, actor, before.replay)
  const { account, sandbox, streamId } = before.sendable
  if (sandbox) requireSandbox(app, app.db, actor.accountId, given.recipients.length)
  await requireDiskSpace(app)
  await requireQuota(
    app,
    account,
    sandbox ? 0 : given.recipients.length,
    () => unsuppressed({ suppressions: suppressionsOf(app.db, actor, given, streamId) }),
    before.left,
  )
  using rendering = startRendering(app)
  const draft = await renderedDraft(app, actor, given, rendering)
  const owner = tenantOf(app.db, actor.accountId)
  const content = await storeContent(app, draft, {
    owner,
    inTurn: draft.attachments.length > 0 ? (pack) => app.turns.resume(owner, pack) : undefined,
  })
  const refs = { content: refsOf(content) }
  const write = (tx: Tx): Accepted => {
    const earlier = requireReplay(app, actor, draft.idempotency)
    if (earlier) {
      dropContent(app, tx, refs)
      return earlier
    }
    const context = requireSendable(app, actor, draft)
    const suppressions = suppressionsOf(tx.db, actor, draft, context.streamId)
    if (context.sandbox) takeSandbox(app, tx, actor.accountId, draft.recipients.length)
    const counted = context.sandbox ? 0 : unsuppressed({ suppressions })
    const quotaMonth = counted === 0 ? null : takeQuota(tx, context.account, counted, app.clock.now())
    const placement = { ...context, suppressions, quotaMonth, operationId: null }
    const response = insertDraft(app, tx, actor, draft, content, placement)
    also(tx, response)
    return { response }
  }
  const accepted = await referTo(app, refs, () => app.commit.write(write, { owner }))
  warnOfMismatch(app, actor, accepted)
  return accepted
}

async function replayed(app: App, actor: Actor, replay: Accepted): Promise<Accepted> {
  warnOfMismatch(app, actor, replay)
  return durable(app, replay)
}

/** Whoever reuses keys by mistake believes that his mail went out: the operator can tell him. */
export function warnOfMismatch(app: Pick<App, 'log'>, actor: Actor, { response }: Accepted): void {
  if (response.mismatch)
    app.log.warn(
      { account: actor.accountUuid, email: response.id },
      'email not sent: its idempotency key belongs to an email with other content',
    )
}

/** As `findReplay`; throws a 409 where the operator wants a key that is used for other content refused. */
export function requireReplay(
  app: Pick<App, 'db' | 'config'>,
  actor: Actor,
  idempotency: Idempotency | undefined,
): Accepted | undefined {
  const replay = findReplay(app, actor, idempotency)
  if (replay?.response.mismatch && app.config.idempotencyMismatch === 'conflict') throw idempotencyConflict()
  return replay
}

/** The first email of an idempotency key, if it was seen. It may not be on disk yet: see `durable`. */
export function findReplay(
  app: Pick<App, 'db'>,
  actor: Actor,
  idempotency: Idempotency | undefined,
): Accepted | undefined {
  if (!idempotency) return undefined
  const found = sql(app.db).findKey.get(actor.accountId, idempotency.keyHash)
  if (!found) return undefined
  const isSame = equalBytes(found.bodyHash, idempotency.bodyHash)
  return { response: { ...responseOf(app, found.emailId), replayed: true, ...(!isSame && { mismatch: true }) } }
}

/** Gives `value`, read from the database, once what it was read from is on disk: it may be of a group whose sync is still running. */
export const durable = <T extends object>(app: Pick<App, 'commit'>, value: T): Promise<T> =>
  app.commit.writeFromReserve<{ value: T }>(() => ({ value })).then((written) => written.value)
