import { describe, expect, test } from 'bun:test'
import { findContact } from '#features/setup/contact-store/find.ts'
import {
  activateContact,
  CONTACT_STATUSES,
  type ContactStatus,
  deleteContact,
  insertContact,
  readContactCount,
  requestConfirmation,
  transitionContacts,
} from '#features/setup/contact-store/status.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { confirmContact, resubscribeContacts } from '#features/setup/suppression-store/contacts.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { createListApi, expectCounts, type ListApi } from '#test/features/audience/contact-lists/fixture.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'

const ADDRESS = 'bob@x.test'

async function createContact(
  service: ListApi,
  list: string,
  status: 'active' | 'pending',
  email = ADDRESS,
): Promise<number> {
  const { app, actor } = service
  const contact = { accountId: actor.accountId, listId: service.rowOf(list), email, status }
  const inserted = await app.commit.write((tx) => insertContact(app, tx, contact))
  if (!inserted) throw new Error('it is on the list already')
  return inserted.id
}

const readStatus = (service: ListApi, list: string, email = ADDRESS): ContactStatus | undefined =>
  findContact(service.app.db, service.rowOf(list), email)?.status

/** Moves a contact to a status through allowed transitions. */
async function createContactIn(service: ListApi, list: string, status: ContactStatus): Promise<number> {
  const { app, actor } = service
  const id = await createContact(service, list, status === 'pending' ? 'pending' : 'active')
  if (status !== 'active' && status !== 'pending') {
    const which = { accountId: actor.accountId, addressKey: ADDRESS }
    await app.commit.write((tx) => transitionContacts(app, tx, { ...which, to: status }))
  }
  expect(readStatus(service, list)).toBe(status)
  return id
}

describe('transitions', () => {
  const TABLE: Record<'unsubscribed' | 'bounced' | 'complained', readonly ContactStatus[]> = {
    unsubscribed: ['active', 'pending'],
    bounced: ['active', 'pending'],
    complained: ['active', 'pending', 'unsubscribed', 'bounced'],
  }
  const cases = (Object.keys(TABLE) as (keyof typeof TABLE)[]).flatMap((to) =>
    CONTACT_STATUSES.map((from) => [from, to, TABLE[to].includes(from)] as const),
  )

  // Proves: contact-14
  test.each(cases)('%s -> %s: %p', async (from, to, isAllowed) => {
    await using service = await createListApi()
    const { app, actor } = service
    const list = await service.newList()
    await createContactIn(service, list, from)
    const which = { accountId: actor.accountId, addressKey: ADDRESS, to }
    expect(await app.commit.write((tx) => transitionContacts(app, tx, which))).toBe(isAllowed ? 1 : 0)
    expect(readStatus(service, list)).toBe(isAllowed ? to : from)
    await expectCounts(service, list, { [isAllowed ? to : from]: 1 })
    expectBalanced(service)
  })

  test('of an address affect only its account, and only the given list', async () => {
    await using service = await createListApi()
    const { app, actor } = service
    const [first, second] = [await service.newList(), await service.newList()]
    const other = await service.newAccount()
    const theirs = await service.newList({}, { key: await service.newKey([], other) })
    for (const list of [first, second]) await createContact(service, list, 'active')
    await createContact(service, first, 'active', 'eve@x.test')
    await app.commit.write((tx) => {
      const contact = { accountId: other.accountId, listId: service.rowOf(theirs), email: ADDRESS }
      return insertContact(app, tx, { ...contact, status: 'active' })
    })
    const which = { accountId: actor.accountId, addressKey: ADDRESS }
    const move = (more: { listId?: number }) =>
      app.commit.write((tx) => transitionContacts(app, tx, { ...which, ...more, to: 'unsubscribed' }))
    expect(await move({ listId: service.rowOf(first) })).toBe(1)
    const standing = () => [
      readStatus(service, first),
      readStatus(service, second),
      readStatus(service, first, 'eve@x.test'),
      readStatus(service, theirs),
    ]
    expect(standing()).toEqual(['unsubscribed', 'active', 'active', 'active'])
    expect(await move({})).toBe(1)
    expect(standing()).toEqual(['unsubscribed', 'unsubscribed', 'active', 'active'])
    expectBalanced(service)
  })

  test('that roll back with their transaction change neither row nor counter', async () => {
    await using service = await createListApi()
    const { app, actor } = service
    const list = await service.newList()
    await createContact(service, list, 'active')
    const undone = app.commit.write((tx) => {
      insertContact(app, tx, {
        accountId: actor.accountId,
        listId: service.rowOf(list),
        email: 'a@x.test',
        status: 'active',
      })
      transitionContacts(app, tx, { accountId: actor.accountId, addressKey: ADDRESS, to: 'bounced' })
      throw new Error('undone')
    })
    expect(undone).rejects.toThrow('undone')
    await app.commit.barrier()
    await expectCounts(service, list, { active: 1 })
    expectBalanced(service)
  })
})

