import { describe, expect, test } from 'bun:test'
import { removeDeletedLists } from '#features/audience/contact-lists/contacts.ts'
import { requestConfirmation } from '#features/setup/contact-store/status.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { confirmContact } from '#features/setup/suppression-store/contacts.ts'
import { parseUuid } from '#platform/ids.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { shareEmailApi } from '#test/support/email-api.ts'
import { ADDRESS, createUnsubscribable, pressButton, requestPage, type Unsubscribable } from './fixture.ts'

interface List {
  readonly id: string
  readonly row: number
}

let garden: List
let kitchen: List
const service = shareEmailApi(async () => {
  const made = await createUnsubscribable()
  garden = await newList('Garden & <b>more</b>', made)
  kitchen = await newList('Kitchen', made)
  for (const { id } of [garden, kitchen])
    expect((await made.api('POST', `/v1/contact-lists/${id}/contacts`, { email: 'Bob@Receiver.test' })).status).toBe(
      201,
    )
  return made
})

async function newList(name: string, { api, app }: Unsubscribable = service): Promise<List> {
  const id = String(at((await api('POST', '/v1/contact-lists', { name })).body, 'data', 'id'))
  const row = app.db
    .query<{ id: number }, [Uint8Array]>('SELECT id FROM contact_lists WHERE uuid = ?')
    .get(parseUuid(id) ?? new Uint8Array())
  return { id, row: row?.id ?? 0 }
}

const ONE_CLICK = ['List-Unsubscribe=One-Click', { 'content-type': 'application/x-www-form-urlencoded' }] as const

async function statuses(): Promise<unknown[]> {
  const of = async ({ id }: List) =>
    at((await service.api('GET', `/v1/contact-lists/${id}/contacts/${ADDRESS}`)).body, 'data', 'status')
  return [await of(garden), await of(kitchen)]
}

/** Confirms the subscription of the list's only contact. */
async function confirm({ row }: List): Promise<void> {
  const { app } = service
  const { id } = app.db.query<{ id: number }, [number]>('SELECT id FROM contacts WHERE list_id = ?').get(row) ?? {
    id: 0,
  }
  const since = await app.commit.write((tx) => requestConfirmation(app, tx, id))
  await app.commit.write((tx) => confirmContact(app, tx, id, since))
}

/** The suppressions: stream and list of each, oldest first. */
async function suppressed(): Promise<unknown[]> {
  const rows = at((await service.api('GET', '/v1/suppressions')).body, 'data') as Record<string, unknown>[]
  return rows.toReversed().map((row) => [row['reason'], row['stream'], row['list_id']])
}

/** Which mail with `transactional: false` is stopped. */
function readStops(): Record<string, boolean> {
  const { app, actor } = service
  const is = (streamId: number, listId?: number, transactional = false) =>
    suppressionOf(app.db, { accountId: actor.accountId, address: ADDRESS, transactional, streamId, listId }) !==
    undefined
  return {
    garden: is(1, garden.row),
    gardenInNews: is(2, garden.row),
    kitchen: is(1, kitchen.row),
    plain: is(1),
    receipts: is(1, garden.row, true),
  }
}

