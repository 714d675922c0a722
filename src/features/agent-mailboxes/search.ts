/**
 * @module The search index over messages: FTS5 without content, one row a message under its row id. Its table,
 * `CREATE VIRTUAL TABLE mailbox_search`, stands in the migration, because drizzle cannot describe it. The only writer of it.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'

const sql = prepared((db) => ({
  insert: db.prepare('INSERT INTO mailbox_search (rowid, mailbox, subject, sender, body) VALUES (?, ?, ?, ?, ?)'),
  delete: db.prepare('DELETE FROM mailbox_search WHERE rowid = ?'),
  merge: db.prepare("INSERT INTO mailbox_search (mailbox_search, rank) VALUES ('merge', ?)"),
  changes: db.prepare<{ n: number }, []>('SELECT total_changes() AS n'),
  find: db.prepare<{ id: number }, [string, number]>(
    'SELECT rowid AS id FROM mailbox_search WHERE mailbox_search MATCH ? ORDER BY rowid DESC LIMIT ?',
  ),
}))

/** Of a body; what follows is not found. It bounds the time that a message takes in the transaction of its delivery. */
const MOST_INDEXED_CHARACTERS = 64 * 1024
const MOST_QUERY_CHARACTERS = 200
const MOST_WORDS = 20
/** Newest first; older ones are found by a narrower search. */
export const MOST_FOUND = 1000

/** The word that every message of a mailbox has in the column `mailbox`, so that a search stays in it. */
const wordOf = (mailboxId: number): string => `m${mailboxId}`

/** @param id row id of the message */
export function indexMessage(
  tx: Tx,
  id: number,
  message: {
    readonly mailboxId: number
    readonly subject: string
    /** Header form and address. */
    readonly sender: string
    readonly body: string
  },
): void {
  sql(tx.db).insert.run(
    id,
    wordOf(message.mailboxId),
    message.subject,
    message.sender,
    message.body.slice(0, MOST_INDEXED_CHARACTERS).toWellFormed(),
  )
}

/** Takes a message out of the index. */
export const unindexMessage = (tx: Tx, id: number): void => void sql(tx.db).delete.run(id)

/** Pages of the index merged in one transaction: some 5 ms. */
const MERGED_PAGES = 64

/**
 * Rewrites the index until no word of a message that was taken out is in it any more; of an index without any it does nothing. In steps.
 * https://sqlite.org/fts5.html, 6.7
 */
export async function compactSearch(app: Pick<App, 'commit'>): Promise<void> {
  // The first step, negative, begins a merge of everything into one; those after it go on with that.
  for (let pages = -MERGED_PAGES; ; pages = MERGED_PAGES) {
    const didWork = await app.commit.writeFromReserve((tx) => {
      const { merge, changes } = sql(tx.db)
      const before = changes.get()?.n ?? 0
      merge.run(pages)
      return (changes.get()?.n ?? 0) - before >= 2
    })
    if (!didWork) return
  }
}

/** What FTS5 counts as a part of a word (unicode61); a text without any of it would match nothing. */
const WORD_CHARACTER = /[\p{L}\p{N}\p{Co}]/u

/**
 * Row ids of the messages of a mailbox that have all the words, newest first, at most MOST_FOUND. Throws 422 for what is no search.
 * @param text as a person types it; nothing in it is syntax
 */
export function findMessages(db: Database, mailboxId: number, text: string): number[] {
  if (text.length > MOST_QUERY_CHARACTERS)
    throw invalid('q', `A search has at most ${MOST_QUERY_CHARACTERS} characters.`)
  const words = text
    .replaceAll('\0', ' ')
    .split(/\s+/u)
    .filter((word) => WORD_CHARACTER.test(word))
  if (words.length === 0) throw invalid('q', 'Give at least one word to search for.')
  if (words.length > MOST_WORDS) throw invalid('q', `A search has at most ${MOST_WORDS} words.`)
  // Strings in quotes have no syntax but the doubled quote.
  const strings = words.map((word) => `"${word.replaceAll('"', '""')}"`)
  const query = `mailbox : "${wordOf(mailboxId)}" AND {subject sender body} : (${strings.join(' AND ')})`
  return sql(db)
    .find.all(query, MOST_FOUND)
    .map(({ id }) => id)
}
