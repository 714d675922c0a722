/**
 * @module A day of mail to ten imitated providers, by the injected clock: each counts what it sees in every second and
 * minute and how many connections are open, one has a
 * limit that we do not know, one blocks our address for two hours. Real scheduler and database; the delivery Workers and the receivers are models.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { acceptBatch } from '#features/sending/accept/batch.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { days, hours, type Millis, minutes, seconds } from '#platform/units.ts'
import { type Answer, accepted, refused } from './pool.ts'
import { createModelFolder, ModelService, SENDER_DOMAIN } from './service.ts'

interface Imitated {
  readonly name: string
  /** Part of all mail. */
  readonly share: number
  readonly connections: number
  /** Limits in providers.toml; 0: none. */
  readonly perSecond: number
  readonly perMinute: number
  /** A limit that the provider enforces and that providers.toml does not know, a minute. */
  readonly hiddenPerMinute?: number
  /** Part of the day in which it blocks our address. */
  readonly blocked?: readonly [from: number, to: number]
}

/** Most limits are between the ordinary rate of the day and that of its peak, so that mail waits for them. */
const PROVIDERS: readonly Imitated[] = [
  { name: 'libre', share: 0.3, connections: 10, perSecond: 0, perMinute: 0, hiddenPerMinute: 66 },
  { name: 'gee', share: 0.2, connections: 20, perSecond: 5, perMinute: 40 },
  { name: 'micro', share: 0.2, connections: 10, perSecond: 5, perMinute: 60, blocked: [9 / 24, 11 / 24] },
  { name: 'yah', share: 0.1, connections: 5, perSecond: 4, perMinute: 20 },
  { name: 'fruit', share: 0.06, connections: 8, perSecond: 0, perMinute: 12 },
  { name: 'gmex', share: 0.05, connections: 4, perSecond: 2, perMinute: 10 },
  { name: 'tele', share: 0.04, connections: 3, perSecond: 1, perMinute: 0 },
  { name: 'orange', share: 0.02, connections: 2, perSecond: 0, perMinute: 4 },
  { name: 'comet', share: 0.02, connections: 3, perSecond: 3, perMinute: 4 },
  { name: 'rest', share: 0.01, connections: 20, perSecond: 0, perMinute: 0 },
]
/** The rate for which the limits of a minute are set. */
const MESSAGES_PER_HOUR = 200_000 / 24

const BLOCK = '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org'
const TOO_FAST = '451 4.7.1 Rate limit exceeded, try again later'
/** Time that a message takes. */
const MESSAGE_MS = 200
const BATCH_SIZE = 500
/** The clock moves by at least so much at once. */
const STEP_MS = 1000

/** What a provider saw. */
class Observer {
  readonly provider: Imitated
  seen = 0
  accepted = 0
  refused = 0
  maxPerSecond = 0
  maxPerMinute = 0
  maxConnections = 0
  lastAt: Millis = 0
  /** Times of the last minute, oldest first. */
  #times: Millis[] = []
  #accepted: Millis[] = []

  constructor(provider: Imitated) {
    this.provider = provider
  }