describe('a confirmation', () => {
  test('activates a pending contact once; a second click changes nothing', async () => {
    await using service = await createListApi()
    const { app, clock } = service
    const list = await service.newList()
    const id = await createContact(service, list, 'pending')
    const since = await app.commit.write((tx) => requestConfirmation(app, tx, id))
    clock.advance(60_000)
    const confirm = (time: number) => app.commit.write((tx) => confirmContact(app, tx, id, time))
    expect(await confirm(since)).toBe('confirmed')
    const contact = findContact(app.db, service.rowOf(list), ADDRESS)
    expect(contact).toMatchObject({
      status: 'active',
      confirmingSince: null,
      subscribedAt: clock.now(),
      confirmedAt: clock.now(),
      unsubscribedAt: null,
    })
    expect([await confirm(since), await confirm(since - 1)]).toEqual(['already', 'already'])
    expect(findContact(app.db, service.rowOf(list), ADDRESS)).toEqual(contact)
    await expectCounts(service, list, { active: 1 })
    expectBalanced(service)
  })

  test('by an older link, without an open request or of a deleted contact is refused', async () => {
    await using service = await createListApi()
    const { app, clock } = service
    const list = await service.newList()
    const id = await createContact(service, list, 'pending')
    const confirm = (time: number) => app.commit.write((tx) => confirmContact(app, tx, id, time))
    expect(await confirm(clock.now())).toBe('refused')
    const first = await app.commit.write((tx) => requestConfirmation(app, tx, id))
    clock.advance(1)
    const second = await app.commit.write((tx) => requestConfirmation(app, tx, id))
    expect(await confirm(first)).toBe('refused')
    expect(readStatus(service, list)).toBe('pending')
    await app.commit.write((tx) => deleteContact(tx, { id }))
    expect(await confirm(second)).toBe('refused')
    expectBalanced(service)
  })

  // Proves: contact-14
  test.each(['unsubscribed', 'bounced', 'complained'] as const)(
    'with a link sent before a contact became %s is refused; one with a later link activates the contact',
    async (to) => {
      await using service = await createListApi()
      const { app, actor } = service
      const list = await service.newList()
      const id = await createContact(service, list, 'pending')
      const since = await app.commit.write((tx) => requestConfirmation(app, tx, id))
      await app.commit.write((tx) =>
        transitionContacts(app, tx, { accountId: actor.accountId, addressKey: ADDRESS, to }),
      )
      const confirm = (time: number) => app.commit.write((tx) => confirmContact(app, tx, id, time))
      expect([await confirm(since), readStatus(service, list)]).toEqual(['refused', to])
      const again = await app.commit.write((tx) => requestConfirmation(app, tx, id))
      expect(readStatus(service, list)).toBe(to)
      expect([await confirm(again), readStatus(service, list)]).toEqual(['confirmed', 'active'])
      expectBalanced(service)
    },
  )

  test('removes the unsubscription from its list; an address that left all lists gets mail of this list only', async () => {
    await using service = await createListApi()
    const { app, actor, api } = service
    const [list, other, later] = [await service.newList(), await service.newList(), await service.newList()]
    const id = await createContact(service, list, 'active')
    await createContact(service, other, 'active')
    const unsubscription = {
      accountId: actor.accountId,
      address: ADDRESS,
      reason: 'unsubscribe',
      covers: 'marketing',
    } as const
    const leaveAll = () => app.commit.write((tx) => suppress(app, tx, unsubscription))
    await app.commit.write((tx) => {
      suppress(app, tx, { ...unsubscription, listId: service.rowOf(list) })
      suppress(app, tx, { ...unsubscription, streamId: 9 })
    })
    await leaveAll()
    const since = await app.commit.write((tx) => requestConfirmation(app, tx, id))
    await app.commit.write((tx) => confirmContact(app, tx, id, since))
    const rows = at((await api('GET', `/v1/suppressions?email=${ADDRESS}`)).body, 'data') as Record<string, unknown>[]
    expect(rows.map((row) => [row['reason'], row['list_id']])).toEqual([
      ['unsubscribe', null],
      ['unsubscribe', null],
    ])
    await service.add(later, { email: ADDRESS })
    const standing = () => [
      ...[list, other, later].map((of) => readStatus(service, of)),
      ...[undefined, list, other].map((of) => {
        const listId = of === undefined ? undefined : service.rowOf(of)
        const mail = { accountId: actor.accountId, address: ADDRESS, transactional: false, streamId: 1, listId }
        return suppressionOf(app.db, mail)?.reason
      }),
    ]
    expect(standing()).toEqual([
      ...['active', 'unsubscribed', 'unsubscribed'],
      ...['unsubscribe', undefined, 'unsubscribe'],
    ])
    const streamed = { accountId: actor.accountId, address: ADDRESS, transactional: false, streamId: 9 }
    expect(suppressionOf(app.db, { ...streamed, listId: service.rowOf(list) })?.reason).toBe('unsubscribe')
    const recipients = async (of: string) =>
      at(
        (
          await api('POST', '/v1/emails/broadcast', {
            contact_list_id: of,
            from_address: 'ada@sender.test',
            subject: 'Hi',
            text_body: 'Hi',
          })
        ).body,
        'data',
        'total_recipients',
      )
    expect([await recipients(list), await recipients(other)]).toEqual([1, 0])
    expectBalanced(service)
    // Leaving all lists again stops mail of this list too.
    await leaveAll()
    expect(standing()).toEqual([...Array(3).fill('unsubscribed'), ...Array(3).fill('unsubscribe')])
    expect(await recipients(list)).toBe(0)
    expectBalanced(service)
  })

  test('cannot be requested for a contact that is already active', async () => {
    await using service = await createListApi()
    const { app } = service
    const id = await createContact(service, await service.newList(), 'active')
    expect(app.commit.write((tx) => requestConfirmation(app, tx, id))).rejects.toThrow('already active')
  })
})

