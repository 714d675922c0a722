/**
 * @module `tassis queue hold`, `release`, `retry`, `redirect`, `bounce` and `drop`: what the operator does with mail in
 * the queue. Each counts first and asks.
 */

import { type Command, Option } from 'commander'
import type { App } from '#features/core/app/app.ts'
import { CLI_OPERATOR } from '#features/core/audit-logs/audit.ts'
import {
  changeMail,
  holdMail,
  parseReason,
  parseSelector,
  type QueueAction,
  redirectMail,
  releaseMail,
} from '#features/sending/delivery/control/operator-queue.ts'
import type { QueueRuleRecord, QueueSelection } from '#features/sending/delivery/control/operator-queue-model.ts'
import { countSelected } from '#features/sending/delivery/control/queue-control.ts'
import { releaseWithoutContent } from '#features/sending/delivery/verdict/held-mail.ts'
import type { QueuePosition } from '#features/sending/queue/queue.ts'
import { type MailSelector, QUEUE_RULE_KINDS, type QueueRuleKind } from '#features/sending/queue/queue-rules.ts'
import { formatUuid } from '#platform/ids.ts'
import { resolveOperator } from '../find-account.ts'
import { requireEmail } from '../find-email.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand, UsageError } from './admin-command.ts'
import { type Call, runAdminCommand, withData } from './call.ts'
import { confirmAction } from './confirm.ts'
import { type JsonOption, withJson } from './options.ts'
import { formatCount, formatUtc, type List, print, printResult, toList, toPrintable } from './output.ts'
import { formatArgument, formatHeldAndInDelivery, formatInDelivery, formatSuspended } from './queue-format.ts'

interface Selected {
  readonly domain?: string | undefined
  readonly provider?: string | undefined
  /** ID or name. */
  readonly account?: string | undefined
  /** ID, its beginning, or Message-ID. */
  readonly email?: string | undefined
}

function resolveSelector(app: App, { domain, provider, account, email }: Selected): MailSelector {
  const account_id = account === undefined ? undefined : resolveOperator(app, account).accountUuid
  const email_id = email === undefined ? undefined : formatUuid(requireEmail(app, email).email.uuid)
  return parseSelector(app, { domain, provider, account_id, email_id })
}

const select = defineAdminCommand('queue.select', ({ opened: { app } }, selected: Selected) =>
  countSelected(app, resolveSelector(app, selected)),
)

const hold = defineAdminCommand(
  'queue.hold',
  ({ opened: { app } }, { reason, ...selected }: Selected & { reason: string }) =>
    holdMail(app, CLI_OPERATOR, resolveSelector(app, selected), parseReason(reason, false)),
)

const redirect = defineAdminCommand(
  'queue.redirect',
  ({ opened: { app } }, { reason, to, ...selected }: Selected & { reason: string; to: string }) =>
    redirectMail(app, CLI_OPERATOR, resolveSelector(app, selected), to, parseReason(reason, false)),
)

const release = defineAdminCommand(
  'queue.release-held',
  ({ opened: { app } }, { kind, ...selected }: Selected & { kind?: QueueRuleKind | undefined }) =>
    releaseMail(app, CLI_OPERATOR, resolveSelector(app, selected), kind),
)

interface ChangeInput extends Selected {
  readonly action: QueueAction
  readonly reason: string
  readonly after: QueuePosition | null
}

const change = defineAdminCommand(
  'queue.change',
  async ({ opened: { app } }, { action, reason, after, ...selected }: ChangeInput) => {
    const selector = resolveSelector(app, selected)
    const options = { reason: parseReason(reason, action === 'bounce'), after: after ?? undefined }
    const { next, ...done } = await changeMail(app, CLI_OPERATOR, action, selector, options)
    return { ...done, next: next ?? null }
  },
)

const releaseContent = defineAdminCommand('queue.release', async ({ opened: { app } }, _: null) => ({
  released: await releaseWithoutContent(app),
}))

export const queueControlAdminCommands = [select, hold, redirect, release, change, releaseContent]

interface ControlOptions extends JsonOption, Selected {
  readonly yes?: boolean | undefined
  readonly reason?: string | undefined
}

/** Options that name mail by its lanes, without `--email`. */
const withLaneSelector = (command: Command): Command =>
  withJson(command)
    .option('--domain <domain>', 'mail to this domain')
    .option('--provider <name>', 'mail to the domains of this provider, as `tassis providers` shows it')
    .option('--account <id|name>', 'mail of this account')
    .option('--yes', 'do not ask')

