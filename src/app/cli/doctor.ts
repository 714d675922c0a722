/**
 * @module `tassis doctor`: checks the machine, its names and network, and the state of the service. A running service
 * makes the checks itself, with its own settings and rights; without one the command makes them. Changes nothing.
 */
import { join } from 'node:path'
import type { OperatorDoctor } from '#client/operator-api.ts'
import { SourceNames } from '#features/sending/delivery/providers/outbound-sources.ts'
import { attempt } from '#platform/attempt.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { createLog } from '#platform/log/log.ts'
import type { Config } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { createDoctorResolver, failure, listDnsServers } from '../doctor/context.ts'
import { runChecks } from '../doctor/doctor.ts'
import { loadConfig } from '../settings.ts'
import { callService } from './api.ts'
import type { Command } from './command.ts'
import { formatCount, type JsonOption, printResult } from './output.ts'

/** A service that has not finished its checks by then hangs. */
const SERVICE_TIMEOUT_MS = seconds(30)

export function addDoctorCommand(program: Command): void {
  program
    .add('doctor', 'check names, network, machine and service, and say what to mend; exit code 1 if a check failed')
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
  const findings = await examineHere(config)
  const problem =
    reply.kind === 'refused'
      ? failure(reply.message, 'Use the program of the same version, or restart the service.')
      : reply.kind === 'silent' &&
        failure('The service does not answer: it is suspended, or its disk hangs.', 'Look at its log, and restart it.')
  return {
    checked_at: isoTime(systemClock.now()),
    findings: findings.map((finding) =>
      problem && finding.check === 'service' ? { ...finding, ...problem } : finding,
    ),
  }
}

async function examineHere(config: Config): Promise<OperatorDoctor['findings']> {
  const clock = systemClock
  const resolver = createDoctorResolver(listDnsServers(config), clock)
  // `tassis check` says why a database cannot be read.
  const db = attempt(() => openReadOnly(join(config.dataDir, 'tassis.db')))
  try {
    const sourceNames = new SourceNames({ config, log: createLog('silent'), resolver })
    const { signal } = new AbortController()
    return await runChecks({ config, clock, resolver, sourceNames, service: undefined, db, signal })
  } finally {
    resolver.close()
    db?.close()
  }
}

const MARKS = { failure: 'FAILED ', warning: 'WARNING', ok: 'ok     ', skipped: 'skipped' }

/** The worst comes last, where a terminal shows it. */
function formatDoctor({ findings }: OperatorDoctor, isAll: boolean): string {
  const counts = { ok: 0, skipped: 0, warning: 0, failure: 0 }
  for (const { status } of findings) counts[status]++
  const order = Object.keys(counts)
  const shown = findings
    .filter(({ status }) => isAll || status === 'failure' || status === 'warning')
    .toSorted((a, b) => order.indexOf(a.status) - order.indexOf(b.status))
    .map(
      ({ check, status, message, fix }) => `${MARKS[status]} ${check}: ${message}${fix ? `\n        -> ${fix}` : ''}`,
    )
  const summary = `${formatCount(counts.failure, 'failure')}, ${formatCount(counts.warning, 'warning')}, ${counts.ok} ok, ${counts.skipped} not checked${isAll ? '' : ' (--all shows them)'}.`
  return [...shown, summary].join('\n')
}
