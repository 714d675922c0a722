/** @module `tassis providers`: limits, rates and suspensions of receiving providers; lifts a suspension. */

import type { OperatorAlert, OperatorProvider } from '#client/operator-api.ts'
import { quoteShellWord } from '#platform/text.ts'
import { type CommandApi, readRows } from './api.ts'
import type { Command, Context } from './command.ts'
import {
  type Columns,
  fields,
  formatCount,
  formatFromNow,
  formatPage,
  formatUtc,
  formatUtcFromNow,
  joinParagraphs,
} from './output.ts'

/** `all`: also the listed providers to which nothing was sent. */
type ListOptions = { readonly limit: number; readonly all?: boolean }

export function addProviderCommands(program: Command): void {
  const providers = program
    .add('providers', 'show limits, rates, suspensions and alerts of receiving providers')
    .option('--all', 'also listed providers to which nothing was sent')
    .limit('providers', 30)
    .answer(async ({ api, options }: Context<ListOptions>) => readProviders(api, options), formatProviders)
  providers
    .add('resume', 'lift the suspension of a provider, and restore a lowered rate')
    .argument('<name>', 'name of the provider, as `tassis providers` shows it')
    .answer(
      async ({ api }, name) => api.operator.resumeProvider(name),
      ({ data: { provider, resumed } }) =>
        resumed === 0
          ? `${provider} was neither suspended nor slowed down.`
          : `${provider} is back to its limits; mail that is due is tried now.\n\`tassis queue retry --provider ${quoteShellWord(provider)}\` also makes due what waits for another attempt. If it blocks us again, it is suspended again.`,
    )
}

async function readProviders({ operator }: CommandApi, { limit, all }: ListOptions) {
  const providers = await readRows(operator.listProviders({ per_page: 100, used: all ? undefined : 'true' }), limit)
  const { data: alerts } = await readRows(operator.listAlerts(), limit)
  const { data: health } = await operator.getHealth()
  return { ...providers, alerts, warnings: health.warnings }
}

const formatProviders = (found: Awaited<ReturnType<typeof readProviders>>): string =>
  joinParagraphs(
    formatPage(found, 'Nothing was sent yet; --all shows the limits of all listed providers.', COLUMNS),
    ...found.alerts.map(formatAlert),
    found.data.some(({ suspension }) => suspension !== null) &&
      '`tassis providers resume NAME` ends a suspension at once; do so when its cause has ended.',
    ...found.warnings.map((warning) => `Warning: ${warning}`),
  )

function formatAlert({ provider, source, rule, reply, count, first_at, last_at, advice }: OperatorAlert): string {
  const pair = `${provider}${source === null ? '' : ` from ${source}`}`
  const since = `${formatCount(count, 'attempt')} since ${formatUtc(first_at)}, the last ${formatFromNow(last_at)}`
  return [`Alert: ${pair}, rule ${rule}: ${since}`, `  ${reply}`, `  ${advice}`].join('\n')
}

const COLUMNS: Columns<OperatorProvider> = {
  ...fields<OperatorProvider>()('provider source in_delivery waiting_lanes'),
  CONNECTIONS: ({ limits }) => limits.connections,
  ...fields<OperatorProvider>()('rate_per_minute rate_factor'),
  'LAST HOUR': ({ last_hour: hour }) => `${hour.accepted} accepted, ${hour.deferred} deferred, ${hour.refused} refused`,
  'WARM-UP': ({ warm_up: warmUp }) => warmUp && `${warmUp.used} of ${warmUp.budget}`,
  SUSPENSION: ({ suspension: found }) =>
    found && `until ${formatUtcFromNow(found.until)}, ${found.rule}: ${found.reason}`,
}
