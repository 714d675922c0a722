/**
 * @module Accepts a batch: checks each email separately and inserts all accepted emails in one transaction with their
 * operation. Consumes the quota for the batch as a whole. Stores the response to a request with an Idempotency-Key
 * header and returns it to repeated requests.
 */

import {
  consumeQuota,
  getSendingAccount,
  requireSendingAllowed,
  type SendingAccount,
} from '#features/core/accounts/accounts.ts'
import { consumeSandboxQuota, requireSandboxQuota } from '#features/core/accounts/limits.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { dropContent, dropContentOnFailure } from '#features/core/content-gc/garbage.ts'
import { insertOperation } from '#features/core/operations/operations.ts'
import type { Idempotency } from '#features/sending/queue/email.ts'
import { refsOf, type StoredContent, storeContent } from '#features/sending/queue/insert.ts'
import { type RenderSession, startRenderSession } from '#features/setup/templates/render.ts'
import type { PutOptions } from '#platform/content/store.ts'
import { equalBytes } from '#platform/crypto/crypto.ts'
import { readSnapshot, type Tx } from '#platform/db/open.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { createCheck } from '#platform/http/validation.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { mapConcurrently } from '#platform/queue/map-concurrently.ts'
import {
  createTemplateFinder,
  findReplay,
  insertDraft,
  logMismatch,
  renderDraft,
  resolveReplay,
  waitUntilDurable,
} from './accept.ts'
import { createDraft, type Draft } from './draft.ts'
import {
  createIdempotencyConflict,
  createResponseKey,
  findStoredResponse,
  readIdempotency,
  storeResponse,
} from './idempotency.ts'
import { type BatchResponse, SendRequest, type SendResponse } from './model.ts'
import { countSendable, findSuppressions, requireDiskSpace, requireQuota, requireSendable } from './sendable.ts'

/** A rejected email of a batch. `code`: the code of its error, which /v1 does not show. */
export interface BatchItemError {
  readonly index: number
  readonly error: string
  readonly code: string
}

/** The response to a batch, with the codes of its errors. */
export interface AcceptedBatch extends Omit<BatchResponse, 'errors'> {
  errors: BatchItemError[]
}

export interface BatchInput {
  readonly emails: readonly unknown[]
  readonly idempotencyKey: string | undefined
  /**
   * Turns an element of `emails` into a send request, which is checked like any other; what it throws is the error of
   * that element. Default: the elements are send requests.
   */
  readonly translate?: (email: unknown) => unknown
  /** Adds to a draft what no send request can say, such as a Message-ID. */
  readonly complete?: (draft: Draft, email: unknown) => Draft
  /** Whether one error rejects all emails: a 422 `batch_rejected` with the first one, and nothing is stored. */
  readonly isAllOrNone?: boolean
}

/** This many renders keep the renderer busy; more would only hold more rendered emails of a batch in memory. */
const MAX_CONCURRENT_RENDERS = 4

const findProblems = createCheck(SendRequest, 'email')

interface CheckedItem {
  readonly index: number
  readonly idempotency: Idempotency | undefined
  /** Undefined if the item's idempotency key was used before. */
  readonly draft: Draft | undefined
}

interface ResolvedItem extends CheckedItem {
  /** From `findSuppressions`, in the order of the recipients. Delivery checks suppressions again. */
  readonly suppressions: readonly (string | undefined)[]
}

interface StoredItem extends ResolvedItem {
  readonly content: StoredContent | undefined
}

