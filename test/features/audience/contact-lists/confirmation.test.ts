import { describe, expect, test } from 'bun:test'
import { days, hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { expectError } from '#test/support/email-api.ts'
import { ADDRESS, ask, type ConfirmingService, createConfirmingService, leave, sign } from './confirmation-fixture.ts'

const ASKS = { status: 200, heading: 'Confirm your subscription?', buttons: ['Confirm'] }
const CONFIRMED = { status: 200, heading: 'Your subscription is confirmed', buttons: [] }
const ALREADY = { status: 200, heading: 'Your subscription was already confirmed', buttons: [] }
const EXPIRED = { status: 410, heading: 'This link has expired', buttons: [] }
const REPLACED = { status: 410, heading: 'There is a newer link', buttons: [] }
const REFUSED = { status: 410, heading: 'This link is no longer valid', buttons: [] }
const GONE = { status: 410, heading: 'There is nothing left to confirm', buttons: [] }
const UNKNOWN = { status: 404, heading: 'This link is incomplete', buttons: [] }

describe('on a list with double opt-in', () => {
  // Proves: contact-15
  test('a single contact is pending and gets one confirmation immediately, in our words, without tracking', async () => {
    await using service = await createConfirmingService()
    const list = await service.list({ name: 'Weekly <news>' })
    const answer = await service.add(list, { email: 'Bob@Receiver.test' })
    expect([answer.status, at(answer.body, 'data', 'status')]).toEqual([201, 'pending'])
    await service.drained()
    const row = service.app.db
      .query<Record<string, unknown>, []>(
        'SELECT from_address AS sender, subject, transactional, tracking_override AS tracking, tracked, list_id AS listId, extra FROM emails',
      )
      .all()
    expect(row).toEqual([
      {
        sender: 'no-reply@sender.test',
        subject: 'Please confirm your subscription to Weekly <news>',
        transactional: 1,
        tracking: 0,
        tracked: 0,
        listId: null,
        extra: JSON.stringify({
          headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
        }),
      },
    ])
    const detail = await service.detail(at((await service.api('GET', '/v1/emails')).body, 'data', 0, 'id'))
    const path = await service.link('Bob@receiver.test')
    expect(detail['text_body']).toBe(`Hello,

Someone entered Bob@receiver.test to subscribe to “Weekly <news>” of sender.test.

If that was you, confirm it here:

https://mail.tassis.test${path}

The link works for 7 days.

If it was not you, ignore this message: you will get no more mail from this list.
`)
    expect(String(detail['html_body'])).toContain('Weekly &lt;news&gt;')
    expect(String(detail['html_body']).split(`href="https://mail.tassis.test${path}"`)).toHaveLength(3)
    expect(service.waiting()).toEqual([])
  })

  // Proves: contact-16
  test('the link asks, and only the button confirms; a second click finds it confirmed', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    const path = await service.link()
    const before = await service.contact(list)
    for (const method of ['GET', 'HEAD', 'GET']) {
      const page = await ask(service, method, path)
      expect(page).toEqual(method === 'HEAD' ? { ...ASKS, heading: undefined, buttons: [] } : ASKS)
    }
    expect(await service.contact(list)).toEqual(before)
    service.clock.advance(hours(2))
    expect(await ask(service, 'POST', path)).toEqual(CONFIRMED)
    expect(await service.contact(list)).toEqual({
      ...before,
      status: 'active',
      subscribed_at: new Date(service.clock.now()).toISOString(),
      confirmed_at: new Date(service.clock.now()).toISOString(),
    })
    expect(before['confirmed_at']).toBeNull()
    expect([await ask(service, 'POST', path), await ask(service, 'GET', path)]).toEqual([ALREADY, ALREADY])
    expect(service.audited('contact.confirmed')).toEqual([{ list_id: list, by: 'recipient' }])
  })

  // Proves: contact-16
  test('20 concurrent clicks confirm once, and schedule one welcome', async () => {
    await using service = await createConfirmingService()
    const list = await service.list({
      welcome_email_enabled: true,
      welcome_email_delay_seconds: 60,
      welcome_email_subject: 'Welcome',
      welcome_email_text_body: 'Hello.',
    })
    await service.add(list, { email: ADDRESS })
    const path = await service.link()
    const pages = await Promise.all(Array.from({ length: 20 }, () => ask(service, 'POST', path)))
    expect(pages.map(({ heading }) => heading).sort()).toEqual([
      CONFIRMED.heading,
      ...Array.from({ length: 19 }, () => ALREADY.heading),
    ])
    expect(service.audited('contact.confirmed')).toHaveLength(1)
    expect(service.waiting()).toEqual([{ kind: 'welcome', email: ADDRESS }])
  })

  // Proves: contact-16
  test('a link expires seven days after its email was created, not before', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    const path = await service.link()
    service.clock.advance(days(7))
    expect(await ask(service, 'GET', path)).toEqual(ASKS)
    service.clock.advance(1)
    expect([await ask(service, 'GET', path), await ask(service, 'POST', path)]).toEqual([EXPIRED, EXPIRED])
    expect(await service.contact(list)).toMatchObject({ status: 'pending' })
  })

  test('the page of an expired link leads to the form of the list while the form is active', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    const form = await service.api('POST', '/v1/signup-forms', { list_id: list, title: 'Join' })
    await service.add(list, { email: ADDRESS })
    const path = await service.link()
    service.clock.advance(days(8))
    const links = async () =>
      [...(await (await fetch(`${service.url}${path}`)).text()).matchAll(/<a href="([^"]+)"/g)].map(([, href]) => href)
    expect(await links()).toEqual([String(at(form.body, 'data', 'form_url'))])
    await service.api('POST', `/v1/signup-forms/${String(at(form.body, 'data', 'id'))}/toggle`)
    expect(await links()).toEqual([])
  })

  // Proves: contact-16
  test('a forged, truncated or foreign token is a 404 page and changes nothing', async () => {
    await using service = await createConfirmingService()
    await using other = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    const foreign = await other.list()
    await other.add(foreign, { email: ADDRESS })
    const path = await service.link()
    const middle = Math.floor(path.length / 2)
    const flipped = `${path.slice(0, middle)}${path[middle] === 'A' ? 'B' : 'A'}${path.slice(middle + 1)}`
    const paths = [
      path.slice(0, -1),
      `${path}A`,
      flipped,
      '/confirm/x',
      `/confirm/${'A'.repeat(4000)}`,
      await other.link(),
    ]
    for (const bad of paths)
      expect([await ask(service, 'GET', bad), await ask(service, 'POST', bad)]).toEqual([UNKNOWN, UNKNOWN])
    // A token of another purpose is unknown as well.
    const sealed = Buffer.from(service.app.keys.sealDeterministically('confirm', 'unsubscribe')).toString('base64url')
    expect(await ask(service, 'POST', `/confirm/${sealed}`)).toEqual(UNKNOWN)
    expect(await service.contact(list)).toMatchObject({ status: 'pending' })
  })

  // Proves: contact-16
  test('a link that is replayed after unsubscribing is rejected and does not resubscribe the contact', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    const path = await service.link()
    await ask(service, 'POST', path)
    await leave(service, list)
    expect([await ask(service, 'GET', path), await ask(service, 'POST', path)]).toEqual([REFUSED, REFUSED])
    expect(await service.contact(list)).toMatchObject({ status: 'unsubscribed' })
  })

  test('of two confirmations only the link of the later one is valid', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    const first = await service.link()
    service.clock.advance(hours(1))
    await resend(service, list)
    const second = await service.link(ADDRESS, 2)
    expect([await ask(service, 'POST', first), await ask(service, 'POST', second)]).toEqual([REPLACED, CONFIRMED])
  })

  test('the link of a deleted contact or list answers 410 and says that nothing is left to confirm', async () => {
    await using service = await createConfirmingService()
    const [list, other] = [await service.list(), await service.list()]
    await service.add(list, { email: ADDRESS })
    await service.add(other, { email: 'ann@receiver.test' })
    const [path, otherPath] = [await service.link(), await service.link('ann@receiver.test')]
    await service.api('DELETE', `/v1/contact-lists/${list}/contacts/${ADDRESS}`)
    await service.api('DELETE', `/v1/contact-lists/${other}`)
    expect([await ask(service, 'GET', path), await ask(service, 'POST', otherPath)]).toEqual([GONE, GONE])
    // The same address added again is another contact: the link of the old one does not confirm it.
    await service.add(list, { email: ADDRESS })
    expect(await ask(service, 'POST', path)).toEqual(GONE)
    // A new account that reuses the row id of a deleted one is a different account.
    const again = await service.link(ADDRESS, 2)
    service.app.db.run('UPDATE accounts SET uuid = randomblob(16)')
    expect(await ask(service, 'POST', again)).toEqual(GONE)
  })

  test('a suppressed address cannot be confirmed: its link is no longer valid', async () => {
    await using service = await createConfirmingService()
    const list = await service.list({
      welcome_email_enabled: true,
      welcome_email_subject: 'Hi',
      welcome_email_text_body: 'Hi',
    })
    await service.add(list, { email: ADDRESS })
    const path = await service.link()
    await service.api('POST', '/v1/suppressions', { email_address: ADDRESS })
    expect([await ask(service, 'GET', path), await ask(service, 'POST', path)]).toEqual([REFUSED, REFUSED])
    expect([await service.contact(list), service.waiting()]).toMatchObject([{ status: 'pending' }, []])
    await service.api('DELETE', `/v1/suppressions/${ADDRESS}`)
    expect(await ask(service, 'POST', path)).toEqual(CONFIRMED)
  })

  test('a contact can confirm while the account is paused', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    const path = await service.link()
    service.app.db.run('UPDATE accounts SET paused_at = 1')
    expect(await ask(service, 'POST', path)).toEqual(CONFIRMED)
  })

  // Proves: contact-19
  test('without a verified domain, adding a contact is a 422 no_verified_domain and stores nothing', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    service.app.db.run('UPDATE domains SET verified_at = NULL')
    const before = service.stored()
    const bulk = { contacts: [{ email: ADDRESS }, { email: 'ann@receiver.test' }] }
    for (const body of [{ email: ADDRESS }, bulk]) expectError(await service.add(list, body), 422, 'no_verified_domain')
    expect(service.stored()).toEqual(before)
    const added = await service.add(list, { ...bulk, confirmed: true })
    expect([added.status, at(added.body, 'data')]).toEqual([201, { inserted: 2, duplicates: 0, total_requested: 2 }])
  })

  test('a contact confirmed by the account has no confirmed_at; a later click sets it, and another click replaces it', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS, confirmed: true })
    expect(await service.contact(list)).toMatchObject({ status: 'active', confirmed_at: null })
    for (const nth of [1, 2]) {
      service.clock.advance(hours(2))
      await leave(service, list)
      await sign(service, list)
      const path = await service.link(ADDRESS, nth)
      service.clock.advance(hours(2))
      expect(await ask(service, 'POST', path)).toEqual(CONFIRMED)
      expect(await service.contact(list)).toMatchObject({
        status: 'active',
        confirmed_at: new Date(service.clock.now()).toISOString(),
      })
    }
  })

  // Proves: contact-15
  test('contacts added in bulk are pending and get confirmation requests; confirmed ones are active and get none', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { contacts: [{ email: 'a@receiver.test' }, { email: 'b@receiver.test' }] })
    await service.add(list, { contacts: [{ email: 'c@receiver.test' }], confirmed: true })
    const statuses = async () =>
      Promise.all(['a', 'b', 'c'].map(async (name) => (await service.contact(list, `${name}@receiver.test`))['status']))
    expect(await statuses()).toEqual(['pending', 'pending', 'active'])
    await service.drained()
    expect(service.sent().map(({ to }) => to)).toEqual(['a@receiver.test', 'b@receiver.test'])
    await ask(service, 'POST', await service.link('b@receiver.test'))
    expect(await statuses()).toEqual(['pending', 'active', 'active'])
  })
})

