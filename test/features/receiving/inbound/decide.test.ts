import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createRecipientDecider } from '#features/receiving/inbound/process/decide.ts'
import type { Destination, Rejection } from '#features/receiving/received/message.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { LOST_RECIPIENT } from '#features/sending/queue/email.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { computeVerpTag, encodeVerp } from '#protocols/address/verp.ts'
import { createTestAccount, createTestApp, type TestApp } from '#test/support/app.ts'

let service: TestApp
let decide: (address: string) => Destination | Rejection
let accountId = 0
const ids = new Map<string, number>()
beforeAll(async () => {
  service = await createTestApp()
  const { app } = service
  decide = createRecipientDecider(app)
  const [owner, other] = [await createTestAccount(app), await createTestAccount(app)]
  accountId = owner.accountId
  const add = async (actor: typeof owner, name: string, columns: string) => {
    const { domain } = await createDomain(app, actor, name)
    if (columns !== '') app.db.run(`UPDATE domains SET ${columns} WHERE id = ?`, [domain.id])
    ids.set(name, domain.id)
  }
  await add(owner, 'inbound.test', 'verified_at = 1, inbound_enabled = 1')
  await add(owner, 'bücher.test', 'verified_at = 1, inbound_enabled = 1')
  await add(owner, 'closed.test', 'verified_at = 1')
  await add(owner, 'unverified.test', 'inbound_enabled = 1')
  // Registered first by an account that cannot verify it.
  await add(other, 'twice.test', 'inbound_enabled = 1')
  await add(owner, 'twice.test', 'verified_at = 1, inbound_enabled = 1')
  await add(owner, 'gone.test', 'verified_at = 1, inbound_enabled = 1, deleted_at = 2')
})
afterAll(() => service[Symbol.asyncDispose]())

/** A queued email. */
async function storedEmail(): Promise<{ recipientId: number; uuid: Uint8Array }> {
  const { app } = service
  const actor = await createTestAccount(app)
  await createDomain(app, actor, 'stored.test')
  const request = { from: 'ada@stored.test', to: 'bob@receiver.test', subject: 'Hello', text_body: 'Hello.' }
  await acceptEmail(app, actor, createDraft(app, request))
  const row = app.db
    .query<{ recipientId: number; uuid: Uint8Array }, []>(
      'SELECT recipients.id AS recipientId, uuid FROM recipients JOIN emails ON emails.id = email_id',
    )
    .get()
  if (!row) throw new Error('the email was not stored')
  return row
}

const atDomain = (address: string, name: string) => ({
  kind: 'domain',
  address,
  accountId,
  domainId: ids.get(name) ?? 0,
})

describe('a verified domain with inbound mail', () => {
  // Proves: inbound-35
  test.each([
    ['support@inbound.test', 'inbound.test'],
    ['Any.Thing+at-all@INBOUND.test', 'inbound.test'],
    ['"quoted @ local"@inbound.test', 'inbound.test'],
    ['postmaster@inbound.test', 'inbound.test'],
    ['grüße@bücher.test', 'bücher.test'],
    ['grüße@xn--bcher-kva.test', 'bücher.test'],
    ['support@twice.test', 'twice.test'],
  ])('accepts %s', (address, name) => {
    expect(decide(address)).toEqual(atDomain(address, name) as Destination)
  })
})

