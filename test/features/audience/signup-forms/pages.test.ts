import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { ask, createFormApi, type FormApi, submit, submitJson } from './fixture.ts'

let service: FormApi
beforeAll(async () => {
  service = await createFormApi()
})
afterEach(() => {
  service.clear()
  service.clock.advance(days(31))
})
afterAll(() => service[Symbol.asyncDispose]())

const ACTIVE = 0
const PENDING = 1
const ADA = 'ada@reader.test'

/** Status, and the text between the tags of the page. */
const read = async (response: Response) => {
  const text = (await response.text()).replace(/<style>[\s\S]*?<\/style>|<title>.*?<\/title>/g, '')
  return {
    status: response.status,
    text: text
      .replace(/<[^>]+>/g, ' ')
      .replace(/\s+/g, ' ')
      .trim(),
  }
}
const json = async (response: Response) => ({ status: response.status, body: await response.json() })
const toggle = (id: string) => service.api('POST', `/v1/signup-forms/${id}/toggle`)

const FIELDS = [
  { name: 'first_name', label: 'First name', type: 'text', required: true },
  { name: 'about', label: 'About you', type: 'textarea' },
  { name: 'work', label: 'Work address', type: 'email' },
  { name: 'age', label: 'Age', type: 'number' },
  { name: 'phone', label: 'Telephone', type: 'tel' },
  { name: 'site', label: 'Web site', type: 'url' },
  { name: 'born', label: 'Birthday', type: 'date' },
  { name: 'offers', label: 'Offers too', type: 'checkbox' },
]

