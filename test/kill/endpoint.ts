/**
 * @module A webhook endpoint of the kill test, over TLS: answers as it is told to, can keep requests without an answer, and remembers what came in
 * which life of the service. Every delivery passes the independent verifier.
 */
import type { CertificateAuthority } from '#test/support/certificates.ts'
import { type HttpsReply, type ReceivedRequest, startHttpsReceiver } from '#test/support/https-receiver.ts'
import { findWebhookViolations } from '#test/support/webhook-verifier.ts'
import type { Random } from './random.ts'

/** An attempt that arrived whole. */
export interface Arrival {
  /** Which run of the service made it; 1 is the first. */
  readonly life: number
  readonly event: string
  readonly eventId: string
  readonly recipient: string
  readonly attempt: number
  /** On the monotonic clock. */
  readonly atMs: number
  answeredAtMs: number | undefined
  /** Status that it was answered with; undefined: a reset, or nothing yet. */
  status: number | undefined
}

/** How requests are answered from now on; probabilities of a request. */
export interface ResponseMix {
  /** Kept without an answer until the service is killed. */
  readonly hold: number
  /** A pause before the answer, up to `slowestMs`. */
  readonly slow: number
  readonly maxDelayMs: number
  readonly status500: number
  readonly status404: number
  readonly reset: number
}

export const PROMPT_RESPONSES: ResponseMix = { hold: 0, slow: 0, maxDelayMs: 0, status500: 0, status404: 0, reset: 0 }

export interface KillEndpoint extends AsyncDisposable {
  readonly url: string
  readonly ca: CertificateAuthority
  /** Trusts both endpoints. */
  readonly caFile: string
  readonly arrivals: readonly Arrival[]
  /** What the verifier found, one sentence each. */
  readonly violations: readonly string[]
  /** What the creation of the webhook gave. */
  expect(webhook: { readonly secret: string; readonly accountId: string }): void
  behave(answers: ResponseMix): void
  /** A new run of the service begins. */
  begin(life: number): void
  /** Arrivals of this life that have no answer. */
  unanswered(): Arrival[]
  /** Resolves in the turn in which the next answer is given to its socket. */
  answered(): Promise<void>
  /** The service is dead: gives up what is kept; resolves when all its connections are closed and all they brought has been read. */
  releaseAfterKill(): Promise<void>
}

/** Failures in a row: ten would switch the webhook off, and kills may hide successes between them. */
const MAX_CONSECUTIVE_FAILURES = 3
const CLOSED_WITHIN_MS = 2000
const GOOD_STATUSES = [200, 201, 202] as const

/** @param ca in place of a new one */
export async function startEndpoint(name: string, random: Random, ca?: CertificateAuthority): Promise<KillEndpoint> {
  const receiver = await startHttpsReceiver({ names: [name], ...(ca && { ca }) })
  const arrivals: Arrival[] = []
  const violations: string[] = []
  let answers = PROMPT_RESPONSES
  let life = 0
  let failures = 0
  let webhook = { secret: '', accountId: '' }
  let whenDead = Promise.withResolvers<void>()
  let whenAnswered = Promise.withResolvers<void>()

  receiver.answer(async (request): Promise<HttpsReply> => {
    const arrival = toArrival(request, life)
    arrivals.push(arrival)
    for (const violation of findWebhookViolations(request, { ...webhook, nowMs: request.receivedAt }))
      violations.push(`${name} got ${arrival.event} ${arrival.eventId}, attempt ${arrival.attempt}: ${violation}`)
    const { promise: dead } = whenDead
    if (random.chance(answers.hold)) {
      await dead
      return 'reset'
    }
    if (random.chance(answers.slow)) await Promise.race([Bun.sleep(random.between(1, answers.maxDelayMs)), dead])
    if (arrival.life !== life || dead !== whenDead.promise) return 'reset'
    const answer = nextAnswer()
    arrival.answeredAtMs = performance.now()
    arrival.status = answer === 'reset' ? undefined : answer
    whenAnswered.resolve()
    whenAnswered = Promise.withResolvers()
    return answer === 'reset' ? 'reset' : { status: answer, body: answer < 300 ? 'taken' : 'not now' }
  })

  function nextAnswer(): number | 'reset' {
    const drawn = random.fraction()
    const { status500, status404, reset } = answers
    const isFailure = drawn < status500 + status404 + reset && failures < MAX_CONSECUTIVE_FAILURES
    failures = isFailure ? failures + 1 : 0
    if (!isFailure) return GOOD_STATUSES[random.between(0, GOOD_STATUSES.length - 1)] ?? 200
    return drawn < status500 ? 500 : drawn < status500 + status404 ? 404 : 'reset'
  }

  return {
    url: receiver.url(name, '/hook'),
    ca: receiver.ca,
    caFile: receiver.caFile,
    arrivals,
    violations,
    expect: (made) => {
      webhook = made
    },
    behave: (next) => {
      answers = next
    },
    begin: (next) => {
      life = next
    },
    unanswered: () => arrivals.filter((arrival) => arrival.life === life && arrival.answeredAtMs === undefined),
    answered: () => whenAnswered.promise,
    async releaseAfterKill() {
      whenDead.resolve()
      whenDead = Promise.withResolvers()
      const end = performance.now() + CLOSED_WITHIN_MS
      while (receiver.connections.open > 0 && performance.now() < end) await Bun.sleep(2)
      receiver.dropConnections()
    },
    [Symbol.asyncDispose]: () => receiver.close(),
  }
}

function toArrival({ headers, text }: ReceivedRequest, life: number): Arrival {
  let body: { event_id?: unknown; recipient?: unknown } = {}
  try {
    body = JSON.parse(text) as typeof body
  } catch {
    // The verifier says so.
  }
  return {
    life,
    event: headers['x-service-event'] ?? '',
    eventId: String(body.event_id),
    recipient: String(body.recipient),
    attempt: Number(headers['x-service-attempt']),
    atMs: performance.now(),
    answeredAtMs: undefined,
    status: undefined,
  }
}
