/**
 * @module The load of the cluster test, through the front: emails by HTTP and by SMTP submission, messages from outside,
 * and a broadcast. Records what each client was told.
 */
import { type InboundClients, type SubmittedMessage, startInboundClients } from '#test/kill/inbound-clients.ts'
import { type Load, type Mix, RECEIVER_DOMAIN, type Sent, startLoad } from '#test/kill/load.ts'
import { SENDER_DOMAIN } from '#test/kill/service.ts'
import type { Random } from '#test/support/random.ts'
import { connectSmtp, type RawSmtp } from '#test/support/smtp-client.ts'
import type { TestCluster } from './cluster.ts'

/** What clients were told so far. */
export interface Ledger {
  readonly key: string
  /** By local part of the recipient. */
  readonly sent: Map<string, Sent>
  readonly inbound: Map<string, SubmittedMessage>
  /** Messages that were accepted with a 250 at submission. */
  submittedCount: number
}

export interface Traffic {
  /** Ends it; resolves once every client has its last answer. */
  stop(): Promise<void>
}

const MIX: Mix = { maxPauseMs: 1200, maxEmails: 2000, large: 0.01, deferred: 0, refused: 0 }
const SUBMISSION_CLIENTS = 4
const CONTACTS_PER_BROADCAST = 30
const RETRY_MS = 200

export function startTraffic(cluster: TestCluster, random: Random, ledger: Ledger, round: number): Traffic {
  const isStopping = { value: false }
  const prefix = `r${round}`
  const http: Load = startLoad(cluster.url, ledger.key, random, prefix, ledger.sent, MIX)
  const inbound: InboundClients = startInboundClients({
    port: cluster.front.inbound.port,
    random,
    prefix: `i${round}`,
    recipients: [[`support@${SENDER_DOMAIN}`]],
    handed: ledger.inbound,
    maxPauseMs: 2500,
  })
  const others = [
    ...Array.from({ length: SUBMISSION_CLIENTS }, (_, i) =>
      submitMessages(cluster, random, ledger, `s${round}c${i}`, isStopping),
    ),
    sendBroadcast(cluster, random, ledger, `b${round}`),
  ]
  return {
    async stop() {
      isStopping.value = true
      await Promise.all([http.stop(), inbound.stop(), ...others])
      // A 503 says that it is not known whether the email is stored.
      for (const entry of ledger.sent.values()) if (entry.status === 503) forgive(entry)
    },
  }
}

function forgive(entry: Sent): void {
  entry.status = undefined
  entry.outcome = 'unanswered'
}

const record = (ledger: Ledger, id: string): Sent => {
  const entry: Sent = { id, isDeferred: false, outcome: 'unanswered', emailId: undefined, status: undefined }
  ledger.sent.set(id, entry)
  return entry
}

/** Submits messages over one connection. Those with an idempotency key are repeated until they are accepted. */
async function submitMessages(
  cluster: TestCluster,
  random: Random,
  ledger: Ledger,
  prefix: string,
  isStopping: { readonly value: boolean },
): Promise<void> {
  let session: RawSmtp | undefined
  for (let count = 1; !isStopping.value; count++) {
    const isRepeated = count % 2 === 0
    const entry = record(ledger, `${prefix}-${count}`)
    do {
      try {
        session ??= await logIn(cluster.front.submission.port, ledger.key)
        entry.emailId = await submit(session, entry.id, isRepeated)
        entry.outcome = 'accepted'
        ledger.submittedCount++
      } catch {
        session?.destroy()
        session = undefined
        await Bun.sleep(RETRY_MS)
      }
    } while (isRepeated && entry.outcome !== 'accepted')
    await Bun.sleep(random.between(0, MIX.maxPauseMs))
  }
  session?.destroy()
}

async function logIn(port: number, key: string): Promise<RawSmtp> {
  const session = await connectSmtp(port, '127.0.0.1', { isTlsImplicit: true })
  await session.reply()
  await session.ask('EHLO client.test', '250')
  await session.ask(`AUTH PLAIN ${Buffer.from(`\0apikey\0${key}`).toString('base64')}`, '235')
  return session
}

/** Resolves with the id in the 250. */
async function submit(session: RawSmtp, id: string, isKeyed: boolean): Promise<string> {
  await session.ask(`MAIL FROM:<ada@${SENDER_DOMAIN}>`, '250')
  await session.ask(`RCPT TO:<${id}@${RECEIVER_DOMAIN}>`, '250')
  await session.ask('DATA', '354')
  const message = [
    `From: ada@${SENDER_DOMAIN}`,
    `To: ${id}@${RECEIVER_DOMAIN}`,
    `Subject: ${id}`,
    `X-Test-Id: ${id}`,
    ...(isKeyed ? [`X-Tassis-Idempotency-Key: ${id}`] : []),
    '',
    `End of ${id}.`,
    '.',
  ]
  const reply = await session.say(message.join('\r\n'))
  const emailId = /^250 2\.0\.0 Ok: queued as ([0-9a-f-]{36})/.exec(reply)?.[1]
  if (emailId === undefined) throw new Error(`not accepted: ${reply}`)
  return emailId
}

/** Makes a list and sends it a broadcast, each request until it is accepted. */
async function sendBroadcast(cluster: TestCluster, random: Random, ledger: Ledger, prefix: string): Promise<void> {
  const call = async (path: string, body: object | (() => object), key?: string): Promise<{ data: { id: string } }> => {
    for (;;) {
      try {
        const answer = await fetch(cluster.url + path, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${ledger.key}`,
            'content-type': 'application/json',
            ...(key !== undefined && { 'idempotency-key': key }),
          },
          body: JSON.stringify(typeof body === 'function' ? body() : body),
        })
        const parsed = (await answer.json()) as { data: { id: string } }
        if (answer.ok) return parsed
        if (answer.status !== 503) throw new TypeError(`${path} returned ${answer.status}: ${JSON.stringify(parsed)}`)
      } catch (error) {
        if (error instanceof TypeError && error.message.startsWith('/v1')) throw error
      }
      await Bun.sleep(RETRY_MS)
    }
  }
  await Bun.sleep(random.between(0, 2000))
  // A request without an answer may have made a list.
  const list = await call('/v1/contact-lists', () => ({ name: `${prefix} ${crypto.randomUUID()}` }))
  const names = Array.from({ length: CONTACTS_PER_BROADCAST }, (_, n) => `${prefix}c${n}`)
  const contacts = names.map((name) => ({ email: `${name}@${RECEIVER_DOMAIN}`, metadata: { n: name } }))
  await call(`/v1/contact-lists/${list.data.id}/contacts`, { contacts, confirmed: true })
  const entries = names.map((name) => record(ledger, name))
  const broadcast = {
    contact_list_id: list.data.id,
    from_address: `news@${SENDER_DOMAIN}`,
    subject: 'For {{ contact.metadata.n }}',
    text_body: 'X-Test-Id: {{ contact.metadata.n }}\n\n{{ unsubscribe_url }}\n\nEnd of {{ contact.n }}.\n',
  }
  await call('/v1/emails/broadcast', broadcast, `${prefix} broadcast`)
  for (const entry of entries) entry.outcome = 'accepted'
}
