import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { simpleParser } from 'mailparser'
import { createTemplate } from '#features/setup/templates/templates.ts'
import { hours, MiB } from '#platform/units.ts'
import { type ApiOptions, type ApiResponse, at } from '#test/support/api.ts'
import { createTestAccount } from '#test/support/app.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError, VERIFIED } from '#test/support/email-api.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { startSink } from '#test/support/sink.ts'

type Json = Record<string, unknown>

let emails: EmailApi
beforeAll(async () => {
  emails = await createEmailApi()
})
afterAll(() => emails[Symbol.asyncDispose]())

let made = 0
const ORDER = {
  name: 'Order',
  subject: 'Order {{ order.id }}',
  html_body: '<p>{{ order.item }}</p>',
  text_body: 'Item: {{ order.item }}',
}
const DATA = { order: { id: 7, item: 'Nuts & <bolts>' } }
/** A send whose parts all come from a template. */
const TEMPLATED = { subject: undefined, text_body: undefined }

/** Creates a template in an account and returns its alias and id. */
async function addTemplate(
  service: EmailApi,
  change: Json = {},
  options: ApiOptions = {},
): Promise<{ alias: string; id: string }> {
  const alias = `order-${++made}`
  const answer = await service.api('POST', '/v1/templates', { ...ORDER, alias, ...change }, options)
  if (answer.status !== 201) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
  return { alias, id: String(at(answer.body, 'data', 'id')) }
}

const sendTemplate = (
  service: EmailApi,
  alias: string,
  change: Json = {},
  options?: ApiOptions,
): Promise<ApiResponse> =>
  service.send({ ...TEMPLATED, template_alias: alias, template_data: DATA, ...change }, options)

const readDetail = async (answer: ApiResponse): Promise<Json> => {
  expect(answer.status).toBe(202)
  return emails.detail(at(answer.body, 'data', 'id'))
}

const sendBatch = (service: EmailApi, items: readonly Json[], options?: ApiOptions): Promise<ApiResponse> =>
  service.api('POST', '/v1/emails/batch', { emails: items }, options)

const createItem = (alias: string, change: Json = {}): Json => ({
  from: EMAIL.from,
  to: EMAIL.to,
  template_alias: alias,
  template_data: DATA,
  ...change,
})

describe('a send with template_alias', () => {
  // Proves: send-23, email-12
  test('has the rendered parts of the template, and refers to it in the detail and in the list', async () => {
    const { alias, id } = await addTemplate(emails)
    const detail = await readDetail(await sendTemplate(emails, alias))
    const shown = {
      subject: 'Order 7',
      html_body: '<p>Nuts &amp; &lt;bolts&gt;</p>',
      text_body: 'Item: Nuts & <bolts>',
      template_id: id,
      template_data: DATA,
    }
    expect(detail).toMatchObject({ ...shown, email: shown })
    const rows = at((await emails.api('GET', '/v1/emails?per_page=100')).body, 'data') as Json[]
    expect(rows.find((row) => row['id'] === detail['id'])?.['template_id']).toBe(id)
  })

  // Proves: email-12
  test('keeps the rendered parts and its reference when the template is changed or deleted later', async () => {
    const { alias, id } = await addTemplate(emails)
    const sendAt = new Date(emails.clock.now() + hours(1)).toISOString()
    const sent = await sendTemplate(emails, alias, { send_at: sendAt })
    const before = await readDetail(sent)
    await emails.api('PUT', `/v1/templates/${id}`, { subject: 'Another', html_body: 'Another', text_body: 'Another' })
    expect(await readDetail(sent)).toEqual(before)
    await emails.api('DELETE', `/v1/templates/${id}`)
    expect(await readDetail(sent)).toEqual(before)
    expect(before['template_id']).toBe(id)
  })

  test('needs no data when the template needs none', async () => {
    const { alias } = await addTemplate(emails, { subject: 'Hi', html_body: null, text_body: '{{ 6 * 7 }}' })
    for (const template_data of [undefined, null, {}, []])
      expect(await readDetail(await sendTemplate(emails, alias, { template_data }))).toMatchObject({
        subject: 'Hi',
        html_body: null,
        text_body: '42',
        template_data: null,
      })
  })

  // Proves: send-22
  test('fails with 422 and stores nothing when the account has no such alias', async () => {
    const { alias, id } = await addTemplate(emails)
    const other = await emails.newAccount()
    const theirs = await addTemplate(emails, {}, { key: await emails.newKey([], other) })
    await emails.api('DELETE', `/v1/templates/${id}`)
    const before = emails.stored()
    for (const unknown of [alias, theirs.alias, 'nothing', id])
      expectError(await sendTemplate(emails, unknown), 422, 'template_not_found', 'template_alias')
    expect(emails.stored()).toEqual(before)
  })

  test('fails with 422 when template_data is not an object; without template_alias, any template_data fails', async () => {
    const { alias } = await addTemplate(emails)
    for (const template_data of ['text', 7, true, ['x']]) {
      expectError(await sendTemplate(emails, alias, { template_data }), 422, 'validation_failed', 'template_data')
      expect((await emails.send({ template_data })).status).toBe(202)
    }
  })
})

