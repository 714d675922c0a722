import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { listNewestAuditEntries } from '#features/core/audit-logs/read.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { listDeadLetters, retryDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import {
  changeMail,
  holdMail,
  parseReason,
  parseSelector,
  type QueueAction,
  readRules,
  redirectMail,
  releaseMail,
  type SelectorInput,
} from '#features/sending/delivery/control/operator-queue.ts'
import { countSelected } from '#features/sending/delivery/control/queue-control.ts'
import { describeLanes, listLaneRecipients, readLanes } from '#features/sending/delivery/control/queue-view.ts'
import { findInterruptedRecipients, QUEUE_START } from '#features/sending/queue/queue.ts'
import { STATUSES } from '#features/sending/queue/status.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { hours } from '#platform/units.ts'
import { createTestAccount, createTestApp, eventually } from '#test/support/app.ts'
import { addContacts, createContacts, newList } from '#test/support/broadcasts.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { laneStates } from '#test/support/lanes.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { startSink } from '#test/support/sink.ts'

setDefaultTimeout(300_000)

const OPERATOR = { accountId: null, type: 'operator', id: 'cli' } as const
const MX = (domain: string, address = '127.0.0.1') => ({
  [domain]: { MX: [{ preference: 1, exchange: `mx.${domain}` }] },
  [`mx.${domain}`]: { A: [address] },
})

/** Two domains at Gmail and one that is not. */
const GMAIL_ZONE = {
  'one.test': { MX: [{ preference: 1, exchange: 'a.google.com' }] },
  'two.test': { MX: [{ preference: 1, exchange: 'b.google.com' }] },
  'a.google.com': { A: ['127.0.0.1'] },
  'b.google.com': { A: ['127.0.0.1'] },
  ...MX('other.test'),
}

interface Row {
  address: string
  status: number
  next_at: number | null
  last_error: string | null
  bounce_category: string | null
}
/** Recipients by address. */
const readRecipients = ({ db }: App) =>
  Object.fromEntries(
    db
      .query<Row, []>('SELECT address, status, next_at, last_error, bounce_category FROM recipients')
      .all()
      .map((row) => [row.address, { ...row, status: STATUSES[row.status] }]),
  )
const listStatuses = (app: App) =>
  Object.fromEntries(Object.values(readRecipients(app)).map(({ address, status }) => [address, status]))

const send = async (app: App, actor: Actor, to: string | string[], from = 'ada@sender.test') => {
  const draft = createDraft(app, { from, to, subject: 'Hi', text_body: 'Hi' })
  return (await acceptEmail(app, actor, draft)).response.id
}

