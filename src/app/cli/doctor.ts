/**
 * @module `tassis doctor`: checks the machine, its names and network, and the state of the service. A running service
 * makes the checks itself, with its own settings and rights; without one the command makes them. Changes nothing.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { OperatorDoctor, OperatorDoctorFinding } from '#client/operator-api.ts'
import { SourceNames } from '#features/sending/delivery/providers/outbound-sources.ts'
import { attempt } from '#platform/attempt.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { createLog } from '#platform/log/log.ts'
import type { Config } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { createDoctorResolver, listDnsServers } from '../doctor/context.ts'
import { failure } from '../doctor/finding.ts'
import { runChecks } from '../doctor/run.ts'
import { loadConfig } from '../settings.ts'
import type { Command } from './command.ts'
import { callService } from './local-service.ts'
import type { JsonOption } from './options.ts'
import { formatCount, printResult, toPrintable } from './output.ts'

/** A service that has not finished its checks by then hangs. */
const SERVICE_TIMEOUT_MS = seconds(30)

export function addDoctorCommand(program: Command): void {
  program
    .add(
      'doctor',
      'check names, network, machine and service, and say how to mend what is wrong; exit code 1 if a check failed',
    )
    .option('-a, --all', 'also show what is well or was not checked')
    .action(async (options: JsonOption & { readonly all?: boolean }) => {
      const report = await examine(loadConfig().config)
      printResult(options, { data: report }, ({ data }) => formatDoctor(data, options.all ?? false))
      if (report.findings.some(({ status }) => status === 'failure')) process.exitCode = 1
    })
}

/** Has the service make the checks, or makes them here when none answers. */
async function examine(config: Config): Promise<OperatorDoctor> {
  const reply = await callService(config, (api) => api.operator.runDoctor(), SERVICE_TIMEOUT_MS)
  if (reply.kind === 'ok') return reply.value.data
  const report = { checked_at: isoTime(systemClock.now()), findings: await examineHere(config) }
  if (reply.kind === 'nobody') return report
  const service =
    reply.kind === 'refused'
      ? failure(reply.message, 'Use the program of the same version, or restart the service.')
      : failure(
          'The service does not answer: it is suspended, or its disk hangs.',
          'Look at its log and at the disk, and restart it.',
        )
  return {
    ...report,
    findings: report.findings.map((finding) => (finding.check === 'service' ? { ...finding, ...service } : finding)),
  }
}

async function examineHere(config: Config): Promise<OperatorDoctorFinding[]> {
  const clock = systemClock
  const resolver = createDoctorResolver(listDnsServers(config), clock)
  const db = openExisting(config)
  try {
    const sourceNames = new SourceNames({ config, log: createLog('silent'), resolver })
    const { signal } = new AbortController()
    return await runChecks({ config, clock, resolver, sourceNames, service: undefined, db, signal })
  } finally {
    resolver.close()
    db?.close()
  }
}

/** The database; undefined when there is none, or it cannot be read. `tassis check` says why. */
const openExisting = ({ dataDir }: Config): Database | undefined =>
  attempt(() => openReadOnly(join(dataDir, 'tassis.db')))

const MARKS: Readonly<Record<OperatorDoctorFinding['status'], string>> = {
  ok: 'ok      ',
  warning: 'WARNING ',
  failure: 'FAILED  ',
  skipped: 'skipped ',
}
const ORDER: readonly OperatorDoctorFinding['status'][] = ['failure', 'warning', 'ok', 'skipped']
const INDENT = ' '.repeat(MARKS.ok.length)

/** The worst comes last, where a terminal shows it. */
function formatDoctor({ findings }: OperatorDoctor, isAll: boolean): string {
  const count = (status: OperatorDoctorFinding['status']): number =>
    findings.filter((finding) => finding.status === status).length
  const shown = findings
    .filter(({ status }) => isAll || status === 'failure' || status === 'warning')
    .toSorted((a, b) => ORDER.indexOf(b.status) - ORDER.indexOf(a.status))
  const summary = `${formatCount(count('failure'), 'failure')}, ${formatCount(count('warning'), 'warning')}, ${count('ok')} ok, ${count('skipped')} not checked${isAll ? '' : ' (--all shows them)'}.`
  return [...shown.map(formatFinding), summary].join('\n')
}

const formatFinding = ({ check, status, message, fix }: OperatorDoctorFinding): string =>
  [`${MARKS[status]}${check}: ${toPrintable(message)}`, ...(fix ? [`${INDENT}-> ${toPrintable(fix)}`] : [])].join('\n')
