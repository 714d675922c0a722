/**
 * @module What arrives by mail for the operator: `tassis inbound` lists received mail that could not be parsed, of which
 * its account sees only the header and the raw form, and parses it again; `tassis mail` shows mail to postmaster or
 * abuse, and reports that could not be parsed; `tassis reports` the DMARC aggregate and TLS-RPT reports that other hosts
 * send; `tassis complaints` the complaint rates and the newest complaints. The content is untrusted: control characters
 * never reach the terminal, and HTML is never rendered.
 */
import { readdirSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { TassisError } from '#client/client.ts'
import type { OperatorUnparsedMessage, RetryOperatorUnparsedMessageResult } from '#client/operator-api.ts'
import { OPERATOR_MAIL_KINDS, type OperatorMailKind } from '#features/receiving/postmaster/store.ts'
import { runAsCaller } from '#platform/disk/data-owner.ts'
import { type CommandApi, findAccountFilter, readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { CommandError, MAX_ROWS, readInput, UsageError } from './options.ts'
import { formatCount, formatFields, formatPage, joinParagraphs, printResult } from './output.ts'

export function addInboundCommands(program: Command): void {
  const add = program.group('inbound', 'list or retry received mail that could not be parsed')
  add('list', 'list unparsed messages, oldest first')
    .limit('messages', 30)
    .list(async ({ api, options: { limit } }: ListContext<{ readonly limit: number }>) => {
      const messages: OperatorUnparsedMessage[] = []
      for await (const message of readUnparsed(api)) if (messages.push(message) > limit) break
      return { data: messages.slice(0, limit), has_more: messages.length > limit }
    }, 'id received_at kind to from subject parse_error')
  add('retry [id]', 'parse a message again and store its content; its events are not emitted again', {
    id: 'message ID, as shown by `tassis inbound list`',
  })
    .option('--all', 'all messages that could not be parsed')
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
          error === null ? [] : [`${id} still cannot be parsed: ${error}`],
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

const GONE_MESSAGE = 'The message is no longer stored; only its entry in `tassis mail list` is left.'

export function addMailCommands(program: Command): void {
  const add = program.group('mail', 'list, show or retry mail to postmaster and abuse, and unparsed reports', {
    id: 'message ID, as shown by `tassis mail list`',
  })
  add('list', 'list the newest messages')
    .limit('messages', 30)
    .choice('--kind <kind>', 'only of this kind', OPERATOR_MAIL_KINDS)
    .list(
      ({ api, options: { kind } }: ListContext<{ kind?: OperatorMailKind }>) => api.operator.listMessages({ kind }),
      'id received_at kind rcpt_to from subject reason',
      { from: ({ from, mail_from }) => from ?? (mail_from || '<>') },
    )
  add('show <id>', 'show a message')
    .option('--raw', 'show the raw message without control characters')
    .run(async ({ api, options }: Context<{ raw?: boolean }>, id) => {
      const shown = await api.operator.getMessage(id)
      const { text, source, ...header } = shown.data
      if (source === null && options.raw) throw new CommandError(GONE_MESSAGE)
      const raw = options.raw ? await (await api.operator.getMessageRaw(id)).text() : undefined
      const none = source === null ? GONE_MESSAGE : 'It has no text to show; --raw shows the whole message.'
      printResult(options, shown, () => raw?.trimEnd() ?? joinParagraphs(formatFields(header), text?.trimEnd() ?? none))
    })
  add('retry <id>', 'process a message again, such as a bounce that could not be parsed').answer(
    async ({ api }, id: string) => {
      await api.operator.retryMessage(id)
      return { data: { id } }
    },
    () => 'The message is being processed again; if it cannot be parsed, it returns to `tassis mail list`.',
  )
  add('delete <id>', 'delete a message permanently').answer(
    async ({ api }, id: string) => {
      await api.operator.deleteMessage(id)
      return { data: { id } }
    },
    () => 'Deleted.',
  )
}

export function addReportCommands(program: Command): void {
  const add = program.group('reports', 'list, show or import DMARC and TLS reports about your domains')
  add('list', 'list the newest reports')
    .limit('reports', 30)
    .option('--domain <domain>', 'only this domain')
    .list(
      ({ api, options: { domain } }: ListContext<{ domain?: string }>) => api.operator.listReports({ domain }),
      'id received_at kind domain organisation period_start period_end account counted',
      {},
      'No reports yet. The first come a day or two after mail to Gmail and others, if the DMARC record asks for them: `tassis domains verify DOMAIN` shows yours, and `tassis domains records DOMAIN` the address that its rua= must name.',
    )
  add('import <files...>', 'import reports that a mailbox got before; known ones change nothing', {
    'files...': 'XML, JSON, gz, zip or eml files, or folders with them',
  }).answer(importReports, (found) => formatPage(found, 'file result counted reason'))
  add('show <id>', 'show the unpacked XML or JSON of a report', {
    id: 'report ID, as shown by `tassis reports list`',
  }).answer(
    async ({ api }, id) => api.operator.getReport(id),
    ({ data: { content, ...header } }) => `${formatFields(header)}\n\n${content.trimEnd()}`,
  )
}

/** The files themselves, and those in folders that can be reports. */
const listReportFiles = (paths: readonly string[]): string[] =>
  paths.flatMap((path) => {
    if (!runAsCaller(() => statSync(path, { throwIfNoEntry: false }))?.isDirectory()) return [path]
    const names = runAsCaller(() => readdirSync(path, { recursive: true, encoding: 'utf8' }))
    return names
      .filter((name) => /\.(?:xml|json|gz|zip|eml)$/i.test(name))
      .map((name) => join(path, name))
      .sort()
  })

/** Imports file by file; one that is refused does not stop the others. */
async function importReports({ api }: Context, paths: readonly string[]) {
  const data: { file: string; result: string; counted: number; reason: string | null }[] = []
  for (const file of listReportFiles(paths)) {
    const content = readInput(file, 'report').toString('base64')
    try {
      const imported = (await api.operator.createReport({ name: basename(file), content })).data
      const { is_new: isNew, counted, uncounted: reason } = imported
      if (isNew) data.push({ file, result: reason === null ? 'counted' : 'listed', counted: counted ?? 0, reason })
      else data.push({ file, result: 'known', counted: 0, reason: 'It was stored before.' })
    } catch (error) {
      if (!(error instanceof TassisError) || error.code !== 'report_refused') throw error
      data.push({ file, result: 'refused', counted: 0, reason: error.message })
      process.exitCode = 1
    }
  }
  return { data }
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
      const cells = {
        rate: ({ rate }: { rate: number | null }) => (rate === null ? null : `${(rate * 100).toFixed(3)} %`),
      }
      printResult(options, { ...found, rates: shown }, () =>
        joinParagraphs(
          `The last 30 days, without sandbox mail:\n${formatPage({ data: shown }, 'account delivered complaints rate', cells)}`,
          formatPage(
            found,
            'created_at account complainer feedback_type feedback_loop reporter email_id',
            undefined,
            'No complaints.',
          ),
        ),
      )
    })
}
