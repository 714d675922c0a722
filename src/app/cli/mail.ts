/**
 * @module `tassis mail`: mail for the operator, addressed to postmaster or abuse, and reports that could not be parsed.
 * The content is untrusted: control characters never reach the terminal, and HTML is never rendered.
 */
import { type Command, Option } from 'commander'
import type { OperatorMessage, OperatorMessageSummary } from '#client/operator-api.ts'
import { OPERATOR_MAIL_KINDS, type OperatorMailKind } from '#features/receiving/postmaster/store.ts'
import { truncate } from '#platform/text.ts'
import { apiAction, readRows } from './api.ts'
import { CommandError } from './errors.ts'
import { addCommand, type JsonOption, withLimit } from './options.ts'
import { type Columns, formatFields, formatUtc, print, printPage, printResult, toPrintableLines } from './output.ts'

const MAX_CELL_LENGTH = 60
const GONE_MESSAGE = 'The message is no longer stored; only its entry in `tassis mail list` is left.'

const formatAddress = (address: string): string => (address === '' ? '<>' : address)

const COLUMNS: Columns<OperatorMessageSummary> = {
  ID: ({ id }) => id,
  RECEIVED: (row) => formatUtc(row.received_at),
  KIND: ({ kind }) => kind,
  TO: (row) => truncate(row.rcpt_to.join(', '), MAX_CELL_LENGTH),
  FROM: (row) => truncate(row.from ?? formatAddress(row.mail_from), MAX_CELL_LENGTH),
  SUBJECT: ({ subject }) => truncate(subject, MAX_CELL_LENGTH),
  'WHY HERE': ({ reason }) => reason,
}

export function addMailCommands(program: Command): void {
  const mail = program
    .command('mail')
    .description('list, show or retry mail to postmaster and abuse, and reports that could not be parsed')
  /** A command about one message. */
  const add = (name: string, description: string): Command =>
    addCommand(mail, name, description).argument('<id>', 'message ID, as shown by `tassis mail list`')

  withLimit(addCommand(mail, 'list', 'list the newest messages'), 'messages', 30)
    .addOption(new Option('--kind <kind>', 'only of this kind').choices(OPERATOR_MAIL_KINDS))
    .action(
      apiAction<JsonOption & { kind?: OperatorMailKind; limit: number }>(async ({ api, options }) => {
        const { kind, limit } = options
        const page = await readRows(api.operator.listMessages({ kind }), limit)
        printPage(options, page, 'There is no mail for the operator.', COLUMNS)
      }),
    )

  add('show', 'show a message')
    .option('--raw', 'show the raw message without control characters; with --json unchanged, in base64')
    .action(
      apiAction<JsonOption & { raw?: boolean }>(async ({ api, options }, id) => {
        const shown = await api.operator.getMessage(id)
        if (!options.raw) return printResult(options, shown, ({ data }) => formatMail(data))
        if (shown.data.source === null) throw new CommandError(GONE_MESSAGE)
        const raw = Buffer.from(await (await api.operator.getMessageRaw(id)).arrayBuffer())
        if (!options.json) return print(toPrintableLines(raw.toString('utf8').trimEnd()))
        printResult(options, { data: { ...shown.data, raw_base64: raw.toString('base64') } }, String)
      }),
    )

  add('retry', 'process a message again, such as a bounce that could not be parsed').action(
    apiAction(async ({ api, options }, id) => {
      await api.operator.retryMessage(id)
      printResult(
        options,
        { data: { id } },
        () => 'The message is being processed again; if it cannot be parsed, it returns to `tassis mail list`.',
      )
    }),
  )

  add('delete', 'delete a message permanently').action(
    apiAction(async ({ api, options }, id) => {
      await api.operator.deleteMessage(id)
      printResult(options, { data: { id } }, () => 'Deleted.')
    }),
  )
}

const formatMail = (mail: OperatorMessage): string =>
  [
    formatFields([
      ['Received', `${formatUtc(mail.received_at)} from ${mail.source_ip}, ${mail.size_bytes} bytes`],
      ['Kind', mail.kind],
      ['Why here', mail.reason],
      ['Envelope', `${formatAddress(mail.mail_from)} to ${mail.rcpt_to.join(', ')}`],
      ['From', mail.from ?? ''],
      ['Subject', mail.subject],
    ]),
    '',
    mail.text === null
      ? `(${mail.source === null ? GONE_MESSAGE : 'It has no text to show; --raw shows the whole message.'})`
      : toPrintableLines(mail.text.trimEnd()),
  ].join('\n')
