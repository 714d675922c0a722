/**
 * @module What arrives by mail for the operator: `tassis inbound` lists received mail that could not be parsed, of which
 * its account sees only the header and the raw form, and parses it again; `tassis mail` shows mail to postmaster or
 * abuse, and reports that could not be parsed; `tassis reports` the DMARC aggregate and TLS-RPT reports that other hosts
 * send; `tassis complaints` the complaint rates and the newest complaints. The content is untrusted: control characters
 * never reach the terminal, and HTML is never rendered.
 */
import { Option } from 'commander'
import type {
  OperatorComplaint,
  OperatorComplaintRate,
  OperatorMessage,
  OperatorMessageSummary,
  OperatorReportSummary,
  OperatorUnparsedMessage,
  RetryOperatorUnparsedMessageResult,
} from '#client/operator-api.ts'
import { OPERATOR_MAIL_KINDS, type OperatorMailKind } from '#features/receiving/postmaster/store.ts'
import { truncate } from '#platform/text.ts'
import { type CommandApi, findAccountFilter, readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { MAX_ROWS } from './options.ts'
import {
  type Columns,
  formatCount,
  formatFields,
  formatPage,
  formatUtc,
  print,
  printPage,
  printResult,
  toPrintable,
  toPrintableLines,
} from './output.ts'

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

  inbound
    .add('list', 'list unparsed messages, oldest first')
    .limit('messages', 30)
    .run(async ({ api, options }: Context<{ readonly limit: number }>) => {
      const messages: OperatorUnparsedMessage[] = []
      for await (const message of readUnparsed(api)) {
        messages.push(message)
        if (messages.length > options.limit) break
      }
      const found = { data: messages.slice(0, options.limit), has_more: messages.length > options.limit }
      printPage(options, found, 'All received messages were parsed.', MESSAGE_COLUMNS)
    })

  inbound
    .add('retry', 'parse a message again and store its content; its events are not emitted again')
    .argument('[id]', 'message ID, as shown by `tassis inbound list`')
    .addOption(new Option('--all', 'all messages that could not be parsed'))
    .answer(
      async ({ api, options }: Context<{ readonly all?: boolean }>, id?: string) => {
        if ((id === undefined) === (options.all !== true)) throw new UsageError('Give the ID of a message, or --all.')
        const data: RetryOperatorUnparsedMessageResult[] = []
        for await (const message of id === undefined ? readUnparsed(api) : [{ id }])
          data.push((await api.operator.retryUnparsedMessage(message.id)).data)
        if (data.some(({ parse_error: error }) => error !== null)) process.exitCode = 1
        return { data }
      },
      ({ data }) => {
        const failed = data.flatMap(({ id, parse_error: error }) =>
          error === null ? [] : [`${id} still cannot be parsed: ${toPrintable(error)}`],
        )
        return [`${formatCount(data.length - failed.length, 'message')} parsed.`, ...failed].join('\n')
      },
    )
}

async function* readUnparsed(api: CommandApi) {
  for (let after: string | undefined | null; after !== null; ) {
    const page = await api.operator.listUnparsedMessages({ after })
    yield* page.data
    after = page.next_after
  }
}

const MAX_MAIL_LENGTH = 60
const GONE_MESSAGE = 'The message is no longer stored; only its entry in `tassis mail list` is left.'

const formatAddress = (address: string): string => (address === '' ? '<>' : address)

const MAIL_COLUMNS: Columns<OperatorMessageSummary> = {
  ID: ({ id }) => id,
  RECEIVED: (row) => formatUtc(row.received_at),
  KIND: ({ kind }) => kind,
  TO: (row) => truncate(row.rcpt_to.join(', '), MAX_MAIL_LENGTH),
  FROM: (row) => truncate(row.from ?? formatAddress(row.mail_from), MAX_MAIL_LENGTH),
  SUBJECT: ({ subject }) => truncate(subject, MAX_MAIL_LENGTH),
  'WHY HERE': ({ reason }) => reason,
}

