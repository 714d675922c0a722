/**
 * @module The model of the model test: which emails were accepted, what the receivers keep, and what must hold after
 * each command and at the end. Never changes what the service stores.
 */

import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { checkConsistency, hideDeletedAccounts } from '#app/cli/check.ts'
import type { Actor } from '#features/core/app/app.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { checkBalances, readBalances } from '#features/sending/queue/consistency.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import { parseUuid } from '#platform/ids.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { laneStates } from '#test/support/lanes.ts'
import { BEHAVIOURS, type Behaviour, DOMAINS } from './commands.ts'
import type { Answer } from './pool.ts'
import { ModelService, SENDER_DOMAIN, SHORT_STREAM } from './service.ts'

/** The MX host of each domain: `one.test` and `two.test` are customers of one provider. */
const HOSTS = new Map<string, string>(
  DOMAINS.map((domain) => [
    domain,
    ['one.test', 'two.test'].includes(domain) ? `mx.${domain}.big.test` : `mx.${domain}`,
  ]),
)
/** An open recipient is due again within this time, unless it is scheduled: the longest hold of an account is a day. */
const MAX_WAIT_MS = days(3)

interface StoredRecipient {
  readonly id: number
  readonly address: string
  readonly status: Status
  readonly lane: string | null
  readonly nextAt: number | null
  readonly expiresAt: number | null
  readonly scheduledAt: number | null
}

export class ModelWorld {
  readonly actor: Actor
  service!: ModelService
  isDnsUp = true
  /** Ids of the accepted emails. */
  readonly emails: string[] = []
  /** Their recipients. */
  readonly addresses = new Set<string>()
  /** How often each address got its message. */
  readonly #received = new Map<string, number>()
  /** How often each address may have got it because a sender repeated what was uncertain. */
  readonly #allowed = new Map<string, number>()
  readonly #behaviours = new Map<string, Behaviour>()
  #lastRecipient = 0
  /** Whether the database refuses changes of recipients now. */
  isRefusing = false

  private constructor(actor: Actor) {
    this.actor = actor
  }

  static async start(
    { folder, actor }: { readonly folder: string; readonly actor: Actor },
    providersFile: string,
  ): Promise<ModelWorld> {
    const world = new ModelWorld(actor)
    world.service = await ModelService.start(folder, {
      hosts: HOSTS,
      settings: { TASSIS_PROVIDERS_FILE: providersFile },
      isDnsUp: () => world.isDnsUp,
      receivers: {
        answer: ({ rcptTo }) => world.#answer(rcptTo),
        onReceived: ({ rcptTo }) => void world.#received.set(rcptTo, world.#receivedBy(rcptTo) + 1),
      },
    })
    return world
  }

  replace(service: ModelService): void {
    this.service = service
    this.isRefusing = false
  }

  behave(domain: string, behaviour: Behaviour): void {
    this.#behaviours.set(domain, behaviour)
  }

  #answer(address: string): Answer {
    return BEHAVIOURS[this.#behaviours.get(address.slice(address.indexOf('@') + 1)) ?? 'polite']()
  }

