/** @module `tassis suppressions`: lists, adds, removes, imports and exports the suppressed addresses of an account. */

import type { Command } from 'commander'
import type { Suppression } from '#client/api.ts'
import { apiAction, pageSize, readRows } from './api.ts'
import { readInput } from './input.ts'
import { type AccountOption, addCommand, type JsonOption, withAccount, withLimit } from './options.ts'
import {
  type Columns,
  formatCount,
  formatUtc,
  printPage,
  printResult,
  toPrintable,
  toPrintableLines,
} from './output.ts'

type Options = JsonOption & AccountOption

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
  withLimit(withAccount(addCommand(suppressions, 'list', 'list the newest suppressions')), 'suppressions', 30)
    .option('--reason <reason>', 'only with this reason, such as hard_bounce, complaint, unsubscribe or manual')
    .option('--email <address>', 'only this address')
    .action(
      apiAction<Options & { limit: number; reason?: string; email?: string }>(async ({ api, options }) => {
        const { limit, reason, email } = options
        const found = await readRows(api.suppressions.list({ reason, email, per_page: pageSize(limit) }), limit)
        printPage(options, found, 'No suppressions found.', COLUMNS)
      }),
    )
  withAccount(addCommand(suppressions, 'add', 'suppress an address'))
    .argument('<address>', 'email address')
    .option('--reason <text>', 'reason; unsubscribe suppresses only mail with transactional: false', 'manual')
    .action(
      apiAction<Options & { reason: string }>(async ({ api, options }, address) =>
        printResult(
          options,
          await api.suppressions.create({ email_address: address, reason: options.reason }),
          ({ data: { email_address: suppressed, reason, created_at: at } }) =>
            `${toPrintable(suppressed)} has been suppressed since ${formatUtc(at)}: ${toPrintable(reason)}.`,
        ),
      ),
    )
  withAccount(addCommand(suppressions, 'remove', 'remove an address from the list'))
    .argument('<address>', 'email address')
    .action(
      apiAction(async ({ api, options }, address) => {
        const found = await readRows(api.suppressions.list({ email: address }), Number.POSITIVE_INFINITY)
        await api.suppressions.delete(address)
        printResult(options, found, ({ data }) =>
          data.length === 0
            ? 'The address was not on the list.'
            : `Removed ${formatCount(data.length, 'suppression')}.`,
        )
      }),
    )
  withAccount(
    addCommand(
      suppressions,
      'import',
      'import a CSV file; its first line names the columns email_address (or email, or address), reason, stream and list; exit code 1 if a line is invalid',
    ),
  )
    .argument('<file>', 'path of the file, in UTF-8; - for standard input')
    .option('--reason <text>', 'reason for lines without one', 'manual')
    .action(
      apiAction<Options & { reason: string }>(async ({ api, options }, file) => {
        const { reason } = options
        const result = await api.suppressions.import(readInput(file, 'file'), {
          query: { reason },
          headers: { 'content-type': 'text/csv' },
        })
        printResult(options, result, ({ data, errors }) =>
          [
            `${formatCount(data.total, 'line')}: ${data.imported} imported, ${data.already_suppressed} already on the list, ${data.invalid} invalid.`,
            ...(data.ignored_columns.length > 0
              ? [`Ignored columns: ${toPrintable(data.ignored_columns.join(', '))}.`]
              : []),
            ...errors.map(({ line, error }) => `  line ${line}: ${toPrintable(error)}`),
            ...(data.invalid > errors.length ? [`  … and ${data.invalid - errors.length} more`] : []),
          ].join('\n'),
        )
        if (result.data.invalid > 0) process.exitCode = 1
      }),
    )
  withAccount(suppressions.command('export').description('print all suppressions as CSV')).action(
    apiAction(async ({ api }) => {
      const response = await api.suppressions.export()
      if (process.stdout.isTTY) process.stdout.write(toPrintableLines(await response.text()))
      else for await (const chunk of response.body ?? []) process.stdout.write(chunk)
    }),
  )
}
