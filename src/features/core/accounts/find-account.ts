/** @module Finds the account that an operator names by its ID or name. */

import type { App } from '#features/core/app/app.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { type Account, listAccounts } from './accounts.ts'

/** The id of the named account; undefined without a name. Throws AppError 404 or 409 with the fix. */
export const findAccountId = (app: Pick<App, 'config' | 'db'>, account: string | undefined): number | undefined =>
  account === undefined ? undefined : resolveAccount(app, account).id

/** Returns the named account; without a name, the only one. Throws AppError 404 or 409 with the fix. */
export function resolveAccount({ config, db }: Pick<App, 'config' | 'db'>, requested: string | undefined): Account {
  const accounts = listAccounts(config, db)
  const matches = accounts.filter(
    ({ uuid, name }) =>
      requested === undefined || formatUuid(uuid) === requested || name.toLowerCase() === requested.toLowerCase(),
  )
  const [only] = matches
  if (only && matches.length === 1) return only
  if (accounts.length === 0)
    throw notFound('account_not_found', 'There is no account yet; create one with `tassis accounts create`.')
  if (matches.length === 0)
    throw notFound('account_not_found', `Account "${requested}" not found; \`tassis accounts list\` shows all.`)
  const ids = matches.slice(0, 5).map(({ uuid, name }) => `${formatUuid(uuid)} (${name})`)
  throw conflict(
    'account_ambiguous',
    `There are ${matches.length} accounts${requested === undefined ? '' : ` named "${requested}"`}; choose one with --account: ${ids.join(', ')}${matches.length > 5 ? ', …' : ''}.`,
  )
}
