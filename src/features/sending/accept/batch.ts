/**
 * @module Accepts a batch: checks each email separately, and inserts all that are accepted in one transaction with
 * their operation. Takes quota for the batch as a whole. Stores the response of a request with an Idempotency-Key
 * header, and returns it again.
 */

import { requireSending, type SendingAccount, sendingAccount, takeQuota } from '#features/core/accounts/accounts.ts'
import { requireSandbox, takeSandbox } from '#features/core/accounts/limits.ts'
import { tenantOf } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { dropContent, referTo } from '#features/core/content-gc/garbage.ts'
import { insertOperation } from '#features/core/operations/operations.ts'
import type { Idempotency } from '#features/sending/queue/idempotency-key.ts'
import { refsOf, type StoredContent, storeContent } from '#features/sending/queue/insert.ts'
import { type Rendering, startRendering } from '#features/setup/templates/render.ts'
import type { PutOptions } from '#platform/content/store.ts'
import { equalBytes } from '#platform/crypto.ts'
import type { Tx } from '#platform/db/commit.ts'
import { readTogether } from '#platform/db/open.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { checkOf } from '#platform/http/validation.ts'
import { durable, findReplay, requireReplay, warnOfMismatch } from './accept.ts'
import { type Draft, draftOf } from './draft.ts'
import { idempotencyConflict, idempotencyOf } from './idempotency.ts'
import { findReply, keepReply, replyKeyOf } from './kept-replies.ts'
import { type BatchResponse, SendRequest, type SendResponse } from './model.ts'
import { insertDraft } from './send-response.ts'
import { requireDiskSpace, requireQuota, requireSendable, suppressionsOf, unsuppressed } from './sendable.ts'
import { renderedDraft, templateFinder } from './templated.ts'

export interface BatchInput {
  readonly emails: readonly unknown[]
  /** Header `Idempotency-Key`. */
  readonly idempotencyKey: string | undefined
}

/** Of a batch: enough that the renderer always has the next one, and no more in memory than that. */
const RENDERED_AT_ONCE = 4

const faultsOf = checkOf(SendRequest, 'email')

interface CheckedItem {
  readonly index: number
  readonly idempotency: Idempotency | undefined
  /** Undefined: its key was seen before. */
  readonly draft: Draft | undefined
}

interface ResolvedItem extends CheckedItem {
  /** What `suppressionsOf` says of its recipients. Delivery asks again. */
  readonly suppressions: readonly (string | undefined)[]
}

interface StoredItem extends ResolvedItem {
  readonly content: StoredContent | undefined
}

/** @param admit throws when the account sends too fast; asked after the look-up of the idempotency key */
export async function acceptBatch(
  app: App,
  actor: Actor,
  input: BatchInput,
  admit: () => void = () => undefined,
): Promise<BatchResponse> {
  const replyKey = replyKeyOf(input.idempotencyKey, input.emails)
  const replay = replyKey && findReply<BatchResponse>(app.db, actor, replyKey)
  if (replay) return durable(app, replay)
  admit()
  app.work.spend(actor.accountId, sumRecipients(input.emails))
  const owner = tenantOf(app.db, actor.accountId)
  const account = sendingAccount(app.config, app.db, actor.accountId)
  requireSending(account)
  const errors: BatchResponse['errors'] = []
  const checked: CheckedItem[] = []
  await app.turns.forEach(
    owner,
    input.emails.entries(),
    ([index, given]) => {
      try {
        checked.push({ index, ...checkItem(app, actor, given) })
      } catch (error) {
        errors.push({ index, error: itemError(error) })
      }
    },
    { together: (steps) => readTogether(app.db, steps) },
  )
  const hasNew = checked.some(({ draft }) => draft)
  if (hasNew) await requireDiskSpace(app)
  await requireQuotaForOne(app, actor, account, checked)
  using rendering = startRendering(app)
  const rendered = await renderItems(app, actor, checked, rendering, errors)
  const placed = await placeInTurns(app, actor, rendered, owner)
  if (hasNew) {
    const added = withoutRepeats(placed)
    requireSandbox(app, app.db, actor.accountId, sumOf(added.filter(isSandbox), countNamed))
    await requireQuota(app, account, sumOf(added.filter(isCounted), countNamed), () =>
      sumOf(added.filter(isCounted), countUnsuppressed),
    )
  }
  const items = await storeItems(
    app,
    placed.map(({ item }) => item),
    owner,
  )
  const refs = { content: items.flatMap(({ content }) => (content ? refsOf(content) : [])) }
  const write = (tx: Tx): BatchResponse => {
    const earlier = replyKey && findReply<BatchResponse>(tx.db, actor, replyKey)
    if (earlier) {
      dropContent(app, tx, refs)
      return earlier
    }
    const response = insertBatch(app, tx, actor, items, errors, input.emails.length)
    if (replyKey) keepReply(app, tx, actor, replyKey, response)
    return response
  }
  const response = await referTo(app, refs, () => app.commit.write(write, { owner }))
  for (const item of response.data) warnOfMismatch(app, actor, { response: item })
  return response
}

