/** @module The webhooks that are looked after: found by row, and by whom an account's events concern. Reads the database, sends and writes nothing. */
import type { App } from '#features/core/app/app.ts'
import { toEventCode } from '#features/core/events/record.ts'
import type { Timer } from '#platform/clock.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { WebhookQueue } from './webhook-queue.ts'

/** A webhook that is looked after. */
export interface RegistryEntry {
  readonly queue: WebhookQueue
  timer: Timer | undefined
  /** Where the cursor is stored. */
  storedCursor: number
  cursorTimer: Timer | undefined
}

const sql = prepareStatements((db) => ({
  // The routes that got mail among some events; by the primary key of events, so that it costs as much as there are.
  routesWithMail: db.prepare<{ routeId: number }, [number, number, number, number]>(
    `SELECT DISTINCT route_id AS routeId FROM events JOIN inbound_emails ON uuid = unhex(data ->> 'inbound_email_id', '-')
     WHERE events.account_id = ? AND seq > ? AND seq <= ? AND type = ? AND route_id IS NOT NULL`,
  ),
}))

export class WebhookRegistry {
  readonly #app: Pick<App, 'db' | 'log'>
  readonly #entries = new Map<number, RegistryEntry>()
  /** Webhooks that are told of whatever happens in an account. */
  readonly #byAccount = new Map<number, Set<number>>()
  /** Webhooks of inbound routes, by the row of the route. An account may have many, so each is woken by its own mail only. */
  readonly #routesOfAccount = new Map<number, Map<number, number>>()

  constructor(app: Pick<App, 'db' | 'log'>) {
    this.#app = app
  }

  get(id: number): RegistryEntry | undefined {
    return this.#entries.get(id)
  }

  /** All of them now: safe to walk while some come or go. */
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

  /** Ends its timers too; nothing for one that is not there. */
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

  /** Whom an account's events after `before`, up to `lastSeq`, may concern. Never throws: a signal calls it. */
  findConcerned(accountId: number, before: number | undefined, lastSeq: number): readonly number[] {
    return [...(this.#byAccount.get(accountId) ?? []), ...this.#findRoutesWithMail(accountId, before, lastSeq)]
  }

  /** The webhooks of an account's routes that got mail among its events after `before`, up to `lastSeq`. */
  #findRoutesWithMail(accountId: number, before: number | undefined, lastSeq: number): readonly number[] {
    const routes = this.#routesOfAccount.get(accountId)
    if (!routes || routes.size === 0) return []
    try {
      if (before === undefined) return [...routes.values()]
      return sql(this.#app.db)
        .routesWithMail.all(accountId, before, lastSeq, toEventCode('email.inbound'))
        .flatMap(({ routeId }) => routes.get(routeId) ?? [])
    } catch (error) {
      this.#app.log.error({ err: error }, 'which routes got mail could not be read; all of the account are looked at')
      return [...routes.values()]
    }
  }
}
