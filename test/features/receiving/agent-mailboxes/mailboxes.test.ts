import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { deliverToMailbox } from '#features/receiving/agent-mailboxes/deliver.ts'
import {
  deleteMailbox,
  findMailbox,
  MAX_UNREAD_BYTES_PER_ACCOUNT,
  MAX_UNREAD_BYTES_PER_MAILBOX,
  MAX_UNREAD_PER_MAILBOX,
  type Mailbox,
} from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { removeDeletedMailboxes } from '#features/receiving/agent-mailboxes/removal.ts'
import {
  compactSearchIndex,
  indexMessage,
  searchMessageIds,
  unindexMessage,
} from '#features/receiving/agent-mailboxes/search.ts'
import { createRecipientDecider } from '#features/receiving/inbound/process/decide.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { minutes } from '#platform/units.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { createTestApp, eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { expectError, shareEmailApi, UNVERIFIED, UUID, VERIFIED } from '#test/support/email-api.ts'
import { createMailboxApi, createReceivedMessage, type MailboxApi } from '#test/support/mailboxes.ts'

const service = shareEmailApi(createMailboxApi)

const create = ({ api }: MailboxApi, input: Readonly<Record<string, unknown>> = {}): Promise<ApiResponse> =>
  api('POST', '/v1/agent-mailboxes', input)
const partOf = (answer: ApiResponse) => at(answer.body, 'data', 'local_part')
const domainId = async ({ api }: MailboxApi, name: string) => {
  const rows = at((await api('GET', '/v1/domains')).body, 'data') as { id: string; domain: string }[]
  return rows.find(({ domain }) => domain === name)?.id
}

// Proves: mailbox-1, mailbox-14
test('a mailbox is created, read, listed and deleted, with an audit row for each change', async () => {
  const { api, actor } = service
  const created = await create(service, { local_part: 'Support', display_name: ' Support Team ' })
  const id = String(at(created.body, 'data', 'id'))
  expect(id).toMatch(UUID)
  const now = new Date(service.clock.now()).toISOString()
  const mailbox = {
    id,
    account_id: actor.accountUuid,
    local_part: 'support',
    domain: VERIFIED,
    address: `support@${VERIFIED}`,
    display_name: 'Support Team',
    message_count: 0,
    unread_count: 0,
    unread_bytes: 0,
    thread_count: 0,
    drafts: false,
    auto_responder: null,
    auto_responder_enabled: false,
    auto_responder_rules: [],
    created_at: now,
    updated_at: now,
  }
  expect({ status: created.status, body: created.body }).toEqual({ status: 201, body: { data: mailbox } })
  expect((await api('GET', `/v1/agent-mailboxes/${id}`)).body).toEqual({ data: mailbox })
  expect((await api('GET', '/v1/agent-mailboxes')).body).toEqual({
    data: [mailbox],
    pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
  })
  expect((await api('DELETE', `/v1/agent-mailboxes/${id}`)).status).toBe(204)
  for (const method of ['GET', 'DELETE'])
    expectError(await api(method, `/v1/agent-mailboxes/${id}`), 404, 'mailbox_not_found')
  expect(at((await api('GET', '/v1/agent-mailboxes')).body, 'pagination', 'total')).toBe(0)
  const log = at((await api('GET', '/v1/audit-logs?per_page=2')).body, 'data') as Record<string, unknown>[]
  expect(log.map(({ action, resource_id }) => [action, resource_id])).toEqual([
    ['mailbox.deleted', id],
    ['mailbox.created', id],
  ])
})

describe('a local part', () => {
  test('is a readable random one by default, a new one each time', async () => {
    const parts = [partOf(await create(service)), partOf(await create(service, { local_part: null }))]
    for (const part of parts) expect(part).toMatch(/^[a-z]+-[a-z]+-\d{4}$/)
    expect(new Set(parts).size).toBe(2)
  })

  test.each([
    ['Support', 'support'],
    [' a.b-c_d ', 'a.b-c_d'],
    ["!#$%&'*+-/=?^_`{|}~", "!#$%&'*+-/=?^_`{|}~"],
    ['x'.repeat(64), 'x'.repeat(64)],
    ['b-short', 'b-short'],
    ['abuse-desk', 'abuse-desk'],
  ])('%j is stored as %j', async (given, kept) => {
    expect(partOf(await create(service, { local_part: given }))).toBe(kept)
  })

  test.each([
    '',
    ' ',
    '.a',
    'a.',
    'a..b',
    'a b',
    'a@b',
    '"a b"',
    'größe',
    'a\nb',
    'x'.repeat(65),
    'postmaster',
    'ABUSE',
    `b-${'a'.repeat(32)}`,
    `U-${'7'.repeat(32)}`,
  ])('%j is not allowed: 422', async (local_part) => {
    expectError(await create(service, { local_part }), 422, 'invalid_local_part', 'local_part')
  })

  test('in use at the domain is a 409; after a deletion it is free again', async () => {
    const first = await create(service, { local_part: 'support' })
    expectError(await create(service, { local_part: 'SUPPORT' }), 409, 'mailbox_exists')
    await service.api('DELETE', `/v1/agent-mailboxes/${at(first.body, 'data', 'id')}`)
    expect((await create(service, { local_part: 'support' })).status).toBe(201)
  })
})

