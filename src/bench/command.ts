/** @module `tassis bench`. */
import type { Command } from 'commander'
import { parsePositive, withMeasuring } from './measure.ts'
import { createSendingBenchmark } from './sending.ts'

export function addBenchCommand(program: Command): void {
  const command = program
    .command('bench')
    .description('benchmark this machine with temporary data: emails accepted and delivered per second')
    .option(
      '--emails <n>',
      'emails to deliver; five times as many are accepted while delivery is held',
      parsePositive,
      2000,
    )
    .addHelpText('after', '\nFor a quick run: tassis bench --emails 500 --runs 1')
  withMeasuring<{ emails: number }>(command, ({ emails }) => [createSendingBenchmark(emails)])
}
