/** @module Stats and reports for tests of insights: seeded days, and a model that answers as a test requires. */
import type { App } from '#features/core/app/app.ts'
import type { TestAppOptions } from '#test/support/app.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { type LlmStub, llmSettings, replyWith, startLlmStub } from '#test/support/llm-stub.ts'

/** Stats of one day and domain; omitted fields are 0. */
export interface SeededDay {
  readonly daysAgo: number
  readonly domain?: string
  readonly sent?: number
  readonly delivered?: number
  readonly bounced?: number
  readonly opens?: number
  readonly clicks?: number
  readonly openedEmails?: number
  readonly clickedEmails?: number
  readonly complaints?: number
  readonly unsubscribes?: number
}

export function seedDay({ db, clock }: App, accountId: number, day: SeededDay): void {
  db.run(
    `INSERT INTO daily_figures (account_id, day, domain, sent, delivered, bounced, opens, clicks, opened_emails, clicked_emails, complaints, unsubscribes)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      accountId,
      Math.floor(clock.now() / 86_400_000) - day.daysAgo,
      day.domain ?? '',
      day.sent ?? 0,
      day.delivered ?? 0,
      day.bounced ?? 0,
      day.opens ?? 0,
      day.clicks ?? 0,
      day.openedEmails ?? 0,
      day.clickedEmails ?? 0,
      day.complaints ?? 0,
      day.unsubscribes ?? 0,
    ],
  )
}

export const finding = (more: object = {}) => ({
  severity: 'warn',
  area: 'deliverability',
  observation: 'The bounce rate is 4.76%.',
  recommendation: 'Keep it below 2%.',
  evidence: [{ metric: 'total.bounce_pct', value: 4.76 }],
  ...more,
})

export const answer = (more: object = {}) => ({
  summary: 'Of 2,100 recipients 2,000 took the mail.',
  findings: [finding()],
  ...more,
})

export interface InsightApi extends EmailApi {
  readonly llm: LlmStub
}

/** 2,100 recipients sent, 2,000 delivered and 100 bounced in the last week. */
export async function createInsightApi(options: TestAppOptions = {}): Promise<InsightApi> {
  const llm = startLlmStub(() => replyWith(answer()))
  const service = await createEmailApi({ ...options, settings: { ...llmSettings(llm), ...options.settings } })
  service.app.db.run('UPDATE domains SET spf_verified = 1, dkim_verified = 1, dmarc_verified = 1')
  seedDay(service.app, service.actor.accountId, { daysAgo: 1, sent: 2100, delivered: 2000, bounced: 100 })
  return {
    ...service,
    llm,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await llm[Symbol.asyncDispose]()
    },
  }
}
