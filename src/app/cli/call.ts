/**
 * @module Serves requests of commands where the data is: in the running service if one answers on the admin socket, else
 * in this process, which then owns the data directory until the command ends. If another process owns the directory but
 * does not answer (a service that is starting or stopping, or another command), it is tried again for some seconds.
 */

import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { TassisError } from '#client/client.ts'
import { startDelivery } from '#features/sending/delivery/start.ts'
import { requireUsableData, runAsOwner } from '#platform/disk/data-owner.ts'
import { isLocked } from '#platform/disk/storage-errors.ts'
import { systemCodeOf } from '#platform/errors.ts'
import {
  adminSocketPath,
  createPathTooLongError,
  fetchAdminSocket,
  pingService,
  RESPONSE_TIMEOUT_MS,
} from '#platform/http/admin-socket.ts'
import { createInternalRequest } from '#platform/http/internal-request.ts'
import { createLog } from '#platform/log/log.ts'
import { requireReadable } from '#platform/replication/position.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { createAdminFetch } from '../admin-fetch.ts'
import {
  createNotAFolderError,
  DataDirInUseError,
  type OpenedApp,
  openApp,
  requireNoOrphanedContent,
} from '../create.ts'
import { createHttp } from '../http.ts'
import { loadConfig } from '../settings.ts'
import { VERSION } from '../version.ts'
import { CommandError } from './options.ts'

export interface CallOptions {
  /** Whether the command may set up an empty data directory; otherwise it fails. */
  readonly canCreate?: boolean | undefined
  /** Whether this process delivers mail while the command runs. Without effect if a service is running. */
  readonly canDeliver?: boolean | undefined
  /** Whether the command makes no sense while no service runs. */
  readonly needsService?: boolean | undefined
}

const RETRY_INTERVAL_MS = 100

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/**
 * Calls `use` with a function that serves requests to the API for the operator, and whether a service does it; then
 * closes what was opened.
 */
export async function withFetch<T>(
  config: Config,
  use: (fetch: Fetch, isServed: boolean) => Promise<T>,
  { canCreate = false, needsService = false, canDeliver = false }: CallOptions = {},
): Promise<T> {
  const deadlineMs = systemClock.monotonicMs() + RESPONSE_TIMEOUT_MS
  for (;;) {
    if (await isServiceRunning(config)) return fetchFromService(config, (fetch) => use(fetch, true))
    if (!canCreate) requireData(config)
    if (needsService)
      throw new CommandError(`No service runs on ${config.dataDir}; start it with \`tassis serve\`.`, 'service_stopped')
    const result = await runAsOwner(config.dataDir, async () => {
      const opened = openUnlessInUse(config, systemClock.monotonicMs() > deadlineMs)
      return opened && { value: await fetchInProcess(opened, (fetch) => use(fetch, false), canDeliver) }
    })
    if (result) return result.value
    await systemClock.sleep(RETRY_INTERVAL_MS)
  }
}

async function fetchFromService<T>({ dataDir }: Config, use: (fetch: Fetch) => Promise<T>): Promise<T> {
  try {
    return await use((url, init) => fetchAdminSocket(dataDir, VERSION, url, init))
  } catch (error) {
    if (!isConnectionLost(error)) throw error
    throw new CommandError(
      'The service stopped during the command; `tassis queue` shows what it had accepted.',
      'service_stopped',
    )
  }
}

/** Also in the middle of a body. */
function isConnectionLost(error: unknown): boolean {
  if (error instanceof TassisError) return error.status === 0
  return error instanceof Error && /^(?:ECONN|Connection)/.test(systemCodeOf(error))
}

async function fetchInProcess<T>(
  opened: OpenedApp,
  use: (fetch: Fetch) => Promise<T>,
  canDeliver: boolean,
): Promise<T> {
  try {
    const delivery = canDeliver ? await startDelivery(opened) : undefined
    const http = createHttp(opened, { delivery: () => delivery, settings: loadConfig().report })
    const serve = createAdminFetch(opened.app, http)
    try {
      return await use(async (url, init) => serve(await createInternalRequest(url, init)))
    } finally {
      await http.stop()
      await delivery?.stop()
    }
  } finally {
    await opened.close()
  }
}

/**
 * Requires a database that this user may read, because a read-only command must not create one. Throws ConfigError
 * when there is none, the path is not a folder, the data belongs to another user, or the database is missing while its
 * content exists.
 */
export function requireData({ dataDir }: Config): void {
  try {
    accessSync(join(dataDir, 'tassis.db'), constants.R_OK)
  } catch (error) {
    if (systemCodeOf(error) === 'ENOTDIR') throw createNotAFolderError(dataDir)
    requireUsableData(dataDir)
    requireNoOrphanedContent(dataDir)
    throw new ConfigError(
      `There is no Tassis data in ${dataDir}; set TASSIS_DATA_DIR to its location, which \`systemctl cat tassis\` shows if it runs as a service, or begin with \`tassis accounts create\`.`,
    )
  }
  requireNoOrphanedContent(dataDir)
  requireUsableData(dataDir)
}

async function isServiceRunning({ dataDir }: Config): Promise<boolean> {
  const reply = await pingService(dataDir, VERSION)
  if (reply.kind === 'refused') throw new CommandError(reply.message, reply.code)
  if (reply.kind === 'silent')
    throw new CommandError(
      `The service that uses ${dataDir} does not respond within ${RESPONSE_TIMEOUT_MS / 1000} s: it is suspended, or its disk hangs; its log and \`dmesg\` may say why, and a restart ends it.`,
      UNRESPONSIVE,
    )
  return reply.kind === 'ok'
}

const UNRESPONSIVE = 'service_unresponsive'

function openUnlessInUse(config: Config, isLastAttempt: boolean): OpenedApp | undefined {
  try {
    // The log belongs to the service; a command logs only errors.
    return openApp(config, { log: createLog(config.logLevel === 'silent' ? 'silent' : 'error') })
  } catch (error) {
    // Another process may hold the database briefly.
    if (isLocked(error) && !isLastAttempt) return undefined
    if (!(error instanceof DataDirInUseError)) throw error
    requireReadable(config.dataDir)
    if (adminSocketPath(config.dataDir) === undefined) throw createPathTooLongError(config.dataDir)
    if (isLastAttempt) {
      throw new CommandError(
        `Another process uses ${config.dataDir} and does not answer on its admin socket; try again when it has started or ended.`,
        UNRESPONSIVE,
      )
    }
    return undefined
  }
}
