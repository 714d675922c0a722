/**
 * @module Ranks domains from partially read lists, one per day or month and each sorted by count. Determines which
 * domains can be among the largest sums, and whether a domain that no list has shown yet can be among them. Never
 * accesses the database.
 */

export interface DayRow {
  readonly sent: number
  readonly domain: string
}

/** How much was read of the list of a day, or of a whole month. */
export interface DayList {
  /** The key of the day or month, as returned by `listRowKeys`. */
  readonly day: number
  /** The count of the last row read, which no later row exceeds; 0 when the list is exhausted. */
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

/** Records the rows of one read; fewer than `asked` means the list is exhausted. */
export function recordRead(list: DayList, rows: readonly DayRow[], asked: number): void {
  list.isExhausted = rows.length < asked
  for (const { sent, domain } of rows) {
    if (sent > list.sent || (sent === list.sent && domain >= list.domain)) continue
    list.sent = sent
    list.domain = domain
  }
  if (list.isExhausted) list.sent = 0
}

/** The rows read so far from all lists, summed by domain. */
export class Ranking {
  readonly #lists: readonly DayList[]
  readonly #numbers = new Map<string, number>()
  readonly #domains: string[] = []
  /** Known sum of each domain. */
  readonly #known: number[] = []
  /** Domain and list of each row read. */
  readonly #rowDomains: number[] = []
  readonly #rowLists: DayList[] = []

  constructor(lists: readonly DayList[]) {
    this.#lists = lists
  }

  get rows(): number {
    return this.#rowDomains.length
  }

  get domains(): number {
    return this.#domains.length
  }

  add(list: DayList, rows: readonly DayRow[]): void {
    for (const { domain, sent } of rows) {
      let number = this.#numbers.get(domain)
      if (number === undefined) {
        number = this.#domains.push(domain) - 1
        this.#numbers.set(domain, number)
      }
      this.#known[number] = (this.#known[number] ?? 0) + sent
      this.#rowDomains.push(number)
      this.#rowLists.push(list)
    }
  }

  /** The domains with the largest known sums; ties are sorted by name. */
  listBest(limit: number): string[] {
    const threshold = findNthLargest(this.#known, limit)
    const larger = this.#domains.filter((_, number) => (this.#known[number] ?? 0) > threshold)
    const equal = this.#domains.filter((_, number) => this.#known[number] === threshold)
    return [...larger, ...takeSmallest(equal, limit - larger.length)]
  }

  /**
   * The candidates for the largest sums; undefined if there are more than `most`, or if an unread domain may be a
   * candidate.
   */
  findDecided(limit: number, most: number): string[] | undefined {
    // An unread domain has at most the sum of the last counts of all lists.
    const unseen = this.#lists.reduce((sum, { sent }) => sum + sent, 0)
    const threshold = findNthLargest(this.#known, limit)
    if (this.#domains.length < limit || unseen >= threshold) return undefined
    const possible = Float64Array.from(this.#known, (sent) => sent + unseen)
    for (const [row, number] of this.#rowDomains.entries())
      possible[number] = (possible[number] ?? 0) - (this.#rowLists[row]?.sent ?? 0)
    const candidates = this.#domains.filter((_, number) => (possible[number] ?? 0) >= threshold)
    return candidates.length <= most ? candidates : undefined
  }
}

/** The alphabetically first of many texts, without sorting all of them. */
function takeSmallest(texts: readonly string[], count: number): string[] {
  const first: string[] = []
  for (const text of texts) {
    if (first.length === count && text >= (first.at(-1) ?? '')) continue
    first.push(text)
    first.sort()
    if (first.length > count) first.pop()
  }
  return first
}

/** The n-th largest of many numbers; 0 when there are fewer. */
const findNthLargest = (values: readonly number[], n: number): number => Float64Array.from(values).sort().at(-n) ?? 0
