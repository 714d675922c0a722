/** @module Scans stored messages, batch by batch, for those from or to a person. */

export interface PersonSearch {
  readonly accountId: number
  /** Row id after which the scan starts. */
  readonly after: number
  /** Whether a header, or JSON of addresses, names the person. */
  readonly isIn: (header: string) => boolean
  readonly max: number
}

export interface FoundMessages {
  /** Row ids. */
  readonly ids: readonly number[]
  /** Where the next scan starts; undefined: all rows were scanned. */
  readonly next: number | undefined
}

/** Rows scanned in one tick of the event loop: about 5 ms. */
export const SCAN_BATCH_SIZE = 1000

/** Selects the rows with a header that names the person from a batch; rows with `isOwn` 0 belong to another account. */
export function selectOfPerson(
  rows: readonly ({ readonly id: number; readonly isOwn?: number } & object)[],
  { isIn, max }: PersonSearch,
): FoundMessages {
  const matching = rows.filter(
    ({ id: _, isOwn = 1, ...texts }) =>
      isOwn === 1 && Object.values(texts).some((text) => typeof text === 'string' && isIn(text)),
  )
  const ids = matching.slice(0, max).map(({ id }) => id)
  if (matching.length > max) return { ids, next: ids.at(-1) }
  return { ids, next: rows.length < SCAN_BATCH_SIZE ? undefined : rows.at(-1)?.id }
}
