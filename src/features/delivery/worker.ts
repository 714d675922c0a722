/**
 * @module Entry of a delivery Worker: owns the sessions of the sites pinned to it. Takes jobs, says `begin` at the 354 and waits for `go`, says
 * how each ended. Decides nothing about retries.
 */
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { systemClock } from '#platform/clock.ts'
import { type ContentReader, createContentReader } from '#platform/content/read.ts'
import { bulkShare } from './bulk-share.ts'
import { type Connections, createConnections } from './connections.ts'
import { prepareMessage, transmit } from './deliver.ts'
import type { AttemptResult, AttemptSession, DeliverJob, FromWorker, ToWorker, WorkerSettings } from './protocol.ts'

declare const self: Worker

interface Composed {
  readonly job: DeliverJob
  readonly message: Uint8Array
  /** Whose broadcast it is of; undefined for mail that is not bulk. */
  readonly bulkAccount: number | undefined
}

interface Site {
  readonly waiting: Composed[]
  /** Bulk mail: it has its turn when nothing else waits, and leaves some connections to what may come. */
  readonly waitingBulk: Composed[]
  readonly running: Set<Composed>
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
/** By domain, as PEM until it is used first: parsing costs more than a signature, and a key that cannot be read fails its own messages only. */
const keys = new Map<number, KeyObject | string>()

const post = (message: FromWorker): void => self.postMessage(JSON.stringify(message))

const end = (job: DeliverJob, result: AttemptResult, session?: AttemptSession): void =>
  post({ type: 'outcome', recipientId: job.recipientId, result, session })

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
      void start(data.job, data.bulkAccount)
      return
    case 'go': {
      const waiting = awaitingGo.get(data.recipientId)
      awaitingGo.delete(data.recipientId)
      if (data.ok) waiting?.resolve()
      else waiting?.reject(new Error('the start of the delivery could not be stored'))
      return
    }
    case 'drain':
      drain()
      return
  }
}

async function start(job: DeliverJob, bulkAccount: number | undefined): Promise<void> {
  if (draining || !settings) return end(job, { kind: 'dropped' })
  try {
    const message = await prepareMessage(job, content, keyOf(job.dkim.domainId), settings.tracking)
    if (draining) return end(job, { kind: 'dropped' })
    const site = sites.get(job.route.site) ?? { waiting: [], waitingBulk: [], running: new Set<Composed>() }
    sites.set(job.route.site, site)
    const line = bulkAccount === undefined ? site.waiting : site.waitingBulk
    line.push({ job, message, bulkAccount })
    serve(job.route.site, site)
  } catch (error) {
    end(job, { kind: 'broken', message: error instanceof Error ? error.message : String(error) })
  }
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
    site.running.add(next)
    void run(name, site, next)
  }
}

/** What a free connection of the site is for; undefined when nothing waits that may have one. */
function nextOf({ waiting, waitingBulk, running }: Site): Composed | undefined {
  const most = settings?.connectionsPerSite ?? 0
  if (running.size >= most) return undefined
  return waiting.shift() ?? (running.size < bulkShare(most) ? nextBulk(waitingBulk, running) : undefined)
}

/** Of the account that has the fewest connections, so that messages of one that take long do not hold up the others'; oldest first. */
function nextBulk(waiting: Composed[], running: ReadonlySet<Composed>): Composed | undefined {
  const counts = new Map<number | undefined, number>()
  for (const { bulkAccount } of running) counts.set(bulkAccount, (counts.get(bulkAccount) ?? 0) + 1)
  let next: number | undefined
  let fewest = Number.POSITIVE_INFINITY
  for (const [index, { bulkAccount }] of waiting.entries()) {
    const count = counts.get(bulkAccount) ?? 0
    if (count < fewest) [next, fewest] = [index, count]
    if (fewest === 0) break
  }
  return next === undefined ? undefined : waiting.splice(next, 1)[0]
}

/** Takes out all that waits at a site. */
const takeWaiting = ({ waiting, waitingBulk }: Site): Composed[] => [...waiting.splice(0), ...waitingBulk.splice(0)]

async function run(name: string, site: Site, composed: Composed): Promise<void> {
  const { job, message } = composed
  try {
    const { result, session } = await transmit(job, message, connections, () => begin(job.recipientId))
    end(job, result, session)
    // Whoever waits behind an unreachable site was never dialled: it goes back without an attempt.
    if (result.kind === 'unreachable') for (const { job: behind } of takeWaiting(site)) end(behind, { kind: 'dropped' })
  } catch (error) {
    end(job, { kind: 'broken', message: error instanceof Error ? error.message : String(error) })
  } finally {
    site.running.delete(composed)
    serve(name, site)
    if (site.running.size === 0) sites.delete(name)
  }
}

function begin(recipientId: number): Promise<void> {
  if (draining) return Promise.reject(new Error('the service is stopping'))
  return new Promise((resolve, reject) => {
    awaitingGo.set(recipientId, { resolve, reject })
    post({ type: 'begin', recipientId })
  })
}

function drain(): void {
  draining = true
  for (const site of sites.values()) for (const { job } of takeWaiting(site)) end(job, { kind: 'dropped' })
  connections.closeIdle()
}
