import { expect, test } from 'bun:test'
import { connect } from 'node:net'
import { createTransport } from 'nodemailer'
import { startBackground } from '#app/schedules.ts'
import { verifyAuditLog } from '#features/core/audit-logs/chain.ts'
import { storeOperatorMail } from '#features/receiving/postmaster/store.ts'
import { addFinding } from '#features/reporting/abuse/pause.ts'
import { type Status, statusCode } from '#features/sending/queue/status.ts'
import { hours, minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, expectError, NOW, UNVERIFIED, VERIFIED } from '#test/support/email-api.ts'
import { createTestReceived, storeTestInbound } from '#test/support/inbound.ts'

type Json = Record<string, unknown>

const ADA = 'Ada@victim.test'
const KEY = 'ada@victim.test'
const BEN = 'ben@others.test'
const NOBODY = 'erased@erased.invalid'

const erase = (service: EmailApi, email = ADA) =>
  service.api('DELETE', `/v1/gdpr/erase?email=${encodeURIComponent(email)}`)
const exported = async (service: EmailApi, email = ADA) =>
  at((await service.api('GET', `/v1/gdpr/export?email=${encodeURIComponent(email)}`)).body, 'data') as Record<
    string,
    Json[]
  >

const operationOf = async (service: EmailApi, answer: { body: unknown }) =>
  at((await service.api('GET', `/v1/operations/${at(answer.body, 'operation_id')}`)).body, 'data') as Json

/** The operation of an erasure, once it is complete. */
const completed = (service: EmailApi, answer: { body: unknown }) =>
  eventually(async () => {
    const operation = await operationOf(service, answer)
    return operation['status'] === 'completed' && operation
  })

const newList = async ({ api }: EmailApi, ...emails: string[]): Promise<string> => {
  const id = String(
    at((await api('POST', '/v1/contact-lists', { name: `List of ${emails.length}` })).body, 'data', 'id'),
  )
  await api('POST', `/v1/contact-lists/${id}/contacts`, { contacts: emails.map((email) => ({ email })) })
  return id
}
const contactsOf = async ({ api }: EmailApi, id: string) =>
  (at((await api('GET', `/v1/contact-lists/${id}/contacts`)).body, 'data') as Json[]).map(({ email }) => email)

// Proves: privacy-1
test('what is not an address is a 422, so no data is exported or erased', async () => {
  await using service = await createEmailApi()
  for (const email of ['', 'ada', 'ada@', '@victim.test', 'a@b@', 'ada@victim.test,ben@others.test']) {
    const query = `?email=${encodeURIComponent(email)}`
    expectError(await service.api('GET', `/v1/gdpr/export${query}`), 422, 'invalid_address', 'email')
    expectError(await service.api('DELETE', `/v1/gdpr/erase${query}`), 422, 'invalid_address', 'email')
  }
})

// Proves: privacy-1
test('an export has the data of an address in any spelling, and no other recipients of its emails', async () => {
  await using service = await createEmailApi()
  const { app, actor, api } = service
  const { id } = await service.accepted({ to: [ADA, BEN], cc: ['cara@others.test'], text_body: 'For both' })
  await service.accepted({ to: BEN, text_body: 'Not for Ada' })
  await newList(service, ADA)
  await api('POST', '/v1/suppressions', { email_address: 'ADA@victim.test' })
  const message = { from: `A. <${ADA}>`, fromAddresses: [KEY] }
  const inboundId = await storeTestInbound(
    app,
    { accountId: actor.accountId, domainId: 1 },
    { message, text: 'From Ada' },
  )
  await storeTestInbound(app, { accountId: actor.accountId, domainId: 1 }, { text: 'From somebody' })
  const answer = await api('GET', `/v1/gdpr/export?email=${encodeURIComponent('aDA@VICTIM.test')}`)
  expect(at(answer.body, 'exported_at')).toBe(new Date(NOW).toISOString())
  const data = at(answer.body, 'data') as Record<string, Json[]>
  expect(data).toEqual({
    email_address: KEY as never,
    emails: [expect.objectContaining({ id, to: ADA, cc: [], text_body: 'For both', html_body: null })],
    events: [expect.objectContaining({ email_id: id, type: 'queued' })],
    suppressions: [expect.objectContaining({ email_address: KEY, reason: 'manual' })],
    unsubscribe_events: [],
    inbound_emails: [expect.objectContaining({ text_body: 'From Ada' })],
    contacts: [expect.objectContaining({ email: ADA, status: 'active' })],
    sequences: [],
    mailbox_messages: [],
  })
  expect(JSON.stringify(data['inbound_emails'])).toContain(inboundId.slice(0, 8))
  expect(JSON.stringify(answer.body)).not.toContain('others.test')
})