describe('the suppression list', () => {
  // Proves: contact-14
  test.each([
    ['hard_bounce', 'bounced'],
    ['complaint', 'complained'],
    ['unsubscribe', 'unsubscribed'],
    ['manual', 'active'],
    ['asked by phone', 'active'],
  ] as const)(
    'for reason %s sets contacts on all lists to %s, and restores them once the suppression is removed',
    async (reason, status) => {
      await using service = await createListApi()
      const { api, clock } = service
      const lists = [await service.newList(), await service.newList()] as const
      await createContact(service, lists[0], 'active', 'Bob@x.test')
      await createContact(service, lists[1], 'pending')
      const at0 = () => findContact(service.app.db, service.rowOf(lists[0]), ADDRESS)
      const before = at0()
      clock.advance(1000)
      await api('POST', '/v1/suppressions', { email_address: 'BOB@X.test', reason })
      const pending = status === 'active' ? 'pending' : status
      expect(lists.map((list) => readStatus(service, list))).toEqual([status, pending])
      expect(at0()?.unsubscribedAt).toBe(status === 'unsubscribed' ? clock.now() : null)
      expectBalanced(service)
      clock.advance(1000)
      await api('DELETE', '/v1/suppressions/bob@x.test')
      expect(at0()).toEqual({
        ...before,
        ...(status === 'unsubscribed' && { subscribedAt: clock.now() }),
      } as typeof before)
      // The removal does not activate a contact that never confirmed.
      expect(lists.map((list) => readStatus(service, list))).toEqual(['active', 'pending'])
      expectBalanced(service)
    },
  )

  test('stops contacts when another suppression follows one that the account added, also contacts added later', async () => {
    await using service = await createListApi()
    const { app, actor, api } = service
    const list = await service.newList()
    const place = { accountId: actor.accountId, covers: 'all' } as const
    for (const name of ['left', 'complained', 'bounced'])
      await api('POST', '/v1/suppressions', { email_address: `${name}@x.test` })
    await service.add(list, { contacts: [{ email: 'complained@x.test' }, { email: 'bounced@x.test' }] })
    const told = await app.commit.write((tx) => [
      suppress(app, tx, { ...place, address: 'complained@x.test', reason: 'complaint', sourceEmailId: 7 }),
      suppress(app, tx, { ...place, address: 'complained@x.test', reason: 'complaint' }),
      suppress(app, tx, { ...place, address: 'bounced@x.test', reason: 'hard_bounce' }),
      suppress(app, tx, {
        ...place,
        address: 'left@x.test',
        reason: 'unsubscribe',
        covers: 'marketing',
        listId: service.rowOf(list),
      }),
    ])
    expect(told).toEqual([true, false, false, true])
    await api('DELETE', `/v1/contact-lists/${list}/contacts/complained@x.test`)
    await service.add(list, { contacts: [{ email: 'complained@x.test' }, { email: 'left@x.test' }] })
    expect(await service.statuses(list)).toEqual({
      'complained@x.test': 'complained',
      'bounced@x.test': 'bounced',
      'left@x.test': 'unsubscribed',
    })
    const rows = at((await api('GET', '/v1/suppressions?reason=complaint')).body, 'data') as unknown[]
    expect(rows).toHaveLength(1)
    expectBalanced(service)
  })

  test('stops a contact added after a suppression when that suppression is added again', async () => {
    await using service = await createListApi()
    const { app, actor } = service
    const unsubscribe = () =>
      app.commit.write((tx) =>
        suppress(app, tx, { accountId: actor.accountId, address: ADDRESS, reason: 'unsubscribe', covers: 'marketing' }),
      )
    expect(await unsubscribe()).toBe(true)
    const list = await service.newList()
    await createContact(service, list, 'active')
    expect([await unsubscribe(), readStatus(service, list)]).toEqual([false, 'unsubscribed'])
  })

  test('stops contacts when suppressions are imported', async () => {
    await using service = await createListApi()
    const list = await service.newList()
    const contacts = ['a', 'b', 'c', 'd'].map((name) => ({ email: `${name}@x.test` }))
    await service.add(list, { contacts })
    const file = `email_address,reason,list\na@x.test,hard_bounce,\nb@x.test,complaint,\nc@x.test,unsubscribe,${list}\n`
    const answer = await service.raw('/v1/suppressions/import', file, { 'content-type': 'text/csv' })
    expect(at(answer.body, 'data', 'imported')).toBe(3)
    expect(await service.statuses(list)).toEqual({
      'a@x.test': 'bounced',
      'b@x.test': 'complained',
      'c@x.test': 'unsubscribed',
      'd@x.test': 'active',
    })
  })

  test('leaves contacts alone when the suppression is for a stream', async () => {
    await using service = await createListApi()
    const { app, actor } = service
    const list = await service.newList()
    await createContact(service, list, 'active')
    await app.commit.write((tx) =>
      suppress(app, tx, {
        accountId: actor.accountId,
        address: ADDRESS,
        reason: 'unsubscribe',
        covers: 'marketing',
        streamId: 1,
      }),
    )
    expect(readStatus(service, list)).toBe('active')
  })
})

