import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rmSync, truncateSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { startImporter } from '#features/audience/contact-lists/importer.ts'
import { resubscribeContacts } from '#features/setup/suppression-store/contacts.ts'
import { seconds } from '#platform/units.ts'
import { at, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createTestDisk } from '#test/support/disk.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'
import { countDuring } from '#test/support/event-loop.ts'
import {
  completed,
  contactCount,
  createList,
  holdImports,
  imported,
  listContacts,
  postFile,
  spooledFiles,
  waitForEnd,
} from './files.ts'

/** A service that runs imports. */
const createImportService = (settings: Record<string, string> = {}) => createEmailApi({ runsTasks: true, settings })

const two = [
  ['a@x.test', 'active', { name: 'Ada' }],
  ['B@x.test', 'active', {}],
]

const NOT_AN_OBJECT = 'The metadata is not a JSON object, or is nested deeper than 64 levels.'

describe('an import', () => {
  const files: [string, string][] = [
    ['with commas', 'email,name\na@x.test,Ada\nB@x.test,\n'],
    ['with CRLF, a byte order mark and quotes', '\ufeff"email","name"\r\n"a@x.test","Ada"\r\n"B@x.test",""\r\n'],
    ['with the header email_address', 'email_address,name\na@x.test,Ada\nB@x.test,\n'],
    ['with the header address, its columns in another order', 'name,Address\nAda,a@x.test\n,B@x.test\n'],
    ['with the header email address', 'Email Address,name\na@x.test,Ada\nB@x.test,\n'],
    ['with the header E-Mail-Adresse, as in German', 'name;E-Mail-Adresse\nAda;a@x.test\n;B@x.test\n'],
    ['with metadata as JSON', 'email,metadata\na@x.test,"{""name"":""Ada""}"\nB@x.test,{}\n'],
  ]
  // Proves: contact-20
  test('reads files in every form', async () => {
    await using service = await createImportService()
    for (const [form, file] of files) {
      const list = await createList(service, { name: form })
      expect([form, await imported(service, list, file)]).toEqual([form, completed(2)])
      expect([form, await listContacts(service, list)]).toEqual([form, two])
    }
    await eventually(() => spooledFiles(service).length === 0)
    expectBalanced(service)
  })

  test('reads a single column of addresses without a header, even if it is one line', async () => {
    await using service = await createImportService()
    const list = await createList(service)
    expect(await imported(service, list, '\ufeffa@x.test\r\nAda <b@x.test>\r\n')).toEqual(completed(2))
    expect(await imported(service, list, 'c@x.test')).toEqual(completed(1))
    expect(await listContacts(service, list)).toEqual(
      ['a@x.test', 'b@x.test', 'c@x.test'].map((email) => [email, 'active', {}]),
    )
  })

  // Proves: operation-6, operation-8, contact-20
  test('is an operation: pending when the whole file is stored, then completed; audited once', async () => {
    await using service = await createEmailApi()
    const list = await createList(service)
    const posted = await postFile(service, list, 'email,n\na@x.test,1\nnobody,2\na@X.test,3\n')
    const id = String(at(posted.body, 'data', 'operation_id'))
    expect({ status: posted.status, body: posted.body }).toEqual({
      status: 202,
      body: { data: { operation_id: id, message: expect.stringMatching(/being imported/) } },
    })
    const operation = async () => at((await service.api('GET', `/v1/operations/${id}`)).body, 'data')
    const pending = {
      id,
      account_id: service.actor.accountUuid,
      operation_type: 'bulk_import',
      status: 'pending',
      total_items: 3,
      completed_items: 0,
      failed_items: 0,
      error_summary: null,
      metadata: { list_id: list, confirmed: false, inserted: 0, duplicates: 0, errors: [] },
      created_at: expect.any(String),
      updated_at: expect.any(String),
      completed_at: null,
      expires_at: expect.any(String),
    }
    expect(await operation()).toEqual(pending)
    expect(spooledFiles(service)).toHaveLength(1)
    const importer = startImporter(service.app)
    await waitForEnd(service, posted)
    await importer.stop()
    const errors = [{ line: 3, error: '"nobody" is not an address: it has no @ after a local part.' }]
    expect(await operation()).toEqual({
      ...pending,
      status: 'completed',
      completed_items: 2,
      failed_items: 1,
      error_summary: { message: `One line was not imported; the first is line 3: ${errors[0]?.error}` },
      metadata: { list_id: list, confirmed: false, inserted: 1, duplicates: 1, errors },
      completed_at: expect.any(String),
    })
    const { body } = await service.api('GET', '/v1/audit-logs')
    const entries = (at(body, 'data') as { action: string }[]).filter(({ action }) => action.startsWith('contact.'))
    expect(entries).toMatchObject([
      {
        action: 'contact.imported',
        resource_id: list,
        metadata: { operation_id: id, lines: 3, size_bytes: 39, confirmed: false },
      },
    ])
  })

  // Proves: contact-20
  test('leaves the data of contacts of the list as it is, but stops those that opted out, and counts them as completed', async () => {
    await using service = await createImportService()
    const list = await createList(service)
    expect(
      await imported(service, list, 'email,status,n\na@x.test,,1\nb@x.test,unsubscribed,1\nc@x.test,,1\n'),
    ).toEqual(completed(3))
    const again = 'email,status,n\nA@x.test,complained,2\nb@x.test,active,2\nc@x.test,pending,2\n'
    expect(await imported(service, list, again)).toEqual(completed(0, 3))
    expect(await listContacts(service, list)).toEqual([
      ['a@x.test', 'complained', { n: '1' }],
      ['b@x.test', 'unsubscribed', { n: '1' }],
      ['c@x.test', 'active', { n: '1' }],
    ])
    expectBalanced(service)
  })

  test('keeps the status of contacts that left, bounced or complained, whether the file or the suppression list says so', async () => {
    await using service = await createImportService()
    const list = await createList(service, {
      welcome_email_enabled: true,
      welcome_email_subject: 'Hi',
      welcome_email_text_body: 'Welcome',
    })
    for (const [email_address, reason] of [
      ['u@here.test', 'unsubscribe'],
      ['h@here.test', 'hard_bounce'],
      ['c@here.test', 'complaint'],
      ['m@here.test', 'manual'],
    ])
      await service.api('POST', '/v1/suppressions', { email_address, reason })
    const there = ['', 'active', 'pending', 'Unsubscribed', 'bounced', 'complained']
    const here = ['u', 'h', 'c', 'm'].map((name) => `${name}@here.test,`)
    const file = ['email,status', ...there.map((status, i) => `${i}@x.test,${status}`), ...here].join('\n')
    expect(await imported(service, list, file)).toEqual(completed(10))
    expect(await listContacts(service, list)).toEqual(
      [
        ['0@x.test', 'active'],
        ['1@x.test', 'active'],
        ['2@x.test', 'pending'],
        ['3@x.test', 'unsubscribed'],
        ['4@x.test', 'bounced'],
        ['5@x.test', 'complained'],
        ['u@here.test', 'unsubscribed'],
        ['h@here.test', 'bounced'],
        ['c@here.test', 'complained'],
        ['m@here.test', 'active'],
      ].map((row) => [...row, {}]),
    )
    // Welcome mails in progress hold memory and change rows, and the consistency check reads row by row: wait until they
    // are accepted.
    await eventually(
      () =>
        service.app.memory.inUseBytes === 0 &&
        service.app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM notices').get()?.n === 0,
    )
    expectBalanced(service)
  })

  // Proves: operation-6
  test('reports the first 100 invalid lines and counts all', async () => {
    await using service = await createImportService()
    const list = await createList(service)
    const result = await imported(service, list, `email\n${'nobody\n'.repeat(1000)}a@x.test\n`)
    expect(result).toMatchObject({ status: 'completed', items: [1001, 1, 1000], inserted: 1, duplicates: 0 })
    expect((result['errors'] as { line: number }[]).map(({ line }) => line)).toEqual(
      Array.from({ length: 100 }, (_, i) => i + 2),
    )
    expect(at(result, 'error_summary', 'message')).toMatch(
      /^1000 lines were not imported; the first is line 2: "nobody" is not/,
    )
  })

  test('suppresses contacts that left, bounced or complained elsewhere, so that other lists cannot reactivate them', async () => {
    await using service = await createImportService()
    const { app, actor, api } = service
    const [list, other] = [
      await createList(service, { double_opt_in: true }),
      await createList(service, { name: 'Others' }),
    ]
    const names = ['unsubscribed', 'bounced', 'complained']
    for (const name of names) await api('POST', `/v1/contact-lists/${other}/contacts`, { email: `${name}@x.test` })
    await api('POST', '/v1/suppressions', { email_address: 'noted@x.test' })
    const file = `email,status\n${[...names, 'noted'].map((name) => `${name}@x.test,${name === 'noted' ? 'complained' : name}`).join('\n')}\n`
    expect(await imported(service, list, file, '?confirmed=true')).toEqual(completed(4))
    const rows = at((await api('GET', '/v1/suppressions?per_page=100')).body, 'data') as Record<string, unknown>[]
    expect(rows.map((row) => [row['email_address'], row['reason'], row['list_id']]).toReversed()).toEqual([
      ['noted@x.test', 'complaint', null],
      ['unsubscribed@x.test', 'unsubscribe', list],
      ['bounced@x.test', 'hard_bounce', null],
      ['complained@x.test', 'complaint', null],
    ])
    const left = { accountId: actor.accountId, addressKey: 'unsubscribed@x.test' }
    await app.commit.write((tx) => resubscribeContacts(app, tx, left))
    const statuses = async (of: string) => ((await listContacts(service, of)) as string[][]).map(([, status]) => status)
    expect([await statuses(list), await statuses(other)]).toEqual([
      ['unsubscribed', 'bounced', 'complained', 'complained'],
      ['active', 'bounced', 'complained'],
    ])
    // These contacts were never active in this list, so lifting the suppression makes them pending again.
    for (const name of names) await api('DELETE', `/v1/suppressions/${name}@x.test`)
    expect([await statuses(list), await statuses(other)]).toEqual([
      ['pending', 'pending', 'pending', 'complained'],
      ['active', 'active', 'active'],
    ])
    expectBalanced(service)
  })

  test('accepts metadata nested as deep as in a request body, and no deeper', async () => {
    await using service = await createImportService()
    const list = await createList(service)
    const nested = (depth: number) => `"{""a"":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}"`
    const file = `email,metadata\na@x.test,${nested(64)}\nb@x.test,${nested(65)}\nc@x.test,${nested(12_000)}\n`
    expect(await imported(service, list, file)).toMatchObject({
      inserted: 1,
      errors: [
        { line: 3, error: NOT_AN_OBJECT },
        { line: 4, error: NOT_AN_OBJECT },
      ],
    })
    expect((await service.api('GET', `/v1/contact-lists/${list}/contacts`)).status).toBe(200)
  })

  // Proves: contact-20
  test('reports what is wrong with each kind of invalid line, and imports the others', async () => {
    await using service = await createImportService()
    const list = await createList(service)
    const lines: [line: number, text: string, error?: string][] = [
      [5, 'a@x.test,,,'],
      [6, 'b@,,,', 'The address has no domain after the @.'],
      [7, 'c@x.test,,[1],', NOT_AN_OBJECT],
      [8, 'd@x.test,,{,', NOT_AN_OBJECT],
      [9, `e@x.test,,,${'x'.repeat(17_000)}`, 'The metadata has more than 16384 bytes of JSON.'],
      [10, 'f@x.test,,,,more', 'The line has 5 fields instead of 4.'],
      [11, '"g@x.test,,,', 'A quote that begins in this line is not closed within 64 KiB.'],
      [12, 'h@x.test,,,"two\nlines"'],
      [14, `i@x.test,,,${'x'.repeat(60_000)}`, 'The metadata has more than 16384 bytes of JSON.'],
      // After the first 64 KiB, which are checked as a whole.
      [15, 'k@x\u0002.test,,,', 'The line is not in UTF-8; save the file as "CSV UTF-8".'],
      [16, ',,,x', 'The address is empty.'],
      [17, 'l@x.test'],
      [18, 'm@x.test,,"{""__proto__"":{""x"":1},""b"":2}",=1'],
    ]
    const file = Buffer.from(`email,status,metadata,b\n\n\n\n${lines.map(([, text]) => text).join('\n')}`)
    // A byte that starts no character.
    file[file.indexOf(2)] = 0xe9
    const errors = lines.flatMap(([line, , error]) => (error === undefined ? [] : [{ line, error }]))
    expect(await imported(service, list, file)).toEqual({
      ...completed(4),
      items: [13, 4, 9],
      errors,
      error_summary: {
        message: expect.stringMatching(/^9 lines were not imported; the first is line 6: The address has no domain/),
      },
    })
    expect(await listContacts(service, list)).toEqual([
      ['a@x.test', 'active', {}],
      ['h@x.test', 'active', { b: 'two\nlines' }],
      ['l@x.test', 'active', {}],
      ['m@x.test', 'active', JSON.parse('{"__proto__":{"x":1},"b":"=1"}')],
    ])
  })

  // Proves: contact-20
  test('into a list with double opt-in sends confirmation requests at the bulk rate, except to confirmed contacts', async () => {
    await using service = await createEmailApi()
    const list = await createList(service, { double_opt_in: true })
    const importer = startImporter(service.app)
    expect(await imported(service, list, 'email,status\na@x.test,\nb@x.test,pending\nc@x.test,unsubscribed\n')).toEqual(
      completed(3),
    )
    expect(
      await imported(service, list, 'email,status\nd@x.test,\ne@x.test,pending\nf@x.test,bounced\n', '?confirmed=true'),
    ).toEqual(completed(3))
    await importer.stop()
    expect(await listContacts(service, list)).toEqual(
      [
        ['a@x.test', 'pending'],
        ['b@x.test', 'pending'],
        ['c@x.test', 'unsubscribed'],
        ['d@x.test', 'active'],
        ['e@x.test', 'pending'],
        ['f@x.test', 'bounced'],
      ].map((row) => [...row, {}]),
    )
    expect(
      service.app.db
        .query('SELECT address_key, kind FROM notices JOIN contacts ON contacts.id = topic ORDER BY notices.id')
        .values(),
    ).toEqual([
      ['a@x.test', 'bulk_confirmation'],
      ['b@x.test', 'bulk_confirmation'],
    ])
  })

  test('into a list with double opt-in is a 422 while no domain is verified, and stores nothing', async () => {
    await using service = await createEmailApi()
    const list = await createList(service, { double_opt_in: true })
    service.app.db.run('UPDATE domains SET verified_at = NULL')
    expectError(await postFile(service, list, 'a@x.test\n'), 422, 'no_verified_domain')
    expect(spooledFiles(service)).toEqual([])
    expect((await postFile(service, list, 'a@x.test\n', { query: '?confirmed=true' })).status).toBe(202)
  })

  test('welcomes each new contact once, if the list has a welcome', async () => {
    await using service = await createEmailApi()
    const list = await createList(service, {
      welcome_email_enabled: true,
      welcome_email_subject: 'Hi',
      welcome_email_text_body: 'Welcome',
    })
    const importer = startImporter(service.app)
    await imported(
      service,
      list,
      'email,status\na@x.test\nA@X.test\nb@x.test\nc@x.test,unsubscribed\nd@x.test,pending\n',
    )
    await imported(service, list, 'email\na@x.test\n')
    await importer.stop()
    expect(service.app.db.query('SELECT kind FROM notices').values()).toEqual([['welcome'], ['welcome']])
  })

  test('lets other requests run in between when it has many lines', async () => {
    await using service = await createImportService()
    const list = await createList(service)
    const count = 20_000
    const posted = await postFile(service, list, Array.from({ length: count }, (_, i) => `u${i}@x.test`).join('\n'))
    const importing = waitForEnd(service, posted)
    const seen = await countDuring(importing, () => contactCount(service))
    expect(await importing).toMatchObject({ status: 'completed', total_items: count, completed_items: count })
    // Other work ran between the batches, and saw them.
    expect(seen.filter((n) => n > 0 && n < count).length).toBeGreaterThan(10)
    expect(at((await service.api('GET', `/v1/contact-lists/${list}`)).body, 'data', 'contact_count')).toBe(count)
    expectBalanced(service)
  })

  // Proves: operation-8
  test('of one account does not delay the import of another', async () => {
    await using service = await createEmailApi()
    const other = await service.newAccount()
    const otherApi = { ...service, key: await service.newKey([], other) }
    const list = await createList(service)
    const long = await postFile(service, list, Array.from({ length: 2_000 }, (_, i) => `u${i}@x.test`).join('\n'))
    const { body } = await service.api('POST', '/v1/contact-lists', { name: 'Theirs' }, { key: otherApi.key })
    const short = await postFile(otherApi, String(at(body, 'data', 'id')), 'a@x.test\n')
    const importer = startImporter(service.app)
    const shortId = String(at(short.body, 'data', 'operation_id'))
    await eventually(async () => {
      const answer = await service.api('GET', `/v1/operations/${shortId}`, undefined, { key: otherApi.key })
      return at(answer.body, 'data', 'status') === 'completed'
    })
    await waitForEnd(service, long)
    await importer.stop()
    // Its turn came after one batch of the long one.
    const earlier = service.app.db
      .query<{ n: number }, []>(
        "SELECT COUNT(*) AS n FROM contacts WHERE id < (SELECT id FROM contacts WHERE address_key = 'a@x.test')",
      )
      .get()
    expect(earlier?.n).toBe(250)
  })

  // Proves: operation-8
  test('fails when its list is deleted, and counts the contacts imported so far', async () => {
    await using service = await createEmailApi()
    const list = await createList(service)
    const posted = await postFile(service, list, Array.from({ length: 2_000 }, (_, i) => `u${i}@x.test`).join('\n'))
    const release = holdImports(service)
    const importer = startImporter(service.app)
    await eventually(() => contactCount(service) > 0)
    expect((await service.api('DELETE', `/v1/contact-lists/${list}`)).status).toBe(204)
    release()
    const operation = await waitForEnd(service, posted)
    await eventually(() => spooledFiles(service).length === 0)
    await importer.stop()
    expect(operation).toMatchObject({
      status: 'failed',
      error_summary: { message: 'The contact list was deleted before all lines were imported.' },
    })
    expect(operation['completed_items']).toBeGreaterThan(0)
    expect(operation['completed_items']).toBeLessThan(2_000)
  })

  test.each([
    ['missing', (path: string) => rmSync(path)],
    ['cut', (path: string) => truncateSync(path, 3)],
  ])('fails when its file is %s', async (_, damage) => {
    await using service = await createEmailApi()
    const list = await createList(service)
    const posted = await postFile(service, list, 'email\na@x.test\n')
    const [file = ''] = spooledFiles(service)
    damage(join(service.dataDir, 'imports', file))
    const importer = startImporter(service.app)
    expect(await waitForEnd(service, posted)).toMatchObject({
      status: 'failed',
      error_summary: { message: 'The file is missing; import it again.' },
    })
    expect(await imported(service, list, 'b@x.test')).toEqual(completed(1))
    await importer.stop()
    expect(spooledFiles(service)).toEqual([])
  })

  test('continues where it was when the service starts again, and deletes leftover files', async () => {
    await using service = await createEmailApi()
    const list = await createList(service)
    const count = 5_000
    const posted = await postFile(service, list, Array.from({ length: count }, (_, i) => `u${i}@x.test`).join('\n'))
    await Bun.write(join(service.dataDir, 'imports', 'left.csv'), 'half')
    const release = holdImports(service)
    const first = startImporter(service.app)
    await eventually(() => contactCount(service) > 0)
    const stopped = first.stop()
    release()
    await stopped
    const before = contactCount(service)
    expect(before).toBeLessThan(count)
    expect(spooledFiles(service)).toHaveLength(1)
    const second = startImporter(service.app)
    expect(await waitForEnd(service, posted)).toMatchObject({
      status: 'completed',
      completed_items: count,
      failed_items: 0,
    })
    await second.stop()
    expect(contactCount(service)).toBe(count)
    expect(spooledFiles(service)).toEqual([])
  })
})

