/** @module /v1/operator: health, what the checks found, queue, received mail, disk and settings. Paths, schemas and one call each. */

import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findAccountByUuid } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated } from '#features/core/app/http.ts'
import { countQueueEntries, listQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { listUnparsed, retryUnparsed, type UnparsedCursor } from '#features/receiving/inbound/process/retry.ts'
import { accountOfLane, domainOfLane, isBulkLane } from '#features/sending/queue/lanes.ts'
import type { OpenLane } from '#features/sending/queue/queue.ts'
import type { RowKey } from '#platform/db/row-window.ts'
import { dataBody, isoTime, pageBody } from '#platform/http/envelope.ts'
import { DataBody, Nullable, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { askWorker } from '#platform/process/workers.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'
import { toSettingRecord } from '../settings.ts'
import { type OperatorContext, operatorRoute } from './context.ts'
import type { DiskUse } from './disk.ts'
import { readFileSystem } from './disk.ts'
import type { DiskRequest } from './disk-worker.ts'
import { createHealthReader } from './health.ts'
import { getLaneReader } from './lane-reader.ts'
import {
  DoctorFindings,
  QueueLane,
  QueueQuery,
  QueueRecipient,
  QueueRecipientQuery,
  ReceivedEntry,
  RetryResult,
  ServerDisk,
  ServerHealth,
  SettingRecord,
  UnparsedMessage,
  UnparsedQuery,
} from './model.ts'
import { compareLanes, describeLanes, findLaneAccount, findProviderHolds, listLaneRecipients } from './queue.ts'
import { START_POSITION, toReceivedEntry, toUnparsedView } from './received.ts'
import { toServiceActor } from './view-log.ts'

/** Measurements read every page of the database, so they take at most this fraction of the time. */
const MAX_MEASURE_FRACTION = 0.02
const MIN_INTERVAL_MS = minutes(1)
/** How long a request waits for a measurement; most databases take less. */
const WAIT_MS = seconds(2)

interface DiskReading {
  /** The last measurement; undefined while the first one runs, or when it failed. */
  readonly usage: DiskUse | undefined
  readonly isMeasuring: boolean
}

/** Creates a function that returns the last measurement, and starts the next one if it is due. */
function createDiskMeter(app: App): () => Promise<DiskReading> {
  const { clock, config, log } = app
  let usage: DiskUse | undefined
  let nextAtMs: Millis = Number.NEGATIVE_INFINITY
  let running: Promise<void> | undefined
  const measure = async (): Promise<void> => {
    const startedAtMs = clock.monotonicMs()
    try {
      usage = await askWorker<DiskUse>('disk', { config, now: clock.now() } satisfies DiskRequest)
    } catch (error) {
      log.warn({ err: error }, 'disk use not measured')
    } finally {
      const now = clock.monotonicMs()
      nextAtMs = now + Math.max(MIN_INTERVAL_MS, (now - startedAtMs) / MAX_MEASURE_FRACTION)
    }
  }
  return async () => {
    if (running === undefined && clock.monotonicMs() >= nextAtMs)
      running = measure().finally(() => {
        running = undefined
      })
    if (running) await Promise.race([running, clock.sleep(WAIT_MS)])
    return { usage, isMeasuring: running !== undefined }
  }
}

const MAX_RECIPIENTS = 50
const MAX_UNPARSED = 25

export const operatorStatusRoutes = (context: OperatorContext) => {
  const { app, parser } = context.opened
  const { recordView } = context
  const readLanes = getLaneReader(app)
  const readHealth = createHealthReader(context, readLanes)
  const readDisk = createDiskMeter(app)
  return new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get(
      '/health',
      async ({ actor }) => {
        await recordView(actor, { name: 'health' })
        return dataBody(await readHealth())
      },
      {
        response: DataBody(ServerHealth),
        detail: operatorRoute('Get the state of the service'),
      },
    )
    .get(
      '/doctor',
      async ({ actor }) => {
        await recordView(actor, { name: 'health' })
        const report = context.doctorReport()
        return dataBody({
          checked_at: report ? isoTime(report.at) : null,
          findings: (report?.findings ?? []).map(({ check, status, subject = null, message, fix }) => ({
            check,
            status,
            subject,
            message,
            fix: fix || null,
          })),
        })
      },
      {
        response: DataBody(DoctorFindings),
        detail: operatorRoute(
          'Get what the checks of the service found',
          'The last run of the checks of `tassis doctor`, which the service makes every hour: names, network, machine and state.',
        ),
      },
    )
    .get(
      '/queue',
      async ({ actor, query }) => {
        await recordView(actor, { name: 'queue' })
        const page = parsePage(query)
        const found = filterLanes(app, await readLanes(), query)
        const first = page.after ? findPlaceAfter(found, page.after) : page.offset
        const shown = found.slice(first, first + page.limit)
        const reasons = await describeLanes(app, context.delivery(), shown)
        const last = shown.at(-1)
        return pageBody(
          shown.map((lane, i) => toLaneWire(app, lane, reasons[i] ?? '')),
          { ...page, total: found.length },
          last && [last.firstAt, last.lane],
        )
      },
      {
        query: QueueQuery,
        response: PageBody(QueueLane),
        detail: operatorRoute(
          'List what waits for delivery',
          'By destination and account, the earliest first, with the reason. May be some seconds old.',
        ),
      },
    )
    .get(
      '/queue/recipients',
      async ({ actor, query }) => {
        // Addresses of other accounts: the entry names the lane.
        await recordView(actor, { name: 'queue_lane', id: query.lane })
        const holds = await findProviderHolds(app, [query.lane])
        return dataBody(listLaneRecipients(app.db, query.lane, MAX_RECIPIENTS, holds.get(query.lane)))
      },
      {
        query: QueueRecipientQuery,
        response: DataBody(Type.Array(QueueRecipient)),
        detail: operatorRoute(
          'List the recipients of a lane',
          `The ${MAX_RECIPIENTS} whose next attempt is due first.`,
        ),
      },
    )
    .get(
      '/received',
      async ({ actor, query }) => {
        await recordView(actor, { name: 'received' })
        const page = parsePage(query)
        return pageBody(listQueueEntries(app.db, page).map(toReceivedEntry), {
          ...page,
          total: countQueueEntries(app.db),
        })
      },
      {
        query: PageQuery,
        response: PageBody(ReceivedEntry),
        detail: operatorRoute('List received mail that is not processed yet', 'Oldest first.'),
      },
    )
    .get(
      '/received/unparsed',
      async ({ actor, query }) => {
        await recordView(actor, { name: 'received' })
        const { unparsed, cursor } = listUnparsed(app, parsePosition(query.after), MAX_UNPARSED)
        return {
          data: unparsed.map(toUnparsedView),
          next_after: cursor === undefined ? null : `${cursor.inbound}-${cursor.mailbox}`,
        }
      },
      {
        query: UnparsedQuery,
        response: Type.Object({
          data: Type.Array(UnparsedMessage),
          next_after: Nullable(Type.String(), { description: 'Value of `after` for the next page; null: the last.' }),
        }),
        detail: operatorRoute(
          'List received mail that could not be parsed',
          'Oldest first. Its account sees only the header and the raw message.',
        ),
      },
    )
    .post(
      '/received/unparsed/:id/retry',
      async ({ actor, params }) => {
        const problem = await retryUnparsed(app, parser, params.id, toServiceActor(actor))
        return dataBody({ id: params.id.toLowerCase(), parse_error: problem ?? null })
      },
      {
        params: Type.Object({ id: Type.String({ description: 'Id of the message.' }) }),
        response: DataBody(RetryResult),
        detail: operatorRoute(
          'Parse a received message again',
          'Stores its content; its events are not emitted again.',
          { 404: ['message_not_found', 'No unparsed message has this id.'] },
        ),
      },
    )
    .get(
      '/disk',
      async ({ actor }) => {
        await recordView(actor, { name: 'disk' })
        const { usage, isMeasuring } = await readDisk()
        return dataBody({
          read_at: isoTime(app.clock.now()),
          file_system: readFileSystem(app.config),
          is_measuring: isMeasuring,
          use: usage ?? null,
        })
      },
      {
        response: DataBody(ServerDisk),
        detail: operatorRoute(
          'Get the use of the disk, and what is deleted next',
          'Measuring reads the whole database, so the use is measured only while an operator looks, at most once a minute, and less often the longer it takes.',
        ),
      },
    )
    .get(
      '/settings',
      async ({ actor }) => {
        await recordView(actor, { name: 'settings' })
        return dataBody(context.settings.map(toSettingRecord))
      },
      {
        response: DataBody(Type.Array(SettingRecord)),
        detail: operatorRoute('List the settings', 'With their source; secrets are not shown.'),
      },
    )
}

function filterLanes(
  { config, db }: App,
  lanes: readonly OpenLane[],
  { account_id: accountId, domain }: Static<typeof QueueQuery>,
): readonly OpenLane[] {
  const wanted = domain?.trim().toLowerCase()
  const uuid = accountId === undefined ? undefined : parseUuid(accountId)
  const account = uuid && findAccountByUuid(config, db, uuid)
  if (accountId !== undefined && !account) return []
  return lanes.filter(
    ({ lane }) =>
      (wanted === undefined || domainOfLane(lane) === wanted) && (!account || accountOfLane(lane) === account.id),
  )
}

/** Index of the first lane after a key: due time and name. */
function findPlaceAfter(lanes: readonly OpenLane[], [firstAt, lane]: RowKey): number {
  const key = { firstAt: Number(firstAt), lane: String(lane) }
  const index = lanes.findIndex((other) => compareLanes(other, key) > 0)
  return index === -1 ? lanes.length : index
}

function toLaneWire(app: App, { lane, waiting, firstAt }: OpenLane, reason: string): QueueLane {
  const account = findLaneAccount(app.db, lane)
  return {
    lane,
    account_id: account ? formatUuid(account.uuid) : null,
    account: account?.name ?? null,
    domain: domainOfLane(lane),
    is_broadcast: isBulkLane(lane),
    waiting,
    first_due_at: isoTime(firstAt),
    reason,
  }
}

function parsePosition(after: string | undefined): UnparsedCursor {
  if (after === undefined) return START_POSITION
  const [inbound, mailbox] = after.split('-').map(Number)
  return { inbound: inbound ?? 0, mailbox: mailbox ?? 0 }
}