  #receivedBy(address: string): number {
    return this.#received.get(address) ?? 0
  }

  /** A sender repeated the message to this address although its fate was unknown. */
  allowAnother(address: string): void {
    this.#allowed.set(address, (this.#allowed.get(address) ?? 0) + 1)
  }

  /** Row id of an email. */
  rowId(id: string): number {
    const uuid = parseUuid(id)
    const row =
      uuid && this.service.app.db.query<{ id: number }, [Uint8Array]>('SELECT id FROM emails WHERE uuid = ?').get(uuid)
    if (!row) throw new Error(`email ${id} was accepted and is not stored`)
    return row.id
  }

  async accept(
    domain: string,
    {
      count,
      life,
      inMs,
    }: { readonly count: number; readonly life: 'normal' | 'short' | 'stream'; readonly inMs?: number },
  ): Promise<void> {
    const { app } = this.service
    const to = Array.from({ length: count }, () => `r${++this.#lastRecipient}@${domain}`)
    const request = {
      from: `ada@${SENDER_DOMAIN}`,
      to,
      subject: 'Hello',
      text_body: 'Hello.\n',
      ...(life === 'short' && { expires_in: 120 }),
      ...(life === 'stream' && { stream: SHORT_STREAM }),
      ...(inMs !== undefined && { send_at: new Date(app.clock.now() + inMs).toISOString() }),
    }
    const { response } = await acceptEmail(app, this.actor, createDraft(app, request))
    this.emails.push(response.id)
    for (const address of to) this.addresses.add(address)
  }

  /** From now on the database refuses every change of a recipient. */
  refuseWrites(): void {
    if (this.isRefusing) return
    this.isRefusing = true
    this.service.app.db.run(
      "CREATE TEMP TRIGGER refuse BEFORE UPDATE ON recipients BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
  }

  allowWrites(): void {
    if (!this.isRefusing) return
    this.isRefusing = false
    this.service.app.db.run('DROP TRIGGER refuse')
  }

  #read(): StoredRecipient[] {
    return this.service.app.db
      .query<Omit<StoredRecipient, 'status'> & { status: number }, []>(
        `SELECT recipients.id, address, recipients.status, lane, next_at AS nextAt, expires_at AS expiresAt, scheduled_at AS scheduledAt
         FROM recipients JOIN emails ON emails.id = email_id ORDER BY recipients.id`,
      )
      .all()
      .map((row) => ({ ...row, status: statusName(row.status) }))
  }

  /** What is wrong now, one sentence each. */
  findViolations(): string[] {
    const { app, scheduler } = this.service
    const stored = this.#read()
    const byAddress = new Map(stored.map((recipient) => [recipient.address, recipient]))
    const found: string[] = []
    for (const address of this.addresses)
      if (!byAddress.has(address)) found.push(`${address} was accepted and is not stored`)
    if (stored.length !== byAddress.size) found.push('an address is stored twice')
    const reasons = new Map(laneStates({ app, delivery: { scheduler } }).map(({ lane, reason }) => [lane, reason]))
    for (const recipient of stored) {
      const { address, status, lane, nextAt, scheduledAt } = recipient
      const times = this.#receivedBy(address)
      const allowed = this.#allowed.get(address) ?? 0
      if (times > 1 + allowed) found.push(`${address} was received ${times} times, ${allowed} of them repeated by hand`)
      if (status === 'sent' && times === 0) found.push(`${address} is sent and was not received`)
      const isKnown = status === 'sent' || status === 'uncertain' || status === 'processing'
      if (times > allowed && !isKnown) found.push(`${address} was received and is ${status}`)
      if (!isOpenStatus(status)) {
        if (nextAt !== null || lane !== null) found.push(`${address} is ${status} and still in the queue`)
        continue
      }
      if (nextAt === null || lane === null) {
        found.push(`${address} is ${status} and has no next step`)
        continue
      }
      const latest = Math.max(app.clock.now() + MAX_WAIT_MS, scheduledAt ?? 0)
      if (nextAt > latest && !this.hasJumped) found.push(`${address} waits until ${new Date(nextAt).toISOString()}`)
      if (!reasons.get(lane)) found.push(`${address} waits without a reason`)
    }
    return found
  }

  /** Whether the clock has jumped, after which due times may be far ahead until a clock that was set back is noticed. */
  hasJumped = false

  /** Everything gets well; then all mail must end. Returns what is wrong. */
  async findViolationsAfterHealing(): Promise<string[]> {
    this.allowWrites()
    this.isDnsUp = true
    this.#behaviours.clear()
    const countOpen = () => this.#read().filter(({ status }) => isOpenStatus(status)).length
    await this.service.pass(minutes(10), minutes(1), () => countOpen() === 0)
    await this.service.pass(days(1), minutes(20), () => countOpen() === 0)
    // A clock that was set back by a month makes scheduled mail wait for that month.
    const lastSchedule = Math.max(
      0,
      ...this.#read().map(({ status, scheduledAt }) => (isOpenStatus(status) ? (scheduledAt ?? 0) : 0)),
    )
    await this.service.pass(Math.max(0, lastSchedule - this.service.clock.now()), days(1), () => countOpen() === 0)
    await this.service.pass(days(12), hours(2), () => countOpen() === 0)
    await this.service.settle()
    const open = this.#read().filter(({ status }) => isOpenStatus(status))
    const found = open.map(({ address, status, nextAt, lane }) => {
      const at = nextAt === null ? 'never' : new Date(nextAt).toISOString()
      return `${address} is stuck: ${status}, due ${at}, ${this.service.scheduler.describeWait(lane ?? '', nextAt ?? 0)}`
    })
    if (this.service.scheduler.inFlight > 0) found.push(`${this.service.scheduler.inFlight} slots were not released`)
    if (this.service.app.memory.inUseBytes > 0) found.push('memory was not released')
    return [...found, ...this.findViolations(), ...this.findInconsistencies()]
  }

  /** What `tassis check` finds. */
  findInconsistencies(): string[] {
    // A separate connection, since the check leaves tables behind.
    using db = new Database(join(this.service.dataDir, 'tassis.db'), { readonly: true })
    hideDeletedAccounts(db)
    return [...checkConsistency(db), checkBalances(readBalances(db))].flatMap(({ rule, differences }) =>
      differences.map((difference) => `${rule}: ${difference}`),
    )
  }
}

const isOpenStatus = (status: Status): boolean => ['queued', 'scheduled', 'processing'].includes(status)
