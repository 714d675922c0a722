/** @module `tassis retention run`: deletes expired and excess data immediately, as the service does every hour. */
import type { Command } from 'commander'
import { type RemovedCounts, runRetention } from '#features/lifecycle/retention/run.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand } from './admin-command.ts'
import { withData } from './call.ts'
import { addCommand, type JsonOption } from './options.ts'
import { formatCount, printResult } from './output.ts'

const run = defineAdminCommand('retention.run', ({ opened: { app } }): Promise<RemovedCounts> => runRetention(app))

export const retentionAdminCommands = [run]

export function addRetentionCommands(program: Command): void {
  const retention = program.command('retention').description('delete expired and excess data')
  addCommand(
    retention,
    'run',
    'delete data beyond its retention or size limit now, as the service does every hour',
  ).action(async (options: JsonOption) => {
    const { config } = loadConfig()
    await withData(config, async (call) => printResult(options, await call(run, {}), formatRemoved))
  })
}

const formatRemoved = ({ content, events, inbound, logs, audit }: RemovedCounts): string =>
  [
    `Content removed of ${formatCount(content, 'email')}.`,
    `Removed: ${formatCount(logs, 'email')}, ${formatCount(events, 'event')}, ${formatCount(inbound, 'received message')}, ${formatCount(audit, 'entry')} of the audit log.`.replace(
      /entrys/,
      'entries',
    ),
  ].join('\n')
