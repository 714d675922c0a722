/**
 * @module A service that delivers, calls webhooks and monitors accounts, with a receiving server that knows only some
 * addresses: for tests of pauses.
 */
import type { SMTPServer } from 'smtp-server'
import { count as addToCounter } from '#features/core/events/record.ts'
import { toAccountMetric } from '#features/setup/streams/reputation.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { type Sink, startSink } from '#test/support/sink.ts'
import { HOOK_HOST, startWebhookService, type WebhookService } from '#test/support/webhooks.ts'

export interface Watched extends WebhookService {
  readonly sink: Sink
  /** Sends to `good` known and `bad` unknown addresses of receiver.test, and waits for the outcomes. */
  sendAll(good: number, bad: number): Promise<void>
  /** Adds outcomes of earlier mail to the counters of the first account. */
  addOutcomes(delivered: number, bounced: number): Promise<void>
  /** Advances the clock in steps of a second until the condition holds, at most 30 s; returns the elapsed time. */
  within30s(condition: () => unknown): Promise<number>
  /** Events of the first account with this type. */
  count(type: number): number
  /** Waits until an email is sent. */
  sent(id: string): Promise<void>
}

export const DELIVERED = 4
export const BOUNCED = 6

export async function startWatched(settings: Readonly<Record<string, string>> = {}): Promise<Watched> {
  const sink = await startSink({
    onRcptTo({ address }, _, done) {
      if (!address.startsWith('no-')) return done()
      done(Object.assign(new Error('No such user here'), { responseCode: 550 }))
    },
  } satisfies ConstructorParameters<typeof SMTPServer>[0])
  const mx = { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] }
  const dns = await startDnsServer({
    [HOOK_HOST]: { A: ['127.0.0.1'] },
    'receiver.test': mx,
    'tassis.test': mx,
    'mx.receiver.test': { A: ['127.0.0.1'] },
  })
  const service = await startWebhookService({
    delivers: true,
    runsTasks: true,
    settings: {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_SMTP_PORT: String(sink.port),
      TASSIS_PLANS: 'unlimited.abuse_watch=true',
      ...settings,
    },
  })
  const { app, accepted, clock, actor } = service
  const count: Watched['count'] = (type) =>
    app.db
      .query<{ n: number }, [number, number]>('SELECT count(*) AS n FROM events WHERE account_id = ? AND type = ?')
      .get(actor.accountId, type)?.n ?? 0
  let made = 0
  return {
    ...service,
    sink,
    count,
    async sendAll(good, bad) {
      const [delivered, bounced] = [count(DELIVERED), count(BOUNCED)]
      for (let i = 0; i < good; i++) await accepted({ to: `yes-${made++}@receiver.test` })
      for (let i = 0; i < bad; i++) await accepted({ to: `no-${made++}@receiver.test` })
      await eventually(() => count(DELIVERED) === delivered + good && count(BOUNCED) === bounced + bad)
    },
    async addOutcomes(delivered, bounced) {
      await app.commit.write((tx) => {
        addToCounter(tx, actor.accountId, toAccountMetric('delivered'), clock.now(), delivered)
        addToCounter(tx, actor.accountId, toAccountMetric('bounced'), clock.now(), bounced)
      })
    },
    async sent(id) {
      await eventually(async () => (await service.detail(id))['status'] === 'sent')
    },
    async within30s(condition) {
      const began = clock.now()
      for (let second = 0; second < 30; second++) {
        clock.advance(1000)
        // Work begun in this step ends before the next: disk, sockets and Workers do not use our clock.
        const isThere = await eventually(condition, 700).catch(() => false)
        if (isThere) return clock.now() - began
      }
      // The clock stands still now: work due within the 30 s may still run on a busy machine, and no other begins.
      await eventually(condition, 30_000)
      return clock.now() - began
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await sink[Symbol.asyncDispose]()
      await dns.close()
    },
  }
}

/** The only request that a receiver got, with its body parsed. */
export const only = (requests: readonly { readonly text: string }[]): unknown => {
  const [request, ...others] = requests
  if (!request || others.length > 0) throw new Error(`${requests.length} requests`)
  return JSON.parse(request.text)
}

export const dataOf = (answer: { readonly body: unknown }) => at(answer.body, 'data') as Record<string, unknown>
