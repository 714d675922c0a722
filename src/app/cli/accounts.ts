/** @module `tassis accounts`: creates, shows, pauses and deletes accounts; sets their plan and outgoing addresses. */
import { Argument, InvalidArgumentError, Option } from 'commander'
import type {
  OperatorAccount,
  OperatorAccountDeletion,
  OperatorAccountSummary,
  OperatorFinding,
  ResumeOperatorAccountResult,
  SetOperatorAccountPoolResult,
} from '#client/operator-api.ts'
import { PLANS, type Plan, UNLIMITED } from '#features/core/accounts/plans.ts'
import { truncate } from '#platform/text.ts'
import { type CommandApi, readRows } from './api.ts'
import type { Command, Context } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { type Columns, formatCount, formatTime, formatUtc, printPage, printResult, toPrintable } from './output.ts'

/** The account that a person names by its ID or name. */
const readAccount = async (api: CommandApi, account: string) => (await api.as(account).account.get()).data

const findId = async (api: CommandApi, account: string): Promise<string> => (await readAccount(api, account)).id

export function addAccountCommands(program: Command): void {
  const accounts = program.command('accounts').description('create, list, show, pause, resume and delete accounts')
  /** A command about one account. */
  const add = (name: string, description: string): Command =>
    accounts.add(name, description).argument('<account>', 'ID or name of the account')

  accounts
    .add('create', 'create an account')
    .requiredOption('--name <name>', 'name of the account')
    .requiredOption('--email <address>', 'email address of the owner')
    .addOption(new Option('--plan <plan>', 'plan of the account').choices(PLANS).default('unlimited'))
    .run(
      async ({ api, options }: Context<{ name: string; email: string; plan: Plan }>) => {
        const { name, email, plan } = options
        const created = await api.operator.createAccount({ name, email, plan })
        const { pagination } = await api.operator.listAccounts({ per_page: 1 })
        const flag = pagination.total > 1 ? ` --account ${created.data.id}` : ''
        printResult(
          options,
          created,
          ({ data }) =>
            `Created account ${toPrintable(data.name)} (${data.id}), plan ${data.plan}.\nNext: \`tassis keys create --name app${flag}\` and \`tassis domains add example.com${flag}\`.`,
        )
      },
      { canCreate: true },
    )

  accounts.add('list', 'list all accounts').list(
    ({ api }) => api.operator.listAccounts({ per_page: 100 }),
    'There is no account yet; create one with `tassis accounts create`.',
    (all) => ({
      ID: ({ id }) => id,
      NAME: ({ name }) => name,
      EMAIL: ({ email }) => email,
      PLAN: ({ plan }) => plan,
      'USED THIS MONTH': (row) => `${row.used_this_month} of ${row.monthly_quota ?? 'unlimited'}`,
      CREATED: (row) => formatUtc(row.created_at),
      '': (row) => describeState(row, all),
    }),
  )

  add('pool', 'show or choose the outgoing addresses from which the mail of an account leaves')
    .argument('[pool]', 'name of a pool in TASSIS_OUTBOUND_IPS; without it, shows the pools')
    .option('--stream <slug>', 'only mail of this stream, from now on; its pool wins over that of the account')
    .option('--none', 'end the pool of the account or stream')
    .run(async ({ api, options }: Context<{ stream?: string; none?: true }>, account: string, pool?: string) => {
      const { stream, none } = options
      if (pool !== undefined && none) throw new UsageError('Name a pool or use --none, not both.')
      if (stream !== undefined && pool === undefined && !none)
        throw new UsageError('Name the pool for the stream, or use --none to end its pool.')
      const { id, name } = await readAccount(api, account)
      const shown =
        pool === undefined && !none
          ? await api.operator.getAccount(id)
          : await api.operator.setAccountPool(id, { stream, pool: pool ?? null })
      printResult<{ readonly data: SetOperatorAccountPoolResult }>(options, shown, ({ data }) =>
        formatPools(name, data),
      )
    })

  add('pause', 'pause an account: it cannot send, and its queued mail is held')
    .requiredOption('--reason <sentence>', 'why; the users of the account read it')
    .answer(
      async ({ api, options }: Context<{ reason: string }>, account) =>
        api.operator.pauseAccount(await findId(api, account), { reason: options.reason }),
      ({ data }) => `Paused ${toPrintable(data.name)}: ${toPrintable(data.paused?.reason ?? '')}`,
    )

  add('resume', 'resume a paused account and release its held mail').answer(
    async ({ api }, account) => api.operator.resumeAccount(await findId(api, account)),
    ({ data }) => formatResumed(data),
  )

  accounts
    .add('findings', 'list abuse findings, newest first')
    .limit('findings', 50)
    .argument('[account]', 'ID or name of the account; default: all accounts')
    .run(async ({ api, options }: Context<{ limit: number }>, account?: string) => {
      const query = { account_id: account && (await findId(api, account)) }
      printPage(options, await readRows(api.operator.listFindings(query), options.limit), 'No findings.', FINDINGS)
    })

  add('show', 'show an account: plan, quota, rates and thresholds, and whether it may send').answer(
    async ({ api }, account) => api.operator.getAccount(await findId(api, account)),
    ({ data }) => formatAccount(data),
  )

  add('plan', 'set the plan or the monthly quota of an account')
    .addArgument(new Argument('[plan]', 'the new plan').choices(PLANS))
    .option('--monthly-quota <recipients>', 'quota of the account; "plan" for the quota of the plan', parseQuota)
    .answer(
      async ({ api, options }: Context<{ monthlyQuota?: number | 'plan' }>, account: string, plan?: string) => {
        const { monthlyQuota: quota } = options
        if (plan === undefined && quota === undefined)
          throw new UsageError('Name a plan, --monthly-quota or both; `tassis accounts show` shows the present ones.')
        const body = { plan, monthly_quota: quota === 'plan' ? null : quota }
        return api.operator.setAccountPlan(await findId(api, account), body)
      },
      ({ data }) =>
        `${toPrintable(data.name)} has plan ${data.plan} with ${data.monthly_quota ?? 'unlimited'} recipients per month.`,
    )

  add('delete', 'delete an account with all its data and sub-accounts; this cannot be undone')
    .requiredOption('--confirm <name>', 'the name of the account, to confirm')
    .answer(
      async ({ api, options }: Context<{ confirm: string }>, account) => {
        const { id, name } = await readAccount(api, account)
        if (options.confirm !== name)
          throw new CommandError(
            `--confirm must be the name of the account, "${name}", because deletion cannot be undone. Nothing was deleted.`,
            'not_confirmed',
          )
        return api.as(id).account.delete({ headers: { 'x-confirm-delete': 'DELETE' } })
      },
      (_, { options: { confirm: name } }) =>
        `${toPrintable(name)} is closed: its keys and sessions are revoked, its waiting mail is cancelled, mail to its domains is rejected.\nThe running service deletes its data, which takes ten minutes or more; \`tassis accounts deletions\` shows the progress.`,
    )

  accounts
    .add('deletions', 'list account deletions in progress')
    .list(({ api }) => api.operator.listAccountDeletions(), 'No account is being deleted.', DELETIONS)
}

