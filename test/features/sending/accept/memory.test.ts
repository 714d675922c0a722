import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { randomBytes } from '#platform/ids.ts'
import { MiB } from '#platform/units.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { EMAIL, expectError } from '#test/support/email-api.ts'

const CHILD = new URL('../../../support/service-process.ts', import.meta.url).pathname

interface ServiceProcess extends AsyncDisposable {
  /** Peak memory of the process. */
  peakBytes(): number
  post(path: string, body: Blob): Promise<ApiResponse>
  isAlive(): boolean
}

async function startServiceProcess(settings: Record<string, string>): Promise<ServiceProcess> {
  const child = Bun.spawn([process.execPath, CHILD], {
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...settings },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const reader = child.stdout.getReader()
  let line = ''
  while (!line.includes('\n')) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`the service ended with ${await child.exited}`)
    line += new TextDecoder().decode(value)
  }
  const { url, key } = JSON.parse(line) as { url: string; key: string }
  return {
    peakBytes: () => Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) * 1024,
    isAlive: () => child.exitCode === null,
    async post(path, body) {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const response = await fetch(`${url}${path}`, { method: 'POST', headers, body })
      return { status: response.status, headers: response.headers, body: await response.json() }
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await child.exited
    },
  }
}

const CONTENT = Buffer.from(randomBytes(25 * MiB)).toString('base64')

/** The JSON of an email with an attachment of 25 MiB; `text` distinguishes emails. */
const largeEmail = (text: string, more: Record<string, unknown>): Blob => {
  const attachments = [{ filename: 'a.bin', content: CONTENT, content_type: 'a/b' }]
  return new Blob([JSON.stringify({ ...EMAIL, text_body: text, ...more, attachments })])
}

/** Memory allowed beside the budget: compressed blobs not yet on disk, and uncollected garbage. */
const BESIDE_BUDGET_BYTES = 64 * MiB

// Only Linux has /proc, which contains the peak memory.
test.skipIf(process.platform !== 'linux')(
  'of 12 parallel sends of 25 MiB with a memory budget of 256 MiB some are accepted, the others are a 503 with Retry-After, and memory stays limited',
  async () => {
    await using service = await startServiceProcess({ TASSIS_MEMORY_BUDGET: '256MiB' })
    const idleBytes = service.peakBytes()
    // With and without idempotency keys.
    const bodies = Array.from({ length: 12 }, (_, i) =>
      largeEmail(`email ${i}`, i % 2 === 0 ? {} : { idempotency_key: `k${i}` }),
    )
    const statuses: number[] = []
    // Two waves: memory left by one wave must not add up.
    for (let wave = 0; wave < 2; wave++) {
      const answers = await Promise.all(bodies.map((body) => service.post('/v1/emails', body)))
      for (const answer of answers) {
        statuses.push(answer.status)
        if (answer.status === 202) expect(at(answer.body, 'data', 'status')).toBe('queued')
        else expectError(answer, 503, 'server_busy')
      }
    }
    // One after the other, each fits: the memory of finished requests was released.
    for (const [i, body] of bodies.slice(0, 3).entries())
      expect({ i, status: (await service.post('/v1/emails', body)).status }).toEqual({ i, status: 202 })
    const peakBytes = service.peakBytes()
    expect(statuses).toContain(202)
    expect(statuses).toContain(503)
    expect(service.isAlive()).toBe(true)
    expect(peakBytes).toBeLessThan(idleBytes + 256 * MiB + BESIDE_BUDGET_BYTES)
    // The service then works normally.
    expect((await service.post('/v1/emails', new Blob([JSON.stringify(EMAIL)]))).status).toBe(202)
  },
  600_000,
)
