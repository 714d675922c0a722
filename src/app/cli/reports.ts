/**
 * @module `tassis reports`: shows the DMARC aggregate and TLS-RPT reports that other hosts send about domains of this
 * service. The content is untrusted: control characters never reach the terminal.
 */
import type { Command } from 'commander'
import type { DomainReport } from '#features/receiving/domain-reports/model.ts'
import { toReportView } from '#features/receiving/domain-reports/model.ts'
import { parseDomainName, readReport } from '#features/receiving/domain-reports/operator-routes.ts'
import { listReports } from '#features/receiving/domain-reports/store.ts'
import { truncate } from '#platform/text.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { addCommand, type JsonOption, withLimit } from './options.ts'
import { formatFields, formatUtc, printList, printResult, toLimitedList, toPrintableLines } from './output.ts'

interface ListInput {
  readonly domain?: string | undefined
  readonly limit: number
}

const list = defineAdminCommand('reports.list', ({ opened: { app } }, { domain, limit }: ListInput) => {
  // Reading one extra row shows whether there are more; a count would read all rows.
  const only = domain === undefined ? undefined : parseDomainName(domain)
  return toLimitedList(listReports(app.db, only, { limit: limit + 1, offset: 0 }).reports.map(toReportView), limit)
})

const show = defineAdminCommand('reports.show', ({ opened: { app } }, { id }: { readonly id: string }) => {
  const { content, ...view } = readReport(app, id)
  return { ...view, content: new TextDecoder().decode(content) }
})

export const reportAdminCommands = [list, show]

export function addReportCommands(program: Command): void {
  const reports = program
    .command('reports')
    .description('list or show DMARC and TLS reports that other hosts send about your domains')

  withLimit(addCommand(reports, 'list', 'list the newest reports'), 'reports', 30)
    .option('--domain <domain>', 'only this domain')
    .action(async (options: JsonOption & ListInput) => {
      printList(
        options,
        await runAdminCommand(list, options),
        'There are no reports.',
        ['ID', 'RECEIVED', 'KIND', 'DOMAIN', 'FROM', 'PERIOD', 'ACCOUNT'],
        (row) => [
          row.id,
          formatUtc(row.received_at),
          row.kind,
          row.domain,
          truncate(row.organisation, MAX_CELL_LENGTH),
          formatPeriod(row),
          row.account ?? '',
        ],
      )
    })

  addCommand(reports, 'show', 'show the unpacked XML or JSON of a report')
    .argument('<id>', 'report ID, as shown by `tassis reports list`')
    .action(async (id: string, options: JsonOption) => {
      const found = await runAdminCommand(show, { id })
      printResult(options, found, (shown) => `${formatHeader(shown)}\n\n${toPrintableLines(shown.content.trimEnd())}`)
    })
}

const MAX_CELL_LENGTH = 40

/** Formats a period as `2026-11-20` or `2026-11-19 to 2026-11-20`: nearly all reports cover whole days. */
function formatPeriod({ period_start, period_end }: DomainReport): string {
  const [first, last] = [period_start?.slice(0, 10), period_end?.slice(0, 10)]
  return first === undefined || last === undefined || first === last ? (first ?? last ?? '') : `${first} to ${last}`
}

const formatHeader = (shown: DomainReport): string =>
  formatFields([
    ['Received', `${formatUtc(shown.received_at)}, ${shown.size_bytes} bytes unpacked`],
    ['Kind', shown.kind === 'tls' ? 'TLS-RPT' : 'DMARC aggregate'],
    ['Domain', `${shown.domain} (${shown.account === null ? 'no account' : `account ${shown.account}`})`],
    ['From', shown.organisation],
    ['Id', shown.report_id],
    ['Period', formatPeriod(shown)],
  ])
