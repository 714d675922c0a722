/** @module Contacts, segments, topics, broadcasts, templates and logs by Resend's own client; broadcasts arrive over SMTP. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { simpleParser } from 'mailparser'
import type { Resend } from 'resend'
import { systemClock } from '#platform/time/clock.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, UUID } from '#test/support/email-api.ts'
import { type Sink, startSink } from '#test/support/sink.ts'
import { createResend, dataOf, errorOf } from './fixture.ts'

const UNKNOWN = '01234567-89ab-7def-8123-456789abcdef'
const NOT_FOUND = { statusCode: 404, name: 'not_found', message: expect.any(String) }
const INVALID = { statusCode: 422, name: 'validation_error', message: expect.any(String) }
const MISSING = { statusCode: 422, name: 'missing_required_field', message: expect.any(String) }
const FROM = 'Ada <ada@sender.test>'

let sink: Sink
let service: EmailApi
let resend: Resend
beforeAll(async () => {
  sink = await startSink()
  service = await createEmailApi({
    clock: systemClock,
    delivers: true,
    runsTasks: true,
    settings: {
      TASSIS_DELIVERY: 'relay',
      TASSIS_RELAY_URL: `smtp://127.0.0.1:${sink.port}`,
      TASSIS_RELAY_TLS: 'opportunistic',
      TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
      TASSIS_SEND_BURST: '1000',
    },
  })
  resend = createResend(service)
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await sink[Symbol.asyncDispose]()
})

const newSegment = async (name: string): Promise<string> => (await dataOf(resend.segments.create({ name }))).id

async function request(method: string, path: string, body?: object): Promise<Response> {
  return await fetch(`${service.url}/resend${path}`, {
    method,
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
}

/** The messages with a subject, by their recipient. */
async function received(subject: string | RegExp) {
  const mails = await Promise.all(
    sink.messages.map(async ({ raw, rcptTo }) => ({ to: rcptTo[0] ?? '', mail: await simpleParser(raw) })),
  )
  return mails.filter(({ mail }) => new RegExp(subject).test(mail.subject ?? ''))
}

describe('segments', () => {
  test('are created, read, renamed, listed in both directions and deleted, also as audiences', async () => {
    const ids: string[] = []
    for (const name of ['S1', 'S2', 'S3']) ids.unshift(await newSegment(name))
    const [third = '', second = '', first = ''] = ids
    expect(await dataOf(resend.segments.get(first))).toEqual({
      object: 'segment',
      id: expect.stringMatching(UUID),
      name: 'S1',
      created_at: expect.any(String),
    })
    expect(await dataOf(resend.segments.update(first, { name: 'First' }))).toEqual({ object: 'segment', id: first })
    const page = await dataOf(resend.segments.list({ limit: 1, after: third }))
    expect([page.has_more, page.data.map(({ id }) => id)]).toEqual([true, [second]])
    const before = await dataOf(resend.segments.list({ limit: 1, before: first }))
    expect([before.has_more, before.data.map(({ id }) => id)]).toEqual([true, [second]])
    expect((await request('GET', `/audiences/${first}`)).status).toBe(200)
    expect(await dataOf(resend.audiences.remove(first))).toEqual({ object: 'segment', id: first, deleted: true })
    expect(await errorOf(resend.segments.get(first))).toEqual(NOT_FOUND)
    expect(await errorOf(resend.segments.create({ name: '' }))).toEqual(MISSING)
    expect(await errorOf(resend.segments.create({ name: 'S2' }))).toMatchObject({ name: 'validation_error' })
    expect(await errorOf(resend.segments.list({ after: UNKNOWN }))).toEqual(INVALID)
  })
})

