/** @module `tassis certificates`: shows which certificates clients see, and makes failed orders due again. */
import type { Command } from 'commander'
import { audit, CLI_OPERATOR } from '#features/core/audit-logs/audit.ts'
import { resetOrderDelays } from '#features/setup/certificates/store.ts'
import { formatRelativeTime } from '#platform/text.ts'
import type { Millis } from '#platform/time/clock.ts'
import { certificateStates, USE_NAMES } from '../certificates/states.ts'
import { loadConfig } from '../settings.ts'
import { CommandError, defineAdminCommand } from './admin-command.ts'
import { runAdminCommand, withData } from './call.ts'
import { addCommand, type JsonOption } from './options.ts'
import { formatTable, formatUtc, printResult, toList } from './output.ts'

const toIso = (at: Millis | undefined): string | null => (at === undefined ? null : new Date(at).toISOString())

const list = defineAdminCommand('certificates.list', ({ opened: { app } }) => ({
  now: app.clock.now(),
  certificates: certificateStates(app).map(({ host, use, source, notAfter, mismatch, lastError, nextAttemptAt }) => ({
    host,
    use,
    source,
    not_after: toIso(notAfter),
    // Null: it is for the host, or there is none.
    mismatch: mismatch ?? null,
    last_error: lastError ?? null,
    next_attempt_at: toIso(nextAttemptAt),
  })),
}))

const retry = defineAdminCommand('certificates.retry', async ({ opened: { app } }) => {
  const failed = certificateStates(app).filter(({ lastError }) => lastError !== undefined)
  const hosts = [...new Set(failed.map(({ host }) => host))]
  resetOrderDelays(app.config.dataDir)
  app.certificatesDue.emit()
  if (hosts.length > 0)
    await app.commit.writeFromReserve((tx) =>
      audit(app, tx, CLI_OPERATOR, { action: 'operator.certificates_retried', metadata: { hosts } }),
    )
  return { hosts }
})

export const certificateAdminCommands = [list, retry]

export function addCertificateCommands(program: Command): void {
  const certificates = program
    .command('certificates')
    .description('show the certificates of this service, or order them again')

  addCommand(certificates, 'list', 'list the certificates that clients see').action(async (options: JsonOption) => {
    const found = await runAdminCommand(list, {})
    printResult(options, toList(found.certificates), () => formatList(found))
  })

  addCommand(certificates, 'retry', 'order failed certificates now, after their cause was mended').action(
    async (options: JsonOption) => {
      const { config } = loadConfig()
      if (!config.acmeTermsAgreed)
        throw new CommandError('No certificates are ordered; set TASSIS_ACME_TERMS_AGREED=true (docs/certificates.md).')
      const result = await withData(config, (call) => call(retry, {}))
      printResult(options, result, ({ hosts }) =>
        hosts.length === 0
          ? 'No order has failed.'
          : `The service orders again: ${hosts.join(', ')}. See \`tassis certificates list\` in a minute.`,
      )
    },
  )
}

const SOURCES = { acme: 'certificate authority', file: 'TASSIS_TLS_CERT_FILE', none: 'self-signed' } as const

function formatList({ certificates, now }: Awaited<ReturnType<typeof list.run>>): string {
  if (certificates.length === 0)
    return 'No certificates: neither TASSIS_HTTPS_ADDR nor an SMTP listener is set. A proxy has its own.'
  const rows = certificates.map(({ host, use, source, not_after: notAfter }) => [
    host,
    USE_NAMES[use],
    notAfter === null ? (source === 'acme' ? 'none yet' : 'self-signed') : SOURCES[source],
    notAfter === null ? '' : `${formatUtc(notAfter)} (${describeTime(Date.parse(notAfter), now)})`,
  ])
  const mismatches = certificates.flatMap(({ mismatch }) =>
    mismatch ? [`${mismatch.problem}\n  ${mismatch.fix}`] : [],
  )
  const failures = new Map(certificates.flatMap((one) => (one.last_error === null ? [] : [[one.host, one] as const])))
  const lines = [...failures.values()].map(
    ({ host, last_error: error, next_attempt_at: next }) =>
      `${host}: ${error}\n  Next attempt ${next === null ? 'soon' : formatRelativeTime(Math.max(Date.parse(next), now), now)}; \`tassis certificates retry\` makes it now.`,
  )
  return [formatTable(['HOST', 'FOR', 'FROM', 'VALID UNTIL'], rows), ...mismatches, ...lines].join('\n\n')
}

const describeTime = (notAfter: Millis, now: Millis): string =>
  notAfter <= now ? `EXPIRED ${formatRelativeTime(notAfter, now)}` : formatRelativeTime(notAfter, now)
