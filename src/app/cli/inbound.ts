/**
 * @module `tassis inbound`: lists received mail that could not be parsed and parses it again. Of such a message, its
 * account sees only the header and the raw form. The content is untrusted: control characters never reach the
 * terminal.
 */
import { type Command, Option } from 'commander'
import type { OperatorUnparsedMessage } from '#client/operator-api.ts'
import { truncate } from '#platform/text.ts'
import { apiAction, type CommandApi } from './api.ts'
import { UsageError } from './errors.ts'
import { addCommand, type JsonOption, withLimit } from './options.ts'
import { type Columns, formatCount, formatUtc, printPage, printResult, toPrintable } from './output.ts'

const MAX_CELL_LENGTH = 40

const MESSAGE_COLUMNS: Columns<OperatorUnparsedMessage> = {
  ID: ({ id }) => id,
  RECEIVED: ({ received_at: at }) => formatUtc(at),
  KIND: ({ kind }) => kind,
  TO: ({ to }) => truncate(to, MAX_CELL_LENGTH),
  FROM: ({ from }) => truncate(from, MAX_CELL_LENGTH),
  SUBJECT: ({ subject }) => truncate(subject, MAX_CELL_LENGTH),
  WHY: ({ parse_error: error }) => error,
}

export function addInboundCommands(program: Command): void {
  const inbound = program.command('inbound').description('list or retry received mail that could not be parsed')

  withLimit(addCommand(inbound, 'list', 'list unparsed messages, oldest first'), 'messages', 30).action(
    apiAction<JsonOption & { readonly limit: number }>(async ({ api, options }) => {
      const messages: OperatorUnparsedMessage[] = []
      for await (const message of readUnparsed(api)) {
        messages.push(message)
        if (messages.length > options.limit) break
      }
      const found = { data: messages.slice(0, options.limit), has_more: messages.length > options.limit }
      printPage(options, found, 'All received messages were parsed.', MESSAGE_COLUMNS)
    }),
  )

  addCommand(inbound, 'retry', 'parse a message again and store its content; its events are not emitted again')
    .argument('[id]', 'message ID, as shown by `tassis inbound list`')
    .addOption(new Option('--all', 'all messages that could not be parsed'))
    .action(
      apiAction<JsonOption & { readonly all?: boolean }, [string?]>(async ({ api, options }, id) => {
        if ((id === undefined) === (options.all !== true)) throw new UsageError('Give the ID of a message, or --all.')
        const ids = id === undefined ? readUnparsed(api) : [{ id }]
        const data: { readonly id: string; readonly parse_error: string | null }[] = []
        for await (const message of ids) data.push((await api.operator.retryUnparsedMessage(message.id)).data)
        const failed = data.filter((message) => message.parse_error !== null)
        printResult(options, { data }, () =>
          [
            `${formatCount(data.length - failed.length, 'message')} parsed.`,
            ...failed.map(
              (message) => `${message.id} still cannot be parsed: ${toPrintable(message.parse_error ?? '')}`,
            ),
          ].join('\n'),
        )
        if (failed.length > 0) process.exitCode = 1
      }),
    )
}

async function* readUnparsed(api: CommandApi) {
  for (let after: string | undefined | null; after !== null; ) {
    const page = await api.operator.listUnparsedMessages({ after })
    yield* page.data
    after = page.next_after
  }
}