/** Two accounts with deferred mail to two domains: ann and bob of the first account, cem of the second. */
async function createQueue() {
  const service = await createTestApp()
  const { app } = service
  const first = await createTestAccount(app)
  const second = toOperatorActor(await createAccount(app, { name: 'Other', email: 'o@other.test', plan: 'free' }))
  await createDomain(app, first, 'sender.test')
  await createDomain(app, second, 'other.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  const email = await send(app, first, 'ann@one.test')
  await send(app, first, 'bob@two.test')
  await send(app, second, 'cem@one.test', 'o@other.test')
  app.db.run("UPDATE recipients SET next_at = ?, attempts = 1, last_error = '450 busy'", [app.clock.now() + hours(1)])
  const selectors: Record<string, SelectorInput> = {
    domain: { domain: 'ONE.test' },
    account: { account_id: first.accountUuid },
    'account and domain': { account_id: first.accountUuid, domain: 'one.test' },
    email: { email_id: email },
  }
  return { service, app, selectors }
}

const SELECTED: Readonly<Record<string, readonly string[]>> = {
  domain: ['ann@one.test', 'cem@one.test'],
  account: ['ann@one.test', 'bob@two.test'],
  'account and domain': ['ann@one.test'],
  email: ['ann@one.test'],
}

const listAudited = ({ db }: App) =>
  listNewestAuditEntries(db, undefined, {}, 100)
    .filter(({ resourceType }) => resourceType === 'queue')
    .map(({ action, actorType, actorId, accountId, metadata }) => ({
      action,
      by: `${actorType} ${actorId}`,
      accountId,
      metadata: JSON.parse(metadata ?? 'null'),
    }))

test.each(Object.keys(SELECTED))(
  'mail selected by %s is due now after a retry, and ends; the rest waits on',
  async (name) => {
    const { service, app, selectors } = await createQueue()
    await using _ = service
    const input = selectors[name] ?? {}
    const selected = SELECTED[name] ?? []
    const selector = parseSelector(app, input)
    const change = async (action: QueueAction) => {
      expect(await countSelected(app, selector)).toEqual({ waiting: selected.length, in_delivery: 0 })
      const done = await changeMail(app, OPERATOR, action, selector, { reason: 'a mistake', after: undefined })
      expect(done).toEqual({ changed: selected.length, in_delivery: 0, held: 0, suspended: [], next_cursor: null })
      expect(listAudited(app)[0]).toMatchObject({
        by: 'operator cli',
        accountId: null,
        metadata: { ...input, ...(input.domain && { domain: 'one.test' }) },
      })
      const rows = Object.values(readRecipients(app))
      for (const row of rows.filter(({ address }) => !selected.includes(address))) {
        expect(row).toMatchObject({ status: 'queued', last_error: '450 busy' })
        expect(Number(row.next_at)).toBeGreaterThan(Date.now())
      }
      return rows.filter(({ address }) => selected.includes(address))
    }
    for (const row of await change('retry')) {
      expect(row).toMatchObject({ status: 'queued', last_error: '450 busy' })
      expect(Number(row.next_at)).toBeLessThanOrEqual(Date.now())
    }
    if (name === 'account') {
      const last_error = 'Dropped by the operator of the service.'
      for (const row of await change('drop')) expect(row).toMatchObject({ status: 'cancelled', last_error })
    } else {
      const last_error = 'Ended by the operator of the service: a mistake'
      const bounced = { status: 'bounced', next_at: null, bounce_category: 'expired', last_error }
      for (const row of await change('bounce')) expect(row).toMatchObject(bounced)
    }
    expectBalanced(service)
  },
)

test('a bounce by the operator leaves an event and a dead letter; a drop leaves an event, and gives the quota back', async () => {
  await using service = await createTestApp()
  const { app } = service
  const actor = await createTestAccount(app, 'free')
  await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  const used = () => app.db.query<{ n: number }, []>('SELECT sum(recipients) AS n FROM usage').get()?.n
  await send(app, actor, 'ann@one.test')
  await send(app, actor, 'bob@two.test')
  await send(app, actor, ['cem@two.test', 'dan@three.test'])
  const before = used()
  const options = { reason: 'a mistake', after: undefined }
  await changeMail(app, OPERATOR, 'bounce', { domain: 'one.test' }, options)
  expect(used()).toBe(before)
  await changeMail(app, OPERATOR, 'drop', { domain: 'two.test' }, options)
  expect(used()).toBe(Number(before) - 2)
  // Of an email with other recipients, one is rejected, so that the status follows from the others.
  expect(listStatuses(app)).toEqual({
    'ann@one.test': 'bounced',
    'bob@two.test': 'cancelled',
    'cem@two.test': 'rejected',
    'dan@three.test': 'queued',
  })
  expect(listDeadLetters(app.db, actor.accountId, 10).letters.map(({ to, reason }) => [to, reason])).toEqual([
    ['ann@one.test', 'expired'],
  ])
  const reasons = app.db
    .query<{ reason: string; rule: string | null }, []>(
      "SELECT data ->> 'reason' AS reason, data ->> 'rule' AS rule FROM events WHERE data ->> 'reason' IS NOT NULL ORDER BY seq",
    )
    .all()
  expect(reasons.map(({ reason, rule }) => [reason, rule])).toEqual([
    ['Ended by the operator of the service: a mistake', 'operator'],
    ['dropped_by_operator', null],
    ['dropped_by_operator', null],
  ])
  expectBalanced(service)
})

test('10,000 lanes are counted, and changed in one call after the other', async () => {
  await using service = await createTestApp()
  const { app } = service
  const actor = await createTestAccount(app)
  await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  const lanes = 10_000
  await send(app, actor, 'ann@d0.test')
  // The rows of one email; no counter counts them, so the data is not consistent.
  app.db.run(
    `INSERT INTO recipients (email_id, kind, address, status, lane, next_at)
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${lanes})
     SELECT 1, 0, 'x@d' || i || '.test', 0, '${actor.accountId}:d' || i || '.test', ${app.clock.now() + hours(1)} FROM n`,
  )
  const selector = parseSelector(app, { account_id: actor.accountUuid })
  expect(await countSelected(app, selector)).toEqual({ waiting: lanes + 1, in_delivery: 0 })
  const due = () =>
    app.db
      .query<{ n: number }, [number]>('SELECT count(*) AS n FROM recipients WHERE next_at <= ?')
      .get(app.clock.now())?.n ?? 0
  const first = await changeMail(app, OPERATOR, 'retry', selector, { reason: '', after: undefined })
  expect(first.changed).toBe(lanes - 1)
  const rest = { reason: '', after: first.next_cursor ?? undefined }
  expect(await changeMail(app, OPERATOR, 'retry', selector, rest)).toMatchObject({ changed: 1, next_cursor: null })
  expect(due()).toBe(lanes + 1)
  // Nobody was interrupted; all are examined.
  expect(findInterruptedRecipients(app.db, QUEUE_START, 20_000)).toEqual({ interrupted: [], place: undefined })
})

test('held mail and mail that comes later wait until they are released, other mail does not', async () => {
  await using sink = await startSink()
  await using flow = await startMailFlow({ smtpPort: sink.port, zone: GMAIL_ZONE })
  const { app, actor } = flow
  const provider = { provider: 'gmail' }
  for (const input of [{ domain: 'one.test' }, { account_id: actor.accountUuid, domain: 'one.test' }, provider]) {
    sink.messages.length = 0
    const selector = parseSelector(app, input)
    expect(await holdMail(app, OPERATOR, selector, 'They asked for a pause')).toEqual({ waiting: 0, in_delivery: 0 })
    const held = await flow.send({ to: 'ann@one.test' })
    await flow.outcome('bob@other.test')
    expect(sink.messages.map(({ rcptTo }) => rcptTo)).toEqual([['bob@other.test']])
    // The attempt for bob may still be ending.
    const states = await eventually(() => {
      const found = laneStates(flow.service)
      return found.length === 1 && found[0]?.reason.startsWith('held') && found
    })
    expect(states).toMatchObject([
      {
        lane: `${actor.accountId}:one.test`,
        reason: expect.stringMatching(
          /^held since \S+ until you release it \(tassis queue release --.+\): They asked for a pause$/,
        ),
      },
    ])
    // A retry does not override a hold.
    expect(await changeMail(app, OPERATOR, 'retry', selector, { reason: '', after: undefined })).toMatchObject({
      changed: 0,
      held: 1,
    })
    const rule = input === provider ? { provider: 'gmail', domain: null } : { domain: 'one.test' }
    expect(readRules(app)).toMatchObject([{ kind: 'hold', ...rule, created_by: 'cli', to: null }])
    // Names less than the rule of a provider, and another provider.
    expect(await releaseMail(app, OPERATOR, parseSelector(app, { provider: 'microsoft' }))).toEqual([])
    const released = input === provider ? selector : { domain: 'one.test' }
    expect(await releaseMail(app, OPERATOR, released)).toHaveLength(1)
    expect((await flow.settled(held)).recipients).toMatchObject([{ status: 'sent' }])
    expect(readRules(app)).toEqual([])
  }
  expectBalanced(flow.service)
})

test('a held email waits, with one event, while other mail of its lane is delivered', async () => {
  await using sink = await startSink()
  await using flow = await startMailFlow({ smtpPort: sink.port, zone: MX('one.test') })
  const { app } = flow
  const held = await flow.send({ to: 'ann@one.test', send_at: new Date(app.clock.now() + hours(1)).toISOString() })
  const selector = parseSelector(app, { email_id: held.id })
  await holdMail(app, OPERATOR, selector, '')
  // Its time comes.
  app.db.run('UPDATE recipients SET next_at = 1')
  await flow.outcome('bob@one.test')
  const last = () => flow.events(held).at(-1)
  await eventually(() => last()?.type === 'deferred')
  expect(last()?.data.reason).toBe('Held by the operator of the service.')
  expect(sink.messages).toHaveLength(1)
  const describe = async () => describeLanes(app, flow.service.delivery?.scheduler, await readLanes(app))
  await eventually(async () => (await describe())[0]?.includes('until you release it (tassis queue release --email '))
  expect(await releaseMail(app, OPERATOR, selector)).toMatchObject([{ email_id: held.id }])
  expect((await flow.settled(held)).recipients).toMatchObject([{ status: 'sent' }])
  expectBalanced(flow.service)
})

test.each(['drop', 'bounce'] as const)('the hold of an email ends with the email: %s', async (action) => {
  const { service, app, selectors } = await createQueue()
  await using _ = service
  const selector = parseSelector(app, selectors['email'] ?? {})
  await holdMail(app, OPERATOR, parseSelector(app, { domain: 'two.test' }), '')
  await holdMail(app, OPERATOR, selector, '')
  const lane = async () => (await readLanes(app)).find(({ lane }) => lane.endsWith('one.test'))?.lane ?? ''
  expect(listLaneRecipients(app.db, await lane(), 1, undefined)).toMatchObject([{ waits_for: 'hold' }])
  await changeMail(app, OPERATOR, action, selector, { reason: 'a mistake', after: undefined })
  expect(readRules(app)).toMatchObject([{ domain: 'two.test' }])
  await expect(holdMail(app, OPERATOR, selector, '')).rejects.toThrow(
    /^The email is (cancelled|bounced): nothing of it/,
  )
  if (action === 'drop') return
  const [letter] = app.db
    .query<{ id: number; accountId: number }, []>('SELECT id, account_id AS accountId FROM dead_letters')
    .all()
  await retryDeadLetter(
    app,
    toOperatorActor(getAccount(app.config, app.db, letter?.accountId ?? 0)),
    String(letter?.id),
  )
  expect(listLaneRecipients(app.db, await lane(), 1, undefined)).toMatchObject([
    { recipient: 'ann@one.test', waits_for: null },
  ])
})

test('a hold of a provider is the reason of mail that is not due, before delivery has looked up its provider', async () => {
  await using flow = await startMailFlow({ zone: MX('one.test') })
  const { app } = flow
  await flow.send({ to: 'ann@one.test', send_at: new Date(app.clock.now() + hours(1)).toISOString() })
  const describe = async () => describeLanes(app, flow.service.delivery?.scheduler, await readLanes(app))
  expect(await describe()).toEqual(['scheduled'])
  await holdMail(app, OPERATOR, parseSelector(app, { provider: 'mx.one.test' }), 'listed')
  expect(await describe()).toEqual([
    expect.stringMatching(/^held since .* \(tassis queue release --provider mx\.one\.test\): listed$/) as string,
  ])
})

test('held mail does not expire', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  await using sink = await startSink()
  await using flow = await startMailFlow({ clock, smtpPort: sink.port, zone: MX('one.test') })
  const { app } = flow
  await holdMail(app, OPERATOR, { domain: 'one.test' }, '')
  const held = await flow.send({ to: 'ann@one.test' })
  for (let day = 0; day < 30; day++) {
    clock.advance(hours(24))
    await app.commit.barrier()
  }
  expect(listStatuses(app)).toEqual({ 'ann@one.test': 'queued' })
  expect(sink.messages).toEqual([])
  await releaseMail(app, OPERATOR, { domain: 'one.test' })
  expect((await flow.settled(held)).recipients).toMatchObject([{ status: 'sent' }])
})

