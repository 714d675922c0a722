import { describe, expect, test } from 'bun:test'
import { startImporter } from '#features/audience/contact-lists/importer.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'
import { contactCount, createList, holdImports, listContacts, postFile, spooledFiles, waitForEnd } from './files.ts'

async function preview({ url, key }: EmailApi, list: string, file: string | Uint8Array, query = '') {
  const response = await fetch(`${url}/v1/contact-lists/${list}/contacts/import/preview${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'text/csv' },
    body: file as NonNullable<RequestInit['body']>,
  })
  return { status: response.status, headers: response.headers, body: (await response.json()) as unknown }
}

const UNKNOWN = '01234567-89ab-7def-8123-456789abcdef'

describe('the preview of an import', () => {
  // Proves: contact-23
  test('says what the columns are, shows the first contacts, and names the invalid lines', async () => {
    await using service = await createEmailApi()
    const list = await createList(service)
    const file =
      'E-Mail;status;metadata;created_at;First name\na@x.test;active;{"plan":"pro"};x;\'=1+2\n\nnobody;;;;\nb@x.test;gone;;;\nc@x.test;;;;;;y\n'
    const { status, body } = await preview(service, list, file)
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        data: {
          columns: [
            { name: 'E-Mail', kind: 'email' },
            { name: 'status', kind: 'status' },
            { name: 'metadata', kind: 'metadata' },
            { name: 'created_at', kind: 'passed over' },
            { name: 'First name', kind: 'field' },
          ],
          contacts: [
            { line: 2, email: 'a@x.test', status: 'active', metadata: { plan: 'pro', 'First name': '=1+2' } },
            { line: 5, email: 'b@x.test', status: null, metadata: {} },
          ],
          checked: 4,
          invalid: 2,
          problems: [
            { line: 4, error: expect.any(String) },
            { line: 6, error: 'The line has 7 fields instead of 5.' },
          ],
          questions: [{ column: 'status', values: ['gone'] }],
        },
      },
    })
    expect(await listContacts(service, list)).toEqual([])
    expect(spooledFiles(service)).toEqual([])
  })

  test('reads addresses without a header, and does not judge the line that the end of the part cuts', async () => {
    await using service = await createEmailApi()
    const list = await createList(service)
    const whole = await preview(service, list, 'a@x.test\nb@x.test')
    expect(at(whole.body, 'data', 'columns')).toEqual([{ name: null, kind: 'email' }])
    expect(at(whole.body, 'data', 'checked')).toBe(2)
    const lines = Array.from({ length: 30_000 }, (_, index) => `person-${index}@x.test\n`).join('')
    const part = await preview(service, list, Buffer.from(lines).subarray(0, 256 * 1024), '?partial=true')
    expect(at(part.body, 'data', 'invalid')).toBe(0)
    expect(at(part.body, 'data', 'checked')).toBeGreaterThan(8000)
    expect((at(part.body, 'data', 'contacts') as unknown[]).length).toBe(5)
  })

  test('counts lines and records over all steps of its reading, and costs work units', async () => {
    await using service = await createEmailApi({ workRate: { ratePerSecond: 1, burst: 1000 } })
    const list = await createList(service)
    const file = `email,note\n${'\n'.repeat(1200)}${'a@x.test,"1\n2"\n'.repeat(1100)}nobody,`
    const { body } = await preview(service, list, file)
    expect(body).toMatchObject({ data: { checked: 1101, invalid: 1, problems: [{ line: 2 + 1200 + 2200 }] } })
    const large = await preview(service, list, 'a@x.test\n'.repeat(29_000))
    expect([large.status, at(large.body, 'code')]).toEqual([429, 'work_limit'])
  })

  test('refuses what an import refuses', async () => {
    await using service = await createEmailApi()
    const list = await createList(service)
    expectError(await preview(service, list, 'name\nBob\n'), 422, 'invalid_csv', 'body')
    expectError(await preview(service, list, ''), 422, 'invalid_csv', 'body')
    expectError(await preview(service, list, Buffer.from('PK\x03\x04')), 422, 'invalid_csv', 'body')
    expectError(await preview(service, UNKNOWN, 'a@x.test'), 404, 'contact_list_not_found')
  })
})

describe('an unfinished import', () => {
  const cancel = ({ api }: EmailApi, list: string, id: string) =>
    api('POST', `/v1/contact-lists/${list}/imports/${id}/cancel`)
  const listOpen = async ({ api }: EmailApi, list: string) =>
    (at((await api('GET', `/v1/contact-lists/${list}/imports`)).body, 'data') as { id: string }[]).map(({ id }) => id)

  // Proves: contact-24
  test('is listed and can be cancelled, twice too; its file is deleted, and it can be imported again', async () => {
    await using service = await createEmailApi()
    const [list, other] = [await createList(service), await createList(service, { name: 'Other' })]
    const posted = await postFile(service, list, 'a@x.test\nb@x.test\n')
    const id = String(at(posted.body, 'data', 'operation_id'))
    expect([await listOpen(service, list), await listOpen(service, other)]).toEqual([[id], []])
    expectError(await cancel(service, other, id), 404, 'operation_not_found')
    expectError(await cancel(service, list, UNKNOWN), 404, 'operation_not_found')
    for (let n = 0; n < 2; n++) {
      const { status, body } = await cancel(service, list, id)
      expect([status, at(body, 'data', 'status')]).toEqual([200, 'failed'])
      expect(String(at(body, 'data', 'error_summary', 'message'))).toStartWith('The import was cancelled')
    }
    expect(await listOpen(service, list)).toEqual([])
    await eventually(() => spooledFiles(service).length === 0 || undefined)
    const audited = service.app.db
      .query<{ n: number }, []>("SELECT COUNT(*) AS n FROM audit_logs WHERE action = 'contact.import_cancelled'")
      .get()
    expect(audited).toEqual({ n: 1 })

    const importer = startImporter(service.app)
    const again = await waitForEnd(service, await postFile(service, list, 'a@x.test\nb@x.test\n'))
    expect(again).toMatchObject({ status: 'completed', completed_items: 2 })
    expectError(await cancel(service, list, String(again['id'])), 409, 'import_over')
    await importer.stop()
    expectBalanced(service)
  })

  test('stops in the middle of its file: what was imported stays', async () => {
    await using service = await createEmailApi()
    const list = await createList(service)
    const lines = Array.from({ length: 2_000 }, (_, index) => `person-${index}@x.test\n`).join('')
    const id = String(at((await postFile(service, list, lines)).body, 'data', 'operation_id'))
    const readDone = async () =>
      Number(at((await service.api('GET', `/v1/operations/${id}`)).body, 'data', 'completed_items'))
    const release = holdImports(service)
    const importer = startImporter(service.app)
    await eventually(() => contactCount(service) > 0)
    expect((await cancel(service, list, id)).status).toBe(200)
    const done = await readDone()
    expect([done > 0, done < 2_000]).toEqual([true, true])
    release()
    // The importer goes on to the next file, so it has ended this one.
    await waitForEnd(service, await postFile(service, await createList(service, { name: 'Other' }), 'a@x.test\n'))
    await importer.stop()
    const count = at((await service.api('GET', `/v1/contact-lists/${list}`)).body, 'data', 'contact_count')
    expect([count, await readDone()]).toEqual([done, done])
    await eventually(() => spooledFiles(service).length === 0 || undefined)
    expectBalanced(service)
  })
})
