/**
 * @module Entry of a delivery Worker: owns the sessions of the sites pinned to it. Takes jobs, says `begin` at the 354 and waits for `go`, says
 * how each ended. Decides nothing about retries.
 */
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { systemClock } from '#platform/clock.ts'
import { type ContentReader, createContentReader, MissingPart } from '#platform/content/read.ts'
import { FairQueue } from '#platform/queue/fair-queue.ts'
import { FairTurns } from '#platform/queue/fair-turns.ts'
import { isPassingError, publicReason } from '#platform/storage-errors.ts'
import { bulkShare } from './bulk-share.ts'
import { type Connections, createConnections } from './connections.ts'
import { prepareMessage, type SharedBody, transmit } from './deliver.ts'
import type { AttemptResult, AttemptSession, DeliverJob, FromWorker, ToWorker, WorkerSettings } from './protocol.ts'
import { siteRefusalOf } from './site-refusal.ts'

declare const self: Worker

interface Composed {
  readonly job: DeliverJob
  readonly message: readonly Uint8Array[]
}

interface Site {
  /** Accounts take turns. */
  readonly waiting: FairQueue<Composed>
  /** Bulk mail: it has its turn when nothing else waits, and leaves some connections to what may come. */
  readonly waitingBulk: FairQueue<Composed>
  running: number
}

