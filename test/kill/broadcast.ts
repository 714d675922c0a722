/**
 * @module The kill test of broadcasts: kills a real service with `kill -9` while it snapshots the recipients, while it
 * enqueues them and inside DATA. Every active contact must get exactly one message or be `uncertain`, no other contact
 * may get any, and all counts must add up. See `scripts/kill-test --help`.
 */
import type { Database } from 'bun:sqlite'
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { insertContact } from '#features/setup/contact-store/status.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { RECEIVER_DOMAIN } from './load.ts'
import { KillRun, waitUntil } from './run.ts'
import { prepareAccount, SENDER_DOMAIN } from './service.ts'
import { startKillSink } from './sink.ts'
import { findImbalances, readStoredMail } from './stored-mail.ts'

const DONE_TIMEOUT_MS = 900_000
const ORDINARY_BEHAVIOUR = { hold: 0, slow: 0.02, drop: 0.005, cut: 0 }
/** Contacts per transaction. */
const BATCH_SIZE = 1000

const run = new KillRun()
const { rounds, random, violations, contacts } = run

/** Returns why a contact gets no message, for one in a hundred each; undefined if it gets one. */
type Fate = 'pending' | 'suppressed' | 'unsubscribed' | undefined
const computeFate = (n: number): Fate =>
  n % 100 === 7 ? 'pending' : n % 100 === 17 ? 'suppressed' : n % 100 === 27 ? 'unsubscribed' : undefined

const formatContactName = (n: number): string => `c${String(n).padStart(7, '0')}`

const sink = await startKillSink(random)
const dns = await startDnsServer({
  [RECEIVER_DOMAIN]: {
    MX: [
      { preference: 10, exchange: 'mx1.test' },
      { preference: 20, exchange: 'mx2.test' },
    ],
  },
  'mx1.test': { A: ['127.0.0.1'] },
  'mx2.test': { A: ['127.0.0.1'] },
})
const service = await run.createService({
  TASSIS_DNS_SERVERS: dns.address,
  TASSIS_SMTP_PORT: String(sink.port),
  TASSIS_MIN_FREE_DISK: '0',
})

const excused = new Set<string>()
const sum = { kills: 0, inData: 0, fixing: 0, sending: 0 }
let key = ''
let listId = ''
let expected = 0

/** Creates the list with all its contacts; `expected` counts those that get the broadcast. */
async function prepareList(): Promise<void> {
  key = (await prepareAccount(service.settings)).key
  await service.start()
  const created = await api('POST', '/v1/contact-lists', { name: 'Kill test' })
  listId = created.body.data.id
  await service.running?.stop()
  const opened = openApp(loadConfig(service.settings).config)
  try {
    const { app } = opened
    const row = app.db
      .query<{ id: number; accountId: number }, []>('SELECT id, account_id AS accountId FROM contact_lists')
      .get()
    if (!row) throw new Error('the list is missing')
    const { accountId } = row
    for (let from = 1; from <= contacts; from += BATCH_SIZE) {
      await app.commit.write((tx) => {
        for (let n = from; n < from + BATCH_SIZE && n <= contacts; n++) {
          const email = `${formatContactName(n)}@${RECEIVER_DOMAIN}`
          const fate = computeFate(n)
          insertContact(app, tx, {
            accountId,
            listId: row.id,
            email,
            metadata: JSON.stringify({ n: formatContactName(n) }),
            status: fate === 'pending' ? 'pending' : 'active',
          })
          if (fate === 'suppressed') suppress(app, tx, { accountId, address: email, reason: 'manual', covers: 'all' })
          if (fate === 'unsubscribed')
            suppress(app, tx, { accountId, address: email, reason: 'unsubscribe', covers: 'marketing', listId: row.id })
          if (fate === undefined) expected++
        }
      })
    }
  } finally {
    await opened.close()
  }
}

async function api(method: string, path: string, body?: object, headers: Readonly<Record<string, string>> = {}) {
  const answer = await fetch(service.url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: answer.status, body: (await answer.json()) as Answer }
}

interface Answer {
  readonly data: {
    readonly id: string
    readonly status: string
    readonly operation_id: string
    readonly total_recipients: number
    readonly total_items: number
    readonly completed_items: number
    readonly failed_items: number
  }
}

/** Requests the broadcast with the same idempotency key; undefined when the service was killed before it responded. */
const requestBroadcast = () =>
  api(
    'POST',
    '/v1/emails/broadcast',
    {
      contact_list_id: listId,
      from_address: `news@${SENDER_DOMAIN}`,
      subject: 'For {{ contact.metadata.n }}',
      // The receiver reads from each message its recipient and whether it is complete.
      text_body: 'X-Test-Id: {{ contact.metadata.n }}\n\n{{ unsubscribe_url }}\n\nEnd of {{ contact.n }}.\n',
    },
    { 'idempotency-key': 'the broadcast' },
  ).catch(() => undefined)

const readStates = (db: Database): { state: number; handedOver: number; leftOut: number; total: number }[] =>
  db
    .query<{ state: number; handedOver: number; leftOut: number; total: number }, []>(
      'SELECT state, handed_over AS handedOver, left_out AS leftOut, total FROM broadcasts',
    )
    .all()

const SNAPSHOT_STATE = 0
const SENDING_STATE = 2
const DONE_STATE = 6