// Proves: operation-7, privacy-2
test('an erasure removes the data of the person, keeps the stats, and reports the number of rows', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const { app, actor } = service
  const { id } = await service.accepted({
    to: ADA,
    html_body: '<p>Hello</p>',
    tags: ['vip'],
    metadata: { name: 'Ada' },
  })
  const list = await newList(service, ADA, BEN)
  await storeTestInbound(
    app,
    { accountId: actor.accountId, domainId: 1 },
    { message: { from: ADA, fromAddresses: [KEY] } },
  )
  const used = service.used()
  const answer = await erase(service)
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 200,
    body: {
      data: { email_address: KEY, rows_deleted: expect.any(Number), message: expect.any(String) },
      operation_id: expect.any(String),
    },
  })
  const operation = await completed(service, answer)
  expect(operation).toMatchObject({
    operation_type: 'gdpr_erase',
    total_items: operation['completed_items'],
    failed_items: 0,
    metadata: { rows_deleted: operation['completed_items'] },
  })
  // Waiting mail was cancelled.
  expect(await service.detail(id)).toMatchObject({
    to: NOBODY,
    subject: '',
    tags: [],
    metadata: {},
    status: 'cancelled',
  })
  expect(service.used()).toBe(used - 1)
  expect(await contactsOf(service, list)).toEqual([BEN])
  expect(await exported(service)).toMatchObject({ emails: [], events: [], inbound_emails: [], contacts: [] })
  const log = JSON.stringify((await service.api('GET', '/v1/audit-logs?per_page=100')).body)
  expect(log).not.toContain('victim')
  expect(log).toContain('person.erased')
  expectBalanced(service)
})

// Proves: feed-5
test('events become tombstones: number, type and time stay, the feed has no gap, and the audit log still verifies', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const { app } = service
  await service.api('POST', '/v1/suppressions', { email_address: ADA })
  const { id } = await service.accepted({ to: ADA })
  await service.accepted({ to: BEN })
  const feed = async () => at((await service.api('GET', '/v1/events')).body, 'data') as Json[]
  const before = await feed()
  await completed(service, await erase(service))
  const after = await feed()
  expect(after.map(({ seq, id: event, type, created_at }) => [seq, event, type, created_at])).toEqual(
    before.map(({ seq, id: event, type, created_at }) => [seq, event, type, created_at]),
  )
  expect(after.map(({ email_id, recipient, raw_payload }) => [email_id === id, recipient, raw_payload])).toEqual([
    [true, null, null],
    [true, NOBODY, { suppression: 'manual' }],
    [false, null, null],
  ])
  expect(verifyAuditLog(app.db)).toMatchObject({ broken: [] })
})

test('abuse findings stay, without the address', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const { app, actor } = service
  const detail = { signs: [`https://shop.test/?for=${encodeURIComponent(ADA)}`, `mailto:${BEN}`] }
  await app.commit.write((tx) =>
    addFinding(app, tx, {
      accountId: actor.accountId,
      source: 'scam_classifier',
      reason: 'It looks like phishing.',
      detail,
      isPause: false,
    }),
  )
  await completed(service, await erase(service))
  const stored = app.db.query<{ detail: string }, []>('SELECT detail FROM abuse_findings').all()
  expect(stored.map((row) => JSON.parse(row.detail))).toEqual([
    { signs: [`https://shop.test/?for=${NOBODY}`, `mailto:${BEN}`] },
  ])
})

// Proves: privacy-2
test('the same address in another account stays', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const other = await service.newAccount()
  await service.addDomain(other, 'other.test')
  const key = await service.newKey([], other)
  const { id } = await service.accepted({ to: ADA, from: 'x@other.test' }, { key })
  await service.api('POST', '/v1/suppressions', { email_address: ADA }, { key })
  await completed(service, await erase(service))
  expect(await service.detail(id, { key })).toMatchObject({ to: ADA, subject: 'Hello', status: 'queued' })
  const { body } = await service.api('GET', '/v1/suppressions', undefined, { key })
  expect(at(body, 'data')).toEqual([expect.objectContaining({ email_address: KEY })])
})

