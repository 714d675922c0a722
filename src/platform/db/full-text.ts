/** @module Full-text search (FTS5): turns a person's words into a query, and purges deleted words from an index. */
import type { Database } from 'bun:sqlite'
import { invalid } from '../errors.ts'
import type { Committer } from './commit.ts'

/** Index pages merged per transaction: some 5 ms. */
const PAGES_PER_MERGE = 64

/**
 * Rewrites an index, in steps, until it contains no word of a deleted row; does nothing for an index without such
 * words. https://sqlite.org/fts5.html, 6.7
 */
export async function compactFullText(commit: Pick<Committer, 'writeFromReserve'>, table: string): Promise<void> {
  // The first, negative step begins to merge everything into one segment; later steps continue.
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

/** Characters that FTS5 (unicode61) counts as part of a word; a text without any of them would match nothing. */
const WORD_CHARACTER = /[\p{L}\p{N}\p{Co}]/u

/** Quotes a word, so that nothing in it is syntax. */
const quoteWord = (word: string): string => `"${word.replaceAll('"', '""')}"`

/**
 * Builds the query for rows that contain all words of a text, as a person types it. Throws a 422 for an unusable text.
 * @param field the parameter that held the text
 */
export const toAllWordsQuery = (field: string, text: string): string =>
  parseSearchedWords(field, text).map(quoteWord).join(' AND ')

/**
 * The words of a text, as a person types it. Throws a 422 for an unusable text.
 * @param options.isWord whether an index could contain a word
 */
export function parseSearchedWords(
  field: string,
  text: string,
  {
    isWord = (word) => WORD_CHARACTER.test(word),
    maxLength = MAX_QUERY_LENGTH,
  }: { readonly isWord?: (word: string) => boolean; readonly maxLength?: number | undefined } = {},
): string[] {
  if (text.length > maxLength) throw invalid(field, `${field} must have at most ${maxLength} characters.`)
  const words = text.replaceAll('\0', ' ').split(/\s+/u).filter(isWord)
  if (words.length === 0) throw invalid(field, `${field} must have at least one word to search for.`)
  if (words.length > MAX_WORDS) throw invalid(field, `${field} must have at most ${MAX_WORDS} words.`)
  return words
}