describe('contacts', () => {
  test('are found by id and address over all segments, changed and deleted', async () => {
    const segment = await newSegment('Readers')
    const email = 'Grace.Hopper@receiver.test'
    const { id } = await dataOf(
      resend.contacts.create({
        ...{ email, firstName: 'Grace', lastName: 'Hopper', unsubscribed: false },
        properties: { points: 7, city: 'Arlington' },
        segments: [{ id: segment }],
      }),
    )
    const contact = { id, email, first_name: 'Grace', last_name: 'Hopper', created_at: expect.any(String) as string }
    const properties = { points: { type: 'number', value: 7 }, city: { type: 'string', value: 'Arlington' } }
    const detail = { object: 'contact', ...contact, unsubscribed: false, properties }
    expect(await dataOf(resend.contacts.get(id))).toEqual(detail as never)
    expect(await dataOf(resend.contacts.get({ email: 'grace.hopper@RECEIVER.test' }))).toEqual(detail as never)
    expect(await dataOf(resend.contacts.get({ email, audienceId: segment }))).toEqual(detail as never)
    // The same person, named again: added to nothing new, and other properties stay.
    const again = await dataOf(resend.contacts.create({ email, properties: { city: 'New York' } }))
    expect(again.id).toBe(id)
    await dataOf(resend.contacts.update({ id, firstName: null, properties: { points: null } }))
    const changed = { ...detail, first_name: null, properties: { city: { type: 'string', value: 'New York' } } }
    expect(await dataOf(resend.contacts.get(id))).toEqual(changed as never)
    expect((await dataOf(resend.contacts.list({ segmentId: segment }))).data).toEqual([
      { ...contact, first_name: null, unsubscribed: false },
    ])
    expect(await dataOf(resend.contacts.remove(id))).toEqual({ object: 'contact', contact: id, deleted: true })
    expect(await errorOf(resend.contacts.get(id))).toEqual(NOT_FOUND)
    expect(await errorOf(resend.contacts.get('nobody@receiver.test'))).toEqual(NOT_FOUND)
  })

  test('without a segment are on the list General, and stay when they leave the last one', async () => {
    const segment = await newSegment('Leaving')
    const email = 'leaver@receiver.test'
    const { id } = await dataOf(resend.contacts.create({ email, firstName: 'Lea' }))
    const segments = async () => (await dataOf(resend.contacts.segments.list({ email }))).data.map(({ name }) => name)
    expect(await segments()).toEqual(['General'])
    expect(await dataOf(resend.contacts.segments.add({ email, segmentId: segment }))).toEqual({ id: segment })
    const general = (await dataOf(resend.contacts.segments.list({ email }))).data[0]?.id ?? ''
    await dataOf(resend.contacts.segments.remove({ contactId: id, segmentId: general }))
    expect(await segments()).toEqual(['Leaving'])
    const left = await dataOf(resend.contacts.segments.remove({ contactId: id, segmentId: segment }))
    expect(left).toEqual({ object: 'contact', id, audienceId: segment, deleted: true } as never)
    expect(await segments()).toEqual(['General'])
    expect(await dataOf(resend.contacts.get(id))).toMatchObject({ first_name: 'Lea' })
    expect(await errorOf(resend.contacts.segments.remove({ email, segmentId: general }))).toEqual(INVALID)
    expect(await errorOf(resend.contacts.segments.add({ email, segmentId: UNKNOWN }))).toEqual(NOT_FOUND)
  })

  test('are listed by their addresses, each once, in both directions', async () => {
    const key = await service.newKey([], await service.newAccount())
    const other = createResend({ url: service.url, key })
    const segment = (await dataOf(other.segments.create({ name: 'All' }))).id
    for (const name of ['a', 'b', 'c', 'd'])
      await dataOf(other.contacts.create({ email: `${name}@receiver.test`, segments: [{ id: segment }] }))
    await dataOf(other.contacts.create({ email: 'b@receiver.test', segments: [] }))
    await dataOf(other.contacts.segments.add({ email: 'b@receiver.test', segmentId: segment }))
    const all = (await dataOf(other.contacts.list())).data
    expect(all.map(({ email }) => email[0])).toEqual(['a', 'b', 'c', 'd'])
    const after = await dataOf(other.contacts.list({ limit: 2, after: all[0]?.id ?? '' }))
    expect([after.has_more, after.data.map(({ email }) => email[0])]).toEqual([true, ['b', 'c']])
    const before = await dataOf(other.contacts.list({ limit: 2, before: all[3]?.id ?? '' }))
    expect([before.has_more, before.data.map(({ email }) => email[0])]).toEqual([true, ['b', 'c']])
    const members = await dataOf(other.contacts.list({ segmentId: segment, limit: 2, before: all[0]?.id ?? '' }))
    expect([members.has_more, members.data.map(({ email }) => email[0])]).toEqual([true, ['c', 'b']])
    // Those who come first to General make it together.
    const both = await Promise.all(['y', 'z'].map((name) => other.contacts.create({ email: `${name}@receiver.test` })))
    expect(both.map(({ error }) => error)).toEqual([null, null])
    // Of another account, nothing.
    expect(await errorOf(resend.contacts.get(all[0]?.id ?? ''))).toEqual(NOT_FOUND)
  })

  test('unsubscribe and come back, which nothing but an update does', async () => {
    const segment = await newSegment('Ins and outs')
    const contact = { email: 'inout@receiver.test', segments: [{ id: segment }] }
    const isOff = async () => (await dataOf(resend.contacts.get({ email: contact.email }))).unsubscribed
    await dataOf(resend.contacts.create(contact))
    await dataOf(resend.contacts.update({ email: contact.email, unsubscribed: true }))
    expect(await isOff()).toBe(true)
    await dataOf(resend.contacts.create({ ...contact, unsubscribed: false }))
    await dataOf(resend.contacts.segments.add({ email: contact.email, segmentId: await newSegment('Another') }))
    expect(await isOff()).toBe(true)
    const { body } = await service.api('GET', `/v1/suppressions?email=${contact.email}`)
    expect(at(body, 'data', 0, 'reason')).toBe('unsubscribe')
    await dataOf(resend.contacts.update({ email: contact.email, unsubscribed: false }))
    expect(await isOff()).toBe(false)
    // Nor is what was left alone: a topic.
    const topic = (await dataOf(resend.topics.create({ name: 'Apart', defaultSubscription: 'opt_in' }))).id
    await dataOf(
      resend.contacts.topics.update({ email: contact.email, topics: [{ id: topic, subscription: 'opt_out' }] }),
    )
    await dataOf(resend.contacts.update({ email: contact.email, unsubscribed: false }))
    const topics = (await dataOf(resend.contacts.topics.list({ email: contact.email }))).data
    expect([await isOff(), topics.find(({ id }) => id === topic)?.subscription]).toEqual([false, 'opt_out'])
    // A complaint is not undone so.
    await service.api('POST', '/v1/suppressions', { email_address: contact.email, reason: 'complaint' })
    await dataOf(resend.contacts.update({ email: contact.email, unsubscribed: false }))
    expect(await isOff()).toBe(true)
    const key = await service.newKey(['contacts:read', 'contacts:write'])
    const limited = createResend({ url: service.url, key })
    expect(await errorOf(limited.contacts.update({ email: contact.email, unsubscribed: false }))).toMatchObject({
      name: 'restricted_api_key',
    })
  })

  test.each<[string, object, string]>([
    ['an address', { email: 'no address' }, 'validation_error'],
    ['no address', {}, 'missing_required_field'],
    ['null as the address', { email: null }, 'missing_required_field'],
    ['properties', { email: 'a@b.test', properties: { 'a-b': 1 } }, 'validation_error'],
    ['nested properties', { email: 'a@b.test', properties: { a: {} } }, 'validation_error'],
    ['a flag', { email: 'a@b.test', unsubscribed: 'no' }, 'validation_error'],
    ['segments', { email: 'a@b.test', segments: ['x'] }, 'validation_error'],
    ['a segment', { email: 'a@b.test', segments: [{ id: UNKNOWN }] }, 'not_found'],
    ['a topic', { email: 'a@b.test', topics: [{ id: UNKNOWN, subscription: 'opt_in' }] }, 'validation_error'],
    ['too much', { email: 'a@b.test', properties: { a: 'x'.repeat(100_000) } }, 'validation_error'],
  ])('with a wrong value are an error: %s', async (_, body, name) => {
    const response = await request('POST', '/contacts', body)
    expect(await response.json()).toMatchObject({ name })
  })
})

