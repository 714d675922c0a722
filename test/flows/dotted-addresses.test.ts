/**
 * @module End to end: addresses whose local part has dots that RFC 5321 allows only in quotes, as some mobile providers
 * gave out. Every interface accepts them as people write them; the wire has the quotes.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { encodePlain } from '#test/features/drop-in/submission/fixture.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { VERIFIED } from '#test/support/email-api.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { INBOUND_DOMAIN, type PostOffice, startPostOffice } from './post-office.ts'

let office: PostOffice
beforeAll(async () => {
  office = await startPostOffice({}, { submits: true })
})
afterAll(() => office[Symbol.asyncDispose]())

/** Sends by SMTP submission; returns the reply to the message. */
async function submit(rcpt: string, message: string): Promise<string> {
  await using client = await connectSmtp(office.submission?.endpoints[0]?.port ?? 0)
  await client.reply()
  await client.say('EHLO client.test')
  await client.startTls()
  await client.say('EHLO client.test')
  await client.say(`AUTH PLAIN ${encodePlain('apikey', office.key)}`)
  await client.say(`MAIL FROM:<ada@${VERIFIED}>`)
  await client.say(`RCPT TO:<${rcpt}>`)
  await client.say('DATA')
  await client.write(message)
  return await client.say('.')
}

/** Sends to an address by each interface; returns the ids of the emails. */
async function sendByAll(address: string): Promise<string[]> {
  const text = { from: `ada@${VERIFIED}`, subject: 'Hello' }
  const http = await office.api('POST', '/v1/emails', { ...text, to: `Taro <${address}>`, text_body: 'Hello.' })
  const resend = await office.api('POST', '/resend/emails', { ...text, to: [address], text: 'Hello.' })
  const postmark = await fetch(`${office.url}/postmark/email`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Postmark-Server-Token': office.key },
    body: JSON.stringify({ From: text.from, To: address, Subject: 'Hello', TextBody: 'Hello.' }),
  })
  const fields = [`From: ada@${VERIFIED}`, `To: ${address}`, 'Subject: Hello', '', 'Hello.', '']
  const reply = await submit(address, fields.join('\r\n'))
  return [
    at(http.body, 'data', 'id'),
    at(resend.body, 'id'),
    at(await postmark.json(), 'MessageID'),
    / queued as (\S+)/.exec(reply)?.[1],
  ].map(String)
}

// Proves: send-47
test.each([
  ['taro..yamada.@receiver.test', '"taro..yamada."@receiver.test'],
  ['.a@receiver.test', '".a"@receiver.test'],
  ['"b..c"@receiver.test', '"b..c"@receiver.test'],
])('%s is accepted by every interface, and sent as %s', async (address, wire) => {
  const before = office.copies.length
  const ids = await sendByAll(address)
  await eventually(async () => {
    const emails = await Promise.all(ids.map((id) => office.detail(id)))
    return emails.every(({ status }) => status === 'sent')
  })
  const copies = office.copies.slice(before)
  expect(copies.map(({ recipient }) => recipient)).toEqual(Array(4).fill(wire))
  expect(copies.map((copy) => copy.header('To')).sort()).toEqual(
    [wire, wire, wire, `Taro <${wire}>`].map(expect.stringContaining).sort(),
  )
  expect((await office.detail(ids[0] ?? ''))['to_address']).toBe(address)
})

// Proves: send-47, suppress-7
test.each([
  ['c..d.@receiver.test', '"C..d."@receiver.test'],
  ['"e..f."@receiver.test', 'e..F.@receiver.test'],
])('a suppression of %s stops mail to %s', async (suppressed, address) => {
  const added = await office.api('POST', '/v1/suppressions', { email_address: suppressed })
  expect(added.status).toBe(201)
  expect(at((await office.api('POST', '/v1/suppressions', { email_address: address })).body, 'data', 'id')).toBe(
    at(added.body, 'data', 'id'),
  )
  const { id } = await office.accepted({ to: address })
  expect((await office.detail(id))['status']).toBe('rejected')
  expect((await office.api('DELETE', `/v1/suppressions/${encodeURIComponent(address)}`)).status).toBe(204)
})

// Proves: send-47
test('contacts have one entry for both spellings', async () => {
  const list = await office.api('POST', '/v1/contact-lists', { name: 'Dots' })
  const path = `/v1/contact-lists/${at(list.body, 'data', 'id')}/contacts`
  const contacts = ['g..h@receiver.test', '"g..h"@receiver.test', '.i@receiver.test'].map((email) => ({ email }))
  expect((await office.api('POST', path, { contacts })).body).toMatchObject({ data: { inserted: 2 }, errors: [] })
})

// Proves: send-47
test('an agent mailbox answers such a sender', async () => {
  const created = await office.api('POST', '/v1/agent-mailboxes', { local_part: 'dots' })
  const mailbox = `/v1/agent-mailboxes/${at(created.body, 'data', 'id')}`
  const sender = 'jiro..sato.@receiver.test'
  const raw = [`From: Jiro <${sender}>`, `To: dots@${INBOUND_DOMAIN}`, 'Subject: Hello', '', 'Hello.', ''].join('\r\n')
  expect(await office.submit({ mailFrom: sender, to: `dots@${INBOUND_DOMAIN}`, raw })).toEqual([
    expect.stringMatching(/^250 /),
  ])
  const messages = await office.api('GET', `${mailbox}/messages`)
  const reply = await office.api('POST', `${mailbox}/messages/${at(messages.body, 'data', 0, 'id')}/reply`, {
    text_body: 'Thanks.',
  })
  expect([reply.status, at(reply.body, 'data', 'to')]).toEqual([201, sender])
  const copy = await eventually(() => office.copies.find(({ recipient }) => recipient.includes('jiro')))
  expect([copy.recipient, copy.header('To')]).toEqual([
    '"jiro..sato."@receiver.test',
    'Jiro <"jiro..sato."@receiver.test>',
  ])
})
