/**
 * @module A webhook endpoint of the kill test over TLS: responds as configured, can hold requests without a response,
 * and records which run of the service made each attempt. Every delivery passes the independent verifier.
 */
import type { CertificateAuthority } from '#test/support/certificates.ts'
import { type HttpsReply, type ReceivedRequest, startHttpsReceiver } from '#test/support/https-receiver.ts'
import type { Random } from '#test/support/random.ts'
import { findWebhookViolations } from '#test/support/webhook-verifier.ts'

/** An attempt that arrived completely. */
export interface Arrival {
  /** Number of the service run that made it, from 1. */
  readonly life: number
  readonly event: string
  readonly eventId: string
  readonly recipient: string
  readonly attempt: number
  /** Time on the monotonic clock. */
  readonly atMs: number
  answeredAtMs: number | undefined
  /** Status of the response; undefined for a reset or no response yet. */
  status: number | undefined
}

/** Probabilities per request of each kind of response. */
export interface ResponseMix {
  /** Held without a response until the service is killed. */
  readonly hold: number
  /** Delayed by up to `maxDelayMs`. */
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
  /** CA file that trusts both endpoints. */
  readonly caFile: string
  readonly arrivals: readonly Arrival[]
  /** Violations found by the verifier, one sentence each. */
  readonly violations: readonly string[]
  /** Sets the secret and account of the created webhook. */
  expect(webhook: { readonly secret: string; readonly accountId: string }): void
  behave(answers: ResponseMix): void
  /** Marks the start of a new service run. */
  begin(life: number): void
  /** Returns the arrivals of this run without a response. */
  unanswered(): Arrival[]
  /** Resolves in the tick in which the next response is written to its socket. */
  answered(): Promise<void>
  /** Drops held requests after a kill; resolves when all connections of the dead service are closed and fully read. */
  releaseAfterKill(): Promise<void>
}

/** Ten consecutive failures would deactivate the webhook, and kills may hide successes between them. */
const MAX_CONSECUTIVE_FAILURES = 3
const CLOSED_WITHIN_MS = 2000
const GOOD_STATUSES = [200, 201, 202] as const

/** @param ca certificate authority to use instead of a new one */
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
    // The verifier reports the missing fields.
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
