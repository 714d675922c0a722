/** @module Notices to owners, whatever they are about: who gets them, and that none is lost or repeated. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import { endFence, storeFence } from '#features/core/fence/restored.ts'
import { deleteNotice, findNotice, type OwnerNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { days } from '#platform/units.ts'
import { createDataFolder } from '#test/app/process.ts'
import { createTestApp, eventually } from '#test/support/app.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { createNoticeSender, listServiceMail } from '#test/support/notices.ts'

const NOTICE: OwnerNotice = {
  kind: 'test',
  intervalMs: 0,
  compose: (_, { name }, notices) => ({ subject: `Hi ${name}`, text: notices.map(({ topic }) => topic).join() }),
}

const schedule = (app: App, accountId: number, topic = 1) =>
  app.commit.write((tx) => scheduleNotice(app, tx, { accountId, kind: NOTICE.kind, topic, dueAt: app.clock.now() }))

// Proves: account-14
test('a notice whose process is killed before the mail is sent once by the next starts', async () => {
  using data = createDataFolder()
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'pause-and-die.ts'), data.path], { stderr: 'pipe' })
  await child.exited
  expect([child.signalCode, await child.stderr.text()]).toEqual(['SIGKILL', ''])
  for (let start = 0; start < 2; start++) {
    await using service = await createTestApp({ dataDir: data.path, runsTasks: true })
    const { app } = service
    await eventually(() => app.db.query('SELECT 1 FROM notices').all().length === 0)
    expect(listServiceMail(app).map(({ subject }) => subject)).toEqual(['Sending is paused on your account'])
  }
})

test('one mail has all that is due; an address that cannot get mail and a closed account keep no other from theirs', async () => {
  await using service = await createEmailApi()
  const { app, actor } = service
  const [broken, closed] = [await service.newAccount(), await service.newAccount()]
  app.db.run("UPDATE accounts SET email = 'no address' WHERE id = ?", [broken.accountId])
  app.db.run('UPDATE accounts SET disabled_at = 1 WHERE id = ?', [closed.accountId])
  for (const [topic, { accountId }] of [broken, closed, actor, actor].entries()) await schedule(app, accountId, topic)
  await createNoticeSender(app, NOTICE)()
  expect(listServiceMail(app).map(({ to, text }) => [to, text])).toEqual([['owner@tassis.test', '2,3']])
  expect([0, 1, 2, 3].map((topic) => findNotice(app.db, NOTICE.kind, topic)?.dueAt)).toEqual([
    app.clock.now() + days(1),
    undefined,
    undefined,
    undefined,
  ])
})

test('an account gets one mail of a kind within its interval', async () => {
  await using service = await createEmailApi()
  const { app, actor, clock } = service
  const sendDue = createNoticeSender(app, { ...NOTICE, intervalMs: 100 })
  const counts: number[] = []
  for (const waitMs of [0, 1, 98, 1]) {
    clock.advance(waitMs)
    await schedule(app, actor.accountId, waitMs)
    await sendDue()
    counts.push(listServiceMail(app).length)
  }
  expect(counts).toEqual([1, 1, 1, 2])
})

// Proves: send-9
test.each([
  ['after a day', NOTICE, days(1)],
  ['as soon as its kind says', { ...NOTICE, retryMs: 5000 }, 5000],
] as const)('a mail that no domain can send stays due, and is tried again %s', async (_, notice, retryMs) => {
  await using service = await createEmailApi()
  const { app, actor, clock } = service
  const sendDue = createNoticeSender(app, notice)
  const counts: number[] = []
  await schedule(app, actor.accountId)
  app.db.run('UPDATE domains SET verified_at = NULL')
  await sendDue()
  app.db.run('UPDATE domains SET verified_at = 1')
  for (const waitMs of [0, retryMs - 1, 1, retryMs]) {
    clock.advance(waitMs)
    await sendDue()
    counts.push(listServiceMail(app).length)
  }
  expect(counts).toEqual([0, 0, 1, 1])
})

test('a notice that is scheduled again while its mail is sent stays', async () => {
  await using service = await createEmailApi()
  const { app, actor, clock } = service
  await schedule(app, actor.accountId)
  const sent = findNotice(app.db, NOTICE.kind, 1)
  clock.advance(1)
  await schedule(app, actor.accountId)
  expect(sent && (await app.commit.write((tx) => deleteNotice(tx, sent)))).toBe(false)
  expect(findNotice(app.db, NOTICE.kind, 1)?.dueAt).toBe(clock.now())
})

test('notices from before a restored backup wait until its mail is released or dropped; later ones do not', async () => {
  await using service = await createEmailApi()
  const { app, actor } = service
  await schedule(app, actor.accountId, 1)
  const lastIds = { notices: findNotice(app.db, NOTICE.kind, 1)?.id ?? 0 }
  storeFence(app.db, { kind: 'backup', takenAt: null, fencedAt: 1, lastIds, released: [] })
  await schedule(app, actor.accountId, 2)
  const sendDue = createNoticeSender(app, NOTICE)
  await sendDue()
  expect(listServiceMail(app).map(({ text }) => text)).toEqual(['2'])
  endFence(app.db)
  await sendDue()
  expect(listServiceMail(app).map(({ text }) => text)).toEqual(['2', '1'])
})