describe('the page of a form', () => {
  // Proves: form-10
  test('asks for the address and the custom fields, under its title and description', async () => {
    const { path } = await service.form({ description: 'Once a month.', custom_fields: FIELDS })
    const { status, text } = await read(await ask(service, 'GET', path))
    expect({ status, text }).toEqual({
      status: 200,
      text: 'Our newsletter Once a month. Email address * First name * About you Work address Age Telephone Web site Birthday Offers too Leave this empty Subscribe Made with Tassis',
    })
  })

  // Proves: form-8
  test("shows the account's texts in place of the English ones", async () => {
    const messages = {
      email_label: 'E-Mail-Adresse',
      email_placeholder: 'du@example.de',
      submit_button: 'Abonnieren',
      invalid_email: 'Das ist keine Adresse.',
      already_subscribed: 'Schon dabei.',
    }
    const { path } = await service.form({ messages, theme: { hide_branding: true } })
    const page = await ask(service, 'GET', path)
    const source = await page.clone().text()
    expect(source).toContain(' placeholder="du@example.de"')
    expect((await read(page)).text).toBe('Our newsletter E-Mail-Adresse Leave this empty Abonnieren')
    expect((await read(await submit(service, path, { email: 'x' }))).text).toBe(
      'Our newsletter Das ist keine Adresse. E-Mail-Adresse Das ist keine Adresse. Leave this empty Abonnieren',
    )
    await submit(service, path, { email: ADA })
    expect(await read(await submit(service, path, { email: ADA }))).toEqual({
      status: 200,
      text: 'Our newsletter Schon dabei.',
    })
  })

  test('forbids scripts, everything from other hosts and frames, and is not cached', async () => {
    const { path } = await service.form()
    const { headers } = await ask(service, 'GET', path)
    expect({
      type: headers.get('content-type'),
      policy: headers.get('content-security-policy'),
      cache: headers.get('cache-control'),
      robots: headers.get('x-robots-tag'),
      sniff: headers.get('x-content-type-options'),
      referrer: headers.get('referrer-policy'),
      cookie: headers.get('set-cookie'),
    }).toEqual({
      type: 'text/html; charset=utf-8',
      policy:
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      cache: 'no-store',
      robots: 'noindex, nofollow',
      sniff: 'nosniff',
      referrer: 'no-referrer',
      cookie: null,
    })
  })

  // Proves: http-8
  test('and every other response tell browsers to use https only, since the public URL does', async () => {
    const { path } = await service.form()
    for (const asked of [path, '/login', '/docs', '/v1/emails', '/v1/nothing', '/nothing', '/healthz', '/t/o/x'])
      expect([asked, (await ask(service, 'GET', asked)).headers.get('strict-transport-security')]).toEqual([
        asked,
        'max-age=31536000',
      ])
  })

  test('can be embedded in another page with ?embed=1, or if its theme says so, and not otherwise', async () => {
    const { path } = await service.form()
    const { path: made } = await service.form({ theme: { embed: true } })
    const ancestors = async (method: string, at: string) =>
      /frame-ancestors (.*)$/.exec((await ask(service, method, at)).headers.get('content-security-policy') ?? '')?.[1]
    expect({
      page: await ancestors('GET', path),
      embed: await ancestors('GET', `${path}?embed=1`),
      answer: await ancestors('POST', `${path}?embed=1`),
      other: await ancestors('GET', `${path}?embed=0`),
      made: await ancestors('GET', made),
      none: await ancestors('GET', '/subscribe/none?embed=1'),
    }).toEqual({ page: "'none'", embed: '*', answer: '*', other: "'none'", made: '*', none: '*' })
  })

  // Proves: form-10
  test('is a polite 404 when the form is unknown, inactive or deleted, or its list is', async () => {
    const [off, deleted, withoutList] = [await service.form(), await service.form(), await service.form()]
    await toggle(off.id)
    await service.api('DELETE', `/v1/signup-forms/${deleted.id}`)
    service.app.db.run('UPDATE contact_lists SET deleted_at = 1 WHERE id = (SELECT max(id) FROM contact_lists)')
    const paths = [off.path, deleted.path, withoutList.path, '/subscribe/none', '/subscribe/%00', '/subscribe/%C3']
    const gone = {
      status: 404,
      text: 'This form is not available It was deactivated or has moved. Ask the person who gave you its address.',
    }
    for (const path of [
      ...paths,
      `/subscribe/${'x'.repeat(5000)}`,
      `/subscribe/${encodeURIComponent("' OR 1=1 --")}`,
    ]) {
      expect(await read(await ask(service, 'GET', path))).toEqual(gone)
      expect(await read(await submit(service, path, { email: ADA }))).toEqual(gone)
      expect(await json(await submitJson(service, path, { email: ADA }))).toMatchObject({
        status: 404,
        body: { code: 'signup_form_not_found', message: 'This form is not available.' },
      })
      expect((await ask(service, 'OPTIONS', path)).status).toBe(404)
    }
    expect(service.contacts()).toEqual([])
    await toggle(off.id)
    expect((await ask(service, 'GET', off.path)).status).toBe(200)
  })

  test('does not exist under the tracking host of another account', async () => {
    const { path } = await service.form()
    const other = await service.newAccount()
    await service.addDomain(other, 'other.test')
    const set = (host: string, domain: string) =>
      service.app.db.run(
        'UPDATE domains SET tracking_domain = ?, tracking_verified_at = 1 WHERE domain = ? AND verified_at IS NOT NULL',
        [host, domain],
      )
    set('links.other.test', 'other.test')
    set('links.sender.test', 'sender.test')
    const under = async (host: string) => (await ask(service, 'GET', path, undefined, { host })).status
    expect([await under('links.other.test'), await under('links.sender.test'), await under('proxy.test')]).toEqual([
      404, 200, 200,
    ])
  })

  test('answers HEAD as GET, without a body, and neither HEAD nor a query subscribes anyone', async () => {
    const { path } = await service.form()
    const head = await ask(service, 'HEAD', path)
    expect([head.status, await head.text()]).toEqual([200, ''])
    await ask(service, 'GET', `${path}?email=${ADA}`)
    expect(service.contacts()).toEqual([])
  })
})

