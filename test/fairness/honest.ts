/**
 * @module Simulates honest tenants: they send, receive, sign in and read their account at a modest rate, and record
 * how long each request took and what was refused.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { type SunkMessage, serveSmtp } from '#bench/receiver.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { PASSWORD } from '#test/support/users.ts'
import { HONEST_RECEIVER, HONEST_RECEIVER_ADDRESS, type Tenant } from './world.ts'

/** The measured latencies, in milliseconds. */
export const MEASURES = ['acceptance', 'delivery', 'receipt', 'sign-in', 'reading', 'healthz'] as const
export type Measure = (typeof MEASURES)[number]

export interface HonestLog {
  readonly samplesMs: Readonly<Record<Measure, number[]>>
  /** Failures, one sentence each. */
  readonly refusals: string[]
  /** The newest messages at the receiver of the honest tenants. */
  readonly newest: string[]
  /** Count of messages by recipient, for recipients that the honest tenants did not mail. */
  readonly others: Map<string, number>
}

export interface HonestLoad {
  readonly log: HonestLog
  /** Number of accepted emails that have not arrived. */
  undelivered(): number
  /** Number of messages accepted with 250 that have no event yet. */
  unreceived(): number
  /** Stops the load; requests in progress still count. */
  stop(): Promise<void>
  close(): void
}

export interface HonestOptions {
  readonly url: string
  readonly inboundPort: number
  readonly mxPort: number
  readonly tenants: readonly Tenant[]
  /** Messages per second of all tenants together. */
  readonly sendsPerSecond: number
}

const HEALTH_INTERVAL_MS = 100
const READ_INTERVAL_MS = 250
const RECEIPT_INTERVAL_MS = 500
const SIGN_IN_INTERVAL_MS = 1500
/** Fewer than a service allows one address: a mail server waits, too, when the other one is slow. */
const MAX_RECEIPT_CONNECTIONS = 10
/** A request that takes longer counts as refused. */
const TIMEOUT_MS = 60_000
const MAX_NEWEST = 5

