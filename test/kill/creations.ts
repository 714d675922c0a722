/**
 * @module The kill test of requests that create something: kills a real service with `kill -9` while clients create
 * domains, keys, webhooks and more, each with an idempotency key. A client repeats what got no response. Where the
 * service does not know how the first request ended (409), the client looks, and creates what is missing with a new
 * key. In the end each thing exists exactly once. See `scripts/kill-test --help`.
 */
import type { Database } from 'bun:sqlite'
import { startDnsServer } from '#test/support/dns-server.ts'
import { KillRun, waitUntil } from './run.ts'
import { prepareDataDirectory } from './service.ts'

const CLIENTS = 8
/** Things that a client creates in a round. */
const CREATIONS = 8
/** A round without this many responses has its kill then. */
const KILLED_WITHIN_MS = 10_000
/** Of the service, with room for those that are created twice by a fault. */
const MAX_WEBHOOKS = 90
const MAX_TRIES = 20

/** What is created, with the SQL that counts it by name. */
const KINDS = {
  domains: {
    body: (name: string) => ({ domain: `${name}.test` }),
    count: "SELECT count(*) AS n FROM domains WHERE domain = ? || '.test'",
  },
  'api-keys': { body: (name: string) => ({ name }), count: 'SELECT count(*) AS n FROM api_keys WHERE name = ?' },
  webhooks: {
    body: (name: string) => ({ url: `https://hook.test/${name}`, events: ['sent'] }),
    count: "SELECT count(*) AS n FROM webhooks WHERE url = 'https://hook.test/' || ?",
  },
  templates: {
    body: (name: string) => ({ alias: `alias-${crypto.randomUUID()}`, name, subject: 'Hello', text_body: 'Hello' }),
    count: 'SELECT count(*) AS n FROM templates WHERE name = ?',
  },
  'contact-lists': {
    body: (name: string) => ({ name }),
    count: 'SELECT count(*) AS n FROM contact_lists WHERE name = ?',
  },
  streams: {
    body: (name: string) => ({ slug: name, name }),
    count: 'SELECT count(*) AS n FROM streams WHERE slug = ?',
  },
} as const
type Kind = keyof typeof KINDS
const KIND_NAMES = Object.keys(KINDS) as readonly Kind[]

const run = new KillRun()
const { random, violations } = run
const dns = await startDnsServer({})
const service = await run.createService({ TASSIS_DNS_SERVERS: dns.address, TASSIS_MIN_FREE_DISK: '0' })
const key = await prepareDataDirectory(service.settings)

interface Creation {
  readonly kind: Kind
  readonly name: string
  /** The same for every repetition. */
  readonly body: unknown
  idempotencyKey: string
  /** Of the first response. */
  id?: string | undefined
}

const creations: Creation[] = []
const sum = { kills: 0, unanswered: 0, replayed: 0, unknown: 0, missing: 0 }
let isUp = false
let answered = 0

const count = (db: Database, { kind, name }: Creation): number =>
  db.query<{ n: number }, [string]>(KINDS[kind].count).get(name)?.n ?? 0

interface Answer {
  readonly status: number
  readonly isReplayed: boolean
  readonly body: { readonly data?: { readonly id: string }; readonly code?: string }
}

/** Undefined without a response. */
async function post({ kind, body, idempotencyKey }: Creation): Promise<Answer | undefined> {
  try {
    const response = await fetch(`${service.url}/v1/${kind}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'idempotency-key': idempotencyKey,
      },
      body: JSON.stringify(body),
      // A connection to a killed process would fail without a request.
      keepalive: false,
    })
    const isReplayed = response.headers.has('idempotency-replayed')
    return { status: response.status, isReplayed, body: (await response.json()) as Answer['body'] }
  } catch {
    return undefined
  }
}

/** Creates one thing, as a client does that repeats what got no response. */
async function create(creation: Creation): Promise<void> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const answer = await post(creation)
    if (!answer) {
      sum.unanswered++
      while (!isUp) await Bun.sleep(5)
      continue
    }
    answered++
    if (answer.status === 201) {
      creation.id = answer.body.data?.id
      if (answer.isReplayed) sum.replayed++
      return
    }
    if (answer.body.code !== 'idempotency_outcome_unknown') {
      violations.push(`${creation.kind} ${creation.name}: ${answer.status} ${JSON.stringify(answer.body)}`)
      return
    }
    sum.unknown++
    using db = service.openBooks()
    if (count(db, creation) > 0) return
    sum.missing++
    creation.idempotencyKey = crypto.randomUUID()
  }
  violations.push(`${creation.kind} ${creation.name} got no response in ${MAX_TRIES} tries`)
}

function chooseKind(): Kind {
  const kind = KIND_NAMES[random.between(0, KIND_NAMES.length - 1)] ?? 'domains'
  return kind === 'webhooks' && creations.filter((each) => each.kind === kind).length >= MAX_WEBHOOKS ? 'streams' : kind
}

async function runClient(round: number, client: number): Promise<void> {
  for (let n = 0; n < CREATIONS; n++) {
    const kind = chooseKind()
    const name = `r${round}c${client}n${n}`
    const creation: Creation = { kind, name, body: KINDS[kind].body(name), idempotencyKey: crypto.randomUUID() }
    creations.push(creation)
    await create(creation)
  }
}

async function runRound(round: number): Promise<void> {
  await service.start()
  isUp = true
  const before = answered
  const clients = Array.from({ length: CLIENTS }, (_, client) => runClient(round, client))
  const killAt = random.between(CLIENTS, (CLIENTS * CREATIONS) / 2)
  await waitUntil(() => answered - before >= killAt, KILLED_WITHIN_MS, 1)
  isUp = false
  await service.running?.kill()
  sum.kills++
  await service.start()
  isUp = true
  await Promise.all(clients)
  using db = service.openBooks()
  for (const creation of creations) {
    const found = count(db, creation)
    if (found !== 1) violations.push(`${creation.kind} ${creation.name} exists ${found} times`)
  }
  for (const creation of creations.slice(-CLIENTS)) await expectSame(creation)
  await service.running?.kill()
}

/** Whatever was answered once is answered again. */
async function expectSame(creation: Creation): Promise<void> {
  if (creation.id === undefined) return
  const again = await post(creation)
  if (again?.body.data?.id !== creation.id || !again.isReplayed)
    violations.push(`${creation.kind} ${creation.name} was answered otherwise: ${JSON.stringify(again)}`)
}

await run.collect(service, async () => {
  await run.runRounds(runRound)
  await service.start()
})
if (sum.unanswered < sum.kills) violations.push('fewer requests than kills were without a response')
run.end(
  `${sum.kills} kills, ${creations.length} creations; ${sum.unanswered} requests without a response, ${sum.replayed} answered from the first, ` +
    `${sum.unknown} of unknown outcome, ${sum.missing} of them created anew; ` +
    `${violations.length === 0 ? 'each exists exactly once' : 'promises were broken'}`,
)
