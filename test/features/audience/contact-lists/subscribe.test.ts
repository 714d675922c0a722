import { describe, expect, test } from 'bun:test'
import { subscribe } from '#features/audience/contact-lists/subscribe.ts'
import { type ContactList, getList } from '#features/setup/contact-store/lists.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { AppError } from '#platform/errors.ts'
import { days, hours } from '#platform/units.ts'
import { ADDRESS, ask, createConfirmingService, leave, sign } from './confirmation-fixture.ts'

const refusal = async (answer: Promise<unknown>) => {
  const error = await answer.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return error instanceof AppError ? [error.status, error.code] : error
}

const SINGLE = { double_opt_in: false }
const WELCOME = { welcome_email_enabled: true, welcome_email_subject: 'Hi', welcome_email_text_body: 'Hi' }

describe('an address entered in a form', () => {
  test('is subscribed once, and welcomed, on a list with single opt-in', async () => {
    await using service = await createConfirmingService()
    const list = await service.list({ ...SINGLE, ...WELCOME })
    expect(await sign(service, list, { metadata: { first_name: 'Bob' } })).toBe('subscribed')
    expect(await sign(service, list, { email: 'BOB@receiver.test', metadata: { first_name: 'Eve' } })).toBe(
      'already_subscribed',
    )
    await service.drained()
    expect(await service.contact(list)).toMatchObject({ status: 'active', metadata: { first_name: 'Bob' } })
    expect(service.sent()).toEqual([{ from: 'no-reply@sender.test', to: ADDRESS, subject: 'Hi' }])
    expect(service.audited('contact.created')).toEqual([{ list_id: list, by: 'form', status: 'active' }])
  })

  test('gets a confirmation request on a list with double opt-in, from the sender of the form', async () => {
    await using service = await createConfirmingService()
    const list = await service.list({ name: 'News' })
    expect(await sign(service, list, { from: 'Ada <ada@sender.test>' })).toBe('confirmation_sent')
    await service.drained()
    expect(service.sent()).toEqual([
      { from: 'Ada <ada@sender.test>', to: ADDRESS, subject: 'Please confirm your subscription to News' },
    ])
    expect(await service.contact(list)).toMatchObject({ status: 'pending' })
    await ask(service, 'POST', await service.link())
    expect(await sign(service, list)).toBe('already_subscribed')
  })

  test('gets it from no-reply at the first verified domain when the domain of the form is no longer verified', async () => {
    await using service = await createConfirmingService()
    expect(await sign(service, await service.list(), { from: 'ada@sandbox.test' })).toBe('confirmation_sent')
    await service.drained()
    expect(service.sent().map(({ from }) => from)).toEqual(['no-reply@sender.test'])
  })

  test('repeatedly gets at most one email an hour, three in all, then one a week, then one a month', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    const begin = service.clock.now()
    await sign(service, list)
    await service.drained()
    const answers = new Set<string>()
    const sentAt: number[] = []
    for (let tried = 0; tried < 24 + 90; tried++) {
      const before = service.sent().length
      service.clock.advance(tried < 24 ? hours(1) : days(1))
      answers.add(await sign(service, list))
      await service.drained()
      if (service.sent().length > before) sentAt.push((service.clock.now() - begin) / hours(1))
    }
    expect([...answers]).toEqual(['confirmation_pending'])
    // Submits hourly on the first day, then daily at the same hour; the eighth day is the first after a week.
    expect(sentAt).toEqual([1, 2, 8 * 24, 15 * 24, 22 * 24, 29 * 24, 59 * 24, 89 * 24])
  })

  test('can get three requests again once it has answered', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    for (let n = 0; n < 3; n++) {
      await sign(service, list)
      await service.drained()
      service.clock.advance(hours(2))
    }
    await ask(service, 'POST', await service.link(ADDRESS, 3))
    await leave(service, list)
    service.clock.advance(days(1))
    await sign(service, list)
    await service.drained()
    service.clock.advance(hours(2))
    await sign(service, list)
    await service.drained()
    expect(service.sent()).toHaveLength(5)
  })

  test('that belongs to a pending contact keeps its metadata, and gets new keys within the limit', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    const known = { customer: 7, plan: 'gold' }
    await service.add(list, { email: ADDRESS, metadata: known })
    await sign(service, list, { metadata: { plan: 'free', first_name: 'Eve' } })
    expect(await service.contact(list)).toMatchObject({ metadata: { ...known, first_name: 'Eve' } })
    await sign(service, list, { metadata: { first_name: 'Eva', note: 'x'.repeat(16_340) } })
    await sign(service, list)
    expect((await service.contact(list))['metadata']).toEqual({ ...known, first_name: 'Eve' })
  })

  // Proves: form-12
  test('with different texts after a plus is one mailbox: ten emails a day, twenty a week, thirty a month', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    const counts: number[] = []
    for (let day = 0; day < 30; day++) {
      for (let n = 0; n < 12; n++)
        expect(await sign(service, list, { email: `bob+${day}x${n}@receiver.test` })).toBe('confirmation_sent')
      await service.drained()
      counts.push(service.sent().length)
      service.clock.advance(days(1))
    }
    expect(counts).toEqual([10, ...Array(6).fill(20), ...Array(23).fill(30)])
    // Other mailboxes, also one whose name begins with a plus, have limits of their own.
    for (const email of ['ann@receiver.test', '+bob@receiver.test']) await sign(service, list, { email })
    await service.drained()
    expect(service.sent()).toHaveLength(32)
  })

  // Proves: form-12
  test("with dots in a Gmail address, or with Gmail's other domain, is one mailbox", async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    const spellings = Array.from({ length: 40 }, (_, index) => {
      const name = [...'bobreader'].map((letter, at) => (index & (1 << at) && at < 6 ? `${letter}.` : letter)).join('')
      return `${name}@${index % 2 === 0 ? 'gmail.com' : 'googlemail.com'}`
    })
    for (const email of spellings) await sign(service, list, { email })
    await service.drained()
    expect([new Set(spellings).size, service.sent().length]).toEqual([40, 10])
  })

  // Proves: form-12
  test('gets limited mail from the forms of many accounts: ten emails an hour and twenty a day from all together', async () => {
    await using service = await createConfirmingService()
    const lists: ContactList[] = []
    for (let index = 0; index < 5; index++) {
      const account = await service.newAccount()
      await service.addDomain(account, `news${index}.test`)
      const id = await service.list({}, { key: await service.newKey([], account) })
      lists.push(getList(service.app.db, account.accountId, id))
    }
    const mailsAfter = async (waitMs: number) => {
      service.clock.advance(waitMs)
      for (let round = 0; round < 3; round++)
        for (const list of lists) {
          const email = `bob+${service.clock.now()}x${round}@receiver.test`
          expect(await subscribe(service.app, { list, email })).toBe('confirmation_sent')
        }
      await service.drained()
      return service.sent().length
    }
    const counts: number[] = []
    for (const waitMs of [0, hours(1), hours(1), days(1)]) counts.push(await mailsAfter(waitMs))
    expect(counts).toEqual([10, 20, 20, 30])
  })

  test('on many lists with single opt-in is on all of them, and ten of them welcome it', async () => {
    await using service = await createConfirmingService()
    const answers: string[] = []
    for (let n = 0; n < 12; n++) answers.push(await sign(service, await service.list({ ...SINGLE, ...WELCOME })))
    await service.drained()
    expect([new Set(answers), service.sent().length]).toEqual([new Set(['subscribed']), 10])
  })

  test('on very many lists gets limited mail: ten lists of an account send a request in a day', async () => {
    await using service = await createConfirmingService()
    const answers: string[] = []
    for (let n = 0; n < 12; n++) answers.push(await sign(service, await service.list()))
    await service.drained()
    expect([new Set(answers), service.sent().length]).toEqual([new Set(['confirmation_sent']), 10])
    service.clock.advance(hours(24))
    await sign(service, await service.list())
    await service.drained()
    expect(service.sent()).toHaveLength(11)
  })

  test('that left is not resubscribed: only the click does that, also on a list with single opt-in', async () => {
    await using service = await createConfirmingService()
    const list = await service.list(SINGLE)
    await sign(service, list, { metadata: { first_name: 'Bob' } })
    await leave(service, list)
    expect(await sign(service, list, { metadata: { first_name: 'Eve' } })).toBe('confirmation_sent')
    expect(await sign(service, list)).toBe('confirmation_pending')
    expect(await service.contact(list)).toMatchObject({ status: 'unsubscribed', metadata: { first_name: 'Bob' } })
    await service.drained()
    expect(service.sent()).toHaveLength(1)
    await ask(service, 'POST', await service.link())
    expect(await service.contact(list)).toMatchObject({ status: 'active' })
  })

  test('that left all lists, or this list before its contact was removed, gets a confirmation request', async () => {
    await using service = await createConfirmingService()
    const { app, actor } = service
    const [list, other] = [await service.list(SINGLE), await service.list(SINGLE)]
    await sign(service, list)
    await leave(service, list)
    await service.api('DELETE', `/v1/contact-lists/${list}/contacts/${ADDRESS}`)
    expect([await sign(service, list), await sign(service, other)]).toEqual(['confirmation_sent', 'subscribed'])
    await app.commit.write((tx) =>
      suppress(app, tx, {
        accountId: actor.accountId,
        address: 'ann@receiver.test',
        covers: 'marketing',
        reason: 'unsubscribe',
      }),
    )
    expect(await sign(service, other, { email: 'ann@receiver.test' })).toBe('confirmation_sent')
    expect(await service.contact(other, 'ann@receiver.test')).toMatchObject({ status: 'pending' })
  })

  test('that bounced, complained or is suppressed gets the usual response, and nothing is sent or stored', async () => {
    await using service = await createConfirmingService()
    const { app, actor } = service
    const list = await service.list()
    for (const [name, reason] of [
      ['bounced', 'hard_bounce'],
      ['complained', 'complaint'],
      ['gone', 'manual'],
    ] as const) {
      const address = `${name}@receiver.test`
      if (name !== 'gone') await service.add(list, { contacts: [{ email: address }], confirmed: true })
      await app.commit.write((tx) => suppress(app, tx, { accountId: actor.accountId, address, covers: 'all', reason }))
    }
    const single = await service.list({ ...SINGLE, ...WELCOME })
    const { form_asks: _, ...before } = service.stored()
    const names = ['bounced', 'complained', 'gone']
    const answers = async (of: string, name: string) => {
      const twice = []
      for (let n = 0; n < 3; n++) twice.push(await sign(service, of, { email: `${name}@receiver.test` }))
      return twice
    }
    for (const name of names) {
      expect(await answers(list, name)).toEqual(['confirmation_sent', 'confirmation_pending', 'confirmation_pending'])
      expect(await answers(single, name)).toEqual(['subscribed', 'already_subscribed', 'already_subscribed'])
    }
    await service.drained()
    expect([service.stored(), service.sent()]).toEqual([{ ...before, form_asks: 6 }, []])
    expect(await answers(list, 'new')).toEqual(['confirmation_sent', 'confirmation_pending', 'confirmation_pending'])
    expect(await answers(single, 'new')).toEqual(['subscribed', 'already_subscribed', 'already_subscribed'])
    expect(await service.contact(list, 'bounced@receiver.test')).toMatchObject({ status: 'bounced' })
  })

  // Proves: contact-19
  test('is a 422 when it is invalid, a 422 no_verified_domain and a 404, and nothing is stored', async () => {
    await using service = await createConfirmingService()
    const [list, gone] = [await service.list(), await service.list()]
    const deleted = getList(service.app.db, service.actor.accountId, gone)
    await service.api('DELETE', `/v1/contact-lists/${gone}`)
    const before = service.stored()
    expect(await refusal(sign(service, list, { email: 'bob' }))).toEqual([422, 'invalid_address'])
    expect(await refusal(sign(service, list, { list: deleted }))).toEqual([404, 'contact_list_not_found'])
    service.app.db.run('UPDATE domains SET verified_at = NULL')
    expect(await refusal(sign(service, list))).toEqual([422, 'no_verified_domain'])
    expect(service.stored()).toEqual(before)
  })

  test('100 times concurrently is one contact and one email', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    const answers = await Promise.all(Array.from({ length: 100 }, () => sign(service, list)))
    await service.drained()
    expect(answers.toSorted()).toEqual([
      ...Array.from({ length: 99 }, () => 'confirmation_pending'),
      'confirmation_sent',
    ] as typeof answers)
    expect(service.sent()).toHaveLength(1)
  })
})
