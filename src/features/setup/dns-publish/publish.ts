/**
 * @module Publishes the records of a domain at its DNS provider: reads the zone, plans, writes one record set at a time,
 * reads it again, and checks what the world sees. Each write leaves the zone whole, so a run that was killed is
 * finished by the next one.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { AppError, conflict, invalid } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { minutes } from '#platform/units.ts'
import { type Check, isUnanswered } from '../domains/check-result.ts'
import { runDnsCheck } from '../domains/dns-check-slots.ts'
import type { DnsRecord } from '../domains/dns-records.ts'
import {
  auditDomain,
  type Domain,
  domainTaken,
  findDomainById,
  getDomain,
  isVerifiedElsewhere,
} from '../domains/domains.ts'
import { checkRecords, findZone, isMissing, listUsedRecords } from '../domains/published-dns.ts'
import { verifyDomain, verifyTracking } from '../domains/verify.ts'
import { type Credentials, findPublication, openFields, putPublication, sealFields } from './credentials.ts'
import { type DnsApi, DnsApiError, type DnsApiProblem, type RecordSet } from './dns-api.ts'
import type { DnsProviderEntry } from './dns-provider.ts'
import { isWithin, type PlannedRecord, planRecord } from './plan.ts'
import { createZoneResolver, resolveFromSets } from './zone-resolvers.ts'

export interface PublishRequest {
  /** Undefined: the kept one. */
  readonly provider?: string | undefined
  readonly credentials?: Credentials | undefined
  readonly isDryRun?: boolean | undefined
  /** Whether to keep the credentials for the next time; default true. */
  readonly keeps?: boolean | undefined
  readonly signal?: AbortSignal | undefined
}

export interface PublishedRecord extends PlannedRecord {
  readonly state: 'planned' | 'published' | 'failed' | 'unchanged'
  readonly error: string | null
}

export interface PublishResult {
  readonly provider: string
  readonly zone: string
  readonly isDryRun: boolean
  readonly isKept: boolean
  readonly records: readonly PublishedRecord[]
  readonly summary: string
}

/** Changes when other records are wanted. */
export const hashRecords = (records: readonly [string, DnsRecord][]): string =>
  sha256(JSON.stringify(records.map(([key, { verified: _, ...record }]) => [key, record]))).toBase64()

/** Of automatic attempts: DNS may need some minutes to show what was published. */
export const MIN_RETRY_DELAY_MS = minutes(15)

const getRunning = perOwner((_: App['freshResolver']) => new Set<number>())

/**
 * Publishes what is missing. Throws 404; 409 `domain_taken` while another account has the domain verified, and
 * `publish_in_progress`; 422 for credentials that cannot be used, with what the provider says; 429 when it limits us.
 * @param id public id of the domain
 */
export async function publishDomain(
  app: App,
  actor: Actor,
  id: string,
  request: PublishRequest,
  providers: readonly DnsProviderEntry[],
): Promise<PublishResult> {
  const domain = getDomain(app.db, actor.accountId, id)
  if (isVerifiedElsewhere(app.db, actor.accountId, domain.domain)) throw domainTaken(domain.domain)
  const running = getRunning(app.freshResolver)
  if (running.has(domain.id))
    throw conflict('publish_in_progress', `The records of ${domain.domain} are being published; wait for the end.`)
  running.add(domain.id)
  try {
    return await new Publishing(app, actor, domain, request, providers).run()
  } catch (error) {
    if (!(error instanceof DnsApiError)) throw error
    if (!request.isDryRun)
      await app.commit.write((tx) => {
        const known = findPublication(tx.db, domain)
        if (known) putPublication(tx, { ...known, error: error.message })
      })
    throw toAppError(error)
  } finally {
    running.delete(domain.id)
  }
}

const toAppError = ({ problem, message, retryAfterSeconds }: DnsApiError): AppError =>
  new AppError(problem === 'rate_limited' ? 429 : problem === 'changed' ? 409 : 422, `dns_${problem}`, message, {
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  })

/** After these, the next write would fail in the same way. */
const ENDING_PROBLEMS: readonly DnsApiProblem[] = ['unauthorised', 'no_zone', 'rate_limited', 'unavailable']

class Publishing {
  readonly #app: App
  readonly #actor: Actor
  readonly #domain: Domain
  readonly #request: PublishRequest
  readonly #entry: DnsProviderEntry
  readonly #fields: Credentials
  readonly #allowsPrivate: boolean
  readonly #api: DnsApi
  readonly #wanted: [string, DnsRecord][]