describe('an explicit part', () => {
  const plain = 'plain {{ missing }} {% nonsense'
  // Proves: send-25
  test.each(['subject', 'html_body', 'text_body'])(
    '%s overrides the template; neither it nor that part of the template is rendered',
    async (field) => {
      const { alias, id } = await addTemplate(emails, { [field]: '{{ not_in_the_data }}' })
      const rendered = {
        subject: 'Order 7',
        html_body: '<p>Nuts &amp; &lt;bolts&gt;</p>',
        text_body: 'Item: Nuts & <bolts>',
      }
      const detail = await readDetail(await sendTemplate(emails, alias, { [field]: plain }))
      expect(detail).toMatchObject({ ...rendered, [field]: plain, template_id: id })
    },
  )

  // Proves: send-25
  test.each([null, ''])('of %j counts as omitted: the template provides it', async (none) => {
    const { alias } = await addTemplate(emails)
    const answer = await sendTemplate(emails, alias, { subject: none, html_body: none, text_body: none })
    expect((await readDetail(answer))['subject']).toBe('Order 7')
  })

  // Proves: send-25
  test('for each part leaves nothing to render, whatever the data', async () => {
    const { alias, id } = await addTemplate(emails)
    const parts = { subject: plain, html_body: plain, text_body: plain }
    const detail = await readDetail(await sendTemplate(emails, alias, { ...parts, template_data: undefined }))
    expect(detail).toMatchObject({ ...parts, template_id: id })
  })
})

describe('a template error', () => {
  // Proves: send-23
  test('is a 422 that names part, line and variable; nothing is stored or counted', async () => {
    const { alias } = await addTemplate(emails, { text_body: 'one\ntwo {{ order.buyer }}' })
    const before = emails.stored()
    const refused = await sendTemplate(emails, alias, { idempotency_key: 'faulty' })
    expectError(refused, 422, 'template_error', 'text_body')
    for (const words of ['text_body', 'line 2', 'order.buyer']) expect(at(refused.body, 'message')).toContain(words)
    expect(emails.stored()).toEqual(before)
  })

  test('of a filter that cannot handle its data is a 422 on the part', async () => {
    const { alias } = await addTemplate(emails, { html_body: '{{ order.item | round }}' })
    expectError(await sendTemplate(emails, alias), 422, 'template_error', 'html_body')
  })
})