  /** @param day the part of the day that has passed */
  answer(now: Millis, day: number): Answer {
    this.seen++
    this.#times.push(now)
    this.#times = this.#times.filter((at) => at > now - minutes(1))
    this.maxPerMinute = Math.max(this.maxPerMinute, this.#times.length)
    this.maxPerSecond = Math.max(this.maxPerSecond, this.#times.filter((at) => at > now - seconds(1)).length)
    const { blocked, hiddenPerMinute = Number.POSITIVE_INFINITY } = this.provider
    if (blocked && day >= blocked[0] && day < blocked[1]) return this.#refuse(BLOCK)
    this.#accepted = this.#accepted.filter((at) => at > now - minutes(1))
    if (this.#accepted.length >= hiddenPerMinute) return this.#refuse(TOO_FAST)
    this.#accepted.push(now)
    return accepted(MESSAGE_MS)
  }

  #refuse(reply: string): Answer {
    this.refused++
    return refused(reply, 'mail', MESSAGE_MS)
  }

  /** How it saw more than its limit. */
  findViolations(): string[] {
    const { name, perSecond, perMinute, connections } = this.provider
    return [
      ...(perSecond > 0 && this.maxPerSecond > perSecond
        ? [`${name} saw ${this.maxPerSecond} messages in a second`]
        : []),
      ...(perMinute > 0 && this.maxPerMinute > perMinute
        ? [`${name} saw ${this.maxPerMinute} messages in a minute`]
        : []),
      ...(this.maxConnections > connections ? [`${name} saw ${this.maxConnections} connections`] : []),
    ]
  }
}

export interface DayResult {
  readonly rows: readonly Readonly<Record<string, string | number>>[]
  readonly delivered: number
  readonly events: number
  /** From midnight until the last message was delivered. */
  readonly lastMs: number
  readonly violations: readonly string[]
}

/**
 * Runs the day.
 * @param total messages
 * @param lengthHours length of the day, in which they are accepted: evenly, with a peak of double rate in the morning;
 * limits of a minute are lowered for fewer messages an hour
 * @param onHour called after each hour
 */
export async function runProviderDay(
  total: number,
  lengthHours: number,
  onHour: (hour: number, open: number) => void = () => undefined,
): Promise<DayResult> {
  const rate = total / lengthHours / MESSAGES_PER_HOUR
  const providers = PROVIDERS.map((provider) => withRate(provider, rate))
  const observers = new Map(providers.map((provider) => [provider.name, new Observer(provider)]))
  const settings = mkdtempSync(join(tmpdir(), 'tassis-day-'))
  const file = join(settings, 'providers.toml')
  writeFileSync(file, providers.map(toToml).join('\n'))
  const base = await createModelFolder()
  let service: ModelService | undefined
  const startAt = Date.UTC(2026, 2, 15)
  const observerOf = (address: string) => observers.get(/@\w+\.(\w+)\.test$/.exec(address)?.[1] ?? '')
  const now = () => service?.clock.now() ?? startAt
  try {
    service = await ModelService.start(
      base.folder,
      {
        hosts: new Map(
          PROVIDERS.flatMap(({ name }) =>
            ['a', 'b', 'c'].map((one) => [`${one}.${name}.test`, `mx-${one}.${name}.test`] as const),
          ),
        ),
        settings: { TASSIS_PROVIDERS_FILE: file },
        receivers: {
          answer: ({ rcptTo }) =>
            observerOf(rcptTo)?.answer(now(), (now() - startAt) / hours(lengthHours)) ??
            refused('550 5.1.2 No such host'),
          onReceived: ({ rcptTo }) => {
            const observer = observerOf(rcptTo)
            if (!observer) return
            observer.accepted++
            observer.lastAt = now()
          },
          onConnections: (key, open) => {
            const observer = observers.get(key)
            if (observer) observer.maxConnections = Math.max(observer.maxConnections, open)
          },
        },
      },
      startAt,
    )
    return await passDay(service, base.actor, { total, lengthHours, startAt, observers, onHour })
  } finally {
    await service?.close()
    for (const folder of [settings, base.folder]) rmSync(folder, { recursive: true, force: true })
  }
}

async function passDay(
  service: ModelService,
  actor: Parameters<typeof acceptBatch>[1],
  {
    total,
    lengthHours,
    startAt,
    observers,
    onHour,
  }: {
    readonly total: number
    readonly lengthHours: number
    readonly startAt: Millis
    readonly observers: ReadonlyMap<string, Observer>
    readonly onHour: (hour: number, open: number) => void
  },
): Promise<DayResult> {
  const { app, clock } = service
  const count = (what: string): number =>
    app.db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${what}`).get()?.n ?? 0
  const countOpen = () => count('recipients WHERE next_at IS NOT NULL')
  const pickProvider = createPicker()
  let sent = 0
  for (let minute = 0; minute < lengthHours * 60; minute++) {
    const due = Math.round(total * fractionAt((minute + 1) / (lengthHours * 60)))
    while (sent < due) {
      const emails = Array.from({ length: Math.min(BATCH_SIZE, due - sent) }, (_, index) => ({
        from: `ada@${SENDER_DOMAIN}`,
        to: `r${sent + index}@${'abc'[(sent + index) % 3]}.${pickProvider()}.test`,
        subject: 'Hello',
        text_body: 'Hello.\n',
      }))
      await acceptBatch(app, actor, { emails, idempotencyKey: undefined })
      sent += emails.length
    }
    await service.pass(minutes(1), STEP_MS)
    if (minute % 60 === 59) onHour((minute + 1) / 60, countOpen())
  }
  // What is left of blocks and limits.
  for (let more = 0; more < 48 && countOpen() > 0; more++) {
    await service.pass(hours(1), STEP_MS, () => countOpen() === 0)
    onHour(lengthHours + more + 1, countOpen())
  }
  const delivered = count(`recipients WHERE status = ${statusCode('sent')}`)
  const all = [...observers.values()]
  const received = all.reduce((sum, observer) => sum + observer.accepted, 0)
  const violations = all.flatMap((observer) => observer.findViolations())
  if (delivered !== total) violations.push(`${delivered} of ${total} messages are delivered`)
  if (received !== total) violations.push(`the providers received ${received} of ${total} messages`)
  if (clock.now() - startAt > days(5)) violations.push('the clock is wrong')
  return {
    rows: all.map((observer) => toRow(observer, startAt)),
    delivered,
    events: count('events'),
    lastMs: Math.max(...all.map(({ lastAt }) => lastAt)) - startAt,
    violations,
  }
}

/** A provider whose limits a minute fit another rate of mail. */
const withRate = (provider: Imitated, rate: number): Imitated => ({
  ...provider,
  perMinute: provider.perMinute && Math.max(2, Math.round(provider.perMinute * rate)),
  ...(provider.hiddenPerMinute && { hiddenPerMinute: Math.max(2, Math.round(provider.hiddenPerMinute * rate)) }),
})

const toToml = ({ name, connections, perSecond, perMinute }: Imitated): string =>
  `[${name}]\nmx = ["${name}.test"]\nconnections = ${connections}\nper_second = ${perSecond}\nper_minute = ${perMinute}\n`

/** The part of the day's mail that was accepted at a part of the day: twice as fast between a third and half of it. */
function fractionAt(day: number): number {
  const peak = Math.min(Math.max(day - 1 / 3, 0), 1 / 6)
  return (day + peak) / (1 + 1 / 6)
}

/** Deals the providers by their share, always in the same order. */
function createPicker(): () => string {
  const credit = new Map(PROVIDERS.map(({ name }) => [name, 0]))
  return () => {
    for (const { name, share } of PROVIDERS) credit.set(name, (credit.get(name) ?? 0) + share)
    const [name] = [...credit].reduce((best, entry) => (entry[1] > best[1] ? entry : best))
    credit.set(name, (credit.get(name) ?? 0) - 1)
    return name
  }
}

const limitOf = (limit: number): string => (limit > 0 ? String(limit) : '-')

function toRow(observer: Observer, startAt: Millis): Readonly<Record<string, string | number>> {
  const { provider, seen, accepted: taken, refused: turnedAway, lastAt } = observer
  return {
    provider: provider.name,
    messages: taken,
    attempts: seen,
    refused: turnedAway,
    'max/s (limit)': `${observer.maxPerSecond} (${limitOf(provider.perSecond)})`,
    'max/min (limit)': `${observer.maxPerMinute} (${limitOf(provider.perMinute || (provider.hiddenPerMinute ?? 0))})`,
    'connections (limit)': `${observer.maxConnections} (${provider.connections})`,
    'last at h': ((lastAt - startAt) / hours(1)).toFixed(1),
  }
}