  constructor(app: App, actor: Actor, domain: Domain, request: PublishRequest, providers: readonly DnsProviderEntry[]) {
    const kept = request.credentials ? undefined : findPublication(app.db, domain)
    const fields = request.credentials ?? (kept && openFields(app, domain, kept))
    const entry = providers.find(({ name }) => name === (request.provider ?? kept?.provider))
    if (!entry || (kept && kept.provider !== entry.name) || !fields)
      throw invalid(
        'provider',
        'There are no kept credentials: name a provider, and its credentials.',
        'no_credentials',
      )
    const [missing] = entry.fields.filter(({ name, isRequired }) => isRequired && !fields[name])
    if (missing) throw invalid(`credentials.${missing.name}`, `${entry.title} needs ${missing.name}: ${missing.label}.`)
    const unknown = Object.keys(fields).find((name) => !entry.fields.some((field) => field.name === name))
    if (unknown !== undefined)
      throw invalid(
        `credentials.${unknown}`,
        `${entry.title} takes ${entry.fields.map(({ name }) => name).join(', ')}.`,
      )
    this.#app = app
    this.#actor = actor
    this.#domain = domain
    this.#request = request
    this.#entry = entry
    this.#fields = fields
    this.#allowsPrivate = kept ? kept.allowsPrivate === 1 : actor.type === 'operator'
    this.#wanted = listUsedRecords(app, domain)
    const { fetch, clock } = app
    const { signal } = request
    this.#api = entry.create({ fetch, clock, signal, resolveServer: this.#resolveServer }, fields)
  }