describe('a display name', () => {
  test.each([
    ['', null],
    ['  ', null],
    [null, null],
    ['Zoë "Z" <x>', 'Zoë "Z" <x>'],
    ['x'.repeat(200), 'x'.repeat(200)],
  ])('%j is stored as %j', async (given, kept) => {
    expect(at((await create(service, { display_name: given })).body, 'data', 'display_name')).toBe(kept)
  })

  test.each(['a\r\nBcc: x@y.test', 'a\0b', 'a\u0085b', 'a\u2028b', '\ud800', 'x'.repeat(201)])(
    '%j is a 422',
    async (display_name) => {
      expectError(await create(service, { display_name }), 422, 'validation_failed', 'display_name')
    },
  )
})

describe('the domain of a mailbox', () => {
  test('is the first verified one that receives, unless another is specified', async () => {
    await service.addDomain(service.actor, 'second.test')
    service.app.db.run("UPDATE domains SET inbound_enabled = 1 WHERE domain = 'second.test'")
    expect(at((await create(service)).body, 'data', 'domain')).toBe(VERIFIED)
    const named = await create(service, { domain_id: await domainId(service, 'second.test') })
    expect(at(named.body, 'data', 'domain')).toBe('second.test')
  })

  // Proves: mailbox-1
  test('must exist, be verified and receive; otherwise 422 with the fix', async () => {
    const refused = async (name: string, code: string) =>
      expectError(await create(service, { domain_id: await domainId(service, name) }), 422, code, 'domain_id')
    service.app.db.run(`UPDATE domains SET inbound_enabled = 1 WHERE domain = '${UNVERIFIED}'`)
    await refused(UNVERIFIED, 'domain_not_verified')
    await service.addDomain(service.actor, 'silent.test')
    await refused('silent.test', 'inbound_not_enabled')
    for (const domain_id of ['x', '01234567-89ab-7def-8123-456789abcdef'])
      expectError(await create(service, { domain_id }), 422, 'domain_not_found', 'domain_id')
    expect(at((await create(service, { domain_id: VERIFIED })).body, 'message')).toBe(
      'domain_id must be the id of a domain, not its name; GET /v1/domains lists all domains.',
    )
    service.app.db.run('UPDATE domains SET inbound_enabled = 0')
    const none = await create(service)
    expectError(none, 422, 'no_inbound_domain', 'domain_id')
    expect(at(none.body, 'message')).toContain('inbound_enabled')
  })

  test('of another account cannot be used', async () => {
    const key = await service.newKey([], await service.newAccount())
    const domain_id = await domainId(service, VERIFIED)
    const answer = await service.api('POST', '/v1/agent-mailboxes', { domain_id }, { key })
    expectError(answer, 422, 'domain_not_found', 'domain_id')
  })
})