describe('a rendered subject', () => {
  const subjectOf = async (subject: string, data: Json = {}): Promise<ApiResponse> => {
    const { alias } = await addTemplate(emails, { subject, html_body: null, text_body: 'x' })
    return sendTemplate(emails, alias, { template_data: data })
  }

  test('is one line: white space between words becomes one space', async () => {
    const source = '\n  {% if vip %}\n  Dear\r\n  {% endif %}\n{{ name }}\t!\n'
    expect((await readDetail(await subjectOf(source, { vip: true, name: 'Bob\t Ray' })))['subject']).toBe(
      'Dear Bob Ray !',
    )
  })

  // Proves: send-34
  test.each([
    ['Bob\r\nBcc: eve@receiver.test', 'Dear Bob Bcc: eve@receiver.test!'],
    ['Bob\n', 'Dear Bob !'],
    ['\r  Bob\n\tRay', 'Dear Bob Ray!'],
  ])('with a line break from the data %j has one blank there', async (name, subject) => {
    expect((await readDetail(await subjectOf('Dear {{ name }}!', { name })))['subject']).toBe(subject)
  })

  // Proves: send-34
  test.each(['B\0b', 'B\x1bb', 'B\x7fb'])(
    'with another control character from the data %j fails with 422',
    async (name) => {
      const refused = await subjectOf('Dear {{ name }}!', { name })
      expectError(refused, 422, 'validation_failed', 'subject')
      expect(at(refused.body, 'message')).toContain('template_data')
    },
  )

  // Proves: send-18
  test.each([
    ['empty', '{{ "" }}', {}],
    ['white', '{{ x }}\n', { x: ' \r\n ' }],
    ['too long', '{{ x }}', { x: 'x'.repeat(999) }],
    ['with NUL', '{{ x }}', { x: 'a\0b' }],
  ])('that is %s fails with 422', async (_, source, data) => {
    expectError(await subjectOf(source, data), 422, 'validation_failed', 'subject')
  })

  test('of 998 characters is accepted', async () => {
    expect((await readDetail(await subjectOf('{{ x }}', { x: 'ü'.repeat(998) })))['subject']).toBe('ü'.repeat(998))
  })
})

test('a template without a body fails with 422, unless the send has one', async () => {
  const { alias } = await addTemplate(emails, { html_body: '{% if false %}x{% endif %}', text_body: null })
  expectError(await sendTemplate(emails, alias), 422, 'validation_failed', 'text_body')
  expect(await readDetail(await sendTemplate(emails, alias, { text_body: 'own' }))).toMatchObject({
    subject: 'Order 7',
    html_body: null,
    text_body: 'own',
  })
})