test('an address is erased in every equivalent spelling, and similar addresses stay', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const same = ['märta@BÜCHER.test', 'MÄRTA@bücher.test', 'märta@xn--bcher-kva.test']
  const others = ['marta@xn--bcher-kva.test', 'xmärta@xn--bcher-kva.test']
  const ids = []
  for (const to of [...same, ...others]) ids.push((await service.accepted({ to })).id)
  const list = await newList(service, 'märta@bücher.test', ...others)
  await completed(service, await erase(service, 'Ma\u0308rta@bücher.test'))
  const to = await Promise.all(ids.map(async (id) => (await service.detail(id))['to']))
  expect(to).toEqual([NOBODY, NOBODY, NOBODY, ...others])
  expect((await contactsOf(service, list)).toSorted()).toEqual(others.toSorted())
})

// Proves: privacy-2
test('mail to other recipients is delivered without the person, and then its content is removed as well', async () => {
  await using service = await createEmailApi({ runsTasks: true, delivers: true })
  const { clock } = service
  const { id } = await service.accepted({
    from: `x@${UNVERIFIED}`,
    to: [`Ada Lovelace <${ADA}>`, BEN],
    subject: 'For both',
    send_at: new Date(NOW + hours(1)).toISOString(),
  })
  const answer = await erase(service)
  await eventually(() => service.app.db.query("SELECT 1 FROM erasures WHERE address GLOB '[0-9]*'").get() !== null)
  expect(await operationOf(service, answer)).toMatchObject({ status: 'processing', completed_at: null })
  expect(await service.detail(id)).toMatchObject({ to: `${NOBODY}, ${BEN}`, subject: 'For both', status: 'scheduled' })
  clock.advance(hours(1))
  const captured = await eventually(async () => {
    const { status, body } = await service.api('GET', `/v1/emails/${id}/captured`)
    return status === 200 && (at(body, 'data') as Json)
  })
  expect(captured['rcpt_to']).toEqual([BEN])
  expect(String(captured['raw'])).toContain(`To: ${BEN}`)
  expect(String(captured['raw'])).not.toMatch(/victim|Lovelace|erased/)
  await eventually(async () => (await service.detail(id))['status'] === 'sent')
  clock.advance(minutes(1))
  await completed(service, answer)
  expect(await service.detail(id)).toMatchObject({
    subject: '',
    status: 'sent',
    to: `${NOBODY}, ${BEN}`,
    text_body: null,
  })
  expect((await service.api('GET', `/v1/emails/${id}/captured`)).status).toBe(404)
  expectBalanced(service)
})

// Proves: privacy-2
test('mail of the person that is being forwarded is emptied once that has ended', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const { app, actor, clock } = service
  const { id } = await service.accepted({ to: BEN })
  const setStatus = (status: Status) => app.db.run(`UPDATE recipients SET status = ${statusCode(status)}`)
  setStatus('processing')
  const mail = { message: { from: ADA, fromAddresses: [KEY] } }
  await storeTestInbound(app, { accountId: actor.accountId, domainId: 1 }, mail)
  app.db.run("UPDATE inbound_emails SET forward = json_object('email', ?, 'refused', json_object())", [id])
  app.db.run(`UPDATE emails SET from_address = ?, extra = '{"whole":"own_return_path"}'`, [ADA])
  const answer = await erase(service)
  await eventually(() => app.db.query("SELECT 1 FROM erasures WHERE address GLOB '[0-9]*'").get() !== null)
  setStatus('failed')
  clock.advance(minutes(1))
  await completed(service, answer)
  expect(await service.detail(id)).toMatchObject({ from_address: NOBODY, subject: '', to: BEN })
})

// Proves: privacy-2
test('mail that others got no longer shows the person in To and Cc', async () => {
  await using service = await createEmailApi({ runsTasks: true, submits: true })
  const { api, app } = service
  const transport = createTransport({
    host: '127.0.0.1',
    port: service.submission?.endpoints[0]?.port ?? 0,
    auth: { user: 'apikey', pass: service.key },
    tls: { rejectUnauthorized: false },
  })
  const header = { to: `Ada <${ADA}>, Ben <${BEN}>`, cc: [`ADA@victim.test`, 'Cara <cara@others.test>'] }
  const { response } = await transport.sendMail({
    from: `x@${VERIFIED}`,
    ...header,
    subject: 'For all',
    text: 'Hello',
    envelope: { from: `x@${VERIFIED}`, to: BEN },
  })
  transport.close()
  const id = /queued as (\S+)/.exec(response)?.[1]
  const source = async () => String(at((await api('GET', `/v1/emails/${id}/source`)).body, 'data', 'source'))
  expect(await source()).toContain(`To: Ben <${BEN}>, Ada <${ADA}>`)
  // Of an export it is no part: others got it.
  expect((await exported(service))['emails']).toEqual([])
  const { completed_items: rows } = await completed(service, await erase(service))
  expect(rows).toBe(1)
  const erased = await source()
  expect(erased).toContain(`To: Ben <${BEN}>\r\nCc: Cara <cara@others.test>`)
  expect(erased).not.toMatch(/victim/i)
  expect(await service.detail(id)).toMatchObject({ to: BEN, subject: 'For all', text_body: 'Hello\n' })
  expect(JSON.stringify(app.db.query('SELECT extra FROM emails').all())).not.toMatch(/victim/i)
})