describe('mail for an address reaches', () => {
  test('its mailbox, ignoring case, quotes and the part after a plus', async () => {
    const { app } = service
    await service.newMailbox({ local_part: 'support' })
    await service.newMailbox({ local_part: 'support+urgent' })
    const found = (localPart: string, domain = VERIFIED) => findMailbox(app.db, domain, localPart)?.localPart
    expect({
      exact: found('support'),
      upper: found('SupporT'),
      quoted: found('"support"'),
      plus: found('support+x+y'),
      exactPlus: found('Support+Urgent'),
      beyond: found('support+urgent+now'),
      unknown: found('supp'),
      onlyPlus: found('+support'),
      elsewhere: found('support', UNVERIFIED),
    }).toEqual({
      exact: 'support',
      upper: 'support',
      quoted: 'support',
      plus: 'support',
      exactPlus: 'support+urgent',
      beyond: 'support',
      unknown: undefined,
      onlyPlus: undefined,
      elsewhere: undefined,
    })
  })

  test('no deleted mailbox, and none whose domain was deleted or is no longer verified', async () => {
    const { app, api } = service
    const mailbox = await service.newMailbox({ local_part: 'support' })
    const isFound = () => findMailbox(app.db, VERIFIED, 'support') !== undefined
    expect(isFound()).toBe(true)
    app.db.run('UPDATE domains SET verified_at = NULL')
    expect(isFound()).toBe(false)
    app.db.run('UPDATE domains SET verified_at = 1')
    const id = await domainId(service, VERIFIED)
    expect((await api('DELETE', `/v1/domains/${id}`)).status).toBe(204)
    expect(isFound()).toBe(false)
    // It can still be read and deleted.
    expect((await api('GET', service.path(mailbox))).status).toBe(200)
  })

  test("the mailbox of the domain's current account, not of its former one", async () => {
    const { app, api } = service
    const old = await service.newMailbox({ local_part: 'support' })
    await api('DELETE', `/v1/domains/${await domainId(service, VERIFIED)}`)
    const other = await service.newAccount()
    const { domain } = await createDomain(app, other, VERIFIED)
    app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1 WHERE id = ?', [domain.id])
    expect(findMailbox(app.db, VERIFIED, 'support')).toBeUndefined()
    const key = await service.newKey([], other)
    const made = await api('POST', '/v1/agent-mailboxes', { local_part: 'support' }, { key })
    expect(made.status).toBe(201)
    const found = findMailbox(app.db, VERIFIED, 'support')
    expect(found?.uuid).toEqual(parseUuid(String(at(made.body, 'data', 'id'))))
    expect(found?.uuid).not.toEqual(old.uuid)
  })
})

// Proves: mailbox-1
test('a deleted mailbox receives nothing; its rows are deleted in batches, and those of others stay', async () => {
  const { app, api, path, deliver } = service
  const [mailbox, other] = [await service.newMailbox({ local_part: 'gone' }), await service.newMailbox()]
  for (let n = 0; n < 120; n++) await deliver(mailbox, { subject: `needle ${n}`, fromAddress: `a${n}@example.com` })
  await deliver(other, { subject: 'needle' })
  const counts = () =>
    Object.fromEntries(
      ['agent_mailboxes', 'mailbox_messages', 'mailbox_threads', 'mailbox_contacts', 'mailbox_search_docsize'].map(
        (table) => [table, app.db.query<{ n: number }, []>(`SELECT COUNT(*) AS n FROM ${table}`).get()?.n],
      ),
    )
  await api('DELETE', path(mailbox))
  expect(findMailbox(app.db, VERIFIED, 'gone')).toBeUndefined()
  for (const rest of ['/messages', '/messages/next?timeout=0', '/threads', '/contacts', '/analytics'])
    expectError(await api('GET', path(mailbox, rest)), 404, 'mailbox_not_found')
  expect(counts()['mailbox_messages']).toBe(121)
  expect(await removeDeletedMailboxes(app)).toBe(1)
  expect(counts()).toEqual({
    agent_mailboxes: 1,
    mailbox_messages: 1,
    mailbox_threads: 1,
    mailbox_contacts: 1,
    mailbox_search_docsize: 1,
  })
  expect(await removeDeletedMailboxes(app)).toBe(0)
  expect(at((await api('GET', path(other, '/messages/search?q=needle'))).body, 'pagination', 'total')).toBe(1)
})

