/**
 * @module `tassis inbound`: lists received mail that could not be parsed and parses it again. Of such a message, its
 * account sees only the header and the raw form. The content is untrusted: control characters never reach the
 * terminal.
 */
import { type Command, Option } from 'commander'
import type { RetryResult } from '#features/receiving/inbound/process/operator-model.ts'
import {
  listUnparsed,
  retryUnparsed,
  START_POSITION,
  type UnparsedCursor,
} from '#features/receiving/inbound/process/retry.ts'
import { truncate } from '#platform/text.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand, UsageError } from './admin-command.ts'
import { type Call, runAdminCommand, withData } from './call.ts'
import { addCommand, type JsonOption, withLimit } from './options.ts'
import { formatCount, formatUtc, type List, printList, printResult, toList, toPrintable } from './output.ts'

interface ListInput {
  readonly after: UnparsedCursor
  readonly limit: number
}

const list = defineAdminCommand('inbound.list', ({ opened: { app } }, { after, limit }: ListInput) => {
  const { unparsed, cursor: place } = listUnparsed(app, after, limit)
  return { messages: unparsed, place: place ?? null }
})

const retry = defineAdminCommand(
  'inbound.retry',
  async ({ opened: { app, parser } }, { id }: { readonly id: string }): Promise<RetryResult> => {
    const problem = await retryUnparsed(app, parser, id)
    return { id, parse_error: problem ?? null }
  },
)

export const inboundAdminCommands = [list, retry]

export function addInboundCommands(program: Command): void {
  const inbound = program.command('inbound').description('list or retry received mail that could not be parsed')

  withLimit(addCommand(inbound, 'list', 'list unparsed messages, oldest first'), 'messages of each kind', 30).action(
    async (options: JsonOption & { readonly limit: number }) => {
      const found = await runAdminCommand(list, { after: START_POSITION, limit: options.limit })
      printList(
        options,
        { data: found.messages, has_more: found.place !== null },
        'All received messages were parsed.',
        ['ID', 'RECEIVED', 'KIND', 'TO', 'FROM', 'SUBJECT', 'WHY'],
        (row) => [
          row.id,
          formatUtc(row.received_at),
          row.kind,
          truncate(row.to, MAX_CELL_LENGTH),
          truncate(row.from, MAX_CELL_LENGTH),
          truncate(row.subject, MAX_CELL_LENGTH),
          row.parse_error,
        ],
      )
    },
  )

  addCommand(inbound, 'retry', 'parse a message again and store its content; its events are not emitted again')
    .argument('[id]', 'message ID, as shown by `tassis inbound list`')
    .addOption(new Option('--all', 'all messages that could not be parsed'))
    .action(async (id: string | undefined, options: JsonOption & { readonly all?: boolean }) => {
      if ((id === undefined) === (options.all !== true)) throw new UsageError('Give the ID of a message, or --all.')
      const retried = await withData(loadConfig().config, (call) =>
        id === undefined ? retryAll(call) : call(retry, { id }).then((one) => [one]),
      )
      printResult(options, toList(retried), formatRetried)
      if (retried.some((message) => message.parse_error !== null)) process.exitCode = 1
    })
}

const BATCH_SIZE = 100

/** Retries each message once, one after another. */
async function retryAll(call: Call): Promise<RetryResult[]> {
  const retried: RetryResult[] = []
  for (let after: UnparsedCursor | null = START_POSITION; after !== null; ) {
    const page: Awaited<ReturnType<typeof list.run>> = await call(list, { after, limit: BATCH_SIZE })
    for (const { id } of page.messages) retried.push(await call(retry, { id }))
    after = page.place
  }
  return retried
}

const MAX_CELL_LENGTH = 40

function formatRetried({ data: messages }: List<RetryResult>): string {
  const failed = messages.filter((message) => message.parse_error !== null)
  return [
    `${formatCount(messages.length - failed.length, 'message')} parsed.`,
    ...failed.map(({ id, parse_error }) => `${id} still cannot be parsed: ${toPrintable(parse_error ?? '')}`),
  ].join('\n')
}