test('a repeated request joins a running erasure, and starts a new one afterwards', async () => {
  await using service = await createEmailApi()
  await service.accepted({ to: ADA })
  const [first, second] = [await erase(service), await erase(service, KEY)]
  expect(at(second.body, 'operation_id')).toBe(at(first.body, 'operation_id') as string)
  const background = startBackground(service.app)
  try {
    await completed(service, first)
    const third = await erase(service)
    expect(at(third.body, 'operation_id')).not.toBe(at(first.body, 'operation_id') as string)
    await completed(service, third)
  } finally {
    await background.stop()
  }
})

test('a repeated request also erases rows created since the first', async () => {
  await using service = await createEmailApi()
  const first = await erase(service)
  expect(service.app.db.query("SELECT 1 FROM erasures WHERE address GLOB 'erased:*'").get()).not.toBeNull()
  const list = await newList(service, ADA, BEN)
  const again = await erase(service)
  expect(at(again.body, 'operation_id')).toBe(at(first.body, 'operation_id') as string)
  const background = startBackground(service.app)
  try {
    await completed(service, again)
    expect(await contactsOf(service, list)).toEqual([BEN])
  } finally {
    await background.stop()
  }
})

test('of many concurrent requests a few run the quick steps themselves, and all complete with few scrubs', async () => {
  await using service = await createEmailApi()
  const { app } = service
  let looks = 0
  const scrubFiles = app.scrubFiles
  Object.assign(app, {
    scrubFiles: () => {
      looks++
      return scrubFiles()
    },
  })
  const people = Array.from({ length: 30 }, (_, i) => `person${i}@victim.test`)
  for (const to of people) await service.accepted({ to, text_body: to })
  const answers = await Promise.all(people.map((email) => erase(service, email)))
  const untouched = app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM erasures WHERE step = 0').get()
  expect(untouched?.n).toBeGreaterThan(20)
  const background = startBackground(app)
  try {
    for (const answer of answers) await completed(service, answer)
  } finally {
    await background.stop()
  }
  expect(looks).toBeLessThan(people.length)
  expect(app.db.query("SELECT 1 FROM recipients WHERE address LIKE '%victim%'").all()).toEqual([])
  expectBalanced(service)
})

test('an account has at most two concurrent exports of persons, and an aborted one frees its slot', async () => {
  await using service = await createEmailApi()
  for (let i = 0; i < 300; i++) await service.accepted({ to: ADA, text_body: `${'x'.repeat(40_000)}${i}` })
  const sockets = [1, 2].map(() => {
    const socket = connect({ port: Number(new URL(service.url).port), host: '127.0.0.1' })
    socket.write(`GET /v1/gdpr/export?email=${ADA} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.key}\r\n\r\n`)
    return socket
  })
  for (const socket of sockets) await new Promise((resolve) => socket.once('readable', resolve))
  const other = await service.newKey([], await service.newAccount())
  expect((await service.api('GET', `/v1/gdpr/export?email=${ADA}`, undefined, { key: other })).status).toBe(200)
  expectError(await service.api('GET', `/v1/gdpr/export?email=${ADA}`), 429, 'export_running')
  for (const socket of sockets) socket.destroy()
  expect(await eventually(async () => (await service.api('GET', `/v1/gdpr/export?email=${ADA}`)).status === 200)).toBe(
    true,
  )
  expect(service.app.memory.inUseBytes).toBe(0)
}, 60_000)

