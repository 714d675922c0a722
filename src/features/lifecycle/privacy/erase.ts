/**
 * @module Erases one person, by address, from everything that an account has. The request does the quick steps of
 * `erase-steps`; a loop does the rest as an operation, and continues after a crash.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { insertOperation, updateOperationProgress } from '#features/core/operations/operations.ts'
import { invalid } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { type DueLoop, isDue, startDueLoop } from '#platform/queue/due-loop.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { type Millis, minutes, seconds } from '#platform/units.ts'
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

/** Time that a request spends on steps. */
const MAX_REQUEST_MS = seconds(1)
/**
 * Maximum number of requests that run steps concurrently. The loop runs the steps of further requests, because their
 * batches together would block the service for long.
 */
const MAX_CONCURRENT_REQUESTS = 2
const getRequests = perOwner((_: App) => ({ running: 0 }))
/** How long the loop leaves a new erasure to its request; afterwards the request, or its process, has ended. */
const LEASE_MS = seconds(5)

const FAILURE_RETRY_MS = seconds(30)
/** Interval of checks whether a scrub has ended; its end also wakes the loop. */
const BYTES_CHECK_INTERVAL_MS = minutes(1)

/** Parses the person of a request; throws 422 for an invalid address. */
export function requirePerson(email: string | undefined): Person {
  const person = parsePerson(email ?? '')
  if (!person) throw invalid('email', 'email must be one address, such as ?email=ada@example.com.', 'invalid_address')
  return person
}

/**
 * Begins to erase an address from an account; resolves with the progress after at most a second. A repeated request
 * restarts a running erasure, because there may be new rows. Throws 422 for an invalid address.
 */
export async function erasePerson(app: App, actor: Actor, email: string | undefined) {
  const person = requirePerson(email)
  const { accountId } = actor
  const { addressKey } = person
  const started = await app.commit.writeFromReserve((tx) => {
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
      metadata: { rows_deleted: 0 },
    })
    const dueAt = app.clock.now() + LEASE_MS
    const erasure = { accountId, operationId: operation.id, address: addressKey, dueAt }
    const id = insertErasure(tx, erasure, app.eventTime())
    // The entry stays, so it does not contain the address.
    audit(app, tx, actor, { action: 'person.erased', resourceType: 'operation', resourceId: operation.uuid })
    return { id, operationId: operation.uuid, isNew: true }
  })
  if (started.isNew) await eraseInRequest(app, started.id)
  const erasure = findErasureById(app.db, started.id)
  return {
    address: addressKey,
    rows: erasure?.rows ?? 0,
    /** Whether all that is left are the bytes in the files, and open mail of other recipients. */
    isNearlyDone: erasure === undefined || erasure.step >= FIRST_LONG_STEP,
    /** Public id. */
    operationId: started.operationId,
  }
}

/** Runs the quick steps, then leaves the erasure to the loop. */
async function eraseInRequest(app: App, id: number): Promise<void> {
  const requests = getRequests(app)
  const otherRequests = requests.running
  const until = app.clock.monotonicMs() + MAX_REQUEST_MS
  requests.running++
  try {
    while (otherRequests < MAX_CONCURRENT_REQUESTS && app.clock.monotonicMs() < until) {
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

/**
 * Starts the loop that continues erasures. All erasures at a scrub step share one scrub; erasures at other steps
 * continue during it.
 */
export function startErasureLoop(app: App): DueLoop {
  const { clock, log } = app
  /** Running scrubs, by cursor. */
  const scrubs = new Map<number, Promise<void>>()
  let newestCursor = clock.now()

  const tryStep = async (erasure: Erasure): Promise<void> => {
    try {
      await runStep(app, erasure)
    } catch (error) {
      // One failing erasure must not delay the others.
      log.error({ err: error, erasure: erasure.id, step: STEPS[erasure.step]?.name }, 'a step of an erasure failed')
      await postpone(erasure, erasure.cursor, FAILURE_RETRY_MS)
    }
  }
  const postpone = (erasure: Erasure, cursor: number, waitMs: number): Promise<void> =>
    app.commit.writeFromReserve(
      (tx) => void updateErasure(tx, erasure, { step: erasure.step, cursor, rows: 0, dueAt: clock.now() + waitMs }),
    )
  /** Uses a new cursor each time, so that a scrub from before a restart does not count. */
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
 * Runs one step, or one batch of it; resolves with the wait before the next.
 * @param leasedUntil when the loop may continue; set while a request holds the erasure
 */
async function runStep(app: App, erasure: Erasure, leasedUntil?: Millis): Promise<number> {
  const step = STEPS[erasure.step]
  if (!step) throw new Error(`an erasure is at the unknown step ${erasure.step}`)
  const person = erasure.step < FIRST_WITHOUT_ADDRESS ? parsePerson(erasure.address) : NOBODY
  if (!person) throw new Error('an erasure has no address')
  const writing = await step.run(app, erasure, person)
  return app.commit.writeFromReserve((tx) => {
    const current = findErasureById(tx.db, erasure.id)
    // The erasure was restarted, or removed with its account: discard this result.
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

/** Stands for the person in steps that need no address. */
const NOBODY: Person = {
  addressKey: '',
  is: () => false,
  isIn: () => false,
  isNamedIn: () => false,
  eraseFrom: (text) => text,
}
