/**
 * @module The search index over messages: FTS5 without content, one row a message under its row id. Its table,
 * `CREATE VIRTUAL TABLE mailbox_search`, stands in the migration, because drizzle cannot describe it. The only writer of it.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { compactFullText, toAllWordsQuery } from '#platform/db/full-text.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  insert: db.prepare('INSERT INTO mailbox_search (rowid, mailbox, subject, sender, body) VALUES (?, ?, ?, ?, ?)'),
  delete: db.prepare('DELETE FROM mailbox_search WHERE rowid = ?'),
  find: db.prepare<{ id: number }, [string, number]>(
    'SELECT rowid AS id FROM mailbox_search WHERE mailbox_search MATCH ? ORDER BY rowid DESC LIMIT ?',
  ),
}))

/** Of a body; what follows is not found. It bounds the time that a message takes in the transaction of its delivery. */
const MAX_INDEXED_LENGTH = 64 * 1024
/** Newest first; older ones are found by a narrower search. */
export const MAX_SEARCH_RESULTS = 1000

/** The word that every message of a mailbox has in the column `mailbox`, so that a search stays in it. */
const toMailboxWord = (mailboxId: number): string => `m${mailboxId}`

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
    toMailboxWord(message.mailboxId),
    message.subject,
    message.sender,
    message.body.slice(0, MAX_INDEXED_LENGTH).toWellFormed(),
  )
}

/** Takes a message out of the index. */
export const unindexMessage = (tx: Tx, id: number): void => void sql(tx.db).delete.run(id)

/** Takes the words of removed messages out of the files. */
export const compactSearchIndex = (app: Pick<App, 'commit'>): Promise<void> =>
  compactFullText(app.commit, 'mailbox_search')

/**
 * Row ids of the messages of a mailbox that have all the words, newest first, at most MAX_SEARCH_RESULTS. Throws 422 for what is no search.
 * @param text as a person types it; nothing in it is syntax
 */
export function searchMessageIds(db: Database, mailboxId: number, text: string): number[] {
  const query = `mailbox : "${toMailboxWord(mailboxId)}" AND {subject sender body} : (${toAllWordsQuery('q', text)})`
  return sql(db)
    .find.all(query, MAX_SEARCH_RESULTS)
    .map(({ id }) => id)
}
