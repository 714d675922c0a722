/**
 * @module The mails that are owed, to the owners of accounts and to contacts, and the loop that has them sent when due.
 * The transaction of the cause schedules a notice, and the transaction that accepts its mail deletes it, so that no crash
 * loses or repeats a mail. Each account has a queue per kind; all queues take turns, some at the same time, so no account
 * waits for another's mail. What waits as restored stays. The kind sends the mail and decides what becomes of a notice
 * whose mail fails.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { readFence } from '#features/core/fence/restored.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { isStorageFailure } from '#platform/disk/storage-errors.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { days, hours, type Millis, minutes } from '#platform/units.ts'
import type { notices } from './tables.ts'

/** How notices of a kind become mail. */
export interface NoticeKind {
  readonly kind: string
  /** How many notices of an account `send` gets at a time. */
  readonly batchSize: number
  /** Notices that are due within this time are sent with those that are due. */
  readonly aheadMs?: number
  /**
   * Sends due notices of an account, and deletes or postpones each. Resolves with the time until which the account gets
   * no more mail of this kind, or with `held` if its mail cannot be sent for now. Throws storage errors.
   */
  send(notices: readonly Notice[]): Promise<Millis | 'held' | undefined>
}

interface Queue {
  readonly accountId: number
  readonly kind: string
}

interface QueueHead extends Queue {
  /** Due time of its first notice. */
  readonly dueAt: Millis
}

/** A queue that is not served until a time; `failures` counts its consecutive failures. */
interface Wait {
  readonly until: Millis
  readonly failures: number
}

const sql = prepareStatements((db) => ({
  // These look only at notices that do not wait as restored, which have lower row ids.
  first: db.prepare<{ dueAt: Millis }, [number]>(
    'SELECT due_at AS dueAt FROM notices WHERE +id > ? ORDER BY due_at LIMIT 1',
  ),
  // Finds the next queue in the order of the index, by its first row: one lookup, whatever the length of the queue.
  nextQueue: db.prepare<QueueHead, [number, string, number]>(
    `SELECT account_id AS accountId, kind, due_at AS dueAt FROM notices WHERE (account_id, kind) > (?, ?) AND +id > ?
     ORDER BY account_id, kind, due_at LIMIT 1`,
  ),
  due: db.prepare<Notice, [number, string, Millis, number, number]>(
    `SELECT id, account_id AS accountId, kind, topic, data, due_at AS dueAt, attempts FROM notices
     WHERE account_id = ? AND kind = ? AND due_at <= ? AND +id > ? ORDER BY due_at LIMIT ?`,
  ),
  // For rows written while the clock was ahead: a new row keeps its delay, counted from now; a postponed row is due
  // now.
  mendTimes: db.prepare(
    `UPDATE notices SET due_at = CASE WHEN created_at > ?1 + ?2 THEN due_at - (created_at - ?1) ELSE ?1 END, created_at = min(created_at, ?1)
     WHERE created_at > ?1 + ?2 OR (attempts > 0 AND due_at > ?1 + ?3)`,
  ),
  schedule: db.prepare(
    `INSERT INTO notices (account_id, kind, topic, data, due_at, attempts, created_at) VALUES (?, ?, ?, ?, ?, 0, ?)
     ON CONFLICT DO UPDATE SET data = excluded.data, due_at = excluded.due_at, attempts = 0, created_at = excluded.created_at`,
  ),
  find: db.prepare<Notice, [number, string]>(`SELECT ${COLUMNS} FROM notices WHERE topic = ? AND kind = ?`),
  cancel: db.prepare('DELETE FROM notices WHERE topic = ? AND kind = ?'),
  // Changes nothing if the notice was scheduled again since it was read.
  delete: db.prepare('DELETE FROM notices WHERE id = ? AND due_at = ?'),
  postpone: db.prepare('UPDATE notices SET due_at = ?, attempts = attempts + 1 WHERE id = ? AND due_at = ?'),
  deleteOverdue: db.prepare(
    'DELETE FROM notices WHERE id IN (SELECT id FROM notices WHERE account_id = ? AND kind = ? AND due_at < ? ORDER BY due_at LIMIT ?)',
  ),
  deleteRestored: db.prepare('DELETE FROM notices WHERE id <= ? AND kind IN (SELECT value FROM json_each(?))'),
  countRestored: db.prepare<{ n: number }, [number, string, Millis]>(
    'SELECT count(*) AS n FROM notices WHERE id <= ? AND kind IN (SELECT value FROM json_each(?)) AND due_at <= ?',
  ),
  restored: db.prepare<Notice, [number, string, number]>(
    `SELECT ${COLUMNS} FROM notices WHERE id <= ? AND kind = ? LIMIT ?`,
  ),
}))

