import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { checkContent } from '#app/cli/check.ts'
import { sweep } from '#features/core/content-gc/sweep.ts'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { days, MiB, minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { addContacts, createContacts, getOperation, newList } from '#test/support/broadcasts.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { endAttempts, rowsOf, SHORT, sizeFor } from './year.ts'

test('a broadcast loses its sources with its emails, and is removed after the last of them; its newsletter stays', async () => {
  await using service = await createEmailApi({ settings: { ...SHORT, TASSIS_MAX_BODY_BYTES: '1MiB' }, runsTasks: true })
  const { app, api, clock } = service
  const list = await newList(service, 'Readers')
  await addContacts(app, list, createContacts(50))
  const draft = await api('POST', '/v1/newsletters', {
    list_id: list,
    subject: 'News',
    from_address: 'ada@sender.test',
    html_body: '<p>Hello {{ contact.email }}</p>',
  })
  const newsletter = String(at(draft.body, 'data', 'id'))
  const sent = await api('POST', `/v1/newsletters/${newsletter}/send`)
  const operation = String(at(sent.body, 'data', 'operation_id'))
  // It is done after an attempt for each of its emails.
  await eventually(async () => {
    clock.advance(minutes(1))
    const lanes = app.db.query<{ lane: string }, []>('SELECT DISTINCT lane FROM recipients WHERE lane IS NOT NULL')
    for (const { lane } of lanes.all()) await endAttempts(service, lane, [{ kind: 'sent', reply: '250 OK' }])
    return (await getOperation(service, operation)).metadata.state === 'done'
  })
  const ref = app.db.query<{ ref: number }, []>('SELECT html_ref AS ref FROM broadcasts').get()?.ref ?? 0
  clock.advance(days(61))
  expect(await runRetention(app)).toMatchObject({ content: 51, logs: 0 })
  await sweep(app)
  expect(() => app.content.get(ref)).toThrow('missing')
  const email = at((await api('GET', '/v1/emails?per_page=1')).body, 'data', 0, 'id')
  expect(await service.detail(email)).toMatchObject({ html_body: null, text_body: null, status: 'sent' })
  expectBalanced(service)
  clock.advance(days(120))
  expect(await runRetention(app)).toMatchObject({ content: 0, logs: 50 })
  expect({
    emails: rowsOf(service, 'emails'),
    broadcasts: rowsOf(service, 'broadcasts'),
    counters: rowsOf(service, "counters WHERE metric LIKE 'broadcast:%'"),
    newsletter: at((await api('GET', `/v1/newsletters/${newsletter}`)).body, 'data'),
  }).toMatchObject({
    emails: 0,
    broadcasts: 0,
    counters: 0,
    newsletter: { status: 'sent', total_recipients: 50 },
  })
  expectBalanced(service)
})

test('over the limit, the sources of the oldest broadcast are removed with all of its emails', async () => {
  await using service = await createEmailApi({
    settings: { TASSIS_DATA_MAX_BYTES: sizeFor('content', MiB), TASSIS_MAX_BODY_BYTES: '4MiB' },
    runsTasks: true,
  })
  const { app, api, clock, dataDir } = service
  const list = await newList(service, 'Readers')
  await addContacts(app, list, createContacts(20))
  for (let issue = 0; issue < 3; issue++) {
    const sent = await api('POST', '/v1/emails/broadcast', {
      contact_list_id: list,
      subject: `Issue ${issue}`,
      from_address: 'ada@sender.test',
      html_body: `<p>${crypto.getRandomValues(new Uint8Array(450_000)).toHex()}</p>`,
    })
    const operation = String(at(sent.body, 'data', 'operation_id'))
    await eventually(async () => {
      clock.advance(minutes(1))
      const lanes = app.db.query<{ lane: string }, []>('SELECT DISTINCT lane FROM recipients WHERE lane IS NOT NULL')
      for (const { lane } of lanes.all()) await endAttempts(service, lane, [{ kind: 'sent', reply: '250 OK' }])
      return (await getOperation(service, operation)).metadata.state === 'done'
    })
    clock.advance(days(1))
  }
  const refs = app.db.query<{ ref: number }, []>('SELECT html_ref AS ref FROM broadcasts ORDER BY id').all()
  expect(await runRetention(app)).toMatchObject({ content: 21 })
  await sweep(app)
  expect(() => app.content.get(refs[0]?.ref ?? 0)).toThrow('missing')
  expect({
    broadcasts: rowsOf(service, 'broadcasts WHERE html_ref IS NOT NULL'),
    emails: rowsOf(service, 'emails WHERE html_ref IS NOT NULL'),
    sizes: refs.slice(1).map(({ ref }) => app.content.get(ref).length > 900_000),
  }).toEqual({ broadcasts: 2, emails: 40, sizes: [true, true] })
  using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
  expect(checkContent(db, join(dataDir, 'content')).filter(({ differences }) => differences.length > 0)).toEqual([])
  expectBalanced(service)
})