/** @param admit throws when the account sends too fast; called after the idempotency key was looked up */
export async function acceptBatch(
  app: App,
  actor: Actor,
  input: BatchInput,
  admit: () => void = () => undefined,
): Promise<AcceptedBatch> {
  const responseKey = await createResponseKey(app, actor, input.idempotencyKey, input.emails)
  const replay = responseKey && findStoredResponse<AcceptedBatch>(app.db, actor, responseKey)
  if (replay) return waitUntilDurable(app, replay)
  admit()
  app.workBudget.spend(actor.accountId, sumRecipients(input.emails))
  const owner = getTenantId(app.db, actor.accountId)
  const account = getSendingAccount(app.config, app.db, actor.accountId)
  requireSendingAllowed(account)
  const errors: BatchItemError[] = []
  const checked: CheckedItem[] = []
  await app.fairScheduler.forEach(
    owner,
    input.emails.entries(),
    ([index, email]) => {
      try {
        checked.push({ index, ...checkItem(app, actor, input, email) })
      } catch (error) {
        errors.push({ index, ...toItemError(error) })
      }
    },
    { together: (steps) => readSnapshot(app.db, steps) },
  )
  requireAllOrNone(input, errors)
  const hasNew = checked.some(({ draft }) => draft)
  if (hasNew) await requireDiskSpace(app)
  await requireQuotaForOne(app, actor, account, checked)
  using rendering = startRenderSession(app)
  const rendered = await renderItemTemplates(app, actor, checked, rendering, errors)
  requireAllOrNone(input, errors)
  const placed = await resolveItems(app, actor, rendered, owner)
  if (hasNew) {
    const added = withoutDuplicates(placed)
    requireSandboxQuota(app, app.db, actor.accountId, sumBy(added.filter(isSandbox), countRecipients))
    await requireQuota(app, account, sumBy(added.filter(isCounted), countRecipients), () =>
      sumBy(added.filter(isCounted), countSendableOf),
    )
  }
  const resolved = placed.map(({ item }) => item)
  const items = await storeItems(app, resolved, owner)
  const refs = { content: items.flatMap(({ content }) => (content ? refsOf(content) : [])) }
  const write = (tx: Tx): AcceptedBatch => {
    const earlier = responseKey && findStoredResponse<AcceptedBatch>(tx.db, actor, responseKey)
    if (earlier) {
      dropContent(app, tx, refs)
      return earlier
    }
    const response = insertBatch(app, tx, actor, items, errors, input.emails.length)
    // What was inserted is rolled back if it throws.
    requireAllOrNone(input, response.errors)
    if (responseKey) storeResponse(app, tx, actor, responseKey, response)
    return response
  }
  const response = await dropContentOnFailure(app, refs, () => app.commit.write(write, { owner }))
  for (const item of response.data) logMismatch(app, actor, { response: item })
  return response
}

/** Throws a 422 with the first error if one error rejects the batch. */
function requireAllOrNone({ isAllOrNone, emails }: BatchInput, errors: BatchResponse['errors']): void {
  const [first] = isAllOrNone ? errors.toSorted((a, b) => a.index - b.index) : []
  if (!first) return
  const field = `emails.${first.index}`
  const count = errors.length > 1 ? ` ${errors.length} of ${emails.length} emails have errors.` : ''
  throw invalid(field, `${field}: ${first.error} Nothing was sent.${count}`, 'batch_rejected')
}

/**
 * Counts the recipients in a batch before anything is checked, in fields of any case, since other services have capitals.
 * A text has as many as commas part, up to more than any email may have; an element that is not an object has none.
 */
function sumRecipients(emails: readonly unknown[]): number {
  let sum = 0
  for (const email of emails.filter(isJsonObject))
    for (const name of Object.keys(email).filter((field) => /^(?:to|b?cc)$/i.test(field))) {
      const list = email[name]
      sum += Array.isArray(list) ? list.length : typeof list === 'string' ? list.split(',', 100).length : 1
    }
  return sum
}

async function storeItems(app: App, items: readonly ResolvedItem[], owner: number): Promise<StoredItem[]> {
  // Items are packed one after the other, so other requests of the account wait for one item and not for the whole
  // batch.
  let lastPacked: Promise<unknown> = Promise.resolve()
  const inTurn: PutOptions['runFairly'] = (pack) => {
    const packed = lastPacked.then(() => app.fairScheduler.resume(owner, pack))
    lastPacked = packed.catch(() => undefined)
    return packed
  }
  const store = (draft: Draft) => storeContent(app, draft, { owner, runFairly: inTurn })
  const stored = await Promise.allSettled(
    items.map(async (item) => ({ ...item, content: item.draft && (await store(item.draft)) })),
  )
  const done = stored.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const refs = done.flatMap(({ content }) => (content ? refsOf(content) : []))
  const failed = stored.find((result) => result.status === 'rejected')
  return dropContentOnFailure(app, { content: refs }, async () => {
    if (failed) throw failed.reason
    return done
  })
}