/** Recipients that a batch names, before anything is checked; what is no send request has none. */
function sumRecipients(emails: readonly unknown[]): number {
  let sum = 0
  for (const email of emails) {
    if (typeof email !== 'object' || email === null) continue
    const { to, cc, bcc } = email as Record<string, unknown>
    for (const list of [to, cc, bcc]) sum += Array.isArray(list) ? list.length : list === undefined ? 0 : 1
  }
  return sum
}

async function storeItems(app: App, items: readonly ResolvedItem[], owner: number): Promise<StoredItem[]> {
  // One after the other, so that further requests of the account wait for one part and not for all of the batch.
  let lastPacked: Promise<unknown> = Promise.resolve()
  const inTurn: PutOptions['inTurn'] = (pack) => {
    const packed = lastPacked.then(() => app.turns.resume(owner, pack))
    lastPacked = packed.catch(() => undefined)
    return packed
  }
  const stored = await Promise.allSettled(
    items.map(
      async (item): Promise<StoredItem> => ({
        ...item,
        content: item.draft && (await storeContent(app, item.draft, { owner, inTurn })),
      }),
    ),
  )
  const done = stored.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  const refs = done.flatMap(({ content }) => (content ? refsOf(content) : []))
  const failed = stored.find((each) => each.status === 'rejected')
  return referTo(app, { content: refs }, async () => {
    if (failed) throw failed.reason
    return done
  })
}

/**
 * Throws the 429 of a batch of which no email fits into what is left of the quota, before anything is rendered for it. Whether all of them fit is known
 * once those whose templates are at fault are taken out.
 */
async function requireQuotaForOne(
  app: App,
  actor: Actor,
  account: SendingAccount,
  checked: readonly CheckedItem[],
): Promise<void> {
  if (!checked.some(({ draft }) => draft?.template)) return
  const placed = readTogether(app.db, () => place(app, actor, checked, []))
  const counted = placed.filter(({ placement }) => placement && !placement.sandbox)
  const least = (counts: readonly number[]): number => (counts.length === 0 ? 0 : Math.min(...counts))
  await requireQuota(app, account, least(counted.map(countNamed)), () =>
    least(
      counted
        .map(({ item: { draft }, placement }) =>
          draft && placement
            ? unsuppressed({ suppressions: suppressionsOf(app.db, actor, draft, placement.streamId) })
            : 0,
        )
        .filter((recipients) => recipients > 0),
    ),
  )
}

/** Throws the 422 of an item that cannot be accepted. */
function checkItem(app: App, actor: Actor, given: unknown): Pick<CheckedItem, 'idempotency' | 'draft'> {
  const faults = faultsOf(given)
  if (faults.length > 0)
    throw invalid(faults[0]?.field ?? 'email', faults.map(({ field, message }) => `${field} ${message}`).join('; '))
  const request = given as SendRequest
  const idempotency = idempotencyOf(request, undefined)
  if (requireReplay(app, actor, idempotency)) return { idempotency, draft: undefined }
  const draft = draftOf(app, request, undefined)
  requireSendable(app, actor, draft)
  return { idempotency, draft }
}

/**
 * The same items with what their templates give; adds those whose template cannot be rendered to `errors`. What concerns the request as a whole, such as
 * that all of it is too large, ends it.
 */
async function renderItems(
  app: App,
  actor: Actor,
  items: readonly CheckedItem[],
  rendering: Rendering,
  errors: BatchResponse['errors'],
): Promise<CheckedItem[]> {
  const rendered: (CheckedItem | undefined)[] = []
  const find = templateFinder(app, actor.accountId)
  let next = 0
  let isRefused = false
  const renderNext = async (): Promise<void> => {
    while (next < items.length && !isRefused) {
      const position = next++
      const item = items[position]
      if (!item) continue
      try {
        rendered[position] = item.draft
          ? { ...item, draft: await renderedDraft(app, actor, item.draft, rendering, find) }
          : item
      } catch (error) {
        isRefused = !isItemError(error)
        errors.push({ index: item.index, error: itemError(error) })
      }
    }
  }
  // All of them end before the memory is given back, whatever becomes of one.
  const ends = await Promise.allSettled(Array.from({ length: RENDERED_AT_ONCE }, renderNext))
  for (const end of ends) if (end.status === 'rejected') throw end.reason
  return rendered.filter((item) => item !== undefined)
}

const isItemError = (error: unknown): error is AppError =>
  error instanceof AppError && (error.status === 422 || error.code === 'idempotency_conflict')

/** A refusal of one item as its error text; what concerns the request as a whole, or is no refusal, goes on. */
function itemError(error: unknown): string {
  if (isItemError(error)) return error.message
  throw error
}

interface Placed<T extends CheckedItem> {
  readonly item: T
  /** Undefined: its key was seen before. */
  readonly placement: ReturnType<typeof requireSendable> | undefined
}

