/** @module The import benchmark: uploads and imports one CSV file of contacts while a loop polls /healthz. */
import { join } from 'node:path'
import { CommandError } from '#app/cli/admin-command.ts'
import { systemClock } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { MiB } from '#platform/units.ts'
import { readUsage, startService } from './processes.ts'
import { seedDataDirectory } from './seed.ts'

/** Results of a run. CPU time is that of the service only: user and system, all threads. */
export interface ImportStats {
  /** From the first octet of the file to the 202. */
  readonly uploadMiBPerSecond: number
  /** From the 202 to the completed operation. */
  readonly importedPerSecond: number
  readonly importedCpuMs: number
  /** Peak memory of the service during the run, above its memory before. */
  readonly grownRssMiB: number
  readonly peakRssMiB: number
  /** Latency of GET /healthz, polled from the first octet to the end. */
  readonly healthP99Ms: number
  readonly healthWorstMs: number
}

export const IMPORT_STAT_NAMES = [
  'uploadMiBPerSecond',
  'importedPerSecond',
  'importedCpuMs',
  'grownRssMiB',
  'peakRssMiB',
  'healthP99Ms',
  'healthWorstMs',
] as const satisfies readonly (keyof ImportStats)[]

export interface ImportFixture {
  readonly dataDir: string
  readonly key: string
  readonly file: string
  readonly count: number
}

const POLL_INTERVAL_MS = 10
const SETTLE_MS = 1000
const MAX_SECONDS = 1800

/** Creates the data directory and the file. @param folder where both are created */
export async function prepareImport(folder: string, config: Config, count: number): Promise<ImportFixture> {
  const file = join(folder, 'contacts.csv')
  const writer = Bun.file(file).writer()
  writer.write('email,first_name,city\n')
  for (let number = 0; number < count; number++) {
    writer.write(`contact-${String(number).padStart(8, '0')}@receiver-${number % 1000}.bench.test,Ada ${number},Oslo\n`)
    if (number % 10_000 === 0) await writer.flush()
  }
  await writer.end()
  return { dataDir: config.dataDir, key: await seedDataDirectory(config, 0), file, count }
}

/** Measures one run against a copy of the data directory. */
export async function runImport({ key, file, count }: ImportFixture, dataDir: string): Promise<ImportStats> {
  await using service = await startService(dataDir, {
    TASSIS_IMPORT_MAX_BYTES: '100GiB',
  })
  const url = `http://127.0.0.1:${service.port}`
  const headers = { authorization: `Bearer ${key}` }
  const listId = await createList(url, headers)
  await systemClock.sleep(SETTLE_MS)
  const before = readUsage(service.pid)
  const health = pollHealth(url)

  const uploadedMs = systemClock.monotonicMs()
  const answer = await fetch(`${url}/v1/contact-lists/${listId}/contacts/import`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'text/csv' },
    body: Bun.file(file),
  })
  const started = (await answer.json()) as { data: { operation_id: string } }
  if (answer.status !== 202) throw new CommandError(`The import was refused: ${JSON.stringify(started)}`)
  const startedMs = systemClock.monotonicMs()
  await waitUntilImported(url, headers, started.data.operation_id, count)
  const seconds = (systemClock.monotonicMs() - startedMs) / 1000
  const waitedMs = (await health.stop()).toSorted((a, b) => a - b)
  const after = readUsage(service.pid)
  return {
    uploadMiBPerSecond: Bun.file(file).size / MiB / ((startedMs - uploadedMs) / 1000),
    importedPerSecond: count / seconds,
    importedCpuMs: (after.cpuMs - before.cpuMs) / count,
    grownRssMiB: after.peakRssMiB - before.rssMiB,
    peakRssMiB: after.peakRssMiB,
    healthP99Ms: waitedMs[Math.floor(waitedMs.length * 0.99)] ?? Number.NaN,
    healthWorstMs: waitedMs.at(-1) ?? Number.NaN,
  }
}

async function createList(url: string, headers: Record<string, string>): Promise<string> {
  const answer = await fetch(`${url}/v1/contact-lists`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Bench' }),
  })
  const { data } = (await answer.json()) as { data: { id: string } }
  return data.id
}

/** Polls until stopped; `stop` returns the latency of each response. */
export function pollHealth(url: string): { stop(): Promise<number[]> } {
  const waitedMs: number[] = []
  let hasStopped = false
  const polling = (async () => {
    while (!hasStopped) {
      const askedMs = systemClock.monotonicMs()
      const answer = await fetch(`${url}/healthz`)
      await answer.arrayBuffer()
      if (!answer.ok) throw new CommandError('The service was not healthy during the import.')
      waitedMs.push(systemClock.monotonicMs() - askedMs)
      await systemClock.sleep(POLL_INTERVAL_MS)
    }
  })()
  return {
    async stop() {
      hasStopped = true
      await polling
      return waitedMs
    },
  }
}

interface OperationResponse {
  readonly data: { readonly status: string; readonly completed_items: number; readonly failed_items: number }
}

/** Resolves when all contacts are imported. */
async function waitUntilImported(
  url: string,
  headers: Record<string, string>,
  id: string,
  count: number,
): Promise<void> {
  const untilMs = systemClock.monotonicMs() + MAX_SECONDS * 1000
  for (;;) {
    const { data } = (await (await fetch(`${url}/v1/operations/${id}`, { headers })).json()) as OperationResponse
    if (data.status === 'completed' && data.completed_items === count && data.failed_items === 0) return
    if (data.status !== 'pending' && data.status !== 'processing')
      throw new CommandError(`The import ended as ${data.status} with ${data.completed_items} of ${count} contacts.`)
    if (systemClock.monotonicMs() > untilMs)
      throw new CommandError(`Only ${data.completed_items} of ${count} contacts were imported in ${MAX_SECONDS} s.`)
    await systemClock.sleep(50)
  }
}
