import { expect, test } from 'bun:test'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { createFolder, createHold, KilledService } from '#test/kill/run.ts'
import { prepareDataDirectory } from '#test/kill/service.ts'
import { eventually } from '#test/support/app.ts'

const LINES = 6_000
/** Contacts on the list when the service is killed. */
const KILLED_AT = [500, 2_000, 4_000]
/** How many more it may import until the kill comes. */
const MAX_MORE = 1_000

/** Every 50th line is invalid, and every 70th one was on the list before. */
const lineOf = (i: number): string => (i % 50 === 0 ? `nobody ${i}` : i % 70 === 0 ? 'u1@x.test' : `u${i}@x.test`)

// Proves: contact-20
test('kill -9 at any moment of an import neither skips a line nor imports one twice, and a partly received file is deleted', async () => {
  const folder = createFolder()
  const hold = createHold(folder, 'SELECT COUNT(*) AS n FROM contacts')
  const service = await KilledService.make(folder, hold.settings)
  try {
    const key = await prepareDataDirectory(service.settings)
    hold.holdAt((KILLED_AT[0] ?? 0) + MAX_MORE)
    await service.start()
    const ask = async (method: string, path: string, body?: string, type = 'application/json') => {
      const response = await fetch(`${service.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, ...(body !== undefined && { 'content-type': type }) },
        ...(body !== undefined && { body }),
      })
      return ((await response.json()) as { data: Record<string, unknown> }).data
    }
    const list = (await ask('POST', '/v1/contact-lists', JSON.stringify({ name: 'People' })))['id']
    const path = `/v1/contact-lists/${list}/contacts/import`
    const lines = Array.from({ length: LINES }, (_, i) => lineOf(i + 1))
    const files = () => (existsSync(service.file('imports')) ? readdirSync(service.file('imports')) : [])
    const coming = connect(Number(new URL(service.url).port), '127.0.0.1')
    coming.on('error', () => undefined)
    coming.write(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: text/csv\r\nContent-Length: 99\r\n\r\na@x.test\n`,
    )
    await eventually(() => files().length === 1)
    const begun = await ask('POST', path, `email\n${lines.join('\n')}\n`, 'text/csv')
    const killed: number[] = []
    for (const [index, count] of KILLED_AT.entries()) {
      using db = service.openBooks()
      const contacts = db.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM contacts')
      const there = () => contacts.get()?.n ?? 0
      await eventually(() => there() >= count, 120_000)
      await service.running?.kill()
      killed.push(there())
      const next = KILLED_AT[index + 1]
      hold.holdAt((next ?? Number.POSITIVE_INFINITY) + MAX_MORE)
      // It may be held before it serves.
      if (next === undefined) await service.start()
      else service.begin()
    }
    // Each kill comes in the middle of the import.
    expect(killed.filter((count) => count >= LINES * 0.95)).toEqual([])

    const operation = await eventually(async () => {
      const found = await ask('GET', `/v1/operations/${begun['operation_id']}`)
      return found['completed_at'] !== null && found
    })
    const wrong = lines.filter((line) => line.startsWith('nobody')).length
    const addresses = [...new Set(lines.filter((line) => line.includes('@')))]
    const { status, total_items, completed_items, failed_items, metadata } = operation
    const { inserted, duplicates } = metadata as { inserted: number; duplicates: number }
    expect({ status, total_items, completed_items, failed_items, inserted, duplicates }).toEqual({
      status: 'completed',
      total_items: LINES,
      completed_items: LINES - wrong,
      failed_items: wrong,
      inserted: addresses.length,
      duplicates: LINES - wrong - addresses.length,
    })
    await eventually(() => files().length === 0)
    {
      using db = service.openBooks()
      const stored = db.query<{ address: string }, []>('SELECT address_key AS address FROM contacts ORDER BY id').all()
      expect(stored.map(({ address }) => address)).toEqual(addresses)
      expect((await ask('GET', `/v1/contact-lists/${list}`))['contact_count']).toBe(addresses.length)
    }
    // Stops it, and checks the consistency rules.
    expect(await service.stop()).toEqual([])
  } finally {
    await service.running?.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}, 600_000)