describe('a visitor who signs up', () => {
  // Proves: form-10
  test('is on the list immediately without double opt-in; a second time changes nothing', async () => {
    const { path } = await service.form()
    expect(await read(await submit(service, path, { email: ` ${ADA} ` }))).toEqual({
      status: 200,
      text: 'Our newsletter You are subscribed. Made with Tassis',
    })
    expect(await read(await submit(service, path, { email: ADA.toUpperCase() }))).toEqual({
      status: 200,
      text: 'Our newsletter This address is already subscribed. Made with Tassis',
    })
    expect(service.contacts()).toEqual([{ email: ADA, status: ACTIVE, metadata: null }])
  })

  // Proves: form-10
  test('gets a confirmation request with double opt-in, and sees that, whatever the success message says', async () => {
    const { path } = await service.form({ list_id: service.list({ doubleOptIn: true }), success_message: 'Thank you!' })
    expect(await json(await submitJson(service, path, { email: ADA }))).toEqual({
      status: 200,
      body: {
        message: 'Thank you! Please confirm your subscription: we are sending you a message with a link.',
        status: 'confirmation_sent',
      },
    })
    expect(await json(await submitJson(service, path, { email: ADA }))).toEqual({
      status: 200,
      body: {
        message:
          'This address has not been confirmed yet. Look for the message with the link, and check your spam folder.',
        status: 'confirmation_pending',
      },
    })
    expect(service.contacts()).toEqual([{ email: ADA, status: PENDING, metadata: null }])
    expect(service.app.db.query("SELECT kind, data ->> '$.from' AS sender FROM notices").all()).toEqual([
      { kind: 'confirmation', sender: null },
    ])
  })

  test('sees the success message, or is redirected to redirect_url', async () => {
    const { path: said } = await service.form({ success_message: 'Thank you.\nSee you.' })
    expect((await read(await submit(service, said, { email: ADA }))).text).toContain('Thank you. See you.')
    const redirect_url = 'https://shop.test/dänke?a=1&b="2"'
    const { path } = await service.form({ success_message: 'Thank you.', redirect_url })
    const led = await submit(service, path, { email: ADA })
    expect({ status: led.status, location: led.headers.get('location'), text: await led.text() }).toEqual({
      status: 303,
      location: 'https://shop.test/d%C3%A4nke?a=1&b=%222%22',
      text: '',
    })
    // There is something to read.
    expect((await submit(service, path, { email: ADA })).status).toBe(200)
    expect(await json(await submitJson(service, path, { email: 'bob@reader.test' }))).toEqual({
      status: 200,
      body: { message: 'Thank you.', status: 'subscribed', redirect_url: 'https://shop.test/d%C3%A4nke?a=1&b=%222%22' },
    })
  })

  test('is accepted while the account is paused', async () => {
    const { path } = await service.form({ list_id: service.list({ doubleOptIn: true }) })
    service.app.db.run('UPDATE accounts SET paused_at = 1')
    expect((await submit(service, path, { email: ADA })).status).toBe(200)
    expect(service.contacts()).toEqual([{ email: ADA, status: PENDING, metadata: null }])
  })

  test('sees the same whether or not the address is suppressed', async () => {
    const { app, actor } = service
    const { path } = await service.form({ list_id: service.list({ doubleOptIn: true }) })
    await app.commit.write((tx) =>
      suppress(app, tx, { accountId: actor.accountId, address: ADA, covers: 'all', reason: 'complaint' }),
    )
    const [stopped, free] = [
      await read(await submit(service, path, { email: ADA })),
      await read(await submit(service, path, { email: 'bob@reader.test' })),
    ]
    expect(stopped).toEqual(free)
    expect(service.contacts().map(({ email }) => email)).toEqual(['bob@reader.test'])
  })

  test('sees an error when the account can send no confirmation, and nothing is stored', async () => {
    const { path } = await service.form({ list_id: service.list({ doubleOptIn: true }), messages: { error: 'Sorry.' } })
    service.app.db.run('UPDATE domains SET verified_at = NULL')
    const page = await submit(service, path, { email: ADA })
    expect(page.headers.get('retry-after')).toBe('600')
    expect(await read(page)).toEqual({
      status: 503,
      text: 'Our newsletter Sorry. Email address Leave this empty Subscribe Made with Tassis',
    })
    expect(await json(await submitJson(service, path, { email: ADA }))).toMatchObject({
      status: 503,
      body: { code: 'no_verified_domain', message: 'Sorry.', retry_after: 600 },
    })
    expect(service.contacts()).toEqual([])
  })
})