const FINDINGS: Columns<OperatorFinding> = {
  WHEN: (row) => formatUtc(row.created_at),
  ACCOUNT: ({ account }) => truncate(account, 30),
  SOURCE: ({ source }) => source,
  '': ({ paused }) => (paused ? 'paused' : ''),
  REASON: ({ reason }) => reason,
  DETAIL: ({ detail }) => (detail === null ? '' : truncate(JSON.stringify(detail), 120)),
}

const STEP_DESCRIPTIONS: Readonly<Record<string, string>> = {
  mail: 'cancels its waiting mail',
  rows: 'deletes its data',
  late: 'waits for requests in progress',
  service: 'removes system mail about it',
  log: 'erases its audit log entries',
  bytes: 'overwrites deleted bytes in the files',
}

const DELETIONS: Columns<OperatorAccountDeletion> = {
  'ACCOUNT NUMBER': (row) => String(row.account_number),
  STEP: ({ step }) => step,
  '': ({ step }) => STEP_DESCRIPTIONS[step] ?? '',
  REMOVED: ({ rows }) => formatCount(rows, 'row'),
  CONTINUES: (row) => formatTime(row.next_at),
}

function parseQuota(text: string): number | 'plan' {
  if (text === 'plan') return text
  if (!/^\d{1,10}$/.test(text) || Number(text) > UNLIMITED)
    throw new InvalidArgumentError(`It must be a whole number from 0 to ${UNLIMITED} (no limit), or "plan".`)
  return Number(text)
}

