/**
 * @module Erases one person, by address, from everything that an account has of them. It is an operation: the request does what goes quickly, the loop does the
 * rest, step by step, and goes on where a crash ended it. Its steps are those of `erase-steps`.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { insertOperation, updateOperationProgress } from '#features/core/operations/operations.ts'
import { type Millis, yieldToEventLoop } from '#platform/clock.ts'
import { invalid } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { type DueLoop, isDue, startDueLoop } from '#platform/queue/due-loop.ts'
import { minutes, seconds } from '#platform/units.ts'
import { FIRST_LONG_STEP, FIRST_WITHOUT_ADDRESS, isScrubStep, STEPS } from './erase-steps.ts'
import {
  type Erasure,
  findErasure,
  findErasureById,
  findNextErasure,
  insertErasure,
  restartErasure,
  updateErasure,
} from './erasures.ts'
import { type Person, parsePerson } from './person.ts'

export interface ErasureProgress {
  /** As it is looked for. */
  readonly address: string
  readonly rows: number
  /** Whether only the bytes in the files, and mail that others are still to get, are left. */
  readonly isNearlyDone: boolean
  /** Public id. */
  readonly operationId: string
}

/** What a request does itself at most. */
const MAX_REQUEST_MS = seconds(1)
/** Requests that do so side by side; of more, the slices would be one long one together, so the loop has them. */
const MAX_CONCURRENT_REQUESTS = 2
const getRequests = perOwner((_: App) => ({ running: 0 }))
/** The loop leaves an erasure to the request that began it for so long; then the request, or its process, is gone. */
const LEASE_MS = seconds(5)

/** When a step that failed is tried again. */
const FAILURE_RETRY_MS = seconds(30)
/** How often it is looked whether the bytes of one are gone; the end of that is told besides. */
const BYTES_CHECK_INTERVAL_MS = minutes(1)

/** The person that a request names; 422 when that is no address. */
export function requirePerson(email: string | undefined): Person {
  const person = parsePerson(email ?? '')
  if (!person) throw invalid('email', 'Give one address, such as ?email=ada@example.com.', 'invalid_address')
  return person
}

/**
 * Begins to erase an address from an account; resolves with how far that is after at most a second. One that is under way is what a repeated request is told
 * of; it looks through everything again, because there may be more by now. Throws 422 for what is no address.
 */
export async function erasePerson(app: App, actor: Actor, email: string | undefined): Promise<ErasureProgress> {
  const person = requirePerson(email)
  const { accountId } = actor
  const { addressKey } = person
  const begun = await app.commit.writeFromReserve((tx) => {
    const running = findErasure(tx.db, accountId, addressKey)
    if (running) {
      restartErasure(tx, running, addressKey, app.clock.now())
      tx.afterCommit(() => app.removalDue.emit())
      return { id: running.id, operationId: formatUuid(running.operationUuid), isNew: false }
    }
    const operation = insertOperation(app, tx, actor, {
      type: 'gdpr_erase',
      status: 'processing',
      total: 0,
      completed: 0,
      failed: 0,
      errorSummary: null,
      metadata: { rows_deleted: 0 },
    })
    const dueAt = app.clock.now() + LEASE_MS
    const erasure = { accountId, operationId: operation.id, address: addressKey, dueAt }
    const id = insertErasure(tx, erasure, app.eventTime())
    // Without the address: this entry is to stay.
    audit(app, tx, actor, { action: 'person.erased', resourceType: 'operation', resourceId: operation.uuid })
    return { id, operationId: operation.uuid, isNew: true }
  })
  if (begun.isNew) await eraseInRequest(app, begun.id)
  const erasure = findErasureById(app.db, begun.id)
  return {
    address: addressKey,
    rows: erasure?.rows ?? 0,
    isNearlyDone: erasure === undefined || erasure.step >= FIRST_LONG_STEP,
    operationId: begun.operationId,
  }
}

/** Does the steps that are quick, then hands over to the loop. */
async function eraseInRequest(app: App, id: number): Promise<void> {
  const requests = getRequests(app)
  const others = requests.running
  const until = app.clock.monotonicMs() + MAX_REQUEST_MS
  requests.running++
  try {
    while (others < MAX_CONCURRENT_REQUESTS && app.clock.monotonicMs() < until) {
      const erasure = findErasureById(app.db, id)
      if (!erasure || erasure.step >= FIRST_LONG_STEP) break
      const waitMs = await runStep(app, erasure, app.clock.now() + LEASE_MS)
      if (waitMs > 0) break
    }
  } finally {
    requests.running--
    await app.commit.writeFromReserve((tx) => {
      const erasure = findErasureById(tx.db, id)
      if (erasure) updateErasure(tx, erasure, { ...erasure, rows: 0, dueAt: app.clock.now() })
    })
    app.removalDue.emit()
  }
}