describe('invalid input', () => {
  // One service for all of them, a minute apart: a start costs more than all posts.
  test('as an address is a 422 with the form, the value kept and the problem named', async () => {
    const { path } = await service.form()
    for (const email of [
      '',
      ' ',
      'ada',
      'ada@',
      '@reader.test',
      'ada@reader',
      'Ada <ada@reader.test>',
      'a@b.test, c@d.test',
      'ada@reader.test\r\nBcc: x@y.test',
      `${'a'.repeat(300)}@reader.test`,
    ]) {
      service.clock.advance(minutes(1))
      const answer = await submit(service, path, { email })
      const source = await answer.clone().text()
      expect({ email, ...(await read(answer)) }).toEqual({
        email,
        status: 422,
        text: 'Our newsletter Enter an email address such as name@example.com. Email address Enter an email address such as name@example.com. Leave this empty Subscribe Made with Tassis',
      })
      expect(source).toMatch(
        /<input type="email" value="[^"]*" id="field-email" name="email" required autofocus aria-invalid="true" aria-describedby="field-email-fault"/,
      )
      expect(source).toMatch(/<div class="wrong" role="alert"><ul><li><a href="#field-email">/)
      expect({ email, ...(await json(await submitJson(service, path, { email }))) }).toMatchObject({
        email,
        status: 422,
        body: {
          code: 'invalid_address',
          message: 'Enter an email address such as name@example.com.',
          details: [{ field: 'email', message: 'Enter an email address such as name@example.com.' }],
        },
      })
      expect(service.contacts()).toEqual([])
    }
  })

  test('as JSON is a 422 for the address', async () => {
    const { path } = await service.form()
    for (const body of [
      null,
      [],
      1,
      'x',
      {},
      { email: null },
      { email: 1 },
      { email: { a: 1 } },
      { email: ['a@b.test'] },
    ]) {
      service.clock.advance(minutes(1))
      const answer = await json(await submitJson(service, path, body))
      expect({ posted: body, ...answer }).toMatchObject({
        posted: body,
        status: 422,
        body: { code: 'invalid_address' },
      })
    }
  })

  test('in custom fields is all reported together, each problem with its label, and valid values are kept', async () => {
    const { path } = await service.form({
      custom_fields: [...FIELDS, { name: 'terms', label: 'I agree', type: 'checkbox', required: true }],
    })
    const wrong = {
      email: ADA,
      first_name: ' ',
      about: 'x'.repeat(1001),
      work: 'ada',
      age: 'ten',
      phone: 'call me',
      site: 'javascript:alert(1)',
      born: '2026-02-30',
      offers: 'yes',
    }
    const answer = await submit(service, path, wrong)
    const source = await answer.text()
    expect(answer.status).toBe(422)
    expect([...source.matchAll(/<li><a href="#field-(\w+)">([^<]*)</g)].map(([, name, text]) => [name, text])).toEqual([
      ['first_name', 'First name: This field is required.'],
      ['about', 'About you: This must have at most 1000 characters.'],
      ['work', 'Work address: This is not an email address.'],
      ['age', 'Age: This is not a number.'],
      ['phone', 'Telephone: This is not a telephone number.'],
      ['site', 'Web site: This is not a web address.'],
      ['born', 'Birthday: This is not a date such as 2026-01-31.'],
      ['terms', 'I agree: This box must be ticked.'],
    ])
    expect(source).toContain(`value="${ADA}"`)
    expect(source).toContain('value="ten" id="field-age" name="age" aria-invalid="true"')
    expect(source).toMatch(/value="yes" id="field-offers" name="offers" checked>/)
    expect(source.match(/ autofocus/g)).toHaveLength(1)
    expect(source).toMatch(/name="first_name" required autofocus /)
    const { body } = await json(await submitJson(service, path, wrong))
    expect(body).toMatchObject({
      code: 'validation_failed',
      message: 'first_name: This field is required.',
      details: expect.arrayContaining([{ field: 'terms', message: 'This box must be ticked.' }]),
    })
    expect(service.contacts()).toEqual([])
  })

  // Proves: form-13
  test('above the length limit is a 422 that names the field, also for a box', async () => {
    const { path } = await service.form({
      custom_fields: [
        { name: 'city', label: 'City' },
        { name: 'terms', label: 'Terms', type: 'checkbox' },
      ],
    })
    const blanks = ' '.repeat(60_000)
    const answer = async (fields: Record<string, string>) => {
      const { status, body } = await json(await submitJson(service, path, { email: ADA, ...fields }))
      return [status, at(body, 'details')]
    }
    const message = 'This must have at most 1000 characters.'
    expect(await answer({ terms: `${blanks}x` })).toEqual([422, [{ field: 'terms', message }]])
    expect(await answer({ city: `${blanks}x` })).toEqual([422, [{ field: 'city', message }]])
    expect(at(await answer({ email: `${blanks}x` }), 1, 0, 'field')).toBe('email')
    const page = await submit(service, path, { email: ADA, terms: `${blanks}x` })
    expect([page.status, (await page.text()).includes(' checked')]).toEqual([422, false])
    expect(service.contacts()).toEqual([])
  })

  // Proves: form-13
  test('with very many fields is a 400', async () => {
    const { path } = await service.form()
    const post = async (count: number) =>
      (
        await ask(service, 'POST', path, `email=x&${'a&'.repeat(count)}`, {
          'content-type': 'application/x-www-form-urlencoded',
        })
      ).status
    expect([await post(400), await post(30_000)]).toEqual([422, 400])
  })

  test('includes fields that together exceed the limit of metadata', async () => {
    const names = Array.from({ length: 20 }, (_, index) => `f${index}`)
    const { path } = await service.form({ custom_fields: names.map((name) => ({ name, label: name })) })
    const long = Object.fromEntries(names.map((name) => [name, 'é'.repeat(900)]))
    const { status, body } = await json(await submitJson(service, path, { email: ADA, ...long }))
    expect({ status, body }).toMatchObject({
      status: 422,
      body: { details: [{ field: 'f19', message: 'All fields together are too long.' }] },
    })
  })

  test('that is neither form nor JSON is a 415, and invalid JSON a 400', async () => {
    const { path } = await service.form()
    expect((await ask(service, 'POST', path, 'x', { 'content-type': 'text/plain' })).status).toBe(415)
    expect((await ask(service, 'POST', path, '{', { 'content-type': 'application/json' })).status).toBe(400)
    expect((await ask(service, 'POST', path, 'x'.repeat(70_000), { 'content-type': 'application/json' })).status).toBe(
      413,
    )
    expect((await ask(service, 'POST', path)).status).toBe(422)
  })
})

