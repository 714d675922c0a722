import { describe, expect, test } from 'bun:test'
import { days, hours, minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { ADDRESS, ask, type ConfirmingService, createConfirmingService, leave, sign } from './confirmation-fixture.ts'

const WELCOME = {
  double_opt_in: false,
  welcome_email_enabled: true,
  welcome_email_subject: 'Welcome to {{ list.name }}',
  welcome_email_text_body: 'Hello {{ contact.first_name }} ({{ contact.email }}).',
}

const WELCOMED = { from: 'no-reply@sender.test', to: ADDRESS, subject: 'Welcome to News' }

/** A list whose contacts are welcomed; not double opt-in. */
const createWelcomeList = (service: ConfirmingService, body: Record<string, unknown> = {}) =>
  service.list({ name: 'News', ...WELCOME, ...body })

const addContactNamed = (service: ConfirmingService, list: string, email = ADDRESS) =>
  service.add(list, { email, metadata: { first_name: 'Bob' } })

const change = async (service: ConfirmingService, list: string, body: Record<string, unknown>) => {
  const answer = await service.api('PUT', `/v1/contact-lists/${list}`, { name: 'News', ...body })
  if (answer.status !== 200) throw new Error(`not changed: ${JSON.stringify(answer.body)}`)
}

describe('a welcome', () => {
  // Proves: contact-18
  test('is sent after the delay of the list, as mail of the list, and shows in the contact', async () => {
    await using service = await createConfirmingService()
    const { clock, app } = service
    const list = await createWelcomeList(service, {
      welcome_email_delay_seconds: 3600,
      welcome_email_from_address: 'Ada <ada@sender.test>',
      welcome_email_text_body: '{{ contact.first_name }} {{ contact.email }} {{ contact.id }} {{ unsubscribe_url }}',
      welcome_email_html_body: '<p>{{ contact.metadata.first_name }}</p>',
    })
    await addContactNamed(service, list)
    const contact = await service.contact(list)
    clock.advance(hours(1) - 1)
    expect([service.waiting(), service.sent()]).toEqual([[{ kind: 'welcome', email: ADDRESS }], []])
    clock.advance(1)
    await service.drained()
    expect(service.sent()).toEqual([{ ...WELCOMED, from: 'Ada <ada@sender.test>' }])
    expect(await service.contact(list)).toEqual({
      ...contact,
      welcome_email_sent_at: new Date(clock.now()).toISOString(),
    })
    const stored = app.db
      .query<Record<string, unknown>, []>(
        'SELECT transactional, list_id AS listId, template_id AS templateId FROM emails',
      )
      .all()
    expect(stored).toEqual([{ transactional: 0, listId: service.rowOf(list), templateId: null }])
    const detail = await service.detail(at((await service.api('GET', '/v1/emails')).body, 'data', 0, 'id'))
    const [name, email, id, url] = String(detail['text_body']).split(' ')
    expect([name, email, id, detail['html_body']]).toEqual(['Bob', ADDRESS, String(contact['id']), '<p>Bob</p>'])
    // The unsubscribe link in the body belongs to the list, and does not refer to a row of the email.
    await fetch(`${service.url}${new URL(String(url)).pathname}`, { method: 'POST' })
    expect(await service.contact(list)).toMatchObject({ status: 'unsubscribed' })
    // The email is found nevertheless, so the event has the data for webhooks.
    const events = at((await service.api('GET', '/v1/events?types=unsubscribed')).body, 'data') as Record<
      string,
      unknown
    >[]
    expect(events.map((event) => [event['email_id'], at(event, 'raw_payload', 'list_id')])).toEqual([
      [detail['id'], list],
    ])
    const recipient = app.db.query('SELECT recipient_id AS id FROM events WHERE type = 12').get()
    expect(recipient).toEqual(app.db.query('SELECT id FROM recipients').get() as object)
    const suppressed = at((await service.api('GET', '/v1/suppressions')).body, 'data', 0, 'source_email_id')
    expect(suppressed).toBe(String(detail['id']))
  })

  test('that was scheduled while the clock was 40 days ahead is sent after its delay once the clock is right', async () => {
    await using service = await createConfirmingService()
    const { clock, app } = service
    await addContactNamed(service, await createWelcomeList(service, { welcome_email_delay_seconds: 3600 }))
    clock.jumpTo(clock.now() - days(40))
    const now = app.clock.now()
    await eventually(
      () => app.db.query<{ at: number }, []>('SELECT due_at AS at FROM notices').get()?.at === now + hours(1),
    )
    clock.advance(hours(1))
    await service.drained()
    expect(service.sent()).toEqual([WELCOMED])
  })

  test('is sent after the confirmation if one is needed, and never before', async () => {
    await using service = await createConfirmingService()
    const list = await createWelcomeList(service, { double_opt_in: true })
    await addContactNamed(service, list)
    const path = await service.link()
    service.clock.advance(days(3))
    await service.drained()
    expect(service.sent()).toHaveLength(1)
    await ask(service, 'POST', path)
    await service.drained()
    expect(service.sent().slice(1)).toEqual([WELCOMED])
  })

  // Proves: contact-18
  test('is sent once in the life of a contact, even when it leaves and resubscribes', async () => {
    await using service = await createConfirmingService()
    const list = await createWelcomeList(service)
    await addContactNamed(service, list)
    await service.drained()
    await leave(service, list)
    service.clock.advance(hours(1))
    await sign(service, list)
    await ask(service, 'POST', await service.link())
    expect(await service.contact(list)).toMatchObject({ status: 'active' })
    expect(service.waiting()).toEqual([])
    expect(service.sent().filter(({ subject }) => subject === WELCOMED.subject)).toHaveLength(1)
  })

  test('is not sent to a contact that left before it was due; one that resubscribed in time gets it', async () => {
    await using service = await createConfirmingService()
    const list = await createWelcomeList(service, { welcome_email_delay_seconds: 7200 })
    const ann = 'ann@receiver.test'
    await addContactNamed(service, list)
    await addContactNamed(service, list, ann)
    await leave(service, list)
    await leave(service, list, ann)
    await sign(service, list, { email: ann })
    await ask(service, 'POST', await service.link(ann))
    service.clock.advance(hours(2))
    await service.drained()
    expect(service.sent().slice(1)).toEqual([{ ...WELCOMED, to: ann }])
    expect(service.waiting()).toEqual([])
  })

  test('follows the current list when it is sent: changed texts, or none when it was disabled', async () => {
    await using service = await createConfirmingService()
    const list = await createWelcomeList(service, { welcome_email_delay_seconds: 60 })
    await addContactNamed(service, list)
    await change(service, list, { welcome_email_subject: 'Hi' })
    service.clock.advance(minutes(1))
    await service.drained()
    await addContactNamed(service, list, 'ann@receiver.test')
    await change(service, list, { welcome_email_enabled: false })
    service.clock.advance(minutes(1))
    await service.drained()
    expect(service.sent()).toEqual([{ ...WELCOMED, subject: 'Hi' }])
    expect(await service.contact(list, 'ann@receiver.test')).not.toHaveProperty('welcome_email_sent_at')
  })

  test('is not sent to a suppressed address, nor to a deleted contact or list', async () => {
    await using service = await createConfirmingService()
    const lists = [
      await createWelcomeList(service),
      await createWelcomeList(service, { name: 'Other' }),
      await createWelcomeList(service, { name: 'Gone' }),
    ]
    const [list = '', other = '', gone = ''] = lists
    for (const id of lists) await change(service, id, { name: id, welcome_email_delay_seconds: 60 })
    for (const id of lists) await addContactNamed(service, id, `${lists.indexOf(id)}@receiver.test`)
    await service.api('POST', '/v1/suppressions', { email_address: '0@receiver.test' })
    await service.api('DELETE', `/v1/contact-lists/${other}/contacts/1@receiver.test`)
    await service.api('DELETE', `/v1/contact-lists/${gone}`)
    service.clock.advance(minutes(1))
    await service.drained()
    expect([service.sent(), service.waiting()]).toEqual([[], []])
    expect(await service.contact(list, '0@receiver.test')).not.toHaveProperty('welcome_email_sent_at')
  })

  // Proves: contact-18
  test('that uses a template has the bodies of the template and the subject of the list, or else that of the template', async () => {
    await using service = await createConfirmingService()
    const template = await service.api('POST', '/v1/templates', {
      alias: 'welcome',
      name: 'Welcome',
      subject: 'From the template',
      html_body: '<b>{{ contact.email }}</b>',
    })
    const id = at(template.body, 'data', 'id')
    const list = await createWelcomeList(service, { welcome_email_template_id: id, welcome_email_subject: null })
    await addContactNamed(service, list)
    await service.drained()
    const other = await createWelcomeList(service, { name: 'Other', welcome_email_template_id: id })
    await addContactNamed(service, other)
    await service.drained()
    expect(service.sent().map(({ subject }) => subject)).toEqual(['From the template', 'Welcome to Other'])
    const sent = at((await service.api('GET', '/v1/emails')).body, 'data', 0, 'id')
    const { html_body, text_body, template_id } = await service.detail(sent)
    expect({ html_body, text_body, template_id }).toEqual({
      html_body: `<b>${ADDRESS}</b>`,
      text_body: null,
      template_id: id,
    })
  })

  const FAULTS: readonly (readonly [what: string, body: Record<string, unknown>, reason: string])[] = [
    [
      'whose data is missing',
      { welcome_email_text_body: 'Hello {{ contact.surname }}.' },
      'text_body, line 1: the variable "contact.surname" is missing',
    ],
    ['that gives an empty subject', { welcome_email_subject: '{% if false %}x{% endif %}' }, 'A subject is required'],
  ]
  test.each(FAULTS)('%s is given up immediately, with an audit row that says why', async (_, body, reason) => {
    await using service = await createConfirmingService()
    const list = await createWelcomeList(service, body)
    await addContactNamed(service, list)
    await service.drained()
    expect([service.sent(), service.waiting()]).toEqual([[], []])
    expect(service.audited('contact.welcome_failed')).toEqual([{ reason: expect.stringContaining(reason) }])
    const contact = await service.contact(list)
    expect(contact).toMatchObject({ status: 'active' })
    expect(contact).not.toHaveProperty('welcome_email_sent_at')
  })

  test('whose template was deleted is given up; only the first of very many failures are in the audit log', async () => {
    await using service = await createConfirmingService()
    const template = await service.api('POST', '/v1/templates', {
      alias: 'welcome',
      name: 'Welcome',
      subject: 'Hi',
      text_body: 'Hi',
    })
    const id = String(at(template.body, 'data', 'id'))
    const list = await createWelcomeList(service, { welcome_email_template_id: id })
    await service.api('DELETE', `/v1/templates/${id}`)
    await service.add(list, { contacts: Array.from({ length: 60 }, (_, n) => ({ email: `${n}@receiver.test` })) })
    await service.drained()
    expect(service.audited('contact.welcome_failed')).toEqual(
      Array.from({ length: 20 }, () => ({ reason: expect.stringContaining('was deleted') })),
    )
    expect([service.sent(), service.waiting()]).toEqual([[], []])
  })

  test('whose sender has lost its domain is retried with increasing delays, for three days', async () => {
    await using service = await createConfirmingService()
    const list = await createWelcomeList(service, { welcome_email_from_address: 'ada@sender.test' })
    service.app.db.run("UPDATE domains SET deleted_at = 1 WHERE domain = 'sender.test'")
    await addContactNamed(service, list)
    const began = service.clock.now()
    const row = () =>
      service.app.db
        .query<{ attempts: number; dueAt: number }, []>('SELECT attempts, due_at AS dueAt FROM notices')
        .all()[0]
    const after = (attempt: number) => eventually(() => [row()].find((found) => found?.attempts === attempt))
    const waits: number[] = []
    for (let attempt = 1; attempt < 20; attempt++) {
      const { dueAt } = await after(attempt)
      waits.push((dueAt - service.clock.now()) / minutes(1))
      service.clock.advance(dueAt - service.clock.now())
    }
    await eventually(() => row() === undefined)
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, ...Array.from({ length: 10 }, () => 360)])
    expect(Math.round((service.clock.now() - began) / days(1))).toBe(3)
    expect(service.audited('contact.welcome_failed')).toEqual([{ reason: expect.stringContaining('sender.test') }])
  })
})