  /** An operator's own DNS server is often in his own network, or on this machine. */
  readonly #resolveServer = async (host: string, port: number) => {
    const found = await this.#app.fetch.resolve({ host, port }, this.#allowsPrivate)
    if (found.kind === 'ok') return found.addresses.map((address) => ({ host: address, port }))
    const advice = found.kind === 'refused' ? ' The operator may name it with `tassis domains publish`.' : ''
    throw new DnsApiError(found.kind === 'refused' ? 'rejected' : 'unavailable', `${found.reason}${advice}`)
  }

  async run(): Promise<PublishResult> {
    const { isDryRun = false } = this.#request
    const { zone, names, planned } = await runDnsCheck(this.#app, this.#actor.accountId, () => this.#plan())
    const records = isDryRun
      ? planned.map(
          (one): PublishedRecord => ({ ...one, state: isWritten(one) ? 'planned' : 'unchanged', error: null }),
        )
      : await this.#write(zone, names, planned)
    const isKept = isDryRun
      ? findPublication(this.#app.db, this.#domain)?.fields != null
      : await this.#store(zone, records)
    const seen = isDryRun ? '' : ` ${await checkPublished(this.#app, this.#actor, this.#domain, zone)}`
    return { provider: this.#entry.name, zone, isDryRun, isKept, records, summary: `${countRecords(records)}.${seen}` }
  }

  async #plan() {
    const zone = await this.#api.findZone(this.#domain.domain)
    // Also the names between, any of which may be a zone of its own.
    const names = new Set<string>()
    for (const [, { host }] of this.#wanted)
      for (let name = host.toLowerCase(); isWithin(name, zone); name = name.slice(name.indexOf('.') + 1)) {
        names.add(name)
        if (name === zone) break
      }
    const sets = await this.#api.read(zone, [...names])
    const checks = await this.#check([...names], sets)
    const planned = this.#wanted.map(([key, record]) => planRecord(key, record, checks[key], { zone, sets }))
    // What the zone would be afterwards must pass, too: a merged SPF record may need too many look-ups.
    const later = await this.#check([...names], applyPlan(sets, planned))
    return {
      zone,
      names: [...names],
      planned: planned.map((one): PlannedRecord => {
        const check = one.action === 'leave' ? undefined : later[one.key]
        if (one.action === 'conflict' || !check || check.verified || check.outcome === 'unknown') return one
        return {
          ...one,
          action: 'conflict',
          after: one.before,
          reason: `With our record it would fail: ${check.detail}`,
        }
      }),
    }
  }

  #check(names: readonly string[], sets: readonly RecordSet[]): Promise<Readonly<Record<string, Check>>> {
    return checkRecords(this.#app, this.#domain, resolveFromSets(this.#app.freshResolver, names, sets))
  }

  async #write(zone: string, names: readonly string[], planned: readonly PlannedRecord[]): Promise<PublishedRecord[]> {
    const done: PublishedRecord[] = []
    let end: string | undefined
    for (const record of planned) {
      let failure = end
      try {
        if (isWritten(record) && end === undefined) await this.#writeOne(zone, record)
      } catch (error) {
        if (!(error instanceof DnsApiError)) throw error
        failure = error.message
        if (ENDING_PROBLEMS.includes(error.problem)) end = failure
      }
      if (!isWritten(record)) done.push({ ...record, state: 'unchanged', error: null })
      else done.push({ ...record, state: failure === undefined ? 'published' : 'failed', error: failure ?? null })
    }
    await this.#api.publish?.(zone)
    return done.some(({ state }) => state === 'published') ? this.#readBack(zone, names, done) : done
  }

  async #writeOne(zone: string, record: PlannedRecord): Promise<void> {
    await this.#api.write(zone, record)
    const { type, name, before, after } = record
    const added = after.filter((value) => !before.includes(value))
    const removed = before.filter((value) => !after.includes(value))
    const facts = { provider: this.#entry.name, zone, type, name, added, removed }
    await this.#app.commit.write((tx) => auditDomain(this.#app, tx, this.#actor, 'dns_published', this.#domain, facts))
  }

  /** Some providers accept a record and drop it. */
  async #readBack(
    zone: string,
    names: readonly string[],
    done: readonly PublishedRecord[],
  ): Promise<PublishedRecord[]> {
    const sets = await this.#api.read(zone, names)
    return done.map((record) => {
      const set = sets.find(({ name, type }) => name === record.name && type === record.type)
      if (record.state !== 'published' || record.after.every((value) => set?.values.includes(value))) return record
      const error = `${this.#entry.title} accepted the record, but its zone ${zone} does not have it.`
      return { ...record, state: 'failed', error }
    })
  }

  /** Keeps the credentials, if they may be kept and the domain is still there; returns whether they are. */
  async #store(zone: string, records: readonly PublishedRecord[]): Promise<boolean> {
    const { keeps = true } = this.#request
    const app = this.#app
    const fields = keeps ? sealFields(app, this.#domain, this.#fields) : null
    const now = app.clock.now()
    return app.commit.write((tx) => {
      const known = findPublication(tx.db, this.#domain)
      if (!findDomainById(tx.db, this.#domain.id)) return false
      const isSame = known && Bun.deepEquals(openFields(app, this.#domain, known), this.#fields)
      putPublication(tx, {
        domainId: this.#domain.id,
        provider: this.#entry.name,
        zone,
        fields,
        allowsPrivate: this.#allowsPrivate ? 1 : 0,
        keptAt: keeps ? ((isSame ? known.keptAt : null) ?? now) : null,
        publishedAt: records.some(({ state }) => state === 'published') ? now : (known?.publishedAt ?? null),
        error: records.find(({ error }) => error !== null)?.error ?? null,
        recordsHash: hashRecords(this.#wanted),
        attempts: known?.attempts ?? 0,
        nextAttemptAt: Math.max(known?.nextAttemptAt ?? 0, now + MIN_RETRY_DELAY_MS),
      })
      if (keeps && !isSame)
        auditDomain(app, tx, this.#actor, 'dns_credentials_stored', this.#domain, { provider: this.#entry.name, zone })
      return keeps
    })
  }
}

const isWritten = ({ action }: PlannedRecord): boolean => action === 'create' || action === 'change'

/** `4 published, 1 already right` */
function countRecords(records: readonly PublishedRecord[]): string {
  const words = records.map(({ action, state }) => {
    if (state === 'published' || state === 'failed') return state
    return action === 'leave' ? 'already right' : action === 'conflict' ? 'to settle by hand' : `to ${action}`
  })
  return [...new Set(words)].map((word) => `${words.filter((one) => one === word).length} ${word}`).join(', ')
}

/** The zone after the changes. */
function applyPlan(sets: readonly RecordSet[], planned: readonly PlannedRecord[]): RecordSet[] {
  const changed = planned.filter(isWritten)
  const isSame = (a: RecordSet, b: PlannedRecord) => a.name === b.name && a.type === b.type
  return [
    ...sets.filter((set) => !changed.some((one) => isSame(set, one))),
    ...changed.map(({ name, type, ttlSeconds, after: values }) => ({ name, type, ttlSeconds, values })),
  ]
}

/** Verifies the domain at the name servers of its zone, and says what they do not show. Never throws. */
export async function checkPublished(app: App, actor: Actor, { uuid, domain }: Domain, zone: string): Promise<string> {
  try {
    const id = formatUuid(uuid)
    const resolver = await createZoneResolver(app, zone)
    const { checks, domain: after } = await verifyDomain(app, actor, id, resolver)
    if (after.trackingDomain !== null) await verifyTracking(app, actor, id, resolver)
    const wanted = listUsedRecords(app, getDomain(app.db, actor.accountId, id))
    const absent = wanted.filter(isMissing).map(([key]) => key)
    if (absent.length === 0) return `DNS shows all records of ${domain}.`
    const unanswered = Object.values(checks).find(({ detail }) => isUnanswered(detail))
    const { nameServers } = await findZone(app.freshResolver, domain)
    const asked = nameServers.length > 0 ? `its name servers ${nameServers.join(', ')}` : 'no name server'
    return `The world asks ${asked} for ${domain}, which do not show yet: ${absent.join(', ')}. If that stays so after some minutes, the zone ${zone} that was changed is not the one that they have.${unanswered ? ` ${unanswered.detail}` : ''}`
  } catch (error) {
    return error instanceof AppError ? error.message : 'DNS could not be checked now; verify the domain in a minute.'
  }
}