// Proves: contact-14
test('a contact is restored only when no other suppression, of all mail or of its list, still stops it', async () => {
  await using service = await createListApi()
  const { app, actor } = service
  const lists = [await service.newList(), await service.newList(), await service.newList()] as const
  for (const list of lists) await createContact(service, list, 'active')
  const unsubscription = {
    accountId: actor.accountId,
    address: ADDRESS,
    reason: 'unsubscribe',
    covers: 'marketing',
  } as const
  await app.commit.write((tx) => {
    suppress(app, tx, { ...unsubscription, listId: service.rowOf(lists[0]) })
    transitionContacts(app, tx, { accountId: actor.accountId, addressKey: ADDRESS, to: 'unsubscribed' })
    resubscribeContacts(app, tx, { accountId: actor.accountId, addressKey: ADDRESS, listId: service.rowOf(lists[2]) })
  })
  expect(lists.map((list) => readStatus(service, list))).toEqual(['unsubscribed', 'unsubscribed', 'active'])
  await app.commit.write((tx) => resubscribeContacts(app, tx, { accountId: actor.accountId, addressKey: ADDRESS }))
  expect(lists.map((list) => readStatus(service, list))).toEqual(['unsubscribed', 'active', 'active'])
  await app.commit.write((tx) => {
    suppress(app, tx, unsubscription)
    suppress(app, tx, { ...unsubscription, reason: 'hard_bounce', covers: 'all' })
  })
  expect(lists.map((list) => readStatus(service, list))).toEqual(['unsubscribed', 'unsubscribed', 'unsubscribed'])
  await app.commit.write((tx) => resubscribeContacts(app, tx, { accountId: actor.accountId, addressKey: ADDRESS }))
  expect(lists.map((list) => readStatus(service, list))).toEqual(['bounced', 'bounced', 'bounced'])
  expectBalanced(service)
})

