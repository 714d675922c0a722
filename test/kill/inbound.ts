/**
 * @module The kill test of inbound mail: kills a real service with `kill -9` while clients submit messages, at moments
 * between the final dot, the reply and the processing. Each message with a 250 must be stored exactly once with exactly
 * one event, and forwarded once if its route forwards. See `scripts/kill-test --help`.
 */
import type { Database } from 'bun:sqlite'
import { toEventCode } from '#features/core/events/record.ts'
import { inboundStatusCode } from '#features/receiving/inbound/api/inbound-emails.ts'
import { statusName } from '#features/sending/queue/status.ts'
import { Counts } from '#platform/queue/counts.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { type InboundClients, type SubmittedMessage, startInboundClients } from './inbound-clients.ts'
import { KillRun, waitUntil } from './run.ts'
import { prepareAccount, SENDER_DOMAIN } from './service.ts'

const PROCESSED_WITHIN_MS = 60_000
/** Timeout for a moment. */
const MOMENT_WITHIN_MS = 60_000

const run = new KillRun()
const { rounds, random, violations } = run

/**
 * Moments of the kill. `data`: messages are arriving or wait for their reply. `processing`: messages have their 250 but
 * are not processed yet. `random`: any moment. `recovery`: as `processing`, and again while the service recovers.
 */
const MOMENTS = ['data', 'processing', 'random', 'recovery'] as const
type Moment = (typeof MOMENTS)[number]

const PERSON = `person@${SENDER_DOMAIN}`
/** How often each message came to the person, by Message-ID. */
const copies = new Counts<string>()
const person = await startScriptedSmtp({
  body(_line, { messages }) {
    copies.add(/^Message-ID: (\S+)/m.exec(messages.at(-1)?.toString('latin1') ?? '')?.[1] ?? '', 1)
    return '250 2.0.0 Queued'
  },
})
const dns = await startDnsServer({ [SENDER_DOMAIN]: { A: ['127.0.0.1'] } })
const smtpPort = await findFreePort()
const service = await run.createService({
  TASSIS_DNS_SERVERS: dns.address,
  TASSIS_INBOUND_ADDR: `127.0.0.1:${smtpPort}`,
  TASSIS_SMTP_PORT: String(person.port),
  TASSIS_INBOUND_CONNECTIONS_PER_IP: '100',
  TASSIS_INBOUND_MESSAGES_PER_MINUTE: '1000000',
  TASSIS_MIN_FREE_DISK: '0',
})

const submitted = new Map<string, SubmittedMessage>()
const sum = { kills: 0, inData: 0, waiting: 0 }
let mailbox = ''

const countWaiting = (db: Database): number =>
  db.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM inbound_receipts').get()?.n ?? 0

async function waitForMoment(kind: Moment, handers: InboundClients, db: Database): Promise<void> {
  await Bun.sleep(random.between(100, 700))
  if (kind === 'data') await waitUntil(() => handers.inData() > 3, MOMENT_WITHIN_MS, 1)
  else if (kind === 'processing' || kind === 'recovery') await stopWhileWaiting(db)
  else await Bun.sleep(random.between(0, 300))
}

/** Stops the service while a message waits, so that none is processed between the look and the kill. */
async function stopWhileWaiting(db: Database): Promise<void> {
  const { running } = service
  if (!running) return
  let isStopped = false
  const signal = (name: 'SIGSTOP' | 'SIGCONT') => {
    process.kill(running.pid, name)
    isStopped = name === 'SIGSTOP'
  }
  const isWaiting = () => {
    const hasMessages = countWaiting(db) > 0
    if (isStopped && hasMessages) return true
    // A stop takes effect before the next look.
    if (isStopped) signal('SIGCONT')
    else if (hasMessages) signal('SIGSTOP')
    return false
  }
  await waitUntil(isWaiting, MOMENT_WITHIN_MS, 1)
}

async function kill(handers: InboundClients): Promise<void> {
  const running = service.running
  if (!running) throw new Error('the service ended unexpectedly')
  sum.kills++
  if (handers.inData() > 0) sum.inData++
  await running.kill()
  using db = service.openBooks()
  if (countWaiting(db) > 0) sum.waiting++
}

