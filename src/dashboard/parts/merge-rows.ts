/** @module What of a list that was read again is shown in the place of the rows before. */

export interface Row {
  readonly id: string
}

/** The shown rows as they are now. One that is missing was pushed off the page by new ones, or else it was deleted. */
export function mergeRows<T extends Row>(
  shown: readonly T[],
  latest: readonly T[],
): { readonly rows: readonly T[]; readonly newCount: number } {
  const latestById = new Map(latest.map((row) => [row.id, row]))
  const shownIds = new Set(shown.map(({ id }) => id))
  const firstShown = latest.findIndex(({ id }) => shownIds.has(id))
  const newCount = firstShown === -1 ? latest.length : firstShown
  const rows = shown.flatMap((row) => latestById.get(row.id) ?? (newCount > 0 ? row : []))
  return { rows, newCount }
}
