/** @module `tassis suppressions`: the list of addresses that an account does not send to: look, add, remove, import and export as CSV. */
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { exportSlice } from '#features/setup/suppressions/export.ts'
import { importSuppressions } from '#features/setup/suppressions/import.ts'
import { suppressionWire } from '#features/setup/suppressions/model.ts'
import { addSuppression, listSuppressions, removeSuppression } from '#features/setup/suppressions/suppressions.ts'
import { loadConfig } from '../settings.ts'
import { operatorOf } from './accounts.ts'
import { withData } from './call.ts'
import { listName } from './lists.ts'
import { CommandError, operation } from './operation.ts'
import { type AccountOption, type JsonOption, withAccount, withJson, withLimit } from './options.ts'
import { counted, printable, report, shortened, table, utc } from './output.ts'

interface ListInput extends AccountOption {
  readonly limit: number
  readonly reason?: string
  readonly email?: string
}

const list = operation('suppressions.list', ({ opened: { app } }, { account, limit, reason, email }: ListInput) => {
  const { accountId, accountUuid } = operatorOf(app, account)
  const filter = { reason, address: email }
  const { suppressions, total } = listSuppressions(app.db, accountId, filter, { limit, offset: 0 })
  return {
    total,
    suppressions: suppressions.map((suppression) => ({
      ...suppressionWire(suppression, accountUuid),
      list_name: listName(app.db, suppression.listUuid),
    })),
  }
})

interface AddInput extends AccountOption {
  readonly address: string
  readonly reason?: string
}

const add = operation('suppressions.add', async ({ opened: { app } }, { account, address, reason }: AddInput) => {
  const actor = operatorOf(app, account)
  return suppressionWire(await addSuppression(app, actor, { address, reason }), actor.accountUuid)
})

const remove = operation(
  'suppressions.remove',
  async ({ opened: { app } }, { account, address }: AccountOption & { readonly address: string }) => ({
    removed: await removeSuppression(app, operatorOf(app, account), address),
  }),
)

const importFile = operation(
  'suppressions.import',
  ({ opened: { app } }, { account, csv, reason }: AccountOption & { readonly csv: string; readonly reason?: string }) =>
    importSuppressions(app, operatorOf(app, account), Buffer.from(csv), reason),
)

const exportPart = operation(
  'suppressions.export',
  ({ opened: { app } }, { account, after }: AccountOption & { readonly after: number }) =>
    exportSlice(app, operatorOf(app, account).accountId, after),
)

export const suppressionOperations = [list, add, remove, importFile, exportPart]

type Options = JsonOption & AccountOption

const LONGEST_NAME = 40

const accountOf = ({ account }: AccountOption): AccountOption => (account === undefined ? {} : { account })

export function addSuppressionCommands(program: Command): void {
  const suppressions = program.command('suppressions').description('addresses that an account does not send to')
  withLimit(
    withJson(withAccount(suppressions.command('list').description('show the newest'))),
    'most that are shown',
    30,
  )
    .option('--reason <reason>', 'only those with this reason')
    .option('--email <address>', 'only this address')
    .action(async (options: Options & Omit<ListInput, 'account'>) => {
      const { limit, reason, email } = options
      const input = {
        ...accountOf(options),
        limit,
        ...(reason !== undefined && { reason }),
        ...(email !== undefined && { email }),
      }
      const found = await withData(loadConfig().config, (call) => call(list, input))
      report(options, found, ({ suppressions: shown, total }) =>
        shown.length === 0
          ? 'There is no such suppression.'
          : [
              table(
                ['ADDRESS', 'REASON', 'STREAM', 'LIST', 'SINCE', 'EMAIL'],
                shown.map((row) => [
                  row.email_address,
                  row.reason,
                  row.stream ?? '',
                  shortened(row.list_name ?? '', LONGEST_NAME),
                  utc(row.created_at),
                  row.source_email_id ?? '',
                ]),
              ),
              ...(total > shown.length ? [`… and ${total - shown.length} more (--limit)`] : []),
            ].join('\n'),
      )
    })
  withJson(withAccount(suppressions.command('add <address>').description('send nothing more to an address')))
    .option('--reason <text>', 'why; unsubscribe stops only mail with transactional: false', 'manual')
    .action(async (address: string, options: Options & { reason: string }) => {
      const input = { ...accountOf(options), address, reason: options.reason }
      const row = await withData(loadConfig().config, (call) => call(add, input))
      report(
        options,
        row,
        ({ email_address, reason, created_at }) =>
          `${printable(email_address)} is on the list since ${utc(created_at)}: ${printable(reason)}.`,
      )
    })
  withJson(withAccount(suppressions.command('remove <address>').description('send to an address again'))).action(
    async (address: string, options: Options) => {
      const done = await withData(loadConfig().config, (call) => call(remove, { ...accountOf(options), address }))
      report(options, done, ({ removed }) =>
        removed === 0 ? 'It was not on the list.' : `Removed ${counted(removed, 'suppression')}.`,
      )
    },
  )
  withJson(
    withAccount(
      suppressions
        .command('import <file>')
        .description(
          'import a CSV file, or standard input for -; its first line names the columns email_address (or email, or address), reason, stream and list; exit code 1 when a line is wrong',
        ),
    ),
  )
    .option('--reason <text>', 'of the lines that have none', 'manual')
    .action(async (file: string, options: Options & { reason: string }) => {
      const { config } = loadConfig()
      const input = { ...accountOf(options), csv: readCsvFile(file, config.maxBodyBytes), reason: options.reason }
      const result = await withData(config, (call) => call(importFile, input))
      report(options, result, ({ data, errors }) =>
        [
          `${counted(data.total, 'line')}: ${data.imported} imported, ${data.already_suppressed} on the list before, ${data.invalid} wrong.`,
          ...(data.ignored_columns.length > 0 ? [`Passed over: ${printable(data.ignored_columns.join(', '))}.`] : []),
          ...errors.map(({ line, error }) => `  line ${line}: ${printable(error)}`),
          ...(data.invalid > errors.length ? [`  … and ${data.invalid - errors.length} more`] : []),
        ].join('\n'),
      )
      if (result.data.invalid > 0) process.exitCode = 1
    })
  withAccount(suppressions.command('export').description('print all as CSV')).action(async (options: AccountOption) => {
    await withData(loadConfig().config, async (call) => {
      for (let after: number | undefined = 0; after !== undefined; ) {
        const part: ReturnType<typeof exportSlice> = await call(exportPart, { ...accountOf(options), after })
        process.stdout.write(process.stdout.isTTY ? printableLines(part.csv) : part.csv)
        after = part.next
      }
    })
  })
}

/** CSV for eyes: a reason may hold what a terminal obeys. Files and pipes get the bytes as they are. */
const printableLines = (csv: string): string => csv.split('\r\n').map(printable).join('\n')

/** Bytes as they are, of a file or (`-`) of standard input; what is not UTF-8 would be replaced, so it is refused. Commands travel as JSON, within the bound of a request. */
function readCsvFile(path: string, mostBytes: number): string {
  const isStandardInput = path === '-'
  if (isStandardInput && process.stdin.isTTY)
    throw new CommandError('Nothing is piped in; pipe the file in, or name it.')
  const file = isStandardInput ? 'What was piped in' : path
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
  if (Buffer.byteLength(JSON.stringify(csv)) > mostBytes - ROOM_FOR_OPTIONS)
    throw new CommandError(`${file} is larger than the ${mostBytes} bytes of TASSIS_MAX_BODY_BYTES; split it.`)
  return csv
}

const ROOM_FOR_OPTIONS = 4096
