/** @module `tassis accounts plan`: sets the plan or the monthly quota of an account. */
import { Argument, type Command, InvalidArgumentError } from 'commander'
import { PLANS, UNLIMITED } from '#features/core/accounts/plans.ts'
import { assignPlan } from '#features/people/billing/assign.ts'
import { resolveOperator } from '../find-account.ts'
import { defineAdminCommand, UsageError } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { addCommand, type JsonOption } from './options.ts'
import { printResult, toPrintable } from './output.ts'

interface AssignInput {
  readonly account: string
  readonly plan?: string | undefined
  /** Null for the quota of the plan. */
  readonly monthlyQuota?: number | null | undefined
}

const assign = defineAdminCommand(
  'accounts.plan',
  async ({ opened: { app } }, { account, ...assignment }: AssignInput) => {
    const { name, plan, monthlyQuota } = await assignPlan(app, resolveOperator(app, account), assignment)
    return { account: name, plan, monthly_quota: monthlyQuota >= UNLIMITED ? null : monthlyQuota }
  },
)

export const planAdminCommands = [assign]

/** @param accounts the group `tassis accounts` */
export function addPlanCommand(accounts: Command): void {
  addCommand(accounts, 'plan', 'set the plan or the monthly quota of an account')
    .argument('<account>', 'ID or name of the account')
    .addArgument(new Argument('[plan]', 'the new plan').choices(PLANS))
    .option('--monthly-quota <recipients>', 'quota of the account; "plan" for the quota of the plan', parseQuota)
    .action(
      async (account: string, plan: string | undefined, options: JsonOption & { monthlyQuota?: number | 'plan' }) => {
        const { monthlyQuota } = options
        if (plan === undefined && monthlyQuota === undefined)
          throw new UsageError('Name a plan, --monthly-quota or both; `tassis accounts show` shows the present ones.')
        const input: AssignInput = {
          account,
          plan,
          ...(monthlyQuota !== undefined && { monthlyQuota: monthlyQuota === 'plan' ? null : monthlyQuota }),
        }
        printResult(
          options,
          await runAdminCommand(assign, input),
          (shown) =>
            `${toPrintable(shown.account)} has plan ${shown.plan} with ${shown.monthly_quota ?? 'unlimited'} recipients per month.`,
        )
      },
    )
}

function parseQuota(text: string): number | 'plan' {
  if (text === 'plan') return text
  if (!/^\d{1,10}$/.test(text) || Number(text) > UNLIMITED)
    throw new InvalidArgumentError(`It must be a whole number from 0 to ${UNLIMITED} (no limit), or "plan".`)
  return Number(text)
}
