import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { checkConsistency } from '#app/cli/check.ts'
import { dropFence, readFenceView, releaseFence } from '#app/fence/release.ts'
import { changeSequence, recordEvent } from '#features/audience/sequences/sequences.ts'
import type { Actor } from '#features/core/app/app.ts'
import { markAsCopy } from '#features/core/fence/restored.ts'
import { applyEffects } from '#features/receiving/inbound/process/effects.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { INBOUND_DOMAIN, startPostOffice } from '#test/flows/post-office.ts'
import { at } from '#test/support/api.ts'
import { createTestApp, eventually, type TestAppOptions } from '#test/support/app.ts'
import { NOW } from '#test/support/email-api.ts'
import { createFolder } from '#test/support/folder.ts'
import { createTestReceived } from '#test/support/inbound.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { ask, type ConfirmingService, createConfirmingService, leave } from '../contact-lists/confirmation-fixture.ts'

type Json = Record<string, unknown>

/** A service whose templates `step-1` to `step-4` send `Step N for NAME`. */
async function createService(options: TestAppOptions = {}) {
  const service = await createConfirmingService(options)
  const { api, app, clock } = service
  let seen = 0
  const call = async (method: string, path: string, body?: Json, status = 200): Promise<Json> => {
    const answer = await api(method, `/v1${path}`, body)
    if (answer.status !== status) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    return (answer.body === undefined ? {} : at(answer.body, 'data')) as Json
  }
  for (const step of [1, 2, 3, 4])
    await call(
      'POST',
      '/templates',
      {
        ...{ alias: `step-${step}`, name: `Step ${step}`, subject: `Step ${step} for {{ contact.name }}` },
        text_body: TEMPLATE.text_body,
      },
      201,
    )
  return {
    ...service,
    call,
    /** An active sequence. */
    async sequence(body: Json): Promise<string> {
      const steps = [step(1, '0'), step(2, '3d'), step(3, '2h')]
      const defaults = { name: 'Welcome', from: 'Ada <ada@sender.test>', status: 'active', steps }
      return String((await call('POST', '/sequences', { ...defaults, ...body }, 201))['id'])
    },
    enter: (email: string, name = 'signed_up') =>
      call('POST', '/sequences/events', { name, email, variables: { name: email.split('@')[0] } }, 202),
    people: async (id: string) =>
      ((await call('GET', `/sequences/${id}/people`)) as unknown as Json[])
        .map(({ email, status, reason, steps_sent: sent }) => [email, status, reason, sent])
        .toReversed(),
    /** Moves the time, and returns what was sent since the last call, once nothing more is due, or what is due is held. */
    async pass(ms: number, isHeld = false): Promise<string[]> {
      clock.advance(ms)
      const due = () =>
        app.db.query<{ n: number }, [number]>('SELECT count(*) AS n FROM notices WHERE due_at <= ?').get(clock.now())?.n
      if (isHeld) await Bun.sleep(300)
      else await eventually(() => due() === 0)
      await app.commit.barrier()
      const sent = service.sent().slice(seen)
      seen += sent.length
      return sent.map(({ to, subject }) => `${subject.slice(0, 6)} ${to.split('@')[0]}`)
    },
    /** A message to the account that answers its newest email. */
    async reply(isAutomatic = false) {
      const { uuid } = app.db.query<{ uuid: Uint8Array }, []>('SELECT uuid FROM emails ORDER BY id DESC').get() ?? {}
      const domain = app.db.query<{ id: number }, []>('SELECT id FROM domains ORDER BY id').get()
      const inReplyTo = `<${formatUuid((uuid ?? new Uint8Array(16)) as never)}@sender.test>`
      const received = await createTestReceived(app, { message: { inReplyTo, isAutomatic } })
      const { accountId } = service.actor
      const to = { kind: 'domain', address: 'ada@sender.test', accountId, domainId: domain?.id ?? 0 } as const
      const prepared = { received, report: undefined, reportProblem: undefined, classification: undefined }
      await app.commit.write((tx) => void applyEffects(app, tx, [to], prepared))
    },
  }
}

const TEMPLATE = { name: 'Step', text_body: '{{ contact.email }} {{ unsubscribe_url }}' }

const step = (number: number, delay: string): Json => ({ delay, template_alias: `step-${number}` })