async function runRound(number: number): Promise<void> {
  const kind = MOMENTS[(number - 1) % MOMENTS.length] ?? 'random'
  if (!service.running) await service.start()
  const handers = startInboundClients({
    port: smtpPort,
    random,
    prefix: `r${number}`,
    handed: submitted,
    recipients: [
      [`support@${SENDER_DOMAIN}`],
      [`unknown@${SENDER_DOMAIN}`],
      [mailbox],
      [`support@${SENDER_DOMAIN}`, mailbox, `unknown@${SENDER_DOMAIN}`],
    ],
  })
  {
    using db = service.openBooks()
    await waitForMoment(kind, handers, db)
  }
  await kill(handers)
  if (kind === 'recovery') {
    service.begin()
    await Bun.sleep(random.between(100, 900))
    await kill(handers)
  }
  await service.start()
  // Also after the kill: the clients reconnect to the same service.
  await Bun.sleep(random.between(50, 300))
  await handers.stop()
  using db = service.openBooks()
  const isProcessed = await waitUntil(() => countWaiting(db) === 0 || !service.running, PROCESSED_WITHIN_MS, 20)
  const broken = judge(db)
  if (!isProcessed) broken.push(`not everything is processed ${PROCESSED_WITHIN_MS} ms after the restart`)
  const ofRound = [...submitted.values()].filter(({ id }) => id.startsWith(`r${number}-`))
  const countOutcomes = (what: SubmittedMessage['outcome']) => ofRound.filter((entry) => entry.outcome === what).length
  console.log(
    `round ${number} ${kind}: ${countOutcomes('accepted')} accepted, ${countOutcomes('unanswered')} unanswered, ${countOutcomes('refused')} refused${broken.length > 0 ? `; ${broken.length} VIOLATIONS` : ''}`,
  )
  violations.push(...broken)
}

interface StoredPlace {
  readonly messageId: string
  readonly n: number
  readonly told: number
}

/** Reads, by Message-ID, how often a message is stored and how many events it has. */
function readPlaces(db: Database, query: string): Map<string, StoredPlace> {
  return new Map(
    db
      .query<StoredPlace, []>(query)
      .all()
      .map((row) => [row.messageId, row]),
  )
}

/** Compares what is stored of each message with the reply its sender got. */
function judge(db: Database): string[] {
  const routed = readPlaces(
    db,
    `SELECT message_id AS messageId, count(*) AS n, count(event_seq) AS told FROM inbound_emails WHERE route_id IS NOT NULL GROUP BY 1`,
  )
  const unrouted = readPlaces(
    db,
    `SELECT message_id AS messageId, count(*) AS n, count(event_seq) AS told FROM inbound_emails WHERE route_id IS NULL GROUP BY 1`,
  )
  const inMailbox = readPlaces(
    db,
    `SELECT message_id AS messageId, count(*) AS n, count(*) AS told FROM mailbox_messages WHERE email_id IS NULL GROUP BY 1`,
  )
  const broken: string[] = []
  for (const { id, recipients, isWhole, outcome: told, sizeBytes } of submitted.values()) {
    const key = `<${id}@hander.test>`
    for (const recipient of recipients) {
      const [place, name, events] =
        recipient === mailbox
          ? ([inMailbox.get(key), 'mailbox', 1] as const)
          : recipient.startsWith('support@')
            ? ([routed.get(key), 'route', 1] as const)
            : ([unrouted.get(key), 'domain', 0] as const)
      const n = place?.n ?? 0
      if (told === 'accepted' && n !== 1)
        broken.push(`${id} (${sizeBytes} octets) got a 250 and is ${n} times in the ${name}`)
      if (told === 'unanswered' && n > (isWhole ? 1 : 0))
        broken.push(`${id} got no reply and is ${n} times in the ${name}`)
      if (told === 'refused' && n > 0) broken.push(`${id} was refused and is in the ${name}`)
      if (place && place.told !== n * events)
        broken.push(`${id} is ${n} times in the ${name} with ${place.told} events`)
    }
  }
  const events = (type: 'email.inbound' | 'mailbox.message.received') =>
    db.query<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM events WHERE type = ?').get(toEventCode(type))?.n ?? 0
  const total = (places: Map<string, StoredPlace>) => [...places.values()].reduce((n, place) => n + place.n, 0)
  if (events('email.inbound') !== total(routed))
    broken.push(`${events('email.inbound')} events for ${total(routed)} routed messages`)
  if (events('mailbox.message.received') !== total(inMailbox))
    broken.push(`${events('mailbox.message.received')} events for ${total(inMailbox)} mailbox messages`)
  const givenUp = db
    .query<{ n: number }, [number]>(
      `SELECT (SELECT count(*) FROM inbound_emails WHERE status = ?)
         + (SELECT count(*) FROM mailbox_messages WHERE parse_error IS NOT NULL) AS n`,
    )
    .get(inboundStatusCode('failed'))?.n
  if (givenUp !== 0) broken.push(`${givenUp} messages were given up, although the kills were not their fault`)
  return broken
}

