/**
 * @module The busiest recipient domains of a period, without adding up all of them: an account writes to thousands of domains a day, and most get a message or
 * two. Each day has its domains in order of what was sent to them (an index); these lists are read from their beginnings only, as far as it takes to know
 * that nobody further down can be among the first (Fagin's threshold algorithm). Gives way to others every few ms.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/app.ts'
import { giveWay } from '#platform/clock.ts'
import { prepared } from '#platform/db/open.ts'
import { tooMany } from '#platform/errors.ts'
import type { DailyFigures } from '../events/figures.ts'
import { FIGURE_SUMS } from './figures.ts'
import type { Period } from './period.ts'

export interface DomainFigures extends DailyFigures {
  readonly domain: string
}

/** Read of each day at first. */
const FIRST_DEPTH = 16
/**
 * Most rows that are read, and most domains that are remembered. Only mail that goes to hundreds of thousands of domains in equal parts comes so far; then
 * the first are told of what was read.
 */
const MOST_ROWS = 1_000_000
const MOST_DOMAINS = 250_000
/** Domains beside those wanted that are looked up one by one. */
const MOST_DOUBTFUL = 64
const SLICE_MS = 4
/** Requests of one account that wait for their turn. */
const MOST_WAITING = 8

const sql = prepared((db) => ({
  first: db.prepare<{ sent: number; domain: string }, [number, number, number]>(
    `SELECT sent, domain FROM daily_figures WHERE account_id = ? AND day = ? AND sent > 0 AND domain <> '' ORDER BY sent DESC, domain DESC LIMIT ?`,
  ),
  next: db.prepare<{ sent: number; domain: string }, [number, number, number, string, number]>(
    `SELECT sent, domain FROM daily_figures WHERE account_id = ? AND day = ? AND sent > 0 AND domain <> '' AND (sent, domain) < (?, ?)
     ORDER BY sent DESC, domain DESC LIMIT ?`,
  ),
  // A seek a day: a range over the days would go through all of their domains.
  sums: db.prepare<DailyFigures, [number, number, number, string]>(
    `WITH RECURSIVE wanted (day) AS (SELECT ?1 UNION ALL SELECT day + 1 FROM wanted WHERE day < ?2)
     SELECT ${FIGURE_SUMS} FROM wanted CROSS JOIN daily_figures f ON f.account_id = ?3 AND f.day = wanted.day AND f.domain = ?4`,
  ),
}))

/** The figures of a period of one domain. */
export const figuresOfDomain = (db: Database, accountId: number, domain: string, { fromDay, toDay }: Period) =>
  sql(db).sums.get(fromDay, toDay, accountId, domain) as DailyFigures

/** The requests of an account: the last of them, and how many are not answered. */
interface Turn {
  last: Promise<unknown>
  count: number
}

const turns = new WeakMap<Database, Map<number, Turn>>()

/**
 * The domains of a period that most was sent to, by that and then by name. What is counted meanwhile may be in it or not. Throws 429 when too many of the
 * account's requests wait for it.
 * @param limit most domains in the answer
 */
export async function busiestDomains(
  app: Pick<App, 'db' | 'clock'>,
  accountId: number,
  period: Period,
  limit: number,
): Promise<DomainFigures[]> {
  const ofAccounts = turns.get(app.db) ?? new Map<number, Turn>()
  turns.set(app.db, ofAccounts)
  const turn = ofAccounts.get(accountId) ?? { last: Promise.resolve(), count: 0 }
  if (turn.count >= MOST_WAITING)
    throw tooMany('too_many_requests', 'Several requests for domains are being answered; wait for them.', 1)
  ofAccounts.set(accountId, turn)
  turn.count++
  const found = turn.last.then(() => find(app, accountId, period, limit))
  turn.last = found.catch(() => undefined)
  try {
    return await found
  } finally {
    if (--turn.count === 0) ofAccounts.delete(accountId)
  }
}

/** What was read of one day. */
interface DayList {
  readonly day: number
  sent: number
  domain: string
  isOver: boolean
}

