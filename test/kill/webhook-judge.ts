/**
 * @module Checks the promises of webhooks across crashes: compares events, stored deliveries and arrivals. No event is
 * lost, no attempt is repeated once its outcome is stored, `delivered` never overtakes `sent`, and the history is
 * correct.
 */
import type { Arrival } from './endpoint.ts'
import type { StoredEvent, StoredWebhook } from './stored-webhooks.ts'

/** A webhook of the kill test with all evidence about it. */
export interface Evidence {
  readonly name: string
  /** Events since its creation that it is subscribed to. */
  readonly events: readonly StoredEvent[]
  readonly eventId: (seq: number) => string
  readonly stored: StoredWebhook
  readonly arrivals: readonly Arrival[]
}

/** Formats `eventId attempt`. */
const formatPair = ({ eventId, attempt }: Pick<Arrival, 'eventId' | 'attempt'>): string => `${eventId} ${attempt}`

/** Checks what must hold at any commit, and so after a kill: the cursor passed no event without a delivery. */
export function findCursorViolations({ name, events, stored }: Evidence): string[] {
  const passed = events.filter(({ seq }) => seq <= stored.cursorSeq && !stored.deliveries.has(seq))
  return [
    ...passed.map(
      ({ seq, type }) => `${name}: the cursor is at ${stored.cursorSeq}, but ${type} ${seq} has no delivery`,
    ),
    ...stored.twice.map((seq) => `${name}: event ${seq} has more than one delivery`),
    ...(stored.isActive ? [] : [`${name} was deactivated`]),
  ]
}

/** Finds attempts of an ended run without a stored outcome, as pairs of event and attempt; only these are repeated. */
export function findInFlightAtKill({ events, eventId, stored, arrivals }: Evidence, life: number): Set<string> {
  const done = new Map(events.map(({ seq }) => [eventId(seq), stored.deliveries.get(seq)?.attempts ?? 0]))
  const open = arrivals.filter((arrival) => arrival.life === life && arrival.attempt > (done.get(arrival.eventId) ?? 0))
  return new Set(open.map(formatPair))
}

export interface Duplicates {
  /** Repeated after a kill. */
  readonly afterKills: number
  /** Repeated immediately over a new connection, because the endpoint reset a persistent one. */
  readonly afterResets: number
  readonly violations: readonly string[]
}

/**
 * Finds attempts that arrived more than once. They are allowed if the first outcome was not stored, or if the endpoint
 * reset the connection: a client cannot distinguish that from a close during the request (RFC 9112 §9.3.1).
 * @param inFlight attempts in flight at the end of each run, by run
 */
export function findDuplicates(
  { name, arrivals }: Evidence,
  inFlight: ReadonlyMap<number, ReadonlySet<string>>,
): Duplicates {
  const lastOf = new Map<string, Arrival>()
  const violations: string[] = []
  const count = { afterKills: 0, afterResets: 0 }
  for (const arrival of arrivals) {
    const pair = formatPair(arrival)
    const before = lastOf.get(pair)
    lastOf.set(pair, arrival)
    if (!before) continue
    const what = `${name}: ${arrival.event} ${arrival.eventId}, attempt ${arrival.attempt},`
    if (before.life !== arrival.life) {
      count.afterKills++
      if (!inFlight.get(before.life)?.has(pair)) violations.push(`${what} was repeated although its outcome was stored`)
    } else {
      count.afterResets++
      const wasReset = before.answeredAtMs !== undefined && before.status === undefined
      if (!wasReset) violations.push(`${what} was made twice by one process`)
    }
  }
  return { ...count, violations }
}

/** Checks that `delivered` never starts before `sent` of the recipient is answered, nor during it in the same run. */
export function findOrderViolations({ name, arrivals }: Evidence): string[] {
  const violations: string[] = []
  for (const [recipient, few] of Map.groupBy(arrivals, (arrival) => arrival.recipient)) {
    const sent = few.filter(({ event }) => event === 'sent')
    for (const { life, atMs } of few.filter(({ event }) => event === 'delivered')) {
      const isAnswered = ({ answeredAtMs = Number.POSITIVE_INFINITY }: Arrival) => answeredAtMs < atMs
      if (!sent.some(isAnswered)) violations.push(`${name}: delivered of ${recipient} came before sent was answered`)
      else if (!sent.filter((arrival) => arrival.life === life).every(isAnswered))
        violations.push(`${name}: delivered of ${recipient} came while sent was in flight`)
    }
  }
  return violations
}

/** For endpoints where `sent` may be retried: checks that `delivered` never starts during an attempt at `sent`. */
export function findOverlapViolations({ name, arrivals }: Evidence): string[] {
  const violations: string[] = []
  for (const [recipient, few] of Map.groupBy(arrivals, (arrival) => arrival.recipient)) {
    for (const { life, atMs, attempt } of few.filter(({ event }) => event === 'delivered')) {
      const isUnderWay = (other: Arrival) =>
        other.event === 'sent' && other.life === life && other.atMs < atMs && !(Number(other.answeredAtMs) < atMs)
      const sent = few.find(isUnderWay)
      if (sent)
        violations.push(
          `${name}: attempt ${attempt} of delivered of ${recipient} came while attempt ${sent.attempt} of sent was in flight`,
        )
    }
  }
  return violations
}

/** Checks what must hold at the end: every event has arrived, and its delivery has the outcome of its last attempt. */
export function findHistoryViolations({ name, events, eventId, stored, arrivals }: Evidence): string[] {
  const violations: string[] = []
  const byEvent = Map.groupBy(arrivals, (arrival) => arrival.eventId)
  for (const { seq, type } of events) {
    const came = byEvent.get(eventId(seq)) ?? []
    byEvent.delete(eventId(seq))
    const last = came.at(-1)
    const delivery = stored.deliveries.get(seq)
    const what = `${name}: ${type} ${seq}`
    if (!last) violations.push(`${what} never arrived`)
    if (!delivery) violations.push(`${what} has no delivery`)
    if (!last || !delivery) continue
    if (came.some(({ event }) => event !== type)) violations.push(`${what} arrived as ${last.event}`)
    if (last.attempt !== delivery.attempts)
      violations.push(`${what} has ${delivery.attempts} attempts, but number ${last.attempt} came last`)
    const expected = computeExpectedStatus(last)
    if (delivery.status !== expected)
      violations.push(`${what} is ${delivery.status}, but its last attempt was answered with ${last.status}`)
  }
  for (const [id, [arrival]] of byEvent)
    violations.push(`${name}: ${arrival?.event} ${id} arrived and is not in the feed`)
  return violations
}

const MAX_ATTEMPTS = 5

function computeExpectedStatus({ status, attempt }: Arrival): string {
  if (status !== undefined && status < 300) return 'delivered'
  return status === 404 || attempt >= MAX_ATTEMPTS ? 'undeliverable' : 'pending'
}
