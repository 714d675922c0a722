/** @module `tassis lists`: shows the contact lists of all accounts with their contacts by status. */
import type { Database } from 'bun:sqlite'
import type { Command } from 'commander'
import type { OperatorContactList } from '#client/operator-api.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { truncate } from '#platform/text.ts'
import { apiAction, findAccountFilter, readRows } from './api.ts'
import {
  type AccountOption,
  addCommand,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
  withLimit,
} from './options.ts'
import { type Columns, printPage } from './output.ts'

const sql = prepareStatements((db) => ({
  name: db.prepare<{ name: string }, [Uint8Array]>('SELECT name FROM contact_lists WHERE uuid = ?'),
}))

/** Returns the name of a list, even a deleted one; null if there is none. */
export const findListName = (db: Database, uuid: Uint8Array | null | undefined): string | null =>
  uuid ? (sql(db).name.get(uuid)?.name ?? null) : null

const MAX_NAME_LENGTH = 40

const COLUMNS: Columns<OperatorContactList> = {
  ACCOUNT: ({ account }) => account,
  LIST: ({ name }) => truncate(name, MAX_NAME_LENGTH),
  ACTIVE: ({ contacts }) => String(contacts.active),
  PENDING: ({ contacts }) => String(contacts.pending),
  UNSUBSCRIBED: ({ contacts }) => String(contacts.unsubscribed),
  BOUNCED: ({ contacts }) => String(contacts.bounced),
  COMPLAINED: ({ contacts }) => String(contacts.complained),
  ID: ({ id }) => id,
}

export function addListsCommand(program: Command): void {
  withLimit(
    withAccount(
      addCommand(program, 'lists', 'list the contact lists of all accounts with their numbers of contacts'),
      ONLY_ACCOUNT_DESCRIPTION,
    ),
    'lists',
    50,
  ).action(
    apiAction<JsonOption & AccountOption & { limit: number }>(async ({ api, options }) => {
      const account_id = await findAccountFilter(api, options)
      const lists = await readRows(api.operator.listContactLists({ account_id, per_page: 100 }), options.limit)
      printPage(options, lists, 'There is no contact list.', COLUMNS)
    }),
  )
}
