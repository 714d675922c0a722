/**
 * @module `tassis fence`: what waits since the data were restored from a backup or a copy, and `tassis fence release`,
 * `drop` and `mark`.
 */

import { join } from 'node:path'
import type { Command } from 'commander'
import { dropFence, type FenceSelection, type FenceView, readFenceView, releaseFence } from '#app/fence/release.ts'
import type { App } from '#features/core/app/app.ts'
import { CLI_OPERATOR } from '#features/core/audit-logs/audit.ts'
import { markAsCopy } from '#features/core/fence/mark.ts'
import { parseSelector } from '#features/sending/delivery/control/operator-queue.ts'
import type { QueuePosition } from '#features/sending/queue/queue.ts'
import { openDatabase } from '#platform/db/open.ts'
import { lockDirectory } from '#platform/disk/lock.ts'
import { type Millis, systemClock } from '#platform/time/clock.ts'
import { DataDirInUseError, explainCorruption, RESTORE_REMEDY } from '../create.ts'
import { runAsOwner } from '../data-owner.ts'
import { resolveOperator } from '../find-account.ts'
import { loadConfig } from '../settings.ts'
import { CommandError, defineAdminCommand } from './admin-command.ts'
import { type Call, requireData, runAdminCommand, withData } from './call.ts'
import { confirmAction } from './confirm.ts'
import { type JsonOption, withJson, withLimit } from './options.ts'
import {
  formatCount,
  formatMore,
  formatTable,
  formatUtc,
  type List,
  print,
  printResult,
  toList,
  toPrintable,
} from './output.ts'
import { parseInstantOption, TIME_FORMS } from './times.ts'

interface Selected {
  readonly domain?: string | undefined
  /** ID or name. */
  readonly account?: string | undefined
  /** Unix time in ms. */
  readonly since?: Millis | undefined
}

function resolveSelection(app: App, { domain, account, since }: Selected): FenceSelection {
  const account_id = account === undefined ? undefined : resolveOperator(app, account).accountUuid
  const isMailNamed = domain !== undefined || account_id !== undefined
  const { accountId, domain: lane } = isMailNamed ? parseSelector(app, { domain, account_id }) : {}
  return { accountId, domain: lane, since }
}

const read = defineAdminCommand(
  'fence.read',
  async ({ opened: { app } }, selected: Selected): Promise<FenceView | null> =>
    (await readFenceView(app, resolveSelection(app, selected))) ?? null,
)

const release = defineAdminCommand('fence.release', async ({ opened: { app } }, selected: Selected) => {
  const { released, due, isEnded } = await releaseFence(app, CLI_OPERATOR, resolveSelection(app, selected))
  return { released, due, is_ended: isEnded }
})

interface DropInput extends Selected {
  readonly after: QueuePosition | null
}

const drop = defineAdminCommand('fence.drop', async ({ opened: { app } }, { after, ...selected }: DropInput) => {
  const { dropped, next, isEnded } = await dropFence(
    app,
    CLI_OPERATOR,
    resolveSelection(app, selected),
    after ?? undefined,
  )
  return { dropped, next: next ?? null, is_ended: isEnded }
})

export const fenceAdminCommands = [read, release, drop]

interface FenceOptions extends JsonOption, Omit<Selected, 'since'> {
  readonly since?: string | undefined
  readonly yes?: boolean | undefined
  readonly limit: number
}

/** With `--json` of the parent command: `tassis fence --json ...`. */
const readOptions = (command: Command): FenceOptions => command.optsWithGlobals<FenceOptions>()

function toSelected({ domain, account, since: time }: FenceOptions): Selected {
  const since = parseInstantOption('--since', time, systemClock.now())
  return {
    domain,
    account,
    since,
  }
}

const withSelection = (command: Command): Command =>
  withJson(command)
    .option('--account <id|name>', 'mail of this account')
    .option('--domain <domain>', 'mail to this domain')
    .option('--since <time>', `mail accepted at or after this time: ${TIME_FORMS}`)
    .option('--yes', 'do not ask')

const NOTHING_WAITS = 'Nothing waits: the data were not restored from a backup, or all of it was released or dropped.'