describe('custom fields', () => {
  const ANSWERS = {
    first_name: ' Ada\u0000\tKing ',
    about: 'One\r\nTwo',
    work: 'Ada@Work.test',
    age: '36.5',
    phone: '+44 (0)20 7946-0000',
    site: 'https://ada.test/?a=1',
    born: '1815-12-10',
    offers: 'yes',
  }
  const METADATA = {
    first_name: 'Ada  King',
    about: 'One\nTwo',
    work: 'Ada@work.test',
    age: 36.5,
    phone: '+44 (0)20 7946-0000',
    site: 'https://ada.test/?a=1',
    born: '1815-12-10',
    offers: true,
  }

  // Proves: form-14
  test('become metadata of the contact under their names, from a form, a multipart form, and JSON', async () => {
    const { path } = await service.form({ custom_fields: FIELDS })
    const parts = new FormData()
    for (const [name, value] of Object.entries({ ...ANSWERS, email: 'b@reader.test' })) parts.append(name, value)
    parts.append('file', new File(['x'], 'x.txt'))
    const statuses = [
      (await submit(service, path, { ...ANSWERS, email: 'a@reader.test' })).status,
      (await ask(service, 'POST', path, parts)).status,
      (await submitJson(service, path, { ...ANSWERS, age: 36.5, offers: true, email: 'c@reader.test' })).status,
    ]
    expect(statuses).toEqual([200, 200, 200])
    expect(service.contacts()).toEqual(
      ['a', 'b', 'c'].map((name) => ({ email: `${name}@reader.test`, status: ACTIVE, metadata: METADATA })),
    )
  })

  test('that are empty are left out, an unticked box is false, and unknown fields are ignored', async () => {
    const { path } = await service.form({ custom_fields: FIELDS })
    await submit(service, path, { email: ADA, first_name: 'Ada', about: '', age: '', admin: 'yes', status: 'active' })
    await submitJson(service, path, {
      email: 'b@reader.test',
      first_name: 'Bob',
      offers: false,
      __proto__: { x: 1 },
      x: {},
    })
    expect(service.contacts().map(({ metadata }) => metadata)).toEqual([
      { first_name: 'Ada', offers: false },
      { first_name: 'Bob', offers: false },
    ])
  })

  test('named like properties of the language are ordinary fields', async () => {
    const custom_fields = ['constructor', 'hasownproperty', 'valueof'].map((name) => ({ name, label: name }))
    const { path } = await service.form({ custom_fields })
    expect((await submitJson(service, path, { email: ADA, constructor: 'x' })).status).toBe(200)
    expect(service.contacts().map(({ metadata }) => metadata)).toEqual([{ constructor: 'x' }])
  })
})

