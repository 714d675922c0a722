/**
 * @module The search index of messages: contentless FTS5, one row per message under its row id. The migration creates
 * its table with `CREATE VIRTUAL TABLE mailbox_search`, because drizzle cannot describe it. Only this module writes
 * to the table.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { compactFullText, toAllWordsQuery } from '#platform/db/full-text.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  insert: db.prepare('INSERT INTO mailbox_search (rowid, mailbox, subject, sender, body) VALUES (?, ?, ?, ?, ?)'),
  delete: db.prepare('DELETE FROM mailbox_search WHERE rowid = ?'),
  find: db.prepare<{ id: number }, [string, number]>(
    'SELECT rowid AS id FROM mailbox_search WHERE mailbox_search MATCH ? ORDER BY rowid DESC LIMIT ?',
  ),
}))

/** Indexed characters of a body; limits the time in the delivery transaction. */
const MAX_INDEXED_LENGTH = 64 * 1024
/** Limit of results, newest first; a narrower search finds older ones. */
export const MAX_SEARCH_RESULTS = 1000

/** The word in the column `mailbox` of all messages of a mailbox, which limits a search to it. */
const toMailboxWord = (mailboxId: number): string => `m${mailboxId}`

/** @param id row id of the message */
export function indexMessage(
  tx: Tx,
  id: number,
  message: {
    readonly mailboxId: number
    readonly subject: string
    /** The From header, then the address. */
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

export const unindexMessage = (tx: Tx, id: number): void => void sql(tx.db).delete.run(id)

/** Removes the words of deleted messages from the database files. */
export const compactSearchIndex = (app: Pick<App, 'commit'>): Promise<void> =>
  compactFullText(app.commit, 'mailbox_search')

/** Row ids of the messages that contain all words, newest first. Throws 422 for an invalid search. */
export function searchMessageIds(db: Database, mailboxId: number, text: string): number[] {
  const query = `mailbox : "${toMailboxWord(mailboxId)}" AND {subject sender body} : (${toAllWordsQuery('q', text)})`
  return sql(db)
    .find.all(query, MAX_SEARCH_RESULTS)
    .map(({ id }) => id)
}
