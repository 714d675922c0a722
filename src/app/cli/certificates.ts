/** @module `tassis certificates`: shows which certificates clients see, and makes failed orders due again. */
import type { OperatorCertificate } from '#client/operator-api.ts'
import { USE_NAMES } from '#features/setup/certificates/states.ts'
import { systemClock } from '#platform/time/clock.ts'
import type { Command } from './command.ts'
import { type Columns, formatFromNow, formatPage, formatUtc } from './output.ts'

export function addCertificateCommands(program: Command): void {
  const certificates = program
    .command('certificates')
    .description('show the certificates of this service, or order them again')

  certificates
    .add('list', 'list the certificates that clients see')
    .answer(async ({ api }) => api.operator.listCertificates(), formatList)

  certificates.add('retry', 'order failed certificates now, after their cause was mended').answer(
    async ({ api }) => api.operator.retryCertificates(),
    ({ data: { hosts } }) =>
      hosts.length === 0
        ? 'No order has failed.'
        : `The service orders again: ${hosts.join(', ')}. See \`tassis certificates list\` in a minute.`,
  )
}

const SOURCES = { acme: 'certificate authority', file: 'TASSIS_TLS_CERT_FILE', none: 'self-signed' }

const COLUMNS: Columns<OperatorCertificate> = {
  HOST: ({ host }) => host,
  FOR: ({ use }) => USE_NAMES[use],
  FROM: ({ source, not_after: notAfter }) =>
    notAfter === null ? (source === 'acme' ? 'none yet' : 'self-signed') : SOURCES[source],
  'VALID UNTIL': ({ not_after: notAfter }) =>
    notAfter === null ? '' : `${formatUtc(notAfter)} (${isPast(notAfter) ? 'EXPIRED ' : ''}${formatFromNow(notAfter)})`,
}

function formatList(page: { readonly data: readonly OperatorCertificate[] }): string {
  const mismatches = page.data.flatMap(({ mismatch }) => (mismatch ? [`${mismatch.problem}\n  ${mismatch.fix}`] : []))
  const failures = page.data.flatMap(({ host, last_error: error, next_attempt_at: next }) => {
    const wait = next === null ? 'soon' : isPast(next) ? 'now' : formatFromNow(next)
    return error === null
      ? []
      : [`${host}: ${error}\n  Next attempt ${wait}; \`tassis certificates retry\` makes it now.`]
  })
  const sentence = 'No certificates: neither TASSIS_HTTPS_ADDR nor an SMTP listener is set. A proxy has its own.'
  return [formatPage(page, sentence, COLUMNS), ...mismatches, ...new Set(failures)].join('\n\n')
}

const isPast = (iso: string): boolean => Date.parse(iso) <= systemClock.now()