describe('a file that is not a contact file', () => {
  let service: EmailApi
  let list: string
  beforeAll(async () => {
    service = await createEmailApi()
    list = await createList(service)
  })
  afterAll(() => service[Symbol.asyncDispose]())

  const unreadable: [string, string | Uint8Array, RegExp][] = [
    ['nothing', '', /empty.*must name the columns: email/],
    [
      'a header without email',
      'Name;Straße\nAda;1\n',
      /no column email among "Name", "Straße"\..*must name the columns: email \(or e-mail/,
    ],
    [
      'a header of very many names without email',
      `${Array.from({ length: 12 }, (_, i) => `c${i}`)}\n`,
      /"c9" and 2 more\./,
    ],
    ['tab-separated columns', 'E-Mail\tName\nada@x.test\tAda\n', /tab-separated.* commas or semicolons/],
    ['tab-separated columns without a header', 'ada@x.test\tAda\n', /tab-separated.* commas or semicolons/],
    ['a workbook', Buffer.from('PK\x03\x04\x14\0\x06\0[Content_Types].xml'), /workbook.*save it as "CSV UTF-8"/],
    ['an old workbook', Buffer.from('d0cf11e0a1b11ae1', 'hex'), /workbook.*save it as "CSV UTF-8"/],
    ['two columns without a header', 'a@x.test,Ada\n', /no column email/],
    ['a column twice', 'email,a,a\na@x.test,a,b\n', /column "a" occurs twice/],
    ['the address twice under two names', 'email,E-Mail Address\na@x.test,b@x.test\n', /twice/],
    ['a name that is too long', `email,${'n'.repeat(65)}\n`, /The name of column 2 is longer than 64/],
    [
      'too many columns',
      `email,${Array.from({ length: 50 }, (_, i) => `c${i}`).join(',')}\n`,
      /51 columns; at most 50/,
    ],
    ['a quote in the header that is never closed', `email,"a\n${'b@x.test,x\n'.repeat(9000)}`, /first line/],
    ['a first line that is too long', 'x'.repeat(200_000), /first line does not end/],
    [
      'a file that is not UTF-8',
      new Uint8Array([...Buffer.from('email\njos'), 0xe9, ...Buffer.from('@x.test\n')]),
      /UTF-8/,
    ],
  ]
  // Proves: contact-20
  test.each(unreadable)('%s is a 422 that says what is expected, and nothing is stored', async (_, file, message) => {
    const before = service.stored()
    const answer = await postFile(service, list, file)
    expectError(answer, 422, 'invalid_csv', 'body')
    expect(at(answer.body, 'message')).toMatch(message)
    expect(spooledFiles(service)).toEqual([])
    expect(service.stored()).toEqual(before)
    expect(service.app.memory.inUseBytes).toBe(0)
  })

  test('is rejected as soon as its beginning shows it, before the rest has arrived', async () => {
    const socket = await upload(service, list, { contentLength: 100_000_000 })
    socket.write(`name,first\n${'x,y\n'.repeat(20_000)}`)
    expect(await socket.answer()).toMatch(/^HTTP\/1\.1 422 /)
    socket.end()
    expect(spooledFiles(service)).toEqual([])
  })
})

/** A request on a raw socket, whose body is written in chunks. */
async function upload({ url, key }: TestApi, list: string, { contentLength }: { contentLength?: number } = {}) {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let received = ''
  let isClosed = false
  socket.on('data', (chunk) => {
    received += chunk.toString()
  })
  socket.on('error', () => undefined)
  socket.on('close', () => {
    isClosed = true
  })
  await new Promise<void>((resolve) => socket.once('connect', () => resolve()))
  const length = contentLength === undefined ? 'Transfer-Encoding: chunked' : `Content-Length: ${contentLength}`
  socket.write(
    `POST /v1/contact-lists/${list}/contacts/import HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\nContent-Type: text/csv\r\n${length}\r\n\r\n`,
  )
  return {
    write: (text: string) => socket.write(text),
    end: () => socket.destroy(),
    answer: () => eventually(() => received !== '' && received),
    isAnswered: () => received !== '',
    untilClosed: () => eventually(() => isClosed),
  }
}

describe('an upload', () => {
  test.each([
    ['without a type', { 'content-type': 'application/octet-stream' }],
    ['of JSON', { 'content-type': 'application/json' }],
    ['in Latin-1', { 'content-type': 'text/csv; charset=iso-8859-1' }],
    ['compressed', { 'content-encoding': 'gzip' }],
  ])('%s is a 415', async (_, headers) => {
    await using service = await createEmailApi()
    expectError(
      await postFile(service, await createList(service), 'a@x.test', { headers }),
      415,
      'unsupported_media_type',
    )
    expect(spooledFiles(service)).toEqual([])
  })

  test('above the limit is a 413, by its declared length or while it arrives, and stores nothing', async () => {
    await using service = await createEmailApi({ serves: { maxImportBytes: 2 ** 20 } })
    const list = await createList(service)
    const line = Buffer.from('somebody@x.test\n')
    expectError(await postFile(service, list, Buffer.alloc(2 ** 20 + 1, line)), 413, 'payload_too_large')
    const unknown = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let i = 0; i < 40; i++) controller.enqueue(Buffer.alloc(64 * 1024, line))
        controller.close()
      },
    })
    expectError(await postFile(service, list, unknown), 413, 'payload_too_large')
    expect(spooledFiles(service)).toEqual([])
    expect((await postFile(service, list, Buffer.alloc(2 ** 20, line))).status).toBe(202)
    // Other bodies have another limit.
    expect(service.app.config.maxBodyBytes).toBeGreaterThan(2 ** 20)
  })

  test('may be longer than other bodies, and longer than the memory for bodies', async () => {
    await using service = await createEmailApi({
      settings: { TASSIS_MAX_BODY_BYTES: '64KiB', TASSIS_MEMORY_BUDGET: '16MiB' },
    })
    const file = Buffer.alloc(24 * 2 ** 20, 'somebody@x.test\n')
    expect((await postFile(service, await createList(service), file)).status).toBe(202)
    // The same when the client's base URL ends with a slash.
    const list = await createList(service, { name: 'Others' })
    expect((await postFile({ ...service, url: `${service.url}/` }, list, file)).status).toBe(202)
    expect(service.app.memory.inUseBytes).toBe(0)
  })

  test('while the disk is nearly full is a 507, and stores nothing', async () => {
    let isLow = true
    await using service = await createEmailApi({ disk: createTestDisk(() => isLow) })
    const list = await createList(service)
    expectError(await postFile(service, list, 'a@x.test'), 507, 'insufficient_storage')
    isLow = false
    const socket = await upload(service, list, { contentLength: 100 })
    socket.write('a@x.test\n')
    await eventually(() => spooledFiles(service).length === 1)
    isLow = true
    socket.write('b@x.test\n')
    expect(await socket.answer()).toMatch(/^HTTP\/1\.1 507 /)
    socket.end()
    expect(spooledFiles(service)).toEqual([])
  })

  test.each([
    ['of known length', { contentLength: 100 }, 'a@x.test\n'],
    ['of unknown length', {}, '9\r\na@x.test\n\r\n'],
  ])('%s whose client disconnects stores nothing', async (_, length, piece) => {
    await using service = await createEmailApi()
    const list = await createList(service)
    const before = service.stored()
    const socket = await upload(service, list, length)
    socket.write(piece)
    await eventually(() => spooledFiles(service).length === 1)
    socket.end()
    await eventually(() => spooledFiles(service).length === 0)
    expect(service.stored()).toEqual(before)
    await eventually(() => service.app.memory.inUseBytes === 0)
  })

  test('that stalls for a minute is a 408, and stores nothing; one that keeps arriving may take as long as it needs', async () => {
    await using service = await createEmailApi()
    const { clock } = service
    const list = await createList(service)
    const step = 'somebody@x.test\n'.repeat(20 * 1024)
    const slow = await upload(service, list, { contentLength: 4 * step.length })
    const still = await upload(service, list, { contentLength: 100 })
    still.write('a@x.test\n')
    for (let i = 1; i <= 3; i++) {
      slow.write(step)
      await eventually(() => sizes(service).includes(i * step.length))
      if (i < 3) clock.advance(seconds(50))
    }
    // The minute runs only while the server waits for a chunk, so more than a minute may pass here.
    for (let more = seconds(50); more > 0 && !still.isAnswered(); more -= 100) {
      clock.advance(100)
      await Bun.sleep(1)
    }
    expect(await still.answer()).toMatch(/^HTTP\/1\.1 408 /)
    slow.write(step)
    expect(await slow.answer()).toMatch(/^HTTP\/1\.1 202 /)
    expect(spooledFiles(service)).toHaveLength(1)
    slow.end()
    still.end()
  })

  test('that trickles is a 408 as well', async () => {
    await using service = await createEmailApi()
    const { clock } = service
    const socket = await upload(service, await createList(service), { contentLength: 10_000 })
    let pieces = 0
    // The minute runs only while the server waits for a chunk, so more chunks may be needed than fit into a minute.
    while (!socket.isAnswered() && pieces < 100) {
      socket.write('a@x.test\n')
      pieces++
      await eventually(() => socket.isAnswered() || sizes(service).includes(pieces * 9))
      if (pieces === 5) expect(spooledFiles(service)).toHaveLength(1)
      clock.advance(seconds(11))
    }
    expect(await socket.answer()).toMatch(/^HTTP\/1\.1 408 /)
    expect(pieces).toBeGreaterThan(5)
    socket.end()
    expect(spooledFiles(service)).toEqual([])
  })

  test('is a 429 while four files of its account arrive, and accepted for others', async () => {
    await using service = await createEmailApi()
    const list = await createList(service)
    const sockets = await Promise.all(Array.from({ length: 4 }, () => upload(service, list, { contentLength: 100 })))
    for (const socket of sockets) socket.write('a@x.test\n')
    await eventually(() => spooledFiles(service).length === 4)
    expectError(await postFile(service, list, 'a@x.test'), 429, 'too_many_imports')
    const other = await service.newAccount()
    const key = await service.newKey([], other)
    const { body } = await service.api('POST', '/v1/contact-lists', { name: 'Theirs' }, { key })
    const theirs = await postFile({ url: service.url, key }, String(at(body, 'data', 'id')), 'a@x.test')
    expect(theirs.status).toBe(202)
    for (const socket of sockets) socket.end()
    await eventually(() => spooledFiles(service).length === 1)
    expect((await postFile(service, list, 'a@x.test')).status).toBe(202)
  })

  test('is a 503 while there is no memory for one more, and succeeds when memory is free again', async () => {
    await using service = await createEmailApi({ settings: { TASSIS_MEMORY_BUDGET: '16MiB' } })
    const list = await createList(service)
    const sockets = await Promise.all(Array.from({ length: 3 }, () => upload(service, list, { contentLength: 100 })))
    for (const socket of sockets) socket.write('a@x.test\n')
    await eventually(() => spooledFiles(service).length === 3)
    expectError(await postFile(service, list, 'a@x.test'), 503, 'server_busy')
    for (const socket of sockets) socket.end()
    await eventually(() => service.app.memory.inUseBytes === 0)
    expect((await postFile(service, list, 'a@x.test')).status).toBe(202)
  })

  test('is a 429 while the waiting files take four times the limit', async () => {
    await using service = await createEmailApi()
    const list = await createList(service)
    for (let i = 0; i < 4; i++) expect((await postFile(service, list, 'somebody@x.test\n')).status).toBe(202)
    service.app.db.run('UPDATE contact_imports SET size_bytes = ?', [512 * 2 ** 20])
    expectError(await postFile(service, list, 'a@x.test'), 429, 'too_many_imports')
  })

  test('to a list that is deleted meanwhile is a 404, and stores nothing', async () => {
    await using service = await createEmailApi()
    const list = await createList(service)
    const socket = await upload(service, list, { contentLength: 18 })
    socket.write('a@x.test\n')
    await eventually(() => spooledFiles(service).length === 1)
    await service.api('DELETE', `/v1/contact-lists/${list}`)
    socket.write('b@x.test\n')
    expect(await socket.answer()).toMatch(/^HTTP\/1\.1 404 /)
    socket.end()
    expect(spooledFiles(service)).toEqual([])
  })
})

const sizes = (service: TestApi): number[] =>
  spooledFiles(service).map((file) => Bun.file(join(service.dataDir, 'imports', file)).size)
