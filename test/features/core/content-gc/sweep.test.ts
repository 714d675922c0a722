/**
 * @module Content is deleted once the last row that refers to it drops its reference, never earlier, and never while it
 * is being stored.
 */
import { describe, expect, test } from 'bun:test'
import { dropContent, dropContentOnFailure } from '#features/core/content-gc/garbage.ts'
import { hasGarbage, requestScrub, startSweeper, sweep } from '#features/core/content-gc/sweep.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { days, minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, NOW } from '#test/support/email-api.ts'

const readRefs = (api: EmailApi, id: string) =>
  api.app.db
    .query<{ id: number; html: number; text: number; attachments: string | null }, [Uint8Array]>(
      'SELECT id, html_ref AS html, text_ref AS text, attachments FROM emails WHERE uuid = ?',
    )
    .get(Buffer.from(id.replaceAll('-', ''), 'hex')) ?? { id: 0, html: 0, text: 0, attachments: null }

/** Drops the content of an email, as retention and erasure do. */
async function dropEmail(api: EmailApi, id: string): Promise<number[]> {
  const { id: rowId, html, text, attachments } = readRefs(api, id)
  const files = [...(attachments ?? '').matchAll(/"ref":(\d+)/g)].map(([, ref]) => Number(ref))
  await api.app.commit.write((tx) => {
    tx.db.run('UPDATE emails SET html_ref = NULL, text_ref = NULL, attachments = NULL WHERE id = ?', [rowId])
    dropContent(api.app, tx, { content: [html, text, ...files] })
  })
  return [html, text, ...files]
}

const isOnDisk = (api: EmailApi, ref: number): boolean => {
  try {
    return api.app.content.get(ref).length > 0
  } catch (error) {
    if (error instanceof MissingBlobError) return false
    throw error
  }
}

const createBodies = (word: string) => ({ html_body: `<p>${word.repeat(400)}</p>`, text_body: word.repeat(400) })
const createAttachment = (name: string, length: number) => ({
  filename: `${name}.bin`,
  content_type: 'application/octet-stream',
  content: Buffer.alloc(length, name).toString('base64'),
})

describe('the sweep', () => {
  test('deletes bodies, attachments and files to which no row refers', async () => {
    await using api = await createEmailApi()
    const sent = await api.accepted({
      ...createBodies('gone '),
      attachments: [createAttachment('large', 700_000), createAttachment('small', 20)],
    })
    const kept = await api.accepted(createBodies('kept '))
    const dropped = await dropEmail(api, sent.id)
    expect(dropped.length).toBe(4)
    expect(await sweep(api.app)).toBe(0)
    expect(dropped.map((ref) => isOnDisk(api, ref))).toEqual([false, false, false, false])
    expect(await api.detail(kept.id)).toMatchObject(createBodies('kept '))
    expect(hasGarbage(api.app.db)).toBe(false)
  })

  test('keeps content that another row holds, and deletes it once that row drops it too', async () => {
    await using api = await createEmailApi()
    const shared = { ...createBodies('shared '), attachments: [createAttachment('same', 40_000)] }
    const [first, second] = [await api.accepted(shared), await api.accepted(shared)]
    const refs = await dropEmail(api, first.id)
    api.clock.advance(minutes(6))
    expect(await sweep(api.app)).toBe(0)
    expect(refs.every((ref) => isOnDisk(api, ref))).toBe(true)
    expect(await api.detail(second.id)).toMatchObject(createBodies('shared '))
    await dropEmail(api, second.id)
    await sweep(api.app)
    expect(refs.some((ref) => isOnDisk(api, ref))).toBe(false)
  })

  test('keeps content stored again within the last minutes, because its row may not be written yet', async () => {
    await using api = await createEmailApi()
    const sent = await api.accepted(createBodies('again '))
    const { text } = readRefs(api, sent.id)
    await dropEmail(api, sent.id)
    const [given = 0] = await api.app.content.put([Buffer.from('again '.repeat(400))], api.clock.now())
    expect(given).toBe(text)
    expect(await sweep(api.app)).toBe(1)
    expect(isOnDisk(api, text)).toBe(true)
    api.clock.advance(minutes(6))
    expect(await sweep(api.app)).toBe(0)
    expect(isOnDisk(api, text)).toBe(false)
  })

  test('never deletes content of emails accepted while it runs', async () => {
    await using api = await createEmailApi()
    const accepted: string[] = []
    for (let round = 0; round < 15; round++) {
      const ids = await Promise.all(
        Array.from({ length: 8 }, (_, index) =>
          api.accepted(createBodies(`word ${(round + index) % 5} `)).then(({ id }) => id),
        ),
      )
      const gone = ids.filter((_, index) => index % 2 === 0)
      accepted.push(...ids.filter((_, index) => index % 2 === 1))
      await Promise.all(gone.map((id) => dropEmail(api, id)))
      api.clock.advance(minutes(round % 3 === 0 ? 6 : 1))
      const [more] = await Promise.all([api.accepted(createBodies(`word ${round % 5} `)), sweep(api.app)])
      accepted.push(more.id)
    }
    for (const id of accepted) expect(typeof (await api.detail(id))['html_body']).toBe('string')
  })

  test('deletes content stored for a rejected email and for a second email with the same idempotency key', async () => {
    await using api = await createEmailApi()
    const parts = () =>
      api.app.content.databases().map((db) => db.query('SELECT count(*) AS n FROM parts WHERE encoding <> 3').get())
    const kept = await api.accepted({ ...createBodies('kept '), idempotency_key: 'one' })
    const before = parts()
    const refs = await api.app.content.put([Buffer.from('refused '.repeat(99))], api.clock.now())
    const refused = dropContentOnFailure(api.app, { content: refs }, async () => {
      throw new Error('refused')
    })
    await expect(refused).rejects.toThrow('refused')
    await Promise.all([1, 2, 3].map((n) => api.send({ ...createBodies(`other ${n} `), idempotency_key: 'two' })))
    await sweep(api.app)
    // Two more, of the one accepted email.
    expect([before, parts()]).toEqual([[{ n: 2 }], [{ n: 4 }]])
    expect(await api.detail(kept.id)).toMatchObject(createBodies('kept '))
  })

  test('scans past months for blobs to which no row ever referred', async () => {
    await using api = await createEmailApi()
    const kept = await api.accepted(createBodies('kept '))
    const [orphan = 0] = await api.app.content.put([Buffer.from('refused after it was stored')], NOW)
    api.clock.advance(days(40))
    const sweeper = startSweeper(api.app)
    try {
      api.clock.advance(minutes(61))
      sweeper.wake()
      await eventually(() => !isOnDisk(api, orphan))
    } finally {
      await sweeper.stop()
    }
    expect(await api.detail(kept.id)).toMatchObject(createBodies('kept '))
  })
})

test('a scrub is complete only once all dropped content is deleted', async () => {
  await using api = await createEmailApi()
  const sent = await api.accepted(createBodies('secret '))
  const [html = 0] = await dropEmail(api, sent.id)
  await api.app.content.put([Buffer.from(`<p>${'secret '.repeat(400)}</p>`)], api.clock.now())
  expect(await requestScrub(api.app)).toBe(false)
  api.clock.advance(minutes(6))
  const results = await Promise.all([requestScrub(api.app), requestScrub(api.app), requestScrub(api.app)])
  expect(results).toEqual([true, true, true])
  expect(isOnDisk(api, html)).toBe(false)
})
