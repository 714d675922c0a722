import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { checkConsistency } from '#app/consistency-rules.ts'
import { applyEffects } from '#features/receiving/inbound/process/effects.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually, type TestAppOptions } from '#test/support/app.ts'
import { createTestReceived } from '#test/support/inbound.ts'
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
        text_body: '{{ contact.email }} {{ unsubscribe_url }}',
      },
      201,
    )
  return {
    ...service,
    call,
    /** An active sequence. */
    async sequence(body: Json): Promise<string> {
      const steps = [step(1, 0), step(2, '3d'), step(3, '2h')]
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

const step = (number: number, delay: number | string, id?: number): Json => ({
  ...(id !== undefined && { id }),
  delay,
  template_alias: `step-${number}`,
})

/** A separate connection, since the check leaves tables behind. */
function expectSound({ dataDir }: ConfirmingService): void {
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
    expect(JSON.parse(String(first?.['extra']))['metadata']).toEqual({ sequence_id: id, step_id: 1 })
    expect((await service.call('GET', `/sequences/${id}`))['steps']).toMatchObject(
      [1, 2, 3].map((step) => ({ id: step, sent: 1, delivered: 0, opened: 0, clicked: 0 })),
    )
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
    expect(await service.pass(days(4))).toEqual([])
    expect(await service.people(id)).toEqual([['bob@receiver.test', 'stopped', 'unsubscribed', 1]])
    expectSound(service)
  })

  // Proves: sequence-3
  test('stops at a reply, but not at an automatic one, at a suppression, an event, a removal and a removed contact', async () => {
    await using service = await createService()
    const { app, call } = service
    const id = await service.sequence({ event: 'signed_up', stop_event: 'purchased' })
    await service.enter('away@receiver.test')
    await service.pass(0)
    await service.reply(true)
    await service.enter('answers@receiver.test')
    await service.pass(0)
    await service.reply()
    for (const name of ['complains', 'buys', 'removed']) await service.enter(`${name}@receiver.test`)
    await service.pass(0)
    const address = 'complains@receiver.test'
    await app.commit.write((tx) =>
      suppress(app, tx, { accountId: service.actor.accountId, address, reason: 'complaint', covers: 'all' }),
    )
    expect(await service.enter('buys@receiver.test', 'purchased')).toEqual({ entered: 0, stopped: 1 })
    await call('DELETE', `/sequences/${id}/people/removed@receiver.test`, undefined, 204)
    expect(await service.pass(days(4))).toEqual(['Step 2 away'])
    expect(await service.pass(days(4))).toEqual(['Step 3 away'])
    expect(await service.people(id)).toEqual([
      ['away@receiver.test', 'finished', null, 3],
      ['answers@receiver.test', 'stopped', 'replied', 1],
      ['complains@receiver.test', 'stopped', 'complained', 1],
      ['buys@receiver.test', 'stopped', 'event', 1],
      ['removed@receiver.test', 'stopped', 'removed', 1],
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
    const id = await service.sequence({ event: 'signed_up', steps: [step(1, 0), step(2, '1d'), step(3, '1d')] })
    await service.enter('bob@receiver.test')
    await service.pass(0)
    expect(await service.pass(days(1))).toEqual(['Step 2 bob'])
    await service.enter('eve@receiver.test')
    expect(await service.pass(0)).toEqual(['Step 1 eve'])
    // Bob's last step goes, a step before it is new, and the delay of the next one is longer.
    const steps = [step(1, 0, 1), step(4, '1h'), step(3, '2d', 3)]
    const changed = await service.call('PUT', `/sequences/${id}`, { steps })
    expect((changed['steps'] as Json[]).map((one) => one['id'])).toEqual([1, 2, 3])
    expect(await service.pass(hours(1))).toEqual(['Step 4 eve'])
    expect(await service.pass(days(1))).toEqual([])
    expect(await service.pass(days(1))).toEqual(['Step 3 bob', 'Step 3 eve'])
    const answers = await Promise.all(
      [
        [step(3, 0, 3), step(1, 1, 1)],
        [step(1, 0, 9)],
        [step(9, 0)],
        [step(1, '9 weeks')],
        [step(1, 0), step(2, 0)],
      ].map((wrong) => service.api('PUT', `/v1/sequences/${id}`, { steps: wrong })),
    )
    expect(answers.map(({ status, body }) => [status, at(body, 'details', 0, 'field')])).toEqual([
      [422, 'steps.1.id'],
      [422, 'steps.0.id'],
      [422, 'steps.0.template_id'],
      [422, 'steps.0.delay'],
      [422, 'steps.1.delay'],
    ])
    expectSound(service)
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
  test('is paused with a reason, of which owners are told, when a template is gone or fails, and loses nobody', async () => {
    await using service = await createService()
    const { api, call } = service
    const id = await service.sequence({ event: 'signed_up' })
    await call('POST', '/sequences/events', { name: 'signed_up', email: 'bob@receiver.test' }, 202)
    const sent = await service.pass(0)
    expect(sent.map((subject) => subject.slice(0, 6))).toEqual(['A sequ'])
    expect(await call('GET', `/sequences/${id}`)).toMatchObject({
      status: 'paused',
      pause_reason: expect.stringMatching(/^Step 1 cannot be sent: .*contact\.name/),
    })
    const [template] = ((await call('GET', '/templates')) as unknown as Json[]).filter(
      ({ alias }) => alias === 'step-4',
    )
    await call('PUT', `/templates/${template?.['id']}`, { subject: 'Step 4' })
    const steps = [step(4, 0), step(1, '1d')]
    await call('PUT', `/sequences/${id}`, { steps, status: 'active' })
    expect(await service.pass(minutes(1))).toEqual(['Step 4 bob'])
    expect((await api('PUT', `/v1/sequences/${id}`, { steps: [], status: 'active' })).status).toBe(422)
    expect(await service.people(id)).toEqual([['bob@receiver.test', 'active', null, 1]])
    const person = await call('GET', '/gdpr/export?email=BOB@receiver.test')
    expect(person['sequences']).toMatchObject([{ sequence: 'Welcome', status: 'active', steps_sent: 1 }])
    const all = at((await api('GET', '/v1/account/export')).body, 'data') as Json
    expect([all['sequences'], all['sequence_people']]).toMatchObject([[{ id }], [{ sequence_id: id }]])
    // A person is deleted with its address, and the people of a deleted sequence in batches.
    await api('DELETE', '/v1/gdpr/erase?email=bob@receiver.test')
    await call('DELETE', `/sequences/${id}`, undefined, 204)
    await eventually(
      () => service.app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM sequences').get()?.n === 0,
    )
    expect(service.app.db.query('SELECT id FROM sequence_people').all()).toEqual([])
  })
})
