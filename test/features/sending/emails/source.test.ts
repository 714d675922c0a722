/** @module GET /v1/emails/:id/source: the message as composed, without what only its recipient may have. */
import { expect, test } from 'bun:test'
import { dropEmailContent, findOldEmail } from '#features/sending/queue/retire.ts'
import { hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { addContacts, newList } from '#test/support/broadcasts.ts'
import { createEmailApi, type EmailApi, NOW, shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'

const emails = shareEmailApi(createEmailApi)

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

const dropContent = ({ app }: EmailApi) =>
  app.commit.write((tx) => {
    const email = findOldEmail(tx.db, 1)
    if (email) dropEmailContent(app, tx, email)
  })

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
  const { id } = await emails.accepted({ send_at: new Date(NOW + hours(1)).toISOString() })
  await emails.api('POST', `/v1/emails/${id}/cancel`)
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

// Proves: email-31
test('an email of a broadcast is rendered for its recipient; without the broadcast its fields remain', async () => {
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
