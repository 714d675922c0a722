/**
 * @module The kill test of mail submission: kills a real service with `kill -9` while clients are between DATA and the
 * reply. A message that got a 250 must be stored; one with an idempotency key, which its client repeats until it gets a
 * 250, must be stored exactly once. See `scripts/kill-test --help`.
 */
import type { Database } from 'bun:sqlite'
import { findFreePort } from '#test/support/free-port.ts'
import { connectSmtp, type RawSmtp } from '#test/support/smtp-client.ts'
import { sendMessage } from './inbound-clients.ts'
import { KillRun, waitUntil } from './run.ts'
import { prepareDataDirectory, SENDER_DOMAIN } from './service.ts'

const CLIENT_COUNT = 8
/** Timeout for the moment of the kill. */
const MOMENT_WITHIN_MS = 60_000
/** Probability of a message so large that it is spooled. */
const LARGE_CHANCE = 0.05
const LARGE_BYTES = 400_000

const run = new KillRun()
const { random, violations } = run
const tlsPort = await findFreePort()
const service = await run.createService({
  TASSIS_DELIVERY: 'capture',
  TASSIS_SUBMISSION_TLS_ADDR: `127.0.0.1:${tlsPort}`,
  TASSIS_MIN_FREE_DISK: '0',
})
const key = await prepareDataDirectory(service.settings)

/** A message that a client has begun to send. */
interface Submitted {
  readonly name: string
  /** Whether it has an idempotency key, so that its client repeats it until it is accepted. */
  readonly isRepeated: boolean
  attempts: number
  /** Ids in the replies with 250. */
  readonly acceptedAs: Set<string>
}

const submitted: Submitted[] = []
const sum = { kills: 0, inData: 0, repeated: 0 }

/** Sessions that have sent DATA and have no reply to the message. */
let inData = 0

/** Opens a session and logs in. */
async function openSession(): Promise<RawSmtp> {
  const session = await connectSmtp(tlsPort, '127.0.0.1', { isTlsImplicit: true })
  await session.reply()
  await session.ask('EHLO client.test', '250')
  await session.ask(`AUTH PLAIN ${Buffer.from(`\0apikey\0${key}`).toString('base64')}`, '235')
  return session
}

/** Resolves with the id in the 250; rejects when the connection ends before. */
async function submit(session: RawSmtp, message: string): Promise<string> {
  await session.ask(`MAIL FROM:<ada@${SENDER_DOMAIN}>`, '250')
  await session.ask('RCPT TO:<bob@receiver.test>', '250')
  await session.ask('DATA', '354')
  inData++
  try {
    const reply = await sendMessage(session, message, random)
    const id = /^250 2\.0\.0 Ok: queued as ([0-9a-f-]{36})/.exec(reply)?.[1]
    if (id === undefined) throw new Error(`not accepted: ${reply}`)
    return id
  } finally {
    inData--
  }
}

function createMessage({ name, isRepeated }: Submitted): string {
  const size = random.chance(LARGE_CHANCE) ? LARGE_BYTES : 200
  return [
    `From: ada@${SENDER_DOMAIN}`,
    'To: bob@receiver.test',
    `Subject: ${name}`,
    `Message-ID: <${name}@client.test>`,
    ...(isRepeated ? [`X-Tassis-Idempotency-Key: ${name}`] : []),
    '',
    'x'
      .repeat(70)
      .concat('\r\n')
      .repeat(Math.ceil(size / 72)),
  ].join('\r\n')
}

/** Sends messages until stopped; after that it only repeats the message that it may repeat. */
async function runClient(prefix: string, isStopping: () => boolean): Promise<void> {
  let session: RawSmtp | undefined
  for (let count = 0; !isStopping(); count++) {
    const entry: Submitted = {
      name: `${prefix}-${count}`,
      isRepeated: count % 2 === 0,
      attempts: 0,
      acceptedAs: new Set(),
    }
    submitted.push(entry)
    const message = createMessage(entry)
    do {
      try {
        session ??= await openSession()
        entry.attempts++
        entry.acceptedAs.add(await submit(session, message))
      } catch {
        session?.destroy()
        session = undefined
        await Bun.sleep(5)
      }
    } while (entry.isRepeated && entry.acceptedAs.size === 0)
  }
  session?.destroy()
}

/** Messages with a 250, of those begun from this one on. */
const countAccepted = (from: number): number =>
  submitted.slice(from).filter(({ acceptedAs }) => acceptedAs.size > 0).length

async function runRound(number: number): Promise<void> {
  if (!service.running) await service.start()
  let isStopping = false
  const begun = submitted.length
  const clients = Array.from({ length: CLIENT_COUNT }, (_, i) => runClient(`r${number}c${i}`, () => isStopping))
  const wanted = random.between(0, 60)
  await waitUntil(() => countAccepted(begun) >= wanted, MOMENT_WITHIN_MS, 1)
  await waitUntil(() => inData > 2, MOMENT_WITHIN_MS, 1)
  sum.kills++
  if (inData > 0) sum.inData++
  await service.running?.kill()
  await service.start()
  await Bun.sleep(random.between(0, 200))
  isStopping = true
  await Promise.all(clients)
  const ofRound = submitted.slice(begun)
  sum.repeated += ofRound.filter(({ attempts }) => attempts > 1).length
  using db = service.openBooks()
  const broken = judge(db, ofRound)
  const accepted = countAccepted(begun)
  console.log(
    `round ${number}: ${accepted} of ${ofRound.length} accepted${broken.length > 0 ? `; ${broken.length} VIOLATIONS` : ''}`,
  )
  violations.push(...broken)
}

/** Compares what is stored of each message with the replies to it. */
function judge(db: Database, entries: readonly Submitted[]): string[] {
  const stored = Map.groupBy(
    db.query<{ id: string; subject: string }, []>('SELECT lower(hex(uuid)) AS id, subject FROM emails').all(),
    ({ subject }) => subject,
  )
  return entries.flatMap(({ name, isRepeated, acceptedAs, attempts }) => {
    const ids = (stored.get(name) ?? []).map(({ id }) => id)
    const broken: string[] = []
    for (const id of acceptedAs)
      if (!ids.includes(id.replaceAll('-', ''))) broken.push(`${name} got a 250 for ${id}, which is not stored`)
    if (isRepeated && ids.length !== 1)
      broken.push(`${name} was sent ${attempts} times with its key and is stored ${ids.length} times`)
    if (ids.length > attempts) broken.push(`${name} was sent ${attempts} times and is stored ${ids.length} times`)
    return broken
  })
}

await run.collect(service, async () => {
  await service.start()
  await run.runRounds(runRound)
})
if (sum.inData * 2 < sum.kills) violations.push('less than half of the kills were between DATA and the reply')
if (sum.repeated === 0) violations.push('no message was repeated')
run.end(
  `${sum.kills} kills, ${sum.inData} between DATA and the reply; ${submitted.length} messages, ${sum.repeated} repeated; ` +
    `${violations.length === 0 ? 'none with a 250 is lost, none with a key is doubled' : 'promises were broken'}`,
)
