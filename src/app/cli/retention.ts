/** @module `tassis retention run`: removes now what is too old or too much, as the service does every hour. */
import type { Command } from 'commander'
import { type Removed, runRetention } from '#features/lifecycle/retention/run.ts'
import { loadConfig } from '../settings.ts'
import { withData } from './call.ts'
import { operation } from './operation.ts'
import { type JsonOption, withJson } from './options.ts'
import { counted, report } from './output.ts'

const run = operation('retention.run', ({ opened: { app } }): Promise<Removed> => runRetention(app))

export const retentionOperations = [run]

export function addRetentionCommands(program: Command): void {
  const retention = program.command('retention').description('what is removed by age and by size')
  withJson(
    retention
      .command('run')
      .description('remove now what is older than its age or beyond its size, as the service does every hour'),
  ).action(async (options: JsonOption) => {
    const { config } = loadConfig()
    await withData(config, async (call) => report(options, await call(run, {}), removedText))
  })
}

const removedText = ({ content, events, inbound, logs, audit }: Removed): string =>
  [
    `Content removed of ${counted(content, 'email')}.`,
    `Removed: ${counted(logs, 'email')}, ${counted(events, 'event')}, ${counted(inbound, 'received message')}, ${counted(audit, 'entry')} of the audit log.`.replace(
      /entrys/,
      'entries',
    ),
  ].join('\n')
