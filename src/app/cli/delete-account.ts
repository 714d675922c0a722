/** @module `tassis accounts delete` and `deletions`: the end of an account by its operator, and how far it is. */
import type { Command } from 'commander'
import { accountOfActor } from '#features/core/accounts/accounts.ts'
import { deleteAccount, openDeletions } from '#features/lifecycle/privacy/delete-account.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { loadConfig } from '../settings.ts'
import { operatorOf } from './accounts.ts'
import { withData } from './call.ts'
import { operation } from './operation.ts'
import { type JsonOption, withJson } from './options.ts'
import { counted, print, printable, report, table, utc } from './output.ts'

const remove = operation(
  'accounts.delete',
  async (
    { opened: { app } },
    { account, confirm }: { account: string; confirm: string },
  ): Promise<{ name: string }> => {
    const actor = operatorOf(app, account)
    const found = accountOfActor(app.config, app.db, actor.accountId)
    if (confirm !== found.name)
      throw invalid(
        'confirm',
        `Give --confirm with the name of the account, "${found.name}"; all that it has goes, and nothing brings it back. Nothing was deleted.`,
      )
    await deleteAccount(app, actor, found)
    return { name: found.name }
  },
)

interface ShownDeletion {
  /** Number of the account in the database: its id and name go with it. */
  readonly account_number: number
  /** mail, rows, late, log, bytes. */
  readonly step: string
  readonly rows: number
  readonly next_at: string
}

const STEP_WORDS: Readonly<Record<string, string>> = {
  mail: 'ends what waits',
  rows: 'removes its data',
  late: 'waits for requests that were under way',
  log: 'empties its entries of the audit log',
  bytes: 'overwrites the bytes in the files',
}

const deletions = operation('accounts.deletions', ({ opened: { app } }, _: null): ShownDeletion[] =>
  openDeletions(app.db).map(({ accountId, step, rows, dueAt }) => ({
    account_number: accountId,
    step,
    rows,
    next_at: isoTime(dueAt),
  })),
)

export const accountDeletionOperations = [remove, deletions]

/** @param accounts the group `tassis accounts` */
export function addAccountDeletionCommands(accounts: Command): void {
  withJson(
    accounts
      .command('delete')
      .description('delete an account with all that it has, its sub-accounts too; there is no way back'),
  )
    .argument('<account>', 'its id or name')
    .requiredOption('--confirm <name>', 'the name of the account, once more')
    .action(async (account: string, options: JsonOption & { confirm: string }) => {
      const deleted = await withData(loadConfig().config, (call) => call(remove, { account, confirm: options.confirm }))
      report(
        options,
        deleted,
        ({ name }) =>
          `${printable(name)} is closed: its keys and sessions end, its waiting mail is cancelled, mail to its domains is refused.\nThe running service removes its data, which takes ten minutes or more; \`tassis accounts deletions\` says how far it is.`,
      )
    })
  withJson(accounts.command('deletions').description('list the deletions of accounts that are not complete')).action(
    async (options: JsonOption) => {
      const shown = await withData(loadConfig().config, (call) => call(deletions, null))
      if (!options.json && shown.length === 0) return print('No account is being deleted.')
      report(options, shown, (rows) =>
        table(
          ['ACCOUNT NUMBER', 'STEP', '', 'REMOVED', 'GOES ON'],
          rows.map(({ account_number, step, rows: removed, next_at }) => [
            String(account_number),
            step,
            STEP_WORDS[step] ?? '',
            counted(removed, 'row'),
            utc(next_at),
          ]),
        ),
      )
    },
  )
}