test('redirected mail goes to the host that the operator names, until the redirect is ended', async () => {
  await using own = await startSink()
  await using other = await startSink()
  await using flow = await startMailFlow({ smtpPort: own.port, zone: { ...MX('one.test'), ...MX('two.test') } })
  const { app, actor } = flow
  const receivedBy = async (to: string) => {
    const before = [own.messages.length, other.messages.length]
    expect((await flow.outcome(to)).recipient.status).toBe('sent')
    return own.messages.length > Number(before[0])
      ? 'its MX'
      : other.messages.length > Number(before[1])
        ? 'other'
        : 'none'
  }
  expect(await receivedBy('ann@one.test')).toBe('its MX')
  for (const input of [{ domain: 'one.test' }, { account_id: actor.accountUuid }]) {
    await redirectMail(app, OPERATOR, parseSelector(app, input), `[127.0.0.1]:${other.port}`, 'They move')
    expect(await receivedBy('ann@one.test')).toBe('other')
    expect(await receivedBy('bob@two.test')).toBe('domain' in input ? 'its MX' : 'other')
    expect(await releaseMail(app, OPERATOR, parseSelector(app, input), 'hold')).toEqual([])
    expect(await releaseMail(app, OPERATOR, parseSelector(app, input), 'redirect')).toMatchObject([
      { kind: 'redirect', to: `[127.0.0.1]:${other.port}`, reason: 'They move' },
    ])
    expect(await receivedBy('ann@one.test')).toBe('its MX')
  }
  // A domain: its MX hosts.
  await redirectMail(app, OPERATOR, { domain: 'one.test' }, `two.test:${other.port}`, '')
  expect(await receivedBy('ann@one.test')).toBe('other')
  // A target that does not resolve bounces nothing.
  await redirectMail(app, OPERATOR, { domain: 'one.test' }, 'missing.test', '')
  expect((await flow.outcome('ann@one.test')).recipient).toMatchObject({
    status: 'queued',
    lastError:
      '451 4.4.4 The operator redirects this mail to missing.test: 550 5.1.2 The domain missing.test does not exist',
  })
  expectBalanced(flow.service)
})

