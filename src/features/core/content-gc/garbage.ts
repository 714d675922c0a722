/**
 * @module Lets go of parts of the content stores: a row that no longer holds a reference says so here, in the same transaction. Identical parts are
 * stored once, so another row may hold the same; the sweep (`sweep.ts`) finds out. The only writer of `content_garbage`.
 */
import type { App } from '#features/core/app/app.ts'
import type { ContentRef } from '#platform/content/store.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

/** Position = the stored code: only ever append. */
export const STORES = ['content', 'rawMail'] as const
export type StoreName = (typeof STORES)[number]

/** References that a row let go of; null and 0 are none. */
export type DroppedRefs = Readonly<Partial<Record<StoreName, readonly (ContentRef | null | undefined)[]>>>

const sql = prepareStatements((db) => ({
  add: db.prepare(
    'INSERT INTO content_garbage (store, ref, times) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET times = times + 1',
  ),
}))

/** Notes references that a row held until this transaction; wakes the sweep once that is durable. */
export function dropContent(app: Pick<App, 'contentDropped'>, tx: Tx, dropped: DroppedRefs): void {
  let hasAny = false
  for (const [code, store] of STORES.entries()) {
    for (const ref of dropped[store] ?? []) {
      if (!ref) continue
      sql(tx.db).add.run(code, ref)
      hasAny = true
    }
  }
  if (hasAny) tx.afterCommit(() => app.contentDropped.emit())
}

/**
 * Writes rows that are to refer to parts which were stored for them. When that fails, the parts are noted, since nothing may refer to them: what was refused
 * does not stay. What a crash leaves here is found by the look through whole months.
 * @param write one transaction
 */
export async function dropContentOnFailure<T>(
  app: Pick<App, 'commit' | 'contentDropped'>,
  stored: DroppedRefs,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write()
  } catch (error) {
    // The error that is told is the first one; when nothing can be written, this cannot either.
    await app.commit.writeFromReserve((tx) => dropContent(app, tx, stored)).catch(() => undefined)
    throw error
  }
}