async function find(
  { db, clock }: Pick<App, 'db' | 'clock'>,
  accountId: number,
  period: Period,
  limit: number,
): Promise<DomainFigures[]> {
  let sliceFrom = clock.monotonicMs()
  const mayRest = async (): Promise<void> => {
    if (clock.monotonicMs() - sliceFrom < SLICE_MS) return
    await giveWay()
    sliceFrom = clock.monotonicMs()
  }
  const lists: DayList[] = []
  for (let day = period.fromDay; day <= period.toDay; day++) lists.push({ day, sent: 0, domain: '', isOver: false })
  const seen = createSeen(lists)

  for (let depth = Math.max(FIRST_DEPTH, limit); ; depth *= 2) {
    const isFirst = seen.rows === 0
    for (const [index, list] of lists.entries()) {
      if (list.isOver) continue
      const most = isFirst ? depth : depth / 2
      const rows = isFirst
        ? sql(db).first.all(accountId, list.day, most)
        : sql(db).next.all(accountId, list.day, list.sent, list.domain, most)
      for (const { sent, domain } of rows) seen.add(index, domain, sent)
      const end = rows.at(-1)
      list.isOver = rows.length < most
      list.domain = end?.domain ?? ''
      list.sent = list.isOver ? 0 : (end?.sent ?? 0)
      await mayRest()
    }
    const isFull = seen.rows >= MOST_ROWS || seen.size >= MOST_DOMAINS
    const isRead = isFull || lists.every(({ isOver }) => isOver)
    const candidates = isRead ? seen.best(limit) : seen.decided(limit)
    await mayRest()
    if (!candidates) continue
    const figures: DomainFigures[] = []
    for (const domain of candidates) {
      figures.push({ ...figuresOfDomain(db, accountId, domain, period), domain })
      await mayRest()
    }
    return figures.sort((a, b) => b.sent - a.sent || (a.domain < b.domain ? -1 : 1)).slice(0, limit)
  }
}

/** What was read so far, over all days. */
interface Seen {
  readonly rows: number
  /** Distinct domains. */
  readonly size: number
  add(list: number, domain: string, sent: number): void
  /** The first by what is known of them, and all that have as much as the last of those. */
  best(limit: number): string[]
  /** Those that can be among the first, when they are few and none that was not seen can be; else undefined. */
  decided(limit: number): string[] | undefined
}

function createSeen(lists: readonly DayList[]): Seen {
  const numbers = new Map<string, number>()
  const domains: string[] = []
  /** What is known to have been sent to each domain. */
  const known: number[] = []
  /** Of each row that was read: the domain and the list. */
  const rowDomains: number[] = []
  const rowLists: number[] = []

  const atLeast = (bounds: readonly number[] | Float64Array, least: number): string[] =>
    domains.filter((_, number) => (bounds[number] ?? 0) >= least)

  return {
    get rows() {
      return rowDomains.length
    },
    get size() {
      return domains.length
    },
    add(list, domain, sent) {
      let number = numbers.get(domain)
      if (number === undefined) {
        number = domains.length
        numbers.set(domain, number)
        domains.push(domain)
        known.push(0)
      }
      known[number] = (known[number] ?? 0) + sent
      rowDomains.push(number)
      rowLists.push(list)
    },
    best(limit) {
      const least = nthLargest(known, limit)
      // Of those that are equal the first by name.
      const more = atLeast(known, least + 1)
      const equal = domains.filter((_, number) => known[number] === least)
      return [...more, ...smallest(equal, limit - more.length)]
    },
    decided(limit) {
      // Nobody who was not seen has more than the sum of what the lists are down to.
      const unseen = lists.reduce((sum, { sent }) => sum + sent, 0)
      const least = nthLargest(known, limit)
      if (domains.length < limit || unseen >= least) return undefined
      const most = Float64Array.from(known, (sent) => sent + unseen)
      for (const [row, number] of rowDomains.entries())
        most[number] = (most[number] ?? 0) - (lists[rowLists[row] ?? 0]?.sent ?? 0)
      const candidates = atLeast(most, least)
      return candidates.length <= 4 * limit + MOST_DOUBTFUL ? candidates : undefined
    },
  }
}

/** The first texts in order, of many. */
function smallest(texts: readonly string[], count: number): string[] {
  if (texts.length <= count) return [...texts]
  const first: string[] = []
  for (const text of texts) {
    const last = first.at(-1)
    if (first.length === count && last !== undefined && text >= last) continue
    let place = first.length
    while (place > 0 && text < (first[place - 1] ?? '')) place--
    first.splice(place, 0, text)
    if (first.length > count) first.pop()
  }
  return first
}

/** The n-th largest of many numbers; 0 when there are fewer. Keeps a heap of n, whose root is the least. */
function nthLargest(values: readonly number[], n: number): number {
  if (values.length < n) return 0
  const heap = Float64Array.from(values.slice(0, n)).sort()
  for (let index = n; index < values.length; index++) {
    const value = values[index] ?? 0
    if (value <= (heap[0] ?? 0)) continue
    let place = 0
    for (;;) {
      let child = 2 * place + 1
      if (child >= n) break
      if (child + 1 < n && (heap[child + 1] ?? 0) < (heap[child] ?? 0)) child++
      if ((heap[child] ?? 0) >= value) break
      heap[place] = heap[child] ?? 0
      place = child
    }
    heap[place] = value
  }
  return heap[0] ?? 0
}
