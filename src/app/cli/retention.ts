/** @module `tassis retention run`: deletes expired and excess data immediately, as the service does every hour. */
import type { Command } from 'commander'
import { apiAction } from './api.ts'
import { addCommand } from './options.ts'
import { formatCount, printResult } from './output.ts'

export function addRetentionCommands(program: Command): void {
  const retention = program.command('retention').description('delete expired and excess data')
  addCommand(
    retention,
    'run',
    'delete data beyond its retention or size limit now, as the service does every hour',
  ).action(
    apiAction(async ({ api, options }) =>
      printResult(
        options,
        await api.operator.runRetention(),
        ({ data: { content, events, inbound, logs, audit } }) =>
          `Content removed of ${formatCount(content, 'email')}.\nRemoved: ${formatCount(logs, 'email')}, ${formatCount(events, 'event')}, ${formatCount(inbound, 'received message')}, ${audit === 1 ? '1 entry' : `${audit} entries`} of the audit log.`,
      ),
    ),
  )
}
