/** @module `tassis bench`. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { UsageError } from '#app/cli/errors.ts'
import { createListBenchmark } from './lists.ts'
import { type Benchmark, parseCount, parsePositive, withMeasuring } from './measure.ts'
import { createReceivingBenchmark } from './receiving.ts'
import { createSendingBenchmark } from './sending.ts'
import { createWebhookBenchmark } from './webhooks.ts'

interface Options {
  readonly stored: readonly number[]
  readonly emails: number
  readonly events: number
  readonly received: number
  readonly list: number
}

export function addBenchCommand(program: Command): void {
  const command = program
    .command('bench')
    .description('benchmark this machine with temporary data: emails accepted and delivered per second')
    .addOption(
      new Option('--stored <list>', 'numbers of emails stored before, separated by commas; none: no sending')
        .argParser(parseWholeNumbers)
        .default([0, 100_000, 1_000_000], '0,100000,1000000'),
    )
    .option(
      '--emails <n>',
      'emails to deliver; five times as many are accepted while delivery is held',
      parsePositive,
      2000,
    )
    .option('--events <n>', 'events to deliver to a webhook; 0: none', parseCount, 100_000)
    .option('--received <n>', 'messages to receive over SMTP; 0: none', parseCount, 3000)
    .option('--list <n>', 'emails stored to be listed and searched; 0: no lists and redirects', parseCount, 100_000)
    .addHelpText(
      'after',
      '\nWith the defaults this takes about half an hour and some gigabytes of disk on a small machine. For a quick run:\n  tassis bench --stored 0 --runs 1 --events 10000 --received 500 --list 0',
    )
  withMeasuring(command, selectBenchmarks)
}

/** Throws UsageError if nothing is to be measured. */
function selectBenchmarks({ stored, emails, events, received, list }: Options): Benchmark[] {
  const benchmarks = [
    ...(stored.length > 0 ? [createSendingBenchmark(stored, emails)] : []),
    ...(events > 0 ? [createWebhookBenchmark(events)] : []),
    ...(received > 0 ? [createReceivingBenchmark(received)] : []),
    ...(list > 0 ? [createListBenchmark(list)] : []),
  ]
  if (benchmarks.length > 0) return benchmarks
  throw new UsageError(
    'Nothing is to be measured: with --stored none, at least one of --events, --received and --list must be above 0.',
  )
}

export function parseWholeNumbers(text: string): number[] {
  if (text === 'none') return []
  if (!/^\d{1,8}(,\d{1,8})*$/.test(text))
    throw new InvalidArgumentError('It must be whole numbers separated by commas.')
  return text.split(',').map(Number)
}
