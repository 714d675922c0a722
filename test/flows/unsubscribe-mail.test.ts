/**
 * @module End to end: unsubscribing by mail. An email arrives, an SMTP client uses the mailto of its List-Unsubscribe
 * as a mail program does (RFC 2369 §3.2, RFC 6068), and the unsubscribe appears in suppression list, event and webhook.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { UUID } from '#test/support/email-api.ts'
import { type Copy, HOST, type Letter, type PostOffice, startPostOffice } from './post-office.ts'

let office: PostOffice
beforeAll(async () => {
  office = await startPostOffice()
  await office.api('POST', '/v1/streams', { slug: 'news', name: 'News' })
})
afterAll(async () => {
  expectBalanced(office)
  await office[Symbol.asyncDispose]()
})

/**
 * Returns the message that a mail program sends when a user presses its unsubscribe button: address and subject are
 * those of the mailto in the copy's List-Unsubscribe.
 */
function requestOf(
  copy: Copy,
  { fields = [] as readonly string[], mailFrom = copy.recipient } = {},
): Letter & { readonly to: string } {
  const mailto = /<mailto:([^?>]+)\?subject=([^>]+)>/.exec(copy.header('List-Unsubscribe'))
  const to = decodeURIComponent(mailto?.[1] ?? '')
  const subject = decodeURIComponent(mailto?.[2] ?? '')
  const head = [`From: <${copy.recipient}>`, `To: <${to}>`, `Subject: ${subject}`, ...fields]
  return { mailFrom, to, raw: `${head.join('\r\n')}\r\n\r\nunsubscribe\r\n` }
}

async function copyOf(address: string, request: Readonly<Record<string, unknown>> = {}) {
  const email = await office.sendBulk({ to: address, ...request })
  return { email, copy: email.copyFor(address) }
}

async function readEffects(address: string, id: string) {
  const { body } = await office.api('GET', `/v1/emails/${id}`)
  const events = at(body, 'data', 'events') as { type: string; recipient: string | null }[]
  const suppressions = await office.suppressions()
  return {
    unsubscribed: events.flatMap(({ type, recipient }) => (type === 'unsubscribed' ? [recipient] : [])),
    suppressed: suppressions.flatMap((entry) => (entry.address === address ? [entry.reason] : [])),
  }
}

const NOTHING = { unsubscribed: [], suppressed: [] }

test('a mail to the address stops mail of its kind, with one event and one webhook call; a repeat changes nothing, and receipts are still sent', async () => {
  const address = 'ann@receiver.test'
  const { email, copy } = await copyOf(address, { stream: 'news' })
  const hook = await office.createHook(['unsubscribed'])
  const request = requestOf(copy)
  expect(await office.submit(request, request)).toEqual([
    expect.stringMatching(/^250 /),
    expect.stringMatching(/^250 /),
  ])
  const once = { unsubscribed: [address], suppressed: ['unsubscribe'] }
  expect(await readEffects(address, email.id)).toEqual(once)

  const status = async (fields: Readonly<Record<string, unknown>>) => {
    const next = await office.accepted({ to: address, ...fields })
    return (await office.detail(next.id))['status']
  }
  expect(await status({ transactional: false, stream: 'news' })).toBe('rejected')
  // Other streams and receipts are not affected.
  const receipt = await office.sendBulk({ to: address, transactional: true })
  const other = await office.sendBulk({ to: address })
  expect([receipt.copyFor(address).recipient, other.copyFor(address).recipient]).toEqual([address, address])

  expect(await hook.receivedEvents(1)).toEqual([
    {
      event: 'unsubscribed',
      event_id: expect.stringMatching(UUID),
      account_id: office.actor.accountUuid,
      timestamp: expect.stringMatching(/Z$/),
      email_id: email.id,
      to_address: address,
      recipient: address,
      stream: 'news',
      list_id: null,
      scope: 'stream',
      tags: [],
      metadata: {},
    },
  ])
  await office.submit(requestOf(copy))
  expect(await readEffects(address, email.id)).toEqual(once)
  expect(office.operatorMail()).toEqual([])
})

test('the address alone is enough, in any case, if the mail program omits the subject', async () => {
  const { email, copy } = await copyOf('dora@receiver.test')
  const { to } = requestOf(copy)
  const raw = `From: <dora@receiver.test>\r\nTo: <${to}>\r\n\r\n`
  expect(await office.submit({ mailFrom: 'dora@receiver.test', to: to.toUpperCase(), raw })).toEqual([
    expect.stringMatching(/^250 /),
  ])
  expect(await readEffects('dora@receiver.test', email.id)).toEqual({
    unsubscribed: ['dora@receiver.test'],
    suppressed: ['unsubscribe'],
  })
})

describe('nobody is unsubscribed', () => {
  test('by a forged address: it is rejected in the session', async () => {
    const { email, copy } = await copyOf('erin@receiver.test')
    const request = requestOf(copy)
    const changed = request.to.replace(/.(?=@)/, (last) => (last === 'a' ? 'b' : 'a'))
    // The MAC of a return path is not valid in an unsubscribe address, nor the other way round.
    const ofReturnPath = copy.mailFrom.replace(/^b-/, 'u-')
    const asReturnPath = request.to.replace(/^u-/, 'b-')
    expect(
      await office.submit(
        ...[changed, ofReturnPath, asReturnPath, changed.replace(/@.*/, `@${HOST}`)].map((to) => ({ ...request, to })),
      ),
    ).toEqual(Array(4).fill('550 5.1.1 User unknown'))
    expect(await readEffects('erin@receiver.test', email.id)).toEqual(NOTHING)
  })
})
