/**
 * @module `tassis suppressions`: lists, adds, removes, imports and exports the suppressed addresses of an account;
 * `tassis lists`: shows the contact lists of all accounts with their contacts by status.
 */
import type { Suppression } from '#client/api.ts'
import type { OperatorContactList } from '#client/operator-api.ts'
import { readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { readInput } from './options.ts'
import { fields, formatCount, formatFields, toPrintableLines } from './output.ts'

export function addSuppressionCommands(program: Command): void {
  const suppressions = program
    .command('suppressions')
    .description('list, change, import or export the suppressed addresses of an account')
  suppressions
    .add('list', 'list the newest suppressions')
    .account()
    .limit('suppressions', 30)
    .option('--reason <reason>', 'only with this reason, such as hard_bounce, complaint, unsubscribe or manual')
    .option('--email <address>', 'only this address')
    .list(
      ({ api, options: { reason, email }, query }: ListContext<{ reason?: string; email?: string }>) =>
        api.suppressions.list({ reason, email, per_page: query.per_page }),
      'No suppressions found.',
      fields<Suppression>()('email_address reason stream list_id created_at source_email_id'),
    )
  suppressions
    .add('add', 'suppress an address')
    .account()
    .argument('<address>', 'email address')
    .option('--reason <text>', 'reason; unsubscribe suppresses only mail with transactional: false', 'manual')
    .answer(async ({ api, options: { reason } }: Context<{ reason: string }>, address) =>
      api.suppressions.create({ email_address: address, reason }),
    )
  suppressions
    .add('remove', 'remove an address from the list')
    .account()
    .argument('<address>', 'email address')
    .answer(
      async ({ api }, address) => {
        const found = await readRows(api.suppressions.list({ email: address }), Number.POSITIVE_INFINITY)
        await api.suppressions.delete(address)
        return found
      },
      ({ data }) =>
        data.length === 0 ? 'The address was not on the list.' : `Removed ${formatCount(data.length, 'suppression')}.`,
    )
  suppressions
    .add(
      'import',
      'import a CSV file; its first line names the columns email_address (or email, or address), reason, stream and list; exit code 1 if a line is invalid',
    )
    .account()
    .argument('<file>', 'path of the file, in UTF-8; - for standard input')
    .option('--reason <text>', 'reason for lines without one', 'manual')
    .answer(
      async ({ api, options: { reason } }: Context<{ reason: string }>, file) => {
        const headers = { 'content-type': 'text/csv' }
        const result = await api.suppressions.import(readInput(file, 'file'), { query: { reason }, headers })
        if (result.data.invalid > 0) process.exitCode = 1
        return result
      },
      ({ data, errors }) =>
        [formatFields(data), ...errors.map(({ line, error }) => `  line ${line}: ${error}`)].join('\n'),
    )
  suppressions
    .command('export')
    .description('print all suppressions as CSV')
    .account()
    .run(async ({ api }) => {
      const response = await api.suppressions.export()
      if (process.stdout.isTTY) process.stdout.write(toPrintableLines(await response.text()))
      else for await (const chunk of response.body ?? []) process.stdout.write(chunk)
    })
}

export function addListsCommand(program: Command): void {
  program
    .add('lists', 'list the contact lists of all accounts with their numbers of contacts')
    .accountFilter()
    .limit('lists', 50)
    .list(
      ({ api, query }) => api.operator.listContactLists(query),
      'There is no contact list.',
      fields<OperatorContactList>()('id account name contacts'),
    )
}
