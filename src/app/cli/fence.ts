/**
 * @module `tassis fence`: what waits since the data were restored from a backup or a copy, and `tassis fence release`,
 * `drop` and `mark`.
 */

import { join } from 'node:path'
import type { DropOperatorFenceResult, OperatorFence, ReleaseOperatorFenceRequest } from '#client/operator-api.ts'
import { markAsCopy } from '#features/core/fence/mark.ts'
import { openDatabase } from '#platform/db/open.ts'
import { lockDirectory } from '#platform/disk/lock.ts'
import { systemClock } from '#platform/time/clock.ts'
import { DataDirInUseError, explainCorruption, RESTORE_REMEDY } from '../create.ts'
import { runAsOwner } from '../data-owner.ts'
import { loadConfig } from '../settings.ts'
import { requireData } from './call.ts'
import type { Command, Context } from './command.ts'
import { CommandError } from './errors.ts'
import { confirmAction } from './input.ts'
import type { JsonOption } from './options.ts'
import { type Columns, formatCount, formatPage, formatTime, formatUtc, print, printResult } from './output.ts'
import { parseInstantOption, parseTimeOption, TIME_FORMS } from './times.ts'

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
    ({ data: { released, due, is_ended } }) =>
      `${formatCount(released, 'message')} released, ${due} of them due now; the others keep their time. ${formatRest(is_ended)}`,
  )
  withSelection(
    fence.add('drop', 'cancel what waits as restored; an event says so, and its quota is given back'),
  ).answer(
    async (context: Context<FenceOptions>) => {
      const { selector, found } = await selectFenced(context, 'cancel them')
      const { is_ended } = await dropAll(context, selector)
      const { recipients, broadcasts, contact_mails, imports } = found
      return { data: { recipients, broadcasts, contact_mails, imports, is_ended } }
    },
    ({ data }) => `Dropped: ${formatTotals(data)}. ${formatRest(data.is_ended)}`,
  )
  fence
    .add('mark', 'mark stopped data as a copy, so that the next start fences it: after a restore by other programs')
    .option('--taken-at <time>', `when the copy was made, for \`tassis fence\`: ${TIME_FORMS}`)
    .action(async (_, command: Command) => {
      const options = command.optsWithGlobals<JsonOption & { takenAt?: string }>()
      const takenAt = parseInstantOption('--taken-at', options.takenAt, systemClock.now()) ?? null
      const { config } = loadConfig()
      requireData(config)
      // A copy may lack the lock, which this creates.
      await runAsOwner(config.dataDir, async () => markStopped(config, takenAt))
      printResult(
        options,
        { marked: true },
        () =>
          `Marked as a copy: at its next start, mail that is open in ${config.dataDir} waits as restored, until \`tassis fence release\` or \`tassis fence drop\`.`,
      )
    })
}

function markStopped(config: ReturnType<typeof loadConfig>['config'], takenAt: number | null): void {
  const lock = lockDirectory(config.dataDir)
  if (!lock)
    throw new DataDirInUseError(
      `Another process is using ${config.dataDir}; stop it first: only data that no service uses can be marked as a copy.`,
    )
  const path = join(config.dataDir, 'tassis.db')
  try {
    explainCorruption(path, RESTORE_REMEDY, () => {
      const db = openDatabase(path)
      try {
        db.run('PRAGMA synchronous = FULL')
        markAsCopy(db, { kind: 'copy', takenAt })
      } finally {
        db.close()
      }
    })
  } finally {
    lock.release()
  }
}

const formatRest = (isEnded: boolean): string =>
  isEnded ? 'Nothing waits as restored any more.' : 'The rest waits: see `tassis fence`.'

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
  confirmAction(options, `Waiting as restored: ${formatTotals(found)}`, question)
  return { selector, found }
}

/** Repeats the request until all selected mail was examined, because each changes a limited number. */
async function dropAll(
  { api, options }: Context<FenceOptions>,
  selector: ReleaseOperatorFenceRequest,
): Promise<DropOperatorFenceResult> {
  let dropped = 0
  for (let cursor: string | undefined; ; ) {
    const { data: done } = await api.operator.dropFence({ ...selector, cursor })
    dropped += done.dropped
    if (done.next_cursor === null) return done
    cursor = done.next_cursor
    if (!options.json) print(`${dropped} dropped so far …`)
  }
}

type Totals = Pick<OperatorFence, 'recipients' | 'broadcasts' | 'contact_mails' | 'imports'>

const formatTotals = ({ recipients, broadcasts, contact_mails, imports }: Totals): string =>
  [
    formatCount(recipients, 'message'),
    ...(broadcasts > 0 ? [formatCount(broadcasts, 'broadcast')] : []),
    ...(contact_mails > 0 ? [`${formatCount(contact_mails, 'email')} to contacts`] : []),
    ...(imports > 0 ? [formatCount(imports, 'import')] : []),
  ].join(', ')

const COLUMNS: Columns<OperatorFence['groups'][number]> = {
  ACCOUNT: ({ account }) => account ?? 'a deleted account',
  DOMAIN: ({ domain }) => domain,
  MESSAGES: ({ recipients }) => String(recipients),
  'ACCEPTED FROM': ({ accepted_from: at }) => formatTime(at),
  TO: ({ accepted_to: at }) => formatTime(at),
}

function formatFence(view: OperatorFence, limit: number): string {
  const taken = view.taken_at === null ? 'at an unknown time' : formatUtc(view.taken_at)
  const groups = {
    data: view.groups.slice(0, limit),
    pagination: { total: view.group_count },
    has_more: view.group_count > limit,
  }
  return [
    `These data are a ${view.kind} taken ${taken}, restored ${formatUtc(view.restored_at)} (instance ${view.instance}).`,
    `Waiting as restored: ${formatTotals(view)}. They may have been sent after the ${view.kind} was taken; new mail flows.`,
    '',
    ...(view.group_count > 0 ? [formatPage(groups, '', COLUMNS), ''] : []),
    'tassis fence release   sends them; some receivers may get them twice',
    'tassis fence drop      cancels them; what was not sent before is lost',
    'Both take --account, --domain and --since.',
  ].join('\n')
}
