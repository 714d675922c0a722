/** @module The benchmarks for developers: `bun scripts/bench --help`. For operators there is `tassis bench`. */
import { tmpdir } from 'node:os'
import { Command, InvalidArgumentError, Option } from 'commander'
import { CommandError, createWholeNumberParser } from '#app/cli/options.ts'
import { MAX_NUMBER, parsePositive, withMeasuring } from '#bench/measure.ts'
import { createSendingBenchmark } from '#bench/sending.ts'
import { createAnalyticsBenchmark } from './analytics.ts'
import { createDashboardsBenchmark } from './dashboards.ts'
import { createImportBenchmark } from './imports.ts'
import { createListBenchmark } from './lists.ts'
import { createPeerBenchmarks } from './peers.ts'
import { createReceivingBenchmark } from './receiving.ts'
import { createReplicationBenchmark } from './replication.ts'
import { createSearchBenchmark } from './search.ts'
import { type SoakOptions, soak } from './soak.ts'
import { storeEmails } from './stored-emails.ts'
import { createSubmissionBenchmark } from './submission.ts'
import { createTemplateBenchmark } from './templates.ts'
import { createWebhookBenchmark } from './webhooks.ts'

const program = new Command('bun scripts/bench').description(
  'Benchmarks for developers, with temporary data. `tassis bench` measures sending alone.',
)

withMeasuring<{ stored: readonly number[]; emails: number }>(
  program
    .command('sending')
    .description('what `tassis bench` measures, with emails stored before')
    .addOption(
      new Option('--stored <list>', 'numbers of emails stored before, separated by commas')
        .argParser(parseWholeNumbers)
        .default([0, 100_000, 1_000_000], '0,100000,1000000'),
    )
    .option('--emails <n>', 'emails to deliver', parsePositive, 2000),
  ({ stored, emails }) => [
    createSendingBenchmark(
      emails,
      stored.map((count) => ({ title: `${count} stored`, fill: storeEmails({ emails: count }) })),
    ),
  ],
)
withMeasuring<{ postgres: string; emails: number }>(
  program
    .command('replication')
    .description('sending, alone and in a cluster; drops the tables of a cluster in the database')
    .requiredOption('--postgres <url>', 'an empty database of PostgreSQL')
    .option('--emails <n>', 'emails to deliver', parsePositive, 2000),
  ({ postgres, emails }) => [createReplicationBenchmark(postgres, emails)],
)
withMeasuring<{ messages: number }>(
  program
    .command('submission')
    .description('messages submitted over SMTP')
    .option('--messages <n>', 'messages to submit', parsePositive, 2000),
  ({ messages }) => [createSubmissionBenchmark(messages)],
)
withMeasuring<{ events: number }>(
  program
    .command('webhooks')
    .description('events delivered to a webhook')
    .option('--events <n>', 'events that wait', parsePositive, 100_000),
  ({ events }) => [createWebhookBenchmark(events)],
)
withMeasuring<{ messages: number }>(
  program
    .command('receiving')
    .description('messages received over SMTP')
    .option('--messages <n>', 'messages to receive', parsePositive, 3000),
  ({ messages }) => [createReceivingBenchmark(messages)],
)
withMeasuring<{ emails: number }>(
  program
    .command('lists')
    .description('time of lists of emails, and of redirects of tracked links')
    .option('--emails <n>', 'emails stored', parsePositive, 100_000),
  ({ emails }) => [createListBenchmark(emails)],
)

withMeasuring<{ events: number }>(
  program
    .command('analytics')
    .description('time of the analytics of a year of mail (10000000 events take some 10 minutes and 6 GB)')
    .option('--events <n>', 'events stored', parsePositive, 1_000_000),
  ({ events }) => [createAnalyticsBenchmark(events)],
)
withMeasuring<{ emails: number }>(
  program
    .command('search')
    .description('time of searches (10000000 emails take some 20 minutes and 5 GB)')
    .option('--emails <n>', 'emails stored', parsePositive, 1_000_000),
  ({ emails }) => [createSearchBenchmark(emails)],
)
withMeasuring<{ contacts: number }>(
  program
    .command('imports')
    .description('import of contacts from one CSV file')
    .option('--contacts <n>', 'contacts of the file', parsePositive, 1_000_000),
  ({ contacts }) => [createImportBenchmark(contacts)],
)
withMeasuring<{ renders: number }>(
  program
    .command('templates')
    .description('time to render a template')
    .option('--renders <n>', 'templates to render', parsePositive, 5000),
  ({ renders }) => [createTemplateBenchmark(renders)],
)
withMeasuring<{ open: number; emails: number }>(
  program
    .command('dashboards')
    .description('sending without and with open dashboards')
    .option('--open <n>', 'open dashboards', parsePositive, 20)
    .option('--emails <n>', 'emails to deliver', parsePositive, 2000),
  ({ open, emails }) => [createDashboardsBenchmark(open, emails)],
)
withMeasuring<Parameters<typeof createPeerBenchmarks>[0]>(
  program
    .command('peers')
    .description(
      'the same messages through Tassis and through Postfix with OpenDKIM, each with its defaults and durable acceptance, over 20 connections to the same sink, without and with TLS; then Tassis while a queue waits. CPU time is that of all processes of a service',
    )
    .option('--messages <n>', 'messages a run', parsePositive, 2000)
    .option(
      '--warm-up <n>',
      'messages before them, not measured; Bun compiles for the first 20,000',
      createWholeNumberParser(0, MAX_NUMBER),
      200,
    )
    .addOption(
      new Option('--queued <list>', 'emails that wait and are due, to one and to 10,000 domains; none: skip')
        .argParser(parseWholeNumbers)
        .default([0, 100_000, 1_000_000], '0,100000,1000000'),
    ),
  createPeerBenchmarks,
)
program
  .command('soak')
  .description('steady mixed load; growth of memory, descriptors, WAL and disk. Fails above 500 MiB or if mail is lost')
  .option('--minutes <n>', 'how long', parseMinutes, 10)
  .option('--load <percent>', 'of what this machine accepts and delivers, which is measured first', parsePositive, 30)
  .option('--rate <n>', 'emails per second, instead of measuring', parsePositive)
  .option('--folder <path>', 'folder for the temporary data', tmpdir())
  .action((options: SoakOptions) => soak(options))

function parseWholeNumbers(text: string): number[] {
  if (text === 'none') return []
  if (!/^\d{1,8}(,\d{1,8})*$/.test(text))
    throw new InvalidArgumentError('It must be whole numbers separated by commas.')
  return text.split(',').map(Number)
}

function parseMinutes(text: string): number {
  if (!/^\d{1,4}(\.\d)?$/.test(text))
    throw new InvalidArgumentError('It must be a number of minutes, such as 10 or 0.5.')
  return Number(text)
}

try {
  await program.parseAsync()
  process.exit(0)
} catch (error) {
  console.error(error instanceof CommandError ? error.message : error)
  process.exit(1)
}