/** Queues served at the same time, so that one slow template does not stop the others. */
const MAX_CONCURRENT_QUEUES = 8
/** Delays while an account's mail cannot be sent. */
const HOLD_DELAYS = { minMs: minutes(1), maxMs: hours(1) }
const CHECK_INTERVAL_MS = minutes(1)
/** A stored creation time counts as wrong only if it is later than the clock by more than this. */
const CLOCK_TOLERANCE_MS = minutes(1)
/** No kind postpones a notice for longer. */
const MAX_POSTPONED_MS = days(1)
const ALL_TIMES: Millis = Number.MAX_SAFE_INTEGER
const BEFORE_ALL: Queue = { accountId: 0, kind: '' }

const keyOf = ({ accountId, kind }: Queue): string => `${accountId} ${kind}`

const isAfter = (head: Queue, { accountId, kind }: Queue): boolean =>
  head.accountId > accountId || (head.accountId === accountId && head.kind > kind)

/** All queues, first those after the last one that was served. */
function* listQueues(db: Database, last: Queue, restoredId: number): Generator<QueueHead> {
  const next = ({ accountId, kind }: Queue) => sql(db).nextQueue.get(accountId, kind, restoredId)
  for (let head = next(last); head; head = next(head)) yield head
  for (let head = next(BEFORE_ALL); head && !isAfter(head, last); head = next(head)) yield head
}

/** The queues of all accounts, served step by step. */
export class NoticeQueues {
  readonly #app: App
  readonly #kinds: ReadonlyMap<string, NoticeKind>
  readonly #waits = new Map<string, Wait>()
  /** The queue that was served last. */
  #last: Queue = BEFORE_ALL
  /** True at the start and after the clock was set back: stored due times may come from a clock that was ahead. */
  #areTimesSuspect = true

  constructor(app: App, kinds: readonly NoticeKind[]) {
    this.#app = app
    this.#kinds = new Map(kinds.map((kind) => [kind.kind, kind]))
  }

  /** For a clock that was set back: these times were computed with the clock that was ahead. */
  resetTimes(): void {
    this.#waits.clear()
    this.#areTimesSuspect = true
  }

