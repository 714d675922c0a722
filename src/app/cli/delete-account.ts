/** @module `tassis accounts delete` and `deletions`: the operator deletes an account and follows the progress. */
import type { Command } from 'commander'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { deleteAccount, listOpenDeletions } from '#features/lifecycle/privacy/delete-account.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { resolveOperator } from '../find-account.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { addCommand, type JsonOption } from './options.ts'
import { formatCount, formatUtc, printList, printResult, toList, toPrintable } from './output.ts'

const remove = defineAdminCommand(
  'accounts.delete',
  async (
    { opened: { app } },
    { account, confirm }: { account: string; confirm: string },
  ): Promise<{ name: string }> => {
    const actor = resolveOperator(app, account)
    const found = getAccount(app.config, app.db, actor.accountId)
    if (confirm !== found.name)
      throw invalid(
        'confirm',
        `--confirm must be the name of the account, "${found.name}", because deletion cannot be undone. Nothing was deleted.`,
      )
    await deleteAccount(app, actor, found)
    return { name: found.name }
  },
)

const STEP_DESCRIPTIONS: Readonly<Record<string, string>> = {
  mail: 'cancels its waiting mail',
  rows: 'deletes its data',
  late: 'waits for requests in progress',
  service: 'removes system mail about it',
  log: 'erases its audit log entries',
  bytes: 'overwrites deleted bytes in the files',
}

const deletions = defineAdminCommand('accounts.deletions', ({ opened: { app } }, _: null) =>
  listOpenDeletions(app.db).map(({ accountId, step, rows, dueAt }) => ({
    // Its number in the database; its id and name are already deleted.
    account_number: accountId,
    step,
    rows,
    next_at: isoTime(dueAt),
  })),
)

export const accountDeletionAdminCommands = [remove, deletions]

/** @param accounts the group `tassis accounts` */
export function addAccountDeletionCommands(accounts: Command): void {
  addCommand(accounts, 'delete', 'delete an account with all its data and sub-accounts; this cannot be undone')
    .argument('<account>', 'ID or name of the account')
    .requiredOption('--confirm <name>', 'the name of the account, to confirm')
    .action(async (account: string, options: JsonOption & { confirm: string }) => {
      printResult(
        options,
        await runAdminCommand(remove, { account, confirm: options.confirm }),
        ({ name }) =>
          `${toPrintable(name)} is closed: its keys and sessions are revoked, its waiting mail is cancelled, mail to its domains is rejected.\nThe running service deletes its data, which takes ten minutes or more; \`tassis accounts deletions\` shows the progress.`,
      )
    })
  addCommand(accounts, 'deletions', 'list account deletions in progress').action(async (options: JsonOption) => {
    printList(
      options,
      toList(await runAdminCommand(deletions, null)),
      'No account is being deleted.',
      ['ACCOUNT NUMBER', 'STEP', '', 'REMOVED', 'CONTINUES'],
      ({ account_number, step, rows, next_at }) => [
        String(account_number),
        step,
        STEP_DESCRIPTIONS[step] ?? '',
        formatCount(rows, 'row'),
        formatUtc(next_at),
      ],
    )
  })
}
