/** @module `tassis suppressions`: lists, adds, removes, imports and exports the suppressed addresses of an account. */

import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { readExportBatch } from '#features/audience/suppressions/export.ts'
import { importSuppressions } from '#features/audience/suppressions/import.ts'
import { suppressionWire } from '#features/audience/suppressions/model.ts'
import { addSuppression, listSuppressions, removeSuppression } from '#features/audience/suppressions/suppressions.ts'
import { truncate } from '#platform/text.ts'
import { resolveOperator } from '../find-account.ts'
import { loadConfig } from '../settings.ts'
import { CommandError, defineAdminCommand, UsageError } from './admin-command.ts'
import { runAdminCommand, withData } from './call.ts'
import { findListName } from './lists.ts'
import { type AccountOption, addCommand, type JsonOption, withAccount, withLimit } from './options.ts'
import { formatCount, formatUtc, printList, printResult, toList, toPrintable, toPrintableLines } from './output.ts'

interface ListInput extends AccountOption {
  readonly limit: number
  readonly reason?: string | undefined
  readonly email?: string | undefined
}

const list = defineAdminCommand(
  'suppressions.list',
  ({ opened: { app } }, { account, limit, reason, email }: ListInput) => {
    const { accountId, accountUuid } = resolveOperator(app, account)
    const filter = { reason, address: email }
    const { suppressions, total } = listSuppressions(app.db, accountId, filter, { limit, offset: 0 })
    const rows = suppressions.map((suppression) => ({
      ...suppressionWire(suppression, accountUuid),
      list_name: findListName(app.db, suppression.listUuid),
    }))
    return toList(rows, total)
  },
)

interface AddInput extends AccountOption {
  readonly address: string
  readonly reason?: string | undefined
}

const add = defineAdminCommand(
  'suppressions.add',
  async ({ opened: { app } }, { account, address, reason }: AddInput) => {
    const actor = resolveOperator(app, account)
    return suppressionWire(await addSuppression(app, actor, { address, reason }), actor.accountUuid)
  },
)

const remove = defineAdminCommand(
  'suppressions.remove',
  async ({ opened: { app } }, { account, address }: AccountOption & { readonly address: string }) => ({
    removed: await removeSuppression(app, resolveOperator(app, account), address),
  }),
)

const importFile = defineAdminCommand(
  'suppressions.import',
  ({ opened: { app } }, { account, csv, reason }: AccountOption & { readonly csv: string; readonly reason?: string }) =>
    importSuppressions(app, resolveOperator(app, account), Buffer.from(csv), reason),
)

const exportBatch = defineAdminCommand(
  'suppressions.export',
  ({ opened: { app } }, { account, after }: AccountOption & { readonly after: number }) =>
    readExportBatch(app, resolveOperator(app, account).accountId, after),
)

export const suppressionAdminCommands = [list, add, remove, importFile, exportBatch]

type SuppressionOptions = JsonOption & AccountOption

const MAX_NAME_LENGTH = 40

export function addSuppressionCommands(program: Command): void {
  const suppressions = program
    .command('suppressions')
    .description('list, change, import or export the suppressed addresses of an account')
  withLimit(withAccount(addCommand(suppressions, 'list', 'list the newest suppressions')), 'suppressions', 30)
    .option('--reason <reason>', 'only with this reason, such as hard_bounce, complaint, unsubscribe or manual')
    .option('--email <address>', 'only this address')
    .action(async (options: SuppressionOptions & Omit<ListInput, 'account'>) => {
      printList(
        options,
        await runAdminCommand(list, options),
        'No suppressions found.',
        ['ADDRESS', 'REASON', 'STREAM', 'LIST', 'SINCE', 'EMAIL'],
        (row) => [
          row.email_address,
          row.reason,
          row.stream ?? '',
          truncate(row.list_name ?? '', MAX_NAME_LENGTH),
          formatUtc(row.created_at),
          row.source_email_id ?? '',
        ],
      )
    })
  withAccount(addCommand(suppressions, 'add', 'suppress an address'))
    .argument('<address>', 'email address')
    .option('--reason <text>', 'reason; unsubscribe suppresses only mail with transactional: false', 'manual')
    .action(async (address: string, options: SuppressionOptions & { reason: string }) => {
      printResult(
        options,
        await runAdminCommand(add, { account: options.account, address, reason: options.reason }),
        ({ email_address, reason, created_at }) =>
          `${toPrintable(email_address)} has been suppressed since ${formatUtc(created_at)}: ${toPrintable(reason)}.`,
      )
    })
  withAccount(addCommand(suppressions, 'remove', 'remove an address from the list'))
    .argument('<address>', 'email address')
    .action(async (address: string, options: SuppressionOptions) => {
      printResult(options, await runAdminCommand(remove, { account: options.account, address }), ({ removed }) =>
        removed === 0 ? 'The address was not on the list.' : `Removed ${formatCount(removed, 'suppression')}.`,
      )
    })
  withAccount(
    addCommand(
      suppressions,
      'import',
      'import a CSV file; its first line names the columns email_address (or email, or address), reason, stream and list; exit code 1 if a line is invalid',
    ),
  )
    .argument('<file>', 'path of the file, in UTF-8; - for standard input')
    .option('--reason <text>', 'reason for lines without one', 'manual')
    .action(async (file: string, options: SuppressionOptions & { reason: string }) => {
      const { config } = loadConfig()
      const input = { account: options.account, csv: readCsvFile(file, config.maxBodyBytes), reason: options.reason }
      const result = await withData(config, (call) => call(importFile, input))
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
    })
  withAccount(suppressions.command('export').description('print all suppressions as CSV')).action(
    async (options: AccountOption) => {
      await withData(loadConfig().config, async (call) => {
        for (let after: number | undefined = 0; after !== undefined; ) {
          const batch: ReturnType<typeof readExportBatch> = await call(exportBatch, { account: options.account, after })
          process.stdout.write(process.stdout.isTTY ? toPrintableLines(batch.csv) : batch.csv)
          after = batch.next
        }
      })
    },
  )
}

/**
 * Reads a file, or standard input for `-`. Refuses text that is not UTF-8, because decoding would replace bytes. Also
 * refuses files larger than an admin request, because the CSV travels as JSON in one request.
 */
function readCsvFile(path: string, maxBytes: number): string {
  const isStandardInput = path === '-'
  if (isStandardInput && process.stdin.isTTY)
    throw new UsageError('No input on standard input; pipe the file in, or give its name.')
  const file = isStandardInput ? 'Standard input' : path
  let csv: string
  try {
    const bytes = readFileSync(isStandardInput ? 0 : path)
    csv = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (error) {
    throw new CommandError(
      error instanceof TypeError
        ? `${file} is not in UTF-8; save it as "CSV UTF-8".`
        : `${file} cannot be read: ${error instanceof Error ? error.message : String(error)}.`,
    )
  }
  if (Buffer.byteLength(JSON.stringify(csv)) > maxBytes - RESERVED_OPTION_BYTES)
    throw new CommandError(`${file} is larger than the ${maxBytes} bytes of TASSIS_MAX_BODY_BYTES; split it.`)
  return csv
}

const RESERVED_OPTION_BYTES = 4096
