import { expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { createFolder, createHold, KilledService } from '#test/kill/run.ts'
import { prepareDataDirectory, SENDER_DOMAIN } from '#test/kill/service.ts'
import { eventually } from '#test/support/app.ts'
import { grepData } from '#test/support/grep-data.ts'

const PERSON = 'marker.qzx@receiver.test'
const OTHER = 'other@receiver.test'
/** Emails to the person, and as many to others. */
const EMAILS = 1000
const BATCH = 500
/** Rows erased when the service is killed. */
const KILLED_AT = [50, 700, 1500]
/** How many more it may erase until the kill comes. */
const MAX_MORE = 200

// Proves: privacy-2
test('after kill -9 at any moment, an erasure continues to its end and leaves nothing of the person', async () => {
  const folder = createFolder()
  const hold = createHold(folder, 'SELECT max(rows) AS n FROM erasures')
  const service = await KilledService.make(folder, hold.settings)
  try {
    const key = await prepareDataDirectory(service.settings)
    hold.holdAt((KILLED_AT[0] ?? 0) + MAX_MORE)
    await service.start()
    const ask = async (method: string, path: string, body?: unknown) => {
      const response = await fetch(`${service.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      return (await response.json()) as Record<string, unknown> & { data: Record<string, unknown> }
    }
    const later = new Date(performance.timeOrigin + 86_400_000).toISOString()
    for (let from = 0; from < 2 * EMAILS; from += BATCH) {
      const emails = Array.from({ length: BATCH }, (_, i) => ({
        from: `ada@${SENDER_DOMAIN}`,
        to: (from + i) % 2 === 0 ? PERSON : OTHER,
        subject: `For you ${from + i}`,
        text_body: (from + i) % 2 === 0 ? `${from + i} is for ${PERSON}` : `${from + i} is for somebody`,
        send_at: later,
      }))
      expect((await ask('POST', '/v1/emails/batch', { emails })).data).toHaveLength(BATCH)
    }
    await ask('POST', '/v1/suppressions', { email_address: PERSON })
    const erasure = ask('DELETE', `/v1/gdpr/erase?email=${PERSON}`).catch(() => undefined)
    const rowsLeft = () => {
      using db = service.openBooks()
      return db.query<{ rows: number }, []>('SELECT rows FROM erasures').get()?.rows
    }
    const killed: number[] = []
    for (const [index, count] of KILLED_AT.entries()) {
      await eventually(() => (rowsLeft() ?? 0) >= count, 120_000)
      await service.running?.kill()
      await erasure
      killed.push(rowsLeft() ?? -1)
      const next = KILLED_AT[index + 1]
      hold.holdAt((next ?? Number.POSITIVE_INFINITY) + MAX_MORE)
      // It may be held before it serves.
      if (next === undefined) await service.start()
      else service.begin()
    }
    // Each kill hits the middle of the erasure.
    expect(killed.filter((rows) => rows < 0 || rows >= 2 * EMAILS)).toEqual([])

    await eventually(() => rowsLeft() === undefined, 120_000)
    const { data } = await ask('GET', '/v1/operations')
    const operation = (data as unknown as Record<string, unknown>[]).find(
      (each) => each['operation_type'] === 'gdpr_erase',
    )
    // A recipient, an event and the email itself, each once, even if a step was repeated; the suppression, and its log
    // entry.
    expect(operation).toMatchObject({ status: 'completed', metadata: { rows_deleted: 2 * EMAILS + 2 } })
    const counts = await ask('GET', '/v1/emails?status=scheduled&per_page=1')
    expect(counts['pagination']).toMatchObject({ total: EMAILS })
    expect(await service.stop()).toEqual([])
    expect(grepData(folder, ['marker.qzx'])).toEqual([])
  } finally {
    await service.running?.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}, 600_000)