/** Returns a generator of numbers below a limit from a seed (xorshift32), so that failures are reproducible. */
function createRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

// Proves: contact-14
test('the counters equal a recount after any sequence of transitions', async () => {
  await using service = await createListApi()
  const { app, actor } = service
  const { accountId } = actor
  const seed = crypto.getRandomValues(new Uint32Array(1))[0] ?? 1
  const pick = createRandom(seed || 1)
  const lists = [await service.newList(), await service.newList(), await service.newList()].map(service.rowOf)
  const done = new Map<string, number>()
  for (let round = 0; round < 60; round++) {
    await app.commit
      .write((tx) => {
        for (let step = 0; step < 20; step++) {
          const listId = lists[pick(lists.length)] ?? 0
          const email = `u${pick(12)}@x.test`
          const contact = findContact(tx.db, listId, email)
          const which = { accountId, addressKey: email, ...(pick(2) && { listId }) }
          const steps = {
            insert: () =>
              insertContact(app, tx, { accountId, listId, email, status: pick(2) ? 'active' : 'pending' }) && 1,
            unsubscribe: () => transitionContacts(app, tx, { ...which, to: 'unsubscribed' }),
            bounce: () => transitionContacts(app, tx, { ...which, to: 'bounced' }),
            complain: () => transitionContacts(app, tx, { ...which, to: 'complained' }),
            resubscribe: () => resubscribeContacts(app, tx, which),
            confirm: () => {
              if (!contact || contact.status === 'active') return 0
              const since = requestConfirmation(app, tx, contact.id)
              return activateContact(app, tx, contact.id, pick(3) ? since : since - 1) === 'confirmed' ? 1 : 0
            },
            suppress: () => {
              const reason = ['unsubscribe', 'hard_bounce', 'complaint'][pick(3)] ?? ''
              const covers = reason === 'unsubscribe' ? 'marketing' : 'all'
              return suppress(app, tx, { accountId, address: email, reason, covers }) ? 1 : 0
            },
            delete: () => {
              if (!contact || pick(3) > 0) return 0
              deleteContact(tx, contact)
              return 1
            },
          }
          const names = Object.keys(steps) as (keyof typeof steps)[]
          const name = names[pick(names.length)] ?? 'insert'
          done.set(name, (done.get(name) ?? 0) + Number(steps[name]() ?? 0))
        }
        if (pick(5) === 0) throw new Error('undone')
      })
      .catch((error: Error) => {
        if (error.message !== 'undone') throw new Error(`seed ${seed}: ${error.message}`, { cause: error })
      })
    const counted = lists.map((listId) =>
      CONTACT_STATUSES.map((status) => readContactCount(app.db, accountId, listId, status)),
    )
    const recounted = lists.map((listId) =>
      CONTACT_STATUSES.map(
        (_, code) =>
          app.db
            .query<{ n: number }, [number, number]>(
              'SELECT count(*) AS n FROM contacts WHERE list_id = ? AND status = ?',
            )
            .get(listId, code)?.n ?? 0,
      ),
    )
    expect({ seed, round, counted }).toEqual({ seed, round, counted: recounted })
    expect({ seed, totals: lists.map((listId) => readContactCount(app.db, accountId, listId)) }).toEqual({
      seed,
      totals: recounted.map((row) => row.reduce((sum, n) => sum + n, 0)),
    })
  }
  // The test would prove nothing if some kind of step never changed anything.
  expect({ seed, idle: [...done].filter(([, n]) => n === 0) }).toEqual({ seed, idle: [] })
  // Some steps insert contacts without reading the suppression list first. Adding its rows again stops these contacts.
  const rows = app.db
    .query<{ address: string; covers: number; reason: string }, []>('SELECT address, covers, reason FROM suppressions')
    .all()
  await app.commit.write((tx) => {
    for (const { covers, ...row } of rows)
      suppress(app, tx, { ...row, accountId, covers: covers === 0 ? 'all' : 'marketing' })
  })
  expectBalanced(service)
})