describe('a list by limit and offset', () => {
  // Proves: list-6, mailbox-1
  test('has the requested rows and its page number', async () => {
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.unshift(String(at((await create(service)).body, 'data', 'id')))
    const asked = async (query: string) => {
      const { body } = await service.api('GET', `/v1/agent-mailboxes${query}`)
      return { ids: (at(body, 'data') as { id: string }[]).map(({ id }) => id), pagination: at(body, 'pagination') }
    }
    const page = (number: number, perPage: number) => ({
      page: number,
      per_page: perPage,
      total: 5,
      total_pages: Math.ceil(5 / perPage),
      ...(number * perPage < 5 && { next_cursor: expect.any(String) }),
    })
    expect(await asked('?limit=2')).toEqual({ ids: ids.slice(0, 2), pagination: page(1, 2) })
    expect(await asked('?limit=2&offset=2')).toEqual({ ids: ids.slice(2, 4), pagination: page(2, 2) })
    expect(await asked('?offset=4')).toEqual({ ids: ids.slice(4), pagination: page(1, 25) })
    const next = String(at((await asked('?limit=2')).pagination, 'next_cursor'))
    expect(await asked(`?limit=2&cursor=${next}`)).toEqual({ ids: ids.slice(2, 4), pagination: page(2, 2) })
    expectError(
      await service.api('GET', `/v1/agent-mailboxes?offset=2&cursor=${next}`),
      422,
      'validation_failed',
      'offset',
    )
    expect(await asked('?limit=2&offset=999999')).toEqual({ ids: [], pagination: page(500_000, 2) })
    expect(await asked('?page=2&per_page=2')).toEqual({ ids: ids.slice(2, 4), pagination: page(2, 2) })
  })

  test.each([
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=x', 'limit'],
    ['offset=-1', 'offset'],
    ['offset=1e3', 'offset'],
    ['limit=10&page=1', 'page'],
    ['offset=0&per_page=10', 'per_page'],
  ])('rejects %s', async (query, field) => {
    expectError(await service.api('GET', `/v1/agent-mailboxes?${query}`), 422, 'validation_failed', field)
  })
})

/** The same numbers for the same seed (Park and Miller), so that failures can be repeated. */
function createRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 48_271) % 2_147_483_647
    return state % below
  }
}

test.each([1, 2, 3])('after many random operations on mailboxes all counts equal a recount (seed %d)', async (seed) => {
  await using service = await createMailboxApi()
  const { app, api, actor, path, deliver } = service
  const random = createRandom(seed)
  const mailboxes: Mailbox[] = [await service.newMailbox(), await service.newMailbox()]
  const messages: { mailbox: Mailbox; id: string }[] = []
  const leases: { mailbox: Mailbox; id: string; token: string }[] = []
  const pick = <T>(items: readonly T[]): T | undefined => items[random(items.length || 1)]
  for (let step = 0; step < 250; step++) {
    const mailbox = pick(mailboxes)
    if (!mailbox) throw new Error('no mailbox')
    const message = pick(messages)
    const lease = pick(leases)
    const what = random(100)
    if (what < 40) {
      const from = `a${random(5)}@example.com`
      const references = random(2) === 0 ? [`<${random(40)}@x>`] : []
      const id = await deliver(mailbox, { fromAddress: from, messageId: `<${random(40)}@x>`, references })
      messages.push({ mailbox, id })
    } else if (what < 60) {
      const { status, body } = await api('GET', path(mailbox, '/messages/next?timeout=0'))
      if (status === 200)
        leases.push({ mailbox, id: String(at(body, 'data', 'id')), token: String(at(body, 'lease_token')) })
    } else if (what < 80 && lease) {
      const verb = random(3) === 0 ? 'nack' : 'ack'
      await api('POST', path(lease.mailbox, `/messages/${lease.id}/${verb}`), { lease_token: lease.token })
    } else if (what < 92 && message) await api('DELETE', path(message.mailbox, `/messages/${message.id}`))
    else if (what < 96) service.clock.advance(minutes(2))
    else if (what < 98) {
      await deleteMailbox(app, actor, formatUuid(mailbox.uuid))
      mailboxes.splice(mailboxes.indexOf(mailbox), 1, await service.newMailbox())
    } else await removeDeletedMailboxes(app)
  }
  expectBalanced(service)
  await removeDeletedMailboxes(app)
  expectBalanced(service)
  expect(app.db.query('SELECT COUNT(*) AS n FROM agent_mailboxes').get()).toEqual({ n: 2 })
})

test('a compacted index has no words of deleted messages, and still finds the others', async () => {
  await using service = await createTestApp()
  const { app, dataDir } = service
  await app.commit.write((tx) => {
    for (let id = 1; id <= 2000; id++) {
      const isSecret = id % 40 === 0
      const sender = isSecret ? 'zebravictim' : `sender${id}`
      indexMessage(tx, id, { mailboxId: 1, subject: `hello ${id}`, sender, body: `${sender} lorem ipsum ${id}` })
    }
  })
  await app.commit.write((tx) => {
    for (let id = 40; id <= 2000; id += 40) unindexMessage(tx, id)
  })
  const words = async (): Promise<number> => {
    // It is busy while the checkpoint of the service runs.
    await eventually(() =>
      app.commit.runExclusive((db) => {
        const [row] = db.query<{ busy: number }, []>('PRAGMA wal_checkpoint(TRUNCATE)').all()
        return row?.busy === 0
      }),
    )
    return readFileSync(join(dataDir, 'tassis.db'), 'latin1').split('zebravic').length - 1
  }
  expect(await words()).toBeGreaterThan(0)
  await compactSearchIndex(app)
  expect(await words()).toBe(0)
  expect(searchMessageIds(app.db, 1, 'zebravictim')).toEqual([])
  expect(searchMessageIds(app.db, 1, 'sender1999')).toEqual([1999])
})

