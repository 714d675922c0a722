/**
 * @module Accepts one email, from a request of the API or from another feature: replies of agent mailboxes, mails to
 * contacts, `tassis send`. Stores the content durably; then inserts email, recipients, event, counters and quota in one
 * transaction. Resolves once that is on disk. Batches (`batch.ts`), broadcasts and mail of the service insert on their
 * own.
 */

import { consumeQuota, readRemainingQuota } from '#features/core/accounts/accounts.ts'
import { consumeSandboxQuota, requireSandboxQuota } from '#features/core/accounts/limits.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { dropContent, dropContentOnFailure } from '#features/core/content-gc/garbage.ts'
import type { Idempotency } from '#features/sending/queue/idempotency-key.ts'
import { refsOf, storeContent } from '#features/sending/queue/insert.ts'
import { startRenderSession } from '#features/setup/templates/render.ts'
import { equalBytes } from '#platform/crypto.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements, readSnapshot } from '#platform/db/open.ts'
import { createDraft, type Draft } from './draft.ts'
import { createIdempotencyConflict, readIdempotency } from './idempotency.ts'
import type { SendRequest, SendResponse } from './model.ts'
import { renderDraft } from './render-draft.ts'
import { insertDraft, readSendResponse } from './send-response.ts'
import { countSendable, findSuppressions, requireDiskSpace, requireQuota, requireSendable } from './sendable.ts'

const sql = prepareStatements((db) => ({
  findKey: db.prepare<{ emailId: number; bodyHash: Uint8Array }, [number, Uint8Array]>(
    'SELECT email_id AS emailId, body_hash AS bodyHash FROM idempotency_keys WHERE account_id = ? AND key_hash = ?',
  ),
}))

export interface AcceptedEmail {
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
): Promise<AcceptedEmail> {
  const replay = resolveReplay(app, actor, readIdempotency(request, idempotencyHeader))
  if (replay) return respondWithReplay(app, actor, replay)
  const draft = () => createDraft(app, request, idempotencyHeader)
  // Attachments take milliseconds to decode.
  const isLarge = (request.attachments?.length ?? 0) > 0
  return acceptEmail(
    app,
    actor,
    isLarge ? await app.fairScheduler.run(getTenantId(app.db, actor.accountId), draft) : draft(),
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
  provided: Draft,
  admit: () => void = () => undefined,
  onInserted: (tx: Tx, response: SendResponse) => void = () => undefined,
): Promise<AcceptedEmail> {
  const checked = readSnapshot(app.db, () => {
    const replay = resolveReplay(app, actor, provided.idempotency)
    if (replay) return { replay }
    admit()
    app.workBudget.spend(actor.accountId, provided.recipients.length)
    const sendable = requireSendable(app, actor, provided)
    return { sendable, left: readRemainingQuota(app.db, sendable.account, app.clock.now()) }
  })
  if (checked.replay) return respondWithReplay(app, actor, checked.replay)
  const { account, sandbox, streamId } = checked.sendable
  if (sandbox) requireSandboxQuota(app, app.db, actor.accountId, provided.recipients.length)
  await requireDiskSpace(app)
  await requireQuota(
    app,
    account,
    sandbox ? 0 : provided.recipients.length,
    () => countSendable({ suppressions: findSuppressions(app.db, actor, provided, streamId) }),
    checked.left,
  )
  using rendering = startRenderSession(app)
  const draft = await renderDraft(app, actor, provided, rendering)
  const owner = getTenantId(app.db, actor.accountId)
  const content = await storeContent(app, draft, {
    owner,
    runFairly: draft.attachments.length > 0 ? (pack) => app.fairScheduler.resume(owner, pack) : undefined,
  })
  const refs = { content: refsOf(content) }
  const write = (tx: Tx): AcceptedEmail => {
    const earlier = resolveReplay(app, actor, draft.idempotency)
    if (earlier) {
      dropContent(app, tx, refs)
      return earlier
    }
    const context = requireSendable(app, actor, draft)
    const suppressions = findSuppressions(tx.db, actor, draft, context.streamId)
    if (context.sandbox) consumeSandboxQuota(app, tx, actor.accountId, draft.recipients.length)
    const counted = context.sandbox ? 0 : countSendable({ suppressions })
    const quotaMonth = counted === 0 ? null : consumeQuota(tx, context.account, counted, app.clock.now())
    const placement = { ...context, suppressions, quotaMonth, operationId: null }
    const response = insertDraft(app, tx, actor, draft, content, placement)
    onInserted(tx, response)
    return { response }
  }
  const accepted = await dropContentOnFailure(app, refs, () => app.commit.write(write, { owner }))
  logMismatch(app, actor, accepted)
  return accepted
}

async function respondWithReplay(app: App, actor: Actor, replay: AcceptedEmail): Promise<AcceptedEmail> {
  logMismatch(app, actor, replay)
  return waitUntilDurable(app, replay)
}

/** Whoever reuses keys by mistake believes that his mail went out: the operator can tell him. */
export function logMismatch(app: Pick<App, 'log'>, actor: Actor, { response }: AcceptedEmail): void {
  if (response.mismatch)
    app.log.warn(
      { account: actor.accountUuid, email: response.id },
      'email not sent: its idempotency key belongs to an email with other content',
    )
}

/** As `findReplay`; throws a 409 where the operator wants a key that is used for other content refused. */
export function resolveReplay(
  app: Pick<App, 'db' | 'config'>,
  actor: Actor,
  idempotency: Idempotency | undefined,
): AcceptedEmail | undefined {
  const replay = findReplay(app, actor, idempotency)
  if (replay?.response.mismatch && app.config.idempotencyMismatch === 'conflict') throw createIdempotencyConflict()
  return replay
}

/** The first email of an idempotency key, if it was seen. It may not be on disk yet: see `durable`. */
export function findReplay(
  app: Pick<App, 'db'>,
  actor: Actor,
  idempotency: Idempotency | undefined,
): AcceptedEmail | undefined {
  if (!idempotency) return undefined
  const found = sql(app.db).findKey.get(actor.accountId, idempotency.keyHash)
  if (!found) return undefined
  const isSame = equalBytes(found.bodyHash, idempotency.bodyHash)
  return { response: { ...readSendResponse(app, found.emailId), replayed: true, ...(!isSame && { mismatch: true }) } }
}

/** Gives `value`, read from the database, once what it was read from is on disk: it may be of a group whose sync is still running. */
export const waitUntilDurable = <T extends object>(app: Pick<App, 'commit'>, value: T): Promise<T> =>
  app.commit.writeFromReserve<{ value: T }>(() => ({ value })).then((written) => written.value)