/**
 * Throws a 429 before any template is rendered if not even one email of the batch fits the remaining quota. Whether all
 * emails fit is known only after rendering, which removes the emails whose templates fail.
 */
async function requireQuotaForOne(
  app: App,
  actor: Actor,
  account: SendingAccount,
  checked: readonly CheckedItem[],
): Promise<void> {
  if (!checked.some(({ draft }) => draft?.template)) return
  const placed = readSnapshot(app.db, () => placeItems(app, actor, checked, []))
  const counted = placed.filter(({ placement }) => placement && !placement.sandbox)
  const minOf = (counts: readonly number[]): number => (counts.length === 0 ? 0 : Math.min(...counts))
  const countSendableOf = ({ item: { draft }, placement }: PlacedItem<CheckedItem>) =>
    draft && placement ? countSendable({ suppressions: findSuppressions(app.db, actor, draft, placement.streamId) }) : 0
  await requireQuota(app, account, minOf(counted.map(countRecipients)), () =>
    minOf(counted.map(countSendableOf).filter((recipients) => recipients > 0)),
  )
}

/** A value as a send request. Throws a 422 that names all of its fields that are wrong. */
export function requireSendRequest(value: unknown): SendRequest {
  const problems = findProblems(value)
  if (problems.length > 0)
    throw invalid(problems[0]?.field ?? 'email', problems.map(({ field, message }) => `${field} ${message}`).join('; '))
  return value as SendRequest
}

function checkItem(
  app: App,
  actor: Actor,
  { translate = (item) => item, complete = (draft) => draft }: BatchInput,
  item: unknown,
): Pick<CheckedItem, 'idempotency' | 'draft'> {
  const request = requireSendRequest(translate(item))
  const idempotency = readIdempotency(request, undefined)
  if (resolveReplay(app, actor, idempotency)) return { idempotency, draft: undefined }
  const draft = complete(createDraft(app, request, idempotency), item)
  requireSendable(app, actor, draft)
  return { idempotency, draft }
}

/** Adds items whose template fails to `errors`; throws an error of the whole request, such as its total size. */
async function renderItemTemplates(
  app: App,
  actor: Actor,
  items: readonly CheckedItem[],
  rendering: RenderSession,
  errors: BatchItemError[],
): Promise<CheckedItem[]> {
  const findTemplate = createTemplateFinder(app, actor.accountId)
  let failure: { readonly error: unknown } | undefined
  const rendered = await mapConcurrently(items, MAX_CONCURRENT_RENDERS, async (item) => {
    if (failure) return undefined
    try {
      return item.draft ? { ...item, draft: await renderDraft(app, actor, item.draft, rendering, findTemplate) } : item
    } catch (error) {
      if (isItemError(error)) errors.push({ index: item.index, ...toItemError(error) })
      else failure ??= { error }
      return undefined
    }
  })
  // Thrown only now: all renderers must have ended before the rendering capacity is released.
  if (failure) throw failure.error
  return rendered.filter((item) => item !== undefined)
}

const isItemError = (error: unknown): error is AppError =>
  error instanceof AppError && (error.status === 422 || error.code === 'idempotency_conflict')

/** The error of a rejected item; rethrows errors that concern the whole request and unexpected errors. */
function toItemError(error: unknown): Omit<BatchItemError, 'index'> {
  if (isItemError(error)) return { error: error.message, code: error.code }
  throw error
}

interface PlacedItem<T extends CheckedItem> {
  readonly item: T
  /** Undefined if the item's idempotency key was used before. */
  readonly placement: ReturnType<typeof requireSendable> | undefined
}

/** Larger batches go after the other mail of their account; a message to each of a few people is a single event. */
const MAX_FEW_EMAILS = 10

/** Checks each item against the database; adds rejected items to `errors`. */
function placeItems<T extends CheckedItem>(
  app: App,
  actor: Actor,
  items: readonly T[],
  errors: BatchItemError[],
): PlacedItem<T>[] {
  const placed: PlacedItem<T>[] = []
  const firstByKey = new Map<string, Idempotency>()
  for (const item of items) {
    try {
      const { idempotency } = item
      const isReplay = !item.draft || resolveReplay(app, actor, idempotency) !== undefined
      const isMass = items.length > MAX_FEW_EMAILS
      const placement = isReplay ? undefined : requireSendable(app, actor, item.draft, { isMass })
      if (idempotency) requireSameContent(app.config, firstByKey, idempotency)
      placed.push({ item, placement })
    } catch (error) {
      errors.push({ index: item.index, ...toItemError(error) })
    }
  }
  return placed
}