const withSelector = (command: Command): Command =>
  withLaneSelector(command).option(
    '--email <id>',
    'this email alone: its ID, or the beginning as shown by `tassis emails list`',
  )

/** With `--json` of the parent command: `tassis queue --json ...`. */
const readOptions = <T extends ControlOptions>(command: Command): T => command.optsWithGlobals<T>()

const toSelected = ({ domain, provider, account, email }: ControlOptions): Selected => ({
  domain,
  provider,
  account,
  email,
})

const describeSelected = ({ domain, provider, account, email }: Selected): string =>
  Object.entries({ domain, provider, account, email })
    .flatMap(([name, value]) => (value === undefined ? [] : [`--${name} ${formatArgument(value)}`]))
    .join(' ')

/** What the options name. Throws UsageError if they name nothing, or an email and other mail. */
function requireSelected(options: ControlOptions): Selected {
  const selected = toSelected(options)
  const { email, ...lanes } = selected
  if (describeSelected(selected) === '')
    throw new UsageError(
      'Name the mail: `--domain example.com`, `--provider gmail` or `--account Acme`, together or alone, or `--email ID`.',
      'no_mail_named',
    )
  if (email !== undefined && describeSelected(lanes) !== '')
    throw new UsageError('Name an email alone, without --domain, --provider and --account.')
  return selected
}

/** Counts what matches and asks; throws CommandError without a yes. Without a terminal, `--yes` is required. */
async function confirmSelected(call: Call, options: ControlOptions, question: string): Promise<QueueSelection> {
  const found = await call(select, toSelected(options))
  const matches = `${formatCount(found.waiting, 'waiting message')} ${found.waiting === 1 ? 'matches' : 'match'}, and ${found.in_delivery} in delivery`
  confirmAction(options, matches, question)
  return found
}

export function addQueueControlCommands(queue: Command): void {
  addHold(queue)
  addRelease(queue)
  addRedirect(queue)
  addChange(queue, 'retry', 'make mail due now that waits for another attempt, except held and scheduled mail')
  addChange(queue, 'bounce', 'end mail as bounced (soft, expired), with dead letters; its senders are notified')
  addChange(
    queue,
    'drop',
    'cancel mail without a bounce: an event says that you dropped it, and its quota is given back',
    'cancel',
  )
}

const addHold = (queue: Command): Command =>
  withSelector(
    queue.command('hold').description('hold mail, now and in future, until it is released; it does not expire'),
  )
    .option('--reason <sentence>', 'why; `tassis queue` shows it')
    .action(async (_, command: Command) => {
      const options = readOptions<ControlOptions>(command)
      const selected = requireSelected(options)
      const done = await withData(loadConfig().config, async (call) => {
        await confirmSelected(call, options, 'hold them and what comes later')
        return call(hold, { ...selected, reason: options.reason ?? '' })
      })
      printResult(
        options,
        done,
        ({ waiting, in_delivery }) =>
          `${waiting} held${formatInDelivery(in_delivery)}${waiting === 0 ? ' (if you expected some, check the name)' : ''}. ${selected.email === undefined ? 'Mail that comes later is held too, until' : 'It waits until'} \`tassis queue release ${describeSelected(selected)}\`.`,
      )
    })

const addRelease = (queue: Command): Command =>
  withSelector(
    queue
      .command('release')
      .description(
        'end holds and redirects; without options, release mail that was held for missing content, after that content has been restored',
      ),
  )
    .addOption(
      new Option('--only <kind>', 'end only holds, or only redirects; default: both').choices(QUEUE_RULE_KINDS),
    )
    .action(async (_, command: Command) => {
      const options = readOptions<ControlOptions & { only?: QueueRuleKind }>(command)
      const { only: kind } = options
      if (kind === undefined && describeSelected(toSelected(options)) === '') return releaseRestored(options)
      await endRules(options, kind, kind === undefined ? 'end their holds and redirects' : `end their ${kind}s`)
    })

/** Ends the holds, the redirects or both of what the options select, and prints which. */
async function endRules(options: ControlOptions, kind: QueueRuleKind | undefined, question: string): Promise<void> {
  const selected = requireSelected(options)
  const ended = await withData(loadConfig().config, async (call) => {
    await confirmSelected(call, options, question)
    return call(release, { ...selected, kind })
  })
  printResult(options, toList(ended), formatEnded)
}

async function releaseRestored(options: JsonOption): Promise<void> {
  printResult(
    options,
    await runAdminCommand(releaseContent, null),
    ({ released }) =>
      `${formatCount(released, 'message')} released; messages whose content is still missing are held again.`,
  )
}