const MAILBOX_FULL = { code: 452, text: '4.2.2 Mailbox full' }
const MESSAGES_OF_ACCOUNT = MAX_UNREAD_BYTES_PER_ACCOUNT / MAX_UNREAD_BYTES_PER_MAILBOX

/** Delivers a message of this size to a mailbox; returns its public id. */
async function deliverSized({ app }: MailboxApi, mailbox: Mailbox, sizeBytes: number): Promise<string> {
  const received = await createReceivedMessage(app)
  const envelope = { ...received.envelope, sizeBytes }
  const { uuid } = await app.commit.write((tx) => deliverToMailbox(app, tx, mailbox, { ...received, envelope }))
  return formatUuid(uuid)
}

// Proves: inbound-9
test('a mailbox at its limit of unread octets is full until some are acknowledged or deleted', async () => {
  const { app, api, newMailbox, path } = service
  const [mailbox, other] = [await newMailbox({ local_part: 'jobs' }), await newMailbox({ local_part: 'other' })]
  const decide = createRecipientDecider(app)
  const rcpt = (address = mailbox.address) => decide(address)
  await deliverSized(service, mailbox, MAX_UNREAD_BYTES_PER_MAILBOX - 1)
  expect(rcpt()).toMatchObject({ kind: 'domain' })
  const last = await deliverSized(service, mailbox, 1)
  expect([rcpt(), rcpt(`jobs+x@${mailbox.domain}`)]).toEqual([MAILBOX_FULL, MAILBOX_FULL])
  expect([rcpt(other.address), rcpt(`routed@${mailbox.domain}`)]).toMatchObject([
    { kind: 'domain' },
    { kind: 'domain' },
  ])
  expect(at((await api('GET', path(mailbox))).body, 'data')).toMatchObject({
    unread_count: 2,
    unread_bytes: MAX_UNREAD_BYTES_PER_MAILBOX,
  })
  expectBalanced(service)
  expect((await api('DELETE', path(mailbox, `/messages/${last}`))).status).toBe(204)
  expect(rcpt()).toMatchObject({ kind: 'domain' })
  await deliverSized(service, mailbox, 1)
  expect(rcpt()).toEqual(MAILBOX_FULL)
  const next = await api('GET', path(mailbox, '/messages/next?timeout=0'))
  const [id, lease] = [at(next.body, 'data', 'id'), at(next.body, 'lease_token')]
  await api('POST', path(mailbox, `/messages/${String(id)}/ack`), { lease_token: lease })
  expect(rcpt()).toMatchObject({ kind: 'domain' })
  expectBalanced(service)
})

// Proves: inbound-9
test('a mailbox at its limit of unread messages is full', async () => {
  const { app, newMailbox } = service
  const mailbox = await newMailbox()
  app.db.run('UPDATE agent_mailboxes SET unread_count = ?', [MAX_UNREAD_PER_MAILBOX])
  expect(createRecipientDecider(app)(mailbox.address)).toEqual(MAILBOX_FULL)
})

// Proves: inbound-9
test('all mailboxes of an account at its limit of unread mail are full', async () => {
  const { app, api, newMailbox, path } = service
  const decide = createRecipientDecider(app)
  const empty = await newMailbox()
  const mailboxes: Mailbox[] = []
  for (let n = 0; n < MESSAGES_OF_ACCOUNT; n++) mailboxes.push(await newMailbox())
  const [first, ...others] = mailboxes
  for (const mailbox of others) await deliverSized(service, mailbox, MAX_UNREAD_BYTES_PER_MAILBOX)
  expect(decide(empty.address)).toMatchObject({ kind: 'domain' })
  if (first) await deliverSized(service, first, MAX_UNREAD_BYTES_PER_MAILBOX)
  expect(decide(empty.address)).toEqual(MAILBOX_FULL)
  if (first) expect((await api('DELETE', path(first))).status).toBe(204)
  expect(decide(empty.address)).toMatchObject({ kind: 'domain' })
  expectBalanced(service)
})
