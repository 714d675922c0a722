/** @module `tassis accounts create` and `list`; abuse.ts has `pause`. Also resolves `--account` for other commands. */

import { type Command, Option } from 'commander'
import { listAccounts } from '#features/core/accounts/accounts.ts'
import type { OperatorAccount } from '#features/core/accounts/model.ts'
import { toOperatorAccount } from '#features/core/accounts/model.ts'
import { PLANS, type Plan } from '#features/core/accounts/plans.ts'
import { CLI_OPERATOR } from '#features/core/audit-logs/audit.ts'
import { createAccount } from '#features/people/sub-accounts/create-account.ts'
import type { AccountPools } from '#features/sending/delivery/control/pools.ts'
import { readPools, setPool } from '#features/sending/delivery/control/pools.ts'
import { resolveAccount } from '../find-account.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand, UsageError } from './admin-command.ts'
import { runAdminCommand, withData } from './call.ts'
import { addCommand, type JsonOption } from './options.ts'
import { formatUtc, printList, printResult, toList, toPrintable } from './output.ts'

const create = defineAdminCommand(
  'accounts.create',
  async ({ opened: { app } }, input: { name: string; email: string; plan: Plan }) =>
    toOperatorAccount(app, await createAccount(app, input)),
)

const list = defineAdminCommand('accounts.list', ({ opened: { app } }, _: null) =>
  listAccounts(app.config, app.db).map((account) => toOperatorAccount(app, account)),
)

interface PoolInput {
  readonly account: string
  readonly stream?: string | undefined
  /** Null: none; undefined: leaves all as it is. */
  readonly pool?: string | null | undefined
}

/** The pools of an account, after they were changed if the input says so. */
const setAndReadPools = defineAdminCommand('accounts.pool', async ({ opened: { app } }, input: PoolInput) => {
  const { id, name } = resolveAccount(app, input.account)
  if (input.pool !== undefined) await setPool(app, CLI_OPERATOR, id, { stream: input.stream, pool: input.pool })
  return { account: name, ...readPools(app, id) }
})

export const accountAdminCommands = [create, list, setAndReadPools]

/** Returns the command group `tassis accounts`, to which other modules add commands. */
export function addAccountCommands(program: Command): Command {
  const accounts = program.command('accounts').description('create, list, show, pause, resume and delete accounts')
  addCommand(accounts, 'create', 'create an account')
    .requiredOption('--name <name>', 'name of the account')
    .requiredOption('--email <address>', 'email address of the owner')
    .addOption(new Option('--plan <plan>', 'plan of the account').choices(PLANS).default('unlimited'))
    .action(async (options: JsonOption & { name: string; email: string; plan: Plan }) => {
      const input = { name: options.name, email: options.email, plan: options.plan }
      const { account, others } = await withData(
        loadConfig().config,
        async (call) => ({ account: await call(create, input), others: (await call(list, null)).length - 1 }),
        { canCreate: true },
      )
      const accountFlag = others > 0 ? ` --account ${account.id}` : ''
      printResult(
        options,
        account,
        ({ id, name, plan }) =>
          `Created account ${toPrintable(name)} (${id}), plan ${plan}.\nNext: \`tassis keys create --name app${accountFlag}\` and \`tassis domains add example.com${accountFlag}\`.`,
      )
    })
  addCommand(accounts, 'list', 'list all accounts').action(async (options: JsonOption) => {
    const shown = await runAdminCommand(list, null)
    printList(
      options,
      toList(shown),
      'There is no account yet; create one with `tassis accounts create`.',
      ['ID', 'NAME', 'EMAIL', 'PLAN', 'USED THIS MONTH', 'CREATED', ''],
      (account) => [
        account.id,
        account.name,
        account.email,
        account.plan,
        `${account.used_this_month} of ${account.monthly_quota ?? 'unlimited'}`,
        formatUtc(account.created_at),
        describeStatus(account, shown),
      ],
    )
  })
  addCommand(accounts, 'pool', 'show or choose the outgoing addresses from which the mail of an account leaves')
    .argument('<account>', 'ID or name of the account; its sub-accounts follow it unless they have a pool of their own')
    .argument('[pool]', 'name of a pool in TASSIS_OUTBOUND_IPS; without it, shows the pools')
    .option('--stream <slug>', 'only mail of this stream, from now on; its pool wins over that of the account')
    .option('--none', 'end the pool of the account or stream')
    .action(
      async (account: string, pool: string | undefined, options: JsonOption & { stream?: string; none?: true }) => {
        if (pool !== undefined && options.none) throw new UsageError('Name a pool or use --none, not both.')
        if (options.stream !== undefined && pool === undefined && !options.none)
          throw new UsageError('Name the pool for the stream, or use --none to end its pool.')
        const { stream } = options
        const input = {
          account,
          stream,
          ...(options.none ? { pool: null } : pool !== undefined && { pool }),
        }
        printResult(options, await runAdminCommand(setAndReadPools, input), formatPools)
      },
    )
  return accounts
}

function formatPools({ account, pool, stream_pools: streams }: AccountPools & { readonly account: string }): string {
  const ofAccount =
    pool === null
      ? `${toPrintable(account)} has no pool: its mail leaves from the pool of its parent account, or from the addresses without one.`
      : `The mail of ${toPrintable(account)} leaves from the addresses of the pool ${pool}.`
  return [
    ofAccount,
    ...streams.map(({ stream, pool }) => `Mail of its stream ${stream} leaves from the addresses of the pool ${pool}.`),
  ].join('\n')
}

/** Describes the status of an account: paused, disabled, sub-account. */
function describeStatus(
  { paused_at, disabled_at, parent_account_id }: OperatorAccount,
  all: readonly OperatorAccount[],
): string {
  const parent = all.find(({ id }) => id === parent_account_id)
  return [
    ...(paused_at === null ? [] : [`paused since ${formatUtc(paused_at)}`]),
    ...(disabled_at === null ? [] : [`disabled since ${formatUtc(disabled_at)}`]),
    ...(parent ? [`sub-account of ${parent.name}`] : []),
  ].join(', ')
}
