/** @module An account of a plan with the verified domain `plan.test`, on a service of its own, for tests of quotas. */
import type { Plan } from '#features/core/accounts/plans.ts'
import { createTestAccount } from '#test/support/app.ts'
import { createEmailApi, EMAIL } from '#test/support/email-api.ts'

type Json = Record<string, unknown>

export async function startPlanAccount(plan: Plan = 'free', settings: Readonly<Record<string, string>> = {}) {
  const emails = await createEmailApi({ settings })
  const actor = await createTestAccount(emails.app, plan)
  await emails.addDomain(actor, 'plan.test')
  const key = await emails.newKey([], actor)
  const from = 'a@plan.test'
  return {
    emails,
    actor,
    clock: emails.clock,
    api: (method: string, path: string, body?: unknown) => emails.api(method, path, body, { key }),
    send: (request: Json = {}) => emails.send({ from, ...request }, { key }),
    accepted: (request: Json = {}) => emails.accepted({ from, ...request }, { key }),
    batch: (items: readonly Json[]) =>
      emails.api('POST', '/v1/emails/batch', { emails: items.map((item) => ({ ...EMAIL, from, ...item })) }, { key }),
    cancel: (id: unknown) => emails.api('POST', `/v1/emails/${id}/cancel`, undefined, { key }),
    detail: (id: string) => emails.detail(id, { key }),
    used: () => emails.used(actor),
    [Symbol.asyncDispose]: () => emails[Symbol.asyncDispose](),
  }
}

export const quotaOf = (quota: number) => ({ TASSIS_PLANS: `free.monthly_quota=${quota}` })
