/** @module `tassis lists`: shows the contact lists of all accounts with their contacts by status. */
import type { Command } from 'commander'
import type { OperatorContactList } from '#client/operator-api.ts'
import { truncate } from '#platform/text.ts'
import { apiAction, findAccountFilter, pageSize, readRows } from './api.ts'
import {
  type AccountOption,
  addCommand,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
  withLimit,
} from './options.ts'
import { type Columns, printPage } from './output.ts'

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
      const query = { account_id: await findAccountFilter(api, options), per_page: pageSize(options.limit) }
      const lists = await readRows(api.operator.listContactLists(query), options.limit)
      printPage(options, lists, 'There is no contact list.', COLUMNS)
    }),
  )
}
