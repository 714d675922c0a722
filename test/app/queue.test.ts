import { expect, setDefaultTimeout, test } from 'bun:test'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { holdWithoutContent } from '#features/sending/delivery/verdict/held-mail.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'
import { createDataFolder, runTassis, runTassisJson } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

test('broadcast mail waits in a separate lane that names the domain', async () => {
  using data = createDataFolder()
  {
    await using service = await createTestApp({ dataDir: data.path })
    const { app } = service
    const actor = await createTestAccount(app)
    await createDomain(app, actor, 'sender.test')
    app.db.run('UPDATE domains SET verified_at = 1')
    for (const to of ['ann@receiver.test', 'bob@receiver.test'])
      await acceptEmail(
        app,
        actor,
        createDraft(app, { from: 'ada@sender.test', to, subject: 'Hi', text_body: 'Hi' }, undefined),
      )
    app.db.run("UPDATE recipients SET lane = 'bulk:1:receiver.test' WHERE address LIKE 'bob%'")
  }
  expect((await runTassis(['queue'], data.settings)).stdout).toMatch(/\nreceiver\.test \(2 lanes\) +2 +/)
  const { stdout } = await runTassis(['queue', '--all'], data.settings)
  expect(stdout).toContain('2 messages to 1 domain;')
  expect(stdout).toMatch(/\nreceiver\.test \(Test\) +1 +.*\nreceiver\.test \(broadcast of Test\) +1 +/)
  expect(await runTassisJson(['queue'], data.settings)).toMatchObject({
    waiting: 2,
    lane_count: 2,
    domain_count: 1,
    lanes: [
      { lane: '1:receiver.test', account: 'Test' },
      { lane: 'bulk:1:receiver.test', account: 'Test' },
    ],
  })
})

// Proves: storage-7
test('queue release releases mail that waited for its content and prints the number of messages', async () => {
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DELIVERY: 'capture' }
  {
    await using service = await createTestApp({ dataDir: data.path, settings: { TASSIS_DELIVERY: 'capture' } })
    const { app } = service
    const actor = await createTestAccount(app)
    await createDomain(app, actor, 'sender.test')
    const draft = createDraft(
      app,
      { from: 'ada@sender.test', to: 'ann@receiver.test', subject: 'Hi', text_body: 'Hi' },
      undefined,
    )
    await acceptEmail(app, actor, draft)
    const recipient = app.db
      .query<{ recipientId: number; emailId: number }, []>(
        'SELECT id AS recipientId, email_id AS emailId FROM recipients',
      )
      .get() ?? { recipientId: 0, emailId: 0 }
    await app.commit.write((tx) => holdWithoutContent(app, tx, recipient))
  }
  const [before, released, again] = [
    await runTassis(['queue'], settings),
    await runTassis(['queue', 'release'], settings),
    await runTassisJson(['queue', 'release'], settings),
  ]
  expect(before.stdout).toContain('deferred: Held without its content: The stored content of the email is missing')
  expect(released).toEqual({
    exitCode: 0,
    stdout: '1 message released; messages whose content is still missing are held again.\n',
    stderr: '',
  })
  expect(again).toEqual({ released: 0 })
})