describe('bots that fill in everything', () => {
  test('get the same response as people, and nothing is stored', async () => {
    const filled = { email: ADA, 'homepage-url': 'https://spam.test' }
    for (const fields of [
      {},
      { list_id: service.list({ doubleOptIn: true }) },
      { redirect_url: 'https://shop.test/' },
    ]) {
      const { path } = await service.form(fields)
      const trapped = await submit(service, path, filled)
      const trappedJson = await json(await submitJson(service, path, filled))
      expect(service.contacts()).toEqual([])
      const real = await submit(service, path, { email: ADA, 'homepage-url': '' })
      expect([trapped.status, trapped.headers.get('location'), await trapped.text()]).toEqual([
        real.status,
        real.headers.get('location'),
        await real.text(),
      ])
      const { body } = await json(await submitJson(service, path, { email: 'bob@reader.test' }))
      expect(trappedJson.body).toEqual(body)
      service.app.db.run('DELETE FROM contacts')
    }
  })
})

describe('other sites', () => {
  // Proves: form-10
  test('may post JSON and read the response, without credentials', async () => {
    const { path } = await service.form()
    const before = await ask(service, 'OPTIONS', path, undefined, {
      origin: 'https://shop.test',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type',
    })
    expect(before.status).toBe(204)
    expect(Object.fromEntries([...before.headers].filter(([name]) => name.startsWith('access-')))).toEqual({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': 'content-type, accept',
      'access-control-max-age': '86400',
    })
    const origin = { origin: 'https://shop.test' }
    for (const [fields, status] of [
      [{ email: ADA }, 200],
      [{ email: 'x' }, 422],
    ] as const) {
      const answer = await submitJson(service, path, fields, origin)
      expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([status, '*'])
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
    }
  })

  test('may post a form and accept JSON, without a preflight request', async () => {
    const { path } = await service.form()
    const answer = await submit(service, path, { email: ADA }, { accept: 'application/json' })
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    expect(await json(answer)).toEqual({ status: 200, body: { message: 'You are subscribed.', status: 'subscribed' } })
    const browser = await submit(
      service,
      path,
      { email: ADA },
      { accept: 'text/html,application/json;q=0.9,*/*;q=0.8' },
    )
    expect(browser.headers.get('content-type')).toBe('text/html; charset=utf-8')
  })
})

describe('mail caused by posts', () => {
  // Proves: form-12
  test("is limited per form and per account: beyond that a post is a 429 in the form's texts, whatever the address", async () => {
    await using few = await createFormApi({ serves: { formLimits: { accountMailsPerHour: 4 } } })
    const list = () => few.list({ doubleOptIn: true })
    const messages = { error: 'Not now.' }
    const [first, second, third] = [
      await few.form({ list_id: list(), messages }),
      await few.form({ list_id: list(), messages }),
      await few.form({ list_id: list(), messages }),
    ]
    const plain = await few.form()
    const { app, actor } = few
    const address = 'gone@reader.test'
    await app.commit.write((tx) =>
      suppress(app, tx, { accountId: actor.accountId, address, covers: 'all', reason: 'manual' }),
    )
    let count = 0
    const post = (path: string, email = `a${++count}@reader.test`) => submitJson(few, path, { email })
    const statuses = async (path: string) => [
      (await post(path)).status,
      (await post(path)).status,
      (await post(path)).status,
    ]
    // Of four an hour a form has two, and its third is half an hour later.
    expect(await statuses(first.path)).toEqual([200, 200, 429])
    expect(await statuses(second.path)).toEqual([200, 200, 429])
    const refused = await post(third.path, address)
    expect([refused.headers.get('retry-after'), await json(refused)]).toMatchObject([
      '900',
      { status: 429, body: { code: 'rate_limited', message: 'Not now.' } },
    ])
    expect([few.contacts().length, (await post(plain.path)).status]).toEqual([4, 200])
    few.clock.advance(seconds(900))
    expect([(await post(third.path)).status, (await post(second.path)).status]).toEqual([200, 429])
  })

  // Proves: form-12
  test.each([
    ['hour', { networkMailsPerHour: 2 }, hours(1) / 2],
    ['day', { networkMailsPerDay: 2 }, days(1) / 2],
  ])('from one network is limited per %s over all forms, whatever the address', async (_, formLimits, waitMs) => {
    const settings = { TASSIS_TRUSTED_PROXIES: '127.0.0.1' }
    await using few = await createFormApi({ serves: { formLimits }, settings })
    const paths = await Promise.all(
      [1, 2, 3].map(async () => (await few.form({ list_id: few.list({ doubleOptIn: true }) })).path),
    )
    let count = 0
    const post = (network: string, index = 0) =>
      submitJson(few, paths[index] ?? '', { email: `a${++count}@reader.test` }, { 'x-forwarded-for': network })
    const statuses = [
      (await post('192.0.2.1')).status,
      (await post('192.0.2.1', 1)).status,
      (await post('192.0.2.1', 2)).status,
      (await post('192.0.2.2', 2)).status,
    ]
    expect(statuses).toEqual([200, 200, 429, 200])
    expect((await post('192.0.2.1')).headers.get('retry-after')).toBe(String(waitMs / 1000))
    few.clock.advance(waitMs)
    expect([(await post('192.0.2.1')).status, (await post('192.0.2.1')).status]).toEqual([200, 429])
  })
})