interface Running {
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

let settings: WorkerSettings | undefined
let content: ContentReader
let connections: Connections
let draining = false
const sites = new Map<string, Site>()
/** Recipients whose `begin` was said and not answered. */
const awaitingGo = new Map<number, Running>()
/** Recipients with a session, or for whom one is being opened. */
const attempts = new Map<number, AbortController>()
/** By domain, as PEM until it is used first: parsing costs more than a signature, and a key that cannot be read fails its own messages only. */
const keys = new Map<number, KeyObject | string>()

/** Composing takes turns by account; broadcasts have turns of their own, so the account's other mail does not wait. */
const composing = new FairTurns({ clock: systemClock, overload: () => new Error('too much is composed') })
/** Shared bodies by email, with the number of jobs in flight here. */
const bodies = new Map<number, { readonly shared: SharedBody; jobs: number }>()

const post = (message: FromWorker): void => self.postMessage(JSON.stringify(message))

function end(job: DeliverJob, result: AttemptResult, session?: AttemptSession): void {
  const body = bodies.get(job.emailId)
  if (body && --body.jobs === 0) bodies.delete(job.emailId)
  post({ type: 'outcome', recipientId: job.recipientId, result, session })
}

self.onmessage = (event: MessageEvent<string>) => {
  const data = JSON.parse(event.data) as ToWorker
  switch (data.type) {
    case 'settings':
      settings = data.settings
      content = createContentReader(settings.contentFolder)
      connections = createConnections(systemClock, settings)
      return
    case 'key':
      keys.set(data.domainId, data.privateKeyPem)
      return
    case 'start':
      void start(data)
      return
    case 'go': {
      const waiting = awaitingGo.get(data.recipientId)
      awaitingGo.delete(data.recipientId)
      if (data.ok) waiting?.resolve()
      else waiting?.reject(new Error('the start of the delivery could not be stored'))
      return
    }
    case 'cut':
      cut(new Set(data.recipientIds))
      return
    case 'drain':
      drain()
      return
  }
}

async function start({ job, owner, isBulk }: Extract<ToWorker, { type: 'start' }>): Promise<void> {
  const body = bodies.get(job.emailId) ?? { shared: {}, jobs: 0 }
  bodies.set(job.emailId, body)
  body.jobs++
  try {
    const steps = compose(job, body.shared)
    // A usual message is one slice; while nobody waits, a turn for it would cost a tenth more CPU.
    const first = composing.size === 0 ? steps.next() : undefined
    const message = first?.done ? first.value : await composing.runSteps(isBulk ? `bulk ${owner}` : owner, steps)
    if (!message || draining) return end(job, { kind: 'dropped' })
    const site = sites.get(job.route.site) ?? { waiting: new FairQueue(), waitingBulk: new FairQueue(), running: 0 }
    sites.set(job.route.site, site)
    const line = isBulk ? site.waitingBulk : site.waiting
    line.push(owner, { job, message })
    serve(job.route.site, site)
  } catch (error) {
    end(job, ownFailure(error))
  }
}

function ownFailure(error: unknown): AttemptResult {
  if (error instanceof MissingPart) return { kind: 'content_missing' }
  const detail = error instanceof Error ? error.message : String(error)
  return isPassingError(error)
    ? { kind: 'postponed', detail }
    : { kind: 'broken', message: publicReason(error), detail }
}

/** Undefined when nothing is to be sent any more. */
function* compose(job: DeliverJob, shared: SharedBody): Generator<void, readonly Uint8Array[] | undefined> {
  if (draining || !settings) return undefined
  return yield* prepareMessage(job, shared, content, keyOf(job.dkim.domainId), settings.tracking)
}

function keyOf(domainId: number): KeyObject {
  const known = keys.get(domainId)
  if (known === undefined) throw new Error('the DKIM key of the sending domain is missing')
  if (typeof known !== 'string') return known
  const key = createPrivateKey(known)
  keys.set(domainId, key)
  return key
}

function serve(name: string, site: Site): void {
  for (let next = nextOf(site); next; next = nextOf(site)) {
    site.running++
    void run(name, site, next.job, next.message)
  }
}

/** What a free connection of the site is for; undefined when nothing waits that may have one. */
function nextOf({ waiting, waitingBulk, running }: Site): Composed | undefined {
  const most = settings?.connectionsPerSite ?? 0
  if (running >= most) return undefined
  return (waiting.shift() ?? (running < bulkShare(most) ? waitingBulk.shift() : undefined))?.item
}

/** Takes out what waits at a site: all of it, or what is meant. */
const takeWaiting = ({ waiting, waitingBulk }: Site, isMeant = (_: Composed) => true): Composed[] => [
  ...waiting.remove(isMeant),
  ...waitingBulk.remove(isMeant),
]

async function run(name: string, site: Site, job: DeliverJob, message: readonly Uint8Array[]): Promise<void> {
  const attempt = new AbortController()
  attempts.set(job.recipientId, attempt)
  try {
    const { result, session } = await transmit(job, message, connections, {
      beforeBody: () => begin(job.recipientId),
      signal: attempt.signal,
    })
    end(job, result, session)
    // What waits behind a site that refuses us, or cannot be dialled now, goes back without an attempt.
    if (result.kind === 'postponed' || siteRefusalOf(result) !== undefined)
      for (const { job: behind } of takeWaiting(site)) end(behind, { kind: 'dropped' })
  } catch (error) {
    end(job, ownFailure(error))
  } finally {
    attempts.delete(job.recipientId)
    site.running--
    serve(name, site)
    if (site.running === 0) sites.delete(name)
  }
}

function begin(recipientId: number): Promise<void> {
  if (draining) return Promise.reject(new Error('the service is stopping'))
  return new Promise((resolve, reject) => {
    awaitingGo.set(recipientId, { resolve, reject })
    post({ type: 'begin', recipientId })
  })
}

/** Who waits is taken out first, or he would have the connection of the first that is ended. */
function cut(recipientIds: ReadonlySet<number>): void {
  for (const site of sites.values())
    for (const { job } of takeWaiting(site, ({ job: { recipientId } }) => recipientIds.has(recipientId)))
      end(job, { kind: 'dropped' })
  for (const recipientId of recipientIds) attempts.get(recipientId)?.abort()
}

function drain(): void {
  draining = true
  for (const site of sites.values()) for (const { job } of takeWaiting(site)) end(job, { kind: 'dropped' })
  connections.closeIdle()
}