describe('topics', () => {
  test('are created, read, renamed and deleted, and contacts opt out of one', async () => {
    const { id } = await dataOf(resend.topics.create({ name: 'Weekly news', defaultSubscription: 'opt_in' }))
    const topic = { id, name: 'Weekly news', default_subscription: 'opt_in', created_at: expect.any(String) as string }
    expect(await dataOf(resend.topics.get(id))).toMatchObject(topic as never)
    expect(await dataOf(resend.topics.update({ id, name: 'Our news' }))).toMatchObject({ id })
    expect((await dataOf(resend.topics.list())).data.map(({ name }) => name)).toContain('Our news')
    const email = 'choosy@receiver.test'
    const { id: contactId } = await dataOf(resend.contacts.create({ email, topics: [{ id, subscription: 'opt_out' }] }))
    const subscription = async (of = email) =>
      (await dataOf(resend.contacts.topics.list({ email: of }))).data.find((one) => one.id === id)?.subscription
    const left = { email: 'left@receiver.test', topics: [{ id, subscription: 'opt_out' }] }
    const added = await request('POST', `/segments/${await newSegment('Choosy')}/contacts`, left)
    expect([added.headers.get('tassis-ignored'), await subscription(left.email)]).toEqual([null, 'opt_out'])
    // Programs say so of everybody whom they add.
    await dataOf(resend.contacts.create({ email: `Choosy <${email}>`, topics: [{ id, subscription: 'opt_in' }] }))
    expect(await subscription()).toBe('opt_out')
    const send = { from: FROM, to: email, text: 'Hello', topicId: id }
    const stopped = await dataOf(resend.emails.send({ ...send, subject: 'To a topic' }))
    expect(await dataOf(resend.emails.get(stopped.id))).toMatchObject({ last_event: 'suppressed' })
    await dataOf(resend.contacts.topics.update({ id: contactId, topics: [{ id, subscription: 'opt_in' }] }))
    expect(await subscription()).toBe('opt_in')
    await dataOf(resend.emails.send({ ...send, subject: 'To those who want it' }))
    const [mail] = await eventually(async () => {
      const mails = await received('To those who want it')
      return mails.length > 0 ? mails : undefined
    })
    expect(mail?.mail.headers.get('list')).toHaveProperty('unsubscribe')
    const batch = await dataOf(resend.batch.send([{ ...send, to: 'fan@receiver.test', subject: 'Batched' }]))
    expect(batch.data).toHaveLength(1)
    expect(await errorOf(resend.emails.send({ ...send, subject: 'x', topicId: UNKNOWN }))).toEqual(INVALID)
    expect(await errorOf(resend.topics.create({ name: 'Off', defaultSubscription: 'opt_out' }))).toEqual(INVALID)
    const unused = await dataOf(resend.topics.create({ name: 'Unused', defaultSubscription: 'opt_in' }))
    expect(await dataOf(resend.topics.remove(unused.id))).toEqual({ object: 'topic', id: unused.id, deleted: true })
    expect(await errorOf(resend.topics.get(unused.id))).toEqual(NOT_FOUND)
    for (const name of ['北京', '上海']) await dataOf(resend.topics.create({ name, defaultSubscription: 'opt_in' }))
    for (const limit of [0, 101, -1]) expect((await request('GET', `/topics?limit=${limit}`)).status).toBe(422)
    const page = (await (await request('GET', '/topics?limit=1')).json()) as { data: object[]; has_more: boolean }
    expect([page.data.length, page.has_more]).toEqual([1, true])
  })
})

