import { expect, test } from 'bun:test'
import { sweep } from '#features/core/content-gc/sweep.ts'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { days } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { createMailboxApi } from '#test/support/mailboxes.ts'
import { rowsOf, SHORT } from './year.ts'

test('received mail is removed at its age with its content, read or not, leased or not; younger mail stays', async () => {
  await using service = await createMailboxApi({ settings: SHORT })
  const { app, api, actor, clock, newMailbox, deliver, path } = service
  const domainId = app.db.query<{ id: number }, []>('SELECT id FROM domains ORDER BY id LIMIT 1').get()?.id ?? 0
  const mailbox = await newMailbox({ local_part: 'support' })
  for (const subject of ['first', 'second', 'third']) {
    await deliver(mailbox, { subject, text: `${subject} of all`, html: `<p>${subject}</p>` })
    await storeTestInbound(app, { accountId: actor.accountId, domainId })
  }
  const leased = await api('GET', path(mailbox, '/messages/next?timeout=0'))
  expect(leased.status).toBe(200)
  const refs = app.db
    .query<{ text: number; raw: number }, []>('SELECT text_ref AS text, raw_ref AS raw FROM mailbox_messages')
    .all()
  clock.advance(days(80))
  await deliver(mailbox, { subject: 'young', text: 'young of all' })
  await storeTestInbound(app, { accountId: actor.accountId, domainId })
  clock.advance(days(11))
  expect(await runRetention(app)).toMatchObject({ inbound: 6 })
  expectBalanced(service)
  const search = async (word: string) =>
    at((await api('GET', path(mailbox, `/messages/search?q=${word}`))).body, 'data')
  expect({
    messages: rowsOf(service, 'mailbox_messages'),
    threads: rowsOf(service, 'mailbox_threads'),
    inbound: rowsOf(service, 'inbound_emails'),
    found: await search('all'),
    counts: at((await api('GET', path(mailbox))).body, 'data'),
  }).toMatchObject({
    messages: 1,
    threads: 1,
    inbound: 1,
    found: [{ subject: 'young' }],
    counts: { message_count: 1, unread_count: 1 },
  })
  await sweep(app)
  for (const { text, raw } of refs) {
    expect(() => app.content.get(text)).toThrow(MissingBlobError)
    expect(() => app.rawMail.get(raw)).toThrow(MissingBlobError)
  }
})