describe('mail selected by provider', () => {
  test('is that of all domains whose MX hosts are its own, also among more lanes than are looked up at once', async () => {
    await using flow = await startMailFlow({ zone: GMAIL_ZONE })
    const { app, actor } = flow
    const send_at = new Date(app.clock.now() + hours(1)).toISOString()
    for (const to of ['ann@one.test', 'bob@two.test', 'cem@other.test', 'dan@missing.test'])
      await flow.send({ to, send_at })
    for (let i = 0; i < 120; i++) await flow.send({ to: `x@d${i}.missing.test`, send_at })
    const options = { reason: 'a mistake', after: undefined }
    const count = async (input: SelectorInput) => (await countSelected(app, parseSelector(app, input))).waiting
    expect(await count({ provider: 'Gmail' })).toBe(2)
    expect(await count({ provider: 'gmail', domain: 'two.test' })).toBe(1)
    expect(await count({ provider: 'gmail', account_id: actor.accountUuid })).toBe(2)
    expect(await count({ provider: 'mx.other.test' })).toBe(1)
    expect(await count({ provider: 'microsoft' })).toBe(0)
    expect(await changeMail(app, OPERATOR, 'drop', parseSelector(app, { provider: 'gmail' }), options)).toMatchObject({
      changed: 2,
      next_cursor: null,
    })
    expect(listStatuses(app)).toMatchObject({
      'ann@one.test': 'cancelled',
      'bob@two.test': 'cancelled',
      'cem@other.test': 'scheduled',
      'dan@missing.test': 'scheduled',
    })
    expect(listAudited(app)[0]).toMatchObject({ action: 'queue.dropped', metadata: { provider: 'gmail' } })
    expectBalanced(flow.service)
  })

  test('goes where the operator redirects it; a redirect of a domain comes first', async () => {
    await using own = await startSink()
    await using other = await startSink()
    await using third = await startSink()
    await using flow = await startMailFlow({ smtpPort: own.port, zone: GMAIL_ZONE })
    const { app } = flow
    await redirectMail(app, OPERATOR, parseSelector(app, { provider: 'gmail' }), `[127.0.0.1]:${other.port}`, '')
    await redirectMail(app, OPERATOR, parseSelector(app, { domain: 'two.test' }), `[127.0.0.1]:${third.port}`, '')
    for (const to of ['ann@one.test', 'bob@two.test', 'cem@other.test'])
      expect((await flow.outcome(to)).recipient.status).toBe('sent')
    const receivedBy = [other, third, own].map(({ messages }) => messages.map(({ rcptTo }) => rcptTo))
    expect(receivedBy).toEqual([[['ann@one.test']], [['bob@two.test']], [['cem@other.test']]])
  })
})