const HTML =
  '<style>@media screen{#a{color:red}}</style><p>Hi {{{FIRST_NAME|there}}}, {{{contact.city}}}! {{ x }} {% y %}</p>' +
  '<a href="{{{RESEND_UNSUBSCRIBE_URL}}}">Unsubscribe</a>'

describe('broadcasts', () => {
  test('reach each contact of a segment once, filled in, with links that unsubscribe', async () => {
    const segmentId = await newSegment('Everybody')
    const people = [
      { email: 'tom@receiver.test', firstName: 'Tom & <b>Jerry</b>', properties: { city: 'Köln' } },
      { email: 'nameless@receiver.test' },
      { email: 'gone@receiver.test', unsubscribed: true },
    ]
    for (const person of people) await dataOf(resend.contacts.create({ ...person, segments: [{ id: segmentId }] }))
    const { id } = await dataOf(
      resend.broadcasts.create({
        ...{ segmentId, from: FROM, replyTo: 'Bob <bob@sender.test>', html: HTML, text: '{{{FIRST_NAME|there}}}' },
        subject: 'News for {{{contact.first_name|you}}}',
      }),
    )
    expect(await dataOf(resend.broadcasts.get(id))).toMatchObject({
      ...{ object: 'broadcast', id, segment_id: segmentId, status: 'draft', from: FROM, scheduled_at: null },
      html: HTML.replace('FIRST_NAME', 'contact.first_name'),
      subject: 'News for {{{contact.first_name|you}}}',
      reply_to: ['Bob <bob@sender.test>'],
    })
    expect(await dataOf(resend.broadcasts.send(id))).toEqual({ object: 'broadcast', id } as never)
    await eventually(async () => ((await received(/^News for/)).length >= 2 ? true : undefined))
    await eventually(async () => ((await dataOf(resend.broadcasts.get(id))).status === 'sent' ? true : undefined))
    const mails = new Map((await received(/^News for/)).map(({ to, mail }) => [to, mail]))
    expect((await received(/^News for/)).map(({ to }) => to).sort()).toEqual([
      'nameless@receiver.test',
      'tom@receiver.test',
    ])
    const tom = mails.get('tom@receiver.test')
    expect([tom?.subject, tom?.text?.trim()]).toEqual(['News for Tom & <b>Jerry</b>', 'Tom & <b>Jerry</b>'])
    expect(tom?.html).toContain('Hi Tom &amp; &lt;b&gt;Jerry&lt;/b&gt;, Köln! {{ x }} {% y %}')
    expect(tom?.html).toContain('screen{#a{color:red}}')
    expect(mails.get('nameless@receiver.test')?.html).toContain('Hi there, !')
    const link = /href="https:\/\/mail\.tassis\.test([^"]*)"/.exec(String(tom?.html))?.[1] ?? ''
    expect((await fetch(`${service.url}${link.replaceAll('&amp;', '&')}`, { method: 'POST' })).status).toBe(200)
    expect((await dataOf(resend.contacts.get({ email: 'tom@receiver.test' }))).unsubscribed).toBe(true)
    const again = await dataOf(resend.broadcasts.duplicate(id))
    await dataOf(resend.broadcasts.update(again.id, { subject: 'Second' }))
    // Of two sends at the same time one wins; the other, and one after the end, are errors.
    const sends = await Promise.all([resend.broadcasts.send(again.id), resend.broadcasts.send(again.id)])
    expect(sends.filter(({ error }) => error === null)).toHaveLength(1)
    expect(await errorOf(resend.broadcasts.send(id))).toMatchObject({ name: 'validation_error' })
    await eventually(async () => ((await received('Second')).length > 0 ? true : undefined))
    await eventually(async () => ((await dataOf(resend.broadcasts.get(again.id))).status === 'sent' ? true : undefined))
    expect((await received('Second')).map(({ to }) => to)).toEqual(['nameless@receiver.test'])
  })

  test('are drafts, scheduled and cancelled, of a topic, listed and deleted', async () => {
    const segmentId = await newSegment('Later')
    await dataOf(resend.contacts.create({ email: 'later@receiver.test', segments: [{ id: segmentId }] }))
    const topic = (await dataOf(resend.topics.create({ name: 'Later', defaultSubscription: 'opt_in' }))).id
    const broadcast = { segmentId, from: FROM, subject: 'Later', text: 'Hello' }
    const { id } = await dataOf(
      resend.broadcasts.create({ ...broadcast, topicId: topic, send: true, scheduledAt: 'in 2 days' }),
    )
    expect(await dataOf(resend.broadcasts.get(id))).toMatchObject({ status: 'queued', topic_id: topic })
    expect(await errorOf(resend.broadcasts.update(id, { subject: 'x' }))).toMatchObject({ name: 'validation_error' })
    expect(await errorOf(resend.broadcasts.remove(id))).toMatchObject({ name: 'validation_error' })
    expect(await dataOf(resend.broadcasts.cancel(id))).toEqual({ object: 'broadcast', id })
    await eventually(async () => ((await dataOf(resend.broadcasts.get(id))).status === 'draft' ? true : undefined))
    await dataOf(resend.broadcasts.update(id, { topicId: null, html: '' }))
    expect(await dataOf(resend.broadcasts.get(id))).toMatchObject({ topic_id: null, html: null })
    expect((await dataOf(resend.broadcasts.list({ limit: 1 }))).data).toMatchObject([{ id, name: 'Later' }])
    expect(await errorOf(resend.broadcasts.cancel(id))).toMatchObject({ name: 'validation_error' })
    expect(await dataOf(resend.broadcasts.remove(id))).toEqual({ object: 'broadcast', id, deleted: true })
    expect(await errorOf(resend.broadcasts.get(id))).toEqual(NOT_FOUND)
    const response = await request('POST', '/broadcasts', {
      ...{ segment_id: segmentId, from: FROM, subject: 'Named', text: 'x', name: 'May', preview_text: 'Look' },
    })
    expect([response.status, response.headers.get('tassis-ignored')]).toEqual([201, 'name, preview_text'])
  })

  test.each<[string, object, string]>([
    ['no segment', { segment_id: undefined }, 'missing_required_field'],
    ['an unknown segment', { segment_id: UNKNOWN }, 'not_found'],
    ['no sender', { from: '' }, 'missing_required_field'],
    ['a foreign sender', { from: 'a@elsewhere.test' }, 'validation_error'],
    ['an unknown placeholder', { html: '{{{WHAT}}}' }, 'validation_error'],
    ['an unknown topic', { topic_id: UNKNOWN }, 'validation_error'],
    ['a long subject', { subject: 'x'.repeat(999) }, 'validation_error'],
    ['words that are no time', { send: true, scheduled_at: 'whenever' }, 'validation_error'],
  ])('with a wrong value are an error and leave nothing: %s', async (_, change, name) => {
    const [segment = await dataOf(resend.segments.create({ name: 'One' }))] = (await dataOf(resend.segments.list()))
      .data
    const segment_id = segment.id
    const before = (await dataOf(resend.broadcasts.list())).data.length
    const response = await request('POST', '/broadcasts', {
      ...{ segment_id, from: FROM, subject: 'x', text: 'x' },
      ...change,
    })
    expect(await response.json()).toMatchObject({ name })
    expect((await dataOf(resend.broadcasts.list())).data).toHaveLength(before)
  })
})