async function kill(): Promise<void> {
  const running = service.running
  if (!running) throw new Error('the service ended unexpectedly')
  const gone = running.kill()
  const atKill = sink.atKill()
  await gone
  await sink.releaseAfterKill()
  for (const transactions of atKill.undecided.values()) for (const { recipient } of transactions) excused.add(recipient)
  sum.kills++
  if (atKill.inData.length > 0) sum.inData++
  using db = service.openBooks()
  const [broadcast] = readStates(db)
  if (broadcast?.state === SNAPSHOT_STATE) sum.fixing++
  if (broadcast?.state === SENDING_STATE) sum.sending++
}

/** Kills during the snapshot of the recipients: no message is sent yet, and the same request starts the broadcast. */
async function killDuringSnapshot(): Promise<void> {
  await service.start()
  const asked = requestBroadcast()
  using db = service.openBooks()
  await waitUntil(() => readStates(db).some(({ state }) => state === SNAPSHOT_STATE), 60_000, 1)
  await Bun.sleep(random.between(0, 60))
  await kill()
  const answer = await asked
  if (answer === undefined && sink.transactions.length > 0)
    violations.push('mail was sent for a broadcast before its request was answered')
}

let operationId = ''

async function beginBroadcast(): Promise<void> {
  await service.start()
  const answer = await requestBroadcast()
  if (answer?.status !== 202) throw new Error(`the broadcast request returned ${JSON.stringify(answer)}`)
  operationId = answer.body.data.operation_id
  if (answer.body.data.total_recipients !== expected)
    violations.push(`${answer.body.data.total_recipients} recipients were reported, ${expected} should get it`)
  const repeated = await requestBroadcast()
  if (repeated?.body.data.operation_id !== operationId) violations.push('the same key started another broadcast')
}

/** Spreads the kills over the broadcast: each follows when its share of messages has arrived. */
async function killWhileSending(round: number): Promise<void> {
  const share = (expected * (round - 0.5 + random.between(-30, 30) / 100)) / rounds
  const receivedCount = () => sink.transactions.filter(({ received }) => received).length
  sink.behave(ORDINARY_BEHAVIOUR)
  if (!(await waitUntil(() => receivedCount() >= share || !service.running, DONE_TIMEOUT_MS, 20)))
    throw new Error('the broadcast makes no progress')
  if (round % 2 === 0) {
    sink.behave({ ...ORDINARY_BEHAVIOUR, hold: 0.3 })
    await waitUntil(() => sink.inData().length > 0, 60_000)
  }
  await Bun.sleep(random.between(0, 200))
  await kill()
  sink.behave(ORDINARY_BEHAVIOUR)
  await service.start()
  console.log(`kill ${sum.kills}: ${receivedCount()} of ${expected} received`)
}

const countOpen = (db: Database): number =>
  db.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM emails WHERE status IN (0, 1, 2)').get()?.n ?? 0

/** Compares what each contact got with what it should have got. */
function judge(db: Database): string[] {
  const broken: string[] = []
  const times = new Map<string, number>()
  const mentioned = new Set<string>()
  for (const { recipient, received, isWhole: whole, testId } of sink.transactions) {
    mentioned.add(recipient)
    if (!received) continue
    times.set(recipient, (times.get(recipient) ?? 0) + 1)
    if (!whole || testId !== recipient) broken.push(`${recipient} got an incomplete or wrong message (${testId})`)
  }
  const { byId, twice } = readStoredMail(db)
  broken.push(...twice.map((name) => `${name} has two emails`))
  let once = 0
  let uncertain = 0
  for (let n = 1; n <= contacts; n++) {
    const name = formatContactName(n)
    const got = times.get(name) ?? 0
    const status = byId.get(name)?.status
    if (computeFate(n) !== undefined) {
      if (got > 0 || status !== undefined) broken.push(`${name} (${computeFate(n)}) got ${got} and is ${status}`)
    } else if (status === 'sent' && got === 1) once++
    else if (status === 'uncertain' && got <= 1 && excused.has(name)) uncertain++
    else broken.push(`${name} got ${got} and is ${status}${excused.has(name) ? '' : ', which no kill explains'}`)
  }
  const [broadcast, ...others] = readStates(db)
  if (others.length > 0) broken.push('there is more than one broadcast')
  if (
    broadcast?.state !== DONE_STATE ||
    broadcast.handedOver + broadcast.leftOut !== broadcast.total ||
    broadcast.total !== expected
  )
    broken.push(`the broadcast does not add up: ${JSON.stringify(broadcast)}`)
  if (byId.size !== broadcast?.handedOver)
    broken.push(`${byId.size} emails, but ${broadcast?.handedOver} were enqueued`)
  console.log(
    `${expected} contacts to get it: ${once} got one, ${uncertain} uncertain; ${contacts - expected} others got none`,
  )
  return [...broken, ...findImbalances(db)]
}

await run.collect(service, async () => {
  await prepareList()
  await killDuringSnapshot()
  await beginBroadcast()
  await run.runRounds(killWhileSending)
  using db = service.openBooks()
  const isDone = await waitUntil(
    () => !service.running || (readStates(db)[0]?.state === DONE_STATE && countOpen(db) === 0),
    DONE_TIMEOUT_MS,
    50,
  )
  if (!isDone || !service.running) violations.push('the broadcast did not end')
  const { body } = await api('GET', `/v1/operations/${operationId}`)
  const { status, total_items, completed_items, failed_items } = body.data
  if (status !== 'completed' || total_items !== expected || completed_items !== expected || failed_items !== 0)
    violations.push(`the operation does not add up: ${JSON.stringify(body.data)}`)
  violations.push(...judge(db))
})
if (sum.sending === 0) violations.push('no kill hit while the broadcast was being enqueued')
run.end(
  `${sum.kills} kills: ${sum.fixing} during the snapshot of the recipients, ${sum.sending} while sending, ${sum.inData} inside DATA`,
)
