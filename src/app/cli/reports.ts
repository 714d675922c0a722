/**
 * @module `tassis reports`: shows the DMARC aggregate and TLS-RPT reports that other hosts send about domains of this
 * service. The content is untrusted: control characters never reach the terminal.
 */
import type { Command } from 'commander'
import type { OperatorReportSummary } from '#client/operator-api.ts'
import { truncate } from '#platform/text.ts'
import { apiAction, readRows } from './api.ts'
import { addCommand, type JsonOption, withLimit } from './options.ts'
import { type Columns, formatFields, formatUtc, printPage, printResult, toPrintableLines } from './output.ts'

const MAX_CELL_LENGTH = 40

const COLUMNS: Columns<OperatorReportSummary> = {
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

  withLimit(addCommand(reports, 'list', 'list the newest reports'), 'reports', 30)
    .option('--domain <domain>', 'only this domain')
    .action(
      apiAction<JsonOption & { domain?: string; limit: number }>(async ({ api, options: { domain, limit, json } }) =>
        printPage(
          { json },
          await readRows(api.operator.listReports({ domain }), limit),
          'There are no reports.',
          COLUMNS,
        ),
      ),
    )

  addCommand(reports, 'show', 'show the unpacked XML or JSON of a report')
    .argument('<id>', 'report ID, as shown by `tassis reports list`')
    .action(
      apiAction(async ({ api, options }, id) =>
        printResult(
          options,
          await api.operator.getReport(id),
          ({ data }) =>
            `${formatHeader(data)}\n\n${toPrintableLines(data.content.trimEnd())}${data.is_truncated ? '\n…' : ''}`,
        ),
      ),
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