describe('an unknown destination is rejected in the session', () => {
  // Proves: suppress-14, inbound-29
  test.each([
    ['a domain that was deleted', 'support@gone.test', 550, '5.7.1'],
    ['a domain that no account has', 'bob@example.com', 550, '5.7.1'],
    ['a host below an inbound domain', 'bob@www.inbound.test', 550, '5.7.1'],
    ['an unknown mailbox of the host', 'bob@mail.tassis.test', 550, '5.1.1'],
    ['an unknown mailbox of a return path', 'bob@send.inbound.test', 550, '5.1.1'],
    ['a forged return path', `b-${'a'.repeat(32)}@send.inbound.test`, 550, '5.1.1'],
    ['a forged address for unsubscribing', `u-${'a'.repeat(32)}@send.inbound.test`, 550, '5.1.1'],
    ['an address without a domain', 'bob', 553, '5.1.3'],
    ['an address without a local part', '@inbound.test', 553, '5.1.3'],
    ['a name that cannot be a domain', 'bob@in valid..test', 550, '5.7.1'],
    ['an address literal', 'bob@[127.0.0.1]', 550, '5.7.1'],
    ['a percent hack', 'bob%example.com@mail.tassis.test', 550, '5.1.1'],
  ])('%s', (_, address, code, enhanced) => {
    expect(decide(address)).toEqual({ code, text: expect.stringContaining(enhanced) as string })
  })
})

describe('replies do not reveal registered domains', () => {
  // Proves: inbound-30
  test.each([
    ['that does not take mail', 'support@closed.test'],
    ['that is not verified', 'support@unverified.test'],
    ['that is not verified, for the postmaster of its return path', 'postmaster@send.unverified.test'],
  ])('a domain %s gets the reply for an unknown domain', (_, address) => {
    expect(decide(address)).toEqual(decide(address.replace(/[a-z]+\.test$/, 'unknown.test')))
  })
})

describe('our own addresses', () => {
  // Proves: notify-39
  test.each([
    'postmaster@mail.tassis.test',
    'ABUSE@Mail.Tassis.Test',
    'fbl@mail.tassis.test',
    'postmaster@send.closed.test',
    '"Postmaster"@mail.tassis.test',
  ])('%s is for the operator', (address) => {
    expect(decide(address)).toEqual({ kind: 'host', address })
  })

  test('postmaster may lack a domain (RFC 5321 §4.1.1.3)', () => {
    expect(decide('Postmaster')).toEqual({ kind: 'host', address: 'postmaster@mail.tassis.test' })
  })

  // Proves: status-32
  test('our return path identifies its recipient, in any case and under any domain; an altered one is rejected', () => {
    const verp = encodeVerp({ recipientId: 4711, tag: 0 }, service.app.keys.subkey('verp'))
    for (const address of [`${verp}@send.inbound.test`, `${verp.toUpperCase()}@send.gone.test`])
      expect(decide(address)).toEqual({ kind: 'bounce', address, recipientId: 4711 })
    const last = verp.at(-1) === 'a' ? 'b' : 'a'
    expect(decide(`${verp.slice(0, -1)}${last}@send.inbound.test`)).toMatchObject({ code: 550 })
  })

  test('addresses of an email lost with a restored backup match no recipient, even if another email has its row', async () => {
    const { app } = service
    const { recipientId, uuid } = await storedEmail()
    for (const [kind, subkey, prefix] of [
      ['bounce', 'verp', 'b-'],
      ['unsubscribe', 'unsubscribe', 'u-'],
    ] as const) {
      const named = [computeVerpTag(uuid), computeVerpTag(uuid) ^ 2].map((tag) => {
        const address = `${encodeVerp({ recipientId, tag }, app.keys.subkey(subkey), prefix)}@send.inbound.test`
        const destination = decide(address)
        return {
          kind: 'kind' in destination && destination.kind,
          id: 'recipientId' in destination && destination.recipientId,
        }
      })
      expect(named).toEqual([recipientId, LOST_RECIPIENT].map((id) => ({ kind, id })))
    }
  })

  test('our unsubscribe address identifies its recipient', () => {
    const local = encodeVerp({ recipientId: 4711, tag: 0 }, service.app.keys.subkey('unsubscribe'), 'u-')
    expect(decide(`${local}@send.inbound.test`)).toEqual({
      kind: 'unsubscribe',
      address: `${local}@send.inbound.test`,
      recipientId: 4711,
    })
  })
})