describe('a link of mail to a list', () => {
  // Proves: suppress-13
  test.each(['transactional', 'news'])(
    'in the stream %s unsubscribes from that list, in every stream, and from nothing else',
    async (stream) => {
      const answer = await requestPage(service, 'POST', await service.link({ stream }, garden.row), ...ONE_CLICK)
      expect(answer.status).toBe(200)
      expect(readStops()).toEqual({ garden: true, gardenInNews: true, kitchen: false, plain: false, receipts: false })
      expect(await suppressed()).toEqual([['unsubscribe', null, garden.id]])
      expect(await statuses()).toEqual(['unsubscribed', 'active'])
      const [email] = at((await service.api('GET', '/v1/emails')).body, 'data') as { id: string }[]
      expect(at(await service.detail(email?.id ?? ''), 'explanations', 0)).toMatchObject({
        suppression: { list: 'Garden & <b>more</b>', stream: null },
        further_mail: expect.stringContaining('not transactional to the list Garden & <b>more</b> is sent'),
      })
      expect(service.events()).toEqual([
        { emailId: 1, recipient: ADDRESS, data: { stream, list_id: garden.id, scope: 'list', reason: 'one-click' } },
      ])
      expectBalanced(service)
    },
  )

  // Proves: suppress-13
  test('has buttons for the list and for all, and each can be undone exactly', async () => {
    const path = await service.link({}, garden.row)
    const pressed = async (action: string) => {
      expect((await pressButton(service, path, action)).status).toBe(200)
      const result = [await statuses(), await suppressed()]
      expectBalanced(service)
      return result
    }
    const list = ['unsubscribe', null, garden.id]
    const all = ['unsubscribe', null, null]
    expect(await pressed('unsubscribe')).toEqual([['unsubscribed', 'active'], [list]])
    expect(await pressed('unsubscribe-all')).toEqual([
      ['unsubscribed', 'unsubscribed'],
      [list, all],
    ])
    expect(await pressed('resubscribe-all')).toEqual([['unsubscribed', 'active'], [list]])
    expect(await pressed('resubscribe')).toEqual([['active', 'active'], []])
    expect(await pressed('resubscribe')).toEqual([['active', 'active'], []])
    expect(service.events().map(({ data }) => data)).toEqual([
      { stream: 'transactional', list_id: garden.id, scope: 'list', reason: 'page' },
      { stream: 'transactional', list_id: garden.id, scope: 'all', reason: 'page' },
    ])
  })

  test('asks again if the list was confirmed after leaving all, and leaving it once more leaves all', async () => {
    const path = await service.link({}, garden.row)
    await pressButton(service, path, 'unsubscribe-all')
    await confirm(garden)
    const heading = async (answer: Promise<Response>) => /<h1>([^<]+)/.exec(await (await answer).text())?.[1]
    const [gardenLink, kitchenLink] = [path, await service.link({}, kitchen.row)]
    expect([
      await heading(requestPage(service, 'GET', gardenLink)),
      await heading(requestPage(service, 'GET', kitchenLink)),
    ]).toEqual(['Unsubscribe?', 'You are unsubscribed'])
    expect(await heading(pressButton(service, gardenLink, 'unsubscribe'))).toBe('You are unsubscribed')
    expect(await statuses()).toEqual(['unsubscribed', 'unsubscribed'])
    await pressButton(service, gardenLink, 'resubscribe-all')
    expect(await statuses()).toEqual(['unsubscribed', 'active'])
    expectBalanced(service)
  })

  // Proves: status-22
  test('records an event if the recipient leaves all again after confirming the list', async () => {
    const path = await service.link({}, garden.row)
    await pressButton(service, path, 'unsubscribe-all')
    await confirm(garden)
    expect([await statuses(), service.events().length]).toEqual([['active', 'unsubscribed'], 1])
    for (let i = 0; i < 2; i++) await pressButton(service, path, 'unsubscribe-all')
    expect(await statuses()).toEqual(['unsubscribed', 'unsubscribed'])
    const left = { stream: 'transactional', list_id: garden.id, scope: 'all', reason: 'page' }
    expect([service.events().map(({ data }) => data), service.auditRows().length]).toEqual([[left, left], 2])
    expectBalanced(service)
  })

  test('does not resubscribe a contact that never confirmed', async () => {
    service.app.db.run('UPDATE contacts SET status = 1, confirmed_at = NULL WHERE list_id = ?', [kitchen.row])
    const path = await service.link({}, garden.row)
    await pressButton(service, path, 'unsubscribe-all')
    expect(await statuses()).toEqual(['unsubscribed', 'unsubscribed'])
    await pressButton(service, path, 'resubscribe-all')
    expect(await statuses()).toEqual(['active', 'pending'])
  })

  // Proves: suppress-13
  test('works if the list was deleted, with its name, and if the contact was deleted', async () => {
    const path = await service.link({}, garden.row)
    await service.api('DELETE', `/v1/contact-lists/${kitchen.id}/contacts/${ADDRESS}`)
    await service.api('DELETE', `/v1/contact-lists/${garden.id}`)
    await removeDeletedLists(service.app)
    expect(await (await requestPage(service, 'GET', path)).text()).toContain('mail of “<bdi>Garden')
    expect((await requestPage(service, 'POST', path, ...ONE_CLICK)).status).toBe(200)
    expect((await pressButton(service, path, 'unsubscribe-all')).status).toBe(200)
    expect(await suppressed()).toEqual([
      ['unsubscribe', null, garden.id],
      ['unsubscribe', null, null],
    ])
    expect(service.events().map(({ data }) => at(data, 'list_id'))).toEqual([garden.id, garden.id])
    expectBalanced(service)
  })
})

test('a link of a stream does not affect lists', async () => {
  const path = await service.link({ stream: 'news' })
  await pressButton(service, path, 'unsubscribe')
  expect(await statuses()).toEqual(['active', 'active'])
  await pressButton(service, path, 'resubscribe')
  expect(await suppressed()).toEqual([])
})

test('a link of all mail unsubscribes the address from all lists, and resubscribes it', async () => {
  const path = await service.link()
  await pressButton(service, path, 'unsubscribe')
  expect(await statuses()).toEqual(['unsubscribed', 'unsubscribed'])
  await pressButton(service, path, 'resubscribe')
  expect(await statuses()).toEqual(['active', 'active'])
  expectBalanced(service)
})

// Proves: suppress-13
test('an unsubscription from a list survives export and import', async () => {
  await requestPage(service, 'POST', await service.link({}, garden.row), ...ONE_CLICK)
  const headers = { authorization: `Bearer ${service.key}` }
  const file = await (await fetch(`${service.url}/v1/suppressions/export`, { headers })).text()
  expect(file).toBe(`email_address,reason,stream,list\r\n${ADDRESS},unsubscribe,,${garden.id}\r\n`)
  await service.api('DELETE', `/v1/suppressions/${ADDRESS}`)
  expect([await suppressed(), await statuses()]).toEqual([[], ['active', 'active']])
  const imported = await service.raw('/v1/suppressions/import', file, { 'content-type': 'text/csv' })
  expect(at(imported.body, 'data', 'imported')).toBe(1)
  expect([await suppressed(), await statuses()]).toEqual([
    [['unsubscribe', null, garden.id]],
    ['unsubscribed', 'active'],
  ])
  const wrong = `email,reason,stream,list\nb@x.test,unsubscribe,news,${garden.id}\nc@x.test,unsubscribe,,none\n`
  const refused = await service.raw('/v1/suppressions/import', wrong, { 'content-type': 'text/csv' })
  expect(at(refused.body, 'errors')).toEqual([
    { line: 2, error: 'The line names a stream and a list; set only one of them.' },
    { line: 3, error: 'There is no contact list with the id "none" on this account.' },
  ])
})
