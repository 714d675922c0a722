/** @module `tassis providers`: limits, rates and suspensions of receiving providers; lifts a suspension. */
import type { OperatorAlert, OperatorProvider } from '#client/operator-api.ts'
import { truncate } from '#platform/text.ts'
import { type CommandApi, readRows } from './api.ts'
import type { Command, Context } from './command.ts'
import type { JsonOption } from './options.ts'
import {
  type Columns,
  formatCount,
  formatFromNow,
  formatPage,
  formatUtc,
  quoteShellWord,
  toPrintable,
} from './output.ts'

const MAX_NAME_LENGTH = 60
const MAX_REASON_LENGTH = 120

interface ListOptions extends JsonOption {
  readonly limit: number
  /** Also the listed providers to which nothing was sent. */
  readonly all?: boolean
}

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
          ? `${toPrintable(provider)} was neither suspended nor slowed down.`
          : [
              `${toPrintable(provider)} is back to its limits; mail that is due is tried now.`,
              `\`tassis queue retry --provider ${quoteShellWord(toPrintable(provider))}\` also makes due what waits for another attempt. If it blocks us again, it is suspended again.`,
            ].join('\n'),
    )
}

async function readProviders({ operator }: CommandApi, { limit, all }: ListOptions) {
  const providers = await readRows(operator.listProviders({ per_page: 100, used: all ? undefined : 'true' }), limit)
  const { data: alerts } = await readRows(operator.listAlerts(), limit)
  const { data: health } = await operator.getHealth()
  return { ...providers, alerts, warnings: health.warnings }
}

const formatProviders = (found: Awaited<ReturnType<typeof readProviders>>): string =>
  [
    formatPage(found, 'Nothing was sent yet; --all shows the limits of all listed providers.', COLUMNS),
    ...found.alerts.map(formatAlert),
    ...(found.data.some(({ suspension }) => suspension !== null)
      ? ['`tassis providers resume NAME` ends a suspension at once; do so when its cause has ended.']
      : []),
    ...found.warnings.map((warning) => `Warning: ${toPrintable(warning)}`),
  ].join('\n\n')

function formatAlert({ provider, source, rule, reply, count, first_at, last_at, advice }: OperatorAlert): string {
  const pair = `${truncate(toPrintable(provider), MAX_NAME_LENGTH)}${source === null ? '' : ` from ${source}`}`
  const since = count === 1 ? '' : `${formatCount(count, 'attempt')} since ${formatUtc(first_at)}, the last `
  return [
    `Alert: ${pair}, rule ${rule}: ${since}${formatFromNow(last_at)}`,
    `  ${truncate(toPrintable(reply), MAX_REASON_LENGTH)}`,
    `  ${advice}`,
  ].join('\n')
}

const COLUMNS: Columns<OperatorProvider> = {
  PROVIDER: ({ provider }) => truncate(provider, MAX_NAME_LENGTH),
  FROM: ({ source }) => source ?? '-',
  CONNECTIONS: ({ limits }) => String(limits.connections),
  'PER MINUTE': ({ rate_per_minute: rate }) => (rate === null ? 'no limit' : String(rate)),
  'IN DELIVERY': ({ in_delivery: count }) => String(count),
  'LAST HOUR': ({ last_hour: hour }) => `${hour.accepted} accepted, ${hour.deferred} deferred, ${hour.refused} refused`,
  STATE: formatState,
}

function formatState({ suspension, rate_factor: factor, warm_up: warmUp, waiting_lanes: waiting }: OperatorProvider) {
  const budget = warmUp ? `; warm-up: ${warmUp.used} of ${warmUp.budget} messages of the day` : ''
  const lanes = `${budget}${waiting > 0 ? `; ${formatCount(waiting, 'lane')} waiting` : ''}`
  if (!suspension) return `${factor < 1 ? `slowed to ${Math.max(1, Math.round(factor * 100))} %` : 'ok'}${lanes}`
  const next = formatFromNow(suspension.until)
  return `suspended, next attempt ${next} (${suspension.rule}): ${truncate(toPrintable(suspension.reason), MAX_REASON_LENGTH)}${lanes}`
}