describe('nothing is rendered for a sender that may not send', () => {
  const BOMB = '{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}'
  const startAccount = async (settings: Readonly<Record<string, string>> = {}) => {
    const service = await createEmailApi({ settings })
    const actor = await createTestAccount(service.app, 'free')
    await service.addDomain(actor, 'free.test')
    const key = await service.newKey([], actor)
    const { alias } = await addTemplate(service, { text_body: BOMB }, { key })
    return {
      service,
      actor,
      send: (change: Json = {}) => sendTemplate(service, alias, { from: 'a@free.test', ...change }, { key }),
      batch: (items: readonly Json[]) =>
        sendBatch(
          service,
          items.map((change) => createItem(alias, { from: 'a@free.test', ...change })),
          { key },
        ),
      plain: (change: Json = {}) => service.send({ from: 'a@free.test', ...change }, { key }),
      [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
    }
  }

  test('an account that may send gets 422 template_limit', async () => {
    await using account = await startAccount()
    expectError(await account.send(), 422, 'template_limit', 'text_body')
  })

  test('a paused account gets 403 account_paused', async () => {
    await using account = await startAccount()
    account.service.app.db.run('UPDATE accounts SET paused_at = 1 WHERE id = ?', [account.actor.accountId])
    expectError(await account.send(), 403, 'account_paused')
  })

  test('an account beyond its rate gets 429 rate_limited', async () => {
    await using account = await startAccount({ TASSIS_SEND_RATE_PER_SECOND: '1', TASSIS_SEND_BURST: '1' })
    expect((await account.plain()).status).toBe(202)
    expectError(await account.send(), 429, 'rate_limited')
  })

  test('an account beyond its quota gets 429 quota_exceeded', async () => {
    await using account = await startAccount({ TASSIS_PLANS: 'free.monthly_quota=1' })
    expect((await account.plain()).status).toBe(202)
    expectError(await account.send(), 429, 'quota_exceeded')
  })

  test('a batch of which no email fits into the remaining quota gets 429 quota_exceeded', async () => {
    await using account = await startAccount({ TASSIS_PLANS: 'free.monthly_quota=3' })
    const two = { to: ['a@receiver.test', 'b@receiver.test'] }
    expect((await account.plain()).status).toBe(202)
    // When some emails fit, they are rendered and hit the template limit.
    expect((await account.batch([two, two])).status).toBe(202)
    expect((await account.plain()).status).toBe(202)
    expectError(await account.batch([two, two]), 429, 'quota_exceeded')
    expect(account.service.used(account.actor)).toBe(2)
  })

  test('a sender whose domain is unknown gets 422 domain_not_found', async () => {
    await using account = await startAccount()
    expectError(await account.send({ from: 'a@unknown.test' }), 422, 'domain_not_found', 'from')
  })
})

describe('an idempotency key', () => {
  test('returns the first email after its template was changed or deleted; the same request is no mismatch', async () => {
    const { alias, id } = await addTemplate(emails)
    const key = { idempotency_key: alias }
    const first = await sendTemplate(emails, alias, key)
    const again = async (change: Json = {}) => {
      const { status, body, headers } = await sendTemplate(emails, alias, { ...key, ...change })
      return { status, id: at(body, 'data', 'id'), mismatch: headers.get('idempotency-mismatch') }
    }
    const same = { status: 202, id: at(first.body, 'data', 'id'), mismatch: null }
    await emails.api('PUT', `/v1/templates/${id}`, { text_body: '{{ now_missing }}' })
    expect(await again()).toEqual(same)
    await emails.api('DELETE', `/v1/templates/${id}`)
    expect(await again()).toEqual(same)
    expect(await again({ template_data: { order: {} } })).toEqual({ ...same, mismatch: 'true' })
    const { body } = await sendBatch(emails, [createItem(alias, key)])
    expect([at(body, 'data', 0, 'id'), at(body, 'errors')]).toEqual([same.id, []])
  })
})

describe('a batch', () => {
  // Proves: send-23
  test('renders each of its emails; failed ones are in errors, and the others keep their order', async () => {
    const { alias, id } = await addTemplate(emails)
    const data = (n: number) => ({ template_data: { order: { id: n, item: `item ${n}` } } })
    const answer = await sendBatch(emails, [
      createItem(alias, data(0)),
      { ...EMAIL, subject: 'plain' },
      createItem(alias, { template_data: { order: {} } }),
      createItem('nothing'),
      createItem(alias, { ...data(4), subject: 'own' }),
      createItem(alias, data(5)),
    ])
    const sent = at(answer.body, 'data') as { id: string }[]
    const details = await Promise.all(sent.map((email) => emails.detail(email.id)))
    expect({
      status: answer.status,
      errors: at(answer.body, 'errors'),
      emails: details.map((email) => [email['subject'], email['text_body'], email['template_id']]),
    }).toEqual({
      status: 202,
      errors: [
        { index: 2, error: expect.stringMatching(/line 1.*order\.\w+/) },
        { index: 3, error: 'There is no template with the alias "nothing".' },
      ],
      emails: [
        ['Order 0', 'Item: item 0', id],
        ['plain', 'Hello, Bob.', null],
        ['own', 'Item: item 4', id],
        ['Order 5', 'Item: item 5', id],
      ],
    })
    const operation = await emails.api('GET', `/v1/operations/${at(answer.body, 'operation_id')}`)
    expect(at(operation.body, 'data')).toMatchObject({ total_items: 6, completed_items: 4, failed_items: 2 })
  })

  test('of 500 emails renders each with its own data', async () => {
    const { alias } = await addTemplate(emails, { subject: '{{ n }}', html_body: null, text_body: 'No. {{ n }}' })
    const numbers = Array.from({ length: 500 }, (_, n) => n)
    const answer = await sendBatch(
      emails,
      numbers.map((n) => createItem(alias, { to: `r${n}@receiver.test`, template_data: { n } })),
    )
    const sent = at(answer.body, 'data') as { id: string; to: string }[]
    expect(sent.map(({ to }) => to)).toEqual(numbers.map((n) => `r${n}@receiver.test`))
    for (const n of [0, 1, 250, 499])
      expect(await emails.detail(sent[n]?.id)).toMatchObject({ subject: `${n}`, text_body: `No. ${n}` })
  })

  test('whose emails all fail to render returns 202 without any', async () => {
    const { alias } = await addTemplate(emails)
    const answer = await sendBatch(emails, [createItem(alias, { template_data: {} }), createItem('nothing')])
    expect([answer.status, at(answer.body, 'data'), at(answer.body, 'errors', 1, 'index')]).toEqual([202, [], 1])
  })

  test('does not count emails that fail to render towards the quota', async () => {
    await using service = await createEmailApi({ settings: { TASSIS_PLANS: 'free.monthly_quota=1' } })
    const actor = await createTestAccount(service.app, 'free')
    await service.addDomain(actor, 'free.test')
    const key = await service.newKey([], actor)
    const { alias } = await addTemplate(service, {}, { key })
    const from = { from: 'a@free.test' }
    const faulty = createItem(alias, { ...from, template_data: {} })
    const answer = await sendBatch(service, [faulty, createItem(alias, from), faulty], { key })
    expect([answer.status, (at(answer.body, 'data') as unknown[]).length, service.used(actor)]).toEqual([202, 1, 1])
    expectError(await sendBatch(service, [createItem(alias, from)], { key }), 429, 'quota_exceeded')
  })
})

describe('rendered text counts as memory', () => {
  /** Renders to 300 KB from a few bytes of data. */
  const LARGE = { subject: 'Hi', html_body: null, text_body: '{% for i in range(300) %}{{ x }}{% endfor %}' }
  const data = { template_data: { x: 'x'.repeat(1000) } }
  const items = (alias: string, count: number) => Array.from({ length: count }, () => createItem(alias, data))

  test('a batch whose emails exceed the size of a request fails with 413 as a whole, and stores nothing', async () => {
    await using service = await createEmailApi({ settings: { TASSIS_MAX_BODY_BYTES: String(MiB) } })
    const { alias } = await addTemplate(service, LARGE)
    expect((await sendBatch(service, items(alias, 3))).status).toBe(202)
    const before = service.stored()
    const refused = await sendBatch(service, items(alias, 4))
    expectError(refused, 413, 'rendered_too_large')
    expect(at(refused.body, 'message')).toContain('send fewer emails per request')
    expect(service.stored()).toEqual(before)
    expect(service.app.memory.inUseBytes).toBe(0)
  })

  test('while memory is used up, sends and previews of large templates fail with 503, and others succeed', async () => {
    await using service = await createEmailApi({ settings: { TASSIS_MEMORY_BUDGET: String(16 * MiB) } })
    const { memory } = service.app
    const large = await addTemplate(service, LARGE)
    const small = await addTemplate(service)
    const taken = memory.reserve(memory.limitBytes - MiB / 2)
    const before = service.stored()
    expectError(await sendTemplate(service, large.alias, data), 503, 'server_busy')
    expectError(await sendBatch(service, items(large.alias, 1)), 503, 'server_busy')
    expectError(await service.api('POST', `/v1/templates/${large.id}/render`, data), 503, 'server_busy')
    expect(service.stored()).toEqual(before)
    expect((await sendTemplate(service, small.alias)).status).toBe(202)
    taken?.release()
    expect((await sendTemplate(service, large.alias, data)).status).toBe(202)
    expect((await service.api('POST', `/v1/templates/${large.id}/render`, data)).status).toBe(200)
    expect(memory.inUseBytes).toBe(0)
  })

  test('a batch of 500 emails of 1 MB each is rejected before it exceeds its share of memory', async () => {
    await using service = await createEmailApi({ settings: { TASSIS_MEMORY_BUDGET: String(64 * MiB) } })
    const { memory } = service.app
    const { alias } = await addTemplate(service, {
      ...LARGE,
      text_body: '{% for i in range(990) %}{{ x }}{% endfor %}',
    })
    let mostBytes = 0
    const reserve = memory.reserve.bind(memory)
    memory.reserve = (bytes) => {
      const reservation = reserve(bytes)
      return (
        reservation && {
          get bytes() {
            return reservation.bytes
          },
          resize(more) {
            const isResized = reservation.resize(more)
            mostBytes = Math.max(mostBytes, memory.inUseBytes)
            return isResized
          },
          release: () => reservation.release(),
        }
      )
    }
    expectError(await sendBatch(service, items(alias, 500)), 413, 'rendered_too_large')
    expect(mostBytes).toBeGreaterThan(10 * MiB)
    expect(mostBytes).toBeLessThan(48 * MiB)
    expect(memory.inUseBytes).toBe(0)
  })
})

test('a template bomb fails with 422 for its sender, while all sends of another account succeed', async () => {
  await using service = await createEmailApi()
  const hostile = await service.newAccount()
  await service.addDomain(hostile, 'hostile.test')
  const key = await service.newKey([], hostile)
  const loops = '{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}'
  const growth =
    '{% set ns = namespace(s="x") %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}'
  const work = '{% for i in range(9999) %}{% set x = big|upper|lower|upper %}{% endfor %}'
  const bombs = await Promise.all(
    [loops, growth, work].map((text_body) =>
      addTemplate(service, { subject: 'Hi', html_body: null, text_body }, { key }),
    ),
  )
  const { alias } = await addTemplate(service)
  const hostileSends = async (bomb: string): Promise<ApiResponse[]> => {
    const answers: ApiResponse[] = []
    const change = { from: 'a@hostile.test', template_data: { big: 'x'.repeat(500_000) } }
    for (let n = 0; n < 3; n++) answers.push(await sendTemplate(service, bomb, change, { key }))
    return answers
  }
  const others = async (): Promise<ApiResponse[]> => {
    const answers: ApiResponse[] = []
    for (let n = 0; n < 20; n++)
      answers.push(
        ...(await Promise.all([sendTemplate(service, alias), service.send(), sendBatch(service, [createItem(alias)])])),
      )
    return answers
  }
  const [ofOthers, ...ofHostile] = await Promise.all([others(), ...bombs.map((bomb) => hostileSends(bomb.alias))])
  for (const answer of ofHostile.flat()) expectError(answer, 422, 'template_limit', 'text_body')
  expect(ofOthers.map(({ status }) => status)).toEqual(Array.from({ length: 60 }, () => 202))
  expect(ofOthers.flatMap(({ body }) => ('errors' in Object(body) ? at(body, 'errors') : []))).toEqual([])
  expect((await sendTemplate(service, alias, { from: `a@${VERIFIED}` })).status).toBe(202)
})

// Proves: send-23
test('the receiver gets the rendered parts; a text part is generated when there is only HTML', async () => {
  await using sink = await startSink()
  const zone = {
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
  }
  await using flow = await startMailFlow({ zone, smtpPort: sink.port })
  const { app, actor } = flow
  await createTemplate(app, actor, {
    alias: 'order',
    name: 'Order',
    subject: ORDER.subject,
    htmlBody: ORDER.html_body,
    textBody: null,
  })
  const request = { subject: null, text_body: null, template_alias: 'order', template_data: DATA }
  const { recipient } = await flow.outcome('bob@receiver.test', request)
  expect(recipient.status).toBe('sent')
  const message = await simpleParser(sink.messages[0]?.raw ?? '', { skipHtmlToText: true })
  expect([message.subject, message.html, message.text?.trim()]).toEqual([
    'Order 7',
    '<p>Nuts &amp; &lt;bolts&gt;</p>',
    'Nuts & <bolts>',
  ])
})
