/**
 * @module What was read of lists that are each in order of their numbers, a list a day or month, and what follows from it for their sums: which can be among the
 * largest, and whether any that was not read can. Knows no database.
 */

export interface DayRow {
  readonly sent: number
  readonly domain: string
}

/** How far the list of a day, or of a whole month, was read. */
export interface DayList {
  /** As `listRowKeys` gives it. */
  readonly day: number
  /** The last that was read: whatever comes has no more. 0 at the end. */
  sent: number
  domain: string
  isExhausted: boolean
}

export const createDayList = (day: number): DayList => ({
  day,
  sent: Number.POSITIVE_INFINITY,
  domain: '',
  isExhausted: false,
})

/** Notes what was read when so many were asked for. */
export function recordRead(list: DayList, rows: readonly DayRow[], asked: number): void {
  list.isExhausted = rows.length < asked
  for (const { sent, domain } of rows) {
    if (sent > list.sent || (sent === list.sent && domain >= list.domain)) continue
    list.sent = sent
    list.domain = domain
  }
  if (list.isExhausted) list.sent = 0
}

/** What was read so far, over all lists. */
export interface Ranking {
  readonly rows: number
  /** Distinct domains. */
  readonly domains: number
  add(list: DayList, rows: readonly DayRow[]): void
  /** The first by what is known of them; of those that are equal the first by name. */
  listBest(limit: number): string[]
  /** Those that can be among the first, when they are no more than `most` and none that was not seen can be; else undefined. */
  findDecided(limit: number, most: number): string[] | undefined
}

export function createRanking(lists: readonly DayList[]): Ranking {
  const numbers = new Map<string, number>()
  const domains: string[] = []
  /** What is known to have been sent to each domain. */
  const known: number[] = []
  /** Of each row that was read: the domain and the list. */
  const rowDomains: number[] = []
  const rowLists: DayList[] = []

  return {
    get rows() {
      return rowDomains.length
    },
    get domains() {
      return domains.length
    },
    add(list, rows) {
      for (const { domain, sent } of rows) {
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
      }
    },
    listBest(limit) {
      const least = findNthLargest(known, limit)
      const more = domains.filter((_, number) => (known[number] ?? 0) > least)
      const equal = domains.filter((_, number) => known[number] === least)
      return [...more, ...takeSmallest(equal, limit - more.length)]
    },
    findDecided(limit, most) {
      // Nobody who was not seen has more than the sum of what the lists are down to.
      const unseen = lists.reduce((sum, { sent }) => sum + sent, 0)
      const least = findNthLargest(known, limit)
      if (domains.length < limit || unseen >= least) return undefined
      const possible = Float64Array.from(known, (sent) => sent + unseen)
      for (const [row, number] of rowDomains.entries())
        possible[number] = (possible[number] ?? 0) - (rowLists[row]?.sent ?? 0)
      const candidates = domains.filter((_, number) => (possible[number] ?? 0) >= least)
      return candidates.length <= most ? candidates : undefined
    },
  }
}

/** The first texts in order, of many. */
function takeSmallest(texts: readonly string[], count: number): string[] {
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
function findNthLargest(values: readonly number[], n: number): number {
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
