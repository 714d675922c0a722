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
import { seconds } from '#platform/units.ts'
import { adminSocketPath, callAdminSocket, pathTooLong } from '../admin-socket.ts'
import { DataDirInUse, isAFile, type OpenedApp, openApp, startDelivery } from '../create.ts'
import { VERSION } from '../version.ts'
import { CommandError, type Operation, type OperationContext } from './operation.ts'
import { whoOwns } from './owner.ts'

export type Call = <Input, Output>(operation: Operation<Input, Output>, input: Input) => Promise<Output>

export interface CallOptions {
  /** Whether an empty data directory may be set up; others are told that there is nothing. */
  readonly creates?: boolean
  /** Whether mail is delivered while the command runs, when no service does it. */
  readonly delivers?: boolean
}

const PATIENCE_MS = seconds(10)
const RETRY_MS = 100

/** Gives `use` a way to run operations, and closes behind it what it opened. */
export async function withData<T>(
  config: Config,
  use: (call: Call) => Promise<T>,
  options: CallOptions = {},
): Promise<T> {
  const until = systemClock.monotonicMs() + PATIENCE_MS
  for (;;) {
    if (await isServiceThere(config)) return use(callTo(config))
    if (!options.creates) requireData(config)
    const opened = openUnlessInUse(config, systemClock.monotonicMs() > until)
    if (opened) return useOpened(opened, use, options)
    await systemClock.sleep(RETRY_MS)
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
    if (code === 'ENOTDIR') throw isAFile(dataDir)
    if (code === 'EACCES' || code === 'EPERM') {
      throw new ConfigError(
        `This user may not read the data in ${dataDir}, which belongs to ${whoOwns(dataDir)}; run the command as that user.`,
      )
    }
    throw new CommandError(
      `There is no Tassis data in ${dataDir}; set TASSIS_DATA_DIR to where it is, or begin with \`tassis accounts create\`.`,
    )
  }
}

/** An operation that every service knows and that does nothing. */
export const PING = 'ping'

async function isServiceThere({ dataDir }: Config): Promise<boolean> {
  const reply = await callAdminSocket(dataDir, { version: VERSION, operation: PING, input: null })
  if (reply.kind === 'refused') throw new CommandError(reply.message)
  return reply.kind === 'ok'
}

const callTo =
  ({ dataDir }: Config): Call =>
  async <Input, Output>({ name }: Operation<Input, Output>, input: Input): Promise<Output> => {
    const reply = await callAdminSocket(dataDir, { version: VERSION, operation: name, input })
    if (reply.kind === 'ok') return reply.value as Output
    throw new CommandError(
      reply.kind === 'refused'
        ? reply.message
        : 'The service has stopped meanwhile; see `tassis queue` for what it had taken on.',
    )
  }

function openUnlessInUse(config: Config, isLastTry: boolean): OpenedApp | undefined {
  try {
    // The log is the service's; of a command only what is wrong is worth a line.
    return openApp(config, { log: createLog(config.logLevel === 'silent' ? 'silent' : 'error') })
  } catch (error) {
    if (!(error instanceof DataDirInUse)) throw error
    if (adminSocketPath(config.dataDir) === undefined) throw pathTooLong(config.dataDir)
    if (isLastTry) {
      throw new CommandError(
        `${config.dataDir} belongs to another process, which does not answer on its admin socket; try again when it has started or ended.`,
      )
    }
    return undefined
  }
}

async function useOpened<T>(opened: OpenedApp, use: (call: Call) => Promise<T>, options: CallOptions): Promise<T> {
  try {
    const delivery = options.delivers ? await startDelivery(opened) : undefined
    try {
      const context: OperationContext = { opened, delivery }
      // By way of JSON, as through the socket.
      return await use(async (operation, input) => throughJson(await operation.run(context, throughJson(input))))
    } finally {
      await delivery?.stop()
    }
  } finally {
    await opened.close()
  }
}

const throughJson = <T>(value: T): T => JSON.parse(JSON.stringify(value ?? null)) as T