describe('posts from one address', () => {
  let limited: FormApi
  beforeEach(async () => {
    limited = await createFormApi({
      settings: { TASSIS_FORM_POSTS_PER_MINUTE: '3', TASSIS_TRUSTED_PROXIES: '127.0.0.1' },
    })
  })
  afterEach(() => limited[Symbol.asyncDispose]())
  const from = (ip: string) => ({ 'x-forwarded-for': ip })

  // Proves: form-10, form-11
  test('above the rate are a 429 with Retry-After that does not read the fields; the rate refills by the minute', async () => {
    const { path } = await limited.form({ custom_fields: [{ name: 'city', label: 'City' }] })
    const post = (index: number) =>
      submit(limited, path, { email: `a${index}@reader.test`, city: 'Paris' }, from('192.0.2.1'))
    for (const index of [1, 2, 3]) expect((await post(index)).status).toBe(200)
    const refused = await post(4)
    expect({ status: refused.status, after: refused.headers.get('retry-after') }).toEqual({ status: 429, after: '20' })
    const source = await refused.text()
    expect(source).toContain('Too many attempts from your network. Please try again in a minute.')
    expect(source).not.toContain('<form')
    expect(source).not.toContain('a4@reader.test')
    expect(await json(await submitJson(limited, path, { email: ADA }, from('192.0.2.1')))).toMatchObject({
      status: 429,
      body: { code: 'rate_limited', retry_after: 20 },
    })
    expect(limited.contacts()).toHaveLength(3)
    limited.clock.advance(seconds(20))
    expect([(await post(5)).status, (await post(6)).status]).toEqual([200, 429])
  })

  // Proves: form-10
  test('are counted over all forms, in every format, valid or not, and by the /64 of IPv6', async () => {
    const forms = [await limited.form(), await limited.form()]
    const [first, second] = [forms[0]?.path ?? '', forms[1]?.path ?? '']
    const statuses = [
      (await submit(limited, first, { email: 'x' }, from('2001:db8::1'))).status,
      (await submitJson(limited, second, { email: ADA }, from('2001:db8:0:0:ffff::2'))).status,
      (await submit(limited, first, { email: ADA, 'homepage-url': 'x' }, from('2001:db8::3'))).status,
      (await submit(limited, second, { email: ADA }, from('2001:db8::4'))).status,
      (await submit(limited, second, { email: ADA }, from('2001:db8:0:1::1'))).status,
      (await submit(limited, second, { email: ADA }, from('192.0.2.1'))).status,
      (await ask(limited, 'GET', first, undefined, from('2001:db8::1'))).status,
    ]
    expect(statuses).toEqual([422, 200, 200, 429, 200, 200, 200])
  })

  // Proves: form-11
  test('and every /64 of its /56 have four times the rate, with every /64 of a /48 sixteen times', async () => {
    const { path } = await limited.form()
    const accepted = async (count: number, address: (index: number) => string) => {
      const statuses: number[] = []
      for (let index = 1; index <= count; index++)
        statuses.push((await submit(limited, path, { email: 'x' }, from(address(index)))).status)
      return statuses.filter((status) => status === 422).length
    }
    const hex = (index: number) => index.toString(16)
    expect([
      await accepted(20, (index) => `2001:db8:0:${hex(index)}::1`),
      await accepted(60, (index) => `2001:db8:0:${hex(index * 256)}::1`),
    ]).toEqual([12, 36])
  })
})