describe('templates', () => {
  test('are created with variables, sent, changed, duplicated, listed and deleted', async () => {
    const html = '<p>{{{NAME}}}, {{{COUNT}}} {{{MUST}}} {#x {{ y }}</p>'
    const { id } = await dataOf(
      resend.templates
        .create({
          ...{ name: 'Order 1', subject: 'Order of {{{NAME}}}', html },
          variables: [
            { key: 'NAME', type: 'string', fallbackValue: 'a "friend"' },
            { key: 'COUNT', type: 'number', fallbackValue: 3 },
            { key: 'MUST', type: 'string' },
          ],
        })
        .publish(),
    )
    const read = await dataOf(resend.templates.get('order-1'))
    expect(read).toMatchObject({ object: 'template', id, name: 'Order 1', html, subject: 'Order of {{{NAME}}}' })
    expect(read).toMatchObject({ status: 'published', text: null, has_unpublished_versions: false })
    expect(read.variables?.map(({ key, type, fallback_value }) => [key, type, fallback_value])).toEqual([
      ['NAME', 'string', 'a "friend"'],
      ['COUNT', 'number', 3],
      ['MUST', 'string', null],
    ])
    const send = (variables: Record<string, string | number>) =>
      resend.emails.send({ from: FROM, to: 'shop@receiver.test', template: { id, variables } })
    await dataOf(send({ MUST: '<now>' }))
    const [order] = await eventually(async () => {
      const mails = await received('Order of')
      return mails.length > 0 ? mails : undefined
    })
    expect(order?.mail.subject).toBe('Order of a "friend"')
    expect(order?.mail.html).toContain('<p>a &quot;friend&quot;, 3 &lt;now&gt; {#x {{ y }}</p>')
    expect(await errorOf(send({}))).toEqual(INVALID)
    await dataOf(resend.templates.update(id, { variables: [{ key: 'MUST', type: 'string', fallbackValue: 'soon' }] }))
    const changed = await dataOf(resend.templates.get(id))
    expect(changed.variables?.map(({ key, fallback_value }) => [key, fallback_value])).toEqual([
      ['NAME', null],
      ['COUNT', null],
      ['MUST', 'soon'],
    ])
    await dataOf(resend.templates.update(id, { html: '<p>{{{MUST}}}</p>', text: 'Now' }))
    expect(await dataOf(resend.templates.get(id))).toMatchObject({ html: '<p>{{{MUST}}}</p>', text: 'Now' })
    expect((await dataOf(resend.templates.get(id))).variables?.at(-1)?.fallback_value).toBe('soon')
    const copy = await dataOf(resend.templates.duplicate(id))
    expect(await dataOf(resend.templates.get(copy.id))).toMatchObject({
      alias: 'order-1-copy',
      html: '<p>{{{MUST}}}</p>',
    })
    expect((await dataOf(resend.templates.list({ limit: 1, after: copy.id }))).data.map((one) => one.id)).toEqual([id])
    expect(await dataOf(resend.templates.remove('order-1-copy'))).toEqual({
      object: 'template',
      id: copy.id,
      deleted: true,
    })
    expect(await errorOf(resend.templates.get(copy.id))).toEqual(NOT_FOUND)
    const second = await dataOf(resend.templates.create({ name: 'Order 1', html: 'x' }))
    expect(await dataOf(resend.templates.get(second.id))).toMatchObject({
      ...{ alias: expect.stringMatching(/^order-1-[0-9a-f]{8}$/), subject: 'Order 1' },
    })
    expect(await errorOf(resend.templates.create({ name: '', html: 'x' }))).toEqual(MISSING)
    const wrong = [{ key: 'A', type: 'number' as const, fallbackValue: 'x' as never }]
    expect(await errorOf(resend.templates.create({ name: 'W', html: 'x', variables: wrong }))).toEqual(INVALID)
    for (const html of ['{{{a..b}}}', '{{{true}}}', '{{{not}}}'])
      expect(await errorOf(resend.templates.create({ name: 'W', html }))).toEqual(INVALID)
  })

  test('in our own syntax keep it when they get other fallbacks', async () => {
    // JSON has no such texts and numbers as the last two.
    const others = `{{ a|default("it\\'s", true) }}{{ b|default(01, true) }}`
    const html_body = `{% for i in items %}{{ i|upper }}{% endfor %}{{ city|default("Oslo", true) }}${others}`
    const own = { alias: 'own', name: 'Own', subject: '{% if a %}x{% endif %}', html_body }
    await service.api('POST', '/v1/templates', own)
    expect(await dataOf(resend.templates.get('own'))).toMatchObject({
      html: expect.stringMatching(/\{\{\{city\}\}\}\{\{ a\|/),
    })
    const variables = [{ key: 'city', type: 'string' as const, fallbackValue: 'Rome' }]
    const { id } = await dataOf(resend.templates.update('own', { variables }))
    const { body } = await service.api('GET', `/v1/templates/${id}`)
    expect([at(body, 'data', 'subject'), at(body, 'data', 'html_body')]).toEqual([
      own.subject,
      html_body.replace('Oslo', 'Rome'),
    ])
  })
})

test('logs show the requests of the account, in both directions', async () => {
  await errorOf(resend.segments.create({ name: '' }))
  const [newest, second] = (await dataOf(resend.logs.list({ limit: 2 }))).data
  expect(newest).toMatchObject({ endpoint: '/resend/segments', method: 'POST', response_status: 422 })
  expect(await dataOf(resend.logs.get(newest?.id ?? ''))).toMatchObject({
    ...{ object: 'log', id: newest?.id, user_agent: expect.stringMatching(/^resend-node/) },
    response_body: { name: 'validation_failed', message: expect.any(String) },
  })
  const before = await dataOf(resend.logs.list({ limit: 1, before: second?.id ?? '' }))
  expect(before.data.map(({ id }) => id)).toEqual([newest?.id ?? ''])
  expect(await errorOf(resend.logs.get('1'))).toEqual(NOT_FOUND)
  expect(await errorOf(resend.logs.get(UNKNOWN))).toEqual(NOT_FOUND)
})

test('a key of which sends become drafts has sends only', async () => {
  const scopes = ['emails:send', 'emails:read', 'contacts:read']
  const { body } = await service.api('POST', '/v1/api-keys', { name: 'Drafts', scopes, drafts: true })
  const limited = createResend({ url: service.url, key: String(at(body, 'data', 'key')) })
  const email = { from: FROM, to: 'waits@receiver.test', subject: 'Waits', text: 'x' }
  const { id } = await dataOf(limited.emails.send(email))
  expect((await dataOf(limited.batch.send([email]))).data).toHaveLength(1)
  expect(at((await service.api('GET', `/v1/emails/${id}`)).body, 'data', 'status')).toBe('draft')
  await dataOf(limited.emails.cancel(id))
  const calls = [limited.broadcasts.send(UNKNOWN), limited.contacts.create({ email: 'x@receiver.test' })]
  for (const { error } of await Promise.all(calls)) expect(error).toMatchObject({ name: 'restricted_api_key' })
})
