/** @module Imports: uploads and imports one CSV file of contacts while a loop polls /healthz. */
import { join } from 'node:path'
import { CommandError } from '#app/cli/options.ts'
import type { Benchmark, Values } from '#bench/measure.ts'
import { observe, readUsage, startService, waitUntil } from '#bench/processes.ts'
import { systemClock } from '#platform/time/clock.ts'
import { MiB } from '#platform/units.ts'
import { HEALTH_FIGURES, pollHealth } from './health.ts'

const SETTLE_MS = 1000

/** @param contacts number of contacts of the file */
export const createImportBenchmark = (contacts: number): Benchmark => ({
  name: 'imports',
  description: `${contacts} contacts of one CSV file, uploaded and imported; each batch durable before the next.`,
  figures: [
    ['upload_mib_per_second', 'uploaded MiB/s, until the 202', 0],
    ['imported_per_second', 'contacts imported/s', 0],
    ['imported_cpu_ms', '  CPU ms per contact', 3],
    ['peak_rss_mib', 'peak RSS MiB', 0],
    ['grown_rss_mib', '  growth', 0],
    ...HEALTH_FIGURES,
  ],
  async prepare({ folder, create, onCopy }) {
    const file = join(folder, 'contacts.csv')
    await writeContacts(file, contacts)
    const { dataDir, key } = await create('imports')
    return [{ title: 'runs', run: () => onCopy(dataDir, (copy) => runImport(copy, key, file, contacts)) }]
  },
})

async function writeContacts(file: string, count: number): Promise<void> {
  const writer = Bun.file(file).writer()
  writer.write('email,first_name,city\n')
  for (let number = 0; number < count; number++) {
    writer.write(`contact-${String(number).padStart(8, '0')}@receiver-${number % 1000}.bench.test,Ada ${number},Oslo\n`)
    if (number % 10_000 === 0) await writer.flush()
  }
  await writer.end()
}

interface Operation {
  readonly status: string
  readonly completed_items: number
  readonly failed_items: number
}

/** Measures one run. CPU time is that of the service only: user and system, all threads. */
async function runImport(dataDir: string, key: string, file: string, count: number): Promise<Values> {
  await using service = await startService(dataDir, {})
  const { pid, port } = service
  const request = async <T>(path: string, type?: string, body?: string | Blob): Promise<T> => {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/${path}`, {
      method: type === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${key}`, ...(type !== undefined && { 'content-type': type }) },
      ...(body !== undefined && { body }),
    })
    if (!answer.ok) throw new CommandError(`${path} was answered with ${answer.status}: ${await answer.text()}`)
    return ((await answer.json()) as { data: T }).data
  }
  const list = await request<{ id: string }>('contact-lists', 'application/json', JSON.stringify({ name: 'Bench' }))
  await systemClock.sleep(SETTLE_MS)
  const { rssMiB } = readUsage(pid)
  const health = pollHealth(port)
  const uploaded = await observe(pid, () =>
    request<{ operation_id: string }>(`contact-lists/${list.id}/contacts/import`, 'text/csv', Bun.file(file)),
  )
  const imported = await observe(pid, async () => {
    let last: Operation | undefined
    const isDone = async () => {
      last = await request<Operation>(`operations/${uploaded.value.operation_id}`)
      return !['pending', 'processing'].includes(last.status)
    }
    await waitUntil(isDone, () => `Only ${last?.completed_items} of ${count} contacts were imported.`, 50)
    if (last?.completed_items !== count) throw new CommandError(`The import ended as ${JSON.stringify(last)}.`)
  })
  const { peakRssMiB } = readUsage(pid)
  return {
    upload_mib_per_second: Bun.file(file).size / MiB / uploaded.seconds,
    imported_per_second: count / imported.seconds,
    imported_cpu_ms: (uploaded.cpuMs + imported.cpuMs) / count,
    peak_rss_mib: peakRssMiB,
    grown_rss_mib: peakRssMiB - rssMiB,
    ...(await health.stop()),
  }
}