describe('a retry', () => {
  test('ends the backoff of a site once; a failure after it begins another', async () => {
    const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
    let connections = 0
    await using server = await startScriptedSmtp({ greeting: () => `421 4.3.2 closed ${++connections}` })
    await using flow = await startMailFlow({ clock, smtpPort: server.port, zone: MX('one.test') })
    const { app } = flow
    const { recipient } = await flow.outcome('ann@one.test')
    expect(recipient.status).toBe('queued')
    const before = connections
    // Comes during the backoff, so it waits without an attempt.
    await flow.send({ to: 'bob@one.test' })
    await eventually(() => laneStates(flow.service)[0]?.reason.includes('is in backoff'))
    expect(connections).toBe(before)
    const options = { reason: '', after: undefined }
    await changeMail(app, OPERATOR, 'retry', { domain: 'one.test' }, options)
    await eventually(() => connections > before)
  })

  test('says which provider is suspended, and leaves it so', async () => {
    await using server = await startScriptedSmtp({
      mail: () => '550 5.7.1 Service unavailable; client [192.0.2.1] blocked using Spamhaus',
    })
    await using flow = await startMailFlow({ smtpPort: server.port, zone: GMAIL_ZONE })
    const { app } = flow
    const { recipient } = await flow.outcome('ann@one.test')
    expect(recipient.status).toBe('queued')
    const retry = (input: SelectorInput) =>
      changeMail(app, OPERATOR, 'retry', parseSelector(app, input), { reason: '', after: undefined })
    await eventually(async () => (await retry({ domain: 'one.test' })).suspended.length > 0)
    expect((await retry({ domain: 'one.test' })).suspended).toEqual(['gmail'])
    expect((await retry({ domain: 'other.test' })).suspended).toEqual([])
    const [pair] = flow.service.delivery?.scheduler.pairs.all() ?? []
    expect(pair?.state.suspension).toBeDefined()
  })
})

