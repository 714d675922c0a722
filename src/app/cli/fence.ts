/**
 * @module `tassis fence`: what waits since the data were restored from a backup or a copy, and `tassis fence release`,
 * `drop` and `mark`.
 */

import { join } from 'node:path'
import type { OperatorFence, ReleaseOperatorFenceRequest } from '#client/operator-api.ts'
import { markAsCopy } from '#features/core/fence/restored.ts'
import { openDatabase } from '#platform/db/open.ts'
import { runAsOwner } from '#platform/disk/data-owner.ts'
import { lockDirectory } from '#platform/disk/lock.ts'
import { systemClock } from '#platform/time/clock.ts'
import { DataDirInUseError, explainCorruption, RESTORE_REMEDY, requireNoCluster } from '../create.ts'
import { loadConfig } from '../settings.ts'
import { sendAll } from './api.ts'
import { requireData } from './call.ts'
import type { Command, Context } from './command.ts'
import { CommandError, confirmAction, parseInstantOption, parseTimeOption, TIME_FORMS } from './options.ts'
import { formatFields, formatPage, formatValue, joinParagraphs, print, printResult } from './output.ts'

interface FenceOptions {
  readonly domain?: string
  readonly since?: string
  readonly yes?: boolean
}

const withSelection = (command: Command): Command =>
  command
    .option('--account <id|name>', 'mail of this account')
    .option('--domain <domain>', 'mail to this domain')
    .option('--since <time>', `mail accepted at or after this time: ${TIME_FORMS}`)
    .option('--yes', 'do not ask')

const NOTHING_WAITS = 'Nothing waits: the data were not restored from a backup, or all of it was released or dropped.'

export function addFenceCommands(program: Command): void {
  const fence = program
    .add('fence', 'show what waits since the data were restored from a backup or a copy, to release or drop it')
    .limit('accounts and domains', 20)
    .answer(
      async ({ api }: Context<{ limit: number }>) => api.operator.getFence(),
      ({ data }, { options }) => (data ? formatFence(data, options.limit) : NOTHING_WAITS),
    )
  withSelection(fence.add('release', 'send what waits as restored: some of it may have been sent before')).answer(
    async (context: Context<FenceOptions>) => {
      const { selector } = await selectFenced(context, 'send them, although they may have been sent before')
      return context.api.operator.releaseFence(selector)
    },
  )
  withSelection(
    fence.add('drop', 'cancel what waits as restored; an event says so, and its quota is given back'),
  ).answer(async (context: Context<FenceOptions>) => {
    const { selector, found } = await selectFenced(context, 'cancel them')
    const { recipients, broadcasts, contact_mails, imports } = found
    let is_ended = false
    for await (const done of sendAll((cursor) => context.api.operator.dropFence({ ...selector, cursor }))) {
      is_ended = done.is_ended
      if (done.next_cursor !== null && !context.options.json) print(`${done.dropped} more dropped …`)
    }
    return { data: { recipients, broadcasts, contact_mails, imports, is_ended } }
  })
  fence
    .add('mark', 'mark stopped data as a copy, so that the next start fences it: after a restore by other programs')
    .option('--taken-at <time>', `when the copy was made, for \`tassis fence\`: ${TIME_FORMS}`)
    .action(async (_, command: Command) => {
      const options = command.optsWithGlobals<{ json?: boolean; takenAt?: string }>()
      const takenAt = parseInstantOption('--taken-at', options.takenAt, systemClock.now()) ?? null
      const { config } = loadConfig()
      requireData(config)
      // A copy may lack the lock, which this creates.
      await runAsOwner(config.dataDir, async () => markStopped(config, takenAt))
      const sentence = `Marked as a copy: at its next start, mail that is open in ${config.dataDir} waits as restored, until \`tassis fence release\` or \`tassis fence drop\`.`
      printResult(options, { marked: true }, () => sentence)
    })
}

function markStopped(config: ReturnType<typeof loadConfig>['config'], takenAt: number | null): void {
  requireNoCluster(config)
  const lock = lockDirectory(config.dataDir)
  if (!lock)
    throw new DataDirInUseError(
      `Another process is using ${config.dataDir}; stop it first: only data that no service uses can be marked as a copy.`,
    )
  const path = join(config.dataDir, 'tassis.db')
  try {
    explainCorruption(path, RESTORE_REMEDY, () => {
      using db = openDatabase(path)
      db.run('PRAGMA synchronous = FULL')
      markAsCopy(db, { kind: 'copy', takenAt })
    })
  } finally {
    lock.release()
  }
}

/** Counts what the options select, and asks. @throws CommandError without a yes */
async function selectFenced({ api, options }: Context<FenceOptions>, question: string) {
  const { account, domain, since } = options
  const selector: ReleaseOperatorFenceRequest = {
    account_id: account === undefined ? undefined : (await api.account.get()).data.id,
    domain,
    from_date: since === undefined ? undefined : parseTimeOption('--since', since, systemClock.now()),
  }
  const { data: found } = await api.operator.getFence(selector)
  if (!found) throw new CommandError(NOTHING_WAITS, 'nothing_waits')
  const { recipients, broadcasts, contact_mails, imports } = found
  // Without a selection, this ends the fence of a copy in which nothing waits.
  const isPart = Object.values(selector).some((value) => value !== undefined)
  if (isPart && recipients + broadcasts + contact_mails + imports === 0)
    throw new CommandError('Nothing that waits matches; `tassis fence` lists what waits.', 'nothing_waits')
  confirmAction(
    options,
    `Waiting as restored: ${formatValue({ recipients, broadcasts, contact_mails, imports })}`,
    question,
  )
  return { selector, found }
}

function formatFence(view: OperatorFence, limit: number): string {
  const { groups, group_count: total, ...shown } = view
  const page = { data: groups.slice(0, limit), has_more: total > limit }
  return joinParagraphs(
    formatFields(shown),
    formatPage(page, 'account domain recipients accepted_from accepted_to'),
    'This mail waits as restored: some of it may have been sent before; new mail flows.\n`tassis fence release` sends it, `tassis fence drop` cancels it; both take --account, --domain and --since.',
  )
}