  /** Serves the queues that are due, at most MAX_CONCURRENT_QUEUES. Resolves with the time of the next step. */
  async step(ending: AbortSignal): Promise<Millis> {
    const { clock, commit, db } = this.#app
    const now = clock.now()
    if (this.#areTimesSuspect) {
      await commit.writeFromReserve((tx) => sql(tx.db).mendTimes.run(now, CLOCK_TOLERANCE_MS, MAX_POSTPONED_MS))
      this.#areTimesSuspect = false
    }
    for (const [key, { until, failures }] of this.#waits) if (failures === 0 && until <= now) this.#waits.delete(key)
    const restoredId = readLastRestoredId(db)
    let next = now + CHECK_INTERVAL_MS
    const first = sql(db).first.get(restoredId)?.dueAt ?? next
    if (first > now) return Math.min(first, next)
    const due: QueueHead[] = []
    for (const queue of listQueues(db, this.#last, restoredId)) {
      const at = Math.max(queue.dueAt, this.#waits.get(keyOf(queue))?.until ?? 0)
      if (at > now) next = Math.min(next, at)
      else if (ending.aborted || due.push(queue) === MAX_CONCURRENT_QUEUES) break
    }
    this.#last = due.at(-1) ?? this.#last
    const errors = await Promise.all(due.map((queue) => this.#serve(queue, restoredId)))
    const error = errors.find((found) => found !== undefined)
    if (error !== undefined) throw error
    return due.length > 0 ? clock.now() : next
  }

  /** Resolves with the error of a failing storage; any other error only holds the queue. */
  async #serve(queue: QueueHead, restoredId: number): Promise<unknown> {
    const { clock, db, log } = this.#app
    const { accountId, kind: name } = queue
    const now = clock.now()
    const failures = (this.#waits.get(keyOf(queue))?.failures ?? 0) + 1
    let until: Millis | 'held' | undefined = 'held'
    try {
      const kind = this.#kinds.get(name)
      if (!kind) throw new Error(`there is no kind of notice "${name}"`)
      const { aheadMs = 0, batchSize } = kind
      until = await kind.send(sql(db).due.all(accountId, name, now + aheadMs, restoredId, batchSize))
    } catch (error) {
      if (isStorageFailure(error)) return error
      log.error({ err: error, accountId, kind: name }, 'notices not sent; retrying')
    }
    if (until === undefined) this.#waits.delete(keyOf(queue))
    else if (until === 'held')
      this.#waits.set(keyOf(queue), { until: now + backoffDelayMs(failures, HOLD_DELAYS), failures })
    else this.#waits.set(keyOf(queue), { until, failures: 0 })
    return undefined
  }
}

/** Starts the loop; `App.noticeDue` wakes it. */
export function startNotices(app: App, kinds: readonly NoticeKind[]): DueLoop {
  const { clock, clockSetBack, log, noticeDue } = app
  const queues = new NoticeQueues(app, kinds)
  return startDueLoop({
    name: 'notices',
    clock,
    log,
    wokenBy: [noticeDue, clockSetBack],
    step: (ending) => queues.step(ending),
    onEnded: clockSetBack.listen(() => queues.resetTimes()),
  })
}

export type Notice = Readonly<Omit<typeof notices.$inferSelect, 'createdAt'>>

/** Of each topic, one notice of a kind is owed at a time. */
export type NewNotice = Omit<Notice, 'id' | 'data' | 'attempts'> & Partial<Pick<Notice, 'data'>>

const COLUMNS = 'id, account_id AS accountId, kind, topic, data, due_at AS dueAt, attempts'

/** Schedules a notice; one of the same kind and topic that waits gets this data and due time. */
export function scheduleNotice(
  app: Pick<App, 'clock' | 'noticeDue'>,
  tx: Tx,
  { accountId, kind, topic, data = null, dueAt }: NewNotice,
): void {
  sql(tx.db).schedule.run(accountId, kind, topic, data, dueAt, app.clock.now())
  tx.afterCommit(() => app.noticeDue.emit())
}

/** The notice that waits. */
export const findNotice = (db: Database, kind: string, topic: number): Notice | undefined =>
  sql(db).find.get(topic, kind) ?? undefined

/** Deletes the notice that waits, if there is one. */
export const cancelNotice = (tx: Tx, kind: string, topic: number): void => void sql(tx.db).cancel.run(topic, kind)

/** Deletes a notice whose mail is sent or no longer wanted; false if it was scheduled again or cancelled since then. */
export const deleteNotice = (tx: Tx, { id, dueAt }: Notice): boolean => sql(tx.db).delete.run(id, dueAt).changes > 0

/** Records a failed attempt. */
export const postponeNotice = (tx: Tx, { id, dueAt }: Notice, until: Millis): void =>
  void sql(tx.db).postpone.run(until, id, dueAt)

/** Deletes notices of a queue that have been due since before a time, at most `limit`; returns how many. */
export const deleteOverdueNotices = (
  tx: Tx,
  { accountId, kind }: Pick<Notice, 'accountId' | 'kind'>,
  before: Millis,
  limit: number,
): number => sql(tx.db).deleteOverdue.run(accountId, kind, before, limit).changes

/** The last notice that waits as restored; 0 if none does. */
export const readLastRestoredId = (db: Database): number => readFence(db)?.lastIds['notices'] ?? 0

/** Deletes notices that wait as restored, because the operator dropped them. */
export const dropRestoredNotices = (tx: Tx, kinds: readonly string[]): void =>
  void sql(tx.db).deleteRestored.run(readLastRestoredId(tx.db), JSON.stringify(kinds))

/** How many notices wait as restored, of those that were due before a time. */
export const countRestoredNotices = (db: Database, kinds: readonly string[], before = ALL_TIMES): number =>
  sql(db).countRestored.get(readLastRestoredId(db), JSON.stringify(kinds), before)?.n ?? 0

/** Notices of a kind that wait as restored. */
export const listRestoredNotices = (db: Database, kind: string, limit: number): Notice[] =>
  sql(db).restored.all(readLastRestoredId(db), kind, limit)

/** A mail to the owners of an account, for the notices of one kind that are due. */
export interface OwnerMail {
  readonly subject: string
  /** For each address, or for all. */
  readonly text: string | ((to: string) => string)
  /** Called for each notice in the transaction that accepts the mail. */
  readonly onSent?: (tx: Tx, notice: Notice) => void
}

/** A kind of notice to the owners of an account, as the feature that schedules it composes it. */
export interface OwnerNotice {
  readonly kind: string
  /** Minimum time between two mails to an account. */
  readonly intervalMs: number
  /** Delay before the next attempt when no one could be mailed; default: a day. */
  readonly retryMs?: number
  /** Notices that are due within this time are in the same mail. */
  readonly aheadMs?: number
  /** Whether the owners of the parent account get the mail too. */
  readonly isForParent?: boolean
  /** Undefined when there is no reason for the mail any more. */
  compose(app: App, account: { readonly name: string }, notices: readonly Notice[]): OwnerMail | undefined
}