export function addFenceCommands(program: Command): void {
  const fence = withLimit(withJson(program.command('fence')), 'accounts and domains', 20)
    .description('show what waits since the data were restored from a backup or a copy, to release or drop it')
    .action(async (_, command: Command) => {
      const options = readOptions(command)
      const view = await runAdminCommand(read, {})
      printResult(options, toFenceList(view, options.limit), formatFence)
    })
  withSelection(
    fence.command('release').description('send what waits as restored: some of it may have been sent before'),
  ).action(async (_, command: Command) => {
    const options = readOptions(command)
    const selected = toSelected(options)
    const done = await withData(loadConfig().config, async (call) => {
      await confirm(call, options, selected, 'send them, although they may have been sent before')
      return call(release, selected)
    })
    printResult(
      options,
      done,
      ({ released, due, is_ended }) =>
        `${formatCount(released, 'message')} released, ${due} of them due now; the others keep their time. ${formatRest(is_ended)}`,
    )
  })
  withSelection(
    fence.command('drop').description('cancel what waits as restored; an event says so, and its quota is given back'),
  ).action(async (_, command: Command) => {
    const options = readOptions(command)
    const selected = toSelected(options)
    const done = await withData(loadConfig().config, async (call) => {
      const waiting = await confirm(call, options, selected, 'cancel them')
      return dropAll(call, options, selected, waiting)
    })
    printResult(
      options,
      done,
      ({ dropped, is_ended, ...others }) =>
        `Dropped: ${formatTotals({ recipients: dropped, ...others })}. ${formatRest(is_ended)}`,
    )
  })
  withJson(fence.command('mark'))
    .description('mark stopped data as a copy, so that the next start fences it: after a restore by other programs')
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

/** Counts what would be changed and asks; throws CommandError without a yes. Resolves with the counts. */
async function confirm(call: Call, options: FenceOptions, selected: Selected, question: string): Promise<FenceTotals> {
  const found = await call(read, selected)
  if (!found) throw new CommandError(NOTHING_WAITS, 'nothing_waits')
  const { recipients, broadcasts, contact_mails, imports } = found
  // Without a selection, this ends the fence of a copy in which nothing waits.
  if (
    Object.values(selected).some((value) => value !== undefined) &&
    recipients + broadcasts + contact_mails + imports === 0
  )
    throw new CommandError('Nothing that waits matches; `tassis fence` lists what waits.', 'nothing_waits')
  confirmAction(options, `Waiting as restored: ${formatTotals(found)}`, question)
  return found
}

/** Calls the service until all selected mail was examined, because each call changes a limited number. */
async function dropAll(
  call: Call,
  { json }: JsonOption,
  selected: Selected,
  waiting: FenceTotals,
): Promise<{ dropped: number; is_ended: boolean } & Omit<FenceTotals, 'recipients'>> {
  let dropped = 0
  for (let after: QueuePosition | null = null; ; ) {
    const done: Awaited<ReturnType<typeof drop.run>> = await call(drop, { ...selected, after })
    dropped += done.dropped
    after = done.next
    if (!after) {
      const rest = await call(read, selected)
      return {
        // A broadcast takes its messages with it.
        dropped: waiting.recipients - (rest?.recipients ?? 0),
        broadcasts: waiting.broadcasts - (rest?.broadcasts ?? 0),
        contact_mails: waiting.contact_mails - (rest?.contact_mails ?? 0),
        imports: waiting.imports - (rest?.imports ?? 0),
        is_ended: done.is_ended,
      }
    }
    if (!json) print(`${dropped} dropped so far …`)
  }
}

type FenceTotals = Pick<FenceView, 'recipients' | 'broadcasts' | 'contact_mails' | 'imports'>

function formatTotals({ recipients, broadcasts, contact_mails, imports }: FenceTotals): string {
  const others = [
    ...(broadcasts > 0 ? [formatCount(broadcasts, 'broadcast')] : []),
    ...(contact_mails > 0 ? [`${formatCount(contact_mails, 'email')} to contacts`] : []),
    ...(imports > 0 ? [formatCount(imports, 'import')] : []),
  ]
  return [formatCount(recipients, 'message'), ...others].join(', ')
}

/** What waits, as a list of its accounts and domains; its other fields are null or 0 if nothing does. */
type FenceList = Required<List<FenceView['groups'][number]>> &
  FenceTotals & {
    readonly [Name in 'kind' | 'instance' | 'taken_at' | 'restored_at']: FenceView[Name] | null
  }

function toFenceList(view: FenceView | null, limit: number): FenceList {
  const { groups, ...facts } = view ?? EMPTY_VIEW
  return { ...facts, ...toList(groups.slice(0, limit), groups.length) }
}

const EMPTY_VIEW = {
  kind: null,
  instance: null,
  taken_at: null,
  restored_at: null,
  recipients: 0,
  broadcasts: 0,
  contact_mails: 0,
  imports: 0,
  groups: [] as FenceView['groups'],
} as const

function formatFence(view: FenceList): string {
  if (view.restored_at === null) return NOTHING_WAITS
  const taken = view.taken_at === null ? 'at an unknown time' : formatUtc(view.taken_at)
  const rows = view.data.map(({ account, domain, recipients, accepted_from, accepted_to }) => [
    account === null ? 'a deleted account' : toPrintable(account),
    domain,
    String(recipients),
    accepted_from === null ? '' : formatUtc(accepted_from),
    accepted_to === null ? '' : formatUtc(accepted_to),
  ])
  return [
    `These data are a ${view.kind} taken ${taken}, restored ${formatUtc(view.restored_at)} (instance ${view.instance}).`,
    `Waiting as restored: ${formatTotals(view)}. They may have been sent after the ${view.kind} was taken; new mail flows.`,
    '',
    ...(rows.length > 0 ? [formatTable(['ACCOUNT', 'DOMAIN', 'MESSAGES', 'ACCEPTED FROM', 'TO'], rows)] : []),
    ...formatMore(view),
    ...(rows.length > 0 ? [''] : []),
    'tassis fence release   sends them; some receivers may get them twice',
    'tassis fence drop      cancels them; what was not sent before is lost',
    'Both take --account, --domain and --since.',
  ].join('\n')
}
