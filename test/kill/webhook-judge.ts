/**
 * @module The promises that webhooks keep through a crash, as pure comparisons of what happened, what is stored and what an endpoint got: no event is
 * lost, none comes again whose outcome was stored, `delivered` does not overtake `sent`, and the history tells the truth.
 */
import type { Arrival } from './endpoint.ts'
import type { StoredEvent, StoredWebhook } from './stored-webhooks.ts'

/** A webhook of the kill test with all that is known of it. */
export interface Evidence {
  readonly name: string
  /** Events that it is subscribed to, of those that happened since it was made. */
  readonly events: readonly StoredEvent[]
  readonly eventId: (seq: number) => string
  readonly stored: StoredWebhook
  readonly arrivals: readonly Arrival[]
}

/** `eventId attempt` */
const formatPair = ({ eventId, attempt }: Pick<Arrival, 'eventId' | 'attempt'>): string => `${eventId} ${attempt}`

/** What must be true of the database at any commit, and so after a kill: the cursor has passed nothing that was not told. */
export function findCursorViolations({ name, events, stored }: Evidence): string[] {
  const passed = events.filter(({ seq }) => seq <= stored.cursorSeq && !stored.deliveries.has(seq))
  return [
    ...passed.map(
      ({ seq, type }) => `${name}: the cursor is at ${stored.cursorSeq}, but ${type} ${seq} has no delivery`,
    ),
    ...stored.twice.map((seq) => `${name}: event ${seq} has more than one delivery`),
    ...(stored.isActive ? [] : [`${name} was switched off`]),
  ]
}

/** The attempts of a life that ended whose outcome is not stored: these, and no others, are made again. Pairs of event and attempt. */
export function findInFlightAtKill({ events, eventId, stored, arrivals }: Evidence, life: number): Set<string> {
  const done = new Map(events.map(({ seq }) => [eventId(seq), stored.deliveries.get(seq)?.attempts ?? 0]))
  const open = arrivals.filter((arrival) => arrival.life === life && arrival.attempt > (done.get(arrival.eventId) ?? 0))
  return new Set(open.map(formatPair))
}

export interface Duplicates {
  /** Made again after a kill. */
  readonly afterKills: number
  /** Made again at once over a new connection, because the endpoint had reset a kept one. */
  readonly afterResets: number
  readonly violations: readonly string[]
}

/**
 * Attempts that came more than once: allowed where the outcome of the one before could not be stored any more, and where the endpoint reset the
 * connection, which a client cannot tell from one that was closed while the request was on its way (RFC 9112 §9.3.1).
 * @param inFlight what was under way when each life ended, by life
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
      if (!inFlight.get(before.life)?.has(pair))
        violations.push(`${what} was made again although its outcome was stored`)
    } else {
      count.afterResets++
      const wasReset = before.answeredAtMs !== undefined && before.status === undefined
      if (!wasReset) violations.push(`${what} was made twice by one process`)
    }
  }
  return { ...count, violations }
}

/** `delivered` is never begun before `sent` of the same recipient was answered; nor while it is under way in the same life. */
export function findOrderViolations({ name, arrivals }: Evidence): string[] {
  const violations: string[] = []
  for (const [recipient, few] of Map.groupBy(arrivals, (arrival) => arrival.recipient)) {
    const sent = few.filter(({ event }) => event === 'sent')
    for (const { life, atMs } of few.filter(({ event }) => event === 'delivered')) {
      const isAnswered = ({ answeredAtMs = Number.POSITIVE_INFINITY }: Arrival) => answeredAtMs < atMs
      if (!sent.some(isAnswered)) violations.push(`${name}: delivered of ${recipient} came before sent was answered`)
      else if (!sent.filter((arrival) => arrival.life === life).every(isAnswered))
        violations.push(`${name}: delivered of ${recipient} came while sent was under way`)
    }
  }
  return violations
}

/** Where `sent` may have failed and be told again after `delivered`: `delivered` is not begun while an attempt at `sent` is under way. */
export function findOverlapViolations({ name, arrivals }: Evidence): string[] {
  const violations: string[] = []
  for (const [recipient, few] of Map.groupBy(arrivals, (arrival) => arrival.recipient)) {
    for (const { life, atMs, attempt } of few.filter(({ event }) => event === 'delivered')) {
      const isUnderWay = (other: Arrival) =>
        other.event === 'sent' && other.life === life && other.atMs < atMs && !(Number(other.answeredAtMs) < atMs)
      const sent = few.find(isUnderWay)
      if (sent)
        violations.push(
          `${name}: attempt ${attempt} of delivered of ${recipient} came while attempt ${sent.attempt} of sent was under way`,
        )
    }
  }
  return violations
}

/** What must be true when all has settled: every event has arrived, and its delivery says how its last attempt ended. */
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
    if (came.some(({ event }) => event !== type)) violations.push(`${what} was told as ${last.event}`)
    if (last.attempt !== delivery.attempts)
      violations.push(`${what} has ${delivery.attempts} attempts, but number ${last.attempt} came last`)
    const expected = computeExpectedStatus(last)
    if (delivery.status !== expected)
      violations.push(`${what} is ${delivery.status}, but its last attempt was answered with ${last.status}`)
  }
  for (const [id, [arrival]] of byEvent)
    violations.push(`${name}: ${arrival?.event} ${id} was told and is not in the feed`)
  return violations
}

const MAX_ATTEMPTS = 5

function computeExpectedStatus({ status, attempt }: Arrival): string {
  if (status !== undefined && status < 300) return 'delivered'
  return status === 404 || attempt >= MAX_ATTEMPTS ? 'undeliverable' : 'pending'
}
