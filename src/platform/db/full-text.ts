/** @module What every full-text index (FTS5) needs: words of a person made into a query, and an index without what was taken out of it. */
import type { Database } from 'bun:sqlite'
import { invalid } from '../errors.ts'
import type { Committer } from './commit.ts'

/** Pages of an index merged in one transaction: some 5 ms. */
const PAGES_PER_MERGE = 64

/**
 * Rewrites an index until no word of a row that was taken out is in it any more; of an index without any it does nothing. In steps.
 * https://sqlite.org/fts5.html, 6.7
 */
export async function compactFullText(commit: Pick<Committer, 'writeFromReserve'>, table: string): Promise<void> {
  // The first step, negative, begins a merge of everything into one; those after it go on with that.
  for (let pages = -PAGES_PER_MERGE; ; pages = PAGES_PER_MERGE) {
    const didWork = await commit.writeFromReserve(({ db }) => {
      const before = readTotalChanges(db)
      db.query(`INSERT INTO ${table} (${table}, rank) VALUES ('merge', ?)`).run(pages)
      return readTotalChanges(db) - before >= 2
    })
    if (!didWork) return
  }
}

const readTotalChanges = (db: Database): number =>
  db.query<{ n: number }, []>('SELECT total_changes() AS n').get()?.n ?? 0

const MAX_QUERY_LENGTH = 200
const MAX_WORDS = 20

/** What FTS5 counts as a part of a word (unicode61); a text without any of it would match nothing. */
const WORD_CHARACTER = /[\p{L}\p{N}\p{Co}]/u

/** A word or a token in quotes, in which nothing is syntax. */
export const quoteWord = (word: string): string => `"${word.replaceAll('"', '""')}"`

/**
 * The query for rows that have all words of a text, as a person types it. Throws the 422 of what is no search.
 * @param field the parameter that the text came in
 */
export function toAllWordsQuery(field: string, text: string): string {
  if (text.length > MAX_QUERY_LENGTH) throw invalid(field, `${field} must have at most ${MAX_QUERY_LENGTH} characters.`)
  const words = text
    .replaceAll('\0', ' ')
    .split(/\s+/u)
    .filter((word) => WORD_CHARACTER.test(word))
  if (words.length === 0) throw invalid(field, `${field} must have at least one word to search for.`)
  if (words.length > MAX_WORDS) throw invalid(field, `${field} must have at most ${MAX_WORDS} words.`)
  return words.map(quoteWord).join(' AND ')
}