/** Throws a 409 if an earlier item of the batch has the same key with other content and the setting is `conflict`. */
function requireSameContent(
  { idempotencyMismatch }: App['config'],
  firstByKey: Map<string, Idempotency>,
  idempotency: Idempotency,
): void {
  const first = firstByKey.get(idempotency.key)
  if (first && idempotencyMismatch === 'conflict' && !equalBytes(first.bodyHash, idempotency.bodyHash))
    throw createIdempotencyConflict()
  firstByKey.set(idempotency.key, first ?? idempotency)
}

/**
 * Looks up the placement of each item and the suppressions of its recipients. Runs outside of the transaction, because
 * suppressions are the slowest lookup of a batch. Keeps items that the database no longer allows; the transaction
 * rejects them.
 */
async function resolveItems(
  app: App,
  actor: Actor,
  items: readonly CheckedItem[],
  owner: number,
): Promise<PlacedItem<ResolvedItem>[]> {
  const placed: PlacedItem<ResolvedItem>[] = []
  await app.fairScheduler.forEach(
    owner,
    items,
    (item) => {
      const placement = placeItems(app, actor, [item], [])[0]?.placement
      const suppressions =
        item.draft && placement ? findSuppressions(app.db, actor, item.draft, placement.streamId) : []
      placed.push({ item: { ...item, suppressions }, placement })
    },
    { isNew: false, together: (steps) => readSnapshot(app.db, steps) },
  )
  return placed
}

/** The items that become emails: of several with one key only the first, even if only one of them is sandbox mail. */
function withoutDuplicates<T extends CheckedItem>(placed: readonly PlacedItem<T>[]): PlacedItem<T>[] {
  const seenKeys = new Set<string>()
  return placed.filter(({ item, placement }) => {
    const key = item.idempotency?.key
    if (!item.draft || !placement || (key !== undefined && seenKeys.has(key))) return false
    if (key !== undefined) seenKeys.add(key)
    return true
  })
}

const isSandbox = ({ placement }: PlacedItem<CheckedItem>): boolean => placement?.sandbox === true

const isCounted = (entry: PlacedItem<CheckedItem>): boolean => !isSandbox(entry)

const countRecipients = ({ item }: PlacedItem<CheckedItem>): number => item.draft?.recipients.length ?? 0

const countSendableOf = ({ item }: PlacedItem<ResolvedItem>): number => countSendable(item)

const sumBy = <T>(entries: readonly T[], count: (entry: T) => number): number =>
  entries.reduce((sum, entry) => sum + count(entry), 0)

/** Repeats the checks against the database, because the data may have changed since the first ones. */
function insertBatch(
  app: App,
  tx: Tx,
  actor: Actor,
  items: readonly StoredItem[],
  earlierErrors: readonly BatchItemError[],
  total: number,
): AcceptedBatch {
  const errors = [...earlierErrors]
  const placed = placeItems(app, actor, items, errors)
  const rejected = new Set(items).difference(new Set(placed.map(({ item }) => item)))
  for (const { content } of rejected) if (content) dropContent(app, tx, { content: refsOf(content) })
  const added = withoutDuplicates(placed)
  consumeSandboxQuota(app, tx, actor.accountId, sumBy(added.filter(isSandbox), countRecipients))
  const recipients = sumBy(added.filter(isCounted), countSendableOf)
  const account = getSendingAccount(app.config, tx.db, actor.accountId)
  const quotaMonth = recipients > 0 ? consumeQuota(tx, account, recipients, app.clock.now()) : null
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
    if (!placement || !draft || !content) throw new Error('an earlier email of the batch does not exist')
    return insertDraft(app, tx, actor, draft, content, {
      ...placement,
      suppressions,
      quotaMonth: placement.sandbox ? null : quotaMonth,
      operationId: operation.id,
    })
  })
  return { operation_id: operation.uuid, data, errors }
}
