/** @module `tassis accounts`: creates, shows, pauses and deletes accounts; sets their plan and outgoing addresses. */
import { Argument, InvalidArgumentError, Option } from 'commander'
import type { OperatorAccountDeletion, OperatorAccountSummary, OperatorFinding } from '#client/operator-api.ts'
import { PLANS, type Plan, UNLIMITED } from '#features/core/accounts/plans.ts'
import { type CommandApi, readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { type Columns, fields, formatFields } from './output.ts'

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
    .answer(
      async ({ api, options: { name, email, plan } }: Context<{ name: string; email: string; plan: Plan }>) =>
        api.operator.createAccount({ name, email, plan }),
      ({ data }) =>
        `${formatFields(data)}\n\nNext: \`tassis keys create --name app\` and \`tassis domains add example.com\`, with --account if there are several.`,
      { canCreate: true },
    )

  accounts
    .add('list', 'list all accounts')
    .list(
      ({ api }) => api.operator.listAccounts({ per_page: 100 }),
      'There is no account yet; create one with `tassis accounts create`.',
      ACCOUNTS,
    )

  add('pool', 'show or choose the outgoing addresses from which the mail of an account leaves')
    .argument('[pool]', 'name of a pool in TASSIS_OUTBOUND_IPS; without it, shows the pools')
    .option('--stream <slug>', 'only mail of this stream, from now on; its pool wins over that of the account')
    .option('--none', 'end the pool of the account or stream')
    .answer(
      async ({ api, options }: Context<{ stream?: string; none?: true }>, account: string, pool?: string) => {
        const { stream, none } = options
        if (pool !== undefined && none) throw new UsageError('Name a pool or use --none, not both.')
        if (stream !== undefined && pool === undefined && !none)
          throw new UsageError('Name the pool for the stream, or use --none to end its pool.')
        const id = await findId(api, account)
        return pool === undefined && !none
          ? api.operator.getAccount(id)
          : api.operator.setAccountPool(id, { stream, pool: pool ?? null })
      },
      ({ data: { pool, stream_pools } }) => formatFields({ pool: pool ?? 'none', stream_pools }),
    )

  add('pause', 'pause an account: it cannot send, and its queued mail is held')
    .requiredOption('--reason <sentence>', 'why; the users of the account read it')
    .answer(async ({ api, options: { reason } }: Context<{ reason: string }>, account) =>
      api.operator.pauseAccount(await findId(api, account), { reason }),
    )

  add('resume', 'resume a paused account and release its held mail').answer(async ({ api }, account) =>
    api.operator.resumeAccount(await findId(api, account)),
  )

  accounts
    .add('findings', 'list abuse findings, newest first')
    .limit('findings', 50)
    .argument('[account]', 'ID or name of the account; default: all accounts')
    .list(
      async ({ api, options, query }: ListContext<{ limit: number }>, account?: string) => {
        const accountId = account && (await findId(api, account))
        return readRows(api.operator.listFindings({ ...query, account_id: accountId }), options.limit)
      },
      'No findings.',
      fields<OperatorFinding>()('created_at account source paused reason detail'),
    )

  add('show', 'show an account: plan, quota, rates and thresholds, and whether it may send').answer(
    async ({ api }, account) => api.operator.getAccount(await findId(api, account)),
  )

  add('plan', 'set the plan or the monthly quota of an account')
    .addArgument(new Argument('[plan]', 'the new plan').choices(PLANS))
    .option('--monthly-quota <recipients>', 'quota of the account; "plan" for the quota of the plan', parseQuota)
    .answer(async ({ api, options }: Context<{ monthlyQuota?: number | 'plan' }>, account: string, plan?: string) => {
      const { monthlyQuota: quota } = options
      if (plan === undefined && quota === undefined)
        throw new UsageError('Name a plan, --monthly-quota or both; `tassis accounts show` shows the present ones.')
      const body = { plan, monthly_quota: quota === 'plan' ? null : quota }
      return api.operator.setAccountPlan(await findId(api, account), body)
    })

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
        `${name} is closed: its keys and sessions are revoked, its waiting mail is cancelled, mail to its domains is rejected.\nThe running service deletes its data, which takes ten minutes or more; \`tassis accounts deletions\` shows the progress.`,
    )

  accounts
    .add('deletions', 'list account deletions in progress')
    .list(
      ({ api }) => api.operator.listAccountDeletions(),
      'No account is being deleted.',
      fields<OperatorAccountDeletion>()('account_number step rows next_at'),
    )
}

const ACCOUNTS: Columns<OperatorAccountSummary> = {
  ...fields<OperatorAccountSummary>()('id name email plan used_this_month'),
  OF: ({ monthly_quota: quota }) => quota ?? 'unlimited',
  ...fields<OperatorAccountSummary>()('created_at paused_at disabled_at parent_account_id'),
}

function parseQuota(text: string): number | 'plan' {
  if (text === 'plan') return text
  if (!/^\d{1,10}$/.test(text) || Number(text) > UNLIMITED)
    throw new InvalidArgumentError(`It must be a whole number from 0 to ${UNLIMITED} (no limit), or "plan".`)
  return Number(text)
}