export async function startHonestLoad(options: HonestOptions): Promise<HonestLoad> {
  const { url, tenants } = options
  const [first] = tenants
  if (!first) throw new Error('there is no honest tenant')
  const samplesMs = Object.fromEntries(MEASURES.map((measure) => [measure, [] as number[]])) as Record<
    Measure,
    number[]
  >
  const log: HonestLog = { samplesMs, refusals: [], newest: [], others: new Map() }
  /** Time each email was sent, by its recipient. */
  const sentAtMs = new Map<string, number>()
  const receipts = { accepted: 0, told: 0 }
  const arrived = new Set<() => void>()
  let isStopping = false
  let count = 0

  const onMessage = ({ rcptTo, text }: SunkMessage): void => {
    const startMs = sentAtMs.get(rcptTo)
    if (startMs === undefined) {
      log.others.set(rcptTo, (log.others.get(rcptTo) ?? 0) + 1)
      return
    }
    sentAtMs.delete(rcptTo)
    samplesMs.delivery.push(performance.now() - startMs)
    log.newest.push(text.trimStart())
    if (log.newest.length > MAX_NEWEST) log.newest.shift()
  }
  const receiver = createServer({ noDelay: true }, (socket) => serveSmtp(socket, undefined, onMessage))
  await once(receiver.listen(options.mxPort, HONEST_RECEIVER_ADDRESS), 'listening')
  const stream = new AbortController()
  void followFeed(url, first.key, stream.signal, () => {
    receipts.told++
    for (const run of [...arrived]) run()
  }).catch((error) => {
    if (!stream.signal.aborted) log.refusals.push(`feed: ${String(error)}`)
  })

  /** Runs `act` at times independent of its duration, like independent users. */
  const repeat = async (intervalMs: number, measure: Measure | undefined, act: () => Promise<string | undefined>) => {
    const running = new Set<Promise<void>>()
    for (let nextMs = performance.now(); !isStopping; nextMs += intervalMs) {
      await Bun.sleep(Math.max(0, nextMs - performance.now()))
      if (act === receive && running.size >= MAX_RECEIPT_CONNECTIONS) continue
      const startMs = performance.now()
      const one = act()
        .then((refusal) => {
          if (refusal !== undefined) log.refusals.push(refusal)
          if (measure) samplesMs[measure].push(performance.now() - startMs)
        })
        .catch((error) => void log.refusals.push(`${measure ?? 'receipt'}: ${String(error)}`))
        .finally(() => running.delete(one))
      running.add(one)
    }
    await Promise.all(running)
  }

  const ask = async (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${url}${path}`, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) })
  const headersOf = (tenant: Tenant) => ({
    authorization: `Bearer ${tenant.key}`,
    'content-type': 'application/json',
  })
  const refusalOf = async (what: string, response: Response, expected: number): Promise<string | undefined> => {
    const text = await response.text()
    return response.status === expected ? undefined : `${what}: ${response.status} ${text.slice(0, 200)}`
  }

  const route = await ask('/v1/inbound-routes', {
    method: 'POST',
    headers: headersOf(first),
    body: JSON.stringify({ domain_id: first.domainId, pattern: 'support', match_type: 'exact' }),
  })
  if (route.status !== 201) throw new Error(`no inbound route: ${route.status} ${await route.text()}`)

  const send = async (): Promise<string | undefined> => {
    const tenant = tenants[count % tenants.length] ?? first
    const rcptTo = `${tenant.name}-${++count}@${HONEST_RECEIVER}`
    sentAtMs.set(rcptTo, performance.now())
    const body = JSON.stringify({
      from: `Honest <hello@${tenant.domain}>`,
      to: rcptTo,
      subject: `Message ${count}`,
      text_body: `Hello,\r\n\r\nthis is message ${count}.\r\n`.repeat(20),
      html_body: `<p>Hello,</p><p>this is message ${count}.</p>`.repeat(20),
    })
    const response = await ask('/v1/emails', { method: 'POST', headers: headersOf(tenant), body })
    const refusal = await refusalOf('acceptance', response, 202)
    if (refusal !== undefined) sentAtMs.delete(rcptTo)
    return refusal
  }

  const receive = async (): Promise<string | undefined> => {
    const startMs = performance.now()
    await using client = await connectSmtp(options.inboundPort, '127.0.0.1', { localAddress: '127.0.0.77' })
    const replies = [await client.reply()]
    for (const line of [
      'EHLO mx.partner.test',
      'MAIL FROM:<bob@partner.test>',
      `RCPT TO:<support@${first.domain}>`,
      'DATA',
    ])
      replies.push(await client.say(line))
    const expectedCount = receipts.accepted + 1
    replies.push(
      await client.say(
        `From: Bob <bob@partner.test>\r\nTo: support@${first.domain}\r\nSubject: Question ${expectedCount}\r\n\r\nHello?\r\n.`,
      ),
    )
    const refused = replies.find((reply) => !/^[23]/.test(reply))
    if (refused !== undefined) return `receipt: ${refused || 'the connection ended'}`
    receipts.accepted++
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('no event within a minute')), TIMEOUT_MS)
      const look = () => {
        if (receipts.told < expectedCount) return
        clearTimeout(timer)
        arrived.delete(look)
        resolve()
      }
      arrived.add(look)
      look()
    })
    samplesMs.receipt.push(performance.now() - startMs)
    return undefined
  }

  let signIns = 0
  const signIn = async (): Promise<string | undefined> => {
    const index = signIns++ % first.users.length
    const response = await ask('/v1/auth/login', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-forwarded-for': `192.0.2.${index + 1}` },
      body: JSON.stringify({ email: first.users[index], password: PASSWORD }),
    })
    return refusalOf('sign-in', response, 200)
  }

  const loads = [
    repeat(1000 / options.sendsPerSecond, 'acceptance', send),
    repeat(HEALTH_INTERVAL_MS, 'healthz', async () => refusalOf('healthz', await ask('/healthz'), 200)),
    repeat(READ_INTERVAL_MS, 'reading', async () =>
      refusalOf('reading', await ask('/v1/emails?per_page=10', { headers: headersOf(first) }), 200),
    ),
    repeat(RECEIPT_INTERVAL_MS, undefined, receive),
    repeat(SIGN_IN_INTERVAL_MS, 'sign-in', signIn),
  ]
  return {
    log,
    undelivered: () => sentAtMs.size,
    unreceived: () => receipts.accepted - receipts.told,
    async stop() {
      isStopping = true
      await Promise.all(loads)
    },
    close() {
      stream.abort()
      receiver.close()
    },
  }
}

/** Calls `onInbound` for each `email.inbound` event of the tenant's stream, from its beginning until it ends. */
async function followFeed(url: string, key: string, signal: AbortSignal, onInbound: () => void): Promise<void> {
  const response = await fetch(`${url}/v1/events?types=email.inbound`, {
    headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
    signal,
  })
  if (!response.ok || !response.body) throw new Error(`no event stream: ${response.status}`)
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of response.body) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      if (text.slice(0, end).includes('data:')) onInbound()
      text = text.slice(end + 2)
    }
  }
}
