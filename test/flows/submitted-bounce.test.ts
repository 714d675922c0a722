/**
 * @module Mail that a client submitted with a Message-ID of its own: it is found by that id, and a bounce that comes
 * back to its From address, not to the return path, is matched by it. Over real sockets.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createTransport } from 'nodemailer'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { shapeBytes } from '../corpus/dsn/shapes.ts'
import { HOST, INBOUND_DOMAIN, type PostOffice, startPostOffice } from './post-office.ts'

const FROM = `ada@${INBOUND_DOMAIN}`

let office: PostOffice
beforeAll(async () => {
  office = await startPostOffice({}, { submits: true })
})
afterAll(() => office?.[Symbol.asyncDispose]())

/** Submits a message by SMTP and waits until it is delivered; returns its id. */
async function submit(to: string, messageId: string): Promise<string> {
  const transport = createTransport({
    host: '127.0.0.1',
    port: office.submission?.endpoints[0]?.port ?? 0,
    auth: { user: 'apikey', pass: office.key },
    tls: { rejectUnauthorized: false },
  })
  try {
    const { response } = await transport.sendMail({ from: FROM, to, subject: 'Hello', text: 'Hello.', messageId })
    const id = /queued as (\S+)/.exec(response)?.[1] ?? ''
    await eventually(async () => (await statusOf(id)) === 'sent')
    return id
  } finally {
    transport.close()
  }
}

const statusOf = async (id: string) => (await office.detail(id))['status']

const findIds = async (messageId: string, key = office.key) => {
  const path = `/v1/emails?message_id=${encodeURIComponent(messageId)}`
  return (at((await office.api('GET', path, undefined, { key })).body, 'data') as { id: string }[]).map(({ id }) => id)
}

describe('an email with a Message-ID of its client', () => {
  test.each(['<order-17.2026@shop.test>', '<6f9619ff-8b86-4d01-b42d-00cf4fc964ff@shop.test>'])(
    '%s is found by it, by ours, and by nobody else',
    async (messageId) => {
      const id = await submit(`found-${messageId.length}@receiver.test`, messageId)
      for (const wanted of [messageId, messageId.slice(1, -1), `<${id}@${INBOUND_DOMAIN}>`])
        expect(await findIds(wanted)).toEqual([id])
      expect(await findIds(messageId.replace('shop', 'other'))).toEqual([])
      expect(await findIds(`<${'x'.repeat(5000)}@shop.test>`)).toEqual([])
      expect(await findIds(messageId, await office.newKey([], await office.newAccount()))).toEqual([])
    },
  )

  // Proves: status-32
  test('bounces by a report to its From address that returns only this Message-ID', async () => {
    const messageId = '<late.1@shop.test>'
    const id = await submit('gone@receiver.test', messageId)
    const raw = shapeBytes('gmail-unknown-user', { verp: FROM, messageId, recipient: 'gone@receiver.test' })
    await office.submit({ to: FROM, raw })
    expect([await statusOf(id), await office.eventTypes(id)]).toEqual([
      'bounced',
      ['queued', 'sent', 'delivered', 'bounced'],
    ])
    expect((await office.suppressions()).at(-1)).toEqual({
      address: 'gone@receiver.test',
      reason: 'hard_bounce',
      sourceEmailId: id,
    })
  })

  test('bounces by a report to the host that returns its return path', async () => {
    const messageId = '<late.2@shop.test>'
    const recipient = 'left@receiver.test'
    const id = await submit(recipient, messageId)
    const copy = office.copies.find((each) => each.recipient === recipient)
    const raw = shapeBytes('exim-report', { verp: copy?.mailFrom ?? '', messageId, recipient })
    await office.submit({ to: `postmaster@${HOST}`, raw })
    expect(await statusOf(id)).toBe('bounced')
  })

  // Anybody may guess such an id: a report with it alone proves nothing.
  test('bounces neither by a report about another address, nor where two emails have this Message-ID', async () => {
    const messageId = '<guessed.1@shop.test>'
    const ids = [await submit('one@receiver.test', messageId)]
    const report = (recipient: string) => ({
      to: FROM,
      raw: shapeBytes('gmail-unknown-user', { verp: FROM, messageId, recipient }),
    })
    await office.submit(report('other@receiver.test'))
    ids.push(await submit('two@receiver.test', messageId))
    await office.submit(report('one@receiver.test'))
    expect(await Promise.all(ids.map(statusOf))).toEqual(['sent', 'sent'])
    expect((await findIds(messageId)).toSorted()).toEqual(ids.toSorted())
  })
})
