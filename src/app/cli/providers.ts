/** @module `tassis providers`: limits, rates and suspensions of receiving providers; lifts a suspension. */
import type { Command } from 'commander'
import { CLI_OPERATOR } from '#features/core/audit-logs/audit.ts'
import type { DeliveryAlert, ServerProvider } from '#features/sending/delivery/control/operator-provider-model.ts'
import { listAlerts, listProviders, resumeProvider } from '#features/sending/delivery/control/operator-providers.ts'
import { formatRelativeTime, truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { addCommand, type JsonOption, withLimit } from './options.ts'
import { formatCount, formatList, formatUtc, type List, printResult, toList, toPrintable } from './output.ts'
import { formatArgument } from './queue-format.ts'

const MAX_NAME_LENGTH = 60
const MAX_REASON_LENGTH = 120

interface ListInput {
  readonly limit: number
  /** Also the listed providers to which nothing was sent. */
  readonly all: boolean
}

interface ProviderList extends Required<List<ServerProvider>> {
  /** Replies of the last day that blame our addresses or set-up. */
  readonly alerts: readonly DeliveryAlert[]
  /** What is wrong with the reverse DNS of our addresses, as sentences. */
  readonly warnings: readonly string[]
}

const list = defineAdminCommand(
  'providers',
  ({ opened: { app, sourceNames }, delivery }, { limit, all }: ListInput): ProviderList => {
    const { used, total, views } = listProviders(app, delivery?.scheduler)
    const shown = all ? total : used
    return {
      ...toList(views(0, Math.min(limit, shown)), shown),
      alerts: listAlerts(delivery?.scheduler).slice(0, limit),
      warnings: sourceNames.problems(),
    }
  },
)

const resume = defineAdminCommand(
  'providers.resume',
  async ({ opened: { app }, delivery }, { name }: { readonly name: string }) => ({
    provider: name,
    resumed: await resumeProvider(app, delivery?.scheduler, CLI_OPERATOR, name),
  }),
)

export const providerAdminCommands = [list, resume]

export function addProviderCommands(program: Command): void {
  const providers = withLimit(
    addCommand(program, 'providers', 'show limits, rates, suspensions and alerts of receiving providers').option(
      '--all',
      'also listed providers to which nothing was sent',
    ),
    'providers',
    30,
  ).action(async (options: JsonOption & { limit: number; all?: boolean }) => {
    const found = await runAdminCommand(list, { limit: options.limit, all: options.all ?? false })
    printResult(options, found, (shown) => formatProviders(shown, systemClock.now()))
  })
  addCommand(providers, 'resume', 'lift the suspension of a provider, and restore a lowered rate')
    .argument('<name>', 'name of the provider, as `tassis providers` shows it')
    .action(async (name: string, _: unknown, command: Command) => {
      // `--json` may also stand before `resume`.
      const options = command.optsWithGlobals<JsonOption>()
      printResult(options, await runAdminCommand(resume, { name }), ({ provider, resumed }) =>
        resumed === 0
          ? `${toPrintable(provider)} was neither suspended nor slowed down.`
          : [
              `${toPrintable(provider)} is back to its limits; mail that is due is tried now.`,
              `\`tassis queue retry --provider ${formatArgument(provider)}\` also makes due what waits for another attempt. If it blocks us again, it is suspended again.`,
            ].join('\n'),
      )
    })
}

const formatProviders = (found: ProviderList, now: number): string =>
  [
    formatTraffic(found, now),
    ...found.alerts.map((alert) => formatAlert(alert, now)),
    ...(found.data.some(({ suspension }) => suspension !== null)
      ? ['`tassis providers resume NAME` ends a suspension at once; do so when its cause has ended.']
      : []),
    ...found.warnings.map((warning) => `Warning: ${toPrintable(warning)}`),
  ].join('\n\n')

function formatAlert({ provider, source, rule, reply, count, first_at, last_at, advice }: DeliveryAlert, now: number) {
  const pair = `${truncate(toPrintable(provider), MAX_NAME_LENGTH)}${source === null ? '' : ` from ${source}`}`
  const since = count === 1 ? '' : `${formatCount(count, 'attempt')} since ${formatUtc(first_at)}, the last `
  return [
    `Alert: ${pair}, rule ${rule}: ${since}${formatRelativeTime(Date.parse(last_at), now)}`,
    `  ${truncate(toPrintable(reply), MAX_REASON_LENGTH)}`,
    `  ${advice}`,
  ].join('\n')
}

const formatTraffic = (found: ProviderList, now: number): string =>
  formatList(
    found,
    'Nothing was sent yet; --all shows the limits of all listed providers.',
    ['PROVIDER', 'FROM', 'CONNECTIONS', 'PER MINUTE', 'IN DELIVERY', 'LAST HOUR', 'STATE'],
    (row) => [
      truncate(row.provider, MAX_NAME_LENGTH),
      row.source ?? '-',
      String(row.limits.connections),
      row.rate_per_minute === null ? 'no limit' : String(row.rate_per_minute),
      String(row.in_delivery),
      `${row.last_hour.accepted} accepted, ${row.last_hour.deferred} deferred, ${row.last_hour.refused} refused`,
      formatState(row, now),
    ],
  )

function formatState(
  { suspension, rate_factor: factor, warm_up: warmUp, waiting_lanes: waiting }: ServerProvider,
  now: number,
): string {
  const budget = warmUp ? `; warm-up: ${warmUp.used} of ${warmUp.budget} messages of the day` : ''
  const lanes = `${budget}${waiting > 0 ? `; ${formatCount(waiting, 'lane')} waiting` : ''}`
  if (suspension) {
    const reason = truncate(toPrintable(suspension.reason), MAX_REASON_LENGTH)
    return `suspended, next attempt ${formatRelativeTime(Date.parse(suspension.until), now)} (${suspension.rule}): ${reason}${lanes}`
  }
  return `${factor < 1 ? `slowed to ${Math.max(1, Math.round(factor * 100))} %` : 'ok'}${lanes}`
}
