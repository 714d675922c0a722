/** @module `tassis serve`: the service as a process, until SIGTERM or SIGINT. */
import type { Command } from 'commander'
import { type Config, loadConfig } from '#platform/config.ts'
import { type Service, startService } from '../service.ts'
import { VERSION } from '../version.ts'
import { print } from './output.ts'

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('run the service until SIGTERM or SIGINT; a second signal ends it at once, with exit code 1')
    .action(async () => {
      const { config } = loadConfig()
      await runService(config, ({ url }) => {
        print(`Tassis ${VERSION} listens on ${url} (data in ${config.dataDir}, delivery ${config.delivery})`)
      })
    })
}

/**
 * Runs the service and resolves when it has stopped. The first signal stops it: no new work, begun deliveries end within 60 s. The second ends the
 * process at once with exit code 1; what it had begun is then settled at the next start.
 * @param onStarted called once; it may do first things
 */
export async function runService(config: Config, onStarted: (service: Service) => void | Promise<void>): Promise<void> {
  const signalled = Promise.withResolvers<string>()
  let signals = 0
  // Before anything starts, so that a signal in the middle of it is not lost.
  const onSignal = (signal: string) => {
    if (++signals > 1) process.exit(1)
    signalled.resolve(signal)
  }
  process.on('SIGTERM', () => onSignal('SIGTERM')).on('SIGINT', () => onSignal('SIGINT'))
  const service = await startService(config)
  const { log } = service.opened.app
  const onBug = (error: unknown) => {
    // What is in memory can no longer be trusted; what is on disk can.
    log.fatal({ err: error }, 'the service ends because of an error that it does not expect')
    process.exit(1)
  }
  process.on('uncaughtException', onBug).on('unhandledRejection', onBug)
  log.info({ url: service.url, version: VERSION, delivery: config.delivery }, 'started')
  try {
    await Promise.race([onStarted(service), signalled.promise])
    const signal = await signalled.promise
    log.info({ signal }, 'stopping: no new work; deliveries that have begun may end')
  } finally {
    await service.stop()
  }
  log.info('stopped')
}
