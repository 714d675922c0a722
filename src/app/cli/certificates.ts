/** @module `tassis certificates`: shows which certificates clients see, and makes failed orders due again. */
import type { OperatorCertificate } from '#client/operator-api.ts'
import { USE_NAMES } from '#features/setup/certificates/states.ts'
import type { Command } from './command.ts'
import { type Columns, formatFromNow, formatPage, formatUtcFromNow } from './output.ts'

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

const COLUMNS: Columns<OperatorCertificate> = {
  HOST: ({ host }) => host,
  FOR: ({ use }) => USE_NAMES[use],
  SOURCE: ({ source }) => source,
  'NOT AFTER': ({ not_after: at }) => at && formatUtcFromNow(at),
}

function formatList(page: { readonly data: readonly OperatorCertificate[] }): string {
  const problems = page.data.flatMap(({ host, mismatch, last_error: error, next_attempt_at: next }) => [
    ...(mismatch ? [`${mismatch.problem}\n  ${mismatch.fix}`] : []),
    ...(error === null
      ? []
      : [
          `${host}: ${error}\n  Next attempt ${next === null ? 'soon' : formatFromNow(next)}; \`tassis certificates retry\` makes it now.`,
        ]),
  ])
  const sentence = 'No certificates: neither TASSIS_HTTPS_ADDR nor an SMTP listener is set. A proxy has its own.'
  return [formatPage(page, sentence, COLUMNS), ...new Set(problems)].join('\n\n')
}