/** What the database says about each item now; adds those that it does not allow to `errors`. */
function place<T extends CheckedItem>(
  app: App,
  actor: Actor,
  items: readonly T[],
  errors: BatchResponse['errors'],
): Placed<T>[] {
  const placed: Placed<T>[] = []
  const firsts = new Map<string, Idempotency>()
  for (const item of items) {
    try {
      const { idempotency } = item
      const isReplay = !item.draft || requireReplay(app, actor, idempotency) !== undefined
      const placement = isReplay ? undefined : requireSendable(app, actor, item.draft)
      if (idempotency) requireSameContent(app.config, firsts, idempotency)
      placed.push({ item, placement })
    } catch (error) {
      errors.push({ index: item.index, error: itemError(error) })
    }
  }
  return placed
}

/** Throws the 409 of an item whose key is that of an earlier one in the batch with other content, where the operator wants that refused. */
function requireSameContent(
  { idempotencyMismatch }: App['config'],
  firsts: Map<string, Idempotency>,
  idempotency: Idempotency,
): void {
  const first = firsts.get(idempotency.key)
  if (first && idempotencyMismatch === 'conflict' && !equalBytes(first.bodyHash, idempotency.bodyHash))
    throw idempotencyConflict()
  firsts.set(idempotency.key, first ?? idempotency)
}

/**
 * Where each item goes, with the suppressions of its recipients: outside of the transaction, because of all that is asked for a batch they take longest. An
 * item that the database does not allow meanwhile stays, and the transaction refuses it.
 */
async function placeInTurns(
  app: App,
  actor: Actor,
  items: readonly CheckedItem[],
  owner: number,
): Promise<Placed<ResolvedItem>[]> {
  const placed: Placed<ResolvedItem>[] = []
  await app.turns.forEach(
    owner,
    items,
    (item) => {
      const placement = place(app, actor, [item], [])[0]?.placement
      const suppressions = item.draft && placement ? suppressionsOf(app.db, actor, item.draft, placement.streamId) : []
      placed.push({ item: { ...item, suppressions }, placement })
    },
    { isNew: false, together: (steps) => readTogether(app.db, steps) },
  )
  return placed
}

/** The items that become emails. Of two with one key the second returns the first, whichever of them is sandbox mail. */
function withoutRepeats<T extends CheckedItem>(placed: readonly Placed<T>[]): Placed<T>[] {
  const seenKeys = new Set<string>()
  return placed.filter(({ item, placement }) => {
    const key = item.idempotency?.key
    if (!item.draft || !placement || (key !== undefined && seenKeys.has(key))) return false
    if (key !== undefined) seenKeys.add(key)
    return true
  })
}

const isSandbox = ({ placement }: Placed<CheckedItem>): boolean => placement?.sandbox === true

/** Whether the quota counts it. */
const isCounted = (entry: Placed<CheckedItem>): boolean => !isSandbox(entry)

const countNamed = ({ item }: Placed<CheckedItem>): number => item.draft?.recipients.length ?? 0

const countUnsuppressed = ({ item }: Placed<ResolvedItem>): number => unsuppressed(item)

const sumOf = <T>(entries: readonly T[], count: (entry: T) => number): number =>
  entries.reduce((sum, entry) => sum + count(entry), 0)

/** In one transaction: what the database decides may have changed since the items were checked, so it decides again. */
function insertBatch(
  app: App,
  tx: Tx,
  actor: Actor,
  items: readonly StoredItem[],
  earlierErrors: BatchResponse['errors'],
  total: number,
): BatchResponse {
  const errors = [...earlierErrors]
  const placed = place(app, actor, items, errors)
  const refused = new Set(items).difference(new Set(placed.map(({ item }) => item)))
  for (const { content } of refused) if (content) dropContent(app, tx, { content: refsOf(content) })
  const added = withoutRepeats(placed)
  takeSandbox(app, tx, actor.accountId, sumOf(added.filter(isSandbox), countNamed))
  const recipients = sumOf(added.filter(isCounted), countUnsuppressed)
  const account = sendingAccount(app.config, tx.db, actor.accountId)
  const quotaMonth = recipients > 0 ? takeQuota(tx, account, recipients, app.clock.now()) : null
  errors.sort((a, b) => a.index - b.index)
  const operation = insertOperation(app, tx, actor, {
    type: 'batch',
    status: 'completed',
    total,
    completed: total - errors.length,
    failed: errors.length,
    errorSummary: errors[0]
      ? `${errors.length} of ${total} emails were not accepted; the first: ${errors[0].error}`
      : null,
  })
  const data = placed.map(({ item: { draft, content, idempotency, suppressions }, placement }): SendResponse => {
    const replay = findReplay(app, actor, idempotency)
    if (replay && content) dropContent(app, tx, { content: refsOf(content) })
    if (replay) return replay.response
    if (!placement || !draft || !content) throw new Error('an earlier email of the batch is gone')
    return insertDraft(app, tx, actor, draft, content, {
      ...placement,
      suppressions,
      quotaMonth: placement.sandbox ? null : quotaMonth,
      operationId: operation.id,
    })
  })
  return { operation_id: operation.uuid, data, errors }
}
