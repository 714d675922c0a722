/**
 * @module Every column that refers to the content stores, as the tables state it. The sweep would delete blobs to which
 * only another column refers, so test/features/core/content-gc/sources.test.ts compares the facts with the tables.
 */
import { TABLE_FACTS } from '#features/core/app/table-facts.ts'
import type { StoreName } from './garbage.ts'

export interface Source {
  readonly table: string
  /** Columns that hold one reference. */
  readonly columns: readonly string[]
  /** Columns that hold a JSON array of objects with the reference in `ref`. */
  readonly json: readonly string[]
}

const listSources = (toSource: (table: string) => Source): Source[] =>
  [...TABLE_FACTS.keys()].map(toSource).filter(({ columns, json }) => columns.length + json.length > 0)

export const SOURCES: Readonly<Record<StoreName, readonly Source[]>> = {
  content: listSources((table) => {
    const { content = [], attachments } = TABLE_FACTS.get(table) ?? {}
    return { table, columns: content, json: attachments === undefined ? [] : [attachments] }
  }),
  rawMail: listSources((table) => ({ table, columns: TABLE_FACTS.get(table)?.rawMail ?? [], json: [] })),
}
