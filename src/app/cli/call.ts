/**
 * @module Runs operations where the data are: in the running service when one answers on the admin socket, else in this process, which then owns
 * the data directory until the command is over. While it belongs to a process that does not answer (one that starts, stops, or another command)
 * it is tried again for some seconds.
 */
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '#platform/clock.ts'
import { type Config, ConfigError } from '#platform/config.ts'
import { createLog } from '#platform/log.ts'
import { isLocked } from '#platform/storage-errors.ts'
import { seconds } from '#platform/units.ts'
import { adminSocketPath, callAdminSocket, createPathTooLongError, RESPONSE_TIMEOUT_MS } from '../admin-socket.ts'
import {
  createNotAFolderError,
  DataDirInUseError,
  type OpenedApp,
  openApp,
  requireNoOrphanedContent,
  startDelivery,
} from '../create.ts'
import { VERSION } from '../version.ts'
import { type AdminCommand, type AdminCommandContext, CommandError } from './admin-command.ts'
import { describeOwner } from './file-owner.ts'

export type Call = <Input, Output>(operation: AdminCommand<Input, Output>, input: Input) => Promise<Output>

export interface CallOptions {
  /** Whether an empty data directory may be set up; others are told that there is nothing. */
  readonly canCreate?: boolean
  /** Whether mail is delivered while the command runs, when no service does it. */
  readonly canDeliver?: boolean
}

const RETRY_INTERVAL_MS = 100
const PING_INTERVAL_MS = seconds(1)

/** Gives `use` a way to run operations, and closes behind it what it opened. */
export async function withData<T>(
  config: Config,
  use: (call: Call) => Promise<T>,
  options: CallOptions = {},
): Promise<T> {
  const deadlineMs = systemClock.monotonicMs() + RESPONSE_TIMEOUT_MS
  for (;;) {
    if (await isServiceRunning(config)) return use(createSocketCall(config))
    if (!options.canCreate) requireData(config)
    const opened = openUnlessInUse(config, systemClock.monotonicMs() > deadlineMs)
    if (opened) return runInProcess(opened, use, options)
    await systemClock.sleep(RETRY_INTERVAL_MS)
  }
}

/**
 * Throws when the data directory has no database, or none that this user may read: a command that only looks must not make one. CommandError when
 * there is none, ConfigError for what is no folder or another user's.
 */
export function requireData({ dataDir }: Config): void {
  try {
    accessSync(join(dataDir, 'tassis.db'), constants.R_OK)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOTDIR') throw createNotAFolderError(dataDir)
    if (code === 'EACCES' || code === 'EPERM') {
      throw new ConfigError(
        `This user may not read the data in ${dataDir}, which belongs to ${describeOwner(dataDir)}; run the command as that user.`,
      )
    }
    requireNoOrphanedContent(dataDir)
    throw new CommandError(
      `There is no Tassis data in ${dataDir}; set TASSIS_DATA_DIR to where it is, or begin with \`tassis accounts create\`.`,
    )
  }
  requireNoOrphanedContent(dataDir)
}

/** An operation that every service knows and that does nothing. */
export const PING = 'ping'

const ping = (dataDir: string): ReturnType<typeof callAdminSocket> =>
  callAdminSocket(dataDir, { version: VERSION, operation: PING, input: null }, AbortSignal.timeout(RESPONSE_TIMEOUT_MS))

async function isServiceRunning({ dataDir }: Config): Promise<boolean> {
  const reply = await ping(dataDir)
  if (reply.kind === 'refused') throw new CommandError(reply.message)
  if (reply.kind === 'silent') throw new CommandError(`${describeUnresponsive(dataDir)}.`)
  return reply.kind === 'ok'
}

const describeUnresponsive = (dataDir: string): string =>
  `The service that has ${dataDir} does not respond within ${RESPONSE_TIMEOUT_MS / 1000} s: it is stopped, or its disk hangs`

const createSocketCall =
  ({ dataDir }: Config): Call =>
  async <Input, Output>({ name }: AdminCommand<Input, Output>, input: Input): Promise<Output> => {
    const ended = new AbortController()
    const reply = await callAdminSocket(
      dataDir,
      { version: VERSION, operation: name, input },
      createSilenceSignal(dataDir, ended.signal),
    )
    ended.abort()
    if (reply.kind === 'ok') return reply.value as Output
    if (reply.kind === 'silent')
      throw new CommandError(
        `${describeUnresponsive(dataDir)}; whether it has done what was asked shows when it responds again.`,
      )
    throw new CommandError(
      reply.kind === 'refused'
        ? reply.message
        : 'The service has stopped meanwhile; see `tassis queue` for what it had taken on.',
    )
  }

/** An operation takes as long as it takes. Aborted when the service does not even answer a ping, until `ended` is. */
function createSilenceSignal(dataDir: string, ended: AbortSignal): AbortSignal {
  const silent = new AbortController()
  const watch = (): void => {
    systemClock.after(PING_INTERVAL_MS, async () => {
      if (ended.aborted) return
      if ((await ping(dataDir)).kind === 'silent') silent.abort()
      else watch()
    })
  }
  watch()
  return silent.signal
}

function openUnlessInUse(config: Config, isLastAttempt: boolean): OpenedApp | undefined {
  try {
    // The log is the service's; of a command only what is wrong is worth a line.
    return openApp(config, { log: createLog(config.logLevel === 'silent' ? 'silent' : 'error') })
  } catch (error) {
    // Another process may hold the database for a moment.
    if (isLocked(error) && !isLastAttempt) return undefined
    if (!(error instanceof DataDirInUseError)) throw error
    if (adminSocketPath(config.dataDir) === undefined) throw createPathTooLongError(config.dataDir)
    if (isLastAttempt) {
      throw new CommandError(
        `${config.dataDir} belongs to another process, which does not answer on its admin socket; try again when it has started or ended.`,
      )
    }
    return undefined
  }
}

async function runInProcess<T>(opened: OpenedApp, use: (call: Call) => Promise<T>, options: CallOptions): Promise<T> {
  try {
    const delivery = options.canDeliver ? await startDelivery(opened) : undefined
    try {
      const context: AdminCommandContext = { opened, delivery }
      // By way of JSON, as through the socket.
      return await use(async (operation, input) => roundTripJson(await operation.run(context, roundTripJson(input))))
    } finally {
      await delivery?.stop()
    }
  } finally {
    await opened.close()
  }
}

const roundTripJson = <T>(value: T): T => JSON.parse(JSON.stringify(value ?? null)) as T
