/**
 * @module `tassis suppressions`: lists, adds, removes, imports and exports the suppressed addresses of an account;
 * `tassis lists`: shows the contact lists of all accounts with their contacts by status.
 */
import type { Suppression } from '#client/api.ts'
import type { OperatorContactList } from '#client/operator-api.ts'
import { truncate } from '#platform/text.ts'
import { readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { readInput } from './input.ts'
import { type Columns, formatCount, formatUtc, toPrintable, toPrintableLines } from './output.ts'

const COLUMNS: Columns<Suppression> = {
  ADDRESS: ({ email_address: address }) => address,
  REASON: ({ reason }) => reason,
  STREAM: ({ stream }) => stream ?? '',
  LIST: ({ list_id: list }) => list ?? '',
  SINCE: ({ created_at: at }) => formatUtc(at),
  EMAIL: ({ source_email_id: email }) => email ?? '',
}

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
      COLUMNS,
    )
  suppressions
    .add('add', 'suppress an address')
    .account()
    .argument('<address>', 'email address')
    .option('--reason <text>', 'reason; unsubscribe suppresses only mail with transactional: false', 'manual')
    .answer(
      async ({ api, options }: Context<{ reason: string }>, address) =>
        api.suppressions.create({ email_address: address, reason: options.reason }),
      ({ data: { email_address: suppressed, reason, created_at: at } }) =>
        `${toPrintable(suppressed)} has been suppressed since ${formatUtc(at)}: ${toPrintable(reason)}.`,
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
      async ({ api, options }: Context<{ reason: string }>, file) => {
        const { reason } = options
        const result = await api.suppressions.import(readInput(file, 'file'), {
          query: { reason },
          headers: { 'content-type': 'text/csv' },
        })
        if (result.data.invalid > 0) process.exitCode = 1
        return result
      },
      ({ data, errors }) =>
        [
          `${formatCount(data.total, 'line')}: ${data.imported} imported, ${data.already_suppressed} already on the list, ${data.invalid} invalid.`,
          ...(data.ignored_columns.length > 0
            ? [`Ignored columns: ${toPrintable(data.ignored_columns.join(', '))}.`]
            : []),
          ...errors.map(({ line, error }) => `  line ${line}: ${toPrintable(error)}`),
          ...(data.invalid > errors.length ? [`  … and ${data.invalid - errors.length} more`] : []),
        ].join('\n'),
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

const MAX_NAME_LENGTH = 40

const LIST_COLUMNS: Columns<OperatorContactList> = {
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
  program
    .add('lists', 'list the contact lists of all accounts with their numbers of contacts')
    .accountFilter()
    .limit('lists', 50)
    .list(({ api, query }) => api.operator.listContactLists(query), 'There is no contact list.', LIST_COLUMNS)
}