test('reports about the person are removed, but erasing a system address removes none', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const { app } = service
  const store = async (kind: 'bounce' | 'complaint' | 'unsubscribe', from: string, text: string) => {
    const { envelope } = await createTestReceived(app, {
      raw: `From: ${from}\r\nTo: postmaster@host.test\r\n\r\n${text}\r\n`,
    })
    await app.commit.write((tx) =>
      storeOperatorMail(app, tx, {
        kind,
        envelope: { ...envelope, mailFrom: from },
        rcptTo: ['postmaster@host.test'],
        from,
        subject: kind,
        reason: 'It names no email.',
      }),
    )
  }
  await store('complaint', 'reports@provider.test', `Original-Rcpt-To: ${ADA}`)
  await store('bounce', 'mailer-daemon@provider.test', `Final-Recipient: rfc822; ${BEN}`)
  await store('unsubscribe', BEN, 'Please do.')
  await store('unsubscribe', ADA, 'Please do.')
  const left = () =>
    app.db.query<{ of: string }, []>("SELECT subject || ' ' || mail_from AS of FROM operator_mail ORDER BY id").all()
  for (const name of ['postmaster@host.test', 'reports@provider.test', 'mailer-daemon@provider.test'])
    await completed(service, await erase(service, name))
  expect(left()).toHaveLength(4)
  await completed(service, await erase(service))
  expect(left().map(({ of }) => of)).toEqual(['bounce mailer-daemon@provider.test', `unsubscribe ${BEN}`])
})

test('a waiting broadcast skips the person, and releases the quota', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const list = await newList(service, ADA, BEN)
  const { body } = await service.api('POST', '/v1/emails/broadcast', {
    contact_list_id: list,
    from_address: `ada@${VERIFIED}`,
    subject: 'News',
    text_body: 'Hello {{ contact.email }}',
    send_at: new Date(NOW + hours(1)).toISOString(),
  })
  const used = service.used()
  await completed(service, await erase(service))
  expect(service.used()).toBe(used - 1)
  service.clock.advance(hours(1))
  const operationId = at(body, 'data', 'operation_id')
  await eventually(async () => {
    const { body: emails } = await service.api('GET', `/v1/emails?operation_id=${operationId}`)
    return (at(emails, 'data') as Json[]).map(({ to }) => to).join() === BEN
  })
  expectBalanced(service)
})

test('an email of a broadcast is emptied, and still listed', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const list = await newList(service, ADA, BEN)
  const { body } = await service.api('POST', '/v1/emails/broadcast', {
    contact_list_id: list,
    from_address: `ada@${VERIFIED}`,
    subject: 'News for {{ contact.email }}',
    text_body: 'Hello {{ contact.email }}',
  })
  const operationId = at(body, 'data', 'operation_id')
  const emails = () => service.api('GET', `/v1/emails?operation_id=${operationId}`)
  await eventually(async () => Number(at((await emails()).body, 'pagination', 'total')) === 2)
  expect((await exported(service))['emails']).toMatchObject([{ to: ADA, text_body: `Hello ${ADA}` }])
  await completed(service, await erase(service))
  const shown = await Promise.all((at((await emails()).body, 'data') as Json[]).map(({ id }) => service.detail(id)))
  expect(shown.map(({ to, subject, text_body }) => [to, subject, text_body]).toSorted()).toEqual([
    [BEN, `News for ${BEN}`, `Hello ${BEN}`],
    [NOBODY, '', null],
  ])
  expectBalanced(service)
})

// Proves: privacy-2
test('an erased address stays suppressed as a keyed hash, by which it is found, exported, imported and removed', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  await service.api('POST', '/v1/suppressions', { email_address: ADA })
  await completed(service, await erase(service))
  const listed = async () =>
    (at((await service.api('GET', '/v1/suppressions')).body, 'data') as Json[]).map(({ email_address, reason }) => [
      email_address,
      reason,
    ])
  const form = expect.stringMatching(/^erased:[0-9a-f]{64}$/)
  expect(await listed()).toEqual([[form, 'manual']])
  expect(await service.accepted({ to: ADA })).toMatchObject({ status: 'rejected' })
  const again = await service.api('POST', '/v1/suppressions', { email_address: KEY })
  expect([again.status, at(again.body, 'data', 'email_address')]).toEqual([201, form])
  expect(at((await service.api('GET', `/v1/suppressions?email=${KEY}`)).body, 'data')).toHaveLength(1)
  const csv = await (
    await fetch(`${service.url}/v1/suppressions/export`, { headers: { authorization: `Bearer ${service.key}` } })
  ).text()
  const imported = await fetch(`${service.url}/v1/suppressions/import`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'text/csv' },
    body: csv,
  })
  expect(at(await imported.json(), 'data')).toEqual({
    imported: 0,
    already_suppressed: 1,
    invalid: 0,
    total: 1,
    ignored_columns: [],
  })
  expect((await service.api('DELETE', `/v1/suppressions/${KEY}`)).status).toBe(204)
  expect(await listed()).toEqual([])
  expect(await service.accepted({ to: ADA })).toMatchObject({ status: 'queued' })
  expectBalanced(service)
})
