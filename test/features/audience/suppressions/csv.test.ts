import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { importSuppressions } from '#features/audience/suppressions/csv.ts'
import { addSuppression } from '#features/audience/suppressions/suppressions.ts'
import { closeAccount } from '#features/core/accounts/rows.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { expectError } from '#test/support/email-api.ts'
import { countDuring } from '#test/support/event-loop.ts'
import { exportCsv, importCsv, imported, pickStatusAndBody, rows } from './files.ts'

/** For requests that change nothing, or nothing that others see. */
let shared: Awaited<ReturnType<typeof createTestApi>>
beforeAll(async () => {
  shared = await createTestApi()
})
afterAll(() => shared[Symbol.asyncDispose]())

describe('an import', () => {
  const files: [string, string][] = [
    ['with commas', 'email_address,reason\na@x.test,complaint\nb@x.test,\n'],
    ['with CRLF and no end of the last line', 'email_address,reason\r\na@x.test,complaint\r\nb@x.test'],
    ['with semicolons', 'email_address;reason\na@x.test;complaint\nb@x.test;\n'],
    ['with a byte order mark', '\ufeffemail_address,reason\na@x.test,complaint\nb@x.test,\n'],
    ['with a byte order mark before a quote', '\ufeff"email_address","reason"\n"a@x.test","complaint"\nb@x.test,\n'],
    ['with the header email', 'Email,Reason\na@x.test,complaint\nb@x.test,\n'],
    ['with the header address', 'address;reason\na@x.test;complaint\nb@x.test;\n'],
    ['with the header email address', '"Email Address","Reason"\na@x.test,complaint\nb@x.test,\n'],
    ['with quotes', '"email_address","reason"\r\n"a@x.test","complaint"\r\n"b@x.test",""\r\n'],
    ['with the columns in another order and in capitals', 'Reason, EMAIL_ADDRESS\ncomplaint,a@x.test\n,b@x.test\n'],
    ['with empty lines and spaces', '\n\nemail_address , reason\n a@x.test , complaint \n\n   \nb@x.test,\n\n'],
    ['without a header', 'a@x.test,COMPLAINT\nb@x.test, manual\n'],
    ['without a header, one of whose lines has an address alone', 'a@x.test;complaint\nb@x.test\n'],
    ['with empty cells after the last', 'email_address,reason\na@x.test,complaint,,\nb@x.test,,\n'],
    ['with names before the addresses', 'email_address,reason\nAda <A@x.test>,complaint\n"""B, b"" <b@X.test>",\n'],
  ]
  // Proves: suppress-10
  test('reads files in every form', async () => {
    await using service = await createTestApi()
    for (const [form, file] of files) {
      expect([form, pickStatusAndBody(await importCsv(service, file))]).toEqual([form, imported({ imported: 2 })])
      expect([form, ...rows(service)]).toEqual([form, ['a@x.test', 'complaint', 0, 0], ['b@x.test', 'manual', 0, 0]])
      expectBalanced(service)
      for (const address of ['a@x.test', 'b@x.test']) await service.api('DELETE', `/v1/suppressions/${address}`)
    }
  })

  // Proves: suppress-10
  test('reads a single column of addresses without a header, even if it is one line', async () => {
    await using service = await createTestApi()
    expect(pickStatusAndBody(await importCsv(service, '\ufeffa@x.test\r\nB@x.test\r\n'))).toEqual(
      imported({ imported: 2 }),
    )
    expect(pickStatusAndBody(await importCsv(service, 'c@x.test'))).toEqual(imported({ imported: 1 }))
    expect(rows(service).map(([address]) => address)).toEqual(['a@x.test', 'b@x.test', 'c@x.test'])
  })

  test('of unsubscriptions stops only marketing, of a stream if one is named', async () => {
    await using service = await createTestApi()
    await service.api('POST', '/v1/streams', { slug: 'news', name: 'News' })
    const file =
      'email_address,reason,stream\na@x.test,unsubscribe,\na@x.test,unsubscribe,news\nb@x.test,complaint,news\nb@x.test,unsubscribe,none\n'
    expect(pickStatusAndBody(await importCsv(service, file))).toEqual(
      imported({ imported: 2, invalid: 2 }, [
        { line: 4, error: 'Only the reason unsubscribe can be limited to a stream or a list.' },
        { line: 5, error: 'There is no stream "none" on this account.' },
      ]),
    )
    expect(rows(service)).toEqual([
      ['a@x.test', 'unsubscribe', 1, 0],
      ['a@x.test', 'unsubscribe', 1, 2],
    ])
  })

  // Proves: suppress-10
  test('reports new, existing and invalid lines with their positions; the first reason stays', async () => {
    await using service = await createTestApi()
    await service.api('POST', '/v1/suppressions', { email_address: 'a@x.test', reason: 'complaint' })
    const file = `email_address,reason,stream,list\nA@X.test,manual\nb@x.test,one\nb@x.test,two\nnobody\nc@x.test,too,,,much\nd@x.test,${'r'.repeat(201)}\n`
    expect(pickStatusAndBody(await importCsv(service, file))).toEqual(
      imported({ imported: 1, already_suppressed: 2, invalid: 3 }, [
        { line: 5, error: '"nobody" is not an address: it has no @ after a local part.' },
        { line: 6, error: 'The line has 5 fields instead of 4.' },
        { line: 7, error: 'A reason must have at most 200 characters.' },
      ]),
    )
    expect(rows(service)).toEqual([
      ['a@x.test', 'complaint', 0, 0],
      ['b@x.test', 'one', 0, 0],
    ])
    const log = at((await service.api('GET', '/v1/audit-logs?per_page=1')).body, 'data', 0)
    expect(log).toMatchObject({ action: 'suppression.imported', metadata: { lines: 6 } })
    expectBalanced(service)
  })

  test('reports at most 100 invalid lines and counts all', async () => {
    await using service = await createTestApi()
    const { body } = await importCsv(service, `email_address\n${'nobody\n'.repeat(1000)}a@x.test\n`)
    expect(at(body, 'data')).toEqual({
      imported: 1,
      already_suppressed: 0,
      invalid: 1000,
      total: 1001,
      ignored_columns: [],
    })
    expect((at(body, 'errors') as { line: number }[]).map(({ line }) => line)).toEqual(
      Array.from({ length: 100 }, (_, i) => i + 2),
    )
  })

  test('of many lines lets other requests run in between, and can be repeated without harm', async () => {
    await using service = await createTestApi()
    const count = 20_000
    const file = `email_address,reason\n${Array.from({ length: count }, (_, i) => `user${i}@x${i % 100}.test,old list`).join('\n')}`
    const importing = importCsv(service, file)
    const stored = service.app.db.prepare<{ n: number }, []>('SELECT COUNT(*) AS n FROM suppressions')
    const seen = await countDuring(importing, () => stored.get()?.n ?? 0)
    expect(pickStatusAndBody(await importing)).toEqual(imported({ imported: count }))
    // Other work ran between the batches, and saw them.
    expect(seen.filter((n) => n > 0 && n < count).length).toBeGreaterThan(10)
    expect(at((await service.api('GET', '/v1/suppressions')).body, 'pagination', 'total')).toBe(count)
    expect(pickStatusAndBody(await importCsv(service, file))).toEqual(imported({ already_suppressed: count }))
    expectBalanced(service)
  })

  test('uses the reasons of its own export literally, and rejects an invalid default with a 422', async () => {
    await using service = await createTestApi()
    const file = 'email_address,reason,stream,list\na@x.test,550 gone,,\nb@x.test,Bounce,,\n'
    await importCsv(service, file)
    expect(rows(service)).toEqual([
      ['a@x.test', '550 gone', 0, 0],
      ['b@x.test', 'Bounce', 0, 0],
    ])
    expectError(
      await importCsv(service, 'c@x.test\n', undefined, `?reason=${'r'.repeat(201)}`),
      422,
      'validation_failed',
      'reason',
    )
    expect(rows(service)).toHaveLength(2)
  })

  // Proves: suppress-10
  test('keeps existing suppressions even if the file has another reason, and ends when the account is deleted', async () => {
    await using service = await createTestApi()
    await service.api('POST', '/v1/suppressions', { email_address: 'a@x.test' })
    expect(pickStatusAndBody(await importCsv(service, 'a@x.test,complaint\n'))).toEqual(
      imported({ already_suppressed: 1 }),
    )
    const dry = await importCsv(service, 'a@x.test\nb@x.test\nb@x.test\nno\n', undefined, '?dry_run=true')
    expect(dry.body).toMatchObject({ data: { imported: 1, already_suppressed: 2, invalid: 1 } })
    expect(rows(service)).toEqual([['a@x.test', 'manual', 0, 0]])
    const { app, actor } = service
    await expectBalanced(service)
    await app.commit.write((tx) => void closeAccount(tx, actor.accountId, app.eventTime()))
    await expect(importSuppressions(app, actor, Buffer.from('b@x.test\n'))).rejects.toThrow('The account was deleted.')
    await expect(addSuppression(app, actor, { address: 'b@x.test' })).rejects.toThrow('The account was deleted.')
    expect(rows(service)).toEqual([['a@x.test', 'manual', 0, 0]])
  })

  const unreadable: [string, string | Uint8Array, RegExp][] = [
    ['nothing', '', /empty/],
    ['empty lines', '\r\n\r\n', /empty/],
    [
      'a header without email_address',
      'reason\nmanual\n',
      /no column email_address.*must name the columns: email_address \(or email, or address\)/,
    ],
    [
      'columns with unknown names',
      'colour,size\nred,5\n',
      /no column email_address among "colour","size".*must name the columns/,
    ],
    ['tab-separated columns', 'email_address\treason\na@x.test\tmanual\n', /The file is tab-separated/],
    ['51 columns', `email${',x'.repeat(50)}\na@x.test\n`, /The file has 51 columns; at most 50 are allowed/],
    ['a column twice', 'email_address,reason,reason\na@x.test,a,b\n', /twice/],
    ['a column twice under two names', 'email_address,email\na@x.test,b@x.test\n', /twice/],
    ['three columns without a header', 'a@x.test,manual,news\n', /must name the columns/],
    ['two addresses in a line without a header', 'a@x.test,b@x.test\n', /must name the columns/],
    [
      'a quote that is never closed',
      `email_address\na@x.test\n"b@x.test\n${'c@x.test\n'.repeat(5000)}`,
      /after line 2: a quote is not closed/,
    ],
    ['an endless line', `email_address\na@x.test\n${'b'.repeat(100_000)}`, /Line 3 is longer than 64 KiB/],
    [
      'a file that is not UTF-8',
      new Uint8Array([...Buffer.from('email_address\njos'), 0xe9, ...Buffer.from('@x.test\n')]),
      /UTF-8/,
    ],
    ['UTF-16', Buffer.from('\ufeffemail_address\na@x.test\n', 'utf16le'), /not in UTF-8/],
  ]
  // Proves: suppress-10
  test.each(unreadable)('of %s is a 422 that says what is expected, and imports nothing', async (_, file, message) => {
    const service = shared
    const answer = await importCsv(service, file)
    expectError(answer, 422, 'invalid_csv', 'body')
    expect(at(answer.body, 'message')).toMatch(message)
    expect(rows(service)).toEqual([])
    expect(service.app.db.query("SELECT count(*) AS n FROM audit_logs WHERE action LIKE 'suppression%'").get()).toEqual(
      {
        n: 0,
      },
    )
  })

  test.each([
    { 'content-type': 'application/json' },
    { 'content-type': 'text/csv; charset=iso-8859-1' },
    { 'content-type': 'text/csvx' },
    { 'content-type': 'text/csv', 'content-encoding': 'gzip' },
  ])('with %j is a 415', async (headers) => {
    const service = shared
    expectError(await importCsv(service, 'a@x.test', headers), 415, 'unsupported_media_type')
  })

  test('is read with every content type of CSV in UTF-8', async () => {
    await using service = await createTestApi()
    for (const [i, type] of [
      'TEXT/CSV',
      'text/csv; charset=utf-8',
      'text/csv; header=present; charset="UTF-8"',
    ].entries())
      expect(pickStatusAndBody(await importCsv(service, `${i}@x.test`, { 'content-type': type }))).toEqual(
        imported({ imported: 1 }),
      )
  })

  test('over the limit of a body is a 413', async () => {
    await using service = await createTestApi({ settings: { TASSIS_MAX_BODY_BYTES: '64KiB' } })
    expectError(await importCsv(service, 'a@x.test\n'.repeat(10_000)), 413, 'payload_too_large')
    expect(rows(service)).toEqual([])
  })

  test('releases the memory of its body', async () => {
    await using service = await createTestApi()
    await importCsv(service, `email_address\n${'a@x.test\n'.repeat(50_000)}`)
    await importCsv(service, 'nothing\nlike it')
    expect(service.app.memory.inUseBytes).toBe(0)
  })
})

