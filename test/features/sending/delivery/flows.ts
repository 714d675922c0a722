/** @module What several tests of delivery share: other senders, the recipients of a flow, and its Workers. */
import type { Actor } from '#features/core/app/app.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { minutes } from '#platform/units.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import type { MailFlow } from '#test/support/mail-flow.ts'
import type { ManualClock } from '#test/support/manual-clock.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { type ScriptedSmtp, type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'

/** Another account with a verified domain; `send` sends a small email from there to each address. */
export async function newSender({ app }: MailFlow, domain = 'other-sender.test', more: Partial<SendRequest> = {}) {
  const actor: Actor = await createTestAccount(app)
  await createDomain(app, actor, domain)
  app.db.run('UPDATE domains SET verified_at = 1')
  const send = async (...to: readonly string[]): Promise<void> => {
    for (const one of to) {
      const request = { from: `eve@${domain}`, to: one, subject: 'Hi', text_body: 'Hi', ...more }
      await acceptEmail(app, actor, createDraft(app, request))
    }
  }
  return { actor, send }
}

interface RecipientRow {
  readonly address: string
  readonly status: Status
  readonly attempts: number
  readonly started: number | null
  readonly nextAt: number | null
  readonly lastError: string | null
}

/** The recipients whose address contains a text, in order. */
export const recipientsOf = ({ app }: Pick<MailFlow, 'app'>, part = ''): RecipientRow[] =>
  app.db
    .query<Omit<RecipientRow, 'status'> & { status: number }, [string]>(
      `SELECT address, status, attempts, delivery_started_at AS started, next_at AS nextAt, last_error AS lastError
       FROM recipients WHERE address LIKE ? ORDER BY id`,
    )
    .all(`%${part}%`)
    .map((row) => ({ ...row, status: statusName(row.status) }))

/** Counts the recipients that have not ended. */
export const countOpen = (flow: Pick<MailFlow, 'app'>): number =>
  recipientsOf(flow).filter(({ nextAt }) => nextAt !== null).length

/** Moves the clock by minutes, while nothing is in delivery, until no recipient is open. */
export const drain = (flow: Pick<MailFlow, 'app' | 'service'>, clock: ManualClock): Promise<unknown> =>
  eventually(() => {
    if (flow.service.delivery?.scheduler.inFlight === 0) clock.advance(minutes(1))
    return countOpen(flow) === 0
  })

/** Calls `onStart` with each delivery Worker that starts from now on. */
export function watchWorkers(onStart: (worker: Worker) => void): Disposable {
  const { Worker: PlainWorker } = globalThis
  globalThis.Worker = class extends PlainWorker {
    constructor(url: string | URL, options?: WorkerOptions) {
      super(url, options)
      if (options?.name === 'delivery') onStart(this)
    }
  }
  return {
    [Symbol.dispose]() {
      globalThis.Worker = PlainWorker
    },
  }
}

export interface Sending extends EmailApi {
  readonly server: ScriptedSmtp
}

/** The emails API of a service that delivers to a receiving server; other limits of sites are those of `settings`. */
export async function startSending(
  script: SmtpScript,
  settings: Readonly<Record<string, string>> = {},
): Promise<Sending> {
  const server = await startScriptedSmtp(script)
  const dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  const served = { TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(server.port) }
  const emails = await createEmailApi({
    delivers: true,
    runsTasks: true,
    settings: { ...served, ...siteLimits({ idle_seconds: 0 }), ...settings },
  })
  return {
    ...emails,
    server,
    async [Symbol.asyncDispose]() {
      await emails[Symbol.asyncDispose]()
      await dns.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** The detail of an email once it has these fields. */
export const untilDetail = (emails: EmailApi, id: string, fields: Record<string, unknown>) =>
  eventually(async () => {
    const detail = await emails.detail(id)
    return Object.entries(fields).every(([name, value]) => detail[name] === value) ? detail : undefined
  })

/** Longer than any wait between two attempts. */
export const RETRY_MS = minutes(9 * 60)