const resend = (service: ConfirmingService, list: string, email = ADDRESS) =>
  service.api('POST', `/v1/contact-lists/${list}/contacts/${encodeURIComponent(email)}/confirmation`)

describe('repeating a confirmation request', () => {
  // Proves: contact-17
  test('POST …/confirmation sends another link, with an audit row', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    await service.link()
    service.clock.advance(hours(1))
    const answer = await resend(service, list, 'BOB@receiver.test')
    expect([answer.status, answer.body]).toEqual([
      202,
      { data: { message: 'A confirmation request is being sent to the contact.' } },
    ])
    await service.link(ADDRESS, 2)
    expect(service.audited('contact.confirmation_requested')).toEqual([{ list_id: list }])
  })

  // Proves: contact-17
  test('one request an hour and three a day are sent; more are a 429 with the time to wait', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    await service.link()
    const tryAfter = async (waitMs: number) => {
      service.clock.advance(waitMs)
      const { status, headers } = await resend(service, list)
      await service.drained()
      return [status, headers.get('retry-after')]
    }
    // The first was sent at 0:00.
    expect(await tryAfter(hours(1) - 1)).toEqual([429, '1'])
    expect(await tryAfter(1)).toEqual([202, null])
    expect(await tryAfter(hours(1))).toEqual([202, null])
    expect(await tryAfter(hours(1))).toEqual([429, String(21 * 3600)])
    expect(await tryAfter(hours(21) - 1)).toEqual([429, '1'])
    expect(await tryAfter(1)).toEqual([202, null])
    // The second of the day before was sent at 1:00.
    expect(await tryAfter(hours(1) - 1)).toEqual([429, '1'])
    expect(await tryAfter(1)).toEqual([202, null])
    expect(service.sent()).toHaveLength(5)
    expectError(await resend(service, list), 429, 'confirmation_too_often')
  })

  test('a request that still waits is sent once, immediately', async () => {
    await using service = await createConfirmingService({ runsTasks: false })
    const list = await service.list()
    await service.add(list, { contacts: [{ email: ADDRESS }] })
    expect(service.waiting()).toEqual([{ kind: 'bulk_confirmation', email: ADDRESS }])
    expect((await resend(service, list)).status).toBe(202)
    expect(service.waiting()).toEqual([{ kind: 'confirmation', email: ADDRESS }])
  })

  // Proves: contact-17
  test('is a 409 for an active contact, and for one that gets no mail', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    await ask(service, 'POST', await service.link())
    expectError(await resend(service, list), 409, 'contact_active')
    await service.add(list, { email: 'ann@receiver.test' })
    await service.api('POST', '/v1/suppressions', { email_address: 'ann@receiver.test' })
    expectError(await resend(service, list, 'ann@receiver.test'), 409, 'contact_suppressed')
    expectError(await resend(service, list, 'nobody@receiver.test'), 404, 'contact_not_found')
    const unknown = '00000000-0000-7000-8000-000000000000'
    expectError(await resend(service, unknown), 404, 'contact_list_not_found')
    service.app.db.run('UPDATE domains SET verified_at = NULL')
    await service.api('DELETE', '/v1/suppressions/ann@receiver.test')
    expectError(await resend(service, list, 'ann@receiver.test'), 422, 'no_verified_domain')
  })

  test('a contact that left cannot be asked by its account; a form can ask, and confirming removes the unsubscription', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    await ask(service, 'POST', await service.link())
    await leave(service, list)
    expectError(await resend(service, list), 409, 'contact_unsubscribed')
    expect(service.waiting()).toEqual([])
    service.clock.advance(hours(2))
    await sign(service, list)
    expect(await service.contact(list)).toMatchObject({ status: 'unsubscribed' })
    expect(await ask(service, 'POST', await service.link(ADDRESS, 2))).toEqual(CONFIRMED)
    expect(await service.contact(list)).toMatchObject({ status: 'active', unsubscribed_at: null })
    expect(at((await service.api('GET', '/v1/suppressions')).body, 'data')).toEqual([])
  })
})
