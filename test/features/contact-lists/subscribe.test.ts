import { describe, expect, test } from 'bun:test'
import { type SubscribeInput, subscribe } from '#features/contact-lists/subscribe.ts'
import { getList } from '#features/contacts/lists.ts'
import { suppress } from '#features/suppressions/suppress.ts'
import { AppError } from '#platform/errors.ts'
import { hours } from '#platform/units.ts'
import { ADDRESS, ask, type Confirming, createConfirming, leave } from './confirmation-fixture.ts'

/** Puts an address on a list as a form does. */
const sign = (service: Confirming, list: string, input: Partial<SubscribeInput> = {}) =>
  subscribe(service.app, {
    list: getList(service.app.db, service.actor.accountId, list),
    email: ADDRESS,
    ...input,
  })

const refusal = async (answer: Promise<unknown>) => {
  const error = await answer.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return error instanceof AppError ? [error.status, error.code] : error
}

const SINGLE = { double_opt_in: false }
const WELCOME = { welcome_email_enabled: true, welcome_email_subject: 'Hi', welcome_email_text_body: 'Hi' }

describe('who types an address into a form', () => {
  test('is subscribed and welcomed on a list with single opt-in, once', async () => {
    await using service = await createConfirming()
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

  test('is asked on a list with double opt-in, from the sender of the form', async () => {
    await using service = await createConfirming()
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

  test('is asked by no-reply at the first verified domain when the domain of the form is verified no more', async () => {
    await using service = await createConfirming()
    expect(await sign(service, await service.list(), { from: 'ada@sandbox.test' })).toBe('confirmation_sent')
    await service.drained()
    expect(service.sent().map(({ from }) => from)).toEqual(['no-reply@sender.test'])
  })

  test('again and again makes no flood: one email an hour, three a day; what is typed last is kept', async () => {
    await using service = await createConfirming()
    const list = await service.list()
    await sign(service, list, { metadata: { n: 0 } })
    const answers = new Set<string>()
    for (let minute = 0; minute < 24 * 60; minute += 10) {
      service.clock.advance(hours(1) / 6)
      answers.add(await sign(service, list, { metadata: { n: minute } }))
      await service.drained()
    }
    expect([...answers]).toEqual(['confirmation_pending'])
    // The fourth is 24 hours after the first.
    expect(service.sent()).toHaveLength(4)
    expect(await service.contact(list)).toMatchObject({ status: 'pending', metadata: { n: 1430 } })
    // Without metadata what is there stays.
    await sign(service, list)
    expect(await service.contact(list)).toMatchObject({ metadata: { n: 1430 } })
  })

  test('on very many lists fills no mailbox: ten of an account ask an address in a day', async () => {
    await using service = await createConfirming()
    const answers: string[] = []
    for (let n = 0; n < 12; n++) answers.push(await sign(service, await service.list()))
    await service.drained()
    expect([new Set(answers), service.sent().length]).toEqual([new Set(['confirmation_sent']), 10])
    service.clock.advance(hours(24))
    await sign(service, await service.list())
    await service.drained()
    expect(service.sent()).toHaveLength(11)
  })

  test('brings nobody back who left: only the click does, also on a list with single opt-in', async () => {
    await using service = await createConfirming()
    const list = await service.list(SINGLE)
    await sign(service, list, { metadata: { first_name: 'Bob' } })
    await leave(service, list)
    expect(await sign(service, list, { metadata: { first_name: 'Eve' } })).toBe('confirmation_sent')
    expect(await sign(service, list)).toBe('confirmation_sent')
    expect(await service.contact(list)).toMatchObject({ status: 'unsubscribed', metadata: { first_name: 'Bob' } })
    await service.drained()
    expect(service.sent()).toHaveLength(1)
    await ask(service, 'POST', await service.link())
    expect(await service.contact(list)).toMatchObject({ status: 'active' })
  })

  test('asks whoever left all lists, or this list before the contact was removed', async () => {
    await using service = await createConfirming()
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

  test('of an address that bounced, complained or is suppressed reads what others read, and nothing is sent or stored', async () => {
    await using service = await createConfirming()
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
    const before = service.stored()
    for (const name of ['bounced', 'complained', 'gone'])
      expect(await sign(service, list, { email: `${name}@receiver.test` })).toBe('confirmation_sent')
    await service.drained()
    expect([service.stored(), service.sent()]).toEqual([before, []])
    expect(await service.contact(list, 'bounced@receiver.test')).toMatchObject({ status: 'bounced' })
  })

  test('gets a 422 for what is no address, a 422 no_verified_domain and a 404, and nothing is stored', async () => {
    await using service = await createConfirming()
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

  test('100 times at once is one contact and one email', async () => {
    await using service = await createConfirming()
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
