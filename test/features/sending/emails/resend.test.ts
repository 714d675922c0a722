import { describe, expect, spyOn, test } from 'bun:test'
import { dropEmailContent, findOldEmail } from '#features/sending/queue/retire.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { hours } from '#platform/units.ts'
import { type ApiOptions, at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { addContacts, newList } from '#test/support/broadcasts.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, expectError, NOW, shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'

const emails = shareEmailApi(createEmailApi)

const resend = (emails: EmailApi, id: string, body?: unknown, options?: ApiOptions) =>
  emails.api('POST', `/v1/emails/${id}/resend`, body, options)

/** An accepted email that has ended: it was cancelled. */
async function ended(emails: EmailApi, request: Record<string, unknown> = {}) {
  const sent = await emails.accepted({ ...request, send_at: new Date(NOW + hours(1)).toISOString() })
  await emails.api('POST', `/v1/emails/${sent.id}/cancel`)
  return sent
}

/** The recipients of a detail, such as `to bob@r.test, cc jane@s.test`. */
const kindsOf = ({ recipients }: Record<string, unknown>): string =>
  (recipients as { kind: string; address: string }[]).map(({ kind, address }) => `${kind} ${address}`).join(', ')

const dropContent = ({ app }: EmailApi) =>
  app.commit.write((tx) => {
    const email = findOldEmail(tx.db, 1)
    if (email) dropEmailContent(app, tx, email)
  })

const FULL = {
  from: 'Ada Lovelace <ada@sender.test>',
  to: ['Bob <bob@r.test>', 'carl@r.test'],
  cc: ['"Doe, Jane" <jane@s.test>'],
  bcc: ['audit@s.test'],
  subject: 'Ihre Rechnung für März',
  html_body: '<p>Grüße</p>',
  text_body: 'Grüße',
  reply_to: 'Help <help@sender.test>',
  headers: { 'X-Order': '4711' },
  metadata: { order: 4711 },
  tags: ['invoice', 'q1'],
  attachments: [{ filename: 'bill.txt', content: btoa('12.00'), content_type: 'text/plain' }],
  tracking: false,
  transactional: false,
  idempotency_key: 'first',
}

// Proves: email-29
test('the new email has everything of the first, its own id and key, and both are linked', async () => {
  const sent = await ended(emails, FULL)
  emails.clock.advance(60_000)
  const answer = await resend(emails, sent.id)
  expect(answer.status).toBe(202)
  const id = String(at(answer.body, 'data', 'id'))
  expect(answer.body).toEqual({
    data: {
      id,
      message_id: `<${id}@sender.test>`,
      status: 'queued',
      to: 'bob@r.test, carl@r.test',
      sandbox: false,
      created_at: new Date(NOW + 60_000).toISOString(),
    },
  })
  const [before, after] = [await emails.detail(sent.id), await emails.detail(id)]
  const SAME = [
    'account_id, attachments, bcc, cc, domain_id, from_address, headers, html_body, metadata, reply_to, stream_id, subject',
    'suppress_list_management_header, tags, template_id, text_body, to, tracking_override',
  ].flatMap((names) => names.split(', '))
  for (const name of SAME) expect([name, after[name]]).toEqual([name, before[name]])
  expect(after).toMatchObject({ status: 'queued', idempotency_key: null, scheduled_at: null, resend_of: sent.id })
  expect(before).toMatchObject({ status: 'cancelled', idempotency_key: 'first', resend_of: null })
  expect(kindsOf(after)).toEqual(kindsOf(before))
  const sources = await Promise.all([sent.id, id].map((one) => emails.api('GET', `/v1/emails/${one}/source`)))
  const [first, second] = sources.map(({ body }) =>
    String(at(body, 'data', 'source'))
      .split('\r\n')
      .filter((line) => !/^(Message-ID|Date):|=_T/.test(line)),
  )
  expect(second).toEqual(first ?? [])
  expect(second?.join('\n')).toContain('Cc: "Doe, Jane" <jane@s.test>')
  const audit = await emails.api('GET', '/v1/audit-logs?action=email.repeated')
  expect(at(audit.body, 'data')).toMatchObject([{ resource_id: sent.id, metadata: { new_email_id: id } }])
  expect(emails.used()).toBe(4)
  expectBalanced(emails)
})

// Proves: email-29
test('the response names recipients who may get it twice, and suppressed ones', async () => {
  const sent = await ended(emails, { to: ['bob@r.test', 'carl@r.test', 'dora@r.test', 'erik@r.test'] })
  const mark = emails.app.db.query('UPDATE recipients SET status = ? WHERE address = ?')
  mark.run(statusCode('uncertain'), 'bob@r.test')
  mark.run(statusCode('sent'), 'carl@r.test')
  await emails.api('POST', '/v1/suppressions', { email_address: 'Dora@r.test' })
  const warn = async (body?: unknown) =>
    (at((await resend(emails, sent.id, body)).body, 'data') as { warnings?: string[] }).warnings
  expect(await warn()).toEqual([
    'bob@r.test may have got the first email, so it may arrive twice.',
    'carl@r.test got the first email, so this one arrives in addition.',
    'dora@r.test is suppressed, so it gets none.',
  ])
  expect(await warn({ to: ['dora@r.test'] })).toEqual(['dora@r.test is suppressed, so it gets none.'])
  expect(await warn({ to: ['erik@r.test'] })).toBeUndefined()
})

test('attachments reach the receiver again, and an email of an email that was sent again names the latter', async () => {
  await using emails = await createEmailApi({ delivers: true })
  const first = await emails.accepted({ ...FULL, from: `ada@${UNVERIFIED}`, to: 'bob@r.test', cc: [], bcc: [] })
  let id = first.id
  for (const round of [1, 2]) {
    await eventually(async () => (await emails.detail(id))['status'] === 'sent')
    const next = String(at((await resend(emails, id)).body, 'data', 'id'))
    expect([round, (await emails.detail(next))['resend_of']]).toEqual([round, id])
    id = next
  }
  await eventually(async () => (await emails.detail(id))['status'] === 'sent')
  const { body } = await emails.api('GET', `/v1/emails/${id}/captured`)
  expect(JSON.stringify(body)).toContain('bill.txt')
})

test('recipients in Cc become To when those in To were erased', async () => {
  const { id } = await ended(emails, FULL)
  emails.app.db.run("UPDATE recipients SET address = 'erased@erased.invalid' WHERE kind = 0")
  const again = await emails.detail(at((await resend(emails, id)).body, 'data', 'id'))
  expect(kindsOf(again)).toBe('to jane@s.test, bcc audit@s.test')
})

describe('to some of the recipients', () => {
  // Proves: email-29
  test.each([
    ['one in To', ['BOB@R.test'], 'to bob@r.test'],
    ['To and Cc', ['Jane <jane@s.test>', 'carl@r.test'], 'to carl@r.test, cc jane@s.test'],
    ['To and Bcc', ['bob@r.test', 'audit@s.test'], 'to bob@r.test, bcc audit@s.test'],
    ['one in Cc becomes To', ['jane@s.test'], 'to jane@s.test'],
    ['one in Bcc becomes To', ['audit@s.test'], 'to audit@s.test'],
    ['Cc and Bcc', ['audit@s.test', 'jane@s.test'], 'to jane@s.test, bcc audit@s.test'],
    ['the same one twice', ['bob@r.test', 'bob@r.test'], 'to bob@r.test'],
  ])('%s', async (_, to, expected) => {
    const sent = await ended(emails, FULL)
    const answer = await resend(emails, sent.id, { to })
    expect(answer.status).toBe(202)
    expect(kindsOf(await emails.detail(at(answer.body, 'data', 'id')))).toBe(expected)
  })

  // Proves: email-29
  test.each([
    ['a stranger', ['bob@r.test', 'eve@r.test'], 'to.1', 'validation_failed'],
    ['no address', ['bob'], 'to.0', 'invalid_address'],
    ['two in Bcc, who would see each other', ['audit@s.test', 'legal@s.test'], 'to', 'validation_failed'],
  ])('a 422 for %s, and nothing is stored', async (_, to, field, code) => {
    const sent = await ended(emails, { ...FULL, bcc: ['audit@s.test', 'legal@s.test'] })
    const stored = emails.stored()
    expectError(await resend(emails, sent.id, { to }), 422, code, field)
    expect(emails.stored()).toEqual(stored)
  })
})

describe('a 409, and nothing is stored, for an email', () => {
  // Proves: email-30
  test.each(['queued', 'scheduled', 'processing'] as const)('that is %s', async (status) => {
    const { id } = await emails.accepted()
    emails.app.db.run(`UPDATE emails SET status = ${statusCode(status)}`)
    const stored = emails.stored()
    const answer = await resend(emails, id)
    expectError(answer, 409, 'email_open')
    expect(at(answer.body, 'message')).toContain(status)
    expect(emails.stored()).toEqual(stored)
  })

  // Proves: email-30
  test('whose content was deleted', async () => {
    const { id } = await ended(emails)
    await dropContent(emails)
    expectError(await resend(emails, id), 409, 'content_removed')
  })

  test('whose recipients were erased, also while the new email is prepared', async () => {
    const { id } = await ended(emails)
    using _ = spyOn(emails.app.disk, 'isLow').mockImplementationOnce(async () => {
      emails.app.db.run("UPDATE recipients SET address = 'erased@erased.invalid'")
      return false
    })
    for (const _ of [1, 2]) expectError(await resend(emails, id), 409, 'recipients_erased')
    expect(emails.app.db.query('SELECT count(*) AS n FROM emails').get()).toEqual({ n: 1 })
  })

  test('of the service', async () => {
    const { id } = await ended(emails)
    emails.app.db.run(`UPDATE emails SET extra = '{"of_service":true}'`)
    expectError(await resend(emails, id), 409, 'system_mail')
    const { body } = await emails.api('GET', `/v1/emails/${id}/source`)
    expect(at(body, 'data', 'source')).toBeNull()
    expect(JSON.stringify(body)).not.toContain('Hello, Bob.')
  })
})

// Proves: email-30
test('a missing blob is a 410, and no memory stays reserved', async () => {
  const { id } = await ended(emails)
  emails.app.db.run('UPDATE emails SET text_ref = text_ref + 1000')
  expectError(await resend(emails, id), 410, 'content_missing')
  expect(emails.app.memory.inUseBytes).toBe(0)
  const { body } = await emails.api('GET', `/v1/emails/${id}/source`)
  expect(at(body, 'data', 'source')).toBeNull()
  expect(String(at(body, 'data', 'headers'))).toContain('Subject: Hello\r\n')
})

test('without free memory it is a 503, and so is the source', async () => {
  const { id } = await ended(emails)
  const { memory } = emails.app
  const held = memory.reserve(memory.limitBytes - 10)
  expectError(await resend(emails, id), 503, 'server_busy')
  expectError(await emails.api('GET', `/v1/emails/${id}/source`), 503, 'server_busy')
  held?.release()
})

// Proves: email-29
test('an idempotency key gives the same new email, whatever became of the first; other recipients are a mismatch', async () => {
  const sent = await ended(emails, FULL)
  const options = { headers: { 'idempotency-key': 'again' } }
  const answers = await Promise.all(Array.from({ length: 20 }, () => resend(emails, sent.id, undefined, options)))
  expect(new Set(answers.map(({ body }) => at(body, 'data', 'id'))).size).toBe(1)
  expect(answers.filter(({ body }) => !('replayed' in (at(body, 'data') as object)))).toHaveLength(1)
  const id = at(answers[0]?.body, 'data', 'id')
  expect((await emails.detail(id))['idempotency_key']).toBe('again')
  await dropContent(emails)
  const replay = await resend(emails, sent.id, undefined, options)
  expect([replay.status, at(replay.body, 'data', 'id'), at(replay.body, 'data', 'replayed')]).toEqual([202, id, true])
  const other = await resend(emails, sent.id, { to: ['bob@r.test'] }, options)
  expect([other.headers.get('idempotency-mismatch'), at(other.body, 'data', 'id')]).toEqual(['true', id])
  expect(emails.used()).toBe(4)
})

test('the checks of acceptance hold: of suppressed recipients, deleted domains and paused accounts', async () => {
  const { id } = await ended(emails)
  await emails.api('POST', '/v1/suppressions', { email_address: 'bob@receiver.test' })
  expect(at((await resend(emails, id)).body, 'data', 'status')).toBe('rejected')
  emails.app.db.run('UPDATE domains SET deleted_at = 1')
  expectError(await resend(emails, id), 422, 'domain_not_found', 'from')
  emails.app.db.run('UPDATE accounts SET paused_at = 1 WHERE id = ?', [emails.actor.accountId])
  expect((await resend(emails, id)).status).toBe(403)
})

interface Source {
  readonly headers: string
  readonly source: string | null
  readonly truncated: boolean
}

const readSource = async (emails: EmailApi, id: unknown): Promise<Source> => {
  const { status, body } = await emails.api('GET', `/v1/emails/${id}/source`)
  expect(status).toBe(200)
  return at(body, 'data') as Source
}

/** Header fields by name, unfolded; `=_T` boundaries replaced. */
const fields = (headers: string): string[] =>
  headers
    .replace(/\r\n[ \t]+/g, ' ')
    .replace(/=_T[\w-]*/g, 'B')
    .trimEnd()
    .split('\r\n')

// Proves: email-31
test('the source is the message that is delivered, apart from the signature', async () => {
  await using emails = await createEmailApi({ delivers: true })
  const { id } = await emails.accepted({
    from: `Ada <ada@${UNVERIFIED}>`,
    to: ['Bob <bob@r.test>', 'carl@r.test'],
    bcc: ['audit@r.test'],
    html_body: '<p>Grüße, <a href="https://x.test/">hier</a></p>',
    text_body: null,
    headers: { 'X-Order': '4711' },
  })
  await eventually(async () => (await emails.detail(id))['status'] === 'sent')
  const { headers, source, truncated } = await readSource(emails, id)
  const captured = await emails.api('GET', `/v1/emails/${id}/captured`)
  const raw = String(at(captured.body, 'data', 'raw'))
  expect(raw).toContain('DKIM-Signature')
  // The signature is the first field.
  expect(raw.replace(/^DKIM-Signature:.*\r\n(?:[ \t].*\r\n)*/, '')).toBe(source ?? '')
  expect(source?.startsWith(headers)).toBe(true)
  expect(headers.endsWith('\r\n\r\n')).toBe(true)
  expect(headers).toContain('X-Order: 4711\r\n')
  expect(source).not.toContain('audit@r.test')
  expect(truncated).toBe(false)
})

// Proves: email-31
test('attachments are named with their size, and the token of List-Unsubscribe is hidden', async () => {
  await using emails = await createEmailApi({ settings: { TASSIS_PUBLIC_URL: 'https://mail.test' } })
  const attachments = [{ filename: '<script>.txt', content: btoa('secret '.repeat(9)), content_type: 'text/plain' }]
  const { id } = await emails.accepted({ attachments, transactional: false })
  const { headers, source } = await readSource(emails, id)
  expect(fields(headers)).toEqual([
    'List-Unsubscribe: <https://mail.test/u/hidden>, <mailto:hidden@send.sender.test?subject=hidden>',
    'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
    'From: ada@sender.test',
    'To: bob@receiver.test',
    'Subject: Hello',
    `Message-ID: <${id}@sender.test>`,
    'Date: Sun, 15 Mar 2026 12:30:00 +0000',
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="B"',
  ])
  expect(source).toContain('filename="<script>.txt"')
  expect(source).toContain('\r\n\r\n[63 bytes, not shown]\r\n')
  expect(source).not.toContain(btoa('secret secret ').slice(0, 12))
})

test('tracked links are shown as they were sent by the client', async () => {
  const { id } = await emails.accepted({ html_body: '<a href="https://x.test/y">y</a>', tracking: true })
  expect((await readSource(emails, id)).source).toContain('<a href="https://x.test/y">')
  expect(emails.app.db.query('SELECT tracked FROM emails').get()).toEqual({ tracked: 1 })
})

// Proves: email-31
test('once the content is deleted, the fields that do not describe it remain', async () => {
  const { id } = await ended(emails)
  await dropContent(emails)
  const { headers, source } = await readSource(emails, id)
  expect(source).toBeNull()
  expect(headers).toContain('Subject: Hello\r\n')
  expect(headers).not.toMatch(/^Content-/im)
})

test('it does not depend on what was deleted since: the domain, the stream', async () => {
  await emails.api('POST', '/v1/streams', { slug: 'news', name: 'News' })
  const { id } = await emails.accepted({ stream: 'news', transactional: false })
  emails.app.db.run('PRAGMA foreign_keys = OFF')
  emails.app.db.run("DELETE FROM streams WHERE slug = 'news'")
  emails.app.db.run("DELETE FROM domains WHERE domain = 'sender.test'")
  const { headers } = await readSource(emails, id)
  expect(headers).toContain('mailto:hidden@sender.test')
})

// Proves: email-30, email-31
test('an email of a broadcast is not sent again; it is rendered for its recipient, and without the broadcast its fields remain', async () => {
  await using emails = await createEmailApi({ delivers: true, runsTasks: true })
  const list = await newList(emails, 'News')
  await addContacts(emails.app, list, [{ email: 'ann@r.test' }])
  await emails.api('POST', '/v1/emails/broadcast', {
    contact_list_id: list,
    from_address: `ada@${UNVERIFIED}`,
    subject: 'News for {{ contact.email }}',
    text_body: 'Hello {{ contact.email }}.',
  })
  const id = await eventually(async () => {
    const { body } = await emails.api('GET', '/v1/emails')
    const [email] = at(body, 'data') as { id: string; status: string }[]
    return email?.status === 'sent' ? email.id : undefined
  })
  expectError(await resend(emails, id), 409, 'email_of_broadcast')
  const { headers, source } = await readSource(emails, id)
  expect(headers).toContain('Subject: News for ann@r.test\r\n')
  expect(headers).toMatch(/^List-Id: /m)
  expect(headers).toMatch(/^List-Unsubscribe: <.*\/u\/hidden>/m)
  expect(source).toContain('Hello ann@r.test.')
  emails.app.db.run('PRAGMA foreign_keys = OFF')
  emails.app.db.run('DELETE FROM broadcasts')
  const after = await readSource(emails, id)
  expect([after.source, after.headers.includes('Precedence')]).toEqual([null, false])
})

test('a source over 1 MiB ends there', async () => {
  const { id } = await emails.accepted({ text_body: `${'long line of text\n'.repeat(100_000)}end` })
  const { source, truncated } = await readSource(emails, id)
  expect([source?.length, truncated]).toEqual([1024 * 1024, true])
})