interface Forwarded {
  readonly messageId: string
  readonly emails: number
  readonly status: number
}

/** Compares what the person got with the emails that forward it, once all of them have ended. */
async function judgeForwards(db: Database): Promise<string> {
  const open = 'SELECT count(*) AS n FROM recipients WHERE next_at IS NOT NULL'
  const areEnded = () => db.query<{ n: number }, []>(open).get()?.n === 0
  if (!(await waitUntil(areEnded, PROCESSED_WITHIN_MS, 100))) violations.push('not all forwarded mail has ended')
  const forwarded = db
    .query<Forwarded, []>(
      `SELECT message_id AS messageId, count(emails.id) AS emails, min(r.status) AS status FROM inbound_emails i
       LEFT JOIN emails ON emails.extra ->> '$.metadata.inbound_email_id' = lower(substr(hex(i.uuid), 1, 8) || '-' || substr(hex(i.uuid), 9, 4)
         || '-' || substr(hex(i.uuid), 13, 4) || '-' || substr(hex(i.uuid), 17, 4) || '-' || substr(hex(i.uuid), 21))
       LEFT JOIN recipients r ON r.email_id = emails.id WHERE route_id IS NOT NULL GROUP BY i.id`,
    )
    .all()
  let uncertain = 0
  for (const { messageId, emails, status } of forwarded) {
    const n = copies.of(messageId)
    const name = statusName(status)
    if (name === 'uncertain') uncertain++
    if (emails !== 1) violations.push(`${messageId} is forwarded by ${emails} emails`)
    else if (n > 1 || (name !== 'uncertain' && (name !== 'sent' || n !== 1)))
      violations.push(`${messageId} came to the person ${n} times; its email is ${name}`)
  }
  return `${forwarded.length} forwarded once, ${uncertain} of them with an unknown outcome`
}

const { key } = await prepareAccount(service.settings)

async function call(method: string, path: string, body?: unknown): Promise<unknown> {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const answer = (await response.json()) as { data: unknown }
  if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`)
  return answer.data
}

/** Creates a route and a mailbox of the domain. */
async function prepareInbound(): Promise<void> {
  const [domain] = (await call('GET', '/v1/domains')) as { id: string }[]
  if (!domain) throw new Error('there is no domain')
  await call('PATCH', `/v1/domains/${domain.id}`, { inbound_enabled: true })
  const route = { domain_id: domain.id, pattern: 'support', match_type: 'exact', forward_to: [PERSON] }
  await call('POST', '/v1/inbound-routes', route)
  const created = await call('POST', '/v1/agent-mailboxes', { local_part: 'agent', domain_id: domain.id })
  mailbox = (created as { address: string }).address
}

let forwards = ''
await run.collect(service, async () => {
  await service.start()
  await prepareInbound()
  await run.runRounds(runRound)
  using db = service.openBooks()
  forwards = await judgeForwards(db)
})
await person[Symbol.asyncDispose]()
if (sum.inData * 3 < sum.kills) violations.push('less than a third of the kills were inside DATA')
if (rounds >= MOMENTS.length && sum.waiting === 0) violations.push('no kill left a message waiting to be processed')
const all = [...submitted.values()]
const accepted = all.filter(({ outcome: told }) => told === 'accepted')
run.end(
  `${sum.kills} kills, ${sum.inData} while messages arrived, ${sum.waiting} left some to be processed; ${accepted.length} messages got a 250 ` +
    `(${accepted.filter(({ sizeBytes }) => sizeBytes > 500_000).length} of them large), ${all.length - accepted.length} did not; ${forwards}; ` +
    `${violations.length === 0 ? 'each message with a 250 is stored exactly once' : 'promises were broken'}`,
)