const addRedirect = (queue: Command): Command =>
  withLaneSelector(
    queue
      .command('redirect')
      .description('send mail, now and in future, to another host than its MX, until the redirect is ended'),
  )
    .option(
      '--to <destination>',
      'example.com (its MX hosts), [mx.example.com] or an IP address, each with :PORT or without',
    )
    .option('--off', 'end redirects, as `tassis queue release --only redirect` does')
    .option('--reason <sentence>', 'why; `tassis queue` shows it')
    .action(async (_, command: Command) => {
      const options = readOptions<ControlOptions & { to?: string; off?: boolean }>(command)
      const { to, off = false } = options
      if ((to === undefined) !== off) throw new UsageError('Give either --to with a destination, or --off.')
      if (to === undefined) return endRules(options, 'redirect', 'end their redirects')
      const selected = requireSelected(options)
      const done = await withData(loadConfig().config, async (call) => {
        await confirmSelected(call, options, `redirect them and what comes later to ${to}`)
        return call(redirect, { ...selected, to, reason: options.reason ?? '' })
      })
      printResult(
        options,
        done,
        ({ waiting, in_delivery }) =>
          `${waiting} redirected to ${toPrintable(to)}${formatInDelivery(in_delivery)}. \`tassis queue retry ${describeSelected(selected)}\` sends what waits for another attempt.`,
      )
    })

const formatEnded = ({ data: ended }: List<QueueRuleRecord>): string =>
  ended.length === 0
    ? 'No hold or redirect matches; `tassis queue` shows them.'
    : ended.map((rule) => `Ended: ${formatRule(rule)}`).join('\n')

const QUESTIONS: Readonly<Record<QueueAction, string>> = {
  retry: 'try them now',
  bounce: 'bounce them',
  drop: 'drop them',
}
const PARTICIPLES: Readonly<Record<QueueAction, string>> = { retry: 'due now', bounce: 'bounced', drop: 'dropped' }

function addChange(queue: Command, action: QueueAction, description: string, alias?: string): void {
  const command = withSelector(queue.command(action).description(description))
  if (alias !== undefined) command.alias(alias)
  if (action === 'bounce') command.requiredOption('--reason <sentence>', 'why; the senders read it')
  command.action(async (_, invoked: Command) => {
    const options = readOptions<ControlOptions>(invoked)
    requireSelected(options)
    const done = await withData(loadConfig().config, async (call) => {
      await confirmSelected(call, options, QUESTIONS[action])
      return changeAll(call, action, options)
    })
    printResult(options, done, ({ changed, suspended, ...left }) =>
      [
        `${changed} ${PARTICIPLES[action]}${formatHeldAndInDelivery(left)}.`,
        ...(action === 'retry' ? ['Mail that was due already is tried now, too.'] : []),
        ...suspended.map((name) => formatSuspended(name)),
      ].join('\n'),
    )
  })
}

/** Calls the service until all selected mail was examined, because each call changes a limited number. */
async function changeAll(
  call: Call,
  action: QueueAction,
  options: ControlOptions,
): Promise<{ changed: number; in_delivery: number; held: number; suspended: readonly string[] }> {
  const sum = { changed: 0, in_delivery: 0, held: 0 }
  const suspended = new Set<string>()
  let after: QueuePosition | null = null
  do {
    const input: ChangeInput = { ...toSelected(options), action, reason: options.reason ?? '', after }
    const done: Awaited<ReturnType<typeof change.run>> = await call(change, input)
    sum.changed += done.changed
    sum.in_delivery += done.in_delivery
    sum.held += done.held
    for (const name of done.suspended) suspended.add(name)
    after = done.next
    if (after && !options.json) print(`${sum.changed} ${PARTICIPLES[action]} so far …`)
  } while (after)
  return { ...sum, suspended: [...suspended] }
}

/** One line about a hold or redirect. */
export function formatRule(rule: QueueRuleRecord): string {
  const { kind, domain, provider, account, account_id, email_id, to, reason, created_by, created_at } = rule
  const mail =
    email_id === null
      ? [
          'mail',
          ...(domain === null ? [] : [`to ${domain}`]),
          ...(provider === null ? [] : [`to provider ${provider}`]),
          ...(account_id === null ? [] : [`of ${account ?? 'a deleted account'}`]),
        ].join(' ')
      : `email ${email_id}`
  const what = kind === 'hold' ? `${mail} is held` : `${mail} goes to ${to}`
  return toPrintable(`${what} since ${formatUtc(created_at)} by ${created_by}${reason === '' ? '' : `: ${reason}`}`)
}