/** Starts the loop that goes on with erasures. All that have come to the bytes share one look through the files, and the others go on meanwhile. */
export function startErasureLoop(app: App): DueLoop {
  const { clock, log } = app
  /** By the cursor that each was given. */
  const scrubs = new Map<number, Promise<void>>()
  let newestCursor = clock.now()

  const tryStep = async (erasure: Erasure): Promise<void> => {
    try {
      await runStep(app, erasure)
    } catch (error) {
      // The others must not wait for what is wrong with this one.
      log.error({ err: error, erasure: erasure.id, step: STEPS[erasure.step]?.name }, 'a step of an erasure failed')
      await postpone(erasure, erasure.cursor, FAILURE_RETRY_MS)
    }
  }
  const postpone = (erasure: Erasure, cursor: number, waitMs: number): Promise<void> =>
    app.commit.writeFromReserve(
      (tx) => void updateErasure(tx, erasure, { step: erasure.step, cursor, rows: 0, dueAt: clock.now() + waitMs }),
    )
  /** Each time under a new cursor, so that what looked before an erasure was begun again says nothing of it. */
  const tryScrub = async (erasure: Erasure): Promise<void> => {
    if (scrubs.has(erasure.cursor)) return postpone(erasure, erasure.cursor, BYTES_CHECK_INTERVAL_MS)
    const cursor = ++newestCursor
    await postpone(erasure, cursor, BYTES_CHECK_INTERVAL_MS)
    const running = tryStep({ ...erasure, cursor })
      .catch((error: unknown) => log.error({ err: error, erasure: erasure.id }, 'a step of an erasure failed'))
      .finally(() => {
        scrubs.delete(cursor)
        loop.wake()
      })
    scrubs.set(cursor, running)
  }

  const loop = startDueLoop({
    name: 'erase persons',
    clock,
    log,
    wokenBy: [app.removalDue],
    step: async (ending): Promise<Millis | undefined> => {
      const erasure = findNextErasure(app.db)
      if (!erasure) return undefined
      if (!isDue(erasure.dueAt, clock.now(), BYTES_CHECK_INTERVAL_MS)) return erasure.dueAt
      await yieldToEventLoop()
      if (ending.aborted) return undefined
      await (isScrubStep(erasure.step) ? tryScrub(erasure) : tryStep(erasure))
      return clock.now()
    },
    onEnded: () => Promise.all(scrubs.values()),
  })
  return loop
}

/**
 * Does one step, or a part of it; resolves with how long to wait before the next.
 * @param leasedUntil when the next is due for the loop, where somebody else goes on
 */
async function runStep(app: App, erasure: Erasure, leasedUntil?: Millis): Promise<number> {
  const step = STEPS[erasure.step]
  if (!step) throw new Error(`an erasure is at the unknown step ${erasure.step}`)
  const person = erasure.step < FIRST_WITHOUT_ADDRESS ? parsePerson(erasure.address) : NOBODY
  if (!person) throw new Error('an erasure has no address')
  const writing = await step.run(app, erasure, person)
  return app.commit.writeFromReserve((tx) => {
    const current = findErasureById(tx.db, erasure.id)
    // It was begun again, or went with its account: then this is of no use any more.
    if (current?.step !== erasure.step || current.cursor !== erasure.cursor) return 0
    const { rows = 0, next, waitMs = 0, isEnd = false } = writing(tx)
    if (isEnd) {
      updateProgress(app, tx, erasure, erasure.rows + rows, 'completed')
      return 0
    }
    const total = updateErasure(tx, erasure, {
      step: next === undefined ? erasure.step + 1 : erasure.step,
      cursor: next ?? 0,
      rows,
      dueAt: leasedUntil ?? app.clock.now() + waitMs,
    })
    if (total !== undefined && rows > 0) updateProgress(app, tx, erasure, total, 'processing')
    return waitMs
  })
}

function updateProgress(
  app: App,
  tx: Parameters<typeof updateOperationProgress>[1],
  { operationId }: Erasure,
  rows: number,
  status: 'processing' | 'completed',
): void {
  updateOperationProgress(app, tx, operationId, {
    status,
    total: rows,
    completed: rows,
    metadata: { rows_deleted: rows },
  })
}

/** Of the steps that need no address. */
const NOBODY: Person = {
  addressKey: '',
  is: () => false,
  isIn: () => false,
  isNamedIn: () => false,
  eraseFrom: (text) => text,
}