test('mail in delivery is left alone and counted', async () => {
  const waits = Promise.withResolvers<string>()
  await using server = await startScriptedSmtp({ rcpt: () => waits.promise })
  await using flow = await startMailFlow({ smtpPort: server.port, zone: MX('one.test') })
  const { app } = flow
  const sent = await flow.send({ to: 'ann@one.test' })
  await eventually(() => listStatuses(app)['ann@one.test'] === 'processing')
  const options = { reason: 'a mistake', after: undefined }
  for (const action of ['bounce', 'drop', 'retry'] as const)
    expect(await changeMail(app, OPERATOR, action, { domain: 'one.test' }, options)).toMatchObject({
      changed: 0,
      in_delivery: 1,
    })
  expect(await holdMail(app, OPERATOR, { domain: 'one.test' }, '')).toEqual({ waiting: 0, in_delivery: 1 })
  waits.resolve('250 2.1.5 OK')
  expect((await flow.settled(sent)).recipients).toMatchObject([{ status: 'sent' }])
  expectBalanced(flow.service)
})

describe('input', () => {
  test('a selector names existing mail; the simulator is named as the queue shows it, or by its domain', async () => {
    await using service = await createTestApp()
    const { app } = service
    for (const [input, message] of [
      [{}, 'Name the mail: a domain, a provider, an account or an email.'],
      [{ domain: 'not a domain' }, '"not a domain" is not a domain name; write it as example.com.'],
      [{ provider: 'gmial' }, '"gmial" is not a provider; `tassis providers --all` lists their names.'],
      [{ provider: 'default' }, '"default" is not a provider;'],
      [{ account_id: 'x' }, 'No account has this id.'],
      [{ email_id: 'x' }, 'No email has this id.'],
      [{ email_id: 'x', domain: 'one.test' }, 'An email is named alone, without a domain, a provider or an account.'],
    ] as const)
      expect(() => parseSelector(app, input)).toThrow(message)
    for (const domain of ['simulator', `sim.${app.config.hostname}`, `SIM.${app.config.hostname}`])
      expect(parseSelector(app, { domain })).toEqual({ domain: 'simulator' })
  })

  test('a reason is required for a bounce, and has a maximum', () => {
    expect(() => parseReason(' ', true)).toThrow('The reason must have 1 to 300 characters.')
    expect(() => parseReason('x'.repeat(301), false)).toThrow('The reason must have 1 to 300 characters.')
    expect(parseReason(' a\n\u0007b ', true)).toBe('a b')
  })

  test('a redirect needs a destination, and is not for one email; a hold replaces the one before', async () => {
    await using service = await createTestApp()
    const { app } = service
    for (const to of ['', 'host', '[host', 'one.test:0', 'one.test:70000', 'a b.test', '[2001:db8::1]:x'])
      expect(redirectMail(app, OPERATOR, { domain: 'one.test' }, to, '')).rejects.toThrow('is not a destination; write')
    expect(redirectMail(app, OPERATOR, { emailId: 1 }, 'one.test', '')).rejects.toThrow(
      'One email cannot be redirected',
    )
    await redirectMail(app, OPERATOR, { domain: 'one.test' }, '[2001:db8::1]:2525', '')
    // A hold of the same mail replaces the one before.
    for (const reason of ['one', 'two']) await holdMail(app, OPERATOR, { domain: 'one.test' }, reason)
    expect(readRules(app)).toMatchObject([{ to: '[2001:db8::1]:2525' }, { reason: 'two' }])
  })
})

