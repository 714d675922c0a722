/** @module `tassis lists`: shows the contact lists of all accounts with their contacts by status. Never writes. */

import type { Database } from 'bun:sqlite'
import type { Command } from 'commander'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { CONTACT_STATUSES, type ContactStatus, readContactCount } from '#features/setup/contact-store/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { truncate } from '#platform/text.ts'
import { findAccountId } from '../find-account.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import {
  type AccountOption,
  addCommand,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
  withLimit,
} from './options.ts'
import { printList, toList } from './output.ts'

const sql = prepareStatements((db) => ({
  lists: db.prepare<{ id: number; uuid: Uint8Array; accountId: number; name: string }, [number | null, number]>(
    `SELECT id, uuid, account_id AS accountId, name FROM contact_lists WHERE deleted_at IS NULL AND account_id = coalesce(?1, account_id)
     ORDER BY account_id, name LIMIT ?2`,
  ),
  count: db.prepare<{ n: number }, [number | null]>(
    'SELECT COUNT(*) AS n FROM contact_lists WHERE deleted_at IS NULL AND account_id = coalesce(?1, account_id)',
  ),
  name: db.prepare<{ name: string }, [Uint8Array]>('SELECT name FROM contact_lists WHERE uuid = ?'),
}))

/** Returns the name of a list, even a deleted one; null if there is none. */
export const findListName = (db: Database, uuid: Uint8Array | null | undefined): string | null =>
  uuid ? (sql(db).name.get(uuid)?.name ?? null) : null

interface ListsInput extends AccountOption {
  readonly limit: number
}

const show = defineAdminCommand('lists', ({ opened: { app } }, { account, limit }: ListsInput) => {
  const { config, db } = app
  const only = findAccountId(app, account) ?? null
  const lists = sql(db)
    .lists.all(only, limit)
    .map(({ id, uuid, accountId, name }) => {
      const owner = getAccount(config, db, accountId)
      const counts = CONTACT_STATUSES.map((status) => [status, readContactCount(db, accountId, id, status)] as const)
      return {
        id: formatUuid(uuid),
        account: owner.name,
        account_id: formatUuid(owner.uuid),
        name,
        contacts: Object.fromEntries(counts) as Record<ContactStatus, number>,
      }
    })
  return toList(lists, sql(db).count.get(only)?.n ?? 0)
})

export const listAdminCommands = [show]

const MAX_NAME_LENGTH = 40

export function addListsCommand(program: Command): void {
  withLimit(
    withAccount(
      addCommand(program, 'lists', 'list the contact lists of all accounts with their numbers of contacts'),
      ONLY_ACCOUNT_DESCRIPTION,
    ),
    'lists',
    50,
  ).action(async (options: JsonOption & ListsInput) => {
    printList(
      options,
      await runAdminCommand(show, options),
      'There is no contact list.',
      ['ACCOUNT', 'LIST', ...CONTACT_STATUSES.map((status) => status.toUpperCase()), 'ID'],
      ({ account, name, contacts, id }) => [
        account,
        truncate(name, MAX_NAME_LENGTH),
        ...CONTACT_STATUSES.map((status) => String(contacts[status])),
        id,
      ],
    )
  })
}