describe('an export', () => {
  // Proves: suppress-11
  test('has its columns, is a download, and escapes values that a spreadsheet would treat as a formula', async () => {
    await using service = await createTestApi()
    const reasons: [address: string, reason: string, line: string][] = [
      ['a@x.test', '=1+1', "a@x.test,'=1+1,"],
      ['+b@x.test', 'plain', "'+b@x.test,plain,"],
      ['-c@x.test', '@SUM(A1)', "'-c@x.test,'@SUM(A1),"],
      ["'d@x.test", '\tx', `'d@x.test,'\tx,`],
      ["'=e@x.test", 'a "quote", and ; more', `''=e@x.test,"a ""quote"", and ; more",`],
      ['f@x.test', ' spaces ', 'f@x.test," spaces ",'],
      ['g@x.test', 'x;=1+1;y', "g@x.test,x;'=1+1;y,"],
      ['h@x.test', 'x,=1;"+2;; -3', `h@x.test,"x,'=1;'""+2;;' -3",`],
      ['i@x.test', 'x\t@a|-b\n=c', `i@x.test,"x\t'@a|'-b\n'=c",`],
      ['"j;=k"@x.test', 'a=b; c-d', `"""j;'=k""@x.test",a=b; c-d,`],
      // Characters that are invisible, and that spreadsheets skip: NBSP, BOM, VT, ZWSP and similar ones.
      ...['\u00a0', '\ufeff', '\v', '\u200b', '\f', '\u3000', '\u2060', '\u00ad', '\u202e', '\0', ' \u200b"'].map(
        (start, i): [string, string, string] => {
          const cell = `'${start}=1+1`.replaceAll('"', '""')
          return [`k${i}@x.test`, `${start}=1+1`, `k${i}@x.test,${start.includes('"') ? `"${cell}"` : cell},`]
        },
      ),
      ['l@x.test', 'x;\u200b=1', "l@x.test,x;'\u200b=1,"],
    ]
    for (const [email_address, reason] of reasons)
      expect((await service.api('POST', '/v1/suppressions', { email_address, reason })).status).toBe(201)
    const response = await exportCsv(service)
    expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8')
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="suppressions.csv"')
    expect(response.headers.get('x-request-id')).not.toBeNull()
    expect(await response.text()).toBe(
      ['email_address,reason,stream,list', ...reasons.map(([, , line]) => `${line},`), ''].join('\r\n'),
    )
  })

  // Proves: suppress-11
  test('imported into an empty list gives the same list, whatever the cells begin with', async () => {
    await using service = await createTestApi()
    const { app, actor } = service
    await service.api('POST', '/v1/streams', { slug: 'news', name: 'News' })
    const starts = [
      '',
      '=',
      '+',
      '-',
      '@',
      '\t',
      '\r',
      '\n',
      "'",
      "'=",
      "''-",
      '"',
      ',',
      ';',
      ' ',
      '\ufeff',
      '\ufeff=',
      '\u00a0=',
      '\v+',
      '\u200b@',
      "'\u200b=",
      '\uff1d',
      '#',
      'é',
      '%',
      '|',
    ]
    const middles = ['', ';=1+1;y', ";'=1;''-2", '; +1', ';"=1"', ',=1,"+2', '|-1\t@2\r=3\n+4', "\t\t;'';=='"]
    await app.commit.write((tx) => {
      for (const [i, start] of starts.entries()) {
        for (const [j, end] of ['', ' ', '\n', '"', "'"].entries()) {
          const reason = `${start}r${middles[(i + j) % middles.length]}${end}`
          suppress(app, tx, { accountId: actor.accountId, address: `u${i}.${j}@x.test`, reason, covers: 'all' })
        }
      }
      for (const address of [
        "'a@x.test",
        "'=b@x.test",
        '=c@x.test',
        '+d@x.test',
        '"e,f"@x.test',
        '"g;=h"@x.test',
        'jos\u00e9@x.test',
      ])
        suppress(app, tx, { accountId: actor.accountId, address, reason: 'manual', covers: 'all' })
      const unsubscribed = { accountId: actor.accountId, reason: 'unsubscribe', covers: 'marketing' } as const
      suppress(app, tx, { ...unsubscribed, address: 'g@x.test' })
      suppress(app, tx, { ...unsubscribed, address: 'g@x.test', streamId: 2 })
    })
    const before = rows(service)
    const file = await (await exportCsv(service)).text()
    // In chunks of any size.
    for (const cell of file.split(/[,;|\t\r\n]/)) expect(cell).not.toMatch(/^[ "]*[=+\-@\uff1d]/)
    for (const [address] of before)
      await service.api('DELETE', `/v1/suppressions/${encodeURIComponent(String(address))}`)
    expect(rows(service)).toEqual([])
    expect(pickStatusAndBody(await importCsv(service, file))).toEqual(imported({ imported: before.length }))
    expect(rows(service)).toEqual(before)
    expect(await (await exportCsv(service)).text()).toBe(file)
    expectBalanced(service)
  })

  test('of many suppressions has each once', async () => {
    await using service = await createTestApi()
    const lines = Array.from({ length: 4321 }, (_, i) => `u${i}@x.test`)
    await importCsv(service, lines.join('\n'))
    const exported = (await (await exportCsv(service)).text()).trimEnd().split('\r\n')
    expect(exported.slice(1)).toEqual(lines.map((address) => `${address},manual,,`))
  })
})