test.each(['bounce', 'drop'] as const)(
  'broadcast mail can be ended by a %s; the data stays consistent',
  async (action) => {
    // No receiver answers, so the mail waits.
    await using service = await createEmailApi({
      delivers: true,
      runsTasks: true,
      settings: { TASSIS_DELIVERY: 'relay', TASSIS_RELAY_URL: 'smtp://127.0.0.1:9', TASSIS_RELAY_TLS: 'opportunistic' },
    })
    const { app, api } = service
    const list_id = await newList(service, 'News')
    await addContacts(app, list_id, createContacts(12))
    const begun = await api('POST', '/v1/emails/broadcast', {
      contact_list_id: list_id,
      from_address: 'Ada <ada@sender.test>',
      subject: 'News',
      text_body: 'Hello.',
    })
    expect(begun.status).toBe(202)
    await eventually(() => Object.keys(listStatuses(app)).length === 12)
    let changed = 0
    await eventually(async () => {
      const options = { reason: 'a mistake', after: undefined }
      changed += (await changeMail(app, OPERATOR, action, { domain: 'receiver.test' }, options)).changed
      return changed === 12
    })
    const statuses = new Set(Object.values(listStatuses(app)))
    expect([...statuses]).toEqual([action === 'bounce' ? 'bounced' : 'rejected'])
    await eventually(() => service.delivery?.scheduler.inFlight === 0)
    expectBalanced(service)
  },
)