/** A separate connection, since the check leaves tables behind. */
function expectSound({ dataDir }: Pick<ConfirmingService, 'dataDir'>): void {
  using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
  expect(checkConsistency(db).filter(({ differences }) => differences.length > 0)).toEqual([])
}

describe('a sequence', () => {
  // Proves: sequence-1, sequence-2
  test('sends each step once, with delays from the step before, to who enters by an event, also after days of sleep', async () => {
    await using service = await createService()
    const id = await service.sequence({ event: 'signed_up' })
    expect([await service.enter('bob@receiver.test'), await service.enter('Bob@receiver.test')]).toEqual([
      { entered: 1, stopped: 0 },
      { entered: 0, stopped: 0 },
    ])
    expect(await service.pass(0)).toEqual(['Step 1 bob'])
    expect(await service.pass(days(3) - hours(3))).toEqual([])
    // The machine sleeps: the third step is due two hours after the second, not at once.
    service.clock.jumpTo(service.clock.now() + hours(6))
    expect(await service.pass(minutes(2))).toEqual(['Step 2 bob'])
    expect(await service.pass(hours(2) - minutes(3))).toEqual([])
    expect(await service.pass(minutes(4))).toEqual(['Step 3 bob'])
    expect(await service.people(id)).toEqual([['bob@receiver.test', 'finished', null, 3]])
    await service.enter('bob@receiver.test')
    expect(await service.pass(days(9))).toEqual([])
    const [first] = service.app.db.query<Json, []>('SELECT subject, transactional, extra FROM emails ORDER BY id').all()
    expect(first).toMatchObject({ subject: 'Step 1 for bob', transactional: 0 })
    expect(JSON.parse(String(first?.['extra']))['metadata']).toEqual({ sequence_id: id, step: 'step-1' })
    expectSound(service)
  })

  // Proves: sequence-1, sequence-3
  test('of a list begins once a contact has confirmed, and ends when it leaves by the link in the email', async () => {
    await using service = await createService()
    const list = await service.list()
    await service.add(list, { email: 'early@receiver.test', metadata: { name: 'early' }, confirmed: true })
    const id = await service.sequence({ list_id: list })
    await service.add(list, { email: 'bob@receiver.test', metadata: { name: 'Bob' } })
    expect(await service.pass(hours(1))).toEqual(['Please bob'])
    await ask(service, 'POST', await service.link('bob@receiver.test'))
    expect(await service.pass(0)).toEqual(['Step 1 bob'])
    const found = (await service.api('GET', '/v1/emails')).body
    const { text_body: text } = await service.detail(at(found, 'data', 0, 'id'))
    await fetch(`${service.url}${new URL(String(text).split(' ')[1] ?? '').pathname}`, { method: 'POST' })
    const stopped = [['bob@receiver.test', 'stopped', 'unsubscribed', 1]]
    expect(await service.people(id)).toEqual(stopped)
    expect(await service.pass(days(4))).toEqual([])
    expect(await service.people(id)).toEqual(stopped)
    expectSound(service)
  })

  // Proves: sequence-3
  test('stops at a reply, but not at an automatic one, at a suppression, an event and a removed contact', async () => {
    await using service = await createService()
    const { app, call } = service
    const id = await service.sequence({ event: 'signed_up', stop_event: 'purchased' })
    await service.enter('away@receiver.test')
    await service.pass(0)
    await service.reply(true)
    await service.enter('answers@receiver.test')
    await service.pass(0)
    await service.reply()
    for (const name of ['complains', 'buys']) await service.enter(`${name}@receiver.test`)
    await service.pass(0)
    const address = 'complains@receiver.test'
    await app.commit.write((tx) =>
      suppress(app, tx, { accountId: service.actor.accountId, address, reason: 'complaint', covers: 'all' }),
    )
    expect(await service.enter('buys@receiver.test', 'purchased')).toEqual({ entered: 0, stopped: 1 })
    expect(await service.pass(days(4))).toEqual(['Step 2 away'])
    expect(await service.pass(days(4))).toEqual(['Step 3 away'])
    expect(await service.people(id)).toEqual([
      ['away@receiver.test', 'finished', null, 3],
      ['answers@receiver.test', 'stopped', 'replied', 1],
      ['complains@receiver.test', 'stopped', 'complained', 1],
      ['buys@receiver.test', 'stopped', 'event', 1],
    ])
    const list = await service.list({ double_opt_in: false })
    const ofList = await service.sequence({ list_id: list })
    await service.add(list, { email: 'gone@receiver.test', metadata: { name: 'gone' } })
    await service.pass(0)
    await call('DELETE', `/contact-lists/${list}/contacts/gone@receiver.test`, undefined, 204)
    await leave(service, list, 'gone@receiver.test')
    expect(await service.pass(days(4))).toEqual([])
    expect(await service.people(ofList)).toEqual([['gone@receiver.test', 'stopped', 'removed', 1]])
    expectSound(service)
  })

  // Proves: sequence-4
  test('may be edited while people are in it: they keep their place', async () => {
    await using service = await createService()
    const id = await service.sequence({ event: 'signed_up', steps: [step(1, '0'), step(2, '1d'), step(3, '1d')] })
    await service.enter('bob@receiver.test')
    await service.pass(0)
    expect(await service.pass(days(1))).toEqual(['Step 2 bob'])
    await service.enter('eve@receiver.test')
    expect(await service.pass(0)).toEqual(['Step 1 eve'])
    // Bob's last step goes, a step before it is new, and the delay of the next one is longer.
    const steps = [step(1, '0'), step(4, '1h'), step(3, '2d')]
    // The same change again changes nothing.
    for (const _ of [1, 2])
      expect(await service.call('PUT', `/sequences/${id}`, { steps })).toMatchObject({ steps, status: 'active' })
    expect(await service.pass(hours(1))).toEqual(['Step 4 eve'])
    expect(await service.pass(days(1))).toEqual([])
    expect(await service.pass(days(1))).toEqual(['Step 3 bob', 'Step 3 eve'])
    const answers = await Promise.all(
      [
        [step(3, '0'), step(1, '1s')],
        [step(1, '0'), step(1, '1h')],
        [step(9, '0')],
        [step(1, '9 weeks')],
        [step(1, '366d')],
      ].map((wrong) => service.api('PUT', `/v1/sequences/${id}`, { steps: wrong })),
    )
    expect(answers.map(({ status, body }) => [status, at(body, 'details', 0, 'field')])).toEqual([
      [422, 'steps.1'],
      [422, 'steps.1'],
      [422, 'steps.0.template_alias'],
      [422, 'steps.0.delay'],
      [422, 'steps.0.delay'],
    ])
    expectSound(service)
  })

  // Proves: sequence-4
  test('goes on in time after a clock that was ahead, also when it was edited since', async () => {
    await using service = await createService()
    const id = await service.sequence({ event: 'signed_up', steps: [step(1, '1d'), step(2, '1d')] })
    const { clock } = service
    const now = clock.now()
    clock.jumpTo(now + days(300))
    await service.enter('bob@receiver.test')
    clock.jumpTo(now)
    await service.call('PUT', `/sequences/${id}`, { steps: [step(1, '2d'), step(2, '1d')] })
    expect(await service.pass(days(1))).toEqual([])
    expect(await service.pass(days(1))).toEqual(['Step 1 bob'])
    expect(await service.pass(days(1))).toEqual(['Step 2 bob'])
  })

  // Proves: sequence-9
  test.each([
    ['drops', dropFence, ['Step 4 bob', 'Step 4 eve', 'Step 4 zoe']],
    ['releases', releaseFence, ['Step 2 bob', 'Step 1 eve', 'Step 1 zoe']],
  ] as const)('sends nothing twice from a restored copy until an operator %s it', async (_, decide, later) => {
    using folder = createFolder()
    const [original, copy] = [folder.pathOf('original'), folder.pathOf('copy')]
    let actor: Actor
    const ids: string[] = []
    {
      await using service = await createService({ dataDir: original })
      actor = service.actor
      const steps = [step(1, '0'), step(2, '3d'), step(3, '2h'), step(4, '30d')]
      for (const event of ['signed_up', 'paused', 'held']) ids.push(await service.sequence({ event, steps }))
      for (const id of ids.slice(1)) await service.call('PUT', `/sequences/${id}`, { status: 'paused' })
      await service.enter('bob@receiver.test')
      await service.enter('eve@receiver.test', 'paused')
      await service.enter('zoe@receiver.test', 'held')
      expect(await service.pass(0)).toEqual(['Step 1 bob'])
    }
    cpSync(original, copy, { recursive: true })
    {
      using db = new Database(join(copy, 'tassis.db'))
      markAsCopy(db, { kind: 'backup', takenAt: NOW })
    }
    // Steps 2 and 3 were due since then.
    const clock = new ManualClock(NOW + days(4))
    await using restored = await createTestApp({ dataDir: copy, runsTasks: true, clock })
    const { app } = restored
    let seen = 1
    /** What was sent, at least so many. */
    const pass = async (ms: number, count: number): Promise<string[]> => {
      clock.advance(ms)
      const query = app.db.query<{ mail: string }, []>(
        `SELECT substr(subject, 1, 7) || substr(address, 1, instr(address, '@') - 1) AS mail FROM emails JOIN recipients ON email_id = emails.id ORDER BY emails.id`,
      )
      await Bun.sleep(100)
      await eventually(() => query.all().length >= seen + count)
      const sent = query.all().slice(seen)
      seen += sent.length
      return sent.map(({ mail }) => mail)
    }
    const change = (index: number, status: 'active' | 'paused') =>
      changeSequence(app, actor, String(ids[index]), { status })
    for (const status of ['paused', 'active'] as const) {
      await change(0, status)
      expect(await pass(minutes(1), 0)).toEqual([])
    }
    await change(1, 'active')
    await recordEvent(app, actor, { name: 'signed_up', email: 'new@receiver.test', variables: { name: 'new' } })
    expect(await pass(minutes(1), 1)).toEqual(['Step 1 new'])
    expect(await pass(hours(1), 0)).toEqual([])
    expect(await readFenceView(app)).toMatchObject({ contact_mails: 2, recipients: 1 })
    const operator = { accountId: null, type: 'operator', id: 'cli' } as const
    expect(await decide(app, operator, {})).toMatchObject({ is_ended: true })
    await change(2, 'active')
    if (decide === dropFence) {
      expect(await pass(days(3), 1)).toEqual(['Step 2 new'])
      expect(await pass(hours(3), 1)).toEqual(['Step 3 new'])
    }
    expect((await pass(decide === dropFence ? days(26) : 0, 3)).toSorted()).toEqual(later.toSorted())
    expectSound(restored)
  })

  // Proves: sequence-5
  test('waits while it is paused, while the account is, and while its quota is used up', async () => {
    await using service = await createService()
    const { app, actor, call } = service
    const id = await service.sequence({ event: 'signed_up' })
    await call('PUT', `/sequences/${id}`, { status: 'paused' })
    await service.enter('bob@receiver.test')
    expect(await service.pass(hours(1))).toEqual([])
    app.db.run("UPDATE accounts SET paused_at = 1, pause_reason = 'Checked.' WHERE id = ?", [actor.accountId])
    await call('PUT', `/sequences/${id}`, { status: 'active' })
    expect(await service.pass(hours(1), true)).toEqual([])
    app.db.run('UPDATE accounts SET paused_at = NULL, pause_reason = NULL WHERE id = ?', [actor.accountId])
    expect(await service.pass(hours(1))).toEqual(['Step 1 bob'])
    app.db.run("UPDATE accounts SET plan = 'free' WHERE id = ?", [actor.accountId])
    app.db.run('UPDATE usage SET recipients = 1000000')
    expect(await service.pass(days(3), true)).toEqual([])
    expect(await service.people(id)).toEqual([['bob@receiver.test', 'active', null, 1]])
    app.db.run('UPDATE usage SET recipients = 1')
    expect(await service.pass(hours(1))).toEqual(['Step 2 bob'])
  })

  // Proves: sequence-5, sequence-6
  test('holds only whose step cannot be rendered, says why, and loses nobody', async () => {
    await using service = await createService()
    const { api, call } = service
    const id = await service.sequence({ event: 'signed_up' })
    await call('POST', '/sequences/events', { name: 'signed_up', email: 'bob@receiver.test' }, 202)
    await service.enter('eve@receiver.test')
    expect(await service.pass(0)).toEqual(['Step 1 eve'])
    const problem = expect.stringMatching(/^Step 1 cannot be sent: .*contact\.name/)
    expect(await service.people(id)).toEqual([
      ['bob@receiver.test', 'active', problem, 0],
      ['eve@receiver.test', 'active', null, 1],
    ])
    const [template] = ((await call('GET', '/templates')) as unknown as Json[]).filter(
      ({ alias }) => alias === 'step-4',
    )
    await call('PUT', `/templates/${template?.['id']}`, { subject: 'Step 4' })
    await call('PUT', `/sequences/${id}`, { steps: [step(4, '0'), step(1, '1d')] })
    // At once; Eve has got the step after it. A clock that moves during a render would end it.
    expect(await service.pass(0)).toEqual(['Step 4 bob'])
    for (const body of [{ steps: [] }, {}]) expect((await api('PUT', `/v1/sequences/${id}`, body)).status).toBe(422)
    expect(await service.people(id)).toContainEqual(['bob@receiver.test', 'active', null, 1])
    const person = await call('GET', '/gdpr/export?email=BOB@receiver.test')
    expect(person['sequences']).toMatchObject([{ sequence: 'Welcome', status: 'active', steps_sent: 1 }])
    const all = at((await api('GET', '/v1/account/export')).body, 'data') as Json
    expect([all['sequences'], all['sequence_people']]).toMatchObject([[{ id }], [{ sequence_id: id }, {}]])
    // A person is deleted with its address, and the people of a deleted sequence in batches.
    await api('DELETE', '/v1/gdpr/erase?email=bob@receiver.test')
    await call('DELETE', `/sequences/${id}`, undefined, 204)
    await eventually(() => service.app.db.query('SELECT id FROM sequence_people').all().length === 0)
    expectSound(service)
  })

  // Proves: sequence-3, sequence-6
  test('outlives the deletion of its list, its template and its domain', async () => {
    await using service = await createService()
    const { api, call } = service
    const list = await service.list({ double_opt_in: false })
    const steps = [step(1, '0'), step(2, '1d')]
    const ids = [
      await service.sequence({ list_id: list, steps }),
      await service.sequence({ event: 'signed_up', steps }),
    ]
    await service.add(list, { email: 'listed@receiver.test', metadata: { name: 'listed' } })
    await service.enter('bob@receiver.test')
    expect((await service.pass(0)).toSorted()).toEqual(['Step 1 bob', 'Step 1 listed'])
    await call('DELETE', `/contact-lists/${list}`, undefined, 204)
    const idOf = async (path: string, field: string, value: string) =>
      ((await call('GET', path)) as unknown as Json[]).find((row) => row[field] === value)?.['id']
    await call('DELETE', `/templates/${await idOf('/templates', 'alias', 'step-2')}`, undefined, 204)
    await service.pass(days(1))
    expect(await Promise.all(ids.map(service.people))).toEqual([
      [['listed@receiver.test', 'stopped', 'removed', 1]],
      [['bob@receiver.test', 'active', 'Step 2 cannot be sent: There is no template with the alias "step-2".', 1]],
    ])
    await call('PUT', `/sequences/${ids[1]}`, { steps: [step(1, '0'), step(3, '2d')] })
    await call('DELETE', `/domains/${await idOf('/domains', 'domain', 'sender.test')}`, undefined, 204)
    await service.pass(days(1))
    await eventually(async () => String((await service.people(String(ids[1])))[0]?.[2]).includes('is not registered'))
    await service.api('DELETE', `/v1/sequences/${ids[0]}`)
    await eventually(() => service.app.db.query('SELECT DISTINCT sequence_id FROM sequence_people').all().length === 1)
    expectSound(service)
    expect((await api('GET', `/v1/sequences/${ids[0]}/people`)).status).toBe(404)
  })

  test('sends in the language of its person, else in a broader or the default one; its link stops the person', async () => {
    await using service = await createService()
    const { app, call } = service
    for (const locale of ['de', 'fr'])
      await call('POST', '/templates', { ...TEMPLATE, alias: 'step-1', locale, subject: `Step ${locale}` }, 201)
    const id = await service.sequence({ event: 'signed_up' })
    for (const [name, locale] of [
      ['a', 'de-AT'],
      ['b', 'xx'],
      ['c', 7],
      ['d', 'not a locale'],
    ]) {
      const variables = { name, locale }
      await call('POST', '/sequences/events', { name: 'signed_up', email: `${name}@receiver.test`, variables }, 202)
    }
    expect((await service.pass(0)).toSorted()).toEqual(['Step 1 b', 'Step 1 c', 'Step 1 d', 'Step d a'])
    const { uuid } = app.db.query<{ uuid: Uint8Array }, []>('SELECT uuid FROM emails ORDER BY id').get() ?? {}
    const { text_body: text, to } = await service.detail(formatUuid(uuid as never))
    await fetch(`${service.url}${new URL(String(text).split(' ')[1] ?? '').pathname}`, { method: 'POST' })
    await service.pass(days(3))
    expect((await service.people(id)).filter(([, status]) => status === 'stopped')).toEqual([
      [String(to), 'stopped', 'unsubscribed', 1],
    ])
  })

  // Proves: sequence-8
  test('is not started by a key whose sends are restricted, nor from a domain that the key may not use', async () => {
    await using service = await createService()
    const { api, call } = service
    const id = await service.sequence({ event: 'signed_up' })
    service.app.db.run('UPDATE domains SET inbound_enabled = 1')
    const mailbox = await call('POST', '/agent-mailboxes', { local_part: 'agent' }, 201)
    for (const limits of [
      ...[{ drafts: true }, { allowed_recipients: ['bob@receiver.test'] }, { daily_limit: 5 }],
      { mailbox_id: mailbox['id'] },
      { domains: ['other.test'], scopes: ['emails:send', 'contacts:write'] },
    ]) {
      const made = await call('POST', '/api-keys', { name: 'k', scopes: ['emails:send'], ...limits }, 201)
      const ask = async (method: string, path: string, body: Json) =>
        (await api(method, `/v1/sequences${path}`, body, { key: String(made['key']) })).status
      const body = { name: 'x', from: 'ada@sender.test', event: 'x', steps: [step(1, '0')], status: 'active' }
      expect([
        limits,
        await ask('POST', '', body),
        await ask('PUT', `/${id}`, { status: 'active' }),
        await ask('POST', '/events', { name: 'signed_up', email: 'bob@receiver.test' }),
      ]).toEqual([limits, 403, 403, 403])
    }
    expect(await service.people(id)).toEqual([])
  })

  // Proves: sequence-3
  test('stops at an answer and at a hard bounce over real sockets', async () => {
    await using server = await startScriptedSmtp({
      rcpt: (line) => (line.includes('gone@') ? '550 5.1.1 No such user' : '250 2.1.5 Ok'),
    })
    await using office = await startPostOffice({ TASSIS_SMTP_PORT: String(server.port) }, { runsTasks: true })
    const call = async (method: string, path: string, body?: Json) =>
      at((await office.api(method, `/v1${path}`, body)).body, 'data') as Json
    for (const alias of ['step-1', 'step-2']) await call('POST', '/templates', { ...TEMPLATE, alias, subject: 'Step' })
    const from = `ada@${INBOUND_DOMAIN}`
    const steps = [step(1, '0'), step(2, '1h')]
    const { id } = await call('POST', '/sequences', { name: 'W', from, event: 'begun', steps, status: 'active' })
    for (const name of ['gone', 'answers', 'away'])
      await call('POST', '/sequences/events', { name: 'begun', email: `${name}@receiver.test` })
    const emails = await eventually(async () => {
      const all = (await call('GET', '/emails')) as unknown as Json[]
      return all.filter(({ status }) => status === 'sent').length === 2 && all.length === 3 && all
    })
    const idOf = (name: string) => emails.find(({ to }) => String(to).includes(name))?.['id']
    const answer = (name: string, fields: string) => ({
      ...{ mailFrom: `${name}@receiver.test`, to: from },
      raw: `From: ${name}@receiver.test\r\nTo: ${from}\r\nSubject: Re: Step\r\nMessage-ID: <${name}@receiver.test>\r\n${fields}MIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nYes, please.\r\n--b--\r\n`,
    })
    await office.submit(
      answer('answers', `References: <x@receiver.test>\r\n\t<${idOf('answers')}@${INBOUND_DOMAIN}>\r\n`),
      answer('away', `In-Reply-To: <${idOf('away')}@${INBOUND_DOMAIN}>\r\nAuto-Submitted: auto-replied\r\n`),
    )
    await call('PUT', `/sequences/${id}`, { steps: [step(1, '0'), step(2, '1s')] })
    const people = await eventually(async () => {
      const all = (await call('GET', `/sequences/${id}/people`)) as unknown as Json[]
      return all.every(({ status }) => status !== 'active') && all
    })
    expect(
      people.map(({ email, status, reason }) => [String(email).split('@')[0], status, reason]).toReversed(),
    ).toEqual([
      ['gone', 'stopped', 'bounced'],
      ['answers', 'stopped', 'replied'],
      ['away', 'finished', null],
    ])
  })
})