export function addMailCommands(program: Command): void {
  const mail = program
    .command('mail')
    .description('list, show or retry mail to postmaster and abuse, and reports that could not be parsed')
  /** A command about one message. */
  const add = (name: string, description: string): Command =>
    mail.add(name, description).argument('<id>', 'message ID, as shown by `tassis mail list`')

  mail
    .add('list', 'list the newest messages')
    .limit('messages', 30)
    .addOption(new Option('--kind <kind>', 'only of this kind').choices(OPERATOR_MAIL_KINDS))
    .list(
      ({ api, options: { kind } }: ListContext<{ kind?: OperatorMailKind }>) => api.operator.listMessages({ kind }),
      'There is no mail for the operator.',
      MAIL_COLUMNS,
    )

  add('show', 'show a message')
    .option('--raw', 'show the raw message without control characters; with --json unchanged, in base64')
    .run(async ({ api, options }: Context<{ raw?: boolean }>, id) => {
      const shown = await api.operator.getMessage(id)
      if (!options.raw) return printResult(options, shown, ({ data }) => formatMail(data))
      if (shown.data.source === null) throw new CommandError(GONE_MESSAGE)
      const raw = Buffer.from(await (await api.operator.getMessageRaw(id)).arrayBuffer())
      if (!options.json) return print(toPrintableLines(raw.toString('utf8').trimEnd()))
      printResult(options, { data: { ...shown.data, raw_base64: raw.toString('base64') } }, String)
    })

  add('retry', 'process a message again, such as a bounce that could not be parsed').answer(
    async ({ api }, id: string) => {
      await api.operator.retryMessage(id)
      return { data: { id } }
    },
    () => 'The message is being processed again; if it cannot be parsed, it returns to `tassis mail list`.',
  )

  add('delete', 'delete a message permanently').answer(
    async ({ api }, id: string) => {
      await api.operator.deleteMessage(id)
      return { data: { id } }
    },
    () => 'Deleted.',
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

const REPORT_COLUMNS: Columns<OperatorReportSummary> = {
  ID: ({ id }) => id,
  RECEIVED: (row) => formatUtc(row.received_at),
  KIND: ({ kind }) => kind,
  DOMAIN: ({ domain }) => domain,
  FROM: ({ organisation }) => truncate(organisation, MAX_CELL_LENGTH),
  PERIOD: (row) => formatPeriod(row),
  ACCOUNT: ({ account }) => account ?? '',
}

export function addReportCommands(program: Command): void {
  const reports = program
    .command('reports')
    .description('list or show DMARC and TLS reports that other hosts send about your domains')

  reports
    .add('list', 'list the newest reports')
    .limit('reports', 30)
    .option('--domain <domain>', 'only this domain')
    .list(
      ({ api, options: { domain } }: ListContext<{ domain?: string }>) => api.operator.listReports({ domain }),
      'There are no reports.',
      REPORT_COLUMNS,
    )

  reports
    .add('show', 'show the unpacked XML or JSON of a report')
    .argument('<id>', 'report ID, as shown by `tassis reports list`')
    .answer(
      async ({ api }, id) => api.operator.getReport(id),
      ({ data }) =>
        `${formatHeader(data)}\n\n${toPrintableLines(data.content.trimEnd())}${data.is_truncated ? '\n…' : ''}`,
    )
}

/** Formats a period as `2026-11-20` or `2026-11-19 to 2026-11-20`: nearly all reports cover whole days. */
function formatPeriod({ period_start, period_end }: OperatorReportSummary): string {
  const [first, last] = [period_start?.slice(0, 10), period_end?.slice(0, 10)]
  return first === undefined || last === undefined || first === last ? (first ?? last ?? '') : `${first} to ${last}`
}

const formatHeader = (shown: OperatorReportSummary): string =>
  formatFields([
    ['Received', `${formatUtc(shown.received_at)}, ${shown.size_bytes} bytes unpacked`],
    ['Kind', shown.kind === 'tls' ? 'TLS-RPT' : 'DMARC aggregate'],
    ['Domain', `${shown.domain} (${shown.account === null ? 'no account' : `account ${shown.account}`})`],
    ['From', shown.organisation],
    ['Id', shown.report_id],
    ['Period', formatPeriod(shown)],
  ])

const RATES: Columns<OperatorComplaintRate> = {
  ACCOUNT: ({ account }) => account,
  DELIVERED: ({ delivered }) => String(delivered),
  COMPLAINTS: ({ complaints }) => String(complaints),
  RATE: ({ rate }) => (rate === null ? '-' : `${(rate * 100).toFixed(3)} %`),
}

const COMPLAINTS: Columns<OperatorComplaint> = {
  WHEN: (row) => formatUtc(row.created_at),
  ACCOUNT: ({ account }) => account ?? '',
  COMPLAINER: ({ complainer }) => complainer ?? '(not reported)',
  TYPE: (row) => row.feedback_type,
  LOOP: (row) => row.feedback_loop ?? '(unproven)',
  'REPORTED BY': ({ reporter }) => truncate(reporter ?? '', MAX_CELL_LENGTH),
  EMAIL: (row) => row.email_id ?? '(deleted)',
}

export function addComplaintsCommand(program: Command): void {
  program
    .add('complaints', 'show complaint rates of the last 30 days and the newest complaints')
    .accountFilter()
    .limit('complaints', 20)
    .run(async ({ api, options }: Context<{ limit: number }>) => {
      const only = await findAccountFilter(api, options)
      const rates = await readRows(api.operator.listComplaintRates({ per_page: 100 }), MAX_ROWS)
      const shown = rates.data.filter((row) => only === undefined || row.account_id === only)
      const found = await readRows(api.operator.listComplaints({ account_id: only }), options.limit)
      printResult(options, { ...found, rates: shown }, () =>
        [
          'The last 30 days, without sandbox mail:',
          formatPage({ data: shown }, '', RATES),
          '',
          formatPage(found, 'No complaints.', COMPLAINTS),
        ].join('\n'),
      )
    })
}