function formatPools(name: string, { pool, stream_pools: streams }: SetOperatorAccountPoolResult): string {
  const account = toPrintable(name)
  const ofAccount =
    pool === null
      ? `${account} has no pool: its mail leaves from the pool of its parent account, or from the addresses without one.`
      : `The mail of ${account} leaves from the addresses of the pool ${pool}.`
  return [
    ofAccount,
    ...streams.map(({ stream, pool }) => `Mail of its stream ${stream} leaves from the addresses of the pool ${pool}.`),
  ].join('\n')
}

/** What is special about an account in a list: paused, disabled, sub-account. */
function describeState(
  { paused_at, disabled_at, parent_account_id }: OperatorAccountSummary,
  all: readonly OperatorAccountSummary[],
): string {
  const parent = all.find(({ id }) => id === parent_account_id)
  return [
    ...(paused_at === null ? [] : [`paused since ${formatUtc(paused_at)}`]),
    ...(disabled_at === null ? [] : [`disabled since ${formatUtc(disabled_at)}`]),
    ...(parent ? [`sub-account of ${parent.name}`] : []),
  ].join(', ')
}

function formatResumed(resumed: ResumeOperatorAccountResult): string {
  const { released, released_is_at_least: isAtLeast, still_stopped: stopped } = resumed
  const name = toPrintable(resumed.account)
  if (stopped !== null) return `Resumed ${name}, but it still may not send. ${toPrintable(stopped)}`
  if (released === 0 && !isAtLeast) return `Resumed ${name}. No mail was held.`
  return `Resumed ${name}. ${isAtLeast ? 'At least ' : ''}${formatCount(released, 'recipient')} with held mail ${
    released === 1 ? 'is' : 'are'
  } queued again.`
}

const formatRate = (rate: number | null, unit: string): string => (rate === null ? 'no data yet' : `${rate} ${unit}`)

function formatAccount(shown: OperatorAccount): string {
  const { last_24_hours: day, thresholds: limits } = shown
  const lines = [
    `${toPrintable(shown.name)} (${shown.id}), ${toPrintable(shown.email)}`,
    `Plan ${shown.plan}: ${shown.used_this_month} of ${shown.monthly_quota ?? 'unlimited'} recipients used this month.`,
    shown.stopped === null ? 'It may send.' : `It may not send. ${toPrintable(shown.stopped)}`,
    ...(shown.paused
      ? [
          `Paused since ${formatUtc(shown.paused.since)} by ${shown.paused.source}; \`tassis accounts resume\` resumes it.`,
        ]
      : []),
    ...(shown.disabled_at
      ? [
          `Disabled since ${formatUtc(shown.disabled_at)} by its parent, which can enable it: PATCH /v1/accounts/${shown.id} {"is_active": true}.`,
        ]
      : []),
    ...(shown.pool === null ? [] : [`Its mail leaves from the addresses of the pool ${shown.pool}.`]),
    ...shown.stream_pools.map(
      ({ stream, pool }) => `Mail of its stream ${stream} leaves from those of the pool ${pool}.`,
    ),
    ...(shown.held > 0 ? [`Mail to ${formatCount(shown.held, 'recipient')} is held.`] : []),
    `Last 24 hours, or since it was resumed: ${day.delivered} delivered, ${day.bounced} bounced, ${day.complained} complained.`,
    `Bounces: ${formatRate(day.bounce_percent, '%')} (paused at ${limits.bounce_percent} %). Complaints: ${formatRate(day.complaints_per_mille, 'per 1,000')} (paused at ${limits.complaints_per_mille}). Checked from ${limits.minimum_volume} recipients on.`,
    ...(shown.judged
      ? []
      : ['Its plan is not watched (abuse_watch in TASSIS_PLANS): only `tassis accounts pause` can pause it.']),
  ]
  return lines.join('\n')
}
