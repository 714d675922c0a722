/**
 * @module The webhooks that the dispatcher serves: finds them by row id, and by the events of an account. Reads the
 * database; sends and writes nothing.
 */
import type { App } from '#features/core/app/app.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Timer } from '#platform/time/clock.ts'
import type { WebhookQueue } from './webhook-queue.ts'

/** A webhook that the dispatcher serves. */
export interface RegistryEntry {
  readonly queue: WebhookQueue
  timer: Timer | undefined
  /** The cursor in the database. */
  storedCursor: number
  cursorTimer: Timer | undefined
}

const sql = prepareStatements((db) => ({
  // Finds the routes with mail among some events. Events are read by primary key, so the cost depends only on the
  // number of those events.
  routesWithMail: db.prepare<{ routeId: number }, [number, number, number, number]>(
    `SELECT DISTINCT route_id AS routeId FROM events JOIN inbound_emails ON uuid = unhex(data ->> 'inbound_email_id', '-')
     WHERE events.account_id = ? AND seq > ? AND seq <= ? AND type = ? AND route_id IS NOT NULL`,
  ),
}))

export class WebhookRegistry {
  readonly #app: Pick<App, 'db' | 'log'>
  readonly #entries = new Map<number, RegistryEntry>()
  /** Webhooks that get any events of an account. */
  readonly #byAccount = new Map<number, Set<number>>()
  /** Route webhooks by the row id of the route. An account may have many, so each is woken only by its own mail. */
  readonly #routesOfAccount = new Map<number, Map<number, number>>()

  constructor(app: Pick<App, 'db' | 'log'>) {
    this.#app = app
  }

  get(id: number): RegistryEntry | undefined {
    return this.#entries.get(id)
  }

  /** A copy, so that entries may be added or removed during iteration. */
  all(): RegistryEntry[] {
    return [...this.#entries.values()]
  }

  add(queue: WebhookQueue): void {
    const { id, accountId, routeId, cursorSeq } = queue.webhook
    this.#entries.set(id, { queue: queue, timer: undefined, storedCursor: cursorSeq, cursorTimer: undefined })
    if (routeId !== null)
      this.#routesOfAccount.set(accountId, (this.#routesOfAccount.get(accountId) ?? new Map()).set(routeId, id))
    else this.#byAccount.set(accountId, (this.#byAccount.get(accountId) ?? new Set()).add(id))
  }

  /** Removes a webhook and cancels its timers. Ignores an unknown id. */
  remove(id: number): void {
    const entry = this.#entries.get(id)
    if (!entry) return
    entry.timer?.cancel()
    entry.cursorTimer?.cancel()
    this.#entries.delete(id)
    const { accountId, routeId } = entry.queue.webhook
    this.#byAccount.get(accountId)?.delete(id)
    if (routeId !== null) this.#routesOfAccount.get(accountId)?.delete(routeId)
  }

  /**
   * Webhooks that an account's events after `before`, up to `lastSeq`, may concern. Never throws, because a signal
   * calls it.
   */
  findConcerned(accountId: number, before: number | undefined, lastSeq: number): readonly number[] {
    return [...(this.#byAccount.get(accountId) ?? []), ...this.#findRoutesWithMail(accountId, before, lastSeq)]
  }

  /** Webhooks of the account's routes with mail among its events after `before`, up to `lastSeq`. */
  #findRoutesWithMail(accountId: number, before: number | undefined, lastSeq: number): readonly number[] {
    const routes = this.#routesOfAccount.get(accountId)
    if (!routes || routes.size === 0) return []
    try {
      if (before === undefined) return [...routes.values()]
      return sql(this.#app.db)
        .routesWithMail.all(accountId, before, lastSeq, toEventCode('email.inbound'))
        .flatMap(({ routeId }) => routes.get(routeId) ?? [])
    } catch (error) {
      this.#app.log.error({ err: error }, 'routes with new mail not read; checking all routes of the account')
      return [...routes.values()]
    }
  }
}
