/** @module `tassis serve`: the service as a process, until SIGTERM or SIGINT. */
import { existsSync } from 'node:fs'
import { isIPv6 } from 'node:net'
import { join } from 'node:path'
import type { Command } from 'commander'
import { type Config, ConfigError } from '#platform/config.ts'
import { DataDirInUseError } from '../create.ts'
import type { Service } from '../service.ts'
import { loadConfig } from '../settings.ts'
import { VERSION } from '../version.ts'
import { print } from './output.ts'
import { findPortConflict } from './port-conflict.ts'
import { findSettingWarnings } from './setting-warnings.ts'

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('run the service until SIGTERM or SIGINT; a second signal ends it at once, with exit code 1')
    .action(async () => {
      const { config } = loadConfig()
      await runService(config, 'tassis serve', ({ url, inbound: { listener } }) => {
        const inbound = listener ? `, mail comes in at ${formatHostPort(listener)}` : ''
        print(`Tassis ${VERSION} listens on ${url} (data in ${config.dataDir}, delivery ${config.delivery}${inbound})`)
      })
    })
}

/**
 * Runs the service and resolves when it has stopped. The first signal stops it: no new work, begun deliveries end within 60 s. The second ends the
 * process at once with exit code 1; what it had begun is then settled at the next start.
 * @param command the line that starts it, for advice
 * @param onStarted called once; it may do first things
 */
export async function runService(
  config: Config,
  command: string,
  onStarted: (service: Service) => void | Promise<void>,
): Promise<void> {
  const signalled = Promise.withResolvers<string>()
  let signals = 0
  // Before anything starts, so that a signal in the middle of it is not lost.
  const starting = new AbortController()
  const onSignal = (signal: string) => {
    if (++signals > 1) process.exit(1)
    signalled.resolve(signal)
    starting.abort()
  }
  process.on('SIGTERM', () => onSignal('SIGTERM')).on('SIGINT', () => onSignal('SIGINT'))
  const service = await startOrExplain(config, command, starting.signal)
  // A signal ended the waiting of the start.
  if (!service) return
  const { log } = service.opened.app
  const onUnexpectedError = (error: unknown) => {
    // What is in memory can no longer be trusted; what is on disk can.
    log.fatal({ err: error }, 'the service ends because of an error that it does not expect')
    process.exit(1)
  }
  process.on('uncaughtException', onUnexpectedError).on('unhandledRejection', onUnexpectedError)
  for (const warning of findSettingWarnings(config)) log.warn(warning)
  const { listener } = service.inbound
  if (!listener && config.delivery !== 'capture')
    log.warn(
      'no mail comes in, because TASSIS_INBOUND_ADDR is not set: bounces and complaints that come by mail are lost; set it to 0.0.0.0:25',
    )
  if (!listener && (config.tlsCertFile !== '' || config.tlsKeyFile !== ''))
    log.warn('TASSIS_TLS_CERT_FILE and TASSIS_TLS_KEY_FILE are not used, because TASSIS_INBOUND_ADDR is not set')
  if (config.llmUrl !== '' && config.llmModel === '')
    log.warn(
      'TASSIS_LLM_URL is set but TASSIS_LLM_MODEL is not: there are no insights, and endpoints that have no model of their own classify nothing',
    )
  const inbound = listener && formatHostPort(listener)
  log.info({ url: service.url, version: VERSION, delivery: config.delivery, inbound }, 'started')
  try {
    await Promise.race([onStarted(service), signalled.promise])
    const signal = await signalled.promise
    log.info({ signal }, 'stopping: no new work; deliveries that have begun may end')
  } finally {
    await service.stop()
  }
  log.info('stopped')
}

/** As in a setting: an IPv6 address in brackets. */
export const formatHostPort = ({ host, port }: { readonly host: string; readonly port: number }): string =>
  `${isIPv6(host) ? `[${host}]` : host}:${port}`

/** A start that fails for a port in use says which line to use, and makes no data directory where there was none. */
async function startOrExplain(config: Config, command: string, ending: AbortSignal): Promise<Service | undefined> {
  const isNew = !existsSync(join(config.dataDir, 'tassis.db'))
  const conflict = isNew ? await findPortConflict(config, command) : undefined
  if (conflict) throw conflict
  try {
    // Loaded here: other commands begin in half the time without it.
    const { startService } = await import('../service.ts')
    return await startService(config, {}, ending)
  } catch (error) {
    if (ending.aborted && error === ending.reason) return undefined
    // A service on the same data has the port as well: that one is the reason to tell.
    if (!(error instanceof ConfigError) || error instanceof DataDirInUseError) throw error
    const isPortProblem = /^TASSIS_(?:HTTP|INBOUND)_ADDR/.test(error.message)
    throw isPortProblem ? ((await findPortConflict(config, command)) ?? error) : error
  }
}
