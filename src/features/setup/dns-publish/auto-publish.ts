/**
 * @module Publishes with kept credentials what has changed since the last time (new DKIM keys, inbound mail, a tracking
 * host, another node) and, every hour, what a check does not find; and checks what was just published every
 * minute, until DNS shows it.
 */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { readFence } from '#features/core/fence/restored.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { mapConcurrently } from '#platform/queue/map-concurrently.ts'
import { minutes } from '#platform/units.ts'
import { findDomainById } from '../domains/domains.ts'
import { isMissing, listUsedRecords } from '../domains/published-dns.ts'
import { findPublication, listPublications, putPublication } from './credentials.ts'
import { PROVIDERS } from './model.ts'
import { checkPublished, hashRecords, publishDomain, RETRY_DELAY_MS } from './publish.ts'

const BATCH_SIZE = 100
const MAX_CONCURRENT_TENANTS = 4
/** After so long, the other domains of a tenant wait for the next call: its servers may be slow on purpose. */
const TENANT_TURN_MS = minutes(1)
/** For so long what was published is checked every minute. */
const FOLLOWED_MS = minutes(10)

/** Call it every minute, one run at a time; for each tenant, one domain at a time. @param signal ends the run */
export async function publishAutomatically(app: App, signal?: AbortSignal): Promise<void> {
  // A restored copy may be a drill on another machine, whose addresses must not get into live zones.
  if (readFence(app.db)) return
  const since = app.clock.now() - FOLLOWED_MS
  const turnEnds = new Map<number, number>()
  for (let after = 0; !signal?.aborted; ) {
    const found = listPublications(app.db, after, since, BATCH_SIZE)
    const last = found.at(-1)
    if (!last) return
    after = last.domainId
    const domains = found.flatMap(({ domainId }) => findDomainById(app.db, domainId) ?? [])
    const tenants = Map.groupBy(domains, ({ accountId }) => getTenantId(app.db, accountId))
    await mapConcurrently([...tenants], MAX_CONCURRENT_TENANTS, async ([tenant, theirs]) => {
      const endMs = turnEnds.getOrInsertComputed(tenant, () => app.clock.monotonicMs() + TENANT_TURN_MS)
      for (const { id } of theirs)
        if (!signal?.aborted && app.clock.monotonicMs() < endMs) await publishIfNeeded(app, id, signal)
    })
  }
}

async function publishIfNeeded(app: App, id: number, signal?: AbortSignal): Promise<void> {
  const domain = findDomainById(app.db, id)
  const known = domain && findPublication(app.db, domain)
  if (!known) return
  const records = listUsedRecords(app, domain)
  const isChanged = hashRecords(records) !== known.recordsHash
  if (!isChanged && !records.some(isMissing)) return
  const now = app.clock.now()
  const actor = createSystemActor(domain)
  const isFollowed = known.publishedAt !== null && now - known.publishedAt < FOLLOWED_MS
  const isDue = known.nextAttemptAt <= now || known.nextAttemptAt > now + RETRY_DELAY_MS
  if (known.fields === null || !(isChanged || isDue)) {
    if (isFollowed) await checkPublished(app, actor, domain, known.zone, { ...(signal && { signal }) })
    return
  }
  // Stored before the attempt, which a crash may end.
  await app.commit.write((tx) => {
    const stored = findPublication(tx.db, domain)
    const schedule = { recordsHash: hashRecords(records), nextAttemptAt: now + RETRY_DELAY_MS }
    if (stored) putPublication(tx, { ...stored, ...schedule })
  })
  try {
    const { summary } = await publishDomain(app, actor, formatUuid(domain.uuid), {}, PROVIDERS, signal)
    app.log.info({ domain: domain.domain, summary }, 'DNS records of a domain published')
  } catch (error) {
    const reason = error instanceof AppError ? error.message : undefined
    app.log.warn({ domain: domain.domain, reason, ...(!reason && { err: error }) }, 'DNS records not published')
  }
}
