/**
 * @module Audits what operators look at. A view is refreshed every few seconds, so the same view of a session is audited
 * once per VIEW_INTERVAL_MS. The entries belong to no account, because the views concern the whole installation.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { perOwner } from '#platform/per-owner.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import { type AuditActor, audit } from './audit.ts'

const VIEW_INTERVAL_MS = minutes(15)
/** Of the views remembered, the oldest are forgotten first; they are then audited again. */
const MAX_VIEWS = 10_000

export interface View {
  /** What was seen: `queue`, `account` and so on. */
  readonly name: string
  /** Public id of the one resource that was seen. */
  readonly id?: string
}

/** The operator in entries without an account. */
export const toServiceActor = ({ type, id, ipAddress }: Actor): AuditActor => ({ accountId: null, type, id, ipAddress })

/** Times of the last entries of a service, by session and view, oldest first; forgotten at a restart. */
const getAudited = perOwner((_: App) => new Map<string, Millis>())

/** Resolves once the entry of a view, if it needs one, is stored. */
export async function recordView(app: App, actor: Actor, { name, id }: View): Promise<void> {
  // Who uses commands has the files of the service anyway.
  if (actor.type === 'operator') return
  const audited = getAudited(app)
  const key = `${actor.id} ${actor.sessionId} ${name} ${id ?? ''}`
  const now = app.clock.monotonicMs()
  if (now - (audited.get(key) ?? Number.NEGATIVE_INFINITY) < VIEW_INTERVAL_MS) return
  await app.commit.writeFromReserve((tx) =>
    audit(app, tx, toServiceActor(actor), {
      action: 'operator.viewed',
      resourceType: name,
      ...(id !== undefined && { resourceId: id }),
    }),
  )
  audited.delete(key)
  audited.set(key, now)
  for (const [oldest] of audited) {
    if (audited.size <= MAX_VIEWS) break
    audited.delete(oldest)
  }
}

/** The handler of a route that shows operators what `read` returns, without parameters. */
export const showView =
  <T>(app: App, name: string, read: () => T) =>
  async ({ actor }: { readonly actor: Actor }) => {
    await recordView(app, actor, { name })
    return dataBody(await read())
  }
