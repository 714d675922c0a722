/**
 * @module Records content references that a row dropped, in the same transaction. Identical content is stored once, so
 * another row may hold the same reference; the sweep (`sweep.ts`) checks this. The only writer of `content_garbage`.
 */
import type { App } from '#features/core/app/app.ts'
import { TABLE_FACTS } from '#features/core/app/table-facts.ts'
import type { ContentRef } from '#platform/content/store.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'

/** The position is the stored code: only append. */
export const STORES = ['content', 'rawMail'] as const
export type StoreName = (typeof STORES)[number]

/** References that a row dropped; null and 0 mean none. */
export type DroppedRefs = Readonly<Partial<Record<StoreName, readonly (ContentRef | null | undefined)[]>>>

const sql = prepareStatements((db) => ({
  add: db.prepare(
    'INSERT INTO content_garbage (store, ref, times) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET times = times + 1',
  ),
}))

/** Records references that a row held until this transaction, and wakes the sweep once the transaction is durable. */
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
 * Calls `write`, which stores rows that refer to newly stored blobs. When `write` fails, the blobs are recorded as
 * dropped, because perhaps no row refers to them. If the process crashes during `write`, the monthly scan finds the
 * blobs.
 * @param write runs one transaction
 */
export async function dropContentOnFailure<T>(
  app: Pick<App, 'commit' | 'contentDropped'>,
  stored: DroppedRefs,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write()
  } catch (error) {
    // When nothing can be written, this write fails too. Its error is ignored, because the first error is rethrown.
    await app.commit.writeFromReserve((tx) => dropContent(app, tx, stored)).catch(() => undefined)
    throw error
  }
}

export interface Source {
  readonly table: string
  /** Columns that hold one reference. */
  readonly columns: readonly string[]
  /** Columns that hold a JSON array of objects with the reference in `ref`. */
  readonly json: readonly string[]
}

const listSources = (toSource: (table: string) => Source): Source[] =>
  [...TABLE_FACTS.keys()].map(toSource).filter(({ columns, json }) => columns.length + json.length > 0)

/**
 * Every column that refers to the content stores, as the tables state it. The sweep would delete blobs to which only
 * another column refers, so test/features/core/content-gc/sources.test.ts compares the facts with the tables.
 */
export const SOURCES: Readonly<Record<StoreName, readonly Source[]>> = {
  content: listSources((table) => {
    const { content = [], attachments } = TABLE_FACTS.get(table) ?? {}
    return { table, columns: content, json: attachments === undefined ? [] : [attachments] }
  }),
  rawMail: listSources((table) => ({ table, columns: TABLE_FACTS.get(table)?.rawMail ?? [], json: [] })),
}
