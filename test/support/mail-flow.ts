/**
 * @module A delivering service, an account with a signing domain and a DNS zone, for tests that follow mail over real
 * sockets from acceptance to outcome. Reads stored data; never changes it.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import type { EventData } from '#features/core/events/record.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import type { SendRequest, SendResponse } from '#features/sending/accept/model.ts'
import { findEmail, readEmailEvents, type StoredEmail, type StoredRecipient } from '#features/sending/emails/read.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { parseUuid } from '#platform/ids.ts'
import type { Log } from '#platform/log/log.ts'
import type { Clock } from '#platform/time/clock.ts'
import { formatDkimRecord } from '#protocols/dkim/keys.ts'
import { createTestAccount, createTestApp, eventually, type TestApp } from './app.ts'
import { type DnsServer, startDnsServer, type Zone } from './dns-server.ts'
import { createResolver } from './resolver.ts'

export const SENDER_DOMAIN = 'sender.test'

export interface MailFlowOptions {
  readonly zone?: Zone
  /** Port at which receiving servers are reached. */
  readonly smtpPort?: number
  readonly settings?: Readonly<Record<string, string>>
  readonly deliveryConcurrency?: number
  readonly policyPort?: number
  /**
   * Time limit for DNS answers; default 60,000. Must be long in a test that gets an answer, because a busy machine
   * answers late.
   */
  readonly dnsTimeoutMs?: number
  /** Whether the DNS server is trusted about DNSSEC; default false. */
  readonly trustsDnssec?: boolean
  /** The service's clock; the Workers and DNS keep the real one. */
  readonly clock?: Clock
  readonly log?: Log
  /** A data directory that is not deleted, for tests that open it twice. */
  readonly dataDir?: string
  /** Whether the sender's domain is verified; default true. */
  readonly verified?: boolean
}

/** An event from the API: type, recipient, data. */
export interface FlowEvent {
  readonly type: string
  readonly recipient: string | null
  readonly data: EventData
}

export interface MailFlow extends AsyncDisposable {
  readonly service: TestApp
  readonly app: App
  readonly actor: Actor
  readonly dns: DnsServer
  /** The DNS records of the sender's domain. */
  readonly dkimRecord: string
  /** Accepts an email from ada@sender.test; missing fields get small values. */
  send(request: Partial<SendRequest> & Pick<SendRequest, 'to'>): Promise<SendResponse>
  /** The email once every recipient is final or waits for another attempt. */
  settled(sent: SendResponse): Promise<StoredEmail>
  /** Sends to one recipient and returns it once it is final or waits for another attempt. */
  outcome(to: string, request?: Partial<SendRequest>): Promise<{ recipient: StoredRecipient; events: FlowEvent[] }>
  events(sent: SendResponse): FlowEvent[]
}

export async function startMailFlow(options: MailFlowOptions = {}): Promise<MailFlow> {
  const dns = await startDnsServer(options.zone ?? {})
  const service = await createTestApp({
    delivers: true,
    // Like the service's own resolver, but asks a silent server only once.
    resolver: createResolver(dns, {
      timeoutMs: options.dnsTimeoutMs ?? 60_000,
      attempts: 1,
      trustsAuthenticity: options.trustsDnssec === true,
    }),
    settings: { TASSIS_SMTP_PORT: String(options.smtpPort ?? 9), ...options.settings },
    ...(options.deliveryConcurrency !== undefined && { deliveryConcurrency: options.deliveryConcurrency }),
    ...(options.policyPort !== undefined && { policyPort: options.policyPort }),
    ...(options.clock && { clock: options.clock }),
    ...(options.log && { log: options.log }),
    ...(options.dataDir !== undefined && { dataDir: options.dataDir }),
  })
  const { app } = service
  const actor = await createTestAccount(app)
  const { domain } = await createDomain(app, actor, SENDER_DOMAIN)
  if (options.verified ?? true) app.db.run('UPDATE domains SET verified_at = 1')

  const send: MailFlow['send'] = async (request) => {
    const full = { from: `Ada <ada@${SENDER_DOMAIN}>`, subject: 'Hello', text_body: 'Hello.\n', ...request }
    return (await acceptEmail(app, actor, createDraft(app, full))).response
  }
  const stored = (sent: SendResponse): StoredEmail => {
    const uuid = parseUuid(sent.id)
    const email = uuid && findEmail(app.db, actor.accountId, uuid)
    if (!email) throw new Error(`there is no email ${sent.id}`)
    return email
  }
  const events: MailFlow['events'] = (sent) =>
    readEmailEvents(app, actor.accountId, stored(sent).id).map(({ type, recipient, data }) => ({
      type,
      recipient,
      data: JSON.parse(data ?? '{}'),
    }))
  const settled: MailFlow['settled'] = (sent) =>
    eventually(() => {
      const email = stored(sent)
      return email.recipients.every(isSettled) ? email : undefined
    })
  return {
    service,
    app,
    actor,
    dns,
    dkimRecord: formatDkimRecord(domain.dkimPublicKey),
    send,
    settled,
    events,
    async outcome(to, request) {
      const sent = await send({ ...request, to })
      const [recipient] = (await settled(sent)).recipients
      if (!recipient) throw new Error('the email has no recipient')
      return { recipient, events: events(sent).slice(1) }
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns.close()
    },
  }
}

const isSettled = ({ status, attempts }: StoredRecipient): boolean =>
  status !== 'processing' && !(status === 'queued' && attempts === 0)
